"""The records in any SQL database: who may write what, in one transaction per method.

`Records` keeps them in a SQLite file, `PostgresRecords` in a PostgreSQL that machines share. They differ in
their statements and in how they know that a run is alive.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import asdict
from typing import Any, Protocol, Self, TypeVar

from agentos.decisions import Decision
from agentos.model import Item, Status
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

T = TypeVar("T")


class RecordsDatabase(Protocol):
    """A database with the statements of the records, by name."""

    def write(self, work: Callable[[], T], *, durable: bool = False) -> T:
        """Do the work in one transaction; nobody else writes these records during it.

        It may be repeated if the connection is lost. `durable` data must survive a power cut.
        """

    def change(self, statement: str, values: Mapping[str, Any]) -> int:
        """Run a statement inside `write`; return the number of rows it changed."""

    def rows(self, statement: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the rows of a query; an impossible number in them is an error and is never used."""


class SqlRecords:
    """Reads and writes records, either the real ones or the mock's; see `protocols`."""

    _host = ""  # this machine's name, if several share the records

    def __init__(self, database: RecordsDatabase, *, mock: bool, alive: Callable[[str], bool]) -> None:
        self._database = database
        self._mock = int(mock)
        self._alive = alive

    def of(self, *, mock: bool) -> Self:
        other = copy(self)
        other._mock = int(mock)  # noqa: SLF001 - our own copy
        return other

    @property
    def mock(self) -> bool:
        return bool(self._mock)

    # Items.

    def outcomes(self, workflow: str) -> dict[str, Outcome]:
        rows = self._rows("outcomes", workflow=workflow)
        return {row["item"]: Outcome(**row) for row in rows}

    def progress(self, workflow: str | None = None) -> dict[tuple[str, str], Progress]:
        rows = self._rows("progress", workflow=workflow)
        return {(row["workflow"], row["item"]): Progress(**row) for row in rows}

    def begin(self, item: Item, fence: Fence, *, revise: bool = False) -> Stale | None:
        return self._write(item, fence, "begin_attempt", "begin", revise=int(revise))

    def at_node(self, item: Item, fence: Fence, node: str, reviews: int) -> Stale | None:
        return self._write(item, fence, "at_node", node=node, reviews=reviews)

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
        if status is not Status.APPROVED:
            how: dict[str, Any] = {"status": status.value, "reviews": reviews, "error": error}
            return self._write(item, fence, "end_unapproved", durable=True, **how)
        statements = ["drop_progress", "close_account", "add_outcome"]
        if filing is not None:
            statements.append("want_filing")
        how = {
            "verdict": verdict,
            "reviews": reviews,
            "output": output,
            "text_hash": text_hash,
            "state": filing,
        }
        return self._write(item, fence, *statements, durable=True, **how)

    def moved(self, item: Item, fence: Fence, output: str) -> Stale | None:
        return self._write(item, fence, "move_outcome", output=output)

    def forget(self, item: Item, fence: Fence, *, filing: bool = True) -> Stale | None:
        statements = ["drop_progress", "close_account", "forget_outcome"]
        if not self._mock:
            statements.append("forget_filing")
        return self._write(item, fence, *statements, durable=True, sent=int(filing))

    def drop_progress(self, workflow: str, item: str) -> Claim | None:
        def drop() -> Claim | None:
            if (holder := self._living_holder(workflow, item)) is None:
                self._change("drop_progress", workflow=workflow, item=item)
            return holder

        return self._database.write(drop)

    def rehash(self, item: Item) -> None:
        if not item.old_hash or item.old_hash == item.input_hash:
            return
        values = self._about(item) | {"old_hash": item.old_hash}

        def rehash() -> None:
            for statement in ("rehash_outcome", "rehash_progress", "rehash_filing"):
                self._change(statement, **values)

        self._database.write(rehash, durable=True)

    # Decisions.

    def decisions(self, workflow: str | None = None) -> dict[tuple[str, str], tuple[Decision, ...]]:
        found: dict[tuple[str, str], tuple[Decision, ...]] = {}
        for row in self._rows("decisions", workflow=workflow):
            key = (row.pop("workflow"), row.pop("item"))
            one = Decision(**row | {"used": bool(row["used"])})
            found[key] = (*found.get(key, ()), one)
        return found

    def decide(
        self,
        workflow: str,
        item: str,
        said: Iterable[Decision],
        *,
        unless: Callable[[], bool] = lambda: False,
    ) -> bool:
        words = tuple(said)

        def decide() -> bool:
            if unless():
                return False
            if any(one.answer for one in words):
                self._change("drop_answers", workflow=workflow, item=item)
            for place, one in enumerate(words):
                row = {name: value for name, value in asdict(one).items() if name not in {"id", "used"}}
                self._change("add_decision", workflow=workflow, item=item, place=place, **row)
            return True

        return self._database.write(decide, durable=True)

    def use_decisions(self, item: Item, fence: Fence, latest: int, *, kept: bool) -> Stale | None:
        return self._write(item, fence, "use_decisions", durable=True, latest=latest, kept=int(kept))

    # Claims.

    def claims(self) -> dict[tuple[str, str], Claim]:
        return {(row["workflow"], row["item"]): Claim(**row) for row in self._rows("claims")}

    def holder(self, item: Item | Filing) -> Claim | None:
        return self._living_holder(*item_key(item))

    def check(self, item: Item | Filing, fence: Fence) -> Stale | None:
        return fence.check(self._holder(*item_key(item)))

    def claim(self, items: Iterable[Item | Filing], run_id: str) -> dict[str, Claim]:
        wanted = [item_key(item) for item in items]

        def claim() -> dict[str, Claim]:
            held, refused = self.claims(), dict[str, Claim]()
            others = {claim.run_id for claim in held.values()} - {run_id}
            dead = {run for run in others if not self._alive(run)}
            for run in dead:
                self._change("release", run_id=run)
            for workflow, name in wanted:
                holder = held.get((workflow, name))
                if holder is None or holder.run_id in dead:
                    mine = Claim(
                        workflow=workflow,
                        item=name,
                        run_id=run_id,
                        pid=os.getpid(),
                        since=timestamp(),
                        host=self._host,
                    )
                    held[workflow, name] = mine
                    self._change("add_claim", **asdict(mine))
                elif holder.run_id != run_id:
                    refused[name] = holder
            return refused

        return self._database.write(claim)

    def release(self, run_id: str) -> None:
        self._write_one("release", run_id=run_id)

    # Spending.

    def begin_run(self, run_id: str, workflow: str, items: Iterable[str]) -> None:
        meant = set(items)

        def begin() -> None:
            rows = self._rows("stopped_runs", workflow=workflow)
            self._change("add_run", run_id=run_id, workflow=workflow)
            for run in {row["run_id"] for row in rows if row["item"] in meant}:
                if not self._alive(run):
                    self._change("continue_run", run_id=run_id, before=run)

        self._database.write(begin)

    def finish_run(self, run_id: str) -> str | None:
        def finish() -> str | None:
            if rows := self._rows("continued_by", run_id=run_id):
                return str(rows[0]["continued_by"])
            self._change("finish_run", run_id=run_id)
            return None

        return self._database.write(finish)

    def pay(self, paid: Paid) -> bool:
        return self._write_one("add_call", **asdict(paid)) > 0

    def spent_before(self, workflow: str, run_id: str) -> dict[str, float]:
        rows = self._rows("spent_before", workflow=workflow, run_id=run_id)
        return {row["item"]: row["usd"] for row in rows}

    def spent_on_items(self, workflow: str) -> dict[str, float]:
        return {row["item"]: row["usd"] for row in self._rows("spent_on_items", workflow=workflow)}

    def usual_outputs(self, workflow: str) -> dict[str, int]:
        return {row["role"]: row["usual"] for row in self._rows("usual_outputs", workflow=workflow)}

    def tokens_of_items(
        self, workflow: str, *, drafter: str | None, reviewer: str | None
    ) -> list[dict[str, Taken]]:
        calls = [Paid(**row) for row in self._rows("calls_of_approved_items", workflow=workflow)]
        return tokens_by_role(calls, drafter=drafter, reviewer=reviewer)

    def source(self, workflow: str) -> str | None:
        rows = self._rows("source", workflow=workflow)
        return rows[0]["place"] if rows else None

    def note_source(self, workflow: str, place: str) -> None:
        self._write_one("note_source", workflow=workflow, place=place, now=timestamp())

    # Filings.

    def filing(self, item: Item) -> Filing | None:
        rows = self._rows("filing", **self._about(item))
        return _filing(rows[0]) if rows else None

    def filings(self, workflow: str) -> dict[tuple[str, str], Filing]:
        rows = self._rows("filings", workflow=workflow)
        return {(row["item"], row["input_hash"]): _filing(row) for row in rows}

    def unknown_filings(self) -> tuple[Filing, ...]:
        return tuple(_filing(row) for row in self._rows("unknown_filings"))

    def latest_filing(self) -> str | None:
        (row,) = self._rows("latest_filing")
        return row["at"] or None

    def intend(self, item: Item, fence: Fence, *, repository: str, marker: str, at: str) -> Stale | None:
        about = {"repository": repository, "marker": marker, "at": at}
        return self._write(item, fence, "intend", durable=True, **about)

    def filed(self, item: Item | Filing, fence: Fence, *, number: int, url: str) -> Stale | None:
        return self._write(item, fence, "filed", durable=True, number=number, url=url)

    def not_there(self, row: Filing, fence: Fence, state: FilingState) -> Stale | None:
        assert state in {FilingState.WANTED, FilingState.KEPT}
        return self._write(row, fence, "not_there", durable=True, state=state)

    def filing_failed(self, item: Item | Filing, fence: Fence, *, error: str, unknown: bool) -> Stale | None:
        statement = "filing_unknown" if unknown else "filing_failed"
        return self._write(item, fence, statement, durable=True, error=error)

    # Shared by the methods above.

    def _rows(self, statement: str, **values: Any) -> list[dict[str, Any]]:
        return self._database.rows(statement, values | {"mock": self._mock})

    def _write(
        self, item: Item | Filing, fence: Fence, *statements: str, durable: bool = False, **values: Any
    ) -> Stale | None:
        """Run statements about an item, unless another run or attempt has it."""
        about = self._about(item) | {"run_id": fence.run_id, "attempt": fence.attempt} | values

        def write() -> Stale | None:
            if (stale := self.check(item, fence)) is None:
                for statement in statements:
                    self._change(statement, **about)
            return stale

        return self._database.write(write, durable=durable)

    def _write_one(self, statement: str, *, durable: bool = False, **values: Any) -> int:
        """Run one statement; return the number of rows it changed."""
        return self._database.write(lambda: self._change(statement, **values), durable=durable)

    def _change(self, statement: str, **values: Any) -> int:
        return self._database.change(statement, values | {"mock": self._mock})

    def _holder(self, workflow: str, item: str) -> Claim | None:
        rows = self._rows("holder", workflow=workflow, item=item)
        return Claim(**rows[0]) if rows else None

    def _living_holder(self, workflow: str, item: str) -> Claim | None:
        holder = self._holder(workflow, item)
        return holder if holder is not None and self._alive(holder.run_id) else None

    def _about(self, item: Item | Filing) -> dict[str, Any]:
        workflow, name = item_key(item)
        about = {"workflow": workflow, "item": name, "input_hash": item.input_hash}
        return about | {"now": timestamp()}


def _filing(row: dict[str, Any]) -> Filing:
    return Filing(**row | {"state": FilingState(row["state"])})
