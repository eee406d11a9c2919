"""The file `keys.json`: the health of keys, shared by the runs of one home. Never contains a key."""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agentos.store.home import home_of
from agentos.store.rooted_tree import PRIVATE_FILE

_MAX_BYTES = 5_000_000


class HealthFile:
    """Reads, merges and clears health; an invalid file counts as none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._home = home_of(path)
        self._seen: int | None = None

    def read(self) -> dict[str, Any]:
        """Return what the file says."""
        try:
            self._seen = self._changed_at()
            data = json.loads(self._home.tree.read(self._path, _MAX_BYTES))
        except (OSError, ValueError, RecursionError):
            return {}
        return data if isinstance(data, dict) and isinstance(data.get("keys"), dict) else {}

    def changed(self) -> bool:
        """Say whether another run has written the file since it was last read."""
        return self._changed_at() not in {None, self._seen}

    def _changed_at(self) -> int | None:
        found = self._home.tree.stat(self._path)
        return None if found is None else found.st_mtime_ns

    def merge(self, news: Mapping[str, Any]) -> None:
        """Write what a run knows, without undoing what other runs found out."""
        with self._locked():
            before = self.read().get("keys", {})
            keys = dict(before)
            for key_id, entry in news["keys"].items():
                keys[key_id] = _merged(before.get(key_id), entry)
            self._write({**news, "keys": keys})

    def clear(self, key_id: str) -> bool:
        """Clear what keeps a key from being used; return whether there was anything."""
        with self._locked():
            data = self.read()
            entry = data.get("keys", {}).get(key_id)
            if not isinstance(entry, dict):
                return False
            held = bool(entry.get("disabled") or entry.get("resting"))
            data["keys"][key_id] = entry | {"disabled": None, "resting": None}
            self._write(data)
            return held

    def _write(self, data: Mapping[str, Any]) -> None:
        self._home.tree.write(self._path, json.dumps(data, indent=1) + "\n", mode=PRIVATE_FILE)
        self._seen = self._changed_at()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        lock = self._home.open(self._path.with_suffix(".lock"))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def _merged(before: Any, entry: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(before, dict):
        return entry
    merged = dict(entry)
    merged["disabled"] = entry.get("disabled") or before.get("disabled")
    ours, theirs = entry.get("resting"), before.get("resting")
    if isinstance(theirs, dict) and isinstance(theirs.get("until"), int | float):
        longer = not isinstance(ours, dict) or theirs["until"] > ours["until"]
        merged["resting"] = theirs if longer else ours
    return merged
