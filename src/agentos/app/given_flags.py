"""The flags of a command, so that the next one can repeat them. Pure."""

from agentos.config import Config, Origin
from agentos.report.run_again import as_flag
from agentos.settings import FILES_ONLY, NAMES, about

# They are about one run's output or effects, not about what a run is.
_FOR_ONE_RUN = frozenset({"mock", "dry_run", "yes", "json", "verbose", "quiet"})


def given_flags(config: Config, *origins: Origin) -> tuple[str, ...]:
    """What was set in one of these ways and has a flag, one flag each; --mock wherever it was set."""
    settings = config.settings
    given = [
        flag
        for name in NAMES
        if config.sources[name].origin in origins
        and name not in _FOR_ONE_RUN
        and about(name).group != FILES_ONLY
        for flag in as_flag(name, getattr(settings, name))
    ]
    return ("--mock", *given) if settings.mock else tuple(given)
