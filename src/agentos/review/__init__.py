"""Governance reviews: read from a model's reply or a document, and rendered for people. Pure.

`workflows/loop.py` calls `read_reply` and `render_review`; `agentos verdict` calls `read_document`.
`reader` picks `schema` for JSON or `markdown` for Markdown. `markdown` splits the text with `blocks` and
`sections`, then calls `findings` and `verdict_section`, which uses `verdict_words`. Both ways end in a
`parsed_review`; all use `phrases`.
"""

from agentos.review.parsed_review import Finding, ParsedReview, Verdict
from agentos.review.reader import read_document, read_reply
from agentos.review.render import SO_FAR, render_review
from agentos.review.schema import StructuredReview, review_schema, structured_review
from agentos.review.verdict_section import states_other_verdict

__all__ = [
    "SO_FAR",
    "Finding",
    "ParsedReview",
    "StructuredReview",
    "Verdict",
    "read_document",
    "read_reply",
    "render_review",
    "review_schema",
    "states_other_verdict",
    "structured_review",
]
