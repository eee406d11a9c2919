"""Compares two runs: what changed for each item, and in total. Pure.

Takes the data of two runs as `run_data` makes it.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any, Self

Data = Mapping[str, Any]


class ChangeKind(StrEnum):
    """What became of an item from one run to the other."""

    CHANGED = "changed"  # another status, or another last verdict
    SAME = "same"  # the same result, whatever it took
    SETTLED = "settled"  # approved in the first run, so that the second one skipped it
    ADDED = "added"  # only in the second run
    GONE = "gone"  # only in the first run


@dataclass(frozen=True, kw_only=True)
class ItemResult:
    """An item in one run."""

    status: str
    verdict: str | None
    reviews: int
    attempts: int
    seconds: float
    waited_seconds: float
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    cost_usd: float | None  # None: unknown

    @classmethod
    def of(cls, item: Data) -> Self:
        return cls(**{one.name: item[one.name] for one in fields(cls)})


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """A run as a whole."""

    run_id: str
    workflow: str
    started_at: str | None
    live: bool
    exit_code: int | None
    wall_seconds: float
    waited_seconds: float
    items: int
    totals: dict[str, int]
    reviews: int
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    cost_usd: float | None
    pretended: bool  # no money was spent

    @classmethod
    def of(cls, data: Data) -> Self:
        run, items = data["run"], data["items"]
        counted: dict[str, Any] = {"items": len(items), "reviews": sum(map(_reviews, items))}
        known = {one.name: run[one.name] for one in fields(cls) if one.name not in counted}
        return cls(**known, **counted)


def _reviews(item: Data) -> int:
    """The reviews that this run made; a round of an earlier run has its name."""
    return sum("verdict" in one and "run_id" not in one for one in item["rounds"])


_FIGURES = ("reviews", "attempts", "seconds", "waited_seconds", "tokens_in", "tokens_out", "tokens_cached")
_RUN_FIGURES = (
    *("wall_seconds", "waited_seconds", "items", "reviews"),
    *("tokens_in", "tokens_out", "tokens_cached"),
)


@dataclass(frozen=True, kw_only=True)
class ItemChange:
    """An item in both runs; a side is None if the item is not in that run."""

    label: str
    title: str | None
    before: ItemResult | None
    after: ItemResult | None

    @property
    def kind(self) -> ChangeKind:
        if self.before is None:
            return ChangeKind.ADDED
        if self.after is None:
            return ChangeKind.GONE
        if self.after.status == "skipped" and self.before.status in {"approved", "skipped"}:
            return ChangeKind.SETTLED
        same = (self.before.status, self.before.verdict) == (self.after.status, self.after.verdict)
        return ChangeKind.SAME if same else ChangeKind.CHANGED

    @property
    def difference(self) -> dict[str, float | None]:
        """Second minus first, for every figure."""
        return _difference(self.before, self.after, (*_FIGURES, "cost_usd"))

    def as_dict(self) -> dict[str, Any]:
        sides = {name: None if (one := getattr(self, name)) is None else asdict(one) for name in _SIDES}
        named = {"label": self.label, "title": self.title, "change": self.kind.value}
        return named | sides | {"difference": self.difference}


_SIDES = ("before", "after")
_ORDER = (ChangeKind.CHANGED, ChangeKind.ADDED, ChangeKind.GONE, ChangeKind.SAME, ChangeKind.SETTLED)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two runs; the items whose result changed first."""

    before: RunResult
    after: RunResult
    items: tuple[ItemChange, ...]

    @property
    def difference(self) -> dict[str, float | None]:
        return _difference(self.before, self.after, (*_RUN_FIGURES, "cost_usd"))

    @property
    def statuses(self) -> list[str]:
        """Every status of an item in one of the runs."""
        return list(dict.fromkeys([*self.before.totals, *self.after.totals]))

    def of(self, *kinds: ChangeKind) -> list[ItemChange]:
        return [one for one in self.items if one.kind in kinds]

    def as_dict(self) -> dict[str, Any]:
        old, new = self.before.totals, self.after.totals
        totals = {name: new.get(name, 0) - old.get(name, 0) for name in self.statuses}
        return {
            "before": asdict(self.before),
            "after": asdict(self.after),
            "difference": self.difference | {"totals": totals},
            "counts": {kind.value: len(self.of(kind)) for kind in ChangeKind},
            "items": [one.as_dict() for one in self.items],
        }


def compare(before: Data, after: Data) -> Comparison:
    """Compare two runs, item by item."""
    old = {item["label"]: item for item in before["items"]}
    new = {item["label"]: item for item in after["items"]}
    changes = [
        ItemChange(
            label=label,
            title=(new.get(label) or old[label]).get("title"),
            before=ItemResult.of(old[label]) if label in old else None,
            after=ItemResult.of(new[label]) if label in new else None,
        )
        for label in [*old, *(label for label in new if label not in old)]
    ]
    changes.sort(key=lambda one: _ORDER.index(one.kind))
    return Comparison(before=RunResult.of(before), after=RunResult.of(after), items=tuple(changes))


def _difference(before: Any, after: Any, names: tuple[str, ...]) -> dict[str, float | None]:
    if before is None or after is None:
        return dict.fromkeys(names)
    return {name: _minus(getattr(after, name), getattr(before, name)) for name in names}


def _minus(new: float | None, old: float | None) -> float | None:
    return None if new is None or old is None else round(new - old, 6)
