"""What a workflow is, and finding the registered ones. Imports nothing heavy: the dry run needs it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from agentos.decisions import Decision
from agentos.errors import ConfigError, UsageError
from agentos.model import Item, available
from agentos.repo_map.parts import NO_MAP, Range, Reading, RepositoryMap
from agentos.settings import Settings

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from langgraph.graph import StateGraph

    from agentos.github.client import GitHub
    from agentos.llm.provider import Reply, Role
    from agentos.wire import Ended
    from agentos.workflows.prompts import Prompt

GROUP = "agentos.workflows"
# The shipped workflows are known without a search through the installed packages, which is slow.
SHIPPED = {"issue": "agentos.workflows.issue", "lld": "agentos.workflows.lld"}
ON_GITHUB = " on GitHub"


class Tools(Protocol):
    """What the worker gives a graph: models behind leases, and a place for records."""

    def call(
        self,
        role: "Role",
        *,
        number: int,
        prompt: "Prompt",
        schema: dict[str, Any] | None = None,
        nth: int | None = None,
    ) -> "Reply":
        """Make the role's call with that number, from 1; a call that was made before is not made again.

        The schema's title names what is asked; `nth` counts the calls that ask for the same.
        """
        ...

    def look_up(
        self, *, wishes: Sequence[str] = (), names: Sequence[str] = (), known: Sequence[Range], tokens: int
    ) -> Reading:
        """Read parts of the repository: what is wished for, and the definitions of names."""
        ...

    def audit(self, kind: str, **fields: Any) -> None:
        """Add a record to the item's audit trail."""
        ...

    def say(self, text: str) -> None:
        """Print a line for the person who is watching."""
        ...


@dataclass(frozen=True, kw_only=True)
class ItemContext:
    """The item a graph is built for, and its limits."""

    item: Item
    worktree: Path
    run_id: str
    folders: Mapping[str, str] = field(default_factory=dict)
    templates: Mapping[str, str] = field(default_factory=dict)
    repository: RepositoryMap = NO_MAP  # what both models get to know about the repository
    look_rounds: int = 0  # how often the drafter may ask to read
    look_tokens: int = 0  # that it may read in all
    files: Sequence[str] = ()  # all tracked files; empty: unknown
    rules: str = ""  # the team's own
    language: str = ""  # that documents are written in; empty: as the template
    fence_secret: str = field(
        default="", repr=False
    )  # of the run; prompts derive the codes of quotations from it
    max_iterations: int = 5
    retry_failed: bool = False
    decisions: Sequence[Decision] = ()  # of people, as far as no document has them
    revise: bool = False  # the first draft revises the existing document
    trail: str = ""  # the item's lineage folder, if not the usual one
    models: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ItemSource:
    """Where the items of a run come from, as a person sees it."""

    what: str  # "issues"
    place: str  # "issues/active", "acme/payroll on GitHub"
    remote: bool = False

    def __str__(self) -> str:
        return f"{self.what} from {self.place}"


class Workflow(Protocol):
    """A graph that can be run over many items."""

    @property
    def name(self) -> str: ...

    @property
    def prefix(self) -> str: ...

    @property
    def filed(self) -> bool:
        """Whether approved documents are filed as issues on GitHub."""
        ...

    def discover(
        self, worktree: Path, settings: Settings, wanted: Sequence[str], *, github: "GitHub | None" = None
    ) -> tuple[Item, ...]:
        """List the wanted items, or all if none is named; from GitHub if it is given."""
        ...

    def prepare(self, worktree: Path, settings: Settings) -> dict[str, str]:
        """Read and check what every item needs, such as templates; before any work, in the coordinator."""
        ...

    def build(self, context: ItemContext, tools: Tools) -> "StateGraph[Any, Any, Any, Any]":
        """Build the graph of one item; called in its worker."""
        ...

    def start(self) -> dict[str, Any]:
        """Return the state that a new item begins with."""
        ...

    def ending(self, state: Mapping[str, Any], held: Mapping[str, Any] | None) -> "Ended":
        """Say how the item ended, from the graph's last state and the value it was interrupted with."""
        ...


def source_of(flow: Workflow, settings: Settings, github: "GitHub | None") -> ItemSource:
    """Say where the items come from; a workflow without a `source` method is its own source."""
    find = getattr(flow, "source", None)
    if find is None:
        return ItemSource(what="items", place=f"workflow {flow.name}")
    found: ItemSource = find(settings, github=github)
    return found


@cache
def registered() -> "Mapping[str, EntryPoint]":
    """Return the entry points of all workflows, by name."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - takes a tenth of the dry run

    return {entry.name: entry for entry in entry_points(group=GROUP)}


def workflow(name: str) -> Workflow:
    """Find a registered workflow by name."""
    if name in SHIPPED:
        shipped: Workflow = import_module(SHIPPED[name]).WORKFLOW
        return shipped
    found = registered()
    if name not in found:
        raise UsageError(f"No workflow {name!r}. {available(sorted(found), none='There are no workflows.')}")
    try:
        loaded: Workflow = found[name].load()
    except Exception as exc:
        raise ConfigError(f"Workflow {name!r} ({found[name].value}) cannot be loaded: {exc}.") from exc
    return loaded
