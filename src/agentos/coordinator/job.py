"""The configuration of a run, and the job for each worker. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentos import __version__, wire
from agentos.coordinator.plan import PlannedItem
from agentos.events.catalogue import RunStarted


@dataclass(frozen=True, kw_only=True)
class ParallelRunConfig:
    """The configuration of a run. `base_dir` is the home, so that a test can pass its own folder."""

    base_dir: Path
    worktree: Path
    workflow: str
    drafter: str
    reviewer: str
    parallel: int = 1
    timeout: float = 3600.0
    run_timeout: float | None = None
    max_retries: int = 5
    max_iterations: int = 5
    max_wait: float = 3600.0  # 0: no waiting
    set_in: dict[str, str] = field(default_factory=dict)  # where each role's model is set: "drafter in FILE"
    user_file: str = "your configuration file"
    budget: float | None = None  # USD
    item_budget: float | None = None
    command: str = ""  # as it was typed
    fail_fast: bool = False
    retry_failed: bool = False
    call_timeout: float = 600.0
    templates: dict[str, str] = field(default_factory=dict)
    context: dict[str, str] = field(default_factory=dict)  # files of the repo for the drafter, by path
    folders: dict[str, str] = field(default_factory=dict)
    base_urls: dict[str, str] = field(default_factory=dict)
    mock_shell: bool = False
    environment: dict[str, str] = field(
        default_factory=dict
    )  # what workers get in addition to the usual variables


def run_started(config: ParallelRunConfig, *, run_id: str, items: int, mock: bool) -> RunStarted:
    """The first event of the run."""
    return RunStarted(
        run_id=run_id,
        items=items,
        parallel=config.parallel,
        mock=mock,
        command=config.command or None,
        workflow=config.workflow,
        drafter=config.drafter,
        reviewer=config.reviewer,
        budget=config.budget,
        item_budget=config.item_budget,
        timeout=config.timeout,
        run_timeout=config.run_timeout,
        max_iterations=config.max_iterations,
        max_wait=config.max_wait,
        version=__version__,
    )


def make_job(
    config: ParallelRunConfig,
    entry: PlannedItem,
    *,
    run_id: str,
    attempt: int,
    database: Path,
    trace: Mapping[str, str],
) -> wire.Job:
    """Put together everything that a worker knows."""
    item, decided = entry.item, entry.decided
    answer = None
    if decided is not None:
        answer = wire.Decision(
            reviews=decided.reviews,
            answer="approve" if decided.answer == "approve" else "revise",
            note=decided.note,
            by=decided.decided_by,
            at=decided.decided_at,
        )
    data = wire.ItemData(
        workflow=item.workflow,
        id=item.id,
        label=item.label,
        title=item.title,
        text=item.text,
        source=item.source,
    )
    return wire.Job(
        run_id=run_id,
        attempt=attempt,
        item=data,
        worktree=str(config.worktree),
        database=str(database),
        drafter=config.drafter,
        reviewer=config.reviewer,
        templates=config.templates,
        context=config.context,
        folders=config.folders,
        max_iterations=config.max_iterations,
        max_retries=config.max_retries,
        call_timeout=config.call_timeout,
        retry_failed=config.retry_failed,
        decision=answer,
        notes=tuple(
            wire.NoteData(id=note.id, text=note.text, by=note.noted_by, at=note.noted_at)
            for note in entry.notes
        ),
        revise=entry.revises,
        trail=entry.trail,
        base_urls=config.base_urls,
        mock_shell=config.mock_shell and not item.remote,
        environment=config.environment | dict(trace),
    )
