"""The items of a run's page: row, spans, rounds, gates and drafts. Reads the run folder and the worktree."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from agentos.events.fields import web_address
from agentos.events.state import CUT_OFF, RUNNING, CallSpan, FiledAs, ItemState, RunState, TimelineSpan
from agentos.model import Status
from agentos.report.documents import Document, list_documents
from agentos.report.drafts import Draft, Trail, find_trail, read_drafts, title_of
from agentos.report.rounds import (
    GateCheck,
    LookDone,
    Round,
    SentPart,
    mark_findings,
    paid_calls,
    read_gates,
    read_looks,
    read_rounds,
    sent_parts,
    with_earlier,
)
from agentos.report.rows import Row
from agentos.report.spans import Left, PaidCall, call_dict, span_dict
from agentos.store.run_folder import prompts_file, read_lines, run_tree

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class RunPaths:
    """The folders that belong to a run."""

    run: Path
    older: Sequence[Path]  # runs, latest first
    worktree: Path
    lineage_folder: str
    workflow: str


@dataclass(frozen=True, kw_only=True)
class ReportItem(Row):
    """One item of the page."""

    title: str | None
    node: str | None  # only while the item is running
    waiting: Left | None
    cost_known_usd: float
    filed: FiledAs | None
    spans: tuple[TimelineSpan, ...]  # without the calls
    calls: tuple[PaidCall, ...]
    rounds: tuple[Round, ...]
    gates: tuple[GateCheck, ...]
    context: tuple[SentPart, ...]
    looks: tuple[LookDone, ...]
    prompts: str | None  # the file with the prompts and answers of its calls
    trail: str | None
    drafts: tuple[Draft, ...]
    documents: tuple[Document, ...]

    def as_dict(self, now: float) -> dict[str, Any]:
        data: dict[str, Any] = {one.name: getattr(self, one.name) for one in fields(self)}
        del data["calls"]
        spans = [span_dict(span, now) for span in self.spans]
        spans += [call_dict(call, now) for call in self.calls]
        return data | {
            "waiting": None if self.waiting is None else self.waiting.as_dict(),
            "filed": None if self.filed is None else asdict(self.filed),
            "spans": sorted(spans, key=lambda span: float(span["start"])),
            "rounds": [one.as_dict() for one in self.rounds],
            "gates": [dict(vars(one)) for one in self.gates],
            "context": [dict(vars(one)) for one in self.context],
            "looks": [dict(vars(one)) for one in self.looks],
            "drafts": [one.as_dict() for one in self.drafts],
            "documents": [dict(vars(one)) for one in self.documents],
        }


def read_item(row: Row, state: RunState, place: RunPaths, *, now: float, drafts: bool) -> ReportItem:
    """Combine what the events, the audit trail and the lineage say about an item."""
    item = state.items.get(row.id) or ItemState(id=row.id, label=row.label)
    trail_file = f"workflow-audit-{row.id}.jsonl"
    records = list(read_lines(place.run / trail_file)) if "/" not in row.id else []
    prompts = prompts_file(row.id) if run_tree(place.run).is_file(place.run / prompts_file(row.id)) else None
    calls = paid_calls(item.of(CallSpan), records, prompts=prompts is not None)
    if row.status in {RUNNING, CUT_OFF} or row.cost_usd is None:
        row = replace(row, cost_usd=_cost(calls, row))
    if row.output is None and row.status == Status.APPROVED:
        row = replace(row, output=_document(row.label, place))
    approved = row.status in {Status.APPROVED, Status.SKIPPED}
    earlier = ((run.name, read_rounds(read_lines(run / trail_file), started=0.0)) for run in place.older)
    rounds = with_earlier(read_rounds(records, started=state.started or 0.0), row.reviews, earlier)
    gates = read_gates(records)
    trail = find_trail(
        place.worktree,
        place.lineage_folder,
        item=row.id,
        workflow=place.workflow,
        lineage=next((gate.lineage for gate in reversed(gates) if gate.lineage), None),
        approved=approved,
    )
    running = row.status == RUNNING
    known = round(sum(call.cost_usd or 0.0 for call in calls), 6)
    return ReportItem(
        **{one.name: getattr(row, one.name) for one in fields(row)},
        title=_title(row.id, state, trail),
        node=item.node.node if running and item.node is not None else None,
        waiting=Left.at(item.wait, now) if running else None,
        cost_known_usd=known if row.cost_usd is None else row.cost_usd,
        filed=item.filed or _filed(row),
        spans=tuple(span for span in item.spans if not isinstance(span, CallSpan)),
        calls=tuple(calls),
        rounds=tuple(mark_findings(rounds, approved=approved)),
        gates=tuple(gates),
        context=sent_parts(records),
        looks=read_looks(records),
        prompts=prompts,
        trail=None if trail is None else trail.folder.as_posix(),
        drafts=() if trail is None or not drafts else tuple(read_drafts(trail, gates)),
        documents=list_documents(trail, records, worktree=place.worktree, output=row.output, whole=approved),
    )


def _title(item: str, state: RunState, trail: Trail | None) -> str | None:
    """The title of its document; until there is one, that of the issue or brief."""
    written = None if trail is None else title_of(trail)
    queued = state.queue.get(item)
    return written or (None if queued is None else queued.title)


class ItemReader:
    """Reads everything again; a reader for a run that is read again and again keeps what did not change."""

    def item(self, row: Row, state: RunState, place: RunPaths, *, now: float, drafts: bool) -> ReportItem:
        return read_item(row, state, place, now=now, drafts=drafts)

    def shown(self, item: ReportItem, now: float) -> dict[str, Any]:
        """The item as JSON."""
        return item.as_dict(now)

    def kept(self, name: str, mark: Hashable, make: Callable[[], T]) -> T:  # noqa: ARG002 - for readers that keep
        """What `make` returns; the same mark means the same result."""
        return make()


def _cost(calls: Sequence[PaidCall], row: Row) -> float | None:
    """The total cost of the calls; None if the price of one is unknown."""
    paid = [one for one in calls if one.call.tokens_in or one.call.tokens_out]
    if not paid:
        return None if row.tokens_in or row.tokens_out else 0.0
    costs = [one.cost_usd for one in paid if one.cost_usd is not None]
    return round(sum(costs), 6) if len(costs) == len(paid) else None


def _document(label: str, place: RunPaths) -> str | None:
    """The path of an approved item's document; events of older versions do not include it."""
    trail = Trail(worktree=place.worktree, folder=Path("docs", place.workflow, "active"))
    name = f"{label}.md"
    if "/" in label or place.workflow != "lld" or trail.read(name, 1) is None:
        return None
    return (trail.folder / name).as_posix()


def _filed(row: Row) -> FiledAs | None:
    if row.filing != "filed" or (url := web_address(row.output)) is None:
        return None
    number = url.rsplit("/", 1)[-1]
    return FiledAs(number=int(number) if number.isdecimal() and len(number) < 12 else None, url=url)
