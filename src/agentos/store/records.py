"""Our own records of what is done, under way, decided and held; LangGraph is never asked. Coordinator.

One small SQLite database a home. Runs that share a home write to it one at a time, behind a file lock: two
writers on one write-ahead log are a known trap of older SQLite versions.
"""

import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from copy import copy
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from enum import StrEnum
from importlib.resources import files as resources
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from agentos import redact
from agentos.errors import StorageError
from agentos.model import Item, Status
from agentos.store.home import Home, checkpoint_files

_MIGRATIONS = (
    "001-records.sql",
    "002-spending.sql",
    "003-filing.sql",
    "004-source.sql",
    "005-models.sql",
    "006-mock.sql",
)
_BUSY_SECONDS = 30.0
_MOST = 2**53  # of anything counted


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """An approved item."""

    workflow: str
    item: str
    input_hash: str
    run_id: str
    verdict: str | None
    reviews: int
    output: str | None
    finished_at: str


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far an item got that is not approved."""

    workflow: str
    item: str
    input_hash: str
    run_id: str
    status: str  # a Status, or "running"
    node: str
    reviews: int
    error: str | None
    updated_at: str
    revise: int = 0  # 1: it began with the document that was there


@dataclass(frozen=True, kw_only=True)
class Decided:
    """A person's answer to a DISCUSS."""

    workflow: str
    item: str
    input_hash: str
    reviews: int
    answer: str
    note: str
    decided_by: str
    decided_at: str


@dataclass(frozen=True, kw_only=True)
class Paid:
    """A call that was answered and so is paid for; a life is one journal of an item's calls."""

    life: str
    role: str
    number: int
    run_id: str
    workflow: str
    item: str
    tokens_in: int
    tokens_out: int
    usd: float | None  # None where no price is known
    counts: int = 1  # 0 once the item is finished or begun anew: its own budget starts over
    model: str | None = None  # the one asked, as provider:model


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What all calls of one role took of one item."""

    calls: int
    tokens_in: int
    tokens_out: int


@dataclass(frozen=True, kw_only=True)
class Note:
    """What a person said about an item; without a text it asks for a review of the document as it is."""

    id: int
    workflow: str
    item: str
    text: str
    noted_by: str
    noted_at: str


class FilingState(StrEnum):
    """How far an approved issue is on its way to GitHub."""

    WANTED = "wanted"  # to be filed
    KEPT = "kept"  # approved while filing was off; stays a local file until it is named
    INTENDED = "intended"  # an attempt was begun, and how it ended is not known
    FILED = "filed"  # there, with a number


@dataclass(frozen=True, kw_only=True)
class Filing:
    """What became of an approved issue on GitHub."""

    workflow: str
    item: str
    input_hash: str
    state: FilingState
    repository: str  # the address it was sent to
    marker: str  # the hidden line in its body; kept from the first attempt on
    tries: int
    attempted_at: str | None  # the first attempt with this marker
    number: int | None
    url: str | None
    error: str | None
    updated_at: str  # while intended: the latest attempt


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A run's hold on an item."""

    workflow: str
    item: str
    run_id: str
    pid: int
    since: str


def timestamp() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _Connection(sqlite3.Connection):
    """Stores no secret, whoever wrote it: a server, or a person in a note."""

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        return super().execute(sql, redact.clean(parameters))


class Records:
    """Reads and writes the records of one home, either the real ones or the mock's."""

    def __init__(self, path: Path, *, write: bool = True, mock: bool = False) -> None:
        self._path = path
        self._mock = int(mock)
        self._lock: int | None = None
        self._db: sqlite3.Connection
        try:
            if write:
                self._lock = self.home.open(path.with_suffix(".lock"))
                os.close(self.home.open(path))
                self.home.tree.check_database(path)
                self._db = sqlite3.connect(
                    path, timeout=_BUSY_SECONDS, isolation_level=None, factory=_Connection
                )
                self._db.execute("PRAGMA trusted_schema=OFF")
                self._db.execute("PRAGMA journal_mode=WAL")
                self._db.execute("PRAGMA synchronous=NORMAL")
                self._migrate()
            else:
                self._db = _open_for_reading(path)
        except (sqlite3.Error, OSError) as exc:
            told = exc.strerror if isinstance(exc, OSError) else exc
            raise StorageError(f"The records {path} cannot be used: {told}.") from exc

    def close(self) -> None:
        self._db.close()
        if self._lock is not None:
            os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def of(self, *, mock: bool) -> "Records":
        """The same records, of the mock or of the real world; to be closed only once."""
        other = copy(self)
        other._mock = int(mock)  # noqa: SLF001 - a copy of ours
        return other

    @property
    def mock(self) -> bool:
        return bool(self._mock)

    @property
    def home(self) -> Home:
        """Where the records are, and locks beside them."""
        return Home(path=self._path.parent)

    @contextmanager
    def _writing(self, *, durable: bool = False) -> Iterator[sqlite3.Connection]:
        assert self._lock is not None
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            # A process that dies loses nothing either way; what must also survive a power cut says so.
            self._db.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
        except sqlite3.Error as exc:
            raise StorageError(f"The records {self._path} cannot be written: {exc}.") from exc
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def _migrate(self) -> None:
        with self._writing():
            if _migrate(self._db, self._path.parent):
                self._rename_checkpoints_of_the_mock()

    def _rename_checkpoints_of_the_mock(self) -> None:
        """Unfinished items of the mock go on under the name that their checkpoints have now."""
        home = self.home
        for one in self.of(mock=True).progress().values():
            before = checkpoint_files(home.checkpoint(one.workflow, one.item))
            after = checkpoint_files(home.checkpoint(one.workflow, one.item, mock=True))
            for old, new in zip(before, after, strict=True):
                with suppress(OSError):
                    home.tree.move(old, new)

    def _rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        try:
            cursor = self._db.execute(query, values)
            names = [column[0] for column in cursor.description]
            rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        except (sqlite3.Error, OverflowError) as exc:
            raise StorageError(f"The records {self._path} cannot be read: {exc}.") from exc
        for row in rows:
            for name, value in row.items():
                # Nothing that is counted here is ever less than nothing: a budget would grow by it.
                if isinstance(value, int | float) and not 0 <= value < _MOST:
                    raise StorageError(f"The records {self._path} hold nonsense: {name} is {value}.")
        return rows

    def outcomes(self, workflow: str) -> dict[str, Outcome]:
        """The latest approval of every item of a workflow, by id."""
        rows = self._rows(
            f"SELECT {_names(Outcome)} FROM outcome WHERE workflow = ? AND mock = ? ORDER BY finished_at",  # noqa: S608
            workflow,
            self._mock,
        )
        return {row["item"]: Outcome(**row) for row in rows}

    def progress(self, workflow: str | None = None) -> dict[tuple[str, str], Progress]:
        """Unfinished items, by workflow and id."""
        rows = self._rows(
            f"SELECT {_names(Progress)} FROM progress WHERE (? IS NULL OR workflow = ?) AND mock = ?",  # noqa: S608
            workflow,
            workflow,
            self._mock,
        )
        return {(row["workflow"], row["item"]): Progress(**row) for row in rows}

    def decision(self, item: Item, reviews: int) -> Decided | None:
        rows = self._rows(
            f"SELECT {_names(Decided)} FROM decision"  # noqa: S608
            " WHERE workflow = ? AND item = ? AND input_hash = ? AND reviews = ? AND mock = ?",
            item.workflow,
            item.id,
            item.input_hash,
            reviews,
            self._mock,
        )
        return Decided(**rows[0]) if rows else None

    def decide(self, decided: Decided, *, unless: Callable[[], bool] = lambda: False) -> bool:
        """Keep an answer; False where `unless` holds at the moment of writing, and nothing is kept."""
        with self._writing(durable=True) as db:
            if unless():
                return False
            _insert(db, "decision", asdict(decided) | {"mock": self._mock})
        return True

    def notes(self, workflow: str | None = None) -> dict[tuple[str, str], tuple[Note, ...]]:
        """What people said that no run has taken up yet, by workflow and item, in the order it was said."""
        rows = self._rows(
            f"SELECT {_names(Note)} FROM note"  # noqa: S608
            " WHERE (? IS NULL OR workflow = ?) AND mock = ? AND used_by IS NULL ORDER BY id",
            workflow,
            workflow,
            self._mock,
        )
        found: dict[tuple[str, str], tuple[Note, ...]] = {}
        for row in rows:
            key = (row["workflow"], row["item"])
            found[key] = (*found.get(key, ()), Note(**row))
        return found

    def add_note(self, workflow: str, item: str, *, text: str, by: str) -> None:
        with self._writing(durable=True) as db:
            db.execute(
                "INSERT INTO note (workflow, item, mock, text, noted_by, noted_at) VALUES (?, ?, ?, ?, ?, ?)",
                (workflow, item, self._mock, text, by, timestamp()),
            )

    def use_notes(self, notes: Iterable[Note], run_id: str) -> None:
        """Note that a run has taken these to the models."""
        with self._writing(durable=True) as db:
            db.executemany(
                "UPDATE note SET used_by = ? WHERE id = ? AND used_by IS NULL",
                [(run_id, note.id) for note in notes],
            )

    def rehash(self, item: Item) -> None:
        """Take over what an earlier version noted of this very text, whose hash counted its stamp."""
        if not item.old_hash or item.old_hash == item.input_hash:
            return
        with self._writing(durable=True) as db:
            for table in ("outcome", "progress", "decision", "filing"):
                db.execute(
                    f"UPDATE OR IGNORE {table} SET input_hash = ?"  # noqa: S608
                    " WHERE workflow = ? AND item = ? AND input_hash = ?",
                    (item.input_hash, item.workflow, item.id, item.old_hash),
                )

    def claims(self) -> dict[tuple[str, str], Claim]:
        return {(row["workflow"], row["item"]): Claim(**row) for row in self._rows("SELECT * FROM claim")}

    def claim(self, items: Iterable[Item], run_id: str, alive: Callable[[str], bool]) -> dict[str, Claim]:
        """Take the items for a run; return those that another living run holds, by id. Dead claims go."""
        refused: dict[str, Claim] = {}
        with self._writing() as db:
            held = self.claims()
            dead = {run for run in {claim.run_id for claim in held.values()} if not alive(run)}
            db.executemany("DELETE FROM claim WHERE run_id = ?", [(run,) for run in dead])
            for item in items:
                holder = held.get((item.workflow, item.id))
                if holder is not None and holder.run_id not in dead:
                    refused[item.id] = holder
                    continue
                mine = Claim(
                    workflow=item.workflow, item=item.id, run_id=run_id, pid=os.getpid(), since=timestamp()
                )
                _insert(db, "claim", asdict(mine))
        return refused

    def release(self, run_id: str) -> None:
        with self._writing() as db:
            db.execute("DELETE FROM claim WHERE run_id = ?", (run_id,))

    def begin(self, item: Item, run_id: str, *, revise: bool = False) -> None:
        """Note that an item is running now; what is known of an earlier run on the same input is kept."""
        with self._writing() as db:
            db.execute(
                "INSERT INTO progress (workflow, item, mock, input_hash, run_id, revise, status, updated_at)"
                " VALUES (?, ?, ?, ?, ?, ?, 'running', ?) ON CONFLICT (workflow, item, mock) DO UPDATE"
                " SET node = iif(input_hash = excluded.input_hash, node, ''),"
                " reviews = iif(input_hash = excluded.input_hash, reviews, 0), error = NULL,"
                " input_hash = excluded.input_hash, run_id = excluded.run_id, revise = excluded.revise,"
                " status = 'running', updated_at = excluded.updated_at",
                (item.workflow, item.id, self._mock, item.input_hash, run_id, int(revise), timestamp()),
            )

    def at_node(self, item: Item, node: str, reviews: int) -> None:
        with self._writing() as db:
            db.execute(
                "UPDATE progress SET node = ?, reviews = ?, updated_at = ?"
                " WHERE workflow = ? AND item = ? AND mock = ?",
                (node, reviews, timestamp(), item.workflow, item.id, self._mock),
            )

    def end(
        self,
        item: Item,
        run_id: str,
        status: Status,
        *,
        verdict: str | None,
        reviews: int,
        output: str | None,
        error: str | None,
        filing: FilingState | None = None,
    ) -> None:
        """Note how an item ended; an approval becomes its outcome, once, and its wish to be filed with it."""
        now = timestamp()
        with self._writing(durable=True) as db:
            if status is Status.APPROVED:
                outcome = Outcome(
                    workflow=item.workflow,
                    item=item.id,
                    input_hash=item.input_hash,
                    run_id=run_id,
                    verdict=verdict,
                    reviews=reviews,
                    output=output,
                    finished_at=now,
                )
                self._drop_progress(db, item.workflow, item.id)
                self._close_account(db, item)
                _insert(db, "outcome", asdict(outcome) | {"mock": self._mock}, "OR IGNORE")
                if filing is not None:
                    db.execute(_WISH, (*_key(item), filing.value, now))
            else:
                db.execute(
                    "UPDATE progress SET status = ?, reviews = max(reviews, ?), error = ?, updated_at = ?"
                    " WHERE workflow = ? AND item = ? AND mock = ?",
                    (status.value, reviews, error, now, item.workflow, item.id, self._mock),
                )

    def begin_run(
        self, run_id: str, workflow: str, items: Iterable[str], alive: Callable[[str], bool]
    ) -> None:
        """Note a run, and that it goes on from those that were stopped while they paid for its items."""
        rows = self._rows(
            "SELECT DISTINCT run_id, item FROM run JOIN call USING (run_id, workflow)"
            " WHERE workflow = ? AND NOT finished AND continued_by IS NULL AND call.mock = ?",
            workflow,
            self._mock,
        )
        meant = set(items)
        before = {row["run_id"] for row in rows if row["item"] in meant}
        with self._writing() as db:
            _insert(db, "run", {"run_id": run_id, "workflow": workflow})
            for run in before:
                if not alive(run):
                    db.execute("UPDATE run SET continued_by = ? WHERE run_id = ?", (run_id, run))

    def source(self, workflow: str) -> str | None:
        """Where the items of the workflow's last run came from."""
        rows = self._rows("SELECT place FROM source WHERE workflow = ?", workflow)
        return rows[0]["place"] if rows else None

    def note_source(self, workflow: str, place: str) -> None:
        """Remember where the items of a workflow come from."""
        with self._writing() as db:
            _insert(db, "source", {"workflow": workflow, "place": place, "updated_at": timestamp()})

    def finish_run(self, run_id: str) -> None:
        """Note that a run came to its own end: the next one begins with an untouched budget."""
        with self._writing() as db:
            db.execute("UPDATE run SET finished = 1 WHERE run_id = ?", (run_id,))

    def pay(self, paid: Paid) -> bool:
        """Note a paid call; False if it was noted before."""
        with self._writing() as db:
            before = db.total_changes
            _insert(db, "call", asdict(paid) | {"mock": self._mock}, "OR IGNORE")
            return db.total_changes > before

    def spent_before(self, workflow: str, run_id: str) -> dict[str, float]:
        """What the runs that a run goes on from have spent, by item."""
        rows = self._rows(
            "WITH RECURSIVE chain (run_id) AS"
            " (VALUES (?) UNION SELECT run.run_id FROM run JOIN chain ON run.continued_by = chain.run_id)"
            " SELECT item, total(usd) AS usd FROM call JOIN chain USING (run_id)"
            " WHERE workflow = ? AND run_id != ? AND mock = ? GROUP BY item",
            run_id,
            workflow,
            run_id,
            self._mock,
        )
        return {row["item"]: row["usd"] for row in rows}

    def spent_on_items(self, workflow: str) -> dict[str, float]:
        """What every unfinished item has cost since it was begun."""
        rows = self._rows(
            "SELECT item, total(usd) AS usd FROM call WHERE workflow = ? AND mock = ? AND counts"
            " GROUP BY item",
            workflow,
            self._mock,
        )
        return {row["item"]: row["usd"] for row in rows}

    def usual_outputs(self, workflow: str) -> dict[str, int]:
        """How many tokens a call of each role wrote on average."""
        rows = self._rows(
            "SELECT role, CAST(avg(tokens_out) AS INTEGER) AS usual FROM call"
            " WHERE workflow = ? AND mock = ? AND tokens_out > 0 GROUP BY role",
            workflow,
            self._mock,
        )
        return {row["role"]: row["usual"] for row in rows}

    def tokens_of_items(
        self, workflow: str, *, drafter: str | None, reviewer: str | None
    ) -> list[dict[str, Taken]]:
        """What each approved item took that was made with these two models alone, by role."""
        rows = self._rows(
            "SELECT item, life, role, number, run_id, model, tokens_in, tokens_out FROM call"
            " WHERE workflow = ? AND mock = ? AND NOT counts"
            " AND item IN (SELECT item FROM outcome WHERE workflow = ? AND mock = ?) ORDER BY rowid",
            workflow,
            self._mock,
            workflow,
            self._mock,
        )
        by_item: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            by_item.setdefault(row["item"], []).append(row)
        found: list[dict[str, Taken]] = []
        for calls in map(_last_life, by_item.values()):
            # A call from before models were recorded has none, and so matches nothing.
            asked = {row["model"] or "" for row in calls if row["role"] != "drafter"}
            drafted = {row["model"] or "" for row in calls if row["role"] == "drafter"}
            if asked <= {reviewer} and drafted <= {drafter} and calls:
                found.append({role: _taken(calls, role) for role in {row["role"] for row in calls}})
        return found

    def drop_progress(self, workflow: str, item: str) -> None:
        """Forget how far an item got: its checkpoint is gone."""
        with self._writing() as db:
            self._drop_progress(db, workflow, item)

    def _drop_progress(self, db: sqlite3.Connection, workflow: str, item: str) -> None:
        db.execute(
            "DELETE FROM progress WHERE workflow = ? AND item = ? AND mock = ?", (workflow, item, self._mock)
        )

    def _close_account(self, db: sqlite3.Connection, item: Item) -> None:
        """The item's own budget starts over with its next beginning."""
        db.execute(
            "UPDATE call SET counts = 0 WHERE workflow = ? AND item = ? AND mock = ?",
            (item.workflow, item.id, self._mock),
        )

    def forget(self, item: Item, *, filing: bool = True) -> None:
        """Make the item as if it had never been run; what may be on GitHub only where that is meant."""
        with self._writing(durable=True) as db:
            self._drop_progress(db, item.workflow, item.id)
            self._close_account(db, item)
            for table in ("outcome", "decision"):
                db.execute(
                    f"DELETE FROM {table} WHERE {_THIS_ITEM} AND mock = ?",  # noqa: S608
                    (*_key(item), self._mock),
                )
            if not self._mock:
                unsent = "" if filing else " AND state IN ('wanted', 'kept')"
                db.execute(f"DELETE FROM filing WHERE {_THIS_ITEM}{unsent}", _key(item))  # noqa: S608

    def filing(self, item: Item) -> Filing | None:
        """What became on GitHub of the item with exactly this text."""
        rows = self._rows(f"SELECT * FROM filing WHERE {_THIS_ITEM}", *_key(item))  # noqa: S608
        return _filing(rows[0]) if rows else None

    def filings(self, workflow: str) -> dict[tuple[str, str], Filing]:
        """The filings of a workflow, by item id and input hash."""
        rows = self._rows("SELECT * FROM filing WHERE workflow = ?", workflow)
        return {(row["item"], row["input_hash"]): _filing(row) for row in rows}

    def unknown_filings(self) -> tuple[Filing, ...]:
        """Attempts to file whose end is not known, of any item and text."""
        rows = self._rows("SELECT * FROM filing WHERE state = 'intended' ORDER BY workflow, item, updated_at")
        return tuple(_filing(row) for row in rows)

    def latest_filing(self) -> str | None:
        """When something was last sent to GitHub from this home, or may have been."""
        (row,) = self._rows(
            "SELECT max(max(updated_at, ifnull(attempted_at, ''))) AS at FROM filing WHERE marker != ''"
        )
        return row["at"] or None

    def intend(self, item: Item, *, repository: str, marker: str, at: str) -> None:
        """Note an attempt to file, before anything is sent; what was noted survives a power cut."""
        with self._writing(durable=True) as db:
            db.execute(
                "INSERT INTO filing"
                " (workflow, item, input_hash, state, repository, marker, tries, attempted_at, updated_at)"
                " VALUES (?, ?, ?, 'intended', ?, ?, 1, ?, ?) ON CONFLICT DO UPDATE SET state = 'intended',"
                " attempted_at = iif(marker = excluded.marker, attempted_at, excluded.attempted_at),"
                " repository = excluded.repository, marker = excluded.marker, tries = tries + 1,"
                " error = NULL, updated_at = excluded.updated_at WHERE state != 'filed'",
                (*_key(item), repository, marker, at, at),
            )

    def filed(self, item: Item | Filing, *, number: int, url: str) -> None:
        """Note that the issue is there; written once."""
        with self._writing(durable=True) as db:
            db.execute(
                "UPDATE filing SET state = 'filed', number = ?, url = ?, error = NULL, updated_at = ?"  # noqa: S608
                f" WHERE {_THIS_ITEM} AND state != 'filed'",
                (number, url, timestamp(), *_key(item)),
            )

    def moved(self, item: Item, output: str) -> None:
        """Note where an approved document is now."""
        with self._writing() as db:
            db.execute(
                f"UPDATE outcome SET output = ? WHERE {_THIS_ITEM} AND mock = ?",  # noqa: S608
                (output, *_key(item), self._mock),
            )

    def not_there(self, row: Filing, state: FilingState) -> None:
        """Note that an attempt surely made no issue, and what becomes of its document now."""
        assert state in {FilingState.WANTED, FilingState.KEPT}
        with self._writing(durable=True) as db:
            db.execute(
                "UPDATE filing SET state = ?, error = NULL, updated_at = ?"  # noqa: S608
                f" WHERE {_THIS_ITEM} AND state = 'intended'",
                (state.value, timestamp(), *_key(row)),
            )

    def filing_failed(self, item: Item | Filing, *, error: str, unknown: bool) -> None:
        """Note why an item is not filed; unknown, it stays intended, else it is wanted again."""
        with self._writing(durable=True) as db:
            if unknown:
                # The time of the latest attempt stays.
                db.execute(
                    f"UPDATE filing SET error = ? WHERE {_THIS_ITEM} AND state = 'intended'",  # noqa: S608
                    (error, *_key(item)),
                )
                return
            db.execute(
                "INSERT INTO filing (workflow, item, input_hash, state, error, updated_at)"
                " VALUES (?, ?, ?, 'wanted', ?, ?) ON CONFLICT DO UPDATE"
                " SET state = 'wanted', error = excluded.error, updated_at = excluded.updated_at"
                " WHERE state != 'filed'",
                (*_key(item), error, timestamp()),
            )


_WISH = (
    "INSERT INTO filing (workflow, item, input_hash, state, updated_at) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET state = excluded.state, updated_at = excluded.updated_at"
    " WHERE state IN ('wanted', 'kept')"
)
_THIS_ITEM = "workflow = ? AND item = ? AND input_hash = ?"


def _key(item: Item | Filing) -> tuple[str, str, str]:
    return item.workflow, item.item if isinstance(item, Filing) else item.id, item.input_hash


def _filing(row: dict[str, Any]) -> Filing:
    return Filing(**row | {"state": FilingState(row["state"])})


def _last_life(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The calls of an item's latest start, in order; with those that were paid for and failed (number 0)."""
    lives = [row["life"] for row in calls if row["number"]]
    runs = {row["run_id"] for row in calls if lives and row["life"] == lives[-1]}
    return [row for row in calls if row["run_id"] in runs and (row["life"] == lives[-1] or not row["number"])]


def _taken(calls: list[dict[str, Any]], role: str) -> Taken:
    mine = [row for row in calls if row["role"] == role]
    return Taken(
        calls=len(mine),
        tokens_in=sum(row["tokens_in"] for row in mine),
        tokens_out=sum(row["tokens_out"] for row in mine),
    )


def _insert(db: sqlite3.Connection, table: str, row: dict[str, Any], conflict: str = "OR REPLACE") -> None:
    names = ", ".join(row)
    places = ", ".join(f":{name}" for name in row)
    db.execute(f"INSERT {conflict} INTO {table} ({names}) VALUES ({places})", row)  # noqa: S608


def _names(row: type[Any]) -> str:
    return ", ".join(field.name for field in fields(row))


def _migrate(db: sqlite3.Connection, home: Path) -> bool:
    """Bring the tables up to date; tell whether the mock's rows were told from others just now."""
    told_apart = False
    version = _check_schema(db)
    for number, name in enumerate(_MIGRATIONS[version:], start=version + 1):
        _run_script(db, name)
        if name == "006-mock.sql":
            _mark_the_mocks(db, home)
            told_apart = True
        db.execute(f"PRAGMA user_version={number}")
    return told_apart


def _run_script(db: sqlite3.Connection, name: str) -> None:
    script = resources("agentos.store").joinpath("sql", name).read_text("utf-8")
    for statement in script.split(";\n"):
        if statement.strip():
            db.execute(statement)


def _check_schema(db: sqlite3.Connection) -> int:
    """Compare the tables with those that this version of them has; give the version.

    A trigger in somebody else's file would run with every row that is written.
    """
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if not 0 <= version <= len(_MIGRATIONS):
        raise sqlite3.DatabaseError("they are of a newer version of agentos; update it")
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as ours:
        for name in _MIGRATIONS[:version]:
            _run_script(ours, name)
        expected, found = _schema(ours), _schema(db)
    if odd := sorted(found.keys() ^ expected.keys()) or sorted(
        name for name in found if found[name] != expected[name]
    ):
        raise sqlite3.DatabaseError(f"{odd[0][0]} {odd[0][1]!r} in them is not as agentos makes it")
    return int(version)


def _schema(db: sqlite3.Connection) -> dict[tuple[str, str], list[Any]]:
    """Everything that a database holds beside rows, by kind and name, with the columns of tables."""
    kinds = db.execute("SELECT type, name FROM sqlite_schema").fetchall()
    columns = 'SELECT name, type, "notnull", dflt_value, pk, hidden FROM pragma_table_xinfo(?)'
    return {(kind, name): db.execute(columns, (name,)).fetchall() for kind, name in kinds}


def _mark_the_mocks(db: sqlite3.Connection, home: Path) -> None:
    """Earlier versions did not tell the mock's rows from others; their runs do."""
    from agentos.store.runfolder import was_mock  # noqa: PLC0415 - it reads the rows defined here

    runs = {
        row[0]
        for table in ("outcome", "progress", "call")
        for row in db.execute(f"SELECT run_id FROM {table}")  # noqa: S608
    }
    for run in runs:
        if was_mock(home / "logs" / "parallel" / run):
            for table in ("outcome", "progress", "call"):
                db.execute(f"UPDATE {table} SET mock = 1 WHERE run_id = ?", (run,))  # noqa: S608
    db.execute(
        "WITH known AS (SELECT workflow, item, input_hash, mock FROM progress"
        " UNION SELECT workflow, item, input_hash, mock FROM outcome)"
        " UPDATE decision SET mock = 1 WHERE (workflow, item, input_hash, 1) IN (SELECT * FROM known)"
        " AND (workflow, item, input_hash, 0) NOT IN (SELECT * FROM known)"
    )


def _open_for_reading(path: Path) -> sqlite3.Connection:
    """Open the records without writing; those of an older version are read through a copy in memory."""
    memory = sqlite3.connect(":memory:", isolation_level=None)
    tree = Home(path=path.parent).tree
    if tree.exists(path):
        tree.check_database(path)
        # A read-only connection to a database nobody has open would leave a log file behind.
        how = "mode=ro" if tree.exists(path.with_name(path.name + "-wal")) else "immutable=1"
        uri = f"file:{quote(str(path))}?{how}"
        db = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
        db.execute("PRAGMA trusted_schema=OFF")
        if _check_schema(db) == len(_MIGRATIONS):
            memory.close()
            return db
        db.backup(memory)
        db.close()
    _migrate(memory, path.parent)
    return memory
