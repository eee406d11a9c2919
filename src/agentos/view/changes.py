"""What changed between two versions of the page's data, so that a page gets only that. Pure.

A patch is a list: [0, value] replaces, [1, {key: patch}, [removed keys]] changes an object, and
[2, length, {index: patch}] changes a list. `patched` in assets/view/patch.js applies it.
"""

import itertools
import json
from collections.abc import Mapping
from typing import Any

KEPT_VERSIONS = 8  # a page that is further behind gets everything

Patch = list[Any]


def changes(old: Any, new: Any) -> Patch | None:
    """The patch that turns the old value into the new one; None if they are the same."""
    if old is new:
        return None
    if isinstance(old, dict) and isinstance(new, dict):
        changed = {
            key: [0, value] if key not in old else patch
            for key, value in new.items()
            if (patch := changes(old.get(key), value)) is not None or key not in old
        }
        removed = [key for key in old if key not in new]
        return [1, changed, removed] if changed or removed else None
    if isinstance(old, list) and isinstance(new, list):
        inside = {
            str(at): patch
            for at, value in enumerate(new)
            if (patch := [0, value] if at >= len(old) else changes(old[at], value)) is not None
        }
        return [2, len(new), inside] if inside or len(old) != len(new) else None
    # True is equal to 1 in Python, but not in JSON.
    return None if old == new and type(old) is type(new) else [0, new]


class Versions:
    """The last versions of one thing that changes."""

    def __init__(self, name: str) -> None:
        self._name = name  # another history of the same thing must have another name
        self._numbers = itertools.count()
        self._kept: dict[str, Any] = {}
        self._latest = ""
        self._answers: dict[str | None, bytes] = {}
        self._patch: tuple[str, Patch | None] = ("", None)  # from the version before

    def add(self, data: Any) -> None:
        """Keep a new version, unless nothing changed."""
        before = self._latest
        patch = changes(self._kept[before], data) if self._kept else None
        if self._kept and patch is None:
            return
        self._latest = f"{self._name}-{next(self._numbers)}"
        self._kept[self._latest] = data
        self._answers, self._patch = {}, (before, patch)
        while len(self._kept) > KEPT_VERSIONS:
            del self._kept[next(iter(self._kept))]

    @property
    def latest(self) -> Any:
        return self._kept[self._latest]

    def answer(self, since: str | None) -> bytes:
        """The latest version as JSON: what changed since a version that is still kept, or everything."""
        if since is not None and since not in self._kept:
            since = None
        if since not in self._answers:
            self._answers[since] = json_bytes(self._content(since))
        return self._answers[since]

    def _content(self, since: str | None) -> Mapping[str, Any]:
        if since is None:
            return {"version": self._latest, "data": self.latest}
        patch = self._patch[1] if since == self._patch[0] else changes(self._kept[since], self.latest)
        return {"version": self._latest, "since": since, "changes": patch}


def json_bytes(data: Any) -> bytes:
    # Text from a model may contain lone surrogates, which cannot be encoded.
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", errors="replace")
