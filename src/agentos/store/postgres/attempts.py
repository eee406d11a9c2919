"""Attempts that run on other machines, and the messages between a submitter and its machines.

An attempt is made by its submitter, taken once by one machine, and over for good when the submitter says so.
From then on nothing that its machine or its worker writes is accepted: every such write checks, in its own
transaction, that the attempt is still theirs.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentos import __version__
from agentos.errors import StorageError
from agentos.store.postgres.connection import Cursor, PostgresDatabase

BEAT_SECONDS = 2.0
DEAD_SECONDS = 10.0  # without a beat, by the database's clock: the machine is gone
LEFT_SECONDS = 30.0  # the same for a submitter; its items wait for it this long
FORGOTTEN_SECONDS = 7 * 86_400.0  # after which attempts and machines are removed

LARGEST_FILE = 2_000_000  # bytes of a file that a worker writes
FILES_MOST, FILE_BYTES_MOST = 1_000, 32_000_000  # of one item
LETTERS_MOST = 1_000  # read at once
LETTER_BYTES_MOST = 16_000_000  # read at once, and the letter that goes beyond
LONGEST_LETTER = 16_000_000  # bytes; a longer one is read as an empty one, which is invalid

# In the transaction of a write: nobody ends the attempt before it is committed.
FENCE = "SELECT 1 FROM agentos_attempts WHERE id = %(attempt)s AND state = 'taken' FOR SHARE"
_DELETE_FILE = "DELETE FROM agentos_files"


@dataclass(frozen=True, kw_only=True)
class Letter:
    """A message from or to the worker of an attempt."""

    attempt: int  # the id of the attempt's row
    number: int  # grows with every message of its sender
    kind: str
    body: bytes


@dataclass(frozen=True, kw_only=True)
class FilesOf:
    """Whose files are meant, and the run that wants them."""

    project: str
    workflow: str
    item: str
    run_id: str


@dataclass(frozen=True, kw_only=True)
class WrittenFile:
    """A file that a worker wrote; without a body, it removed it."""

    path: str
    body: bytes | None
    placed: bool = False  # by a submitter, perhaps in another clone


@dataclass(frozen=True, kw_only=True)
class LiveMachine:
    """A machine that beats."""

    version: str  # of agentos
    providers: frozenset[str]  # that it has a usable key for


@dataclass(frozen=True, kw_only=True)
class TakenAttempt:
    """An attempt that a machine has taken."""

    id: int
    project: str
    run_id: str
    job: bytes


def channel(receiver: str) -> str:
    """The name of the channel that a run or a machine listens to."""
    return f"agentos_{hashlib.sha256(receiver.encode()).hexdigest()[:40]}"


class Attempts:
    """One connection's view of the tables."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    # The submitter.

    def make(self, *, project: str, run_id: str, item: str, attempt: int, job: bytes) -> int:
        """Enter a new attempt; every earlier one of the item is over."""
        values = {"project": project, "run_id": run_id, "item": item, "attempt": attempt, "job": job}
        with self._database.transaction() as cursor:
            cursor.execute(
                "UPDATE agentos_attempts SET state = 'over', job = ''"
                " WHERE project = %(project)s AND item = %(item)s AND state <> 'over'",
                values,
            )
            cursor.execute(
                "INSERT INTO agentos_attempts (project, run_id, item, attempt, job)"
                " VALUES (%(project)s, %(run_id)s, %(item)s, %(attempt)s, %(job)s) RETURNING id",
                values,
            )
            return int(_one(cursor)["id"])

    def post(self, letters: Iterable[Letter]) -> None:
        """Send messages to the machines that have the attempts; dropped where nobody has."""
        with self._database.transaction() as cursor:
            for letter in letters:
                cursor.execute(
                    "INSERT INTO agentos_mail (attempt, receiver, number, kind, body)"
                    " SELECT id, machine, %(number)s, %(kind)s, %(body)s FROM agentos_attempts"
                    " WHERE id = %(attempt)s AND state = 'taken' RETURNING receiver",
                    vars(letter),
                )
                if (row := cursor.fetchone()) is not None:
                    _notify(cursor, row["receiver"])

    def over(self, attempt: int) -> str | None:
        """End an attempt for good; return the machine that had it."""
        with self._database.transaction() as cursor:
            cursor.execute(
                "UPDATE agentos_attempts SET state = 'over', job = '' WHERE id = %s RETURNING machine",
                (attempt,),
            )
            machine = None if (row := cursor.fetchone()) is None else row["machine"]
            cursor.execute("DELETE FROM agentos_mail WHERE attempt = %s", (attempt,))
            if machine is not None:
                _notify(cursor, machine)
        return machine

    def lost(self, attempts: Collection[int]) -> dict[int, str]:
        """End those of the attempts whose machine is gone; return all that are over, with their machine.

        One may be over without the submitter's knowing it: the answer to an earlier call was lost.
        """
        values = {"ids": list(attempts), "seconds": DEAD_SECONDS}
        with self._database.transaction() as cursor:
            # A write of the machine that is under way is not waited for: the next call ends the attempt.
            cursor.execute(
                "UPDATE agentos_attempts SET state = 'over', job = '' WHERE id IN ("
                " SELECT a.id FROM agentos_attempts AS a"
                " WHERE a.id = ANY(%(ids)s) AND a.state = 'taken' AND NOT EXISTS ("
                "  SELECT 1 FROM agentos_machines AS m WHERE m.name = a.machine"
                "  AND m.beat > now() - make_interval(secs => %(seconds)s))"
                " ORDER BY a.id FOR UPDATE OF a SKIP LOCKED)",
                values,
            )
            cursor.execute(
                "SELECT id, machine FROM agentos_attempts WHERE id = ANY(%(ids)s) AND state = 'over'", values
            )
            return {row["id"]: row["machine"] or "" for row in cursor.fetchall()}

    def machines(self) -> list[LiveMachine]:
        """Return the machines that are alive."""
        with self._database.transaction() as cursor:
            cursor.execute(
                "SELECT version, providers FROM agentos_machines"
                " WHERE beat > now() - make_interval(secs => %s)",
                (DEAD_SECONDS,),
            )
            return [
                LiveMachine(
                    version=row["version"],
                    providers=frozenset(one for one in row["providers"] if isinstance(one, str)),
                )
                for row in cursor.fetchall()
            ]

    def files(self, of: "FilesOf", *, placed: bool) -> list[WrittenFile] | None:
        """What the workers of an item wrote, and what is in place if wanted; None if another run has it."""
        with self._database.transaction() as cursor:
            if not _holds(cursor, of):
                return None
            cursor.execute(
                "SELECT count(*) AS files, coalesce(sum(octet_length(body)), 0) AS bytes FROM agentos_files"
                " WHERE project = %(project)s AND workflow = %(workflow)s AND item = %(item)s",
                vars(of),
            )
            found = _one(cursor)
            if found["files"] > FILES_MOST or found["bytes"] > FILE_BYTES_MOST:
                raise StorageError(f"its worker wrote {found['files']:,} files, {found['bytes']:,} bytes")
            cursor.execute(
                "SELECT path, body, placed FROM agentos_files"
                " WHERE project = %(project)s AND workflow = %(workflow)s AND item = %(item)s"
                " AND (%(placed)s OR NOT placed) AND coalesce(octet_length(body), 0) <= %(largest)s"
                " ORDER BY path",
                {**vars(of), "placed": placed, "largest": LARGEST_FILE},
            )
            return [
                WrittenFile(
                    path=row["path"],
                    body=None if row["body"] is None else bytes(row["body"]),
                    placed=row["placed"],
                )
                for row in cursor.fetchall()
            ]

    def files_placed(self, of: "FilesOf", files: Iterable[WrittenFile], *, keep: Collection[str]) -> None:
        """Remove files that are in place, or keep them, unless a worker has written them again."""
        with self._database.transaction() as cursor:
            if not _holds(cursor, of):
                return
            for file in files:
                done = "UPDATE agentos_files SET placed = true" if file.path in keep else _DELETE_FILE
                cursor.execute(
                    f"{done} WHERE project = %(project)s AND workflow = %(workflow)s AND item = %(item)s"
                    " AND path = %(path)s AND body IS NOT DISTINCT FROM %(body)s",
                    {**vars(of), "path": file.path, "body": file.body},
                )

    # Both.

    def receive(self, receiver: str, *, read: Collection[int]) -> dict[int, Letter]:
        """Return the messages to a run or a machine, by their rows; remove those that were read before."""
        with self._database.transaction() as cursor:
            if read:
                cursor.execute("DELETE FROM agentos_mail WHERE id = ANY(%s)", (list(read),))
            cursor.execute(
                "SELECT id, attempt, number, kind,"
                " CASE WHEN octet_length(body) <= %(longest)s THEN body ELSE '' END AS body FROM ("
                "  SELECT *, sum(octet_length(body)) OVER (ORDER BY number, id) AS total FROM ("
                "   SELECT * FROM agentos_mail WHERE receiver = %(receiver)s"
                "   ORDER BY number, id LIMIT %(most)s) AS first) AS counted"
                " WHERE total - octet_length(body) < %(bytes)s ORDER BY number, id",
                {
                    "receiver": receiver,
                    "longest": LONGEST_LETTER,
                    "most": LETTERS_MOST,
                    "bytes": LETTER_BYTES_MOST,
                },
            )
            rows = cursor.fetchall()
        return {
            row["id"]: Letter(
                attempt=row["attempt"], number=row["number"], kind=row["kind"], body=bytes(row["body"])
            )
            for row in rows
        }

    # The machine.

    def enter(self, machine: str, *, slots: int, providers: Iterable[str]) -> None:
        """Make a machine known."""
        with self._database.transaction() as cursor:
            cursor.execute(
                "INSERT INTO agentos_machines (name, slots, version, providers) VALUES (%s, %s, %s, %s)"
                " ON CONFLICT (name) DO UPDATE SET beat = now(), providers = excluded.providers",
                (machine, slots, __version__, sorted(providers)),
            )

    def forget_old(self) -> None:
        """Remove attempts and machines of long ago."""
        values = {"seconds": FORGOTTEN_SECONDS}
        with self._database.transaction() as cursor:
            cursor.execute(
                "DELETE FROM agentos_attempts AS a WHERE made_at < now() - make_interval(secs => %(seconds)s)"
                " AND (state = 'over' OR NOT EXISTS ("
                "  SELECT 1 FROM agentos_runs AS r WHERE r.project = a.project AND r.run_id = a.run_id"
                "  AND r.beaten_at > now() - make_interval(secs => %(seconds)s)))",
                values,
            )
            cursor.execute(
                "DELETE FROM agentos_machines WHERE beat < now() - make_interval(secs => %(seconds)s)", values
            )

    def leave(self, machine: str) -> None:
        with self._database.transaction() as cursor:
            cursor.execute("DELETE FROM agentos_machines WHERE name = %s", (machine,))

    def beat(self, machine: str, *, providers: Iterable[str]) -> bool:
        """Say that the machine is alive; False if it was taken for dead and must enter again."""
        with self._database.transaction() as cursor:
            cursor.execute(
                "UPDATE agentos_machines SET beat = now(), providers = %s WHERE name = %s",
                (sorted(providers), machine),
            )
            return cursor.rowcount == 1

    def take(self, attempt: int, machine: str) -> TakenAttempt | None:
        """Take an attempt for a machine, once; None if it is taken, over or gone."""
        with self._database.transaction() as cursor:
            cursor.execute(
                "UPDATE agentos_attempts SET state = 'taken', machine = %(machine)s WHERE id = %(id)s"
                " AND (state = 'queued' OR state = 'taken' AND machine = %(machine)s)"  # or already did
                " RETURNING id, project, run_id, job",
                {"machine": machine, "id": attempt},
            )
            row = cursor.fetchone()
        if row is None:
            return None
        return TakenAttempt(id=row["id"], project=row["project"], run_id=row["run_id"], job=bytes(row["job"]))

    def report(self, letters: Sequence[Letter], *, receivers: Mapping[int, str]) -> frozenset[int]:
        """Send messages to the submitters; return the attempts that are over, whose messages were dropped."""
        stale: set[int] = set()
        with self._database.transaction() as cursor:
            for attempt in sorted({letter.attempt for letter in letters}):
                cursor.execute(FENCE, {"attempt": attempt})
                if cursor.fetchone() is None:
                    stale.add(attempt)
            rows = [
                (letter.attempt, receivers[letter.attempt], letter.number, letter.kind, letter.body)
                for letter in letters
                if letter.attempt not in stale
            ]
            if rows:
                cursor.executemany(
                    "INSERT INTO agentos_mail (attempt, receiver, number, kind, body)"
                    " VALUES (%s, %s, %s, %s, %s)",
                    rows,
                )
                for receiver in sorted({row[1] for row in rows}):
                    _notify(cursor, receiver)
        return frozenset(stale)

    def current(self, attempts: Collection[int], machine: str) -> frozenset[int]:
        """Those of the attempts that are still this machine's, and whose submitter is alive."""
        with self._database.transaction() as cursor:
            cursor.execute(
                "SELECT a.id FROM agentos_attempts AS a JOIN agentos_runs AS r USING (project, run_id)"
                " WHERE a.id = ANY(%s) AND a.state = 'taken' AND a.machine = %s"
                " AND r.beaten_at > now() - make_interval(secs => %s)",
                (list(attempts), machine, LEFT_SECONDS),
            )
            return frozenset(row["id"] for row in cursor.fetchall())

    def waits(self, attempt: int) -> bool:
        """Say whether no machine has taken the attempt yet."""
        with self._database.transaction() as cursor:
            cursor.execute("SELECT 1 FROM agentos_attempts WHERE id = %s AND state = 'queued'", (attempt,))
            return cursor.fetchone() is not None


class Mailbox:
    """Reads the messages to one receiver: each once and in order, also if connections are lost."""

    def __init__(self, attempts: Attempts, receiver: str) -> None:
        self._attempts = attempts
        self._receiver = receiver
        self._read: frozenset[int] = frozenset()  # rows to remove
        self._latest: dict[int, int] = {}  # by attempt, the number of its last message

    def letters(self) -> list[Letter]:
        """Return the new messages."""
        found = self._attempts.receive(self._receiver, read=self._read)
        self._read = frozenset(found)
        new: list[Letter] = []
        for letter in found.values():
            if letter.number > self._latest.get(letter.attempt, 0):
                self._latest[letter.attempt] = letter.number
                new.append(letter)
        return new


def _holds(cursor: Cursor, of: FilesOf) -> bool:
    """Whether the run has the item, until the transaction ends."""
    cursor.execute(
        "SELECT 1 FROM agentos_claims WHERE project = %(project)s AND workflow = %(workflow)s"
        " AND item = %(item)s AND run_id = %(run_id)s FOR SHARE",
        vars(of),
    )
    return cursor.fetchone() is not None


def _notify(cursor: Cursor, receiver: str) -> None:
    cursor.execute("SELECT pg_notify(%s, '')", (channel(receiver),))


def _one(cursor: Cursor) -> dict[str, Any]:
    row = cursor.fetchone()
    assert row is not None
    return row
