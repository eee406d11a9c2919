"""Finds and removes old runs and kept checkpoints."""

from dataclasses import dataclass
from pathlib import Path

from agentos.store.home import Home, checkpoint_files
from agentos.store.records import Records
from agentos.store.run_folder import is_live, list_runs


@dataclass(frozen=True, kw_only=True)
class Old:
    """What can be removed; nothing in it belongs to a live run."""

    runs: tuple[Path, ...]
    checkpoints: tuple[Path, ...]


def find_old(home: Home, records: Records, *, limit: float) -> Old:
    """List what was last changed before `limit`, in seconds since 1970."""
    runs = list_runs(home)
    live = {path.name for path in runs if is_live(path)}
    held = {
        home.checkpoint(claim.workflow, claim.item, mock=mock)
        for claim in records.claims().values()
        for mock in (False, True)
        if claim.run_id in live
    }
    old = {entry.name for entry in home.tree.entries(home.runs) if entry.changed < limit}
    checkpoints = [
        home.checkpoints / entry.name
        for entry in home.tree.entries(home.checkpoints)
        if entry.name.endswith(".db") and entry.is_file and entry.changed < limit
    ]
    return Old(
        runs=tuple(path for path in runs if path.name in old - live),
        checkpoints=tuple(path for path in checkpoints if path not in held),
    )


def remove_old(home: Home, records: Records, old: Old) -> dict[Path, str]:
    """Remove it; items whose checkpoints are removed start over. Returns what other runs hold, by path."""
    for path in old.runs:
        home.tree.remove_tree(path)
    kept: dict[Path, str] = {}
    for path in old.checkpoints:
        workflow, _, item = path.stem.partition("_workflow_")
        world = records.of(mock=item.endswith(".mock"))
        if holder := world.drop_progress(workflow, item.removesuffix(".mock")):
            kept[path] = holder.run_id
            continue
        for one in checkpoint_files(path):
            home.tree.remove(one)
    return kept
