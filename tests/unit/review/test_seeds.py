"""The five real reviews read as they are, and no piece of one reads as an approval."""

from pathlib import Path

import pytest

from agentos.review import Finding, ParsedReview, Verdict, read_document, read_reply
from agentos.same_finding import identity

REVIEWS = Path(__file__).parent / "documents"
SEEDS = ["seed-000", "seed-001", "seed-002", "seed-003", "seed-004"]


def seed(name: str) -> str:
    return (REVIEWS / f"{name}.md").read_text(encoding="utf-8")


def counted(reading: ParsedReview) -> list[tuple[int, str]]:
    return [(finding.tier, finding.category) for finding in reading.findings if finding.tier < 3]


@pytest.mark.parametrize(
    ("name", "verdict", "findings", "suggestions", "questions"),
    [
        ("seed-000", Verdict.APPROVED, [(2, "Quality")], 3, 0),
        ("seed-001", Verdict.APPROVED, [], 2, 0),
        ("seed-002", Verdict.REVISE, [(2, "Quality"), (2, "Quality"), (2, "Architecture")], 3, 1),
        ("seed-003", Verdict.REVISE, [(1, "Safety"), (2, "Observability"), (2, "Quality")], 2, 1),
        ("seed-004", Verdict.REVISE, [(1, "Cost"), (2, "Architecture"), (2, "Quality")], 2, 0),
    ],
)
def test_the_seeds_read_as_they_are(
    name: str, verdict: Verdict, findings: list[tuple[int, str]], suggestions: int, questions: int
) -> None:
    reading = read_document(seed(name))
    assert reading.verdict is verdict
    assert reading.reason == ""
    assert counted(reading) == findings
    assert sum(finding.tier == 3 for finding in reading.findings) == suggestions
    assert len(reading.questions) == questions
    assert read_reply(seed(name), "lld") == read_reply(seed(name), "issue") == reading


def test_title_text_and_recommendation_are_taken_apart() -> None:
    assert read_document(seed("seed-000")).findings[0] == Finding(
        tier=2,
        category="Quality",
        title="Requirement Coverage (Minor)",
        text="Requirement 11 (Per-workflow log files) is not explicitly asserted in the"
        ' "Expected Output" column of Section 10 (e.g., in Test 010 or 060).',
        recommendation='Add "verify log files created in timestamped dir" to the expected output of Test 010'
        " before implementing tests. (Current coverage ~92% explicit, >95% implicit).",
    )


def test_a_nested_bullet_stays_with_its_finding() -> None:
    blocking = read_document(seed("seed-003")).findings[0]
    assert blocking.title == "CRITICAL - Worktree Scope Violation"
    assert blocking.text.startswith("The design explicitly states")
    assert "\n- **Test Data Hygiene:** Scenario 100" in blocking.text
    assert "Recommendation" not in blocking.text
    assert blocking.recommendation.startswith("Change defaults to use")


def test_the_dictionary_has_the_published_keys() -> None:
    published = read_document(seed("seed-003")).as_dict()
    assert list(published) == ["verdict", "findings", "questions", "reason"]
    assert published["verdict"] == "REVISE"
    assert list(published["findings"][0]) == ["tier", "category", "title", "text", "recommendation"]


def test_the_identity_of_a_finding_ignores_case_and_spacing() -> None:
    one = Finding(tier=1, category="Cost", title="Loop", text="It never\nends.", recommendation="Bound it.")
    same = Finding(tier=1, category="cost", title=" LOOP", text="it  never ends.", recommendation="")
    other = Finding(tier=2, category="Cost", title="Loop", text="It never ends.", recommendation="")
    assert identity(one.as_dict()) == identity(same.as_dict())
    assert identity(one.as_dict()) != identity(other.as_dict())


@pytest.mark.parametrize("name", SEEDS[:2])
def test_no_prefix_is_approved_before_an_alternative_is_listed(name: str) -> None:
    text = seed(name)
    enough = text.index("[ ] **REVISE**") + len("[ ] **REVISE**")
    approved = {n for n in range(0, len(text), 61) if read_document(text[:n]).verdict is Verdict.APPROVED}
    approved |= {
        n for n in range(enough - 40, len(text)) if read_document(text[:n]).verdict is Verdict.APPROVED
    }
    assert min(approved) == enough


def test_no_suffix_without_its_tiers_is_an_approved_reply() -> None:
    text = seed("seed-000")
    whole = text.index("## Tier 1")
    for start in range(whole + len("## Tier 1"), len(text), 41):
        assert read_reply(text[start:], "lld").verdict is Verdict.UNREADABLE


@pytest.mark.parametrize("name", SEEDS)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("\n", "\r\n"),
        ("\n", "\r"),
        ("# LLD", "\ufeff# LLD"),
        ("[x]", "[X]"),
        ("- [", "* ["),
        ("- [", "+ ["),
        ("## ", "# "),
        ("## ", "### "),
        ("### ", "#### "),
        ("**APPROVED**", "APPROVED"),
        ("**APPROVED** -", "**APPROVED:**"),
        ("**REVISE**", "**\u270f\ufe0f REVISE**"),
        ("\n[", "\n- ["),
        ("\n[", "\n\n["),
        ("## Verdict", "## **Final Verdict:**"),
        ("## Verdict", "## 8. Verdict"),
        ("## Verdict", "## \u2696\ufe0f Verdict"),
        ("Verdict\n", "Verdict\n-------\n\n"),
        ("## Pre-Flight Gate\nPASSED", "## Pre-Flight Gate: PASSED"),
        ("## Pre-Flight Gate\n", "## Pre-Flight Gate\n- [x] PASSED: all elements are there\n"),
        ("Needs Orchestrator decision", "Needs Orchestrator decision\n\nThank you for the careful work."),
        ("Needs Orchestrator decision", "Needs Orchestrator decision\n---\n*Reviewed today*"),
        ("No issues found.", "None."),
        ("No issues found.", "N/A."),
        ("No blocking issues found.", "_None._"),
    ],
)
def test_the_seeds_survive_drift(name: str, before: str, after: str) -> None:
    text, drifted = seed(name), seed(name).replace(before, after)
    if "-------" in after:
        drifted = drifted.replace("## Verdict", "Verdict")
    assert read_reply(drifted, "lld") == read_document(text)
