"""The one way out: no character that a terminal obeys, or hides, gets through, and no command of a log."""

import ast
import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import agentos
from agentos.console.screen import Paint, json_text, painted
from agentos.console.visible import LineGuard, one_line, visible

STEADY = settings(derandomize=True, database=None, deadline=None, max_examples=300)
SHORT = settings(STEADY, max_examples=100)  # each example holds many texts
BIDI = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
EVIL = [
    *("\x00", "\x07", "\x08", "\x0b", "\x0c", "\r", "\x1b", "\x1b[2J", "\x1b]0;owned\x07", "\x7f", "\x85"),
    *("\x9b31m", "\x9d0;x\x9c", "\u061c", "\u200b", "\u200c", "\u200d", "\u200e", "\u200f", "\u2028"),
    *("\u2029", "\u202a", "\u202e", "\u2060", "\u2066", "\u2069", "\ufeff", "\ufe0f", "\ufff9", "\xad"),
    *("\ud800", "\udcff", "\U000e0041", "\U000e0101", "\u3164", "::", ":", "##[", "#", "[", "\n", " ", "\t"),
]
TEXT = st.lists(st.sampled_from(EVIL) | st.text(max_size=5) | st.characters()).map("".join)


def obeyed(char: str) -> bool:
    """What a terminal does something with, or a person does not see; said another way than in the product."""
    if char in "\n\t":
        return False
    hidden = unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"}
    return (
        hidden
        or unicodedata.bidirectional(char) in BIDI
        or char in "\u200b\u200e\u200f\u061c\u2060\ufeff\xad"
    )


@STEADY
@given(TEXT)
def test_nothing_that_is_obeyed_gets_through(text: str) -> None:
    shown = visible(text)
    assert not [char for char in shown if obeyed(char)]
    assert visible(shown) == shown
    assert len(one_line(text).splitlines()) <= 1
    assert one_line(one_line(text)) == one_line(text)
    shown.encode()


@STEADY
@given(TEXT)
def test_no_ascii_word_is_split_unseen(text: str) -> None:
    assert not re.search(r"(?:^|[\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?:$|[\x00-\x7f])", visible(text))


@pytest.mark.parametrize(
    "text",
    [
        "caf\u00e9",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "👨‍👩‍👧",
        "❤️‍🔥",
        "1️⃣",
        "日本語",
        "a\tb\nc",
    ],
)
def test_what_people_write_stays_as_it_is(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\x9b31m", "\\x9b31m"),
        ("\udcff", "\\udcff"),
        ("\U000e0041", "\\U000e0041"),
        ("pass\u200dword", "pass\\u200dword"),
    ],
)
def test_what_is_not_seen_is_shown_by_its_number(text: str, shown: str) -> None:
    assert visible(text) == shown


def commands(text: str) -> list[str]:
    """The lines that the runner of GitHub Actions takes for commands."""
    return [line for line in text.split("\n") if line.lstrip().startswith("::") or "##[" in line]


@SHORT
@given(st.lists(TEXT))
@example([":", ":error::x"])
@example([" ", " :", ":x"])
@example(["#", "#", "[x]"])
@example(["a::b\n::c"])
def test_no_line_is_a_command_however_it_is_cut(pieces: list[str]) -> None:
    guard = LineGuard(commands=True)
    assert commands("".join(map(guard, pieces))) == []
    plain = LineGuard(commands=False)
    assert "".join(map(plain, pieces)).count("\n") == "".join(pieces).count("\n")


def test_only_what_would_be_a_command_is_changed() -> None:
    guard = LineGuard(commands=True)
    assert guard("a :: b\n ::error::x\n## [x] ##[y]\nstd::vector\n") == (
        "a :: b\n \\::error::x\n## [x] ##\\[y]\nstd::vector\n"
    )


def test_our_own_colours_work_and_a_texts_do_not() -> None:
    line = ("a\x1b[1m ", Paint("b\x1b[0m", fg="red"), " c")
    guard = LineGuard(commands=False)
    assert painted(line, guard, colour=True) == "a\\x1b[1m \x1b[31mb\\x1b[0m\x1b[0m c"
    assert painted(line, guard, colour=False) == "a\\x1b[1m b\\x1b[0m c"


@SHORT
@given(st.dictionaries(TEXT, TEXT | st.integers() | st.none()))
def test_json_is_ascii_that_a_screen_leaves_alone(data: dict[str, object]) -> None:
    text = json_text(data)
    assert text.isascii()
    assert LineGuard(commands=True)(text) == text


# Nothing else prints.

SOURCES = Path(agentos.__file__).parent
PRINTS = {"worker/run_workflow.py"}  # to a pipe that the coordinator reads
WRITES = {"console/safe_stream.py", "store/rooted_tree.py", "llm/mock.py", "repo_map/tag_process.py"}
PIPES = {"repo_map/tag_parser.py"}  # its standard output is read by the process that started it


def offences(path: Path) -> list[str]:
    name = path.relative_to(SOURCES).as_posix()
    found = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.Call | ast.Attribute):
            continue
        said = ast.unparse(node)
        call = said.partition("(")[0] if isinstance(node, ast.Call) else ""
        wrong = (
            (call == "print" and name not in PRINTS)
            or (call == "os.write" and name not in WRITES)
            or (call in {"click.secho", "click.style"} and name != "console/screen.py")
            or (
                said in {"sys.__stdout__", "sys.__stderr__", "sys.stdout.buffer", "sys.stderr.buffer"}
                and name not in PIPES
            )
            or (call == "Canvas" and name != "console/console.py")
            or ("ensure_ascii=False" in said and name.startswith("cli/"))
            or (call.endswith("echo") and "json.dumps" in said)
        )
        if wrong:
            found.append(f"{name}:{getattr(node, 'lineno', 0)}: {said[:80]}")
    return found


def test_nothing_prints_but_through_a_screen_or_an_outlet() -> None:
    files = [path for path in SOURCES.rglob("*.py") if "simulator" not in path.parts]
    assert [one for path in files for one in offences(path)] == []
