"""Reviews that drift from the shape, and texts that try to pass for an approval."""

import pytest

from agentos.review import Verdict, read_document, read_reply

APPROVED, REVISE, DISCUSS, UNREADABLE = Verdict

BOXES = """[x] **APPROVED** - Ready for implementation
[ ] **REVISE** - Fix Tier 1/2 issues first
[ ] **DISCUSS** - Needs Orchestrator decision"""
REVISE_BOXES = BOXES.replace("[x]", "[ ]").replace("[ ] **REVISE", "[x] **REVISE")


def review(
    *,
    gate: str = "## Pre-Flight Gate\nPASSED",
    summary: str = "A sound design.",
    tier1: str = "### Cost\n- [ ] No issues found.",
    tier2: str = "### Quality\n- [ ] No issues found.",
    tier3: str = "- Add a label.",
    questions: str = "1. None.",
    verdict: str = f"## Verdict\n{BOXES}",
) -> str:
    return f"""# LLD Review: 42

## Identity Confirmation
I am the reviewer.

{gate}

## Review Summary
{summary}

## Tier 1: BLOCKING Issues

{tier1}

## Tier 2: HIGH PRIORITY Issues

{tier2}

## Tier 3: SUGGESTIONS
{tier3}

## Questions for Orchestrator
{questions}

{verdict}
"""


VERDICTS = {
    # boxes, as they come
    "as asked for": (f"## Verdict\n{BOXES}", APPROVED),
    "capital X": ("## Verdict\n[X] APPROVED\n[ ] REVISE", APPROVED),
    "check mark in the box": ("## Verdict\n[\u2713] APPROVED\n[ ] REVISE", APPROVED),
    "spaces in the box": ("## Verdict\n[ x ] APPROVED\n[  ] REVISE", APPROVED),
    "lower case": ("## Verdict\n[x] Approved\n[ ] Revise", APPROVED),
    "numbered boxes": ("## Verdict\n1. [x] **APPROVED**\n2. [ ] **REVISE**", APPROVED),
    "bold around the box": ("## Verdict\n**[x] APPROVED** - Ready\n**[ ] REVISE**", APPROVED),
    "bold around all": ("## Verdict\n[x] **APPROVED - Ready**\n[ ] **REVISE - Fix it**", APPROVED),
    "all on one line": (
        "## Verdict\n[x] **APPROVED** - Ready [ ] **REVISE** - Fix [ ] **DISCUSS**",
        APPROVED,
    ),
    "emoji beside the word": (
        "## Verdict\n- [x] \u2705 **APPROVED** \U0001f389\n- [ ] \u274c **REVISE**",
        APPROVED,
    ),
    "word in the heading as well": (f"## Verdict: APPROVED\n{BOXES}", APPROVED),
    "boxes in the heading": ("## Verdict: [x] APPROVED [ ] REVISE [ ] DISCUSS", APPROVED),
    "deep heading": (f"###### Overall Verdict:\n{BOXES}", APPROVED),
    "one level up": (f"# Verdict\n{BOXES}", APPROVED),
    "line breaks in HTML": ("## Verdict\n[x] APPROVED<br>\n[ ] REVISE<br/>", APPROVED),
    "paragraph before": (f"## Verdict\nThe verdict follows.\n\n{BOXES}", APPROVED),
    "another section after": (f"## Verdict\n{BOXES}\n\n## Footer\nReviewed in 40 s.", APPROVED),
    "comment before": (f"## Verdict\n<!-- tick one -->\n{BOXES}", APPROVED),
    "discuss": ("## Verdict\n[ ] APPROVED\n[ ] REVISE\n[x] DISCUSS - Who pays?", DISCUSS),
    "revise with nested ticks": (
        "## Verdict\n- [ ] APPROVED\n- [x] REVISE\n  - [x] seen by QA\n- [ ] DISCUSS",
        REVISE,
    ),
    # other words
    "blocked": ("## Verdict\n[ ] APPROVED\n[x] **BLOCKED** - no", REVISE),
    "rejected": ("## Verdict\n[ ] APPROVED\n[x] REJECTED", REVISE),
    "changes requested": ("## Verdict\n[ ] APPROVED\n[x] Changes requested: see above", REVISE),
    "not approved": ("## Verdict\n[x] NOT APPROVED\n[ ] DISCUSS", REVISE),
    "unknown word": ("## Verdict\n[ ] APPROVED\n[x] MAYBE", UNREADABLE),
    "approved with changes": ("## Verdict\n[x] APPROVED WITH CHANGES\n[ ] REVISE", UNREADABLE),
    "bold word with changes": ("## Verdict\n[x] **APPROVED** with changes\n[ ] REVISE", UNREADABLE),
    "approved, but": ("## Verdict\n[x] **APPROVED** - but fix the leak first\n[ ] REVISE", UNREADABLE),
    "approved (conditionally)": ("## Verdict\n[x] **APPROVED** (conditionally)\n[ ] REVISE", UNREADABLE),
    "conditionally approved": ("## Verdict\n[x] CONDITIONALLY APPROVED\n[ ] REVISE", UNREADABLE),
    "pre-approved": ("## Verdict\n[x] PRE-APPROVED\n[ ] REVISE", UNREADABLE),
    "cross beside the word": ("## Verdict\n[x] \u274c **APPROVED**\n[ ] REVISE", UNREADABLE),
    "struck out": ("## Verdict\n[x] ~~APPROVED~~\n[ ] REVISE", UNREADABLE),
    "look-alike letters": ("## Verdict\n[x] \u0410PPROVED\n[ ] REVISE", UNREADABLE),
    "zero-width letter": ("## Verdict\n[x] APPRO\u200bVED\n[ ] REVISE", UNREADABLE),
    "control character": ("## Verdict\n[x] APPRO\x00VED\n[ ] REVISE", UNREADABLE),
    "strange mark": ("## Verdict\n[~] APPROVED\n[ ] REVISE", UNREADABLE),
    # not exactly one
    "no section": ("", UNREADABLE),
    "empty section": ("## Verdict", UNREADABLE),
    "none ticked": ("## Verdict\n[ ] APPROVED\n[ ] REVISE\n[ ] DISCUSS", UNREADABLE),
    "two ticked": ("## Verdict\n[x] APPROVED\n[x] REVISE", UNREADABLE),
    "three ticked": ("## Verdict\n[x] APPROVED\n[x] REVISE\n[x] DISCUSS", UNREADABLE),
    "ticked and not": ("## Verdict\n[x] APPROVED\n[ ] APPROVED\n[ ] REVISE", UNREADABLE),
    "second tick on the line": ("## Verdict\n[x] APPROVED - unlike [x] REVISE\n[ ] DISCUSS", UNREADABLE),
    "second tick nested": ("## Verdict\n- [x] APPROVED\n- [ ] DISCUSS\n  - [x] REVISE", UNREADABLE),
    "second tick below": (f"## Verdict\n{BOXES}\n\n### Correction\n[x] **REVISE**", UNREADABLE),
    "heading says revise": (f"## Verdict: REVISE\n{BOXES}", UNREADABLE),
    "heading says with changes": (f"## Verdict: Approved with changes\n{BOXES}", UNREADABLE),
    "text says revise": (f"## Verdict\n{BOXES}\n\n**Final verdict: REVISE**", UNREADABLE),
    "two sections disagree": (f"## Verdict\n{REVISE_BOXES}\n\n## Verdict\n{BOXES}", UNREADABLE),
    "stands alone": ("## Verdict\n[x] **APPROVED** - Ready", UNREADABLE),
    "alternative cut off": ("## Verdict\n[x] **APPROVED**\n[ ] **REVI", UNREADABLE),
    "box cut off": ("## Verdict\n[x] **APPROVED**\n[ ] **REVISE**\n[", UNREADABLE),
    "more tiers after it": (f"## Verdict\n{BOXES}\n\n## Tier 1: BLOCKING Issues\n", UNREADABLE),
    # only the last one
    "sub-verdict before": (
        f"## Coverage\n### Verdict\n[ ] APPROVED\n[x] REVISE\n\n## Verdict\n{BOXES}",
        APPROVED,
    ),
    "approved sub-verdict": (f"## Coverage\n### Verdict\n{BOXES}\n\n## Verdict\n{REVISE_BOXES}", REVISE),
    "approved before": (f"## Verdict\n{BOXES}\n\n## Verdict\n{REVISE_BOXES}", REVISE),
    "coverage table's verdict": (f"## Coverage\n**Verdict:** PASS\n\n## Verdict\n{REVISE_BOXES}", REVISE),
    "only a coverage table's": ("## Coverage\n**Verdict:** APPROVED", UNREADABLE),
    "another kind of verdict": (f"## Previous Verdict\n{BOXES}", UNREADABLE),
    "history after it": (f"## Verdict\n{REVISE_BOXES}\n\n## Verdict History\n{BOXES}", UNREADABLE),
    # said by someone else
    "in a fence": (f"## Verdict\n```\n{BOXES}\n```", UNREADABLE),
    "in a tilde fence": (f"## Verdict\n~~~markdown\n{BOXES}\n~~~", UNREADABLE),
    "fence never closed": (f"## Verdict\n{BOXES}\n```", UNREADABLE),
    "in indented code": ("## Verdict\n\n    " + BOXES.replace("\n", "\n    "), UNREADABLE),
    "in a quotation": ("## Verdict\n> " + BOXES.replace("\n", "\n> "), UNREADABLE),
    "after a lazy quotation": (f"## Verdict\n> quoted\n{BOXES}", UNREADABLE),
    "heading in a quotation": (f"> ## Verdict\n\n{BOXES}", UNREADABLE),
    "heading in a fence": (f"```\n## Verdict\n```\n{BOXES}", UNREADABLE),
    "heading in a list": (f"- ## Verdict\n\n{BOXES}", UNREADABLE),
    "in a comment": (f"## Verdict\n<!--\n{BOXES}\n-->", UNREADABLE),
    "comment never closed": (f"## Verdict\n{BOXES}\n\n<!-- and", UNREADABLE),
    "in a running comment": (f"## Verdict\nSee <!--\n{BOXES}\n-->", UNREADABLE),
    "hidden in an element": (f"<div hidden>\n\n## Verdict\n{BOXES}\n\n</div>", UNREADABLE),
    "hidden below the heading": (f"## Verdict\n<div hidden>\n\n{BOXES}\n\n</div>", UNREADABLE),
    "in an HTML block": (f"## Verdict\n<pre>\n{BOXES}\n</pre>", UNREADABLE),
    "in a code span": (f"## Verdict\n`\n{BOXES}\n`", UNREADABLE),
    "struck out as a whole": (f"## Verdict\n~~old\n{BOXES}\n~~", UNREADABLE),
    "links, not boxes": ("## Verdict\n[x](y) APPROVED\n[ ](y) REVISE", UNREADABLE),
    "a definition, not a box": ("## Verdict\n[x]: APPROVED\n[ ] REVISE", UNREADABLE),
    "escaped boxes": ("## Verdict\n\\[x] APPROVED\n\\[ ] REVISE", UNREADABLE),
    "a table": ("## Verdict\n| [x] APPROVED | [ ] REVISE |", UNREADABLE),
    "real one beside a quoted one": (f"## Verdict\n> [x] APPROVED\n\n{REVISE_BOXES}", REVISE),
    "real one beside a fenced one": (f"## Verdict\n```\n{BOXES}\n```\n{REVISE_BOXES}", REVISE),
    # no boxes at all
    "heading with a cross": ("## Verdict: \u274c APPROVED", UNREADABLE),
    "questions after it": (f"## Verdict\n{BOXES}\n\n## Questions\n1. Who pays?", APPROVED),
    "bare revise in the heading": ("## Verdict: REVISE", REVISE),
    "bare revise": ("## Verdict\n**REVISE**\n\nPlease look at the tiers.", REVISE),
    "bare blocked": ("## Verdict\n\U0001f534 BLOCKED - no tests", REVISE),
    "two bare words": ("## Verdict\nAPPROVED\nREVISE", UNREADABLE),
    "choice of bare words": ("## Verdict\nAPPROVED / REVISE / DISCUSS", UNREADABLE),
    "bare sentence": ("## Verdict\nThe design is APPROVED.", UNREADABLE),
    "bare approval taken back": ("## Verdict: APPROVED\n\nHowever, fix the leak.", UNREADABLE),
    "bare pass": ("## Verdict: PASS", UNREADABLE),
}


@pytest.mark.parametrize("case", VERDICTS)
def test_verdict(case: str) -> None:
    section, expected = VERDICTS[case]
    reading = read_document(review(verdict=section))
    assert reading.verdict is expected, reading.reason
    assert (reading.reason == "") is (expected is not UNREADABLE and "REVISE" not in reading.reason)
    assert "\n" not in reading.reason
    assert read_reply(review(verdict=section), "lld").verdict is expected


@pytest.mark.parametrize(
    "section",
    ["## Verdict: APPROVED", "## Verdict\n**APPROVED**", "## Verdict\n\nAPPROVED - Ready.\n\nWell done."],
)
def test_a_bare_approval_is_for_documents_only(section: str) -> None:
    assert read_document(f"# Review\nFine.\n\n{section}").verdict is APPROVED
    assert read_document(review(verdict=section)).verdict is APPROVED
    assert read_reply(review(verdict=section), "lld").verdict is UNREADABLE


def test_another_word_is_named_in_the_reason() -> None:
    reading = read_document(review(verdict="## Verdict\n[ ] APPROVED\n[x] BLOCKED"))
    assert reading.reason == "The reviewer's verdict is BLOCKED, which is read as REVISE."


TIER_1 = {
    # nothing found
    "nothing at all": ("", []),
    "sentence below the heading": ("No blocking issues found. LLD is approved for implementation.", []),
    "italics": ("*No blocking issues found.*", []),
    "bold": ("### Cost\n- [ ] **No issues found.**", []),
    "bold with an explanation": ("### Cost\n- **No issues found.** Budget is neutral.", []),
    "none": ("### Cost\n- [ ] None", []),
    "none in brackets": ("### Cost\n(none)", []),
    "not applicable": ("### Cost\nN/A", []),
    "a dash": ("### Cost\n-\n", []),
    "empty box": ("### Cost\n- [ ]", []),
    "with an explanation": ("### Cost\n- [ ] No issues found. Usage stays 1:1; backoff prevents waste.", []),
    "with a dash": ("### Cost\n- No cost issues identified - the budget is neutral", []),
    "there are none": ("There are no blocking issues.", []),
    "several kinds": ("No cost, safety, or legal issues found.", []),
    "all resolved": ("All previous blocking issues have been resolved.", []),
    "ticked praise": ("### Cost\n- [x] **Bounds:** all loops are bounded.", []),
    "praise with a tick": ("### Cost\n- \u2705 **Bounds:** all loops are bounded.", []),
    "category as a bullet": ("- **Cost:** No issues found.\n- **Legal:** None.", []),
    "passed": ("### Cost\n- [ ] PASS", []),
    "in a fence": ("### Cost\n```\n- [ ] **Leak:** it leaks\n```", []),
    "in a quotation": ("### Cost\n> - [ ] **Leak:** it leaks", []),
    "in a comment": ("### Cost\n- [ ] No issues found. <!-- [ ] **Leak:** it leaks -->", []),
    "introduction": ("The following was checked:\n- [x] **Bounds:** yes", []),
    "fenced example below nothing": ("### Cost\n- [ ] No issues found.\n  ```\n  [ ] **Leak:** x\n  ```", []),
    # something found
    "box and title": ("### Cost\n- [ ] **Loop:** never ends.", [("Cost", "Loop", "never ends.")]),
    "no box": ("### Cost\n- **Loop:** never ends.", [("Cost", "Loop", "never ends.")]),
    "no title": ("### Cost\n- [ ] The loop never ends.", [("Cost", "", "The loop never ends.")]),
    "no bullet": ("### Cost\n[ ] **Loop:** never ends.", [("Cost", "Loop", "never ends.")]),
    "numbered": ("### Cost\n1. **Loop** - never ends.", [("Cost", "Loop", "never ends.")]),
    "colon outside": ("### Cost\n* **Loop**: never ends.", [("Cost", "Loop", "never ends.")]),
    "prose": ("### Cost\nThe loop never ends.", [("Cost", "", "The loop never ends.")]),
    "underlined prose": ("### Cost\nThe loop never ends.\n---", [("Cost", "", "The loop never ends.")]),
    "no category": ("- [ ] **Loop:** never ends.", [("General", "Loop", "never ends.")]),
    "deep category": ("#### **Cost:**\n- [ ] **Loop:** never ends.", [("Cost", "Loop", "never ends.")]),
    "category one level up": ("## Cost\n- [ ] **Loop:** never ends.", [("Cost", "Loop", "never ends.")]),
    "category with emoji": ("### \U0001f4b0 Cost Issues\n- [ ] **Loop:** x", [("Cost", "Loop", "x")]),
    "unknown category": ("### Data Residency\n- [ ] **Loop:** x", [("Data Residency", "Loop", "x")]),
    "category bullet": ("- **Cost:** The loop never ends.", [("Cost", "", "The loop never ends.")]),
    "category bullet, nested": ("- **Cost**\n  - [ ] **Loop:** x", [("Cost", "Loop", "x")]),
    "box lines in one paragraph": (
        "### Cost\n[x] fine\n[ ] **Loop:** never ends,\nnot even at night.\n[ ] None",
        [("Cost", "Loop", "never ends,\nnot even at night.")],
    ),
    "empty box below a tick": ("### Cost\n- [x] **Auth**\n  - [ ] **Leak:** x", [("Cost", "Leak", "x")]),
    "crossed box": ("### Cost\n- [-] **Leak:** x", [("Cost", "", "[-] **Leak:** x")]),
    "title names a placeholder": (
        "### Cost\n- **None:** the loop never ends",
        [("Cost", "None", "the loop never ends")],
    ),
    "nothing, but": (
        "### Cost\n- [ ] No issues found in auth, but the token leaks",
        [("Cost", "", "No issues found in auth, but the token leaks")],
    ),
    "nothing. However": ("### Cost\nNone. However, it leaks.", [("Cost", "", "None. However, it leaks.")]),
    "nothing except": (
        "### Cost\nNo issues found except the leak",
        [("Cost", "", "No issues found except the leak")],
    ),
    "nothing. Must": (
        "### Cost\nNone. Retries must be bounded.",
        [("Cost", "", "None. Retries must be bounded.")],
    ),
    "none of": ("### Cost\nNone of the loops end.", [("Cost", "", "None of the loops end.")]),
    "no tests": ("### Cost\nNo tests cover the issues.", [("Cost", "", "No tests cover the issues.")]),
    "nothing and a title": (
        "### Cost\n- [ ] No issues found. **Leak:** it leaks",
        [("Cost", "", "No issues found. **Leak:** it leaks")],
    ),
    "nothing and a nested title": (
        "### Cost\n- [ ] No issues found.\n  - **Leak:** it leaks",
        [("Cost", "", "No issues found.\n- **Leak:** it leaks")],
    ),
    "a category beside its tier": (
        "## Residency\n- [ ] **Loop:** x\nProse.",
        [("Residency", "Loop", "x\nProse.")],
    ),
    "a category like a section": (
        "### Identity and Access\n- **Loop:** x",
        [("Identity and Access", "Loop", "x")],
    ),
    "bold category": ("**Cost:**\n- [ ] **Loop:** x", [("Cost", "Loop", "x")]),
    "second tier 1 section": (
        "None.\n\n## Additional Tier 1 Issues\n- [ ] **Loop:** x",
        [("General", "Loop", "x")],
    ),
}


@pytest.mark.parametrize("case", TIER_1)
def test_blocking_findings(case: str) -> None:
    tier1, expected = TIER_1[case]
    reading = read_document(review(tier1=tier1))
    blocking = [finding for finding in reading.findings if finding.tier == 1]
    assert [(finding.category, finding.title, finding.text) for finding in blocking] == expected
    assert reading.verdict is (REVISE if expected else APPROVED)
    if expected:
        assert blocking[0].name in reading.reason
        assert len(reading.reason) < 250


def test_resolved_findings_of_an_earlier_round_are_not_open() -> None:
    tier1 = "None.\n\n## Resolved Tier 1 Issues\n- **Loop:** was endless, is bounded now."
    assert read_document(review(tier1=tier1)).verdict is APPROVED


def test_an_approval_stands_beside_a_high_priority_finding() -> None:
    reading = read_document(review(tier2="### Quality\n- [ ] **Tests:** too few."))
    assert reading.verdict is APPROVED
    assert [(finding.tier, finding.title) for finding in reading.findings] == [(2, "Tests"), (3, "")]


@pytest.mark.parametrize(
    "gate",
    [
        "## Pre-Flight Gate: FAILED",
        "## Pre-Flight Gate\n**FAILED**\n\nNo issue link.",
        "## Pre-Flight Gate\n- [ ] PASSED\n- [x] FAILED: no issue link",
        "## Pre-Flight Gate: \u274c FAILED",
        "### **Pre-Flight Check** - FAILED",
    ],
)
def test_an_approval_does_not_stand_beside_a_failed_gate(gate: str) -> None:
    reading = read_document(review(gate=gate))
    assert reading.verdict is REVISE
    assert "Pre-Flight" in reading.reason
    assert read_document(review(gate=gate, verdict=f"## Verdict\n{REVISE_BOXES}")).reason == ""


@pytest.mark.parametrize(
    ("nested", "recommendation"),
    [
        ("    - **Recommendation:** Bound it.", "Bound it."),
        ("    *   **Recommendation**: Bound it.", "Bound it."),
        ("  - Recommendation: Bound it.", "Bound it."),
        ("  **Recommendation:** Bound it.", "Bound it."),
        ("\n  **Recommendation:** Bound it.\n  Soon.", "Bound it.\nSoon."),
        ("  - **Recommendation:** Either\n    - bound it\n    - drop it", "Either\n- bound it\n- drop it"),
        ("  - *Recommendation:* Bound it.\n  - **Recommendation:** Test it.", "Bound it.\nTest it."),
    ],
)
def test_recommendations(nested: str, recommendation: str) -> None:
    reading = read_document(review(tier2=f"### Quality\n- [ ] **Loop:** never ends.\n{nested}"))
    assert (reading.findings[0].title, reading.findings[0].text) == ("Loop", "never ends.")
    assert reading.findings[0].recommendation == recommendation


def test_code_below_a_finding_stays_with_it() -> None:
    reading = read_document(
        review(tier2="### Quality\n- [ ] **Loop:** see\n\n  ```py\n  while 1: ...\n  ```")
    )
    assert reading.findings[0].text == "see\n```py\nwhile 1: ...\n```"


@pytest.mark.parametrize(
    ("questions", "expected"),
    [
        ("1. None.", ()),
        ("None", ()),
        ("- None. The spec is self-contained.", ()),
        ("No questions for the orchestrator.", ()),
        ("1. Who pays?\n2. Until when?\n   Roughly.", ("Who pays?", "Until when?\nRoughly.")),
        ("* [ ] Who pays?\n* [x] Who decides?", ("Who pays?",)),
        ("Who pays?\n\nUntil when?", ("Who pays?", "Until when?")),
        ("None of the limits is given: why?", ("None of the limits is given: why?",)),
        ("> Who quotes?", ()),
    ],
)
def test_questions(questions: str, expected: tuple[str, ...]) -> None:
    assert read_document(review(questions=questions)).questions == expected


@pytest.mark.parametrize(
    ("tier3", "expected"),
    [
        ("None.", []),
        ("- None", []),
        ("- **Label:** add one\n- Rename it.", [("Label", "add one"), ("", "Rename it.")]),
        ("- [ ] **Label** - add one\n- [x] done", [("Label", "add one")]),
        ("- **All** names are short.", [("", "**All** names are short.")]),
    ],
)
def test_suggestions(tier3: str, expected: list[tuple[str, str]]) -> None:
    found = read_document(review(tier3=tier3)).findings
    assert [(finding.title, finding.text) for finding in found] == expected
    assert {finding.category for finding in found} <= {"Suggestion"}


@pytest.mark.parametrize(
    ("heading", "tier"),
    [
        ("## Tier 1", 1),
        ("### **TIER 1** - Blocking", 1),
        ("## \U0001f534 Tier-1: Blocking", 1),
        ("## 4. Tier One", 1),
        ("## Blocking Issues", 1),
        ("## Tier II", 2),
        ("## High Priority Issues", 2),
        ("## Suggestions", 3),
    ],
)
def test_tier_headings(heading: str, tier: int) -> None:
    found = read_document(f"# Review\n\n{heading}\n- **Loop:** x\n\n## Verdict\n{REVISE_BOXES}").findings
    assert [finding.tier for finding in found] == [tier]


@pytest.mark.parametrize(
    "missing", ["## Tier 1: BLOCKING Issues", "## Tier 2: HIGH PRIORITY Issues", "## Verdict"]
)
def test_a_reply_must_have_all_sections(missing: str) -> None:
    text = review().replace(missing, "")
    assert read_reply(text, "lld").verdict is UNREADABLE
    assert read_document(text).verdict is (UNREADABLE if missing == "## Verdict" else APPROVED)


def test_bold_lines_stand_for_headings_but_not_in_a_reply() -> None:
    text = review(tier1="### Cost\n- [ ] **Loop:** x").replace(
        "## Tier 1: BLOCKING Issues", "**Tier 1: BLOCKING Issues**"
    )
    assert read_document(text).verdict is REVISE
    assert read_reply(text, "lld").verdict is UNREADABLE


@pytest.mark.parametrize(
    "prose", ["**Tier 1: the loop never ends**", "**Security**", "## Coverage\nAll of it is covered."]
)
def test_prose_beside_the_tiers(prose: str) -> None:
    found = [finding.title for finding in read_document(review(tier1=prose)).findings if finding.tier == 1]
    assert found == (["Tier 1: the loop never ends"] if "loop" in prose else [])


def test_a_verdict_quoted_from_the_draft_does_not_count() -> None:
    quoted = f"The draft says:\n\n## Verdict\n{BOXES}\n\nwhich is bold."
    assert read_document(review(summary=quoted, verdict=f"## Verdict\n{REVISE_BOXES}")).verdict is REVISE
    assert read_document(review(summary=quoted, verdict="")).verdict is UNREADABLE


def test_a_reply_wrapped_in_a_fence_is_not_read() -> None:
    assert read_reply(f"```markdown\n{review()}\n```", "lld").verdict is UNREADABLE
    assert read_document(f"```markdown\n{review()}\n```").verdict is UNREADABLE
