"""What a terminal of any size shows during a run, and that nothing of the footer stays behind."""

import re
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from harness.processes import wait_until
from harness.project import Project, unprefixed
from harness.tmux import TmuxTerminal

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")

OpenTerminal = Callable[[int, int], TmuxTerminal]

FOOTER = re.compile(r"^\d+/\d+ done ")
ROW = re.compile(r"^LLD-\d+  .*\b(starting|load|draft|gate|review|judge|finalize)\b.* \d:\d\d")
FOUR = ("1 approved", "1 needs revision", "1 discuss", "1 failed")
TITLE = "Title of 5"
SIZES = [(80, 24), *(pytest.param(*size, marks=pytest.mark.slow) for size in ((40, 20), (160, 50)))]


PAGE = Path(__file__).parents[2] / "docs/terminal.md"


def test_no_capture_of_the_page_is_wider_or_higher_than_its_terminal() -> None:
    captures = re.findall(
        r"^<!-- capture: (\w+)-(\d+)x(\d+) -->\n\n```text\n(.*?)^```$",
        PAGE.read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    sizes = {(40, 20), (80, 24), (160, 50)}
    assert {(name, int(width), int(height)) for name, width, height, _ in captures} == {
        (name, *size) for name in ("budget", "middle", "ending") for size in sizes
    }
    for name, width, height, text in captures:
        lines = text.splitlines()
        assert max(map(len, lines)) <= int(width)
        if name != "ending":
            assert len(lines) <= int(height)
            assert sum(bool(FOOTER.match(line)) for line in lines) == 1


@pytest.fixture
def open_terminal(box: Project) -> Iterator[OpenTerminal]:
    opened: list[TmuxTerminal] = []

    def make(width: int, height: int) -> TmuxTerminal:
        opened.append(TmuxTerminal(box, width, height))
        return opened[-1]

    yield make
    for terminal in opened:
        terminal.close()


def footer(terminal: TmuxTerminal, *, joined: bool = False) -> list[str]:
    """The lines of the footer, if there is exactly one; `joined` as in `TmuxTerminal.screen`."""
    screen = terminal.screen(joined=joined)
    at = [number for number, line in enumerate(screen) if FOOTER.match(line)]
    return screen[at[0] :] if len(at) == 1 else []


def rows(lines: list[str]) -> int:
    return sum(bool(ROW.match(line)) for line in lines)


def everything(terminal: TmuxTerminal) -> list[str]:
    """All that was shown until the end, with wrapped lines put together."""
    wait_until(lambda: any(line.startswith("rc=") for line in terminal.screen()), "the end", 90)
    return terminal.screen(history=True, joined=True)


def left_behind(lines: list[str]) -> list[str]:
    """What is not a whole line of an item or of the coordinator, before the ending."""
    begin = next(number for number, line in enumerate(lines) if line.startswith("["))
    end = next(number for number, line in enumerate(lines) if number > begin and not line)
    return unprefixed(lines[begin:end])


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_a_terminal(box: Project, open_terminal: OpenTerminal, width: int, height: int) -> None:
    box.issues(8, 'latency=0.8 verdicts=REVISE,APPROVED sh="seq 1 30"')
    box.issue(9, mock='fail="no"')
    terminal = open_terminal(width, height)
    terminal.type("lld-workflow --all --mock -j4")

    def four_rows() -> list[str]:
        shown = footer(terminal)
        return shown if rows(shown) == 4 else []

    wait_until(four_rows, f"the footer in {terminal.screen()}", 30)
    for size in ((width - 15, height - 4), (width + 15, height + 3), (width, height)):
        terminal.resize(*size)
        wait_until(four_rows, f"the footer after a resize to {size}", 30)
    lines = everything(terminal)
    assert "rc=1" in lines
    assert left_behind(lines) == []
    # Not joined: tmux takes a row that once was wrapped for one that still is.
    rows_shown = terminal.screen(history=True)
    for number in range(1, 9):
        assert sum(line == f"[LLD-{number}] 30" for line in rows_shown) == 1


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.slow
def test_four_kinds_of_results_limits_and_a_wait_for_the_budget_never_wrap(
    box: Project, open_terminal: OpenTerminal, width: int, height: int
) -> None:
    # The first call of a role goes alone if there is a budget, so the others wait for it.
    for number, mock in enumerate(("", "verdicts=REVISE stuck", "verdicts=DISCUSS", 'fail="no schema"'), 1):
        box.issue(number, mock=f"latency=2 {mock}")
    for number in range(5, 9):
        box.issue(number, mock="latency=2.5 429=1")
    terminal = open_terminal(width, height)
    terminal.type("lld-workflow --all --mock -j4 --budget 5 --max-iterations 2")
    seen: set[str] = set()

    def look() -> bool:
        lines = footer(terminal, joined=True)
        assert all(len(line) <= width for line in lines), lines
        seen.update(word for word in (*FOUR, TITLE) if any(word in line for line in lines))
        return any(line.startswith("rc=") for line in terminal.screen())

    wait_until(look, "the end", 90)
    assert seen == {*FOUR, *[TITLE] * (width == 160)}
    assert "budget" in {event["kind"] for event in box.events("waiting")}
    assert box.events("rate_limited")
    assert left_behind(everything(terminal)) == []


@pytest.mark.slow
@pytest.mark.parametrize("narrow", [45, 20])
def test_a_full_terminal_made_narrower_than_the_footer(
    box: Project, open_terminal: OpenTerminal, narrow: int
) -> None:
    box.issues(3, 'sh="seq 1 40"')
    for number in range(4, 8):
        box.issue(number, mock="latency=3")
    terminal = open_terminal(160, 40)
    terminal.type("lld-workflow --all --mock -j4")
    wait_until(
        lambda: any(FOOTER.match(x) and "3 approved" in x for x in terminal.screen()), "a wide footer", 60
    )
    terminal.resize(narrow, 40)
    assert left_behind(everything(terminal)) == []


@pytest.mark.parametrize(("wide", "narrow"), [(100, 50), pytest.param(160, 40, marks=pytest.mark.slow)])
def test_a_terminal_with_free_rows_made_narrower_again_and_again(
    box: Project, open_terminal: OpenTerminal, wide: int, narrow: int
) -> None:
    # tmux moves rows at the top of the screen into its history, where nothing can be erased.
    box.issues(5, "latency=60")
    terminal = open_terminal(wide, 30)
    terminal.type("lld-workflow --all --mock -j5")

    def five_rows(of: str) -> bool:
        return sum(of in line for line in footer(terminal)) == 5

    for width, of in ((wide, "  round 1  "), (narrow, "  r1  ")) * 3:
        terminal.resize(width, 30)
        wait_until(partial(five_rows, of), f"{width} columns", 30)
        shown = terminal.screen(history=True)
        assert sum(bool(FOOTER.match(line)) for line in shown) == 1, shown
    terminal.press("C-c")
    lines = everything(terminal)
    begin = lines.index("[COORDINATOR] issues from issues/active")
    end = next(number for number, line in enumerate(lines) if line.startswith("Needs you:"))
    assert unprefixed([line for line in lines[begin:end] if line]) == []


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_ctrl_c_at_a_terminal(box: Project, open_terminal: OpenTerminal, width: int, height: int) -> None:
    box.issues(5, "latency=30")
    terminal = open_terminal(width, height)
    terminal.type("lld-workflow --all --mock -j5 --budget 5")
    # The last row says what its item waits for: on a narrow terminal it is as wide as the terminal.
    wait_until(lambda: "calls in" in "".join(footer(terminal)[-1:]), "the reason of a wait", 30)
    terminal.press("C-c")
    lines = everything(terminal)
    assert "rc=130" in lines
    assert not any("Traceback" in line for line in lines)
    assert left_behind(lines) == []
    assert box.summary()["exit_code"] == 130
