"""Writes each item's audit trail, and records every paid call once. Coordinator process."""

from collections import Counter
from typing import TYPE_CHECKING, Any

from agentos.coordinator.plan import PlannedItem
from agentos.model import Status
from agentos.repo_map.parts import RepositoryMap
from agentos.spending.call import Call
from agentos.store.home import Home
from agentos.store.records import Paid
from agentos.store.run_folder import RunFolder, last_review, open_findings, read_audits

if TYPE_CHECKING:
    from agentos.coordinator.disk_guard import DiskGuard
    from agentos.store.records.protocols import SpendingRecords


class AuditTrail:
    """Writes what happened to each item; every call once."""

    def __init__(self, home: Home, folder: RunFolder, records: "SpendingRecords", guard: "DiskGuard") -> None:
        self._home = home
        self._folder = folder
        self._records = records
        self._guard = guard
        self.trace_id = ""  # known once the run is traced
        self._run_id = folder.run_id
        self._audited: dict[str, set[tuple[Any, ...]]] = {}  # calls, by item
        self._context: dict[str, list[dict[str, Any]]] = {}  # parts of the repository map, by item
        self._findings: dict[str, tuple[dict[str, Any], ...]] = {}  # open after the last review, by item

    def sends(self, item: str, repository: RepositoryMap) -> None:
        """From now on, every call of the item sends these parts of the repository."""
        tokens: Counter[tuple[str, str]] = Counter()
        for part in repository.parts:
            tokens[part.path, part.kind.value] += part.tokens
        self._context[item] = [
            {"path": path, "kind": kind, "tokens": count} for (path, kind), count in tokens.items()
        ]

    def audit(self, entry: PlannedItem, attempt: int, record: dict[str, Any]) -> None:
        item = entry.item.id
        if item in self._audited:
            self._audited[item].add(_call(record))
        if (findings := open_findings(record)) is not None:
            self._findings[item] = findings
        named = {
            "run_id": self._run_id,
            "trace_id": self.trace_id,
            "workflow": entry.item.workflow,
            "item": item,
            "attempt": attempt,
            **record,
        }
        self._guard(self._folder.audit, item, named)

    def record_call(self, entry: PlannedItem, call: Call, *, again: bool = False) -> bool:
        """Record a call that is over; False if an earlier process had already recorded its payment."""
        new = self._pay(entry, call) if call.paid else True
        record = call.as_record()
        if not again and (parts := self._context.get(entry.item.id)):
            record["context"] = parts
        if not again or not self._known(entry.item.id, record):
            self.audit(entry, call.attempt, record)
        return new

    def _known(self, item: str, record: dict[str, Any]) -> bool:
        """Whether a call of an earlier process was written to a trail before that process died."""
        if item not in self._audited:
            self._audited[item] = {_call(one) for one in read_audits(self._home, item)}
        return _call(record) in self._audited[item]

    def _pay(self, entry: PlannedItem, call: Call) -> bool:
        """Record a paid call for budgets and later estimates; False if it was known."""
        kept = call.kept
        paid = Paid(
            journal_id=f"{self._run_id}-{call.lease}" if kept is None else kept.journal_id,
            role=call.role,
            number=0 if kept is None else kept.number,
            run_id=self._run_id,
            workflow=entry.item.workflow,
            item=entry.item.id,
            tokens_in=call.tokens_in,
            tokens_out=call.tokens_out,
            tokens_cached=call.tokens_cached,
            tokens_cache_written=call.tokens_cache_written,
            usd=call.usd,
            model=f"{call.provider}:{call.model}",
        )
        return self._guard(self._records.pay, paid) is not False

    def open_findings(self, entry: PlannedItem, status: Status) -> tuple[dict[str, Any], ...]:
        """The open findings of the item's last review, which may have been in an earlier run."""
        if status in {Status.APPROVED, Status.SKIPPED}:
            return ()
        if entry.item.id not in self._findings and entry.reviews:
            return open_findings(last_review(self._home, entry.item.workflow, entry.item.id)) or ()
        return self._findings.get(entry.item.id, ())


def _call(record: dict[str, Any]) -> tuple[Any, ...]:
    return record.get("life"), record.get("role"), record.get("number")
