"""`agentos revise`: sends an item back with a note for both models, or has the user's edits reviewed."""

import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentos.cli import completion

if TYPE_CHECKING:
    from agentos.app.notes import Subject
    from agentos.config import Config

MAX_NOTE_BYTES = 100_000


@click.command("revise")
@click.argument("item", metavar="ID", shell_complete=completion.items)
@click.option("--note", help="Say what to change; both models get the note in the next run.")
@click.option("--note-file", type=click.Path(), help="Read the note from a file; - reads standard input.")
@click.option("--run", "run_now", is_flag=True, help="Run the item now.")
def revise(item: str, *, note: str | None, note_file: str | None, run_now: bool) -> int | None:
    """Send item ID back with a note, in any state. Without a note, have your edits reviewed."""
    from agentos.app.notes import check_note, find_subject, kept, send_back  # noqa: PLC0415
    from agentos.cli.invocation import program  # noqa: PLC0415
    from agentos.cli.project import open_project  # noqa: PLC0415
    from agentos.errors import UsageError  # noqa: PLC0415

    if note is not None and note_file is not None:
        raise UsageError("Use --note or --note-file, not both.")
    if note is not None and not note.strip():
        raise UsageError("The note is empty. Say what to change.")
    project = open_project()
    subject = find_subject(project.home, project.worktree, project.config.settings.folders, item)
    text = note if note is not None else _read_note(note_file, subject, project.config)
    check_note(text)
    send_back(project.home, subject, text)
    result = f"{subject.label}: {kept(text)}."
    if not run_now:
        click.echo(f"{result} To run it now:\n  {project.start(program())} {subject.command}")
        return None
    click.echo(result, err=True)
    from agentos.cli.workflow import run_workflow  # noqa: PLC0415

    flags = {"engine": "postgres"} if project.follows else {}
    return run_workflow(subject.workflow, (subject.item,), flags | ({"mock": True} if subject.mock else {}))


def _read_note(note_file: str | None, subject: "Subject", config: "Config") -> str:
    """Read the note from a file, from a pipe, or from the user's editor."""
    from agentos.errors import UsageError  # noqa: PLC0415
    from agentos.store.rooted_tree import read_named, why_unreadable  # noqa: PLC0415

    written = False
    if note_file not in {None, "-"}:
        try:
            data = read_named(Path(str(note_file)), MAX_NOTE_BYTES)
        except OSError as exc:
            raise UsageError(f"{note_file} {why_unreadable(exc)}.") from exc
    elif note_file == "-" or _is_piped():
        data = sys.stdin.buffer.read(MAX_NOTE_BYTES + 1)
    elif sys.stdin.isatty() and sys.stdout.isatty() and subject.needs_note:
        from agentos.cli.user_programs import edit  # noqa: PLC0415

        asked = f"\n\n# What should change in {subject.label}? Lines that start with # are ignored.\n"
        data, written = edit(asked, config, limit=MAX_NOTE_BYTES), True
    else:
        return ""
    if len(data) > MAX_NOTE_BYTES:
        raise UsageError(f"The note is larger than {MAX_NOTE_BYTES:,} bytes. Shorten it.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise UsageError(f"The note {why_unreadable(exc)}.") from exc
    if not written:
        return text
    return "\n".join(line for line in text.splitlines() if not line.startswith("# "))


def _is_piped() -> bool:
    """Whether standard input is a pipe or a file; a terminal or /dev/null is not."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)
