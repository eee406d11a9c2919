"""Adds items to records as runs do: claimed, begun, ended."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agentos.decisions import Answer, Decision
from agentos.model import Item, Status
from agentos.store.postgres.connection import PostgresDatabase
from agentos.store.records import Fence, FilingState, Paid
from agentos.store.records.postgres import PostgresRecords
from agentos.store.records.protocols import AllRecords

AT = "2026-01-01T00:00:00.000Z"


@contextmanager
def open_postgres_records(
    url: str, *, project: str = "project", alive: Callable[[str], bool] | None = None, host: str | None = ""
) -> Iterator[PostgresRecords]:
    """The records of a project over a connection of their own; without a host, as if it were the only one."""
    with PostgresDatabase(url, application_name="test") as database:
        yield PostgresRecords(database, project=project, alive=alive, host=host)


def hold(records: AllRecords, item: Item, run_id: str | None = None) -> Fence:
    """Claim the item for a run, by default its holder; the attempt is the current one, or the first."""
    before = records.claims().get((item.workflow, item.id))
    if before is not None and before.run_id != run_id is not None:
        records.release(before.run_id)
    run_id = run_id or (before.run_id if before is not None else "run-1")
    assert records.claim([item], run_id) == {}
    held = records.claims()[item.workflow, item.id]
    return Fence(run_id=run_id, attempt=max(1, held.attempt))


def begin(records: AllRecords, item: Item, run_id: str | None = None, *, revise: bool = False) -> Fence:
    fence = hold(records, item, run_id)
    assert records.begin(item, fence, revise=revise) is None
    return fence


def end(
    records: AllRecords,
    item: Item,
    status: Status,
    *,
    run_id: str | None = None,
    reviews: int = 0,
    error: str | None = None,
) -> None:
    """End an item that is not approved, as the run that started it."""
    fence = hold(records, item, run_id)
    told = records.end(item, fence, status, verdict=None, reviews=reviews, output=None, error=error)
    assert told is None


def approve(
    records: AllRecords,
    item: Item,
    run_id: str | None = None,
    *,
    output: str | None = "out.md",
    text_hash: str = "",
    reviews: int = 2,
    filing: FilingState | None = None,
) -> Fence:
    """Approve an item; the run still holds it."""
    fence = hold(records, item, run_id)
    told = records.end(
        item,
        fence,
        Status.APPROVED,
        verdict="APPROVED",
        reviews=reviews,
        output=output,
        error=None,
        text_hash=text_hash,
        filing=filing,
    )
    assert told is None
    return fence


def item(item_id: str = "42", text: str = "text", workflow: str = "lld") -> Item:
    return Item(workflow=workflow, id=item_id, label=f"LLD-{item_id}", title="T", text=text, source="x.md")


def answer(
    records: AllRecords,
    one: Item,
    reviews: int,
    verdict: Answer = "approve",
    text: str = "",
    *,
    unless: Callable[[], bool] = lambda: False,
) -> bool:
    """Answer the question after that many reviews."""
    decision = Decision(question="Which?", text=text, answer=verdict, reviews=reviews, by="ann", at=AT)
    return records.decide(one.workflow, one.id, [decision], unless=unless)


def note(records: AllRecords, one: Item, text: str = "Better.") -> None:
    assert records.decide(one.workflow, one.id, [Decision(text=text, by="ann", at=AT)])


def said(records: AllRecords, one: Item) -> tuple[Decision, ...]:
    """What people said about an item and no document has."""
    return tuple(records.decisions().get((one.workflow, one.id), ()))


def paid(life: str, *, run_id: str = "run-1", one: str = "1", usd: float = 1.0) -> Paid:
    return Paid(
        journal_id=life,
        role="drafter",
        number=1,
        run_id=run_id,
        workflow="lld",
        item=one,
        tokens_in=10,
        tokens_out=20,
        usd=usd,
        model="a:x",
    )
