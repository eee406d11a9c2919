"""What every format is told about a request."""

import re

from hypothesis import given
from hypothesis import strategies as st

from agentos.llm.provider import schema_name


def test_a_schema_is_named_by_its_title() -> None:
    assert schema_name({"title": "look"}) == "look"
    assert schema_name({"title": "A review, in parts"}) == "A_review_in_parts"
    assert schema_name({}) == schema_name({"title": ""}) == "reply"


@given(st.text())
def test_any_title_makes_a_name_that_every_format_accepts(title: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", schema_name({"title": title}))
