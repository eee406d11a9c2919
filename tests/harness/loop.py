"""Runs the loop of one item in this process, with scripted models."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from agentos.decisions import Decision
from agentos.errors import StopRequested
from agentos.llm.mock_documents import answers
from agentos.llm.provider import Reply, Role
from agentos.model import Item
from agentos.repo_map.parts import Answer, Part, PartKind, Reading
from agentos.wire import Ended
from agentos.worker.checkpoint import open_checkpoint
from agentos.workflows.issue import WORKFLOW as ISSUE
from agentos.workflows.lld import WORKFLOW as LLD
from agentos.workflows.prompts import Prompt, shipped_template
from agentos.workflows.registry import ItemContext

FOLDERS = {"issues": "issues/active", "lld": "docs/lld/active", "lineage": "docs/lineage"}
OUTPUT = "docs/lld/active/LLD-42.md"
CONFIG: Any = {"configurable": {"thread_id": "LLD-42"}, "recursion_limit": 1000}
NODES = ("load", "draft", "gate", "review", "judge", "finalize")

ISSUE_DRAFT = """# Dark mode

## User Story

As a reader, I want a dark page, so that my eyes rest.

## Acceptance Criteria

- [ ] The page is dark.

## Definition of Done

- [ ] Tests.
"""


def lld(number: int = 1, reference: str = "#42") -> str:
    return (
        f"# LLD-42: Draft {number}\n\n**Issue:** {reference}\n\n"
        "## Context\n\nWhy it matters.\n\n## Proposed Changes\n\nWhat is done.\n"
    )


def found(title: str, category: str = "Cost", text: str = "") -> dict[str, str]:
    return {
        "category": category,
        "title": title,
        "text": text or f"What is wrong with {title}.",
        "recommendation": f"Mend {title}.",
    }


def review(
    verdict: Literal["APPROVED", "REVISE", "DISCUSS"],
    *,
    tier1: Sequence[dict[str, str]] = (),
    tier2: Sequence[dict[str, str]] = (),
    suggestions: Sequence[str] = (),
    questions: Sequence[str] = (),
    **earlier: str,
) -> str:
    return json.dumps(
        {
            "identity": "The reviewer.",
            "pre_flight": {"passed": True, "note": ""},
            "earlier": [
                {"number": number, "state": state, "where": "section 2"} for number, state in earlier.items()
            ],
            "summary": "A summary.",
            "tier1": list(tier1),
            "tier2": list(tier2),
            "suggestions": list(suggestions),
            "questions": list(questions),
            "verdict": verdict,
        }
    )


APPROVED = review("APPROVED")
GARBAGE = "I would say: looks good to me!"
ASKED = review("DISCUSS", tier2=[found("storage", "Architecture")], questions=["Which database?"])


def revise(*titles: str) -> str:
    return review("REVISE", tier1=[found(title) for title in titles])


class Tools:
    """Drafts and reviews as told; the last of each repeats. Can be cut off at any of its uses."""

    def __init__(
        self,
        reviews: Sequence[str] = (APPROVED,),
        drafts: Sequence[str] | None = None,
        cut_at: int | None = None,
        *,
        resolves: bool = True,  # every review answers each open finding as resolved
        looks: Sequence[str] = (),  # replies when the drafter is asked what it wants to read
        check: str = '{"wishes": []}',  # the same for the reviewer
    ) -> None:
        self.resolves = resolves
        self.looks, self.check = looks, check
        self.asked: list[dict[str, Any]] = []  # to read
        self.texts: dict[str, Callable[[int], str]] = {
            "drafter": lambda number: lld(number) if drafts is None else drafts[min(number, len(drafts)) - 1],
            "reviewer": lambda number: reviews[min(number, len(reviews)) - 1],
        }
        self.cut_at = cut_at
        self.uses = 0
        self.calls: list[str] = []
        self.prompts: dict[str, Prompt] = {}
        self.records: list[dict[str, Any]] = []
        self.said: list[str] = []

    def _use(self) -> None:
        self.uses += 1
        if self.uses == self.cut_at:
            raise StopRequested

    def call(
        self,
        role: Role,
        *,
        number: int,
        prompt: Prompt,
        schema: dict[str, Any] | None = None,
        nth: int | None = None,
    ) -> Reply:
        self._use()
        asks = "draft" if schema is None else schema["title"]
        assert asks in ({"draft", "look"} if role == "drafter" else {"review", "look"})
        name = f"{role} {number}" if asks != "look" else f"{role} {number} looks"
        self.calls.append(name)
        self.prompts[name] = prompt
        if asks == "look":
            looks = self.looks[: nth or 1] if role == "drafter" else [self.check]
            return Reply(text=looks[-1], model=f"{role}-model", tokens_in=1, tokens_out=1)
        text = self.texts[role](nth or number)
        if self.resolves and role == "reviewer" and text.startswith('{"identity'):
            text = text.replace('"earlier": []', f'"earlier": {json.dumps(answers(prompt.text))}')
        return Reply(text=text, model=f"{role}-model", tokens_in=1, tokens_out=1)

    def look_up(self, **asked: Any) -> Reading:
        """Every wish and every known name has a text; a wish for ../x is refused."""
        self._use()
        self.asked.append(asked)
        wishes = asked.get("wishes", ())
        texts = [wish for wish in wishes if not wish.startswith("..")]
        return Reading(
            parts=tuple(
                Part(kind=PartKind.BODY, path=one, text=f"text of {one}\n", why="asked for", first=1, last=9)
                for one in (*texts, *(name for name in asked.get("names", ()) if "wrong" not in name))
            ),
            answers=tuple(Answer(wish=one, said="seen", refused=one not in texts) for one in wishes),
            absent=tuple(name for name in asked.get("names", ()) if "wrong" in name),
        )

    def audit(self, kind: str, **fields: Any) -> None:
        self._use()
        self.records.append({"kind": kind, **fields})

    def say(self, text: str) -> None:
        self._use()
        self.said.append(text)


@dataclass
class World:
    """A worktree and the checkpoint of its one item; each `run` is the life of one worker."""

    root: Path
    item: Item = field(
        default_factory=lambda: Item(
            workflow="lld",
            id="42",
            label="LLD-42",
            title="Login",
            text="# Login\n\nPlease.\n",
            source="issues/active/42.md",
        )
    )

    def run(
        self,
        tools: Tools,
        *,
        run_id: str = "run-1",
        stop_before: str | None = None,
        max_iterations: int = 5,
        retry_failed: bool = False,
        revise: bool = False,
        said: Sequence[Decision] = (),
        **more: Any,
    ) -> Ended:
        flow = LLD if self.item.workflow == "lld" else ISSUE
        context = ItemContext(
            item=self.item,
            worktree=self.root / "repo",
            run_id=run_id,
            folders=FOLDERS,
            templates={flow.name: more.pop("template", shipped_template(flow.name))},
            models=more.pop("models", {"drafter": "a:drafter", "reviewer": "b:reviewer"}),
            max_iterations=max_iterations,
            retry_failed=retry_failed,
            revise=revise,
            decisions=said,
            **more,
        )
        with open_checkpoint(self.root / "checkpoint.db", "LLD-1") as saved:
            graph = flow.build(context, tools).compile(
                checkpointer=saved.saver, interrupt_before=[stop_before] if stop_before else None
            )
            start: Any = None if saved.begun(CONFIG) else flow.start()
            for _ in graph.stream(start, CONFIG, stream_mode="tasks", durability="sync"):
                pass
            state = graph.get_state(CONFIG)
            held = state.interrupts[0].value if state.interrupts else None
            return flow.ending(state.values, held)

    def put_in_the_way(self) -> Path:
        """A person's own file where the document is to go."""
        path = self.root / "repo" / OUTPUT
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
        return path

    def files(self) -> dict[str, str]:
        """Every file; without what tells the runs apart: the names of finished trails."""
        repo = self.root / "repo"
        trail = re.compile(r"(?<=/done/42-lld)-[0-9a-f]{6}\b")
        return {
            trail.sub("", str(path.relative_to(repo))): trail.sub("", path.read_text("utf-8"))
            for path in sorted(repo.rglob("*"))
            if path.is_file()
        }

    def trail(self, where: str = "done") -> list[str]:
        name = f"{self.item.id}-{self.item.workflow}" + ("-*" if where == "done" else "")
        (folder,) = (self.root / "repo" / "docs" / "lineage" / where).glob(name)
        return sorted(path.name for path in folder.iterdir())


def decide(
    answer: Literal["approve", "revise"], *, reviews: int = 1, note: str = "", number: int = 1
) -> list[Decision]:
    asked = "Which database?"
    when = "2026-01-01T00:00:00Z"
    return [Decision(id=number, reviews=reviews, answer=answer, question=asked, text=note, by="ann", at=when)]
