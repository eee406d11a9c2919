"""Where a provider's cache may reuse the start of a prompt, and how each format is told. Pure."""

import hashlib
from typing import Any

from agentos.llm.provider import ModelRequest

MARKS_MOST = 4  # that Anthropic accepts in one request
SHORTEST_PREFIX = 1_024  # tokens; nothing shorter is cached
_LETTERS = 4  # per token, roughly
_EPHEMERAL = {"type": "ephemeral"}


def marked_content(request: ModelRequest) -> str | list[dict[str, Any]]:
    """The prompt as Anthropic gets it: in blocks, of which those that end a reusable part are marked."""
    ends = [end for end in _ends(request) if _is_long(request, end)][-MARKS_MOST:]
    if not ends:
        return request.prompt
    blocks: list[dict[str, Any]] = []
    start = 0
    for end in ends:
        blocks.append({"type": "text", "text": request.prompt[start:end], "cache_control": _EPHEMERAL})
        start = end
    return [*blocks, {"type": "text", "text": request.prompt[start:]}]


def cache_key(request: ModelRequest) -> str | None:
    """The key that brings calls with the same start to the same cache of OpenAI; None if there is none."""
    end = next(iter(_ends(request)), None)
    if end is None:
        return None
    shared = "\0".join((request.model, request.role, request.system, request.prompt[:end]))
    return f"agentos-{hashlib.sha256(shared.encode('utf-8', errors='replace')).hexdigest()[:32]}"


def _ends(request: ModelRequest) -> list[int]:
    """Where parts end, in order; a block must not be empty."""
    return sorted({end for end in request.breaks if 0 < end < len(request.prompt)})


def _is_long(request: ModelRequest, end: int) -> bool:
    return (len(request.system) + end) // _LETTERS >= SHORTEST_PREFIX
