"""Whether two findings are the same: no progress in the workflow, still open in the report. Pure."""

from collections.abc import Mapping
from typing import Any


def identity(finding: Mapping[str, Any]) -> tuple[Any, ...]:
    """Equal for findings of the same tier and category with the same words; fields may be missing."""
    category = finding.get("category")
    if isinstance(category, str):
        category = category.casefold()
    words = " ".join(f"{finding.get('title') or ''} {finding.get('text') or ''}".casefold().split())
    return (finding.get("tier"), category, words)
