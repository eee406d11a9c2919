"""The records in memory: the same behaviour as the database, for tests and for callers that keep nothing."""

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import replace
from typing import Any, Self

from agentos.decisions import Decision
from agentos.model import Item, Status
from agentos.store.records.memory_tables import RunRow, Tables, new_filing, rehash_row
from agentos.store.records.rows import (
    Claim,
    Fence,
    Filing,
    FilingState,
    Outcome,
    Paid,
    Progress,
    Stale,
    Taken,
    item_key,
    timestamp,
    tokens_by_role,
)

_UNSENT = frozenset({FilingState.WANTED, FilingState.KEPT})
_UNKNOWN = frozenset({FilingState.INTENDED})
_NOT_FILED = _UNSENT | _UNKNOWN


class MemoryRecords:
    """Keeps the records of one process, either the real ones or the mock's; see `protocols`."""

    def __init__(
        self, *, mock: bool = False, alive: Callable[[str], bool] = lambda _run: True, host: str = ""
    ) -> None:
        self._mock = mock
        self._host = host
        self._alive = alive
        self._tables = Tables()

    def of(self, *, mock: bool) -> Self:
        other = copy(self)
        other._mock = mock  # noqa: SLF001 - our own copy
        return other

    @property
    def mock(self) -> bool:
        return self._mock

    # Items.

    def outcomes(self, workflow: str) -> dict[str, Outcome]:
        mine = [
            one
            for (mock, flow, *_), one in self._tables.outcomes.items()
            if (mock, flow) == (self._mock, workflow)
        ]
        return {one.item: one for one in sorted(mine, key=lambda one: one.finished_at)}

    def progress(self, workflow: str | None = None) -> dict[tuple[str, str], Progress]:
        return {
            (flow, item): one
            for (mock, flow, item), one in self._tables.progress.items()
            if mock == self._mock and workflow in {None, flow}
        }

    def begin(self, item: Item, fence: Fence, *, revise: bool = False) -> Stale | None:
        if stale := self.check(item, fence):
            return stale
        held, before = self._tables.claims[item_key(item)], self._tables.progress.get(self._key(item))
        known = before is not None and before.input_hash == item.input_hash
        self._tables.claims[item_key(item)] = replace(held, attempt=fence.attempt)
        self._tables.progress[self._key(item)] = Progress(
            workflow=item.workflow,
            item=item.id,
            input_hash=item.input_hash,
            run_id=fence.run_id,
            attempt=fence.attempt,
            status="running",
            node=before.node if known and before else "",
            reviews=before.reviews if known and before else 0,
            error=None,
            updated_at=timestamp(),
            revise=int(revise),
        )
        return None

    def at_node(self, item: Item, fence: Fence, node: str, reviews: int) -> Stale | None:
        stale = self.check(item, fence)
        row = self._tables.progress.get(self._key(item))
        if stale is None and row is not None:
            self._tables.progress[self._key(item)] = replace(
                row, node=node, reviews=reviews, updated_at=timestamp()
            )
        return stale

    def end(
        self,
        item: Item,
        fence: Fence,
        status: Status,
        *,
        verdict: str | None,
        reviews: int,
        output: str | None,
        error: str | None,
        text_hash: str = "",
        filing: FilingState | None = None,
    ) -> Stale | None:
        if stale := self.check(item, fence):
            return stale
        now, row = timestamp(), self._tables.progress.get(self._key(item))
        if status is Status.APPROVED:
            self._tables.progress.pop(self._key(item), None)
            self._close_account(item)
            outcome = Outcome(
                workflow=item.workflow,
                item=item.id,
                input_hash=item.input_hash,
                run_id=fence.run_id,
                verdict=verdict,
                reviews=reviews,
                output=output,
                finished_at=now,
                text_hash=text_hash,
            )
            self._tables.outcomes.setdefault((*self._key(item), item.input_hash), outcome)
            if filing is not None:
                self._change_filing(item, fence, _UNSENT, create=True, state=filing, updated_at=now)
        elif row is not None:
            self._tables.progress[self._key(item)] = replace(
                row, status=status.value, reviews=max(row.reviews, reviews), error=error, updated_at=now
            )
        return None

    def moved(self, item: Item, fence: Fence, output: str) -> Stale | None:
        stale, key = self.check(item, fence), (*self._key(item), item.input_hash)
        if stale is None and key in self._tables.outcomes:
            self._tables.outcomes[key] = replace(self._tables.outcomes[key], output=output)
        return stale

    def forget(self, item: Item, fence: Fence, *, filing: bool = True) -> Stale | None:
        if stale := self.check(item, fence):
            return stale
        key = (*self._key(item), item.input_hash)
        self._tables.progress.pop(self._key(item), None)
        self._close_account(item)
        self._tables.outcomes.pop(key, None)
        row = self._tables.filings.get(_text(item))
        if not self._mock and row is not None and (filing or row.state in _UNSENT):
            del self._tables.filings[_text(item)]
        return None

    def drop_progress(self, workflow: str, item: str) -> Claim | None:
        if (holder := self._living_holder((workflow, item))) is None:
            self._tables.progress.pop((self._mock, workflow, item), None)
        return holder

    def rehash(self, item: Item) -> None:
        old, new = item.old_hash, item.input_hash
        if not old or old == new:
            return
        tables, (flow, name) = self._tables, item_key(item)
        for key in ((mock, flow, name) for mock in (False, True)):
            if (begun := tables.progress.get(key)) is not None and begun.input_hash == old:
                tables.progress[key] = replace(begun, input_hash=new)
            rehash_row(tables.outcomes, (*key, old), (*key, new), new)
        rehash_row(tables.filings, (flow, name, old), (flow, name, new), new)

    # Decisions.

    def decisions(self, workflow: str | None = None) -> dict[tuple[str, str], tuple[Decision, ...]]:
        found: dict[tuple[str, str], tuple[Decision, ...]] = {}
        for mock, flow, item, one in self._tables.decisions.values():
            if mock == self._mock and workflow in {None, flow} and one.id not in self._tables.kept:
                found[flow, item] = (*found.get((flow, item), ()), one)
        return found

    def decide(
        self,
        workflow: str,
        item: str,
        said: Iterable[Decision],
        *,
        unless: Callable[[], bool] = lambda: False,
    ) -> bool:
        if unless():
            return False
        words, about = tuple(said), (self._mock, workflow, item)
        if any(one.answer for one in words):
            for number, (*other, one) in list(self._tables.decisions.items()):
                if tuple(other) == about and one.answer and not one.used:
                    del self._tables.decisions[number]
        for one in words:
            number = max(self._tables.decisions, default=0) + 1
            self._tables.decisions[number] = (*about, replace(one, id=number, used=False))
        return True

    def use_decisions(self, item: Item, fence: Fence, latest: int, *, kept: bool) -> Stale | None:
        if stale := self.check(item, fence):
            return stale
        for number, (*about, one) in self._tables.decisions.items():
            if tuple(about) == self._key(item) and number <= latest:
                self._tables.decisions[number] = (*self._key(item), replace(one, used=True))
                self._tables.kept |= {number} if kept else set()
        return None

    # Claims.

    def claims(self) -> dict[tuple[str, str], Claim]:
        return dict(self._tables.claims)

    def holder(self, item: Item | Filing) -> Claim | None:
        return self._living_holder(item_key(item))

    def check(self, item: Item | Filing, fence: Fence) -> Stale | None:
        return fence.check(self._tables.claims.get(item_key(item)))

    def claim(self, items: Iterable[Item | Filing], run_id: str) -> dict[str, Claim]:
        refused: dict[str, Claim] = {}
        others = {claim.run_id for claim in self._tables.claims.values()} - {run_id}
        for run in [run for run in others if not self._alive(run)]:
            self.release(run)
        for item in items:
            workflow, name = item_key(item)
            mine = Claim(
                workflow=workflow, item=name, run_id=run_id, pid=0, since=timestamp(), host=self._host
            )
            holder = self._tables.claims.setdefault((workflow, name), mine)
            if holder.run_id != run_id:
                refused[name] = holder
        return refused

    def release(self, run_id: str) -> None:
        claims = self._tables.claims
        for key in [key for key, claim in claims.items() if claim.run_id == run_id]:
            del claims[key]

    # Spending.

    def begin_run(self, run_id: str, workflow: str, items: Iterable[str]) -> None:
        meant, runs = set(items), self._tables.runs
        paying = {call.run_id for call in self._calls(workflow) if call.item in meant}
        for name, run in runs.items():
            if name in paying and run.workflow == workflow and not run.finished and not self._alive(name):
                run.continued_by = run.continued_by or run_id
        runs[run_id] = RunRow(workflow=workflow)

    def finish_run(self, run_id: str) -> str | None:
        run = self._tables.runs.get(run_id, RunRow(workflow=""))
        run.finished = run.continued_by is None
        return run.continued_by

    def pay(self, paid: Paid) -> bool:
        row = (self._mock, paid)
        return self._tables.calls.setdefault((paid.journal_id, paid.role, paid.number), row) is row

    def spent_before(self, workflow: str, run_id: str) -> dict[str, float]:
        earlier: set[str] = set()
        before = {run_id}
        while before:
            before = {name for name, run in self._tables.runs.items() if run.continued_by in before}
            before -= earlier | {run_id}
            earlier |= before
        return _total(call for call in self._calls(workflow) if call.run_id in earlier)

    def spent_on_items(self, workflow: str) -> dict[str, float]:
        return _total(call for call in self._calls(workflow) if call.counts)

    def usual_outputs(self, workflow: str) -> dict[str, int]:
        written: dict[str, list[int]] = {}
        for call in self._calls(workflow):
            if call.tokens_out > 0:
                written.setdefault(call.role, []).append(call.tokens_out)
        return {role: sum(tokens) // len(tokens) for role, tokens in written.items()}

    def tokens_of_items(
        self, workflow: str, *, drafter: str | None, reviewer: str | None
    ) -> list[dict[str, Taken]]:
        approved = self.outcomes(workflow)
        calls = [call for call in self._calls(workflow) if not call.counts and call.item in approved]
        return tokens_by_role(calls, drafter=drafter, reviewer=reviewer)

    def source(self, workflow: str) -> str | None:
        return self._tables.sources.get(workflow)

    def note_source(self, workflow: str, place: str) -> None:
        self._tables.sources[workflow] = place

    # Filings.

    def filing(self, item: Item) -> Filing | None:
        return self._tables.filings.get(_text(item))

    def filings(self, workflow: str) -> dict[tuple[str, str], Filing]:
        rows = self._tables.filings.items()
        return {(item, text): row for (flow, item, text), row in rows if flow == workflow}

    def unknown_filings(self) -> tuple[Filing, ...]:
        rows = [row for row in self._tables.filings.values() if row.state is FilingState.INTENDED]
        return tuple(sorted(rows, key=lambda row: (row.workflow, row.item, row.updated_at)))

    def latest_filing(self) -> str | None:
        rows = [row for row in self._tables.filings.values() if row.marker]
        return max((max(row.updated_at, row.attempted_at or "") for row in rows), default=None)

    def intend(self, item: Item, fence: Fence, *, repository: str, marker: str, at: str) -> Stale | None:
        row = self._tables.filings.get(_text(item)) or new_filing(item)
        changes: dict[str, Any] = {"repository": repository, "marker": marker, "tries": row.tries + 1}
        changes["attempted_at"] = row.attempted_at if row.marker == marker else at
        changes |= {"state": FilingState.INTENDED, "error": None, "updated_at": at}
        return self._change_filing(item, fence, _NOT_FILED, create=True, **changes)

    def filed(self, item: Item | Filing, fence: Fence, *, number: int, url: str) -> Stale | None:
        changes: dict[str, Any] = {"number": number, "url": url, "error": None, "updated_at": timestamp()}
        return self._change_filing(item, fence, _NOT_FILED, state=FilingState.FILED, **changes)

    def not_there(self, row: Filing, fence: Fence, state: FilingState) -> Stale | None:
        assert state in _UNSENT
        return self._change_filing(row, fence, _UNKNOWN, state=state, error=None, updated_at=timestamp())

    def filing_failed(self, item: Item | Filing, fence: Fence, *, error: str, unknown: bool) -> Stale | None:
        if unknown:
            return self._change_filing(item, fence, _UNKNOWN, error=error)
        changes: dict[str, Any] = {"state": FilingState.WANTED, "error": error, "updated_at": timestamp()}
        return self._change_filing(item, fence, _NOT_FILED, create=True, **changes)

    # Shared by the methods above.

    def _key(self, item: Item) -> tuple[bool, str, str]:
        return self._mock, item.workflow, item.id

    def _change_filing(
        self,
        item: Item | Filing,
        fence: Fence,
        states: frozenset[FilingState],
        *,
        create: bool = False,
        **changes: Any,
    ) -> Stale | None:
        """Change a filing that is in one of these states; a new one begins as wanted."""
        if stale := self.check(item, fence):
            return stale
        row = self._tables.filings.get(_text(item)) or (new_filing(item) if create else None)
        if row is not None and row.state in states:
            self._tables.filings[_text(item)] = replace(row, **changes)
        return None

    def _living_holder(self, key: tuple[str, str]) -> Claim | None:
        holder = self._tables.claims.get(key)
        return holder if holder is not None and self._alive(holder.run_id) else None

    def _calls(self, workflow: str) -> list[Paid]:
        calls = self._tables.calls.values()
        return [paid for mock, paid in calls if (mock, paid.workflow) == (self._mock, workflow)]

    def _close_account(self, item: Item) -> None:
        for key, (mock, paid) in self._tables.calls.items():
            if (mock, paid.workflow, paid.item) == self._key(item):
                self._tables.calls[key] = (mock, replace(paid, counts=0))


def _text(item: Item | Filing) -> tuple[str, str, str]:
    return *item_key(item), item.input_hash


def _total(calls: Iterable[Paid]) -> dict[str, float]:
    found: dict[str, float] = {}
    for call in calls:
        found[call.item] = found.get(call.item, 0.0) + (call.usd or 0.0)
    return found
