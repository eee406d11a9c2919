"""Governance reviews: read from a model's reply or a document, and rendered for people. Pure."""

from agentos.review.parsed_review import Finding, ParsedReview, Verdict
from agentos.review.reader import read_document, read_reply
from agentos.review.render import render_review
from agentos.review.schema import StructuredReview, review_schema, structured_review

__all__ = [
    "Finding",
    "ParsedReview",
    "StructuredReview",
    "Verdict",
    "read_document",
    "read_reply",
    "render_review",
    "review_schema",
    "structured_review",
]
