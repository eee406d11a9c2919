"""The folder of one run: logs, events, audit trails, summary. Written by the coordinator, read by anyone.

Every line is one write to a descriptor in append mode, so that no line is ever torn.
"""

import contextlib
import fcntl
import json
import os
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentos.errors import StorageError
from agentos.redact import redact, redact_bytes
from agentos.store.home import Home
from agentos.store.records import Outcome, timestamp
from agentos.store.rooted_tree import PRIVATE_FILE, PRIVATE_FOLDER, Tree, write_all

if TYPE_CHECKING:
    from agentos.events.state import RunState

LOCK = ".lock"
MAX_LINES_BYTES = 500_000_000  # of a file of records
MAX_SUMMARY_BYTES = 50_000_000
_FIRST_LINE_BYTES = 1_000_000
_LOCK_BYTES = 1000
_MOST_AT_ONCE = 1000
_LOG_NAME = re.compile(r"[A-Z]+-[A-Za-z0-9_-]{1,64}\.log")
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class RunFolder:
    """The open files of the current run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run_id = path.name
        self._tree = run_tree(path)
        self._lock = self._open(LOCK, os.O_RDWR)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        write_all(self._lock, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode())
        self._files: dict[str, int] = {}

    def event(self, record: Mapping[str, Any]) -> None:
        self._append("events.jsonl", _json_line(record))

    def audit(self, item_id: str, record: dict[str, Any]) -> None:
        self._append(f"workflow-audit-{item_id}.jsonl", _json_line({"time": timestamp(), **record}))

    def prompt(self, item_id: str, record: dict[str, Any]) -> int:
        """Keep prompt and answer of a call; return how many bytes they take."""
        line = _json_line({"time": timestamp(), **record})
        self._append(prompts_file(item_id), line)
        return len(line)

    def span(self, line: bytes) -> None:
        self._append("trace.jsonl", line)

    def coordinator_line(self, line: str) -> None:
        whole = " ".join(line.splitlines())
        self._append("coordinator.log", f"{timestamp()} {whole}\n".encode("utf-8", errors="backslashreplace"))

    def item_lines(self, label: str, lines: Iterable[str], stream: str) -> None:
        head = f"{timestamp()} {stream} "
        self._append(f"{label}.log", "".join(f"{head}{line}\n" for line in lines).encode("utf-8"))

    def done_with(self, item_id: str, label: str) -> None:
        """Close the item's files: a run of a thousand items must not keep all files open."""
        for name in (f"{label}.log", f"workflow-audit-{item_id}.jsonl", prompts_file(item_id)):
            if (descriptor := self._files.pop(name, None)) is not None:
                os.close(descriptor)

    def write(self, name: str, text: str) -> None:
        self._tree.write(self.path / name, redact(text), mode=PRIVATE_FILE)

    def discard(self) -> None:
        """Remove a run folder that nothing was written to."""
        self._tree.remove(self.path / LOCK)
        self._tree.remove_folder(self.path)

    def close(self) -> None:
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()
        os.close(self._lock)

    def _append(self, name: str, data: bytes) -> None:
        descriptor = self._files.get(name)
        if descriptor is None:
            descriptor = self._files[name] = self._open(name, os.O_WRONLY | os.O_APPEND)
        try:
            write_all(descriptor, redact_bytes(data))
        except OSError as exc:
            raise StorageError(f"Cannot write {self.path / name}: {exc.strerror or exc}.") from exc

    def _open(self, name: str, flags: int) -> int:
        try:
            return self._tree.open(self.path / name, flags | os.O_CREAT)
        except OSError as exc:
            raise StorageError(f"Cannot open {self.path / name}: {exc.strerror or exc}.") from exc


def prompts_file(item_id: str) -> str:
    """The file of a run that has the prompts and answers of one item."""
    return f"prompts-{item_id}.jsonl"


def run_tree(run: Path) -> Tree:
    """Return the tree of the home that a run is in; the run is at `logs/parallel/<run>`."""
    return Tree(run.parents[2])


def list_runs(home: Home) -> list[Path]:
    """List the folders of all runs, oldest first."""
    try:
        entries = home.tree.entries(home.runs)
    except OSError:
        return []
    names = [one.name for one in entries if one.is_folder and _RUN_NAME.fullmatch(one.name)]
    return [home.runs / name for name in sorted(names, key=run_order)]


def engine_of_latest(home: Home) -> str | None:
    """What ran the items of the latest run, if not the engine of this machine."""
    runs = list_runs(home)
    engine = read_first_event(runs[-1]).get("engine") if runs else None
    return engine if isinstance(engine, str) else None


def read_first_event(run: Path) -> dict[str, Any]:
    """Return how a run was started, as its events say; empty if they do not."""
    with contextlib.suppress(OSError), os.fdopen(run_tree(run).open(run / "events.jsonl"), "rb") as file:
        return next(records_in(file.readline(_FIRST_LINE_BYTES)), {})
    return {}


def live_runs(home: Home) -> list[Path]:
    """List the runs that are active now."""
    return [run for run in list_runs(home) if is_live(run)]


def runs_before(run: Path) -> list[Path]:
    """List the earlier runs of the same home, oldest first."""
    runs = list_runs(Home(path=run.parents[2]))
    return [other for other in runs if run_order(other.name) < run_order(run.name)]


def run_logs(run: Path) -> list[Path]:
    """List the logs of a run's items."""
    try:
        entries = run_tree(run).entries(run)
    except OSError:
        return []
    return [run / one.name for one in entries if one.is_file and _LOG_NAME.fullmatch(one.name)]


def run_order(name: str) -> tuple[str, int]:
    """Return a sort key; runs from the same moment are numbered: `...Z`, `...Z-2`, `...Z-10`."""
    moment, _, number = name.partition("Z")
    digits = number.lstrip("-")
    return moment, int(digits) if digits.isdecimal() else 0


def create_run(home: Home) -> RunFolder:
    """Create a folder named after this moment; two runs at the same time get different ones."""
    for run in list_runs(home):
        # Left by a run that was killed while it wrote its summary; nobody writes to its folder again.
        left = [name for name in home.tree.names(run) if name.startswith(".") and name.endswith(".tmp")]
        for name in left if left and not is_live(run) else ():
            home.tree.remove(run / name)
    # With milliseconds, so that the names of runs sort by time.
    moment = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S.%f")[:-3] + "Z"
    for number in range(1, _MOST_AT_ONCE):
        path = home.runs / (moment if number == 1 else f"{moment}-{number}")
        if home.tree.exists(path):
            continue
        try:
            home.tree.new_folder(path, PRIVATE_FOLDER)
        except FileExistsError:
            continue
        except OSError as exc:
            raise StorageError(f"Cannot create the folder {path}: {exc.strerror or exc}.") from exc
        return RunFolder(path)
    raise StorageError(f"Cannot find a free name for a run in {home.runs}.")


def is_live(path: Path) -> bool:
    """Say whether the run's coordinator is alive: only then is its lock held."""
    return is_locked(run_tree(path), path / LOCK)


@dataclass(frozen=True, kw_only=True)
class Holder:
    """The process that wrote its name into a run's lock when it took it."""

    pid: int
    host: str


def holder_of(path: Path) -> Holder | None:
    """Return the coordinator of a live run; None if the run is over or its lock does not say."""
    if not is_live(path):
        return None
    try:
        kept = json.loads(run_tree(path).read(path / LOCK, _LOCK_BYTES))
        pid, host = kept["pid"], kept["host"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return Holder(pid=pid, host=host) if type(pid) is int and pid > 1 and isinstance(host, str) else None


def hold_lock(tree: Tree, path: Path) -> int:
    """Lock a file until this process ends or closes the descriptor."""
    descriptor = tree.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def is_locked(tree: Tree, path: Path) -> bool:
    """Say whether a living process holds the lock of a file."""
    try:
        descriptor = tree.open(path)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Read the records of one of our files; a line cut off by a crash or a full disk is skipped."""
    try:
        yield from records_in(run_tree(path.parent).read(path, MAX_LINES_BYTES))
    except OSError:
        return


def records_in(data: bytes) -> Iterator[dict[str, Any]]:
    for line in data.split(b"\n"):
        with contextlib.suppress(ValueError, RecursionError):
            record = json.loads(line)
            if isinstance(record, dict):
                yield record


def read_events(run: Path) -> "RunState":
    """Return the state of a run, from all of its events."""
    from agentos.events.fold import fold  # noqa: PLC0415 - not needed for a dry run

    return fold(read_lines(run / "events.jsonl"))


def read_audits(home: Home, item_id: str) -> Iterator[dict[str, Any]]:
    """Read the audit trails of an item in all runs."""
    for run in list_runs(home):
        yield from read_lines(run / f"workflow-audit-{item_id}.jsonl")


def open_findings(record: Mapping[str, Any]) -> tuple[dict[str, Any], ...] | None:
    """Return the open findings of an audit record; None if it is not a readable review."""
    if record.get("kind") != "verdict" or record.get("verdict") == "UNREADABLE":
        return None
    found = [one for one in record.get("findings") or () if isinstance(one, dict)]
    if not isinstance(record.get("ledger"), list):  # from an earlier version
        return tuple(found)
    ledger = [one for one in record["ledger"] if isinstance(one, dict) and one.get("state") == "open"]
    return (*ledger, *(one for one in found if one.get("tier") == 3))


def last_review(home: Home, workflow: str, item_id: str) -> Mapping[str, Any]:
    """Return the record of the latest readable review of an item, in any run; empty if there is none."""
    for run in reversed(list_runs(home)):
        records = read_lines(run / f"workflow-audit-{item_id}.jsonl")
        # A record without a workflow is from an earlier version and may belong to any.
        mine = (one for one in records if one.get("workflow", workflow) == workflow)
        found = [one for one in mine if open_findings(one) is not None]
        if found:
            return found[-1]
    return {}


def was_mock(run: Path) -> bool:
    """Say whether a run, also an active or killed one, used the mock for a role."""
    summary = read_summary(run)
    if isinstance(summary.get("mock"), bool):
        return bool(summary["mock"])
    with contextlib.suppress(KeyError, TypeError, AttributeError):
        return any(key["provider"] == "mock" and key["calls"] for key in summary["keys"])
    return read_events(run).mock  # killed, or from another version


def only_skipped(run: Path) -> bool:
    """Say whether a finished run found nothing to do."""
    try:
        return all(item["status"] == "skipped" for item in read_summary(run)["items"])
    except (KeyError, TypeError):
        return False


def read_summary(run: Path) -> dict[str, Any]:
    """Read a run's summary; empty if it has none, or an invalid one."""
    try:
        found = json.loads(run_tree(run).read(run / "summary.json", MAX_SUMMARY_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def has_summary(run: Path) -> bool:
    return run_tree(run).exists(run / "summary.json")


def repair_events(runs: Path, outcome: Outcome) -> None:
    """Add the event of an outcome to a run that died between recording it and writing the event."""
    run, events = runs / outcome.run_id, runs / outcome.run_id / "events.jsonl"
    tree = run_tree(run)
    if not tree.is_file(events) or has_summary(run) or is_live(run):
        return
    from agentos.events.catalogue import Completed  # noqa: PLC0415 - not needed for a dry run
    from agentos.events.record import as_record  # noqa: PLC0415

    completed = (event for event in read_lines(events) if event.get("event") == Completed.name)
    if any(event.get("item") == outcome.item for event in completed):
        return
    event = Completed(
        item=outcome.item,
        verdict=outcome.verdict,
        reviews=outcome.reviews,
        output=outcome.output,
        repaired=True,
    )
    cut_off = not tree.read(events, MAX_LINES_BYTES).endswith(b"\n")
    descriptor = tree.open(events, os.O_WRONLY | os.O_APPEND)
    try:
        record = {"time": outcome.finished_at, **as_record(event)}
        write_all(descriptor, b"\n" * cut_off + _json_line(record))
    finally:
        os.close(descriptor)


def _json_line(record: Mapping[str, Any]) -> bytes:
    return (json.dumps(record, ensure_ascii=False) + "\n").encode("utf-8", errors="backslashreplace")
