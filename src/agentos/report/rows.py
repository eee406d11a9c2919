"""One row per item: from the run's summary or, until there is one, from the events. Pure."""

from dataclasses import dataclass

from agentos.events.fields import Record, count_of, dicts_of, number_of, text_of, texts_of
from agentos.events.state import ItemState, RunState
from agentos.model import Status

_STATUSES = frozenset(status.value for status in Status)


@dataclass(frozen=True, kw_only=True)
class Row:
    """The state of one item."""

    id: str
    label: str
    status: str  # one of Status, "running" or "cut_off"
    verdict: str | None
    reviews: int
    attempts: int
    seconds: float
    waited_seconds: float
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    tokens_reasoning: int
    cost_usd: float | None
    error: str | None
    reason: str | None
    output: str | None
    filing: str | None
    log: str | None
    checkpoint: str | None
    questions: tuple[str, ...] = ()  # still open
    dropped: tuple[str, ...] = ()  # lines of a person that the approved document lacks


def read_rows(summary: Record, state: RunState, *, now: float, live: bool) -> list[Row]:
    """The rows of the summary; without one, rows from the events."""
    rows = [row for one in dicts_of(summary, "items") if (row := _from_summary(one)) is not None]
    if rows:
        return rows
    begun = [_from_events(item, now=now, live=live) for item in state.items.values()]
    queued = [ItemState(id=one.id, label=one.label, status=Status.PENDING) for one in state.not_started()]
    return begun + [_from_events(item, now=now, live=live) for item in queued]


def _from_summary(record: Record) -> Row | None:
    name, status = text_of(record, "id", 80), text_of(record, "status", 40)
    if name is None or status not in _STATUSES:
        return None
    return Row(
        id=name,
        label=text_of(record, "label", 100) or name,
        status=status,
        verdict=text_of(record, "verdict", 40),
        reviews=count_of(record, "reviews"),
        attempts=count_of(record, "attempts"),
        seconds=number_of(record, "seconds") or 0.0,
        waited_seconds=number_of(record, "waited_seconds") or 0.0,
        tokens_in=count_of(record, "tokens_in"),
        tokens_out=count_of(record, "tokens_out"),
        tokens_cached=count_of(record, "tokens_cached"),
        tokens_reasoning=count_of(record, "tokens_reasoning"),
        cost_usd=number_of(record, "cost_usd"),
        error=text_of(record, "error"),
        reason=text_of(record, "reason"),
        output=text_of(record, "output", 500),
        filing=text_of(record, "filing", 40),
        log=_file_name(text_of(record, "log")),
        checkpoint=_file_name(text_of(record, "checkpoint")),
        questions=texts_of(record, "questions"),
        dropped=texts_of(record, "dropped"),
    )


def _from_events(item: ItemState, *, now: float, live: bool) -> Row:
    return Row(
        id=item.id,
        label=item.label,
        status=item.status_now(live=live),
        verdict=item.verdict,
        reviews=item.reviews,
        attempts=item.attempts,
        seconds=item.seconds(now),
        waited_seconds=item.waited_seconds(now),
        tokens_in=item.tokens_in,
        tokens_out=item.tokens_out,
        tokens_cached=item.tokens_cached,
        tokens_reasoning=item.tokens_reasoning,
        cost_usd=None,  # comes from its calls
        error=item.error if item.status != Status.SKIPPED else None,
        reason=item.reason,
        output=item.output,
        filing=item.filing_state,
        log=None if item.began is None else f"{item.label}.log",
        checkpoint=None,
        questions=item.questions,
        dropped=item.dropped,
    )


def _file_name(path: str | None) -> str | None:
    """Only the file name: the page is next to the logs, even if the folder was moved since."""
    return None if path is None else path.replace("\\", "/").rsplit("/", 1)[-1]
