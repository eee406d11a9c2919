"""The colours of a run's lines: calm labels, and a verdict that can be seen from afar."""

import pytest

from agentos.console.line_colours import coloured
from agentos.console.screen import Paint


@pytest.mark.parametrize(
    ("line", "word", "colour"),
    [
        ("[LLD-1] review 1: APPROVED", "APPROVED", "green"),
        ("[LLD-1] review 2: REVISE, 2 findings", "REVISE", "yellow"),
        ("[LLD-1] review 2: DISCUSS, 1 finding", "DISCUSS", "yellow"),
        ("[LLD-1] review 12: UNREADABLE: it is empty", "UNREADABLE", "red"),
        ("[COORDINATOR] LLD-1: approved: docs/lld/active/LLD-1.md", "approved", "green"),
        ("[COORDINATOR] LLD-1: needs revision: no progress", "needs revision", "yellow"),
        ("[COORDINATOR] LLD-1: discuss: Why?", "discuss", "yellow"),
        ("[COORDINATOR] LLD-1: failed: no schema", "failed", "red"),
        ("[COORDINATOR] LLD-1: timed out after 5 s", "timed out", "red"),
        ("[COORDINATOR] LLD-1: interrupted", "interrupted", "cyan"),
    ],
)
def test_a_verdict_and_a_status_have_their_colour(line: str, word: str, colour: str) -> None:
    parts = coloured(line)
    assert "".join(map(str, parts)) == line
    assert [part for part in parts[1:] if isinstance(part, Paint)] == [Paint(word, fg=colour)]


@pytest.mark.parametrize(
    "line",
    [
        "[LLD-1] LLD-1: failed: says the item itself",
        "[COORDINATOR] review 1: APPROVED",
        "[COORDINATOR] key-1: rate limited; retrying in 5 s",
        "[COORDINATOR] LLD-1: failedly",
        "[LLD-1] ",
        "no prefix",
        "",
    ],
)
def test_nothing_else_has_one(line: str) -> None:
    parts = coloured(line)
    assert "".join(map(str, parts)) == line
    assert [part for part in parts[1:] if isinstance(part, Paint)] == []


def test_every_label_looks_the_same() -> None:
    looks = {str(coloured(f"[{name}] x")[0].fg) for name in ("LLD-1", "LLD-2", "COORDINATOR")}  # type: ignore[union-attr]
    assert looks == {"cyan"}
