"""`agentos verdict`: parses review documents strictly and prints the result."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentos.console.screen import json_text

MAX_DOCUMENT_BYTES = 50_000_000

if TYPE_CHECKING:
    from agentos.review import ParsedReview


@click.command("verdict")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object for one file, a list for several."
)
def verdict(files: tuple[Path, ...], *, as_json: bool) -> int:
    """Read review documents and print verdict, findings and questions. Exit 1 if one is UNREADABLE."""
    from agentos.errors import Exit, UsageError  # noqa: PLC0415
    from agentos.review import ParsedReview, Verdict, read_document  # noqa: PLC0415
    from agentos.store.rooted_tree import read_named  # noqa: PLC0415

    readings: list[ParsedReview] = []
    for path in files:
        try:
            data = read_named(path, MAX_DOCUMENT_BYTES)
        except OSError as exc:
            raise UsageError(f"Cannot read {path}: {exc.strerror or exc}.") from exc
        try:
            readings.append(read_document(data.decode("utf-8-sig")))
        except UnicodeDecodeError:
            readings.append(ParsedReview.unreadable(f"{path.name} is not UTF-8 text"))
    if as_json:
        found = [reading.as_dict() for reading in readings]
        click.echo(json_text(found[0] if len(found) == 1 else found))
    else:
        for path, reading in zip(files, readings, strict=True):
            _show(path, reading, named=len(files) > 1)
    return Exit.FAILED if any(one.verdict is Verdict.UNREADABLE for one in readings) else Exit.OK


def _show(path: Path, reading: "ParsedReview", *, named: bool) -> None:
    from agentos.console.lines import visible  # noqa: PLC0415

    click.echo((f"{path}: " if named else "") + reading.verdict.value)
    if reading.reason:
        click.echo(f"  reason: {visible(reading.reason)}")
    for finding in reading.findings:
        text = " ".join(f"{finding.title}: {finding.text}".removeprefix(": ").split())
        click.echo(f"  Tier {finding.tier} {finding.category}: {visible(text)[:200]}")
    for question in reading.questions:
        click.echo(f"  question: {visible(question)}")
