"""Turn a backlog into reviewed specifications with LLMs, many items in parallel."""

__version__ = "0.1.0"
