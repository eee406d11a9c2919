"""Runs the items of a plan: builds what the coordinator needs, and starts it."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import partial

from agentos.app.open_run import OpenRun
from agentos.app.request import source_change
from agentos.config import Config, Origin
from agentos.console.console import Console
from agentos.coordinator.coordinator import ParallelCoordinator
from agentos.coordinator.keys import LEASE_MARGIN, KeyService
from agentos.coordinator.plan import PlannedItem
from agentos.coordinator.recorder import RunRecorder
from agentos.coordinator.scheduler import Stop
from agentos.coordinator.shared_pools import SharedPools, open_shared_pools
from agentos.engine.local import LocalEngine
from agentos.engine.protocol import Engine
from agentos.loopback import in_clear_text
from agentos.model_access import proxy_for
from agentos.spending.spending import Spending
from agentos.store.key_health import HealthFile
from agentos.store.known_homes import state_folder
from agentos.store.model_memory import ModelMemory
from agentos.tracing.run import RunTrace


@dataclass(frozen=True, kw_only=True)
class Ran:
    """The result of a run, after its last worker ended."""

    stopped: Stop | None  # why the run ended early, if it did
    recorder: RunRecorder
    keys: KeyService
    spending: Spending
    trace: RunTrace
    console: Console


def run_items(run: OpenRun, plan: Sequence[PlannedItem]) -> Ran:
    """Run the plan until it is done or stopped; no worker is left behind."""
    spending = _spending(run)
    console = _console(run)
    recorder = _recorder(run, console)
    trace = _trace(run, recorder, items=len(plan))
    recorder.trail.trace_id = trace.trace_id
    _announce(run, recorder)
    shared = _shared(run, recorder)
    keys = _keys(run, shared)
    with ExitStack() as stack:
        if shared is not None:
            stack.callback(shared.leave)
        engine = stack.enter_context(_engine(run, plan, recorder))
        coordinator = ParallelCoordinator(
            replace(run.prepared.config, commit=run.maps.commit),
            plan,
            engine=engine,
            keys=keys,
            recorder=recorder,
            console=console,
            signals=run.session.signals,
            spending=spending,
            trace=trace,
            map_of=run.maps.of,
            look_up=run.maps.look_up,
        )
        stopped = coordinator.run()
    return Ran(stopped=stopped, recorder=recorder, keys=keys, spending=spending, trace=trace, console=console)


def _engine(
    run: OpenRun, plan: Sequence[PlannedItem], recorder: RunRecorder
) -> AbstractContextManager[Engine]:
    """Where the items run: in processes here, or on other machines."""
    if run.remote is not None:
        return run.remote.engine(run.request, recorder, run.session.signals)
    expected = sum(entry.runs for entry in plan)
    return LocalEngine(run.session.server, wake=run.session.signals, expected=expected)


def _spending(run: OpenRun) -> Spending:
    """Open the run's account, including what these items cost before an earlier stop."""
    request, records, run_id = run.request, run.records, run.folder.run_id
    name = request.flow.name
    labels = {item.id: item.label for item in request.items}
    records.begin_run(run_id, name, labels)
    spent = records.spent_before(name, run_id)
    return Spending(
        prices=run.prepared.prices,
        budget=request.settings.budget,
        item_budget=request.settings.item_budget,
        carried=sum(usd for item, usd in spent.items() if item in labels),
        items={labels[item]: usd for item, usd in records.spent_on_items(name).items() if item in labels},
        outputs=records.usual_outputs(name),
    )


def _console(run: OpenRun) -> Console:
    config = run.request.project.config
    return run.dialog.open_console(
        how=output_mode(config),
        json=config.settings.json,
        environment=config.environment,
        interrupt=run.session.signals.fileno(),
    )


def output_mode(config: Config) -> str:
    """How output is shown: grouped by item on GitHub Actions, unless the user chose otherwise."""
    if config.settings.quiet:
        return "quiet"
    chosen = config.sources["output"].origin is not Origin.DEFAULT
    actions = config.environment.get("GITHUB_ACTIONS") == "true"
    return "grouped" if actions and not chosen else config.settings.output


def _shared(run: OpenRun, recorder: RunRecorder) -> SharedPools | None:
    """Open the state of the user's keys, unless the run uses none of them."""
    prepared, project = run.prepared, run.request.project
    return open_shared_pools(
        state_folder(project.config.environment),
        prepared.ring.specs,
        prepared.ring.secrets,
        base_urls=project.config.base_urls,
        run_id=run.folder.run_id,
        place=project.worktree,
        lease_seconds=prepared.config.call_timeout + LEASE_MARGIN,
        say=recorder.say,
        rows=None if run.remote is None else partial(run.remote.pool, run.session.signals),
    )


def _keys(run: OpenRun, shared: SharedPools | None) -> KeyService:
    home, prepared = run.home, run.prepared
    health = HealthFile(home.mock_key_health if run.request.mock else home.key_health)
    return KeyService(
        prepared.ring,
        health if shared is None else None,
        run_id=run.folder.run_id,
        call_timeout=prepared.config.longest_call,
        refuse_every=prepared.refuse_every,
        shared=shared,
    )


def _recorder(run: OpenRun, console: Console) -> RunRecorder:
    return RunRecorder(
        run.home,
        records=run.records,
        folder=run.folder,
        console=console,
        filing=run.request.filing,
        verbose=run.request.settings.verbose,
        mock="mock" in run.prepared.providers,
        source=str(run.request.source),
        checkpoints=None if run.remote is None else run.remote.checkpoints(mock=run.request.mock),
        models=ModelMemory(
            run.home.models,
            {name: one.base_url for name, one in run.prepared.config.providers.items() if one.base_url},
        ),
    )


def _trace(run: OpenRun, recorder: RunRecorder, *, items: int) -> RunTrace:
    return RunTrace(
        run_id=run.folder.run_id,
        workflow=run.request.flow.name,
        parallel=run.prepared.config.parallel,
        items=items,
        write=recorder.span if run.request.settings.trace else None,
        environment=run.request.project.config.environment,
        complain=recorder.say,
    )


def _announce(run: OpenRun, recorder: RunRecorder) -> None:
    """Say where items come from, and warn about what may surprise."""
    request, records = run.request, run.records
    recorder.say(recorder.source)
    for place in unencrypted(request.project.config, run.prepared.providers):
        recorder.say(f"{place}: keys are sent unencrypted; use https://")
    if not request.mock:
        if moved := source_change(request, records.source(request.flow.name)):
            recorder.say(moved)
        recorder.guard(records.note_source, request.flow.name, request.source.place)


def unencrypted(config: Config, providers: Iterable[str]) -> list[str]:
    """The servers, with their proxies, that get keys and texts unencrypted in this run; each once."""
    found: dict[str, None] = {}
    for spec in filter(None, map(config.provider, providers)):
        if (place := in_clear_text(spec.server)) is not None:
            proxy = proxy_for(spec.server, config.network)
            found[place if proxy is None else f"{place}, through the proxy {proxy.url}"] = None
    return list(found)
