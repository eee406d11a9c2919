"""A workflow that drafts and reviews one document per item; `issue` and `lld` are two of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agentos.decisions import Question
from agentos.discovery.labels import with_labels
from agentos.discovery.local import Folder, list_files, pick_files
from agentos.model import Item
from agentos.settings import Settings
from agentos.workflows.registry import ON_GITHUB, ItemContext, ItemSource, Tools

if TYPE_CHECKING:
    from langgraph.graph import StateGraph

    from agentos.github.client import GitHub
    from agentos.wire import Ended


@dataclass(frozen=True, kw_only=True)
class ReviewedWorkflow:
    """What differs between the workflows."""

    name: Literal["issue", "lld"]
    prefix: str
    source_name: str  # what a person calls an item; also the first file of its lineage
    source_setting: str  # which setting names the folder of items
    id_of: Callable[[str], str]  # from a file's stem to the item's id
    output: Callable[[Mapping[str, str], Item], Path]  # where an item's approved document goes
    remote: bool = False  # whether its items can be issues on GitHub
    filed: bool = False  # whether its documents become issues on GitHub

    def source(self, settings: Settings, *, github: "GitHub | None" = None) -> ItemSource:
        if self.remote and github is not None:
            return ItemSource(
                what=f"{self.source_name}s", place=f"{github.repository.full_name}{ON_GITHUB}", remote=True
            )
        return ItemSource(what=f"{self.source_name}s", place=getattr(settings, self.source_setting))

    def discover(
        self, worktree: Path, settings: Settings, wanted: Sequence[str], *, github: "GitHub | None" = None
    ) -> tuple[Item, ...]:
        if self.remote and github is not None:
            from agentos.discovery.remote import list_issues, read_issues  # noqa: PLC0415

            if wanted:
                return read_issues(github, wanted, workflow=self.name, prefix=self.prefix)
            return list_issues(github, settings.label, workflow=self.name, prefix=self.prefix)
        place = self.folder(worktree, settings)
        if wanted:
            return pick_files(place, wanted, what=self.source_name)
        return with_labels(list_files(place), settings.label, place=place.path, what=self.source_name)

    def folder(self, worktree: Path, settings: Settings) -> Folder:
        """Return the folder that holds its items as files."""
        return Folder(
            worktree=worktree,
            path=getattr(settings, self.source_setting),
            workflow=self.name,
            prefix=self.prefix,
            id_of=self.id_of,
        )

    def prepare(self, worktree: Path, settings: Settings) -> dict[str, str]:
        from agentos.workflows.documents import load_template  # noqa: PLC0415 - a Markdown parser, for runs only

        return {self.name: load_template(worktree, self.name, getattr(settings, f"{self.name}_template"))}

    def target(self, item: Item, folders: Mapping[str, str]) -> Path:
        """Return where an item's approved document goes, relative to the worktree."""
        return self.output(folders, item)

    def build(self, context: ItemContext, tools: Tools) -> "StateGraph[Any, Any, Any, Any]":
        from agentos.workflows.loop import DocumentTarget, build_loop  # noqa: PLC0415 - LangGraph, in workers only

        output = self.target(context.item, context.folders)
        document = DocumentTarget(kind=self.name, source_name=self.source_name, output=output)
        return build_loop(document, context, tools)

    def start(self) -> dict[str, Any]:
        from agentos.workflows.state import start_state  # noqa: PLC0415

        return dict(start_state())

    def ending(self, state: Mapping[str, Any], held: Mapping[str, Any] | None) -> "Ended":
        from agentos.wire import Ended  # noqa: PLC0415 - pydantic, in workers only

        ledger = state.get("ledger") or {}
        about: dict[str, Any] = {
            "reviews": state.get("reviews", 0),
            "noted": state.get("noted", 0),
            "verdict": state.get("verdict"),
            "questions": [str(one) for row in ledger.get("questions", ()) if (one := Question(**row)).open],
            "dropped": state.get("dropped", []),
        }
        if held is not None:
            return Ended(status=held["status"], error=held["reason"], **about)
        if "output" in state:
            approved = {"output": state["output"], "text_hash": state.get("text_hash", "")}
            return Ended(status="approved", **approved, **about)
        return Ended(status="failed", error="the graph stopped before it reached an end", **about)
