"""Decides which items of a request run, and claims them so that no other run takes them."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from agentos.app.request import RunRequest
from agentos.coordinator.item_facts import survey
from agentos.coordinator.plan import Choice, PlanAction, PlannedItem, make_plan
from agentos.errors import UsageError
from agentos.model import Item
from agentos.store.records import Claim
from agentos.store.records.protocols import AllRecords

CLAIM_PAUSE = 0.5
BEATS_SECONDS = 4.0  # after which a run that was killed before has not beaten lately

if TYPE_CHECKING:
    from agentos.app.open_run import OpenRun


def plan_items(request: RunRequest, records: AllRecords) -> tuple[PlannedItem, ...]:
    """Decide for each item from its document, its records and the flags. Writes nothing."""
    settings = request.settings
    known = survey(
        request.flow,
        request.items,
        records,
        worktree=request.project.worktree,
        folders=settings.folders,
        filing=request.filing is not None,
    )
    choice = Choice(
        fresh=settings.fresh,
        mock=request.mock,
        only_failed=settings.retry_failed and not settings.all and not request.ids,
        filing=request.files,
        no_file=request.no_file,
        named=bool(request.ids),
        limit=settings.limit,
    )
    return make_plan(request.items, known, choice)


def claim_items(run: "OpenRun") -> tuple[PlannedItem, ...]:
    """Claim the items for this run and plan it; skip items that another live run holds.

    Plans twice: first to know what to claim, then, with the claims held, on records that nobody else changes.
    """
    request, records, folder = run.request, run.records, run.folder
    for item in request.items:
        records.rehash(item)
    wanted = [entry.item for entry in plan_items(request, records) if entry.acts]
    held = _claim(run, wanted)
    if held and (request.ids or len(held) == len(wanted)):
        folder.discard()
        raise UsageError(f"Another run is running: {_held(held)}. Wait for it, or stop it there with Ctrl+C.")
    claimed = {item.id for item in wanted} - held.keys()
    return keep_claimed(plan_items(request, records), claimed=claimed, held=held)


def _claim(run: "OpenRun", wanted: list[Item]) -> dict[str, Claim]:
    """Claim the items. A submitter that was killed elsewhere looks alive for some seconds: wait for it."""
    held = run.records.claim(wanted, run.folder.run_id)
    if run.remote is None or not held:
        return held
    began = time.monotonic()
    run.dialog.tell(f"{_held(held)}. Waiting a few seconds, in case that its run was killed.")
    while held and (waited := time.monotonic() - began) < run.remote.looks_alive:
        if waited > BEATS_SECONDS and all(run.remote.beats(claim.run_id) for claim in held.values()):
            break
        time.sleep(CLAIM_PAUSE)
        held = run.records.claim(wanted, run.folder.run_id)
    return held


def _held(held: Mapping[str, Claim]) -> str:
    return "; ".join(f"{item} is {_holder(claim)}" for item, claim in held.items())


def keep_claimed(
    entries: Iterable[PlannedItem], *, claimed: Iterable[str], held: Mapping[str, Claim]
) -> tuple[PlannedItem, ...]:
    """Skip what another run holds, and leave out what became pending only after the claim."""
    mine = frozenset(claimed)
    kept = []
    for entry in entries:
        if (claim := held.get(entry.item.id)) is not None:
            kept.append(replace(entry, step=PlanAction.SKIP, reason=_holder(claim), shared_reason=""))
        elif not entry.acts or entry.item.id in mine:
            kept.append(entry)
    return tuple(kept)


def _holder(claim: Claim) -> str:
    return f"held by {claim.run} (process {claim.pid}, since {claim.since})"
