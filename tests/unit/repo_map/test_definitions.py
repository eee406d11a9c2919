"""Files taken apart into definitions, and definitions without their bodies."""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.repo_map.definitions import LONG_UNIT, PART_LINES, Unit, joined, list_signatures, take_apart
from agentos.repo_map.tag_parser import parse
from agentos.repo_map.tags import Definition, Tags

CART = '''import json

LIMIT = 3
class Cart:
    """Holds articles."""

    @property
    def size(self) -> int:
        return 1

    # Adds one.
    def _add(
        self,
        *,
        # What.
        x: str,
        *args: str,
    ) -> None:
        def inner(): ...

    tail = 1

if LIMIT:
    print(json)
'''


def apart(text: str, language: str = "", *, prose: bool = False) -> list[Unit]:
    tags = Tags.from_json(parse(language, text)) if language else Tags()
    return take_apart(_lines(text), tags.definitions, prose=prose)


def signatures(text: str, language: str = "python") -> list[str]:
    listed = list_signatures(_lines(text), [unit for unit in apart(text, language) if unit.kind])
    return [line.rpartition("  [")[0] for line in listed.splitlines()]


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")


def ranges(units: Sequence[Unit]) -> list[tuple[str, int, int]]:
    return [(unit.name, unit.first, unit.last) for unit in units]


# Taking apart


@st.composite
def nested(draw: st.DrawFn, first: int = 1, last: int = 40, depth: int = 0) -> list[Definition]:
    """Definitions in each other; a comment above one may touch what ends there."""
    found: list[Definition] = []
    at = first
    while at <= last and draw(st.booleans()):
        start = draw(st.integers(at, last))
        end = draw(st.integers(start, last))
        above = draw(st.integers(max(first, start - 1), start))
        found.append(Definition("x", "class", above, draw(st.integers(start, end)), end))
        if depth < 3:
            found += draw(nested(start, end, depth + 1))
        at = end + 1
    return found


@given(nested(), st.integers(40, 60))
def test_every_line_belongs_to_exactly_one_unit(definitions: list[Definition], length: int) -> None:
    units = take_apart(["x"] * length, definitions, prose=False)
    belongs = Counter(line for unit in units for line in range(unit.first, unit.last + 1))
    assert belongs == Counter(range(1, length + 1))
    assert [unit.first for unit in units] == sorted(unit.first for unit in units)
    assert all(unit.first <= unit.head <= unit.last for unit in units)


def test_a_class_is_its_head_its_members_and_what_is_between_them() -> None:
    units = apart(CART, "python")
    assert ranges(units) == [
        *(("", 1, 2), ("LIMIT", 3, 3), ("Cart", 4, 6), ("Cart.size", 7, 9), ("Cart._add", 11, 19)),
        *(("Cart", 20, 21), ("", 22, 24)),
    ]
    assert [unit.first for unit in units if unit.opens] == [4]
    assert [unit.around for unit in units] == ["", "", "", "Cart", "Cart", "Cart", ""]


def test_members_on_the_line_of_their_class_are_part_of_it() -> None:
    assert ranges(apart("interface A { b(): void; c(): void }\nlet x = 1\n", "typescript"))[:1] == [
        ("A", 1, 1)
    ]


def test_blank_lines_are_no_unit_and_separate_nothing() -> None:
    text = "def one(): ...\n\n\ndef two(): ...\n\nthree()\n"
    one, two, between = apart(text, "python")
    assert ranges([one, two]) == [("one", 1, 1), ("two", 4, 4)]
    assert joined(_lines(text), [two, one]) == [[one, two]]
    assert joined(_lines(text), [one, between]) == [[one], [between]]


def test_a_definition_right_below_a_text_that_looks_like_a_comment_is_found() -> None:
    text = 'def one():\n    return """\n# x"""\ndef two():\n    return 1\n'
    assert ranges(apart(text, "python")) == [("one", 1, 3), ("two", 4, 5)]


def test_a_very_long_function_is_shown_in_parts() -> None:
    text = "def one(\n    x,\n):\n" + "    x()\n" * LONG_UNIT
    units = apart(text, "python")
    assert {unit.name for unit in units} == {"one"}
    assert [unit.first for unit in units] == list(range(1, LONG_UNIT + 4, PART_LINES))
    assert [unit.head for unit in units[:2]] == [3, 1 + PART_LINES]


@pytest.mark.parametrize(
    ("text", "sections"),
    [
        (
            "Before.|# One||```sh|# no heading|out|-----|```|## Two|Text||Three|=====|End",
            [("", 1, 1), ("One", 2, 8), ("Two", 9, 11), ("Three", 12, 14)],
        ),
        (
            "Title|=====||Text.||Usage|~~~~~||::||    # no heading||More|----|End.",
            [("Title", 1, 5), ("Usage", 6, 12), ("More", 13, 15)],
        ),
    ],
    ids=["markdown", "restructuredtext"],
)
def test_a_document_consists_of_sections(text: str, sections: list[tuple[str, int, int]]) -> None:
    assert ranges(apart(text.replace("|", "\n"), prose=True)) == sections


def test_a_language_without_a_parser_is_taken_apart_by_its_words() -> None:
    text = "import x\n\nclass Cart {\n  x\n}\nobject Store {\n}\n"
    assert ranges(apart(text)) == [("", 1, 2), ("Cart", 3, 5), ("Store", 6, 7)]
    assert ranges(apart("only = words\n\n")) == [("", 1, 2)]


# Signatures


def test_a_signature_has_decorators_and_every_parameter_but_no_body() -> None:
    assert signatures(CART) == [
        "LIMIT = 3",
        "class Cart",
        "    @property def size(self) -> int",
        "    def _add( self, *, x: str, *args: str, ) -> None",
    ]


def long(count: int, annotation: str = "") -> str:
    return ", ".join(f"parameter_{number}{annotation}" for number in range(count))


NOTED = ": dict[str, list[int]]"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"def one({long(8, NOTED)}) -> None: ...", f"def one({long(8)}) -> None: ..."),
        (f"def one(*, a=lambda x: x, b: str = '', {long(6, NOTED)}): ...",
         f"def one(*, a=lambda x: x, b='', {long(6)}): ..."),
        (f"def one({long(20, NOTED)}): ...", f"def one({long(9)}, [... 11 more parameters])"),
        (f'@app.route("/one", methods=["GET"])\ndef one({long(20, NOTED)}): ...',
         f'@app.route("/one", methods=["GET"]) def one({long(6)}, [... 14 more parameters])'),
        (f"func (c *Cart) Add({long(20, ' int')}) {{}}",
         f"func (c *Cart) Add({long(6, ' int')}, [... 14 more parameters])"),
        (f"VALUE = '{'x' * 300}'", f"VALUE = '{'x' * 151} [... 150 more characters]"),
    ],
    ids=["annotations", "defaults", "parameters", "decorator", "receiver", "no-parameters"],
)  # fmt: skip
def test_a_long_signature_loses_annotations_then_parameters(text: str, expected: str) -> None:
    assert signatures(text, "go" if text.startswith("func") else "python") == [expected]
