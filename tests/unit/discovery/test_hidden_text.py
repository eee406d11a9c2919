"""What GitHub shows of a text: the cases in which parsers are easily misled."""

import pytest

from agentos.discovery.hidden_text import shown_text


@pytest.mark.parametrize(
    "text",
    [
        "a <!-- x -->",
        "a <!-- ` x --> `",
        "`a http://e.org/b` <!-- x --> `",  # an address may contain a backtick
        "[a](`) <!-- x --> `",  # so may a link
        "| ` | <!-- x --> | ` |",  # a cell ends code
        "a <b title='`'> <!-- x --> `",
        "<div>\n<!-- a\n\nx -->\n\nx",  # a browser does not see this end
        "<div title='a\n\nx",
        "> <div\n> title='x'>",
        "<!-->a<!--\nx\n-->",
        "<?x?> <!X x> <![CDATA[x]]>",
        "[//]: # (x)",
        "> - [//]: <x> 'x'",
        "[a]: b\n[a]: c 'x'\n\n[a]",
        "a\n[^1]: x\nx\n\n    x\n",
        "```py x\n```",
        "a\u200b\U000e0078\ufe01 [\u3164]",
    ],
)
def test_what_is_not_shown_is_removed(text: str) -> None:
    assert "x" not in shown_text(text)
    assert shown_text(text).isprintable() or "\n" in text


@pytest.mark.parametrize(
    "text",
    [
        "`<!-- a -->` and ``b ` <!-- c -->``",
        "\\<!-- a -->",
        "a <!-- b",
        "```\n<!-- a -->\n[//]: # (b)\n[^1]: c\n```",
        "    <!-- a -->",
        "Array<string>, foo<T = 3>, a < b > c",
        "<img src=\"a\" alt='b'>",
        "[a]: https://e.org\n\n[A]".upper(),
        "a[^1]\n\n[^1]: Words for it.",
        "Füße, 中文, \u0645\u06cc\u200c\u062e, ❤️\u200d🔥",
    ],
)
def test_what_is_shown_stays(text: str) -> None:
    assert shown_text(text) == text
