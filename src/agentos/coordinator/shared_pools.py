"""Opens the state that all runs of the user share, for the keys of one run. Coordinator process."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from agentos.credentials.key_state import KeySpec
from agentos.credentials.run_pool import RunPool
from agentos.credentials.saved_state import read_text
from agentos.credentials.shared_store import SharedKeys, SharedStore, StateRows
from agentos.errors import StorageError
from agentos.events.keys import KeyRecovered
from agentos.secret import Secret, salted_hash
from agentos.store.key_pool import BUSY_SECONDS, ActiveRun, open_pool_database
from agentos.store.known_homes import make_state_folder
from agentos.store.records import timestamp

WAIT_SECONDS = 10.0  # how long a run that starts, or a command, waits for the runs that use the state
ALONE = "This run does not share the limits of its keys with your other runs."
UNSHARED = frozenset({"mock"})  # providers whose keys are not the user's


class RunRows(StateRows, Protocol):
    """An open database: the user's own (`PoolDatabase`), or one for several machines (`PostgresPool`)."""

    @property
    def salt(self) -> bytes: ...
    def wait_at_most(self, seconds: float) -> None: ...
    def add_run(self, run: ActiveRun) -> None: ...
    def close(self) -> None: ...


class SharedPools:
    """The shared pools of a run, by provider."""

    def __init__(
        self,
        database: RunRows,
        keys: Sequence[SharedKeys],
        *,
        run_id: str,
        place: Path,
        lease_seconds: float,
        say: Callable[[str], None],
    ) -> None:
        self._database = database
        self._token = os.urandom(12).hex()
        run = ActiveRun(
            token=self._token, run_id=run_id, place=str(place), pid=os.getpid(), since=timestamp()
        )
        database.add_run(run)
        database.wait_at_most(WAIT_SECONDS)
        self._stores = [
            SharedStore(database, one, run=self._token, lease_seconds=lease_seconds, say=say) for one in keys
        ]
        self.by_provider: dict[str, RunPool] = {}
        for one, store in zip(keys, self._stores, strict=True):
            store.join()
            ids = frozenset(spec.id for spec in one.specs)
            self.by_provider[one.specs[0].provider] = RunPool(store, run=self._token, keys=ids)
        database.wait_at_most(BUSY_SECONDS)

    def leave(self) -> None:
        """End the run; what it does not manage to give back, other runs find out by themselves."""
        with suppress(StorageError):
            for store in self._stores:
                store.leave()
        self._database.close()


def shared_keys(
    database: RunRows, specs: Sequence[KeySpec], secrets: Mapping[str, Secret], base_urls: Mapping[str, str]
) -> list[SharedKeys]:
    """Collect the keys that are the user's, by provider; a key with two ids is one key."""
    found: dict[str, dict[str, KeySpec]] = {}
    for spec in specs:
        if spec.provider not in UNSHARED:
            mark = secrets[spec.id].fingerprint(database.salt)
            found.setdefault(spec.provider, {}).setdefault(mark, spec)
    return [
        SharedKeys(
            row=row_name(database.salt, provider, base_urls),
            specs=tuple(by_mark.values()),
            fingerprints={spec.id: mark for mark, spec in by_mark.items()},
        )
        for provider, by_mark in found.items()
    ]


def row_name(salt: bytes, provider: str, base_urls: Mapping[str, str]) -> str:
    """Return the row of a provider: one server is not limited by what another one said."""
    url = base_urls.get(provider)
    return provider if url is None else f"{provider}@{salted_hash(url, salt)[:16]}"


def open_shared_pools(
    folder: Path | None,
    specs: Sequence[KeySpec],
    secrets: Mapping[str, Secret],
    *,
    base_urls: Mapping[str, str],
    run_id: str,
    place: Path,
    lease_seconds: float,
    say: Callable[[str], None],
    rows: Callable[[], RunRows] | None = None,
) -> SharedPools | None:
    """Open the state for a run; None, with a message, if the user's state folder cannot be used.

    `rows` opens another database instead of the one in the folder. If that fails, StorageError is raised: a
    run that uses it must not go beyond the limits that it shares with other machines.
    """
    if all(spec.provider in UNSHARED for spec in specs):
        return None

    def join(database: RunRows) -> SharedPools:
        try:
            keys = shared_keys(database, specs, secrets, base_urls)
            return SharedPools(
                database, keys, run_id=run_id, place=place, lease_seconds=lease_seconds, say=say
            )
        except StorageError:
            database.close()
            raise

    if rows is not None:
        return join(rows())
    if folder is None:
        say(f"Neither HOME nor XDG_STATE_HOME is set. {ALONE}")
        return None
    try:
        return join(open_pool_database(make_state_folder(folder), say, read_text))
    except (StorageError, OSError) as exc:
        reason = str(exc) if isinstance(exc, StorageError) else f"Cannot write to {folder}: {exc.strerror}."
        say(f"{reason} {ALONE}")
        return None


def enable_in(
    database: RunRows, spec: KeySpec, secret: Secret, base_urls: Mapping[str, str], say: Callable[[str], None]
) -> bool:
    """Clear the rate limit, quota or rejection of a key, for all runs; return whether there was any."""
    database.wait_at_most(WAIT_SECONDS)
    (keys,) = shared_keys(database, [spec], {spec.id: secret}, base_urls)
    store = SharedStore(database, keys, run="", lease_seconds=0.0, say=say)
    with store.transaction(database.clock()) as loaded:
        return any(isinstance(event, KeyRecovered) for event in loaded.pool.enable(spec.id, loaded.now))
