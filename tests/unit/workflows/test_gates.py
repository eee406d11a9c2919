"""Gates: what counts as a section, and whose reference stands in the reference line."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agentos.workflows.gates import (
    REQUIRED,
    GateResult,
    Kind,
    check_draft,
    check_template,
    own_reference,
    required_by,
)
from agentos.workflows.prompts import shipped_template

BODY = "\n## Context\n\nWhy it matters.\n\n## Proposed Changes\n\nWhat is done.\n"
ISSUE = """# Add login

## User Story

As a user, I want to log in, so that my data is mine.

## Acceptance Criteria

- [ ] A wrong password is refused within 1 s.

## Definition of Done

- [ ] Tests and documentation.
"""


def lld(reference: str = "**Issue:** #42", body: str = BODY) -> str:
    return f"# LLD-42: Title\n\n{reference}\n{body}"


def check_lld(draft: str, item_id: str = "42", *, github: bool = False) -> GateResult:
    return check_draft("lld", draft, item_id=item_id, github=github)


def with_context(section: str) -> str:
    return lld(body=f"\n{section}\n\n## Proposed Changes\n\nWhat is done.\n")


# Sections


def test_complete_drafts_pass_unchanged() -> None:
    assert check_lld(lld()) == GateResult(draft=lld(), missing=(), notes=())
    assert check_draft("issue", ISSUE, item_id="add-login") == GateResult(draft=ISSUE, missing=(), notes=())


@pytest.mark.parametrize("kind", REQUIRED)
@pytest.mark.parametrize("draft", ["", "\n", "Plain prose about context and proposed changes.", "\0"])
def test_an_empty_draft_misses_everything_in_order(kind: Kind, draft: str) -> None:
    assert check_draft(kind, draft, item_id="42").missing == REQUIRED[kind]


@pytest.mark.parametrize(
    "heading",
    [
        "## Context",
        "# CONTEXT",
        "###### context",
        "## 1. Context",
        "## 1) Context",
        "## 1.2 Context",
        "## 1.Context",
        "## (1) Context",
        "## II. Context",
        "## A. Context",
        "## Section 1: Context",
        "## **Context**",
        "## __1. Context__",
        "## `Context`",
        "## Context:",
        "## Context & Goal",
        "## 1. Context and Goal",
        "## Context / Background",
        "## Background & Context",
        "## Context (why now)",
        "## Context ##",
        "## 🎯 Context",
        "## [Context](#context)",
        "Context\n-------",
        "Context & Goal\n=======",
        "  ## Context",
    ],
)
def test_headings_that_count(heading: str) -> None:
    assert check_lld(with_context(f"{heading}\n\nWhy it matters.")).missing == ()


@pytest.mark.parametrize(
    "section",
    [
        "Context\n\nWhy it matters.",
        "**Context**\n\nWhy it matters.",
        "##Context\n\nWhy it matters.",
        "## Contextual menus\n\nWhy it matters.",
        "## Context propagation\n\nWhy it matters.",
        "## Trace context\n\nWhy it matters.",
        "```\n## Context\n\nWhy it matters.\n```",
        "~~~markdown\n## Context\n\nWhy it matters.\n~~~",
        "    ## Context\n\n    Why it matters.",
        "> ## Context\n>\n> Why it matters.",
        "- ## Context\n  Why it matters.",
        "<!--\n## Context\n\nWhy it matters.\n-->",
        "####### Context\n\nWhy it matters.",
        r"\## Context" + "\n\nWhy it matters.",
    ],
)
def test_headings_that_do_not_count(section: str) -> None:
    assert check_lld(with_context(section)).missing == ("Context",)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "<!-- Say why. -->",
        "<!-- Say\nwhy. -->\n\n<!-- And more. -->",
        "TBD",
        "*TODO*",
        "N/A",
        "None.",
        "...",
        "---",
        "- [ ]",
        "- [ ] [what is to be shown]",
        "[Describe the context here]",
        "{{context}}",
        "<describe the context>",
        "As a <role>, I want <what>, so that <why>.",
        "As a [role], I want [what], so that [why].",
        "As a ..., I want to ..., so that ...",
        "### Details",
        "### Details\n\n<!-- here -->",
        "```\n```",
        "![](picture.png)",
        "<br>",
        "| | |\n| --- | --- |",
    ],
)
def test_content_that_says_nothing(content: str) -> None:
    assert check_lld(with_context(f"## Context\n\n{content}")).missing == ("Context",)


@pytest.mark.parametrize(
    "content",
    [
        "Why.",
        "- one",
        "1. [ ] one",
        "> quoted",
        "### Details\n\nWhy.",
        "```python\nrun()\n```",
        "    run()",
        "`run()`",
        "| a | b |\n| --- | --- |\n| 1 | 2 |",
        "<p>Why.</p>",
        "<!-- Say why. -->\n\nBecause.",
        "Because. <!-- TBD -->",
        "<https://example.org/why>",
        "[LLD-7](LLD-7.md)",
        "理由はこうです。",
        "TBD by the team of the billing service",
    ],
)
def test_content_that_says_something(content: str) -> None:
    assert check_lld(with_context(f"## Context\n\n{content}")).missing == ()


def test_a_section_ends_at_the_next_heading_of_its_level() -> None:
    assert check_lld(with_context("## Context\n\n## Goal\n\nHere.")).missing == ("Context",)
    assert check_lld(with_context("### Context\n\n## Goal\n\nHere.")).missing == ("Context",)


def test_one_of_two_sections_of_a_name_is_enough() -> None:
    assert check_lld(with_context("## Context\n\nTBD\n\n## Context\n\nWhy.")).missing == ()


@pytest.mark.parametrize(
    ("heading", "name"),
    [
        ("User Story", "User Story"),
        ("Acceptance Criteria", "Acceptance Criteria"),
        ("Definition of Done", "Definition of Done"),
    ],
)
def test_an_issue_without_a_section_misses_it_by_name(heading: str, name: str) -> None:
    draft = ISSUE.replace(f"## {heading}\n", "## Something else\n")
    assert check_draft("issue", draft, item_id="x").missing == (name,)


@pytest.mark.parametrize("heading", ["User Stories", "2. User Story", "User Story 1", "User Story (primary)"])
def test_issue_headings_are_read_kindly(heading: str) -> None:
    assert check_draft("issue", ISSUE.replace("User Story", heading), item_id="x").missing == ()


def test_an_issue_needs_no_reference() -> None:
    draft = ISSUE + "\n**Issue:** #TBD\n"
    assert check_draft("issue", draft, item_id="x") == GateResult(draft=draft, missing=(), notes=())


@pytest.mark.parametrize("kind", REQUIRED)
def test_an_unfilled_shipped_template_does_not_pass(kind: Kind) -> None:
    expected = tuple(name for name in REQUIRED[kind] if name != "Issue reference")
    assert check_draft(kind, shipped_template(kind), item_id="42").missing == expected


# The reference


@pytest.mark.parametrize(
    "line",
    [
        "**Issue:** #42",
        "**Issue**: #42",
        "**Issue: #42**",
        "*Issue:* #42",
        "Issue: #42",
        "issue: 42",
        "- **GitHub Issue:** #42",
        "| Issue | #42 |",
        "**Issue Link:** [#42](https://github.com/o/r/issues/42)",
        "**Issue:** https://github.com/o/r/issues/42",
        "**Issue:** o/r#42 - Title",
        "**Issue:** GH-42",
        "**Issue:** 42: Title",
        "**Issue:** `#42`, follows #17",
        "## Issue: #42",
        "## Issue\n\n#42",
        "## 0. Issue Reference\n\n- #42",
    ],
)
def test_references_to_the_item(line: str) -> None:
    assert check_lld(lld(line)) == GateResult(draft=lld(line), missing=(), notes=())


@pytest.mark.parametrize(
    "placeholder",
    [
        "#TBD", "#tbd", "#TBA", "#TODO", "#XXX", "#0XXX", "#1XXX", "#X", "#N", "#NNN", "#0", "#000", "#?",
        "#???", "#___", "#<number>", "#<issue number>", "#{number}", "#{{issue}}", "#[number]", "#ID",
        "#number", "#issue-number", "TBD", "TODO", "N/A", "None", "XXX", "???", "<number>", "{{issue}}",
        "[TBD]", "`#TBD`", "[#TBD]", "[#TBD](https://github.com/o/r/issues/TBD)",
        "[TBD](https://example.org)", "owner/repo#TBD", "[owner/repo#TBD]",
    ],
)  # fmt: skip
@pytest.mark.parametrize(("item_id", "own"), [("42", "#42"), ("add-login", "add-login")])
def test_a_placeholder_is_replaced_and_noted(placeholder: str, item_id: str, own: str) -> None:
    result = check_lld(lld(f"**Issue:** {placeholder}"), item_id)
    assert result.draft == lld(f"**Issue:** {own}")
    assert result.missing == ()
    assert result.notes == (f"The issue reference {placeholder} was replaced by {own}.",)


@pytest.mark.parametrize(
    ("line", "corrected"),
    [
        ("**Issue:**", "**Issue:** #42"),
        ("**Issue:** <!-- number -->", "**Issue:** #42 <!-- number -->"),
        ("| Issue | #TBD |", "| Issue | #42 |"),
        ("**Issue: #TBD**", "**Issue: #42**"),
        ("- GitHub Issue: #TBD (to be filed)", "- GitHub Issue: #42 (to be filed)"),
        ("**Issue:** Parallel runs, #TBD", "**Issue:** Parallel runs, #42"),
        ("## Issue\n\n#TBD", "## Issue\n\n#42"),
        ("**Issue:** #TBD\n**Issue ID:** #TBD", "**Issue:** #42\n**Issue ID:** #42"),
    ],
)
def test_only_the_placeholder_is_replaced(line: str, corrected: str) -> None:
    result = check_lld(lld(line))
    assert result.draft == lld(corrected)
    assert result.missing == ()
    assert result.notes


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("**Issue:** #17", "#17"),
        ("**Issue:** #421", "#421"),
        ("**Issue:** #4", "#4"),
        ("**Issue:** 17 - Title", "17"),
        ("**Issue:** https://github.com/o/r/issues/17", "/issues/17"),
        ("**Issue:** <https://github.com/o/r/issues/17>", "/issues/17"),
        ("**Issue:** add-login", "add-login"),
    ],
)
def test_a_foreign_reference_is_left_and_noted(line: str, named: str) -> None:
    result = check_lld(lld(line))
    assert result.draft == lld(line)
    assert result.missing == ()
    assert result.notes == (f"The issue reference names {named}, not this item's #42; it was left as it is.",)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "See #42.",
        "**Issue:** Parallel runs for the 42 items",
        "**Related issues:** #42",
        "The issue: #42 is old",
        "```\n**Issue:** #42\n```",
        "> **Issue:** #42",
        "<!-- **Issue:** #42 -->",
        "    Issue: #42",
        "## Issue\n\nToo slow.",
    ],
)
def test_lines_that_are_no_reference(line: str) -> None:
    result = check_lld(lld(line))
    assert result == GateResult(draft=lld(line), missing=("Issue reference",), notes=())


def test_a_word_about_another_issue_does_not_hide_the_reference() -> None:
    draft = lld("**Issue:** #42", body=BODY + "\nIssue: the pool of #17 is empty.\nIssue:\n")
    assert check_lld(draft) == GateResult(draft=draft, missing=(), notes=())


def test_a_slug_is_found_in_its_line() -> None:
    for line in ("**Issue:** add-login", "**Issue:** #add-login", "**Issue:** Add login (add-login)"):
        assert check_lld(lld(line), "add-login") == GateResult(draft=lld(line), missing=(), notes=())
    assert check_lld(lld("**Issue:** Login"), "add-login").missing == ("Issue reference",)
    assert (
        check_lld(lld("**Issue:** re-add-login"), "add-login")
        .notes[0]
        .startswith("The issue reference names re-add-login,")
    )


def test_a_bare_number_is_made_a_link_on_github_only() -> None:
    assert check_lld(lld("**Issue:** 42")).notes == ()
    result = check_lld(lld("**Issue:** 42 - Title"), github=True)
    assert result.draft == lld("**Issue:** #42 - Title")
    assert result.notes == ("The issue reference 42 was replaced by #42.",)
    url = lld("**Issue:** https://github.com/o/r/issues/42")
    assert check_lld(url, github=True) == GateResult(draft=url, missing=(), notes=())


def test_how_an_item_is_referred_to() -> None:
    assert own_reference("42") == "#42"
    assert own_reference("add-login") == "add-login"


# Whole drafts


@pytest.mark.parametrize("info", ["markdown", "md", "", "Markdown"])
def test_a_fence_around_the_whole_draft_is_removed(info: str) -> None:
    result = check_lld(f"\n```{info}\n{lld('**Issue:** #TBD')}```\n")
    assert result.draft == lld()
    assert result.missing == ()
    assert len(result.notes) == 2
    assert "code fence" in result.notes[0]


def test_a_fence_around_a_draft_with_fences_is_removed() -> None:
    inner = lld(body="\n## Context\n\n```python\nrun()\n```\n\nWhy.\n\n## Proposed Changes\n\nWhat.\n")
    assert check_lld(f"```markdown\n{inner}```").draft == inner


@pytest.mark.parametrize(
    "draft", ["```\nx\n```", "```python\n" + lld() + "```", "```markdown\n" + lld(), "```\n", "```"]
)
def test_a_fence_that_is_no_wrapping_stays(draft: str) -> None:
    result = check_lld(draft)
    assert result.draft == draft
    assert result.missing == REQUIRED["lld"]


def test_line_ends_of_windows_are_read() -> None:
    draft = lld().replace("\n", "\r\n")
    assert check_lld(draft) == GateResult(draft=draft, missing=(), notes=())
    assert "**Issue:** #42\n" in check_lld(draft.replace("#42", "#TBD")).draft


PIECES = (
    "**Issue:** ", "Issue: ", "| Issue | ", "## Issue\n\n", "#TBD", "TBD", "#42", "42", "#17", "#",
    "add-login", "<!-- ", "-->", "<x>", "{{y}}", "[", "](u)", "`", "```\n", "**", "__", "?", "|", "> ", "- ",
    "    ", " ", "\n", "\n\n", "\r\n", "## Context\n", "why",
)  # fmt: skip


@given(
    text=st.lists(st.sampled_from(PIECES), max_size=16).map("".join) | st.text(),
    item_id=st.sampled_from(["42", "add-login"]),
    github=st.booleans(),
)
def test_any_text_can_be_checked_and_checking_twice_changes_nothing(
    text: str, item_id: str, github: bool
) -> None:
    first = check_lld(text, item_id, github=github)
    again = check_lld(first.draft, item_id, github=github)
    assert set(first.missing) <= set(REQUIRED["lld"])
    assert (again.draft, again.missing) == (first.draft, first.missing)
    assert first.draft == text or first.notes


@given(st.text())
def test_a_draft_of_an_issue_is_never_changed(text: str) -> None:
    assume(not text.strip().startswith(("```", "~~~")))
    assert check_draft("issue", text, item_id="42").draft == text


# Templates


def test_a_template_is_told_what_it_lacks() -> None:
    assert check_template("lld", "# LLD\n\n## Context\n") == ("Issue reference", "Proposed Changes")
    assert check_template("lld", "Issue: #<n>\n\n## 1. Context & Goal\n\n### Proposed Changes\n") == ()
    assert check_template("issue", "## User Story\n") == ("Acceptance Criteria", "Definition of Done")
    assert check_template("issue", "```\n## User Story\n```\n") == REQUIRED["issue"]


# Templates in any language


GERMAN = """# LLD-<id>: <Titel>

**Vorgang:** #<Nummer> <!-- required -->

## 1. Kontext & Ziel

<!-- required -->

<!-- Worum es geht. -->

## 2. Umsetzung <!-- required -->

### Files changed

<!-- Eine Liste. -->

## 3. Kosten
"""
GERMAN_DRAFT = """# LLD-42: Anmeldung

**Vorgang:** #42

## 1. Kontext & Ziel

Warum es wichtig ist.

## Umsetzung

Was getan wird.
"""


def check_german(draft: str) -> GateResult:
    return check_draft("lld", draft, item_id="42", template=GERMAN)


def test_a_template_says_what_is_required() -> None:
    required = required_by("lld", GERMAN)
    assert required.names == ("Issue reference", "Kontext & Ziel", "Umsetzung")
    assert check_template("lld", GERMAN) == ()
    assert check_german(GERMAN_DRAFT) == GateResult(draft=GERMAN_DRAFT, missing=(), notes=())


@pytest.mark.parametrize(
    ("old", "new", "missing"),
    [
        ("**Vorgang:** #42", "", ("Issue reference",)),
        ("Kontext & Ziel", "Kontext", ("Kontext & Ziel",)),
        ("Kontext & Ziel", "KONTEXT & ZIEL:", ()),
        ("## Umsetzung", "### 2) Umsetzung (neu)", ()),
        ("## Umsetzung", "## Umsetzungen", ("Umsetzung",)),
        ("Was getan wird.", "<!-- required -->", ("Umsetzung",)),
        ("**Vorgang:** #42", "**Issue:** #42", ()),
    ],
)
def test_a_draft_has_the_headings_of_its_template(old: str, new: str, missing: tuple[str, ...]) -> None:
    assert check_german(GERMAN_DRAFT.replace(old, new)).missing == missing


def test_the_reference_is_corrected_in_the_templates_own_line() -> None:
    result = check_german(GERMAN_DRAFT.replace("#42", "#TBD"))
    assert (result.draft, result.missing) == (GERMAN_DRAFT, ())
    assert result.notes == ("The issue reference #TBD was replaced by #42.",)


@pytest.mark.parametrize("kind", REQUIRED)
def test_the_shipped_templates_mark_what_was_always_required(kind: Kind) -> None:
    template = shipped_template(kind)
    assert "<!-- required -->" in template
    assert required_by(kind, template).names == REQUIRED[kind]


def test_other_spellings_of_our_own_names_count_whatever_the_template_calls_them() -> None:
    template = "**Issue:** #\n\n## 1. Context & Goal <!-- required -->\n"
    assert required_by("lld", template).names == ("Issue reference", "Context")
    assert (
        check_draft("lld", "**Issue:** #42\n\n## Context\n\nWhy.\n", item_id="42", template=template).missing
        == ()
    )


@pytest.mark.parametrize("template", ["", "# T\n\n## Kontext\n", "```\n## A <!-- required -->\n```\n"])
def test_a_template_without_marks_requires_the_usual_parts(template: str) -> None:
    assert required_by("lld", template).names == REQUIRED["lld"]
    assert check_template("lld", template) == REQUIRED["lld"]


def test_a_marked_template_of_a_design_still_needs_a_reference_line() -> None:
    assert check_template("lld", "# T\n\n## Kontext <!-- required -->\n") == ("Issue reference",)
    assert check_template("issue", "# T\n\n## Nutzen <!-- required -->\n") == ()


@given(st.text(alphabet="# ab<!-required>\n*:|_`", max_size=120))
def test_any_template_can_be_read(template: str) -> None:
    names = required_by("lld", template).names
    assert set(check_template("lld", template)) <= set(names)


@pytest.mark.parametrize("colon", [":", "\uff1a"])
@pytest.mark.parametrize("number", ["", "1. ", "\uff11\uff0e", "1\u3001"])
def test_a_template_and_a_draft_in_japanese(colon: str, number: str) -> None:
    template = f"# T\n\n**課題{colon}** #<番号> <!-- required -->\n\n## 1. 背景 <!-- required -->\n"
    assert required_by("lld", template).names == ("Issue reference", "背景")
    for written in (":", "\uff1a"):
        draft = f"# T\n\n**課題{written}** #TBD\n\n## {number}背景{written}\n\n理由。\n"
        result = check_draft("lld", draft, item_id="42", template=template)
        assert result.missing == ()
        assert f"**課題{written}** #42" in result.draft
