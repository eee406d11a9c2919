"""The ending of a run: what needs a person comes first, what it cost last, and 200 items fit."""

from collections.abc import Sequence
from typing import Any

import pytest

from agentos.app.suggestions import Suggestion
from agentos.cli.ending import RunEnding, ending_lines, overlap_line, row_lines
from agentos.console.screen import Line, Paint
from agentos.errors import Exit
from agentos.model import Status
from agentos.report.overlaps import Overlap
from agentos.report.summary import ItemRow, KeyRow, Summary
from agentos.report.time_shares import TimeKind, TimeShares

LONG = "ISSUE-retry-failed-webhooks-with-exponential-backoff"
QUESTION = "Is a wait of up to one hour acceptable to users, or should the work stop instead?"
KEY = KeyRow(
    id="k", provider="openai", group="k", state="", calls=9, rate_limited=0, tokens_in=9, tokens_out=9
)
TIME = TimeShares(
    seconds=dict.fromkeys(TimeKind, 0.0)
    | {TimeKind.CALLS: 62.0, TimeKind.KEYS: 20.0, TimeKind.REST: 17.0, TimeKind.BACKOFF: 1.0}
)
VIEW = Suggestion("agentos view", "answer all 2 questions on one page")


def row(number: int, status: Status, **more: Any) -> ItemRow:
    told: dict[str, Any] = {"id": str(number), "label": f"LLD-{number}", "attempts": 1}
    return ItemRow(status=status, **told | more)


def approved(number: int) -> ItemRow:
    output = f"docs/lld/active/LLD-{number}.md"
    return row(number, Status.APPROVED, reviews=1, seconds=1.6, tokens_in=9, cost_usd=0.01, output=output)


def lines_of(
    rows: Sequence[ItemRow],
    *,
    code: Exit = Exit.ATTENTION,
    width: int | None = 80,
    height: int | None = 24,
    budget: float | None = None,
    suggestions: tuple[Suggestion, ...] = (VIEW,),
    **more: Any,
) -> list[str]:
    told: dict[str, Any] = {"run_id": "2026-11-16T01-43-57.258Z", "workflow": "lld", "parallel": 1}
    told |= {"started_at": "", "finished_at": "", "wall_seconds": 432.4, "exit_code": code, "stopped": None}
    told |= {"keys": (KEY,), "coordination_overhead_percent": None, "folder": ""}
    summary = Summary(items=tuple(rows), **told | more)
    ending = RunEnding(
        summary=summary, suggestions=suggestions, time=TIME, folder=".agentos/logs", budget=budget
    )
    return [text_of(line) for line in ending_lines(ending, width=width, height=height)]


def text_of(line: Line) -> str:
    return "".join(map(str, line))


FEW = [
    approved(1),
    row(2, Status.FAILED, seconds=0.2, error="the legacy schema is not described anywhere"),
    row(3, Status.DISCUSS, reviews=1, seconds=1.2, error=QUESTION),
    row(4, Status.SKIPPED, attempts=0, reason="approved before"),
    row(5, Status.DISCUSS, reviews=0, attempts=0, error="Which region?"),
    row(6, Status.SKIPPED, attempts=0, reason="approved before"),
]


def test_the_whole_ending_at_80_columns() -> None:
    assert lines_of(FEW, code=Exit.FAILED, budget=5.0) == [
        "",
        "Needs you: 2 questions, 1 item not approved",
        "  LLD-3  discuss  Is a wait of up to one hour acceptable to users, or should th…",
        "  LLD-5  discuss  Which region?",
        "  LLD-2  failed   the legacy schema is not described anywhere",
        "Next:",
        "  agentos view    # answer all 2 questions on one page",
        "Approved:",
        "  LLD-1  approved  1 review  2 s  docs/lld/active/LLD-1.md",
        "1 approved, 2 discuss, 1 failed; 2 skipped",
        "Run 2026-11-16T01-43-57.258Z: 7 min, cost 0.0100 of 5 USD",
        "Where time went: 62 % in calls, 20 % waiting for keys, 17 % start-up and rest",
        "Logs: .agentos/logs",
        "Exit 1: an item failed or timed out",
    ]


UNTOLD = row(
    8,
    Status.APPROVED,
    output="docs/lld/active/LLD-8.md",
    reviews=2,
    questions=(f"Q1: {QUESTION}", "Q2: Who?"),
    dropped=("Timestamps are in UTC.",),
)


def test_two_questions_of_one_discussion_are_two_questions() -> None:
    asked = row(3, Status.DISCUSS, error="Q1: A? / Q2: B?", questions=("Q1: A?", "Q2: B?"))
    told = lines_of([asked, *FEW[-2:]])
    assert told[1:5] == [
        "Needs you: 3 questions",
        "  LLD-3  discuss  Q1: A?",
        "  LLD-3  discuss  Q2: B?",
        "  LLD-5  discuss  Which region?",
    ]


def test_what_was_asked_and_what_is_lost_is_told_below_what_went_well() -> None:
    told = lines_of([UNTOLD], code=Exit.OK)
    assert told[1:6] == [
        "Approved:",
        "  LLD-8  approved  2 reviews  <1 s  docs/lld/active/LLD-8.md",
        "  LLD-8 asks Q1: Is a wait of up to one hour acceptable to users, or should the…",
        "  LLD-8 asks Q2: Who?",
        "  LLD-8 lacks a line that you added: Timestamps are in UTC.",
    ]


def test_on_a_small_screen_some_of_it_is_told_and_the_rest_counted() -> None:
    told = lines_of([*many(40, 40), *[UNTOLD] * 4], height=24)
    at = told.index("  LLD-8 asks Q2: Who?")
    assert told[at + 1] == "  and 10 more to know in summary.md"
    assert len(told) <= 24


def test_at_40_columns_only_commands_and_paths_are_wider() -> None:
    shown = lines_of(FEW, code=Exit.FAILED, width=40, height=20)
    assert [line for line in shown if len(line) > 40] == []
    assert shown[1:3] == ["Needs you: 2 questions, 1 item not", "  approved"]
    assert "Run 2026-11-16T01-43-57.258Z: 7 min," in shown
    assert "  cost 0.0100 USD" in shown
    assert "Time went: 62 % in calls, 20 % waiting" in shown


def test_a_calm_run_starts_with_what_happened() -> None:
    report = Suggestion("agentos report R --open", "see the run as a timeline")
    assert lines_of(
        [approved(1), approved(2)], code=Exit.OK, width=None, height=None, suggestions=(report,)
    ) == [
        "",
        "Approved:",
        "  LLD-1  approved  1 review  2 s  docs/lld/active/LLD-1.md",
        "  LLD-2  approved  1 review  2 s  docs/lld/active/LLD-2.md",
        "Next:",
        "  agentos report R --open    # see the run as a timeline",
        "2 approved",
        "Run 2026-11-16T01-43-57.258Z: 7 min, cost 0.0200 USD",
        "Where the time went: 62 % in calls, 20 % waiting for keys, 17 % start-up and rest",
        "Logs: .agentos/logs",
        "Exit 0: all approved",
    ]


def test_an_issue_that_is_not_filed_needs_a_person() -> None:
    unfiled = row(1, Status.APPROVED, filing="wanted", error="not filed: GitHub refused it")
    assert lines_of([unfiled])[1:3] == [
        "Needs you: 1 not filed",
        "  LLD-1  approved  not filed: GitHub refused it",
    ]


def test_items_that_never_started_are_only_counted() -> None:
    stopped = [
        row(1, Status.INTERRUPTED, seconds=3.0),
        *(row(n, Status.PENDING, attempts=0) for n in range(2, 9)),
    ]
    shown = lines_of(stopped, code=Exit.INTERRUPTED, stopped="interrupted")
    assert shown[1] == "Needs you: 8 items have not finished: interrupted"
    assert shown[4:6] == ["This run:", "  LLD-1  interrupted  3 s"]
    assert "1 interrupted, 7 pending" in shown


def test_money_of_the_mock_is_marked_and_an_unknown_price_is_not_0() -> None:
    mock = KeyRow(**vars(KEY) | {"provider": "mock"})
    assert any(
        line.endswith("cost 0.0100 USD (simulated by the mock)") for line in lines_of(FEW, keys=(mock,))
    )
    free = row(9, Status.APPROVED, tokens_in=1, cost_usd=None)
    assert any(line.endswith("cost unknown") for line in lines_of([*FEW, free], budget=5.0))


def test_a_run_without_workers_says_nothing_about_their_time() -> None:
    nothing = RunEnding(
        summary=Summary(
            run_id="r", workflow="lld", parallel=1, started_at="", finished_at="", wall_seconds=0.1,
            exit_code=0, stopped=None, items=(), keys=(), coordination_overhead_percent=None, folder="",
        ),
        suggestions=(),
        time=TimeShares(seconds=dict.fromkeys(TimeKind, 0.0)),
        folder="f",
    )  # fmt: skip
    assert [text_of(line) for line in ending_lines(nothing, width=80, height=24)] == [
        "",
        "nothing pending",
        "Run r: <1 s",
        "Logs: f",
        "Exit 0: nothing pending",
    ]


# 200 items.


def many(needy: int, calm: int = 0, skipped: int = 0) -> list[ItemRow]:
    rows = [row(n, Status.FAILED, seconds=9.0, error="no") for n in range(needy)]
    rows += [approved(n) for n in range(500, 500 + calm)]
    return rows + [row(n, Status.SKIPPED, attempts=0) for n in range(900, 900 + skipped)]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (80, 40), (160, 50), (None, None)])
@pytest.mark.parametrize(
    ("needy", "calm", "skipped"), [(0, 200, 0), (200, 0, 0), (100, 100, 0), (3, 20, 177)]
)
def test_200_items_fit_and_nobody_is_forgotten(
    width: int | None, height: int | None, needy: int, calm: int, skipped: int
) -> None:
    overlaps = tuple(Overlap(items=("LLD-500", "LLD-501"), files=(f"src/{n}.py",)) for n in range(30))
    shown = lines_of(many(needy, calm, skipped), width=width, height=height, overlaps=overlaps)
    assert len(shown) <= (80 if height is None else height)  # the empty first line may scroll away
    rows = sum(line.startswith("  LLD-") for line in shown)
    more = sum(int(line.split()[1]) for line in shown if line.startswith("  and ") and "overlaps" not in line)
    only_counted = [line for line in shown if line.endswith("items, see summary.md")]
    assert rows + more + sum(int(line.split()[1]) for line in only_counted) == needy + calm
    assert any("25 more overlaps in summary.md" in line for line in shown)
    assert not needy or any("  LLD-0" in line for line in shown)
    assert (f"{skipped} skipped" in "\n".join(shown)) == bool(skipped)


def test_what_needs_a_person_is_shown_before_what_went_well() -> None:
    shown = lines_of(many(8, 190), width=160, height=50)
    assert sum(" failed " in line for line in shown if line.startswith("  LLD-")) == 8
    assert sum(" approved " in line for line in shown if line.startswith("  LLD-")) > 8


def test_the_ending_of_a_budget_stop_fits_80_by_24_with_every_comment() -> None:
    flags = "--mock --parallel 4 --timeout 5 --budget 0.13"
    suggestions = (
        Suggestion("agentos view", "read the draft and answer the question"),
        Suggestion("agentos decide LLD-43 --approve", 'or --revise, or --note "..."'),
        Suggestion(f"agentos lld --all {flags}", "resume where it stopped"),
        Suggestion(f"agentos lld --retry-failed {flags}", "retry what was not approved"),
        Suggestion("agentos logs LLD-45", "see what happened"),
        Suggestion("agentos report 2026-11-16T01-43-57.258Z --open", "see the run as a timeline"),
    )
    rows = [approved(41), approved(42), row(43, Status.DISCUSS, error=QUESTION)]
    rows += [row(number, Status.FAILED, error="no") for number in range(44, 49)]
    rows += [row(number, Status.PAUSED, error="budget reached") for number in (49, 50)]
    mock = KeyRow(**vars(KEY) | {"provider": "mock"})
    shown = lines_of(
        rows, code=Exit.BUDGET, suggestions=suggestions, stopped="budget", budget=0.06, keys=(mock,),
        overlaps=(Overlap(items=("LLD-41", "LLD-42"), files=("src/http/client.py",)),),
    )  # fmt: skip
    assert len(shown) == 24  # with the prompt, only the empty first line scrolls away
    assert max(map(len, shown)) <= 80
    assert shown[1:20] == [
        "Needs you: 1 question, 5 items not approved",
        "  LLD-43  discuss  Is a wait of up to one hour acceptable to users, or should t…",
        "  LLD-44  failed   no",
        "  LLD-45  failed   no",
        "  LLD-46  failed   no",
        "  and 2 more not approved in summary.md",
        "  2 items have not finished: the budget is reached",
        "Next:",
        "  agentos view    # read the draft and answer the question",
        '  agentos decide LLD-43 --approve    # or --revise, or --note "..."',
        f"  agentos lld --all {flags}",
        "    # resume where it stopped",
        f"  agentos lld --retry-failed {flags}",
        "    # retry what was not approved",
        "  agentos logs LLD-45    # see what happened",
        "  agentos report 2026-11-16T01-43-57.258Z --open    # see the run as a timeline",
        "This run: 4 items, see summary.md",
        "  src/http/client.py: changed by LLD-41, LLD-42",
        "2 approved, 1 discuss, 5 failed, 2 paused",
    ]


def test_questions_and_failures_share_the_room() -> None:
    rows = [row(n, Status.DISCUSS, error="Which?") for n in range(20)]
    rows += [row(n, Status.FAILED, error="no") for n in range(20, 40)] + [approved(n) for n in range(40, 200)]
    shown = lines_of(rows, suggestions=(VIEW,) * 3)
    assert len(shown) <= 24
    for status, more in (("discuss", "questions"), ("failed ", "not approved")):
        named = sum(f"  {status}  " in line for line in shown)
        assert named >= 3
        assert f"  and {20 - named} more {more} in summary.md" in shown
    assert "Approved: 160 items, see summary.md" in shown


def test_one_question_leaves_its_room_to_the_failures() -> None:
    rows = [
        row(0, Status.DISCUSS, error="Which?"),
        *(row(n, Status.FAILED, error="no") for n in range(1, 21)),
    ]
    assert sum("  failed   no" in line for line in lines_of(rows)) > 6


@pytest.mark.parametrize(
    ("status", "stopped", "words"),
    [
        (Status.PAUSED, "budget", "1 item has not finished: the budget is reached"),
        (Status.PAUSED, None, "1 item has not finished: the item's budget is reached"),
        (Status.PENDING, "fail_fast", "1 item has not finished: an item failed, and --fail-fast is set"),
    ],
)
def test_what_has_not_finished_needs_a_person(status: Status, stopped: str | None, words: str) -> None:
    assert lines_of([row(1, status)], code=Exit.BUDGET, stopped=stopped)[1] == f"Needs you: {words}"


# Rows and overlaps.


@pytest.mark.parametrize("width", [60, 80, 100])
def test_rows_with_long_labels_show_status_reviews_time_and_some_of_the_result(width: int) -> None:
    rows = [
        row(1, Status.APPROVED, label=LONG, reviews=2, seconds=12.3, output=f"issues/active/{LONG}.md"),
        row(2, Status.NEEDS_REVISION, reviews=5, seconds=1234.5, error="the review asks for the same again"),
        row(3, Status.SKIPPED, label="ISSUE-" + "x" * 62, attempts=0, reason="approved before"),
    ]
    lines = [text_of(line) for line in row_lines(rows, width=width)]
    assert max(map(len, lines)) <= width
    assert len(lines[0].split()[0]) <= width // 3
    assert "approved        2 reviews    12 s  …" in lines[0]
    assert lines[0].endswith("backoff.md")
    assert "needs revision  5 reviews  21 min  the revi" in lines[1]
    assert "skipped                            approved" in lines[2]


def test_narrow_rows_fit_too() -> None:
    rows = [row(1, Status.APPROVED, label=LONG, output="a/b.md"), row(2, Status.DISCUSS, error=QUESTION)]
    assert [text_of(line) for line in row_lines(rows, width=40)] == [
        "  ISSUE-…ackoff approved: a/b.md",
        "  LLD-2 discuss: Is a wait of up to one…",
    ]


def test_rows_are_whole_where_nothing_limits_them() -> None:
    rows = [row(1, Status.APPROVED, label=LONG, reviews=1, seconds=1.0, output=f"issues/active/{LONG}.md")]
    for width in (None, 200):
        [line] = row_lines(rows, width=width)
        assert text_of(line) == f"  {LONG}  approved  1 review  1 s  issues/active/{LONG}.md"
    assert row_lines([], width=80) == []


def test_each_status_has_its_colour() -> None:
    [line] = row_lines([row(1, Status.FAILED)], width=80)
    assert Paint("failed", fg="red") in line


@pytest.mark.parametrize("width", [60, 80])
def test_an_overlap_names_the_file_first_and_fits(width: int) -> None:
    overlap = Overlap(items=tuple(f"LLD-{n}" for n in range(1, 15)), files=("src/x.py",))
    line = overlap_line(overlap, width=width)
    assert line.startswith("  src/x.py: changed by LLD-1, LLD-2, ")
    assert line.endswith(" more")
    assert len(line) <= width
    assert overlap_line(overlap, width=None).endswith("LLD-13, LLD-14")
    many_files = Overlap(items=(LONG, LONG + "-2"), files=("src/" + "deep/" * 20 + "x.py", "b.py", "c.py"))
    assert len(overlap_line(many_files, width=width)) <= width
