"""When two findings are the same."""

from typing import Any

import pytest

from agentos.same_finding import identity

FINDING = {"tier": 1, "category": "Cost", "title": "No limit", "text": "Set one.", "recommendation": "a"}


@pytest.mark.parametrize(
    "change", [{"text": "set  ONE.\n"}, {"title": "", "text": "No limit Set one."}, {"recommendation": "b"}]
)
def test_case_blanks_and_recommendation_make_no_difference(change: dict[str, Any]) -> None:
    assert identity(FINDING | change) == identity(FINDING)


@pytest.mark.parametrize("change", [{"tier": 2}, {"category": "Safety"}, {"title": "A limit"}, {"text": "x"}])
def test_tier_category_and_words_do(change: dict[str, Any]) -> None:
    assert identity(FINDING | change) != identity(FINDING)


def test_a_record_with_gaps_has_an_identity() -> None:
    assert identity({"tier": 1, "title": None}) == (1, None, "")
