"""The folder of one run: logs, events, audit trails, summary. Written by the coordinator, read by anyone.

Every line goes out in one write to a descriptor in append mode, so that none is ever torn.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentos.errors import StorageError
from agentos.store.files import PRIVATE_FILE, open_private, private_folder, write_all, write_atomic
from agentos.store.home import Home
from agentos.store.records import Outcome, timestamp

LOCK = ".lock"
_MOST_AT_ONCE = 1000


class RunFolder:
    """Open files of the run that is going on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run_id = path.name
        self._lock = open_private(path / LOCK, os.O_RDWR)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._files: dict[str, int] = {}

    def event(self, name: str, **fields: Any) -> None:
        self._append("events.jsonl", _json_line({"time": timestamp(), "event": name, **fields}))

    def audit(self, item_id: str, record: dict[str, Any]) -> None:
        self._append(f"workflow-audit-{item_id}.jsonl", _json_line({"time": timestamp(), **record}))

    def span(self, line: bytes) -> None:
        self._append("trace.jsonl", line)

    def coordinator_line(self, line: str) -> None:
        whole = " ".join(line.splitlines())
        self._append("coordinator.log", f"{timestamp()} {whole}\n".encode("utf-8", errors="backslashreplace"))

    def item_lines(self, label: str, lines: Iterable[str], stream: str) -> None:
        head = f"{timestamp()} {stream} "
        self._append(f"{label}.log", "".join(f"{head}{line}\n" for line in lines).encode("utf-8"))

    def done_with(self, item_id: str, label: str) -> None:
        """Close the item's files: a run of a thousand items must not keep them all open."""
        for name in (f"{label}.log", f"workflow-audit-{item_id}.jsonl"):
            if (descriptor := self._files.pop(name, None)) is not None:
                os.close(descriptor)

    def write(self, name: str, text: str) -> None:
        write_atomic(self.path / name, text, mode=PRIVATE_FILE)

    def discard(self) -> None:
        """Take back a folder that nothing was written to."""
        (self.path / LOCK).unlink(missing_ok=True)
        self.path.rmdir()

    def close(self) -> None:
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()
        os.close(self._lock)

    def _append(self, name: str, data: bytes) -> None:
        descriptor = self._files.get(name)
        if descriptor is None:
            descriptor = self._files[name] = open_private(self.path / name, os.O_WRONLY | os.O_APPEND)
        try:
            write_all(descriptor, data)
        except OSError as exc:
            raise StorageError(f"Cannot write {self.path / name}: {exc.strerror or exc}.") from exc


def create_run(home: Home) -> RunFolder:
    """Make a folder named after this moment; two runs at once get different ones."""
    for left in home.runs.glob("*/.*.tmp"):
        # Of a run that was killed while it wrote its summary; nobody else writes to its folder again.
        if not is_live(left.parent):
            left.unlink(missing_ok=True)
    # Down to milliseconds, so that the names of runs sort by time.
    moment = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S.%f")[:-3] + "Z"
    for number in range(1, _MOST_AT_ONCE):
        path = home.runs / (moment if number == 1 else f"{moment}-{number}")
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            continue
        except OSError as exc:
            raise StorageError(f"Cannot create the folder {path}: {exc.strerror or exc}.") from exc
        return RunFolder(private_folder(path))
    raise StorageError(f"Cannot find a free name for a run in {home.runs}.")


def is_live(path: Path) -> bool:
    """Tell whether the run's coordinator is alive: only then is its lock held."""
    try:
        descriptor = os.open(path / LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
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
    """Read the records of a file of ours; a line cut off by a crash, or by a full disk, is passed over."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError:
        return
    for line in lines:
        with contextlib.suppress(ValueError, RecursionError):
            record = json.loads(line)
            if isinstance(record, dict):
                yield record


def read_audits(runs: Path, item_id: str) -> Iterator[dict[str, Any]]:
    """Read the audit trails of an item in all runs."""
    for run in runs.iterdir():
        yield from read_lines(run / f"workflow-audit-{item_id}.jsonl")


def open_findings(record: Mapping[str, Any]) -> tuple[dict[str, Any], ...] | None:
    """What an audit record says is open; None if it is not a review that could be read."""
    if record.get("kind") != "verdict" or record.get("verdict") == "UNREADABLE":
        return None
    return tuple(one for one in record.get("findings") or () if isinstance(one, dict))


def last_findings(runs: Path, workflow: str, item_id: str) -> tuple[dict[str, Any], ...]:
    """What the latest review of an item left open, whichever run it was in."""
    for run in sorted(runs.iterdir(), reverse=True):
        records = read_lines(run / f"workflow-audit-{item_id}.jsonl")
        # A record from before the workflow was noted may be of any.
        mine = (one for one in records if one.get("workflow", workflow) == workflow)
        found = [findings for one in mine if (findings := open_findings(one)) is not None]
        if found:
            return found[-1]
    return ()


def was_mock(run: Path) -> bool:
    """Tell whether a run, also one under way or killed, used the mock for a role."""
    try:
        summary = json.loads((run / "summary.json").read_text("utf-8"))
        if isinstance(summary.get("mock"), bool):
            return bool(summary["mock"])
        return any(key["provider"] == "mock" and key["calls"] for key in summary["keys"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass  # killed, or of another version: its events name the provider of every call
    for event in read_lines(run / "events.jsonl"):
        if event.get("event") == "run_started" and "mock" in event:
            return bool(event["mock"])
        if event.get("event") == "leased" and event.get("provider") == "mock":
            return True
    return False


def only_skipped(run: Path) -> bool:
    """Tell whether a run that is over found nothing to do."""
    try:
        items = json.loads((run / "summary.json").read_bytes())["items"]
        return all(item["status"] == "skipped" for item in items)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def repair_events(runs: Path, outcome: Outcome) -> None:
    """Add the event of an outcome to a run that died between recording and telling it."""
    run = runs / outcome.run_id
    if not (run / "events.jsonl").is_file() or (run / "summary.json").exists() or is_live(run):
        return
    told = (event for event in read_lines(run / "events.jsonl") if event.get("event") == "completed")
    if any(event.get("item") == outcome.item for event in told):
        return
    record = {
        "time": outcome.finished_at,
        "event": "completed",
        "item": outcome.item,
        "status": "approved",
        "verdict": outcome.verdict,
        "reviews": outcome.reviews,
        "repaired": True,
    }
    cut_off = not (run / "events.jsonl").read_bytes().endswith(b"\n")
    descriptor = open_private(run / "events.jsonl", os.O_WRONLY | os.O_APPEND)
    try:
        write_all(descriptor, b"\n" * cut_off + _json_line(record))
    finally:
        os.close(descriptor)


def _json_line(record: dict[str, Any]) -> bytes:
    return (json.dumps(record, ensure_ascii=False) + "\n").encode("utf-8", errors="backslashreplace")
