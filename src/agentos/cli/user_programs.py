"""The user's own programs: the browser and the editor, as named by BROWSER, VISUAL and EDITOR."""

import os
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from agentos import programs
from agentos.config import Config
from agentos.errors import UsageError

# Tried if BROWSER names none; the desktop's default first.
_BROWSERS = (
    ("xdg-open",),
    ("gio", "open"),
    ("x-www-browser",),
    ("firefox",),
    ("google-chrome",),
    ("chromium",),
    ("chromium-browser",),
)
_EDITORS = ("sensible-editor", "vim", "nano", "vi")


def open_page(address: str, config: Config) -> bool:
    """Open a page in the browser; False if none could be started."""
    environment = _environment(config)
    for words in _browsers(config.environment):
        program = programs.find_program(words[0], config.environment, config.worktree)
        if program is not None and programs.launch([program, *_with(words[1:], address)], environment):
            return True
    return False


def edit(text: str, config: Config, *, limit: int) -> bytes:
    """Let the user write in the editor; return what was saved, at most one byte more than the limit."""
    command = _editor(config)
    with tempfile.TemporaryDirectory(prefix="agentos-") as folder:
        path = Path(folder, "note.md")
        path.write_text(text, "utf-8")
        try:
            code = programs.attend([*command, str(path)], _environment(config))
            with path.open("rb") as file:
                written = file.read(limit + 1)
        except OSError as exc:
            raise UsageError(f"The editor {command[0]} failed: {exc.strerror or exc}. Use --note.") from exc
    if code != 0:
        raise UsageError(f"The editor {command[0]} failed with exit code {code}. Nothing was changed.")
    return written


def _environment(config: Config) -> dict[str, str]:
    return programs.personal_environment(config.environment, config.worktree, keys=config.key_variables)


def _browsers(environment: Mapping[str, str]) -> Iterator[Sequence[str]]:
    for one in environment.get("BROWSER", "").split(os.pathsep):
        try:
            words = [word for word in shlex.split(one) if word != "&"]
        except ValueError:
            continue
        if words:
            yield words
    if sys.platform == "darwin":
        yield ("/usr/bin/open",)
    elif environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"):
        yield from _BROWSERS


def _with(words: Sequence[str], address: str) -> list[str]:
    if any("%s" in word for word in words):
        return [word.replace("%s", address) for word in words]
    return [*words, address]


def _editor(config: Config) -> list[str]:
    """The editor's program and its arguments."""
    environment, worktree = config.environment, config.worktree
    name = next((one for one in ("VISUAL", "EDITOR") if environment.get(one, "").strip()), None)
    if name is None:
        found = (programs.find_program(one, environment, worktree) for one in _EDITORS)
        program = next((one for one in found if one is not None), None)
        if program is None:
            raise UsageError('No editor found. Set EDITOR, or use --note "...".')
        return [program]
    try:
        words = shlex.split(environment[name])
    except ValueError as exc:
        raise UsageError(f"{name} is {environment[name]!r}: {exc}. Correct it, or use --note.") from exc
    program = programs.find_program(words[0], environment, worktree) if words else None
    if program is None:
        raise UsageError(
            f"{name} is {environment[name]!r}: no such program outside the project. "
            'Correct it, or use --note "...".'
        )
    return [program, *words[1:]]
