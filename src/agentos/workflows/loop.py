"""The loop of both workflows: load, draft, gate, review, judge, and back until approved. Worker process.

    load -> draft -> gate -> review -> judge -> finalize
              ^        |                 |
              +--------+--- (revise) ----+--> hold: waits for a person or a later run

A paid call has a node to itself (draft, review), so that its result is saved before anything is done with it.
Every other node can run twice with the same result.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from agentos.discovery.hidden_text import shown_text
from agentos.files_changed import WrongPath, added_in, changes_in, check_paths, marked_headings
from agentos.model import counted
from agentos.review import ParsedReview, Verdict, read_reply, render_review, review_schema, structured_review
from agentos.stamp import MOCK, author, split, text_hash
from agentos.store.documents import Author, find_document, other_documents, put_in_place
from agentos.store.lineage import Lineage, file_name
from agentos.workflows.documents import with_log
from agentos.workflows.gates import check_draft
from agentos.workflows.prompts import (
    Earlier,
    Material,
    draft_prompt,
    review_prompt,
    revise_prompt,
    shipped_template,
)
from agentos.workflows.registry import ItemContext, Tools
from agentos.workflows.routing import NextNode, after_gate, after_review, from_hold, new_allowance, unheard
from agentos.workflows.state import LoopState, start_state

Kind = Literal["issue", "lld"]

_WRITTEN = {Author.EDITED: "edited by a person", Author.FOREIGN: "not written by agentos"}


@dataclass(frozen=True, kw_only=True)
class DocumentTarget:
    """What differs between the two workflows: names, and where the approved document goes."""

    kind: Kind
    source_name: str  # "issue" or "brief": the name of the first file in the lineage
    output: Path  # where the approved document goes, relative to the worktree


def build_loop(
    document: DocumentTarget, context: ItemContext, tools: Tools
) -> StateGraph[Any, Any, Any, Any]:
    """Make the graph of one item."""
    return _graph(_Nodes(document, context, tools))


def _graph(nodes: "_Nodes | _Rehearsal") -> StateGraph[Any, Any, Any, Any]:
    def node(name: str) -> Any:
        # LangGraph searches the byte code of a node's function for other graphs: 10 ms for the real ones.
        return lambda state: getattr(nodes, name)(state)  # noqa: PLW0108

    graph: StateGraph[Any, Any, Any, Any] = StateGraph(LoopState)
    graph.add_node("load", node("load"), destinations=("draft", "gate"))
    graph.add_node("draft", node("draft"))
    graph.add_node("gate", node("gate"), destinations=("draft", "review", "hold"))
    graph.add_node("review", node("review"))
    graph.add_node("judge", node("judge"), destinations=("draft", "review", "finalize", "hold"))
    graph.add_node("hold", node("hold"), destinations=("draft", "gate", "review", "finalize"))
    graph.add_node("finalize", node("finalize"), destinations=("draft", "gate", END))
    graph.add_edge(START, "load")
    graph.add_edge("draft", "gate")
    graph.add_edge("review", "judge")
    return graph


def warm_up(kind: Kind) -> None:
    """Do once, before workers are forked, what each worker would otherwise have to do first."""
    review_schema(kind)
    shipped_template(kind)
    draft_prompt(kind, item_id="1", label="", title="", source_text="", material=Material(template=""))
    check_draft(kind, "# Draft", item_id="1")
    graph = _graph(_Rehearsal()).compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "rehearsal"}}
    for _ in graph.stream(start_state(), config, stream_mode="tasks", durability="sync"):
        pass
    graph.get_state(config)


class _Rehearsal:
    """Walks through the graph without doing anything."""

    def load(self, _state: LoopState) -> Command[str]:
        return Command(update={"lineage": ""}, goto="draft")

    def draft(self, _state: LoopState) -> LoopState:
        return {"draft": ""}

    def gate(self, _state: LoopState) -> Command[str]:
        return Command(update={"draft": ""}, goto="review")

    def review(self, _state: LoopState) -> LoopState:
        return {"reply": ""}

    def judge(self, _state: LoopState) -> Command[str]:
        return Command(update={"log": []}, goto="finalize")

    def finalize(self, _state: LoopState) -> Command[str]:
        return Command(update={"output": ""}, goto=END)


class _Nodes:
    def __init__(self, document: DocumentTarget, context: ItemContext, tools: Tools) -> None:
        self.document = document
        self.context = context
        self.tools = tools
        item = context.item
        self.lineage = Lineage(
            worktree=context.worktree,
            folder=context.folders["lineage"],
            name=context.trail or f"{item.id}-{item.workflow}",
        )
        self.template = context.templates[document.kind]
        self.about: dict[str, Any] = {
            "item_id": item.id,
            "label": item.label,
            "title": item.title,
            "source_text": item.text,
            "material": Material(
                template=self.template,
                rules=context.rules,
                language=context.language,
                repository=context.repository,
                fence_secret=context.fence_secret,
            ),
        }

    def load(self, state: LoopState) -> Command[str]:
        """Begin the lineage; keep the document that is there, and revise it if that is asked."""
        del state  # nothing is known yet
        item, output = self.context.item, self.document.output
        found = find_document(self.context.worktree, output, item.label, self.lineage)
        mocked = author(dict(self.context.models)) == MOCK
        name = self.lineage.begin(
            self.document.source_name, item.as_written, "" if mocked else self.context.run_id
        )
        update: LoopState = {"lineage": name, "trail": 1}
        if (
            found is not None
            and found.text is not None
            and not (found.by_mock and found.author is Author.OURS)
        ):
            kind = "replaced" if found.author is Author.OURS else "edited"
            kept = self.lineage.keep(kind, found.text)
            update["trail"] = 2
            update["seen"] = text_hash(found.text)
            if kind == "edited":
                self.tools.say(f"{output} was {_WRITTEN[found.author]}; kept as {kept} in the lineage")
        if found is None or not self.context.revise:
            return Command(update=update, goto="draft")
        update["basis"] = found.basis
        if found.stamp is not None and found.stamp.input not in {"", item.input_hash}:
            source = self.lineage.source_with(found.stamp.input) or ""
            update["old_source"] = shown_text(source) if item.remote else source
        notes = self.context.notes
        if notes and not any(note.text for note in notes):
            # A person wants the document reviewed as it is.
            return Command(
                update=update | {"draft": found.basis, "noted": max(note.id for note in notes)}, goto="gate"
            )
        return Command(update=update, goto="draft")

    def _edits(self, state: LoopState, *, asked: bool) -> LoopState:
        """If a person edited the document since it was last read, it becomes the draft.

        `asked`: the person wants the document reviewed as it is, edited since or not.
        """
        output = self.document.output
        found = find_document(self.context.worktree, output, self.context.item.label, self.lineage)
        if found is None or found.text is None or found.author is Author.OURS:
            return {}
        seen = text_hash(found.text)
        if seen == state.get("seen") and not asked:
            return {}
        kept = self.lineage.keep("edited", found.text)
        self.tools.say(f"{output} was {_WRITTEN[found.author]}; kept as {kept} in the lineage")
        return {
            "draft": found.basis,
            "basis": found.basis,
            "seen": seen,
            "trail": self.lineage.next_number() - 1,
        }

    def _earlier(self, state: LoopState) -> Earlier:
        return Earlier(document=state.get("basis", ""), source=state.get("old_source", ""))

    def _note(self, state: LoopState) -> str:
        return "\n\n".join(
            filter(None, [state["note"], *(note.text for note in unheard(state, self.context))])
        )

    def _take_notes(self, state: LoopState) -> LoopState:
        """Take up the notes that a person left since then; each note goes into the review log."""
        notes = unheard(state, self.context)
        if not notes:
            return {}
        entries = [
            {"decision": "revise", "by": note.by, "at": note.at, "note": note.text}
            for note in notes
            if note.text
        ]
        return {
            "note": self._note(state),
            "noted": max(note.id for note in notes),
            "log": [*state["log"], *entries],
        }

    def draft(self, state: LoopState) -> LoopState:
        number = state["drafts"] + 1
        if number == 1 and not state.get("basis"):
            prompt = draft_prompt(
                self.document.kind, **self.about, note=self._note(state), earlier=self._earlier(state)
            )
        else:
            prompt = revise_prompt(
                self.document.kind,
                **self.about,
                draft=state["draft"] or state.get("basis", ""),
                findings=state["findings"],
                missing=state["missing"],
                paths=state.get("wrong_paths", []),
                note=self._note(state),
                earlier=self._earlier(state),
            )
        reply = self.tools.call("drafter", number=number, prompt=prompt)
        return self._take_notes(state) | {"drafts": number, "draft": reply.text}

    def gate(self, state: LoopState) -> Command[str]:
        trail = state["trail"] + 1
        self.lineage.write(trail, "draft", state["draft"])
        result = check_draft(
            self.document.kind, state["draft"], item_id=self.context.item.id, template=self.template
        )
        missing = list(result.missing)
        paths = self._wrong_paths(result.draft)
        wrong = [str(path) for path in paths]
        self.tools.audit(
            "gate",
            draft=state["drafts"],
            missing=missing,
            paths=wrong,
            notes=list(result.notes),
            lineage=state["lineage"],
            file=file_name(trail, "draft"),
        )
        name = f"draft {state['drafts']}" if state["drafts"] else "the existing document"
        for note in result.notes:
            self.tools.say(f"{name}: {note}")
        for exist, said in (
            (False, "names files that do not exist"),
            (True, "adds files that exist already"),
        ):
            if listed := [path.path if exist else str(path) for path in paths if path.exists is exist]:
                self.tools.say(f"{name} {said}: {', '.join(listed)}")
        step = after_gate(state, self.context, missing, wrong)
        if missing:
            self.tools.say(f"{name} is missing: {', '.join(missing)}")
        elif step.goto == "review":
            self.tools.say(f"{name} passed the gate")
        return _command(step, {"trail": trail, "draft": result.draft})

    def _wrong_paths(self, draft: str) -> tuple[WrongPath, ...]:
        """The paths of a design that do not fit the repository; only then are other designs read."""
        if self.document.kind != "lld" or not self.context.files:
            return ()
        headings = marked_headings(self.template)
        changes = changes_in(draft, headings)
        if not check_paths(changes, self.context.files):
            return ()
        others = other_documents(self.context.worktree, self.document.output)
        return check_paths(changes, self.context.files, added_in(others, headings))

    def review(self, state: LoopState) -> LoopState:
        number = state["reviews"] + 1
        prompt = review_prompt(
            self.document.kind,
            **self.about,
            draft=state["draft"],
            earlier_findings=state["findings"],
            note=self._note(state),
            paths=state.get("wrong_paths", []),
            earlier=self._earlier(state),
        )
        reply = self.tools.call(
            "reviewer", number=number, prompt=prompt, schema=review_schema(self.document.kind)
        )
        return {"reviews": number, "reply": reply.text, "reviewer": reply.model}

    def judge(self, state: LoopState) -> Command[str]:
        reading = read_reply(state["reply"], self.document.kind)
        trail = state["trail"] + 1
        self.lineage.write(trail, "verdict", self._verdict_document(state["reply"], reading))
        blocking = [finding for finding in reading.findings if finding.tier < 3]
        self.tools.audit(
            "verdict",
            review=state["reviews"],
            verdict=reading.verdict.value,
            reason=reading.reason,
            findings=[finding.as_dict() for finding in reading.findings],
            questions=list(reading.questions),
            model=state["reviewer"],
            lineage=state["lineage"],
            file=file_name(trail, "verdict"),
        )
        outcome = (
            f": {reading.reason}"
            if reading.reason
            else f", {counted(len(blocking), 'finding')}"
            if blocking
            else ""
        )
        self.tools.say(f"review {state['reviews']}: {reading.verdict.value}{outcome}")
        entry = {
            "review": state["reviews"],
            "draft": state["drafts"],
            "verdict": reading.verdict.value,
            "model": state["reviewer"],
            "findings": [f"Tier {one.tier} {one.category}: {one.title or one.text[:80]}" for one in blocking],
        }
        step = after_review(state, self.context, reading)
        return _command(step, {"trail": trail, "log": [*state["log"], entry]})

    def hold(self, state: LoopState) -> Command[str]:
        """Wait until a person or a later run makes it possible to continue; executed again in each run."""
        if unheard(state, self.context):
            return self._sent_back(state, new_allowance(state))
        step = from_hold(state, self.context)
        if step is None:
            interrupt(state["held"])
        assert step is not None
        decision = self.context.decision
        if decision is None or state["held"]["status"] != "discuss":
            return _command(step)
        self.tools.audit("decision", **decision.model_dump())
        self.tools.say(f"decided: {decision.answer}" + (f" ({decision.note})" if decision.note else ""))
        entry = {"decision": decision.answer, "by": decision.by, "at": decision.at, "note": decision.note}
        edits = self._edits(state, asked=False) if step.goto == "draft" else {}
        return _command(step, edits | {"log": [*state["log"], entry]})

    def _sent_back(self, state: LoopState, reset: LoopState) -> Command[str]:
        """Continue an item that a person sent back, with notes or for a review of their edits."""
        notes = unheard(state, self.context)
        only_asked = not any(note.text for note in notes)
        edits = self._edits(state, asked=only_asked)
        if only_asked and edits:
            heard: LoopState = {"noted": max(note.id for note in notes)}
            return Command(update=reset | edits | heard, goto="gate")
        return Command(update=reset | edits, goto="draft")

    def finalize(self, state: LoopState) -> Command[str]:
        output = self.document.output
        document = with_log(self.context, state["draft"], state["log"], state["findings"])
        approved = text_hash(split(document).body)
        done: LoopState = {"trail": state["trail"] + 1, "output": str(output), "text_hash": approved}
        if self.lineage.is_done(state["lineage"]):
            # A run was interrupted after everything was in place; what a person changed since then stays.
            return Command(update=done, goto=END)
        if notes := unheard(state, self.context):
            # A run was interrupted after the approval, and a person has sent the item back since then.
            back = self._sent_back(state, {"allowance_from": state["reviews"], "repeats": 0})
            if back.goto == "gate" or any(note.text for note in notes):
                return back
        kept = put_in_place(
            self.context.worktree, output, document, label=self.context.item.label, lineage=self.lineage
        )
        for name in kept:
            if "edited" in name:
                self.tools.say(
                    f"{output} was edited in the meantime; that version is kept as {name} in the lineage"
                )
        self.lineage.finish(state["lineage"], state["trail"] + 1, state["draft"])
        return Command(update=done, goto=END)

    def _verdict_document(self, reply: str, reading: ParsedReview) -> str:
        review = structured_review(reply)
        if review is not None:
            return render_review(review, kind=self.document.kind, title=self.context.item.title)
        if reading.verdict is Verdict.UNREADABLE:
            return f"<!-- Not a readable review: {reading.reason.replace('--', '- -')} -->\n\n{reply}\n"
        return reply


def _command(step: NextNode, also: LoopState | None = None) -> Command[str]:
    """Return the step as a LangGraph command, with what else the node has to save."""
    return Command(update=(also or {}) | step.update, goto=step.goto)
