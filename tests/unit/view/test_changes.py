"""What changed between two versions of the page's data, and how a page gets it."""

import json
from typing import Any

import pytest

from agentos.view.changes import KEPT_VERSIONS, Patch, Versions, changes


def patched(value: Any, patch: Patch | None) -> Any:
    """The same as in patch.js."""
    if patch is None:
        return value
    if patch[0] == 0:
        return patch[1]
    if patch[0] == 1:
        made = dict(value)
        made |= {key: patched(value.get(key), one) for key, one in patch[1].items()}
        return {key: one for key, one in made.items() if key not in patch[2]}
    there = list(value[: patch[1]])
    there += [None] * (patch[1] - len(there))
    for at, one in patch[2].items():
        there[int(at)] = patched(value[int(at)] if int(at) < len(value) else None, one)
    return there


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"b": None}),
        ({"a": [1, 2, 3]}, {"a": [1]}),
        ({"a": [1]}, {"a": [1, {"x": 1}, 3]}),
        ({"a": [{"x": 1, "y": [1]}]}, {"a": [{"x": 1, "y": [2]}]}),
        ({"a": {}}, {"a": []}),
        ({"a": 1}, {"a": True}),
        ({"a": 0}, {"a": 0.0}),
        ([], [[]]),
        (None, {}),
    ],
)
def test_a_patch_makes_the_new_from_the_old(old: Any, new: Any) -> None:
    patch = json.loads(json.dumps(changes(old, new)))
    assert json.dumps(patched(old, patch)) == json.dumps(new)


def test_what_is_the_same_is_not_sent() -> None:
    same = {"spans": [1, 2, 3], "title": "x"}
    old = {"items": [same, {"seconds": 1, "title": "y" * 1000}], "run": {"live": True}}
    new = {"items": [dict(same), {"seconds": 2, "title": "y" * 1000}], "run": {"live": True}}
    assert changes(old, new) == [1, {"items": [2, 2, {"1": [1, {"seconds": [0, 2]}, []]}]}, []]
    assert changes(old, json.loads(json.dumps(old))) is None


def test_a_page_gets_what_it_does_not_have() -> None:
    versions = Versions("a")
    versions.add({"n": 0, "same": "x"})
    first = json.loads(versions.answer(""))
    assert first == {"version": "a-0", "data": {"n": 0, "same": "x"}}
    versions.add({"n": 0, "same": "x"})  # nothing changed
    assert json.loads(versions.answer("a-0")) == {"version": "a-0", "since": "a-0", "changes": None}
    versions.add({"n": 1, "same": "x"})
    versions.add({"n": 2, "same": "x"})
    for since in ("a-0", "a-1"):
        answer = json.loads(versions.answer(since))
        assert answer == {"version": "a-2", "since": since, "changes": [1, {"n": [0, 2]}, []]}
    # A page of another server, or one that slept for long, gets everything.
    assert json.loads(versions.answer("b-1"))["data"] == {"n": 2, "same": "x"}
    for number in range(3, 3 + KEPT_VERSIONS):
        versions.add({"n": number})
    assert "data" in json.loads(versions.answer("a-2"))


def test_half_a_character_can_be_sent() -> None:
    versions = Versions("a")
    versions.add({"text": "\ud83d"})
    assert json.loads(versions.answer(""))["data"] == {"text": "?"}
