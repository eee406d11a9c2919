"""The live footer and the fitting of texts to a terminal: nothing is ever wider than the terminal."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.console.console import Doing, FooterView, colour_wanted
from agentos.console.fitting import columns, cut, cut_middle, cut_start, label_room, listed
from agentos.console.footer_layout import footer_lines
from agentos.console.screen import Line, Paint
from agentos.events.progress import RunProgress, TimeLeft

LONG = "ISSUE-retry-failed-webhooks-with-exponential-backoff"
WAIT = "waiting: mock-1 rate limited"
FOUR = {"approved": 128, "needs_revision": 11, "discuss": 7, "failed": 4}
SIZES = [(40, 20), (80, 24), (160, 50)]


def progress(**changes: object) -> RunProgress:
    values: dict[str, object] = {
        "done": 150,
        "total": 200,
        "skipped": 20,
        "running": 4,
        "counts": FOUR,
        "spent": 0.8431,
        "carried": 0.0,
        "budget": 12.5,
        "simulated": False,
        "calls_per_minute": 24.2,
        "left": TimeLeft(least=190.0, most=330.0),
    }
    return RunProgress(**(values | changes))  # type: ignore[arg-type]


def doing(label: str, **changes: object) -> Doing:
    values: dict[str, object] = {"label": label, "node": "review", "round": 2, "seconds": 65.0}
    return Doing(**(values | {"detail": WAIT, "left": 12.0} | changes))  # type: ignore[arg-type]


def view(*running: Doing, notice: str = "", **changes: object) -> FooterView:
    return FooterView(progress=progress(**changes), seconds=252.0, running=running, notice=notice)


def text_of(line: Line) -> str:
    return "".join(map(str, line))


def drawn(one: FooterView, width: int, height: int = 24) -> list[str]:
    return [text_of(line) for line in footer_lines(one, width=width, height=height)]


# How far the run is.


def test_at_160_columns_everything_about_the_run_is_on_one_line() -> None:
    (line,) = drawn(view(), 160)
    assert re.fullmatch(
        r"150/200 done ━{20,}─{5,} 4:12  3-6 min left  0\.8431 of 12\.5 USD  24 calls/min"
        r"  128 approved  11 needs revision  7 discuss  4 failed  20 skipped",
        line,
    )


def test_at_80_columns_the_counts_have_their_own_line() -> None:
    facts, counts = drawn(view(), 80)
    assert re.fullmatch(r"150/200 done ━+─+ 4:12  3-6 min left  0\.8431 of 12\.5 USD  24 calls/min", facts)
    assert counts == "128 approved  11 needs revision  7 discuss  4 failed  20 skipped"


def test_at_40_columns_nothing_is_lost() -> None:
    assert [re.sub("━+─+", "BAR", line) for line in drawn(view(), 40, 20)] == [
        "150/200 done BAR 4:12  3-6 min left",
        "0.8431 of 12.5 USD  24 calls/min",
        "128 approved  11 needs revision",
        "7 discuss  4 failed  20 skipped",
    ]


def test_what_is_not_known_is_not_shown() -> None:
    young = view(done=0, counts={}, skipped=0, spent=0.0, budget=None, calls_per_minute=None, left=None)
    assert re.fullmatch("0/200 done ─+ 4:12", drawn(young, 80)[0])


def test_the_cost_is_marked_if_the_mock_made_it_and_unknown_if_a_price_is() -> None:
    assert "0.8431 of 12.5 mock USD" in drawn(view(simulated=True), 160)[0]
    assert "  0.8431 USD  " in drawn(view(budget=None), 160)[0]
    assert " 0 of 12.5 USD" in drawn(view(spent=0.0), 160)[0]
    assert "cost unknown" in drawn(view(spent=None), 160)[0]


def test_the_bar_of_a_run_that_goes_well_is_not_red() -> None:
    def colours(one: FooterView) -> list[str | None]:
        line = footer_lines(one, width=80, height=24)[0]
        return [part.fg for part in line if isinstance(part, Paint) and "━" in part.text]

    assert colours(view()) == ["cyan"]
    assert colours(view(done=200)) == ["green"]


# What runs.


def test_a_title_is_beside_its_label_where_there_is_room() -> None:
    one = doing("LLD-42", title="Retry failed webhooks with exponential back-off")
    assert drawn(view(one), 160)[1] == (
        "LLD-42  Retry failed webhooks with exponential back-off  review  round 2  1:05"
        "  waiting: mock-1 rate limited; 12 s"
    )
    assert drawn(view(one), 80)[2] == "LLD-42  review  round 2  1:05  waiting: mock-1 rate limited; 12 s"


def test_on_a_narrow_terminal_the_time_of_a_wait_comes_first() -> None:
    assert drawn(view(doing("LLD-42")), 40, 20)[4] == "LLD-42  review  r2  1:05  12 s: mock-1 …"


def test_a_wait_without_a_known_end_says_its_reason() -> None:
    one = doing("LLD-42", detail="waiting: calls in flight may use up the budget", left=None)
    assert drawn(view(one), 40, 20)[4] == "LLD-42  review  r2  1:05  calls in flig…"


@pytest.mark.parametrize("width", [60, 70, 80, 100])
def test_a_long_label_leaves_room_for_the_rest_of_the_row(width: int) -> None:
    rows = [line for line in drawn(view(doing(LONG), doing("LLD-2")), width) if "review" in line]
    assert len(rows) == 2
    label = rows[0].split()[0]
    assert label.startswith("ISS")
    assert label.endswith("off")
    assert len(label) <= width // 3
    assert all("review  round 2  1:05  " in row and "12 s" in row for row in rows)


def test_a_label_stays_whole_where_there_is_room() -> None:
    assert LONG in drawn(view(doing(LONG)), 160)[1]


def test_rows_that_do_not_fit_are_counted() -> None:
    lines = drawn(view(*(doing(f"LLD-{number}") for number in range(50))), 80, 24)
    assert len(lines) == 20
    assert lines[-1] == "and 33 more"
    assert lines[-2].startswith("LLD-16 ")


# Whatever happens, no line is wider than the terminal, and the lines above keep some rows.

_TEXTS = st.text(st.characters(codec="utf-8"), max_size=90)
_DOING = st.builds(
    Doing,
    label=_TEXTS,
    title=_TEXTS,
    node=_TEXTS,
    round=st.integers(0, 99),
    seconds=st.floats(0, 1e6),
    detail=_TEXTS,
    left=st.none() | st.floats(-5, 1e6),
)


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_four_kinds_of_results_fit(width: int, height: int) -> None:
    rows = [doing(f"LLD-{number}", title="A title that is rather long " * 3) for number in range(10)]
    lines = drawn(view(*rows, notice="paused, resuming in 12 s: " + WAIT * 9), width, height)
    assert max(map(columns, lines)) <= width
    assert len(lines) <= height - 4


@given(
    running=st.lists(_DOING, max_size=12), notice=_TEXTS, width=st.integers(1, 200), height=st.integers(1, 60)
)
def test_no_line_is_ever_wider_than_the_terminal(
    running: list[Doing], notice: str, width: int, height: int
) -> None:
    lines = drawn(view(*running, notice=notice), width, height)
    assert all(columns(line) <= width and "\n" not in line for line in lines), lines
    assert len(lines) < max(2, height)


@pytest.mark.parametrize(
    ("environment", "terminal", "wanted"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"TERM": "dumb"}, True, False),
        ({"TERM": "xterm"}, True, True),
        ({"FORCE_COLOR": "0"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "3", "TERM": "dumb"}, True, True),
        ({"FORCE_COLOR": ""}, True, True),
        ({"FORCE_COLOR": ""}, False, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ({"NO_COLOR": "", "FORCE_COLOR": "1"}, False, True),
    ],
)
def test_when_there_is_colour(environment: dict[str, str], terminal: bool, wanted: bool) -> None:
    assert colour_wanted(environment, terminal=terminal) is wanted


@pytest.mark.parametrize("shorten", [cut, cut_start, cut_middle])
@pytest.mark.parametrize("text", ["", "a", "abcdefghij", "größe", "漢字仮名交じり文", "e\u0301" * 8])
def test_a_shortened_text_fits_and_a_short_one_is_left_alone(shorten: object, text: str) -> None:
    assert callable(shorten)
    for room in range(25):
        short = shorten(text, room)
        assert columns(short) <= room
        assert (short == text) == (columns(text) <= room)


def test_which_part_is_left_out() -> None:
    assert cut("abcdefghij", 5) == "abcd…"
    assert cut_start("abcdefghij", 5) == "…ghij"
    assert cut_middle("abcdefghij", 5) == "ab…ij"


def test_the_room_of_labels() -> None:
    assert label_room([], width=80, others=10) == 0
    assert label_room(["LLD-1", LONG], width=None, others=10) == len(LONG)
    assert label_room([LONG], width=90, others=10) == 30
    assert label_room([LONG], width=60, others=45) == 15
    assert label_room([LONG], width=20, others=45) == 8
    assert label_room(["LLD-1"], width=20, others=45) == 5


def test_a_list_says_how_many_it_leaves_out() -> None:
    words = ["LLD-1", "LLD-2", "LLD-3"]
    assert listed(words, None) == "LLD-1, LLD-2, LLD-3"
    assert listed(words, 19) == "LLD-1, LLD-2, LLD-3"
    assert listed(words, 18) == "LLD-1 and 2 more"
    assert listed(words, 14) == "L…1 and 2 more"
    assert listed([], 5) == ""
