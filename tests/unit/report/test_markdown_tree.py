"""Markdown becomes a tree of allowed nodes; whatever is hostile in it is text or is left out."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.report.markdown_tree import MOST_NODES, markdown_tree

ALLOWED = {
    *(
        "p",
        "ul",
        "ol",
        "li",
        "blockquote",
        "pre",
        "code",
        "em",
        "strong",
        "s",
        "hr",
        "br",
        "span",
        "a",
        "img",
    ),
    *("a", "img", "table", "thead", "tbody", "tr", "th", "td", "h1", "h2", "h3", "h4", "h5", "h6"),
}


def nodes(tree: Any) -> Iterator[list[Any]]:
    for one in tree:
        if isinstance(one, list):
            yield one
            yield from nodes(one[2:] if one[0] == "a" else one[1:])


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        (
            "# A *b*\n\nText with `code`.",
            [["h1", "A ", ["em", "b"]], ["p", "Text with ", ["code", "code"], "."]],
        ),
        ("- [x] **APPROVED**\n- [ ] no", [["ul", ["li", "☑ ", ["strong", "APPROVED"]], ["li", "☐ no"]]]),
        ("```py\na <b>\n```", [["pre", "a <b>\n"]]),
        ("| a |\n|---|\n| 1 |", [["table", ["thead", ["tr", ["th", "a"]]], ["tbody", ["tr", ["td", "1"]]]]]),
        ("> a\\\n> b", [["blockquote", ["p", "a", ["br"], "b"]]]),
        ("[a][r]\n\n[r]: https://x.y/z", [["p", ["a", "https://x.y/z", "a"]]]),
        ("![a *b*](http://127.0.0.1:9/p.png)", [["p", ["img", "a b"]]]),
        ("### deep\n\n###### deeper", [["h1", "deep"], ["h2", "deeper"]]),
    ],
)
def test_markdown_is_read(text: str, tree: Any) -> None:
    assert markdown_tree(text) == tree


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "a <img src=x onerror=alert(1)> b",
        "<iframe src='http://127.0.0.1:9'></iframe>",
        "[a](javascript:alert(1))",
        "[a](data:text/html,x)",
        "[a](file:///etc/passwd)",
        "[a](//evil.example/x)",
        "<javascript:alert(1)>",
        "[a]\n\n[a]: JaVaScRiPt:alert(1)",
    ],
)
def test_nothing_active_gets_through(text: str) -> None:
    assert {one[0] for one in nodes(markdown_tree(text))} <= {"p", "span"}


@given(st.text(alphabet="[]()!*_`<>#|-\n ahtps:/.\\&~x0123", max_size=300))
def test_only_allowed_tags_and_web_addresses(text: str) -> None:
    tree = markdown_tree(text)
    json.dumps(tree)
    for node in nodes(tree):
        assert node[0] in ALLOWED
        assert node[0] != "a" or node[1].startswith(("http://", "https://"))


@pytest.mark.parametrize("mark", ["[", "![", "*a_", "[a](", "<http:", "a`"])
def test_a_block_with_very_many_marks_stays_plain(mark: str) -> None:
    text = mark * 2000
    assert markdown_tree(text) == [["p", text]]


def test_a_very_long_document_is_cut_and_says_so() -> None:
    tree = markdown_tree("- a\n" * MOST_NODES)
    assert "left out" in json.dumps(tree[-1])
    assert sum(1 for _ in nodes(tree)) < 3 * MOST_NODES
