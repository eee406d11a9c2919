"""Makes the job of a local worker from one that came through the database. Worker machine process.

Whoever can write to the database can write a job, so its files stay in their folder, and what could send a
key elsewhere is this machine's own.
"""

import errno
from pathlib import Path

from agentos import frames, wire
from agentos.engine.own_access import OwnAccess
from agentos.errors import StorageError
from agentos.store.postgres.attempts import TakenAttempt
from agentos.store.rooted_tree import Tree

# What a job's own names cause; anything else is this machine's fault, such as a full disk.
_IMPOSSIBLE_NAMES = {errno.ENAMETOOLONG, errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.EINVAL}


def own_job(taken: TakenAttempt, desks: Tree, desk: Path, *, own: OwnAccess, url: str) -> wire.Job:
    """Read the job, fill its desk, and add what is this machine's own; raises ProtocolError if it is bad."""
    job = frames.read_for_worker(taken.job)
    if not isinstance(job, wire.Job):
        raise wire.ProtocolError("not a job")
    if any(Path(path).is_absolute() or ".." in Path(path).parts for path in job.files):
        raise wire.ProtocolError("a file outside its folder")
    desks.make_folder(desk, 0o700)
    for path, text in job.files.items():
        _write(desks, desk / path, text)
    models = {job.drafter.partition(":")[0], job.reviewer.partition(":")[0]}
    return job.model_copy(
        update={
            "worktree": str(desks.root / desk),
            "files": {},
            "environment": {},
            "providers": own.providers(sorted(models)),
            "mock_shell": job.mock_shell and own.mock_shell,
            "database_url": url,
            "remote": wire.RemoteItem(
                id=taken.id,
                project=taken.project,
                workflow=job.item.workflow,
                item=job.item.id,
                thread=job.database,
            ),
        }
    )


def _write(desks: Tree, path: Path, text: str) -> None:
    try:
        desks.write(path, text)
    except StorageError as exc:
        if isinstance(exc.__cause__, OSError) and exc.__cause__.errno in _IMPOSSIBLE_NAMES:
            raise wire.ProtocolError(f"a file that cannot be: {exc.__cause__.strerror}") from exc
        raise
