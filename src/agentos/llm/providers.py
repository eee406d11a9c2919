"""From a provider's name to its implementation; each is imported only where it is used."""

from typing import TYPE_CHECKING

from agentos.errors import ConfigError

if TYPE_CHECKING:
    from agentos.llm.provider import Provider
    from agentos.wire import Job

MODULES = {"mock": "agentos.llm.mock"}  # what a worker imports to use a provider
KNOWN = tuple(MODULES)


def check_provider(model: str) -> None:
    """Refuse a model whose provider is not there, before any work."""
    provider = model.partition(":")[0]
    if provider not in KNOWN:
        raise ConfigError(
            f"Model {model!r}: this version has no provider {provider!r}. There are: {', '.join(KNOWN)}. "
            "Use --mock to work offline."
        )


def make_provider(name: str, job: "Job") -> "Provider":
    """Make the provider for one job."""
    from agentos.llm.mock import MockProvider, parse_script  # noqa: PLC0415

    assert name in KNOWN, name
    return MockProvider(
        parse_script(job.item.text),
        kind="issue" if job.item.workflow == "issue" else "lld",
        item_id=job.item.id,
        title=job.item.title,
        shell_allowed=job.mock_shell,
    )
