"""A whole run of the coordinator's loop in memory: scripts for workers, a number for the time."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from agentos import wire
from agentos.console.console import Console
from agentos.coordinator.coordinator import ParallelCoordinator
from agentos.coordinator.job import ParallelRunConfig
from agentos.coordinator.keys import KeyRing, KeyService
from agentos.coordinator.plan import PlanAction, PlannedItem
from agentos.coordinator.recorder import RunRecorder
from agentos.credentials.pool import KeySpec
from agentos.engine.fake import FakeEngine, Receive, Say, Script, WaitFor
from agentos.engine.fake import Step as Act
from agentos.events.fields import time_text
from agentos.model import CallError, Item, Usage
from agentos.report.summary import ItemFiles, ItemRow, Summary, item_row
from agentos.secret import Secret
from agentos.spending.spending import Spending
from agentos.tracing.run import RunTrace
from agentos.wire import (
    CallSettled,
    Drain,
    Ended,
    Hello,
    LeaseGranted,
    LeaseRefused,
    LeaseWanted,
    NodeStarted,
)

if TYPE_CHECKING:
    from agentos.coordinator.scheduler import Stop
    from agentos.store.home import Home
    from agentos.store.key_health import HealthFile
    from agentos.store.records import Records
    from agentos.store.run_folder import RunFolder

Worker = Callable[[wire.Job], Script]
MODEL = "open:m"
EPOCH = 1_800_000_000.0  # when the engine's clock is 0
KEYS = (KeySpec(id="key-1", provider="open"), KeySpec(id="key-2", provider="open"))


class Interrupted(Exception):  # noqa: N818
    """The script was asked to stop."""


def call(  # a part of a script
    number: int = 1,
    *,
    seconds: float = 1.0,
    tokens: int = 10,
    error: CallError | Callable[[], CallError | None] | None = None,
    tries: int = 0,
    after: int = 0,
    **more: Any,
) -> Any:
    """Ask for a lease, make the call, settle it; give back the lease's number.

    An error that can be called is asked when the call goes out.
    """
    yield Say(
        LeaseWanted(
            number=number,
            provider="open",
            model="m",
            tokens=tokens,
            prompt_tokens=tokens,
            role="drafter",
            tries=tries,
            after=after,
        )
    )
    told = yield Receive()
    if not isinstance(told, LeaseGranted):
        raise Interrupted(told.reason if isinstance(told, LeaseRefused) else "")
    if callable(error):
        error = error()
        seconds = 0.0 if error else seconds
    stopped = yield WaitFor(seconds)
    if isinstance(stopped, Drain):
        yield Say(CallSettled(lease=told.lease, seconds=seconds, error=CallError.GIVEN_UP))
        raise Interrupted
    kept = None if error else wire.Kept(journal_id="life", number=number)
    yield Say(
        CallSettled(
            lease=told.lease,
            seconds=seconds,
            tokens_in=0 if error else tokens,
            error=error,
            kept=kept,
            **more,
        )
    )
    return told.lease


def worker(*parts: Callable[[], Any], **ending: Any) -> Worker:
    """A worker that takes the parts one after the other and ends as told; it stops when it is asked to."""

    def script(job: wire.Job) -> Script:
        yield Say(Hello(pid=1, resumed=job.attempt > 1))
        yield Say(NodeStarted(node="draft", reviews=0))
        try:
            for part in parts:
                yield from part()
        except Interrupted as exc:
            yield Say(Ended(status="interrupted", error=str(exc) or None))
            return
        yield Say(Ended.model_validate({"status": "approved", "verdict": "APPROVED", "reviews": 1} | ending))

    return script


def step(act: Act) -> Callable[[], Any]:
    """A part of a script that is one step."""

    def part() -> Any:
        told = yield act
        if isinstance(told, Drain):
            raise Interrupted

    return part


@dataclass
class MemoryFolder:
    """A run's folder that is only remembered."""

    run_id: str = "run-1"
    path: Path = Path("/nowhere/logs/parallel/run-1")
    events: list[dict[str, Any]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    audits: list[dict[str, Any]] = field(default_factory=list)
    output: list[tuple[str, str]] = field(default_factory=list)
    written: dict[str, str] = field(default_factory=dict)

    def event(self, record: dict[str, Any]) -> None:
        self.events.append(record)

    def audit(self, item_id: str, record: dict[str, Any]) -> None:
        self.audits.append(record)

    def coordinator_line(self, line: str) -> None:
        self.lines.append(line)

    def item_lines(self, label: str, lines: Iterable[str], stream: str) -> None:
        self.output += [(label, line) for line in lines]

    def done_with(self, item_id: str, label: str) -> None: ...

    def write(self, name: str, text: str) -> None:
        self.written[name] = text


class MemoryRecords:
    """Records that take everything and remember the paid calls."""

    mock = False

    def __init__(self) -> None:
        self.paid: set[tuple[str, str, int, str]] = set()

    def pay(self, paid: Any) -> bool:
        key = (paid.journal_id, paid.role, paid.number, paid.item)
        new = key not in self.paid
        self.paid.add(key)
        return new

    def __getattr__(self, _name: str) -> Callable[..., None]:
        return lambda *_args, **_how: None


class NoTree:
    def exists(self, _path: Path) -> bool:
        return False

    def remove(self, _path: Path) -> None: ...

    def entries(self, path: Path) -> list[Any]:
        raise FileNotFoundError(path)


class NoHome:
    """A home without files."""

    tree = NoTree()
    runs = Path("/nowhere/logs/parallel")

    def checkpoint(self, workflow: str, item: str, *, mock: bool) -> Path:
        return Path(f"/nowhere/{workflow}-{item}.db")


class NoHealth:
    """Nothing is known of keys from earlier runs."""

    def __init__(self) -> None:
        self.saved: list[Any] = []

    def changed(self) -> bool:
        return False

    def merge(self, news: Any) -> None:
        self.saved.append(news)


class Prices:
    """One USD for each token that is sent."""

    def cost(self, _provider: str, _model: str, usage: Usage, /) -> float | None:
        return float(usage.tokens_in)


class LoopRun:
    """One run: `scripts` are those of each item by its id, one a start."""

    def __init__(
        self,
        scripts: Mapping[str, Sequence[Worker | None]],
        *,
        keys: Sequence[KeySpec] = KEYS,
        stubborn: frozenset[str] = frozenset(),
        spending: Mapping[str, Any] | None = None,
        engine: type[FakeEngine] = FakeEngine,
        **config: Any,
    ) -> None:
        self.engine = engine(
            {f"LLD-{item}": starts for item, starts in scripts.items()},
            stubborn=frozenset(f"LLD-{item}" for item in stubborn),
        )
        self.folder = MemoryFolder()
        self.records = MemoryRecords()
        self.spending = Spending(prices=Prices(), **{"outputs": {"drafter": 1}} | dict(spending or {}))
        console = Console(how="quiet", json=False, environment={})
        given: dict[str, Any] = {"drafter": MODEL, "reviewer": MODEL, "parallel": len(scripts)} | config
        run = ParallelRunConfig(
            base_dir=Path("/nowhere"), worktree=Path("/nowhere/repo"), workflow="lld", **given
        )
        self.recorder = RunRecorder(
            cast("Home", NoHome()),
            records=cast("Records", self.records),
            folder=cast("RunFolder", self.folder),
            console=console,
            clock=self.engine.clock,
            stamp=lambda: time_text(EPOCH + self.engine.clock()) or "",
        )
        secrets = {key.id: Secret(key.id, f"sk-{key.id}-12345") for key in keys}
        ring = KeyRing(specs=tuple(keys), secrets=secrets)
        self.health = NoHealth()
        self.keys = KeyService(
            ring, cast("HealthFile", self.health), run_id="run-1", call_timeout=600.0, refuse_every=None
        )
        self.coordinator = ParallelCoordinator(
            run,
            [PlannedItem(item=_item(one), step=PlanAction.START) for one in scripts],
            engine=self.engine,
            keys=self.keys,
            recorder=self.recorder,
            console=console,
            signals=self.engine.signals,
            spending=self.spending,
            trace=RunTrace(
                run_id="run-1",
                workflow="lld",
                parallel=run.parallel,
                items=len(scripts),
                write=None,
                environment={},
                complain=self.folder.lines.append,
            ),
            clock=self.engine.clock,
        )
        self.stopped: Stop | None = None

    def go(self) -> "LoopRun":
        self.stopped = self.coordinator.run()
        assert self.engine.running == (), "no worker is left"
        return self

    def row(self, item: str = "1") -> ItemRow:
        return item_row(self.recorder.state.items[item], ItemFiles())

    def statuses(self) -> dict[str, str]:
        return {item.id: item.status for item in self.recorder.state.items.values()}

    def summary(self) -> Summary:
        entries = [PlannedItem(item=_item(one), step=PlanAction.START) for one in self.recorder.state.items]
        pool = self.keys.snapshot(self.engine.clock())
        return self.recorder.close(entries, pool, self.stopped and self.stopped.value)

    def waits(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.recorded("waiting") if event["kind"] == kind]

    def recorded(self, name: str) -> list[dict[str, Any]]:
        return [event for event in self.folder.events if event["event"] == name]


def _item(id_: str) -> Item:
    return Item(
        workflow="lld", id=id_, label=f"LLD-{id_}", title="T", text="text", source=f"issues/active/{id_}.md"
    )
