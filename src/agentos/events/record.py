"""Turns an event into its record in events.jsonl, and back. Pure.

Reading is lenient: a file may be torn, from another version, or forged. A field of the wrong type counts as
missing, long text is shortened, and a record that is not a known event is None.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, replace
from functools import cache
from typing import Any, TypeVar, get_type_hints

from agentos.events import catalogue, filing, keys
from agentos.events.catalogue import ENDINGS, Event, ItemEnded, Waiting, WaitKind, is_recorded
from agentos.events.fields import Record, number, text
from agentos.lease import MOST, LeaseNumber

CATALOGUE: Mapping[str, type[Event]] = {
    one.name: one
    for module in (catalogue, filing, keys)
    for one in vars(module).values()
    if isinstance(one, type) and issubclass(one, Event) and "name" in vars(one)
}
_BY_STATUS: Mapping[str, type[Event]] = {status.value: one for status, one in ENDINGS.items()}
_ENDED = frozenset(one.name for one in ENDINGS.values())
_RETRYING = "retrying"  # the old name for a wait before a retry
_LONGEST = {
    "item": 80,
    "node": 80,
    "key": 80,
    "keys": 80,
    "group": 80,
    "provider": 80,
    "stopped": 80,
    "label": 100,
    "model": 100,
    "drafter": 100,
    "reviewer": 100,
    "workflow": 80,
    "version": 40,
    "commit": 40,
    "title": 300,
    "verdict": 40,
    "output": 4096,  # a path
    "ids": 4096,
    "flags": 5000,
    "filing": 40,
    "url": 500,
}
_TEXT = 2000
_MOST = 10_000  # entries in one list

E = TypeVar("E", bound=Event)
Take = Callable[[object, str], Any]  # a value and the name of its field; None: wrong type


def as_record(event: Event) -> dict[str, Any]:
    """The event as it is written, without its time."""
    record: dict[str, Any] = {"event": event.name}
    for one in filter(is_recorded, fields(event)):
        value = getattr(event, one.name)
        if one.name != "repaired" or value:
            record[one.name] = value
        if one.name == "label" and isinstance(event, ItemEnded):
            record["status"] = event.status.value
    return record


def read(record: Record) -> Event | None:
    """The event in a record, if there is one."""
    name = record.get("event")
    if not isinstance(name, str):
        return None
    if name == _RETRYING:
        waiting = _read(Waiting, record)
        seconds = number(record.get("seconds")) or 0.0
        return waiting and replace(waiting, kind=WaitKind.BACKOFF, until_seconds=max(0.0, seconds))
    kind = CATALOGUE.get(name)
    if kind is None or name in _ENDED:
        # The status decides: it also covers endings that another version names differently.
        status = record.get("status")
        kind = _BY_STATUS.get(status) if isinstance(status, str) else None
    return None if kind is None else _read(kind, record)


def _read(kind: type[E], record: Record) -> E | None:
    found: dict[str, Any] = {}
    for name, take, default in _plan(kind.name):
        value = take(record.get(name), name)
        if value is None and name == "item":
            return None
        found[name] = default if value is None else value
    return kind(**found)


@cache
def _plan(event: str) -> tuple[tuple[str, Take, Any], ...]:
    """For each recorded field: its name, how to read it, and its value if it cannot be read."""
    plan = []
    hints = get_type_hints(CATALOGUE[event], include_extras=True)
    for one in filter(is_recorded, fields(CATALOGUE[event])):
        take, empty = _TYPES[hints[one.name]]
        plan.append((one.name, take, empty if one.default is MISSING else one.default))
    return tuple(plan)


def _text(value: object, name: str) -> str | None:
    return text(value, _LONGEST.get(name, _TEXT))


def _texts(value: object, name: str) -> tuple[str, ...] | None:
    if not isinstance(value, list | tuple):
        return None
    return tuple(found for one in value[:_MOST] if (found := _text(one, name)) is not None)


def _seconds(value: object, _name: str) -> float | None:
    found = number(value)
    return None if found is None else max(0.0, found)


def _count(value: object, _name: str) -> int | None:
    found = number(value)
    return None if found is None or found < 0 else int(found)


def _lease(value: object, _name: str) -> int | None:
    return value if type(value) is int and 0 <= value <= MOST else None


def _flag(value: object, _name: str) -> bool | None:
    return value if isinstance(value, bool) else None


def _kind(value: object, _name: str) -> WaitKind | None:
    return WaitKind(value) if isinstance(value, str) and value in set(WaitKind) else None


def _counts(value: object, _name: str) -> dict[str, int] | None:
    if not isinstance(value, dict):
        return None
    return {str(name)[:80]: number for name, one in value.items() if (number := _count(one, "")) is not None}


# How to read a field of each type, and its value if it cannot be read.
_TYPES: Mapping[object, tuple[Take, Any]] = {
    str: (_text, ""),
    str | None: (_text, None),
    int: (_count, 0),
    int | None: (_count, None),
    LeaseNumber: (_lease, 0),
    float: (_seconds, 0.0),
    float | None: (_seconds, None),
    bool: (_flag, False),
    bool | None: (_flag, None),
    tuple[str, ...]: (_texts, ()),
    tuple[str, ...] | None: (_texts, None),
    Mapping[str, int]: (_counts, {}),
    WaitKind: (_kind, WaitKind.KEY),
}
