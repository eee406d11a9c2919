"""The summary: exit codes by rank, the perfect scheduler's time, and the keys that scripts read."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from agentos.coordinator.scheduler import Stop
from agentos.errors import Exit
from agentos.model import Status
from agentos.report.summary import (
    ItemRow,
    KeyRow,
    Summary,
    as_markdown,
    exit_code,
    overhead_percent,
    perfect_seconds,
)

STEADY = settings(derandomize=True, database=None, deadline=None)


def row(item_id: str = "42", status: Status = Status.APPROVED, **more: Any) -> ItemRow:
    return ItemRow(id=item_id, label=f"LLD-{item_id}", status=status, **more)


def summary(*rows: ItemRow, **more: Any) -> Summary:
    values: dict[str, Any] = {
        "run_id": "2026-01-01T00-00-00Z",
        "workflow": "lld",
        "parallel": 3,
        "started_at": "2026-01-01T00:00:00.000Z",
        "finished_at": "2026-01-01T00:01:00.000Z",
        "wall_seconds": 60.0,
        "exit_code": 0,
        "stopped": None,
        "items": rows,
        "keys": (
            KeyRow(
                id="key-1",
                provider="openai",
                group="g",
                state="available",
                calls=3,
                rate_limited=1,
                tokens_in=10,
                tokens_out=20,
            ),
        ),
        "coordination_overhead_percent": 1.5,
        "folder": "/home/x",
    }
    return Summary(**(values | more))


# Exit codes.


@pytest.mark.parametrize(
    ("statuses", "stopped", "code"),
    [
        ([], None, 0),
        ([Status.APPROVED], None, 0),
        ([Status.APPROVED, Status.SKIPPED], None, 0),
        ([Status.APPROVED, Status.NEEDS_REVISION], None, 3),
        ([Status.DISCUSS], None, 3),
        ([Status.FAILED], None, 1),
        ([Status.TIMED_OUT, Status.APPROVED], None, 1),
        ([Status.FAILED, Status.DISCUSS], None, 1),
        ([Status.FAILED, Status.PENDING], "fail_fast", 1),
        ([Status.FAILED, Status.PAUSED], "budget", 5),
        ([Status.FAILED, Status.PAUSED], "quota", 75),
        ([Status.FAILED, Status.INTERRUPTED], "run_timeout", 75),
        ([Status.FAILED, Status.PAUSED], "outage", 75),
        ([Status.FAILED, Status.PAUSED], "misconfigured", 2),
        ([Status.FAILED, Status.PAUSED], "no_key", 4),
        ([Status.FAILED, Status.INTERRUPTED], "interrupted", 130),
        ([Status.FAILED, Status.INTERRUPTED], "terminated", 143),
        ([Status.APPROVED], "interrupted", 130),
        ([Status.APPROVED], "storage", 1),
    ],
)
def test_the_strongest_reason_gives_the_exit_code(
    statuses: list[Status], stopped: str | None, code: int
) -> None:
    assert exit_code(statuses, stopped) == code


def test_of_any_mixture_the_highest_in_rank_holds() -> None:
    by_rank = [(1, Status.FAILED), (1, Status.TIMED_OUT), (3, Status.NEEDS_REVISION), (3, Status.DISCUSS)]
    for size in range(1, len(by_rank) + 1):
        for chosen in itertools.permutations(by_rank, size):
            statuses = [Status.APPROVED, *(status for _, status in chosen)]
            assert exit_code(statuses, None) == min(code for code, _ in chosen)
            assert exit_code(statuses, "budget") == 5


@pytest.mark.parametrize("stop", [stop for stop in Stop if stop is not Stop.FAIL_FAST])
def test_every_stop_has_an_exit_code_of_its_own_that_is_no_success(stop: Stop) -> None:
    assert exit_code([Status.APPROVED, Status.PENDING], stop.value) is not Exit.OK


@pytest.mark.parametrize("status", [Status.INTERRUPTED, Status.PAUSED, Status.PENDING])
def test_an_item_that_is_not_finished_is_never_a_success(status: Status) -> None:
    assert exit_code([Status.APPROVED, status], None) is not Exit.OK


# The perfect scheduler.


@pytest.mark.parametrize(
    ("busy", "slots", "seconds"),
    [
        ([], 3, 0.0),
        ([5.0], 3, 5.0),
        ([2.0] * 6, 3, 4.0),
        ([2.0] * 6, 1, 12.0),
        ([2.0] * 7, 3, 6.0),
        ([1.0, 1.0, 4.0], 2, 5.0),
        ([4.0, 1.0, 1.0], 2, 4.0),
        ([1.0, 2.0], 99, 2.0),
    ],
)
def test_the_perfect_scheduler_takes_the_items_in_order_as_slots_come_free(
    busy: list[float], slots: int, seconds: float
) -> None:
    assert perfect_seconds(busy, slots) == seconds


@STEADY
@given(busy=st.lists(st.integers(0, 1000).map(float), max_size=30), slots=st.integers(1, 8))
def test_the_perfect_time_lies_between_the_bounds_of_any_scheduler(busy: list[float], slots: int) -> None:
    best = perfect_seconds(busy, slots)
    longest = max(busy, default=0.0)
    assert max(longest, sum(busy) / slots) <= best <= sum(busy) / slots + longest
    assert perfect_seconds(busy, 1) == sum(busy)


@pytest.mark.parametrize(
    ("wall", "busy", "slots", "percent"),
    [(4.4, [2.0] * 6, 3, 10.0), (4.0, [2.0] * 6, 3, 0.0), (1.0, [], 3, None), (1.0, [0.0, 0.0], 3, None)],
)
def test_the_overhead_is_the_time_beyond_the_perfect_and_unknown_where_nothing_was_done(
    wall: float, busy: list[float], slots: int, percent: float | None
) -> None:
    assert overhead_percent(wall, busy, slots) == percent


# As data.

SUMMARY_KEYS = {
    "schema_version", "run_id", "workflow", "mock", "source", "parallel", "started_at", "finished_at",
    "wall_seconds", "exit_code", "stopped", "totals", "skipped", "cost_usd", "needed_budget",
    "needed_item_budget", "items", "keys", "overlaps", "trace_id", "coordination_overhead_percent", "folder",
}  # fmt: skip
ITEM_KEYS = {
    "id", "label", "status", "verdict", "reviews", "attempts", "seconds", "waited_seconds", "tokens_in",
    "tokens_out", "tokens_cached", "tokens_reasoning", "cost_usd", "error", "reason", "output", "filing",
    "log", "checkpoint", "findings", "questions", "dropped",
}  # fmt: skip
KEY_KEYS = {
    "id",
    "provider",
    "group",
    "state",
    "calls",
    "rate_limited",
    "tokens_in",
    "tokens_out",
    "tokens_cached",
}
FINDING = {
    "tier": 1,
    "category": "Cost",
    "title": "No limit",
    "text": "It grows.",
    "recommendation": "Cap it.",
}


def as_json(*rows: ItemRow, **more: Any) -> Any:
    return json.loads(json.dumps(summary(*rows, **more).as_dict()))


def test_the_json_has_exactly_the_keys_that_scripts_read() -> None:
    """A new key is added here and to the docs; removing one raises schema_version."""
    data = as_json(row(), row("43", Status.FAILED, error="broken"))
    assert data.keys() == SUMMARY_KEYS
    assert all(item.keys() == ITEM_KEYS for item in data["items"])
    assert all(key.keys() == KEY_KEYS for key in data["keys"])
    assert data["schema_version"] == 1
    assert data["items"][0]["id"] == "42"
    assert data["items"][0]["label"] == "LLD-42"
    assert data["items"][1]["status"] == "failed"
    assert data["items"][1]["error"] == "broken"


def test_findings_are_a_list_and_the_mock_is_told() -> None:
    data = as_json(row(), row("43", Status.NEEDS_REVISION, findings=(FINDING,)), mock=True)
    assert [item["findings"] for item in data["items"]] == [[], [FINDING]]
    assert data["mock"] is True
    assert as_json()["mock"] is False


@pytest.mark.parametrize(
    ("statuses", "skipped", "told"),
    [
        ([Status.APPROVED] * 3 + [Status.SKIPPED] * 7, 7, "3 approved; 7 skipped"),
        (
            [Status.SKIPPED, Status.NEEDS_REVISION, Status.APPROVED],
            1,
            "1 approved, 1 needs revision; 1 skipped",
        ),
        ([Status.SKIPPED] * 2, 2, "2 skipped"),
        ([Status.FAILED], 0, "1 failed"),
        ([], 0, ""),
    ],
)
def test_skipped_items_are_counted_apart(statuses: list[Status], skipped: int, told: str) -> None:
    rows = [row(str(number), status) for number, status in enumerate(statuses)]
    assert as_json(*rows)["skipped"] == skipped
    assert summary(*rows).totals_in_words() == told
    assert (told or "no items") in as_markdown(summary(*rows))


def test_an_unknown_cost_is_null_and_not_zero() -> None:
    data = json.loads(json.dumps(summary(row(cost_usd=None)).as_dict()))
    assert data["items"][0]["cost_usd"] is None


def test_totals_count_the_items_of_each_status_that_there_is() -> None:
    rows = [row("1"), row("2"), row("3", Status.FAILED), row("4", Status.SKIPPED)]
    assert summary(*rows).totals == {"approved": 2, "failed": 1, "skipped": 1}
    assert summary(*rows).as_dict()["totals"] == summary(*rows).totals
    assert summary().totals == {}


# As a page.

HOSTILE = [
    "a | b | c",
    "back\\|slash",
    "two\nlines\n\n# heading",
    "<script>alert(1)</script>",
    "<img src=x>",
    "`code`",
    "[text](http://example.com/x)",
    "![image](http://example.com/x.png)",
    "x" * 1000,
]


def cells(page: str) -> list[list[Any]]:
    """The cells of the table's rows, each as the tokens that a Markdown parser finds."""
    tokens = MarkdownIt("commonmark").enable("table").parse(page)
    rows: list[list[Any]] = []
    inside = False
    for token in tokens:
        inside = inside or token.type == "tbody_open"
        if token.type == "tr_open" and inside:
            rows.append([])
        if token.type == "inline" and inside and rows:
            rows[-1].append([child.type for child in token.children or ()])
    return rows


@pytest.mark.parametrize("text", HOSTILE)
def test_text_of_a_model_or_a_user_is_only_text_on_the_page(text: str) -> None:
    page = as_markdown(summary(row(status=Status.FAILED, error=text), row("43")))
    found = cells(page)
    assert [len(one) for one in found] == [9, 9]
    assert all(kind == "text" for one in found for cell in one for kind in cell)


def test_the_page_tells_how_it_went() -> None:
    rows = [row(output="docs/lld/active/LLD-42.md", verdict="APPROVED", reviews=2), row("43", Status.SKIPPED)]
    page = as_markdown(summary(*rows, exit_code=3))
    for told in ("2026-01-01T00-00-00Z", "1 approved; 1 skipped", "Exit code 3", "LLD-42", "APPROVED"):
        assert told in page
    assert "no items" in as_markdown(summary())
    assert "| needs revision |" in as_markdown(summary(row("44", Status.NEEDS_REVISION)))
