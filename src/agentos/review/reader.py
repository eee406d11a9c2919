"""Reads reviews of either kind, JSON or Markdown, and never raises. Pure."""

from agentos.review.blocks import MAX_CHARACTERS
from agentos.review.markdown import read_markdown
from agentos.review.parsed_review import ParsedReview
from agentos.review.schema import Kind, NotAReviewError, looks_structured, parse_review


def read_document(text: str) -> ParsedReview:
    """Read a review document, with or without tiers."""
    return _read(text, kind=None)


def read_reply(text: str, kind: Kind) -> ParsedReview:
    """Read a model's reply, which must have everything it was asked for."""
    return _read(text, kind=kind)


def _read(text: str, *, kind: Kind | None) -> ParsedReview:
    if len(text) > MAX_CHARACTERS:
        return ParsedReview.unreadable(f"The text is too long for a review ({len(text)} characters).")
    try:
        if looks_structured(text):
            return parse_review(text, kind).reading()
        return read_markdown(text, strict=kind is not None)
    except NotAReviewError as exc:
        return ParsedReview.unreadable(str(exc))
    except RecursionError:
        return ParsedReview.unreadable("The review is nested too deeply.")
