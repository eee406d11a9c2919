"""Compares findings of two reviews, to see what is still open and whether a revision helped. Pure."""

from collections.abc import Mapping
from typing import Any


def identity(finding: Mapping[str, Any]) -> tuple[Any, ...]:
    """Equal for findings of the same tier and category with the same words; fields may be missing."""
    category = finding.get("category")
    if isinstance(category, str):
        category = category.casefold()
    words = " ".join(f"{finding.get('title') or ''} {finding.get('text') or ''}".casefold().split())
    return (finding.get("tier"), category, words)
