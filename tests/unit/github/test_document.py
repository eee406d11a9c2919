"""A document's own title and labels, as its author may write them."""

import pytest

from agentos.github.document import labels_of, title_and_text


@pytest.mark.parametrize(
    ("document", "title", "text"),
    [
        ("# Dark mode\n\nText\n", "Dark mode", "Text\n"),
        ("\ufeff\n\n# Dark mode #\r\n\r\nText", "Dark mode", "Text"),
        ("Text\n\n# Later", None, "Text\n\n# Later"),
        ("## Small\n\nText", None, "## Small\n\nText"),
        ("#hash", None, "#hash"),
        ("# ", None, "# "),
        ("", None, ""),
    ],
)
def test_a_document_begins_with_its_title(document: str, title: str | None, text: str) -> None:
    assert title_and_text(document) == (title, text)


# Labels.


@pytest.mark.parametrize(
    ("section", "labels"),
    [
        ("enhancement, ui", ("enhancement", "ui")),
        ("`enhancement`, `area: ui`", ("enhancement", "area: ui")),
        ("- bug\n- `size: S`\n\n", ("bug", "size: S")),
        ("* **bug**\n1. two, three", ("bug", "two", "three")),
        ("<!-- Comma separated, in one line. -->\n\nbug, Bug, BUG", ("bug",)),
        ("bug, ui\n\nThese were chosen, as usual, with care.", ("bug", "ui")),
        ("None", ()),
        ("n/a", ()),
        ("None.", ()),
        ("bug; feature", ("bug", "feature")),
        ("bug**: because", ("bug",)),
        ("- **bug**: it crashes\n- `ui`: seen", ("bug", "ui")),
        ("`bug` `area: ui`", ("bug", "area: ui")),
        ("[bug](http://x), [ui][1]", ("bug", "ui")),
        ("| label | why |", ()),
        ("This one is for the team, and soon.", ()),
        ("", ()),
        (f"ok, {'x' * 51}, bad\u202ename, {'y' * 50}", ("ok", "y" * 50)),
        (", ".join(f"l{n}" for n in range(30)), tuple(f"l{n}" for n in range(10))),
    ],
)
def test_labels_stand_in_their_section(section: str, labels: tuple[str, ...]) -> None:
    assert labels_of(f"# T\n\n## Labels\n\n{section}\n\n## T-shirt size\n\nS, small\n") == labels


def test_a_document_without_the_section_has_no_labels() -> None:
    assert labels_of("# T\n\nThe labels: bug\n") == ()
    assert labels_of("```\nLabels: bug\n```\n") == ()
    assert labels_of("```\n## Labels\n\nbug\n```\n") == ()
    assert labels_of("## Labels\n") == ()


@pytest.mark.parametrize(
    "text", ["**Labels:** bug, ui", "**Labels**: bug, ui", "Labels: bug, ui", "## 7. Labels\n\nbug, ui"]
)
def test_labels_may_stand_in_a_line_or_below_a_numbered_heading(text: str) -> None:
    assert labels_of(f"# T\n\n{text}\n\nMore.\n") == ("bug", "ui")
