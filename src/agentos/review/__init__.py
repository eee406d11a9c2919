"""Verdicts of governance reviews: read from a model's reply or a document, rendered for people. Pure."""

from agentos.review.reader import read_document, read_reply
from agentos.review.reading import Finding, Reading, Verdict
from agentos.review.render import render_review
from agentos.review.schema import StructuredReview, review_schema, structured_review

__all__ = [
    "Finding",
    "Reading",
    "StructuredReview",
    "Verdict",
    "read_document",
    "read_reply",
    "render_review",
    "review_schema",
    "structured_review",
]
