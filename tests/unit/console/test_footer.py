"""The live footer and the fitting of texts to a terminal: long names never cost the rest of a row."""

import io

import pytest
from rich.console import Console as RichConsole

from agentos.console.console import Doing, RunProgress, colour_wanted
from agentos.console.fitting import columns, cut, cut_middle, cut_start, label_room, listed
from agentos.console.footer import draw

LONG = "ISSUE-retry-failed-webhooks-with-exponential-backoff"
REASON = "waits: the key rests; 12 s"


def drawn(view: RunProgress, width: int, *, colour: bool = False) -> list[str]:
    out = io.StringIO()
    console = RichConsole(
        file=out, width=width, force_terminal=True, color_system="truecolor" if colour else None
    )
    console.print(draw(view, width=width, height=24))
    return out.getvalue().splitlines()


def view(*labels: str, done: int = 1) -> RunProgress:
    running = [Doing(label=one, node="review", round=2, seconds=65.0, detail=REASON) for one in labels]
    return RunProgress(done=done, total=9, counts={"approved": done}, seconds=70.0, running=running)


@pytest.mark.parametrize("width", [60, 70, 80, 100])
def test_a_long_label_leaves_room_for_the_rest_of_the_row(width: int) -> None:
    rows = [line.rstrip() for line in drawn(view(LONG, "LLD-2"), width)[1:]]
    assert len(rows) == 2
    label = rows[0].split()[0]
    assert label.startswith("ISS")
    assert label.endswith("off")
    assert len(label) <= width // 3
    for row in rows:
        assert len(row) <= width
        assert "review  round 2  1:05  waits: the key rest" in row
    assert REASON in rows[0] or width < 80


def test_a_label_stays_whole_where_there_is_room() -> None:
    assert LONG in drawn(view(LONG), 160)[1]
    assert drawn(view("LLD-41"), 60)[1].startswith("LLD-41  review")


def test_the_bar_of_a_run_that_goes_well_is_not_red() -> None:
    assert "\x1b[36m━" in drawn(view("LLD-1"), 80, colour=True)[0]
    assert "\x1b[32m━" in drawn(view(done=9), 80, colour=True)[0]


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
