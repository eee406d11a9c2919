"""Maps a provider's name to its implementation; each is imported only when it is used."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from agentos.errors import ConfigError

if TYPE_CHECKING:
    from agentos.llm.provider import Provider
    from agentos.wire import Job

# What a worker imports to use a provider, and the class in it.
MODULES = {
    "mock": "agentos.llm.mock",
    "openai": "agentos.llm.openai",
    "anthropic": "agentos.llm.anthropic",
    "gemini": "agentos.llm.gemini",
    "claude-cli": "agentos.llm.command",
    "gemini-cli": "agentos.llm.command",
}
COMMAND_PROVIDERS = frozenset({"claude-cli", "gemini-cli"})  # programs with their own login instead of a key
_CLASSES = {"openai": "OpenAI", "anthropic": "Anthropic", "gemini": "Gemini"}


def check_provider(model: str, worktree: Path | None, environment: Mapping[str, str]) -> None:
    """Refuse a model whose provider does not exist or cannot work, before any work."""
    provider, _, name = model.partition(":")
    if provider not in MODULES:
        raise ConfigError(
            f"Model {model!r}: there is no provider {provider!r}. Choose one of {', '.join(MODULES)}."
        )
    if provider in COMMAND_PROVIDERS:
        import_module(MODULES[provider]).check_command(provider, name, worktree, environment)


def make_provider(name: str, job: "Job") -> "Provider":
    """Make the provider for one job."""
    worktree = Path(job.worktree)
    if name != "mock":
        base_url = job.base_urls.get(name)
        return real_provider(name, base_url=base_url, call_timeout=job.call_timeout, worktree=worktree)
    module = import_module(MODULES[name])
    made: Provider = module.MockProvider(
        module.parse_script(job.item.text),
        kind="issue" if job.item.workflow == "issue" else "lld",
        item_id=job.item.id,
        title=job.item.title,
        shell_allowed=job.mock_shell,
        worktree=worktree,
    )
    return made


def real_provider(name: str, *, base_url: str | None, call_timeout: float, worktree: Path) -> "Provider":
    """Make a provider that calls a real model; the mock needs a job."""
    module = import_module(MODULES[name])
    made: Provider
    if name in COMMAND_PROVIDERS:
        made = module.CommandProvider(name, call_timeout=call_timeout, worktree=worktree)
    else:
        made = getattr(module, _CLASSES[name])(base_url, call_timeout=call_timeout)
    return made
