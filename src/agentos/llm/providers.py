"""Maps a provider's name to its implementation; each is imported only when it is used."""

from collections.abc import Collection, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from agentos.errors import ConfigError
from agentos.model_access import COMMAND_PROVIDERS, known_providers, no_provider, provider_of

if TYPE_CHECKING:
    from agentos.llm.provider import Provider
    from agentos.wire import Job, ProviderAccess

# What a worker imports to use a provider of a kind, and the class in it.
MODULES = {
    "mock": "agentos.llm.mock",
    "openai": "agentos.llm.openai",
    "anthropic": "agentos.llm.anthropic",
    "gemini": "agentos.llm.gemini",
    "claude-cli": "agentos.llm.command",
    "gemini-cli": "agentos.llm.command",
}
_CLASSES = {"openai": "OpenAI", "anthropic": "Anthropic", "gemini": "Gemini"}


def check_provider(
    model: str, worktree: Path | None, environment: Mapping[str, str], named: Collection[str] = ()
) -> None:
    """Refuse a model whose provider does not exist or cannot work, before any work."""
    provider, name = provider_of(model), model.partition(":")[2]
    if provider not in known_providers(named):
        raise ConfigError(f"Model {model!r}: {no_provider(provider, named)}")
    if provider in COMMAND_PROVIDERS:
        import_module(MODULES[provider]).check_command(provider, name, worktree, environment)


def make_provider(name: str, job: "Job", *, call_timeout: float) -> "Provider":
    """Make the provider for one job."""
    worktree = Path(job.worktree)
    if name != "mock":
        return real_provider(name, job.providers.get(name), call_timeout=call_timeout, worktree=worktree)
    module = import_module(MODULES[name])
    made: Provider = module.MockProvider(
        module.parse_script(job.item.whole or job.item.text),
        kind="issue" if job.item.workflow == "issue" else "lld",
        item_id=job.item.id,
        title=job.item.title,
        shell_allowed=job.mock_shell,
        worktree=worktree,
    )
    return made


def real_provider(
    name: str, access: "ProviderAccess | None", *, call_timeout: float, worktree: Path
) -> "Provider":
    """Make a provider that calls a real model; the mock needs a job. Without `access`, it is a program."""
    made: Provider
    if access is None:
        module = import_module(MODULES[name])
        made = module.CommandProvider(name, call_timeout=call_timeout, worktree=worktree)
    else:
        module = import_module(MODULES[access.kind])
        made = getattr(module, _CLASSES[access.kind])(access.base_url, call_timeout=call_timeout, via=access)
    return made
