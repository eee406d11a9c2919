"""Which settings hold, who set them, and what is wrong with a file or variable."""

import difflib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from shlex import quote

from agentos import settings
from agentos.config import Config, Origin
from agentos.doctor.check import Check, State
from agentos.errors import AgentosError

CLOSE = 0.88  # how alike a variable's name must be to a setting's to be a slip of the finger


def failed(error: AgentosError, worktree: Path | None, user_file: Path | None) -> Check:
    """Say where a setting is wrong, and how to get there."""
    text = str(error)
    places = [] if worktree is None else [worktree / "agentos.toml", worktree / "pyproject.toml"]
    places += [] if user_file is None else [user_file]
    named = [place for place in places if str(place) in text]
    if variable := re.match(r"AGENTOS_\w+", text):
        fix = f"unset {variable[0]}"
    elif not named:
        fix = "agentos config"
    elif named[0].exists():
        fix = f"edit {named[0]}"
    else:
        fix = f"agentos --config {quote(str(named[0]))} init --user"
    return Check(section="configuration", name="settings", state=State.PROBLEM, text=text, fix=fix)


def check_configuration(
    config: Config, worktree: Path | None, user_file: Path | None, environment: Mapping[str, str]
) -> Iterator[Check]:
    """Show the files read, what differs from the defaults, and what was ignored."""
    if user_file is not None and user_file.is_file():
        yield Check(section="configuration", name="your file", text=str(user_file))
    else:
        yield Check(
            section="configuration",
            name="your file",
            text=f"none; it would be {user_file}" if user_file else "none",
            fix="agentos init --user",
        )
    if worktree is not None:
        own = worktree / "agentos.toml"
        by_repo = [source.name for source in config.sources.values() if source.origin is Origin.REPO]
        other = f"[tool.agentos] in {worktree / 'pyproject.toml'}" if by_repo else "none"
        yield Check(section="configuration", name="repo's file", text=str(own) if own.is_file() else other)
    for name, source in config.sources.items():
        if source.origin is not Origin.DEFAULT:
            value = getattr(config.settings, name)
            shown = ", ".join(map(str, value)) if isinstance(value, tuple) else value
            where = source.name.removeprefix(f"{name} in ")
            yield Check(section="configuration", name=name, text=f"{shown} ({source.origin.value}: {where})")
    for warning in config.warnings:
        yield Check(
            section="configuration",
            name="ignored",
            state=State.WARNING,
            text=warning,
            fix=f"take it out of that file; what is yours to set stands in {user_file or 'your own file'}",
        )
    yield from _slips(environment)


def _slips(environment: Mapping[str, str]) -> Iterator[Check]:
    known = [settings.variable_of(name) for name in settings.NAMES]
    for name in sorted(environment):
        if name.startswith("AGENTOS_") and name not in known:
            for meant in difflib.get_close_matches(name, known, 1, CLOSE):
                yield Check(
                    section="configuration",
                    name=name,
                    state=State.WARNING,
                    text=f"{name} is no setting and means nothing; {meant} is one.",
                    fix=f'unset {name}; export {meant}="..."',
                )
