"""A review in the usual shape, for tests that change one part of it."""

from pathlib import Path

BOXES = """[x] **APPROVED** - Ready for implementation
[ ] **REVISE** - Fix Tier 1/2 issues first
[ ] **DISCUSS** - Needs Orchestrator decision"""
REVISE_BOXES = BOXES.replace("[x]", "[ ]").replace("[ ] **REVISE", "[x] **REVISE")
SHAPE = (Path(__file__).parent / "documents" / "shape.md").read_text(encoding="utf-8")
USUAL = {
    "gate": "## Pre-Flight Gate\nPASSED",
    "summary": "A sound design.",
    "tier1": "### Cost\n- [ ] No issues found.",
    "tier2": "### Quality\n- [ ] No issues found.",
    "tier3": "- Add a label.",
    "questions": "1. None.",
    "verdict": f"## Verdict\n{BOXES}",
}


def review(**parts: str) -> str:
    return SHAPE.format(**(USUAL | parts))
