"""Findings, questions and suggestions in all the ways reviewers write them."""

import pytest

from agentos.review import Verdict, read_document
from unit.review.shape import REVISE_BOXES, review

APPROVED, REVISE = Verdict.APPROVED, Verdict.REVISE

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
    "not resolved": ("None.\n\n## Unresolved Tier 1 Issues\n- **Loop:** x", [("General", "Loop", "x")]),
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


@pytest.mark.parametrize("heading", ["### Resolved", "### Previously resolved issues", "## Fixed"])
def test_only_an_empty_box_is_open_among_the_resolved(heading: str) -> None:
    tier1 = f"None.\n\n{heading}\n- **Loop:** is bounded now."
    assert read_document(review(tier1=tier1)).verdict is APPROVED
    assert read_document(review(tier1=f"{tier1}\n- [ ] **Leak:** x")).verdict is REVISE


def test_an_approval_stands_beside_a_high_priority_finding() -> None:
    reading = read_document(review(tier2="### Quality\n- [ ] **Tests:** too few."))
    assert reading.verdict is APPROVED
    assert [(finding.tier, finding.title) for finding in reading.findings] == [(2, "Tests"), (3, "")]


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
    "prose", ["**Tier 1: the loop never ends**", "**Security**", "## Coverage\nAll of it is covered."]
)
def test_prose_beside_the_tiers(prose: str) -> None:
    found = [finding.title for finding in read_document(review(tier1=prose)).findings if finding.tier == 1]
    assert found == (["Tier 1: the loop never ends"] if "loop" in prose else [])
