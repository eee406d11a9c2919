"""What the coordinator knows about one item during a run."""

from dataclasses import dataclass

from agentos import wire
from agentos.coordinator.plan import PlannedItem


@dataclass(kw_only=True, eq=False)
class RunningItem:
    """One item of the run, from its first start to its end."""

    entry: PlannedItem
    attempt: int = 0
    alive: bool = False  # it has a worker
    greeted: bool = False  # its worker has said hello
    queued: bool = False  # no machine has taken it yet
    ended: wire.Ended | None = None  # the last message of its worker
    broken: str | None = None  # why its worker is ignored and the item fails
    over_budget: str | None = None  # why it must not make more calls in this run
    muted: bool = False  # its output goes only to the log: what remains are stack traces
    node: str = ""
    node_since: float | None = None
    reviews: int = 0
    detail: str = ""  # the key in use, or what it is waiting for
    until: float | None = None  # when that wait ends, if known
    idle_since: float | None = None  # since when it waits for a call to go out, whatever the reason
    idle: float = 0.0  # seconds that it waited so since its last answer, before that
    began: float | None = None  # its first start
    busy_seconds: float = 0.0  # in nodes

    @property
    def label(self) -> str:
        return self.entry.item.label

    @property
    def id(self) -> str:
        return self.entry.item.id

    def started(self, attempt: int, now: float) -> None:
        self.attempt = attempt
        self.began = now if self.began is None else self.began
        self.alive, self.greeted, self.queued, self.ended = True, False, False, None
        self.node, self.detail, self.until = "", "", None

    def gone(self, now: float) -> None:
        """Its worker is gone, so no node is running."""
        self.alive = False
        if self.node_since is not None:
            self.busy_seconds += now - self.node_since
            self.node_since = None

    def wants_call(self, now: float) -> None:
        """It asked for a call: from now on it waits."""
        if self.idle_since is None:
            self.idle_since = now

    def stops_waiting(self, now: float) -> None:
        """Its call goes out, or its worker is gone."""
        if self.idle_since is not None:
            self.idle += now - self.idle_since
            self.idle_since = None

    def waits(self, detail: str, until: float | None = None) -> None:
        self.detail, self.until = detail, until
