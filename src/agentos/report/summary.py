"""The summary of a run, from the fold of its events: totals and one row per item, also as Markdown. Pure."""

import heapq
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agentos.console.visible import visible
from agentos.errors import Exit
from agentos.events.state import MOCK, ItemState, RunState
from agentos.model import Status
from agentos.money import amount, shown
from agentos.report.overlaps import Overlap

SCHEMA_VERSION = 1  # of summary.json; raised when a key changes its meaning or is removed

_NEEDY = {Status.DISCUSS: 0, Status.FAILED: 1, Status.TIMED_OUT: 1, Status.NEEDS_REVISION: 2}

_MARKUP = re.compile(r"([\\`*_\[\]()!|#&~])")


@dataclass(frozen=True, kw_only=True)
class ItemRow:
    """One item in the summary."""

    id: str
    label: str
    status: Status
    verdict: str | None = None
    reviews: int = 0
    attempts: int = 0
    seconds: float = 0.0
    waited_seconds: float = 0.0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0  # the part of tokens_in that was read from a cache
    tokens_reasoning: int = 0  # the part of tokens_out that is not in the reply
    cost_usd: float | None = 0.0
    error: str | None = None
    reason: str | None = None  # why it was skipped
    output: str | None = None
    filing: str | None = None  # filed, wanted or unknown; None if it is not meant to be filed
    log: str | None = None
    checkpoint: str | None = None
    findings: tuple[dict[str, Any], ...] = ()  # still open after the last review; empty once approved
    questions: tuple[str, ...] = ()  # of its reviews, still open: "Q1: ..."
    dropped: tuple[str, ...] = ()  # lines of a person that the approved document lacks

    @property
    def blocking(self) -> int:
        """How many open findings are of Tier 1."""
        return sum(one.get("tier") == 1 for one in self.findings)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a person should know although nothing waits for them: a question, a line that is gone."""
        return remarks(self.status, self.questions, self.dropped)


def remarks(status: str, questions: Sequence[str], dropped: Sequence[str]) -> tuple[str, ...]:
    """What a person should know about an item although nothing waits for them, without its label."""
    asked = () if status == Status.DISCUSS else questions
    lost = (f"lacks a line that you added: {line}" for line in dropped)
    return (*(f"asks {question}" for question in asked), *lost)


@dataclass(frozen=True, kw_only=True)
class ItemFiles:
    """What is on disk about one item."""

    log: str | None = None
    checkpoint: str | None = None
    findings: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, kw_only=True)
class KeyRow:
    """One key in the summary, by its id."""

    id: str
    provider: str
    group: str
    state: str
    calls: int
    rate_limited: int
    tokens_in: int
    tokens_out: int
    tokens_cached: int = 0


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The result of a run."""

    run_id: str
    workflow: str
    parallel: int
    started_at: str
    finished_at: str
    wall_seconds: float
    exit_code: int
    stopped: str | None
    items: tuple[ItemRow, ...]
    keys: tuple[KeyRow, ...]
    coordination_overhead_percent: float | None
    folder: str
    overlaps: tuple[Overlap, ...] = ()
    trace_id: str = ""
    mock: bool = False  # the mock had at least one role
    source: str = ""  # where the items come from, such as "issues from issues/active"
    needed_budget: float | None = None  # the smallest budget that allows the next call
    needed_item_budget: float | None = None

    @property
    def cost_usd(self) -> float | None:
        """The cost of the run; None if the price of any call is unknown."""
        costs = [row.cost_usd for row in self.items]
        known = [cost for cost in costs if cost is not None]
        return round(sum(known), 6) if len(known) == len(costs) else None

    def cost_in_words(self, budget: float | None = None) -> str:
        """The cost, of the budget if there is one; money of the mock is marked."""
        cost, simulated = shown(self.cost_usd), ""
        if budget is not None and self.cost_usd is not None:
            cost = f"{amount(self.cost_usd)} of {budget:g} USD"
        if self.keys and all(key.provider == MOCK for key in self.keys):
            simulated = " (simulated by the mock)"
        return cost + simulated

    @property
    def totals(self) -> dict[str, int]:
        return count_by_status(row.status for row in self.items)

    @property
    def needs_you(self) -> tuple[ItemRow, ...]:
        """The items that need a person: questions, then what failed, is not approved, or is not filed."""
        needy = [row for row in self.items if row.status in _NEEDY or row.filing in {"wanted", "unknown"}]
        return tuple(sorted(needy, key=lambda row: _NEEDY.get(row.status, len(_NEEDY))))

    @property
    def ran(self) -> tuple[ItemRow, ...]:
        """The items that something happened to."""
        return tuple(row for row in self.items if row.status not in {Status.SKIPPED, Status.PENDING})

    @property
    def skipped(self) -> int:
        """How many items were skipped."""
        return self.totals.get(Status.SKIPPED.value, 0)

    @property
    def remarks(self) -> tuple[str, ...]:
        """The remarks about all items, each with the item's label."""
        return tuple(f"{row.label} {remark}" for row in self.items for remark in row.remarks)

    def totals_in_words(self) -> str:
        """The totals in words: finished items by status, then how many were skipped."""
        done = ", ".join(
            f"{count} {status.replace('_', ' ')}"
            for status, count in self.totals.items()
            if status != Status.SKIPPED.value
        )
        return "; ".join([done] * bool(done) + [f"{self.skipped} skipped"] * bool(self.skipped))

    def as_dict(self) -> dict[str, Any]:
        data = {"schema_version": SCHEMA_VERSION} | asdict(self)
        items, keys, overlaps = data.pop("items"), data.pop("keys"), data.pop("overlaps")
        overhead, folder = data.pop("coordination_overhead_percent"), data.pop("folder")
        return data | {
            "totals": self.totals,
            "skipped": self.skipped,
            "cost_usd": self.cost_usd,
            "items": list(items),
            "keys": list(keys),
            "overlaps": list(overlaps),
            "coordination_overhead_percent": overhead,
            "folder": folder,
        }


@dataclass(frozen=True, kw_only=True)
class NotInEvents:
    """What the summary needs besides the events."""

    items: Mapping[str, ItemFiles]  # by id, in the order of the plan
    keys: tuple[KeyRow, ...]  # also those that no call used
    folder: str
    overlaps: tuple[Overlap, ...] = ()
    trace_id: str = ""
    source: str = ""
    needed_budget: float | None = None
    needed_item_budget: float | None = None


def summary_of(state: RunState, more: NotInEvents) -> Summary:
    """The summary of a finished run, from the state that its events fold into."""
    begun = state.begun
    assert begun is not None, "its first event"
    wall = state.wall_seconds or 0.0
    ran = [item for name in more.items if (item := state.items[name]).began is not None]
    # In the order of their start, as a perfect scheduler would take them.
    busy = [seconds for _, seconds in sorted((item.began, item.busy_seconds) for item in ran)]
    return Summary(
        run_id=begun.run_id,
        workflow=state.workflow or "",
        parallel=begun.parallel,
        started_at=state.started_at or "",
        finished_at=state.finished_at or "",
        wall_seconds=wall,
        exit_code=state.exit_code or 0,
        stopped=state.stopped,
        items=tuple(item_row(state.items[name], files) for name, files in more.items.items()),
        keys=more.keys,
        coordination_overhead_percent=overhead_percent(wall, busy, begun.parallel),
        folder=more.folder,
        overlaps=more.overlaps,
        trace_id=more.trace_id,
        mock=state.mock,
        source=more.source,
        needed_budget=more.needed_budget,
        needed_item_budget=more.needed_item_budget,
    )


def item_row(item: ItemState, files: ItemFiles) -> ItemRow:
    """The row of an item that has ended."""
    ended = item.ended or 0.0
    return ItemRow(
        id=item.id,
        label=item.label,
        status=Status(item.status),
        verdict=item.verdict,
        reviews=item.reviews,
        attempts=item.attempts,
        seconds=item.seconds(ended),
        waited_seconds=item.waited_seconds(ended),
        tokens_in=item.tokens_in,
        tokens_out=item.tokens_out,
        tokens_cached=item.tokens_cached,
        tokens_reasoning=item.tokens_reasoning,
        cost_usd=None if item.usd is None else round(item.usd, 6),
        error=item.error,
        reason=item.reason,
        output=item.output,
        filing=item.filing_state,
        log=files.log,
        checkpoint=files.checkpoint,
        findings=files.findings,
        questions=item.questions,
        dropped=item.dropped,
    )


def count_by_status(statuses: Iterable[Status]) -> dict[str, int]:
    """How many items there are of each status, without zeros."""
    counted = Counter(statuses)
    return {status.value: counted[status] for status in Status if counted[status]}


def perfect_seconds(busy: Sequence[float], slots: int) -> float:
    """The time a scheduler without overhead would need for the same work in the same order."""
    free = [0.0] * max(1, min(slots, len(busy)))
    for seconds in busy:
        heapq.heapreplace(free, free[0] + seconds)
    return max(free)


def overhead_percent(wall: float, busy: Sequence[float], slots: int) -> float | None:
    """How much longer the run took than necessary; None if nothing was done."""
    best = perfect_seconds(busy, slots) if busy else 0.0
    return round(100.0 * (wall - best) / best, 2) if best > 0 else None


def exit_code(statuses: Iterable[Status], stopped: str | None, *, unfiled: bool = False) -> Exit:
    """The most important reason wins, in this order: 130/143, 4, 2, 75, 5, 1, 3."""
    by_stop: Mapping[str, Exit] = {
        "interrupted": Exit.INTERRUPTED,
        "terminated": Exit.TERMINATED,
        "no_key": Exit.NO_KEY,
        "misconfigured": Exit.USAGE,
        "quota": Exit.STOPPED,
        "outage": Exit.STOPPED,
        "run_timeout": Exit.STOPPED,
        "budget": Exit.BUDGET,
        "storage": Exit.FAILED,
    }
    seen = set(statuses)
    if stopped is not None and stopped in by_stop:
        return by_stop[stopped]
    if Status.PAUSED in seen and stopped is None:
        return Exit.BUDGET  # a run that was not stopped only pauses items that reached their own budget
    if seen & {Status.FAILED, Status.TIMED_OUT}:
        return Exit.FAILED
    if unfiled or seen & {Status.NEEDS_REVISION, Status.DISCUSS}:
        return Exit.ATTENTION
    if seen & {Status.INTERRUPTED, Status.PAUSED, Status.PENDING}:
        return Exit.STOPPED
    return Exit.OK


def as_markdown(summary: Summary) -> str:
    """The summary as a Markdown page."""
    result = summary.totals_in_words() or "no items"
    seconds = f"{summary.wall_seconds:.1f} s"
    lines = [
        f"# Run {summary.run_id}",
        "",
        f"Workflow `{summary.workflow}`, {summary.parallel} in parallel, {seconds}: {result}.",
        f"Exit code {summary.exit_code}. Cost {summary.cost_in_words()}.",
        "",
        "| item | status | verdict | reviews | seconds | waited | tokens | USD | output or reason |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in summary.items:
        detail = row.output or row.error or row.reason or ""
        status = row.status.value.replace("_", " ")
        lines.append(
            f"| {row.label} | {status} | {cell(row.verdict or '-')} | {row.reviews} "
            f"| {row.seconds:.1f} | {row.waited_seconds:.1f} "
            f"| {row.tokens_in + row.tokens_out} | {amount(row.cost_usd)} | {cell(detail)} |"
        )
    if summary.remarks:
        lines += ["", "## To know", "", *(f"- {cell(remark)}" for remark in summary.remarks)]
    if summary.overlaps:
        lines += [
            "",
            "## Overlaps",
            "",
            "These designs change the same files. Decide which to build first.",
            "",
        ]
        lines += [
            f"- {', '.join(overlap.items)}: {cell(', '.join(overlap.files))}" for overlap in summary.overlaps
        ]
    return "\n".join(lines) + "\n"


def cell(text: str) -> str:
    """Text from a model or a user, which must not act as Markdown or HTML where it is shown."""
    return _MARKUP.sub(r"\\\1", visible(" ".join(text.split()))[:300]).replace("<", "&lt;")
