"""Checks the settings: which values are in use, where they were set, and what is wrong with them."""

import difflib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from shlex import quote

from agentos import settings
from agentos.config import Config, Origin
from agentos.doctor.check import Check, State
from agentos.errors import AgentosError

CLOSE = 0.88  # similarity from which a variable's name counts as a typo of a setting's


def failed(error: AgentosError, worktree: Path | None, user_file: Path | None) -> Check:
    """Say which setting is wrong, and how to get to it."""
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
    """Show the files that were read, the values that are not defaults, and what was ignored."""
    if user_file is not None and user_file.is_file():
        yield Check(section="configuration", name="your file", text=str(user_file))
    else:
        creates = f"; 'agentos init --user' creates {user_file}" if user_file else ""
        yield Check(section="configuration", name="your file", text=f"none (optional){creates}")
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
            fix=f"remove it from that file; set it in {user_file or 'your configuration file'} instead",
        )
    yield from _typos(environment)


def _typos(environment: Mapping[str, str]) -> Iterator[Check]:
    known = [settings.variable_of(name) for name in settings.NAMES]
    for name in sorted(environment):
        if name.startswith("AGENTOS_") and name not in known:
            for meant in difflib.get_close_matches(name, known, 1, CLOSE):
                yield Check(
                    section="configuration",
                    name=name,
                    state=State.WARNING,
                    text=f"{name} is not a setting and has no effect. Did you mean {meant}?",
                    fix=f'unset {name}; export {meant}="..."',
                )
