"""The state of the user's keys, shared by all runs of the user on this machine."""

from agentos.store.key_pool.database import DATABASE, PoolDatabase, open_pool_database, read_pool_database
from agentos.store.key_pool.rows import BUSY_SECONDS, ActiveRun, PoolUser, StateRow

__all__ = [
    "BUSY_SECONDS",
    "DATABASE",
    "ActiveRun",
    "PoolDatabase",
    "PoolUser",
    "StateRow",
    "open_pool_database",
    "read_pool_database",
]
