"""The rows of the database with the state of the user's keys. Pure."""

from dataclasses import dataclass

BUSY_SECONDS = 0.05  # the loop must not wait longer for another run; it tries again in its next turn


@dataclass(frozen=True, kw_only=True)
class StateRow:
    """The state of the keys of one provider."""

    version: int  # grows with every write; 0: nothing is stored yet
    state: str  # as JSON
    written: float | None  # when, by this machine's clock; None if that cannot be told, as after a restart


@dataclass(frozen=True, kw_only=True)
class PoolUser:
    """A run and the keys of one provider that it uses."""

    token: str
    keys: str  # as JSON: the configured limits, by fingerprint


@dataclass(frozen=True, kw_only=True)
class ActiveRun:
    """A run that uses the keys."""

    token: str  # random; a run id is unique in its home only
    run_id: str
    place: str  # the folder it runs in
    pid: int
    since: str
    host: str = ""  # the machine it runs on; empty: only one has this database
