"""Output: whatever bytes a worker prints become whole, harmless lines behind its name."""

import itertools
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentos.console.lines import KEPT_BACK_BYTES, MAX_LINE_BYTES, OutputPrefixer, visible

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
    assert given_out >= 100_000 - MAX_LINE_BYTES - KEPT_BACK_BYTES


def test_a_carriage_return_at_the_cut_of_an_overlong_line_is_shown_too() -> None:
    data = b"a" * (MAX_LINE_BYTES - 1) + b"\r" + b"b" * 10 + b"\n"
    assert "".join(fed(data[:-1], data[-1:])) == "a" * (MAX_LINE_BYTES - 1) + "\\x0d" + "b" * 10


def test_what_comes_with_a_line_does_not_change_how_it_is_shown() -> None:
    line, other = b"\0" * 5000 + b"\n", b"a" * 12_000 + b"\n"
    assert fed(line + other) == fed(line, other)
