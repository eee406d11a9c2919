"""From flags to a finished run: settings, items, plan, coordinator, summary, exit code."""

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import click

from agentos.cli.project import Project, open_project
from agentos.config import Origin
from agentos.coordinator.plan import Choice, Entry, Known, Step, make_plan
from agentos.errors import ConfigError, NoUsableKey, UsageError
from agentos.llm.providers import check_provider
from agentos.model import Item, Status, check_distinct, check_id
from agentos.settings import Settings
from agentos.store.home import Home
from agentos.store.records import Records
from agentos.store.runfolder import RunFolder, create_run, is_live
from agentos.workflows.registry import Workflow, workflow

MOCK_MODELS = {"drafter": "mock:drafter", "reviewer": "mock:reviewer"}


def run_workflow(name: str, ids: tuple[str, ...], flags: Mapping[str, Any]) -> int:
    """Carry out `agentos lld`, `agentos issue` or `agentos run`."""
    project = open_project(flags)
    settings = _checked(project, ids)
    flow = workflow(name)
    items = flow.discover(project.worktree, settings, ids)
    check_distinct(item.id for item in items)
    templates = flow.prepare(project.worktree, settings)
    models = _models(settings)
    if settings.dry_run:
        from agentos.cli.dryrun import show_plan  # noqa: PLC0415

        with Records(project.home.records, write=False) as records:
            entries = _plan(items, records, settings, ids)
        return show_plan(name, project, entries, settings)
    return _really_run(project, flow, items, settings, ids, models, templates)


def _checked(project: Project, ids: tuple[str, ...]) -> Settings:
    """Refuse what cannot be meant; cap what is too much."""
    settings, sources = project.config.settings, project.config.sources
    for one in ids:
        if not one.endswith(".md"):
            check_id(one)
    check_distinct(ids)
    chosen = settings.all or settings.retry_failed
    if sources["parallel"].origin is Origin.FLAG and not chosen:
        if not ids:
            raise UsageError(
                f"No items named. Was the {settings.parallel} of --parallel meant as an item? Then type "
                f"'{settings.parallel}' before --parallel; else add --all."
            )
        if settings.parallel > settings.max_parallel:
            raise UsageError(
                f"--parallel {settings.parallel} is above the cap of {settings.max_parallel}. Was {settings.parallel} "
                "meant as an item? Then put it before --parallel."
            )
    if not ids and not chosen:
        raise UsageError("Name the items to process, or use --all for every pending one.")
    if ids and settings.all:
        raise UsageError("Name items or use --all, not both.")
    if settings.engine != "local":
        raise UsageError(f"--engine {settings.engine} is not in this version; use --engine local.")
    if settings.source == "github":
        raise UsageError("--source github is not in this version; use --source local.")
    if settings.parallel > settings.max_parallel:
        click.echo(
            f"agentos: warning: --parallel {settings.parallel} is capped at {settings.max_parallel}; "
            "max_parallel in your configuration file raises the cap.",
            err=True,
        )
        settings = replace(settings, parallel=settings.max_parallel)
    return settings


def _models(settings: Settings) -> dict[str, str]:
    if settings.mock:
        return MOCK_MODELS
    chosen = {"drafter": settings.drafter, "reviewer": settings.reviewer}
    for role, model in chosen.items():
        if model is None:
            raise ConfigError(
                f'No {role} is set. Put {role} = "provider:model" into your configuration file, use --{role}, '
                "or use --mock to work offline."
            )
        check_provider(model)
    return {role: str(model) for role, model in chosen.items()}


def _plan(
    items: Sequence[Item], records: Records, settings: Settings, ids: Sequence[str]
) -> tuple[Entry, ...]:
    if not items:
        return ()
    name = items[0].workflow
    outcomes, progress = records.outcomes(name), records.progress(name)
    known: dict[str, Known] = {}
    for item in items:
        made = progress.get((name, item.id))
        known[item.id] = Known(
            outcome=outcomes.get((item.id, item.input_hash)),
            progress=made,
            decided=records.decision(item, made.reviews)
            if made is not None and made.status == Status.DISCUSS
            else None,
        )
    only_failed = settings.retry_failed and not settings.all and not ids
    choice = Choice(
        fresh=settings.fresh,
        retry_failed=settings.retry_failed,
        only_failed=only_failed,
        limit=settings.limit,
    )
    return make_plan(items, known, choice)


def _really_run(
    project: Project,
    flow: Workflow,
    items: Sequence[Item],
    settings: Settings,
    ids: tuple[str, ...],
    models: dict[str, str],
    templates: dict[str, str],
) -> int:
    from agentos.cli.ending import show_summary  # noqa: PLC0415
    from agentos.console.console import Console  # noqa: PLC0415
    from agentos.coordinator.book import RunBook  # noqa: PLC0415
    from agentos.coordinator.coordinator import ParallelCoordinator, ParallelRunConfig  # noqa: PLC0415
    from agentos.coordinator.keys import KeyService, key_ring  # noqa: PLC0415
    from agentos.coordinator.supervisor import Supervisor, start_method  # noqa: PLC0415

    environment = project.config.environment
    ring = key_ring(project.config, sorted({model.partition(":")[0] for model in models.values()}))
    if not ring.specs:
        raise NoUsableKey("There is no key for the models chosen. Add [[keys]] to your configuration file.")
    method = start_method(environment.get("AGENTOS_START_METHOD"))
    home = project.home.create()
    with ExitStack() as stack:
        supervisor = stack.enter_context(Supervisor(method, environment))
        records = stack.enter_context(Records(home.records))
        folder = create_run(home)
        stack.callback(folder.close)
        stack.callback(records.release, folder.run_id)
        entries = _claimed(items, records, settings, ids, home, folder)
        if any(entry.runs for entry in entries):
            supervisor.warm_up()
        how = "quiet" if settings.quiet else settings.output
        if (
            environment.get("GITHUB_ACTIONS") == "true"
            and project.config.sources["output"].origin is Origin.DEFAULT
        ):
            how = "grouped" if how == "stream" else how
        console = Console(how=how, json=settings.json, environment=environment)
        refuse_every = environment.get("AGENTOS_SIMULATE_429")
        config = ParallelRunConfig(
            base_dir=home.path,
            worktree=project.worktree,
            workflow=flow.name,
            drafter=models["drafter"],
            reviewer=models["reviewer"],
            parallel=settings.parallel,
            timeout=settings.timeout,
            run_timeout=settings.run_timeout,
            max_retries=settings.max_retries,
            max_iterations=settings.max_iterations,
            max_wait=0.0 if settings.no_wait else settings.max_wait,
            fail_fast=settings.fail_fast,
            retry_failed=settings.retry_failed,
            templates=templates,
            folders={
                "issues": settings.issues_folder,
                "lld": settings.lld_folder,
                "lineage": settings.lineage_folder,
            },
            mock_shell=environment.get("AGENTOS_MOCK_SHELL") == "1",
        )
        book = RunBook(home, flow.name, config.parallel, records=records, folder=folder, console=console)
        keys = KeyService(
            ring,
            call_timeout=config.call_timeout,
            refuse_every=_refuse_every(refuse_every) if refuse_every else None,
        )
        coordinator = ParallelCoordinator(
            config, entries, supervisor=supervisor, keys=keys, book=book, console=console
        )
        summary = coordinator.run()
    if settings.json:
        click.echo(json.dumps(summary.as_dict(), indent=2, ensure_ascii=False))
    show_summary(summary, project, json_mode=settings.json)
    return summary.exit_code


def _refuse_every(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise ConfigError(f"AGENTOS_SIMULATE_429 is {text!r}: a whole number from 1 is needed.")
    return int(text)


def _claimed(
    items: Sequence[Item],
    records: Records,
    settings: Settings,
    ids: Sequence[str],
    home: Home,
    folder: RunFolder,
) -> tuple[Entry, ...]:
    """Take the items for this run and plan it; items that another living run holds are passed by.

    Planned twice: first to know what to claim, then, with the claim held, on records nobody else changes.
    """
    wanted = [entry.item for entry in _plan(items, records, settings, ids) if entry.runs]
    refused = records.claim(wanted, folder.run_id, lambda claim: is_live(home.runs / claim.run_id))
    told = {
        item: f"held by run {claim.run_id} (process {claim.pid}, since {claim.since})"
        for item, claim in refused.items()
    }
    if refused and (ids or len(refused) == len(wanted)):
        folder.discard()
        who = "; ".join(f"{item} is {why}" for item, why in told.items())
        raise UsageError(f"Another run is at work: {who}. Wait for it, or stop it with Ctrl+C there.")
    mine = {item.id for item in wanted} - refused.keys()
    entries: list[Entry] = []
    for entry in _plan(items, records, settings, ids):
        if entry.item.id in told:
            entries.append(replace(entry, step=Step.SKIP, reason=told[entry.item.id]))
        elif not entry.runs or entry.item.id in mine:
            entries.append(entry)
    return tuple(entries)
