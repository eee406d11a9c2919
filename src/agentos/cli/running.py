"""From flags to a finished run: settings, items, plan, coordinator, summary, exit code."""

import contextlib
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentos.cli.order import Order, check_budget, models_of, source_change, take_order
from agentos.cli.project import Project, open_project
from agentos.config import Origin
from agentos.coordinator.plan import Choice, Entry, Step, make_plan
from agentos.coordinator.survey import survey
from agentos.errors import ConfigError, NoUsableKey, UsageError
from agentos.llm.providers import MODULES
from agentos.model import Status
from agentos.money import PriceTable
from agentos.process import hide_memory
from agentos.settings import Settings
from agentos.store.documents import MAX_DOCUMENT_BYTES
from agentos.store.keyhealth import HealthFile
from agentos.store.records import Records
from agentos.store.runfolder import RunFolder, create_run, has_summary, is_live
from agentos.store.tree import worktree_tree
from agentos.workflows.registry import registered

if TYPE_CHECKING:
    from agentos.console.console import Console
    from agentos.coordinator.job import ParallelRunConfig
    from agentos.coordinator.keys import KeyRing
    from agentos.coordinator.purse import Purse
    from agentos.coordinator.signals import StopSignals
    from agentos.coordinator.supervisor import Supervisor
    from agentos.report.overlaps import Overlap
    from agentos.report.summary import ItemRow
    from agentos.store.home import Home


def run_workflow(name: str, ids: tuple[str, ...], flags: Mapping[str, Any]) -> int:
    """Carry out `agentos lld`, `agentos issue` or `agentos run`."""
    order = take_order(name, ids, open_project(flags))
    project, settings = order.project, order.settings
    if settings.dry_run:
        from agentos.cli.dryrun import models_wanted, show_plan  # noqa: PLC0415

        with Records(project.home.records, write=False, mock=order.mock) as records:
            history = records.tokens_of_items(name, **models_wanted(settings))
            return show_plan(
                name,
                project,
                _plan(order, records),
                settings,
                history=history,
                context=order.context,
                source=str(order.source),
                moved=None if order.mock else source_change(order, records.source(name)),
            )
    return _really_run(order)


def _purse(order: Order, records: Records, run_id: str) -> "Purse":
    """Begin the run's account, with what was spent before a stop on the items that are meant now."""
    from agentos.coordinator.purse import Purse  # noqa: PLC0415

    settings, name, runs = order.settings, order.flow.name, order.project.home.runs
    labels = {item.id: item.label for item in order.items}
    records.begin_run(run_id, name, labels, lambda run: is_live(runs / run))
    spent = records.spent_before(name, run_id)
    return Purse(
        budget=settings.budget,
        item_budget=settings.item_budget,
        carried=sum(usd for item, usd in spent.items() if item in labels),
        items={labels[item]: usd for item, usd in records.spent_on_items(name).items() if item in labels},
        outputs=records.usual_outputs(name),
    )


def _plan(order: Order, records: Records) -> tuple[Entry, ...]:
    settings = order.settings
    known = survey(
        order.flow,
        order.items,
        records,
        worktree=order.project.worktree,
        folders=order.settings.folders,
        filing=order.filing is not None,
    )
    choice = Choice(
        fresh=settings.fresh,
        mock=order.mock,
        only_failed=settings.retry_failed and not settings.all and not order.ids,
        filing=order.files,
        no_file=order.no_file,
        named=bool(order.ids),
        limit=settings.limit,
    )
    return make_plan(order.items, known, choice)


def _really_run(order: Order) -> int:
    """Start the server that workers are forked from, so that it imports while we do; then run."""
    from agentos.coordinator.signals import StopSignals  # noqa: PLC0415
    from agentos.coordinator.supervisor import Supervisor, start_method  # noqa: PLC0415

    hide_memory()
    environment = order.project.config.environment
    models = models_of(order.settings, order.project.config)
    check_budget(order, models)
    providers = sorted({model.partition(":")[0] for model in models.values()})
    method = start_method(environment.get("AGENTOS_START_METHOD"))
    preload = [*(MODULES[provider] for provider in providers), registered()[order.flow.name].module]
    with StopSignals() as signals, Supervisor(method, environment, preload=preload) as supervisor:
        if any(item.problem is None for item in order.items):
            supervisor.warm_up()
        return _supervised_run(order, models, providers, supervisor, signals)


def _supervised_run(
    order: Order,
    models: Mapping[str, str],
    providers: list[str],
    supervisor: "Supervisor",
    signals: "StopSignals",
) -> int:
    from agentos.cli.desk import Desk  # noqa: PLC0415
    from agentos.cli.ending import show_summary  # noqa: PLC0415
    from agentos.console.console import Console  # noqa: PLC0415
    from agentos.console.outlet import Outlet  # noqa: PLC0415
    from agentos.console.screen import json_text  # noqa: PLC0415
    from agentos.coordinator.accounts import Accounts  # noqa: PLC0415
    from agentos.coordinator.book import RunBook  # noqa: PLC0415
    from agentos.coordinator.coordinator import ParallelCoordinator  # noqa: PLC0415
    from agentos.coordinator.keys import KeyService, key_ring  # noqa: PLC0415
    from agentos.tracing.run import RunTrace  # noqa: PLC0415

    project, settings = order.project, order.settings
    environment = project.config.environment
    config = _run_config(order, models, order.flow.prepare(project.worktree, settings))
    ring = key_ring(project.config, providers)
    _check_keys(ring, models)
    _check_context(order)
    refuse_every = _refuse_every(environment)
    home = _opened_home(project)
    with ExitStack() as stack:
        records = stack.enter_context(Records(home.records, mock=order.mock))
        folder = create_run(home)
        stack.callback(folder.close)
        stack.callback(records.release, folder.run_id)
        entries = _claimed(order, records, folder)
        purse = _purse(order, records, folder.run_id)
        console = Console(
            how=_how(project, settings),
            json=settings.json,
            environment=environment,
            interrupt=signals.fileno(),
        )
        keys = KeyService(
            ring,
            HealthFile(home.mock_key_health if order.mock else home.key_health),
            call_timeout=config.call_timeout,
            refuse_every=refuse_every,
        )
        book = RunBook(
            home,
            order.flow.name,
            config.parallel,
            records=records,
            folder=folder,
            console=console,
            filing=order.filing,
            verbose=settings.verbose,
            mock="mock" in providers,
        )
        trace = RunTrace(
            run_id=folder.run_id,
            workflow=order.flow.name,
            parallel=config.parallel,
            items=len(entries),
            write=book.span if settings.trace else None,
            environment=environment,
            complain=book.say,
        )
        book.trace_id = trace.trace_id
        book.source = str(order.source)
        book.say(book.source)
        for place in _unencrypted(project, providers):
            book.say(f"{place}: the key travels unencrypted; use https://")
        if not order.mock:
            if moved := source_change(order, records.source(order.flow.name)):
                book.say(moved)
            book.guard(records.note_source, order.flow.name, order.source.place)
        coordinator = ParallelCoordinator(
            config,
            entries,
            supervisor=supervisor,
            keys=keys,
            book=book,
            console=console,
            signals=signals,
            accounts=Accounts(purse, PriceTable(own=project.config.prices), book),
            trace=trace,
        )
        stopped = coordinator.run()
        unfiled = False
        if order.files and order.github is not None:
            desk = Desk(
                order.github,
                records,
                book,
                signals,
                yes=settings.yes,
                lineage_folder=settings.lineage_folder,
                allowed_labels=settings.filing_labels,
            )
            stopped = desk.file(entries, project.worktree, stopped)
            unfiled = desk.unfinished
        summary = book.close(
            entries,
            keys.snapshot(time.monotonic()),
            stopped,
            unfiled=unfiled,
            overlaps=_overlaps(order.project, entries, book.rows),
            needed_budget=purse.needed if settings.budget is not None and purse.too_much else None,
            needed_item_budget=(
                purse.needed_for_an_item if settings.item_budget is not None and purse.too_much else None
            ),
        )
        trace.close(exit_code=summary.exit_code, totals=summary.totals)
        _write_report(folder.path, project, console)
    if settings.json:
        Outlet(sys.stdout).write(json_text(summary.as_dict()) + "\n")
    show_summary(summary, project, console, ids=order.ids)
    return summary.exit_code


def _opened_home(project: Project) -> "Home":
    """Make the home, and say what the repo's own files set, once for each content of theirs."""
    from agentos.store.notices import first_time  # noqa: PLC0415

    home, files = project.home.create(), project.config.repo
    if files and first_time(home, (file.digest for file in files)):
        for file in files:
            click.echo(f"agentos: {file}; 'agentos config' shows the values.", err=True)
    return home


def _check_keys(ring: "KeyRing", models: Mapping[str, str]) -> None:
    """Every role needs a key before the first call is paid for."""
    for role, model in models.items():
        provider = model.partition(":")[0]
        if all(spec.provider != provider for spec in ring.specs):
            raise NoUsableKey(
                f"There is no key for {provider}, which the {role} {model} needs. Set "
                f"{provider.upper()}_API_KEY, or add [[keys]] to your configuration file; "
                "'agentos doctor' shows what is there."
            )
    for sentence in ring.unusable:
        click.echo(f"agentos: warning: {sentence} It is left out.", err=True)


def _check_context(order: Order) -> None:
    """No key goes to a model in a file; keys are known by now."""
    if order.context:
        from agentos.workflows.context import refuse_known  # noqa: PLC0415 - many patterns

        refuse_known(order.context)


def _write_report(run: Path, project: Project, console: "Console") -> None:
    """Write the page of the run; a run that went well stays so, whatever happens here."""
    from agentos.report.data import history_of, run_data  # noqa: PLC0415
    from agentos.report.page import write_report  # noqa: PLC0415

    folder = project.config.settings.lineage_folder
    try:
        data = run_data(run, worktree=project.worktree, lineage_folder=folder, history=history_of(run))
        write_report(run, data)
    except Exception as exc:  # noqa: BLE001
        console.complain(f"the report could not be written: {exc}; 'agentos report' tries again")


def _overlaps(
    project: Project, entries: Iterable[Entry], rows: "Mapping[str, ItemRow]"
) -> "tuple[Overlap, ...]":
    """Designs that change the same files, where one is new: of this run, or of one that was cut off."""
    from agentos.report.overlaps import overlaps  # noqa: PLC0415

    documents: dict[str, str] = {}
    tree = worktree_tree(project.worktree)
    new: set[str] = set()
    for entry in entries:
        row = rows[entry.item.label]
        if row.status not in {Status.APPROVED, Status.SKIPPED} or not row.output or "://" in row.output:
            continue
        with contextlib.suppress(OSError, UnicodeDecodeError):
            documents[row.label] = tree.text(Path(row.output), MAX_DOCUMENT_BYTES)
        untold = entry.outcome is not None and not has_summary(project.home.runs / entry.outcome.run_id)
        if row.status is Status.APPROVED or untold:
            new.add(row.label)
    return tuple(one for one in overlaps(documents) if new.intersection(one.items))


def _run_config(order: Order, models: Mapping[str, str], templates: dict[str, str]) -> "ParallelRunConfig":
    from agentos.coordinator.job import ParallelRunConfig  # noqa: PLC0415

    settings = order.settings
    return ParallelRunConfig(
        base_dir=order.project.home.path,
        worktree=order.project.worktree,
        workflow=order.flow.name,
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
        context=dict(order.context),
        folders=order.settings.folders,
        base_urls=dict(order.project.config.base_urls),
        mock_shell=order.project.config.environment.get("AGENTOS_MOCK_SHELL") == "1",
        environment=_langsmith(order.project.config.environment) if settings.langsmith else {},
    )


def _unencrypted(project: Project, providers: Iterable[str]) -> list[str]:
    """The servers of this run that get keys and texts in clear text, each once."""
    from agentos.loopback import in_clear_text  # noqa: PLC0415

    urls = project.config.base_urls
    places = (in_clear_text(urls[provider]) for provider in providers if provider in urls)
    return list(dict.fromkeys(place for place in places if place is not None))


def _langsmith(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in environment.items() if name.startswith(("LANGSMITH_", "LANGCHAIN_"))}


def _how(project: Project, settings: Settings) -> str:
    """How output is shown: on GitHub Actions item by item, unless the user says otherwise."""
    if settings.quiet:
        return "quiet"
    chosen = project.config.sources["output"].origin is not Origin.DEFAULT
    actions = project.config.environment.get("GITHUB_ACTIONS") == "true"
    return "grouped" if actions and not chosen else settings.output


def _refuse_every(environment: Mapping[str, str]) -> int | None:
    text = environment.get("AGENTOS_SIMULATE_429")
    if not text:
        return None
    if not text.isdigit() or int(text) < 1:
        raise ConfigError(f"AGENTOS_SIMULATE_429 is {text!r}: a whole number from 1 is needed.")
    return int(text)


def _claimed(order: Order, records: Records, folder: RunFolder) -> tuple[Entry, ...]:
    """Take the items for this run and plan it; items that another living run holds are passed by.

    Planned twice: first to know what to claim, then, with the claim held, on records nobody else changes.
    """
    runs = order.project.home.runs
    for item in order.items:
        records.rehash(item)
    wanted = [entry.item for entry in _plan(order, records) if entry.acts]
    refused = records.claim(wanted, folder.run_id, lambda run: is_live(runs / run))
    told = {
        item: f"held by run {claim.run_id} (process {claim.pid}, since {claim.since})"
        for item, claim in refused.items()
    }
    if refused and (order.ids or len(refused) == len(wanted)):
        folder.discard()
        who = "; ".join(f"{item} is {why}" for item, why in told.items())
        raise UsageError(f"Another run is at work: {who}. Wait for it, or stop it with Ctrl+C there.")
    mine = {item.id for item in wanted} - refused.keys()
    entries: list[Entry] = []
    for entry in _plan(order, records):
        if entry.item.id in told:
            entries.append(replace(entry, step=Step.SKIP, reason=told[entry.item.id]))
        elif not entry.acts or entry.item.id in mine:
            entries.append(entry)
    return tuple(entries)
