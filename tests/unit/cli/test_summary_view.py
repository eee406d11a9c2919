"""The end of a run on a screen: rows and overlaps that fit."""

from typing import Any

import pytest

from agentos.cli.summary_view import overlap_line, row_lines
from agentos.model import Status
from agentos.report.overlaps import Overlap
from agentos.report.summary import ItemRow

LONG = "ISSUE-retry-failed-webhooks-with-exponential-backoff"


def row(number: int, status: Status, **more: Any) -> ItemRow:
    told: dict[str, Any] = {"id": str(number), "label": f"LLD-{number}", "attempts": 1}
    return ItemRow(status=status, **told | more)


@pytest.mark.parametrize("width", [60, 80, 100])
def test_rows_with_long_labels_show_status_reviews_time_and_some_of_the_result(width: int) -> None:
    rows = [
        row(1, Status.APPROVED, label=LONG, reviews=2, seconds=12.3, output=f"issues/active/{LONG}.md"),
        row(2, Status.NEEDS_REVISION, reviews=5, seconds=1234.5, error="the review asks for the same again"),
        row(3, Status.SKIPPED, label="ISSUE-" + "x" * 62, reason="approved before"),
    ]
    lines = ["".join(map(str, line)) for line in row_lines(rows, width=width)]
    assert max(map(len, lines)) <= width
    assert len(lines[0].split()[0]) <= width // 3
    assert "approved        2 reviews    12.3 s  …" in lines[0]
    assert lines[0].endswith("backoff.md")
    assert "needs revision  5 reviews  1234.5 s  the revi" in lines[1]
    assert "skipped                       0.0 s  approved" in lines[2]


def test_rows_are_whole_where_nothing_limits_them() -> None:
    rows = [row(1, Status.APPROVED, label=LONG, reviews=1, seconds=1.0, output=f"issues/active/{LONG}.md")]
    for width in (None, 200):
        [line] = row_lines(rows, width=width)
        assert "".join(map(str, line)) == f"  {LONG}  approved  1 review  1.0 s  issues/active/{LONG}.md"
    assert row_lines([], width=80) == []


@pytest.mark.parametrize("width", [60, 80])
def test_an_overlap_names_the_file_first_and_fits(width: int) -> None:
    overlap = Overlap(items=tuple(f"LLD-{n}" for n in range(1, 15)), files=("src/x.py",))
    line = overlap_line(overlap, width=width)
    assert line.startswith("  src/x.py: changed by LLD-1, LLD-2, ")
    assert line.endswith(" more")
    assert len(line) <= width
    assert overlap_line(overlap, width=None).endswith("LLD-13, LLD-14")
    many = Overlap(items=(LONG, LONG + "-2"), files=("src/" + "deep/" * 20 + "x.py", "b.py", "c.py"))
    assert len(overlap_line(many, width=width)) <= width
