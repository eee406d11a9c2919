"""Output: whatever bytes a worker prints become whole, harmless lines behind its name."""

import itertools
import os
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentos.console.console import Console, View
from agentos.console.prefixer import MAX_LINE_BYTES, OutputPrefixer, visible

STEADY = settings(derandomize=True, database=None, deadline=None, max_examples=100)

BYTES = st.lists(
    st.sampled_from(
        [
            *(b"\n", b"\r\n", b"\r", b"\t", b" ", b"a", b"\x1b[31m", b"\0", b"\xff", b"\xc3", b"\xa9"),
            *(text.encode() for text in ("é", "😀", "\u202e", "\u2028", "\x85")),
        ]
    )
    | st.binary(max_size=8)
).map(b"".join)


def fed(*chunks: bytes) -> list[str]:
    prefixer = OutputPrefixer()
    lines = [line for chunk in chunks for line in prefixer.feed(chunk)]
    return lines + prefixer.close()


@st.composite
def chunked(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    data = draw(BYTES)
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=8)))
    ends = [0, *cuts, len(data)]
    return data, [data[start:end] for start, end in itertools.pairwise(ends)]


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ([b"one\ntwo\n"], ["one", "two"]),
        ([b"on", b"e\ntw", b"o"], ["one", "two"]),
        ([b"\n\n"], ["", ""]),
        ([b""], []),
        ([b"a\r\nb\r", b"\nc\n"], ["a", "b", "c"]),
        ([b"10%\r20%\r\n"], ["10%\\x0d20%"]),
        ([b"\xf0\x9f", b"\x98\x80\n"], ["😀"]),
        ([b"caf\xe9\n"], ["caf\\xe9"]),
        ([b"\x1b[2Jgone\x07\n"], ["\\x1b[2Jgone\\x07"]),
        ([b"a\tb\n"], ["a\tb"]),
        (["\u202eevil\u2069 \u200bx\ufeff\n".encode()], ["\\u202eevil\\u2069 \\u200bx\\ufeff"]),
        (["a\x85b\u2028c\x0bd\x0ce\n".encode()], ["a\\x85b\\u2028c\\x0bd\\x0ce"]),
    ],
)
def test_lines_come_whole_and_control_characters_are_shown(chunks: list[bytes], lines: list[str]) -> None:
    assert fed(*chunks) == lines


def test_a_line_is_given_as_soon_as_it_is_whole() -> None:
    prefixer = OutputPrefixer()
    assert prefixer.feed(b"one\ntw") == ["one"]
    assert prefixer.feed(b"o") == []
    assert prefixer.feed(b"\n") == ["two"]
    assert prefixer.close() == []


@STEADY
@given(chunked())
@example((b"a\r\nb", [b"a\r", b"\nb"]))
def test_any_chunking_of_the_same_bytes_gives_the_same_lines(case: tuple[bytes, list[bytes]]) -> None:
    data, chunks = case
    assert fed(*chunks) == fed(data) == fed(*(data[at : at + 1] for at in range(len(data))))


@STEADY
@given(BYTES)
def test_no_control_character_survives(data: bytes) -> None:
    for line in fed(data):
        for char in line:
            assert char == "\t" or unicodedata.category(char) not in {"Cc", "Zl", "Zp", "Cs"}
            assert unicodedata.bidirectional(char) not in {
                "LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI",
            }  # fmt: skip


def shown(data: bytes) -> list[str]:
    """What must be seen of the bytes, said another way: line by line, character by character."""
    lines = [line.removesuffix(b"\r") for line in data.split(b"\n")]
    if not data.endswith(b"\n") and data:
        return [visible(line.decode("utf-8", "backslashreplace")) for line in lines]
    return [visible(line.decode("utf-8", "backslashreplace")) for line in lines[:-1]]


@STEADY
@given(BYTES)
def test_every_byte_is_accounted_for(data: bytes) -> None:
    assert fed(data) == shown(data)


@STEADY
@given(st.text())
def test_what_is_visible_already_stays_as_it_is(text: str) -> None:
    once = visible(text)
    assert visible(once) == once
    if text.isprintable():
        assert once == text or any(char in "\u200b\ufeff" for char in text)


# Lines without an end.


@pytest.mark.parametrize("piece", [1, 7, 1000, MAX_LINE_BYTES, MAX_LINE_BYTES + 1, 10 * MAX_LINE_BYTES])
@pytest.mark.parametrize("unit", [b"a", "é".encode(), "😀".encode()])
def test_an_overlong_line_comes_in_pieces_of_bounded_length_with_no_character_cut(
    unit: bytes, piece: int
) -> None:
    data = unit * (3 * MAX_LINE_BYTES // len(unit)) + b"\nnext\n"
    lines = fed(*(data[at : at + piece] for at in range(0, len(data), piece)))
    assert lines[-1] == "next"
    assert "".join(lines[:-1]) == unit.decode() * (3 * MAX_LINE_BYTES // len(unit))
    assert all(len(line) <= MAX_LINE_BYTES for line in lines)


def test_an_overlong_line_is_not_collected_without_limit() -> None:
    prefixer = OutputPrefixer()
    given_out = sum(len(line) for _ in range(100) for line in prefixer.feed(b"x" * 1000))
    assert given_out >= 100_000 - MAX_LINE_BYTES


def test_a_carriage_return_at_the_cut_of_an_overlong_line_is_shown_too() -> None:
    data = b"a" * (MAX_LINE_BYTES - 1) + b"\r" + b"b" * 10 + b"\n"
    assert "".join(fed(data[:-1], data[-1:])) == "a" * (MAX_LINE_BYTES - 1) + "\\x0d" + "b" * 10


def test_what_comes_with_a_line_does_not_change_how_it_is_shown() -> None:
    line, other = b"\0" * 5000 + b"\n", b"a" * 12_000 + b"\n"
    assert fed(line + other) == fed(line, other)


# The console.


def streaming() -> Console:
    return Console(how="stream", json=False, environment={})


def test_every_line_of_an_item_stands_behind_its_label(capfd: pytest.CaptureFixture[str]) -> None:
    console = streaming()
    console.item_lines("LLD-42", ["one", "two"], error=False)
    console.item_lines("LLD-43", ["three"], error=True)
    console.item_lines("LLD-44", [], error=False)
    said = capfd.readouterr()
    assert said.out == "[LLD-42] one\n[LLD-42] two\n"
    assert said.err == "[LLD-43] three\n"


@pytest.mark.parametrize("line", ["plain", "two\nlines", "a\r\nb", "bell\x07 \x1b[2J \u202e"])
@pytest.mark.parametrize("way", ["say", "complain"])
def test_every_line_of_the_coordinator_stands_behind_its_name(
    capfd: pytest.CaptureFixture[str], line: str, way: str
) -> None:
    getattr(streaming(), way)(line)
    said = capfd.readouterr()
    lines = (said.out + said.err).split("\n")
    assert lines.pop() == ""
    assert all(one.startswith("[COORDINATOR] ") for one in lines), lines
    assert "".join(lines).isprintable()


def test_with_json_standard_output_carries_nothing_else(capfd: pytest.CaptureFixture[str]) -> None:
    console = Console(how="stream", json=True, environment={})
    console.say("hello")
    console.item_lines("LLD-42", ["one"], error=False)
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err == "[COORDINATOR] hello\n[LLD-42] one\n"


def test_quiet_says_only_what_must_be_seen(capfd: pytest.CaptureFixture[str]) -> None:
    console = Console(how="quiet", json=False, environment={})
    console.say("hello")
    console.item_lines("LLD-42", ["one"], error=True)
    console.complain("the disk is full")
    said = capfd.readouterr()
    assert (said.out, said.err) == ("", "[COORDINATOR] the disk is full\n")


@pytest.mark.parametrize("actions", [False, True])
def test_grouped_output_comes_in_one_piece_when_the_item_is_done(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], actions: bool
) -> None:
    log = tmp_path / "LLD-42.log"
    log.write_text("2026-01-01T00:00:00.000Z out one two  three\n2026-01-01T00:00:00.000Z err \n")
    console = Console(how="grouped", json=False, environment={"GITHUB_ACTIONS": "true"} if actions else {})
    console.item_lines("LLD-42", ["one two  three"], error=False)
    assert capfd.readouterr().out == ""
    console.item_done("LLD-42", log)
    console.item_done("LLD-43", tmp_path / "missing.log")
    said = capfd.readouterr().out.splitlines()
    body = ["[LLD-42] one two  three", "[LLD-42] "]
    assert said == (["::group::LLD-42", *body, "::endgroup::"] if actions else body)


def test_without_a_terminal_there_is_no_footer(capfd: pytest.CaptureFixture[str]) -> None:
    console = streaming()
    assert not console.live
    console.show(View(done=0, total=1, counts={}, seconds=0.0, running=()))
    console.close()
    assert capfd.readouterr().out == ""


def test_when_the_reader_of_the_output_goes_the_run_goes_on_and_can_still_complain(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        console = streaming()
        console.say("hello")
        console.say("again")
        console.complain("the disk is full")
    assert capfd.readouterr().err == "[COORDINATOR] the disk is full\n"
