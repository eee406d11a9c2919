"""The loop of both workflows: load, draft, gate, review, judge, and back until approved. Worker process.

    load -> draft -> gate -> review -> judge -> finalize
              ^        |                 |
              +--------+--- (revise) ----+--> hold: a person, or a later run, must say how to go on

Paid calls stand alone in their nodes (draft, review), so that their results are saved before anything is done
with them. Every other node can run twice with the same result.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from agentos.finding import identity
from agentos.model import counted
from agentos.review import Reading, Verdict, read_reply, render_review, review_schema, structured_review
from agentos.stamp import MOCK, author, text_hash
from agentos.store.documents import Author, find_document, put_in_place
from agentos.store.lineage import Lineage, file_name
from agentos.wire import NoteData
from agentos.workflows.documents import with_log
from agentos.workflows.gates import check_draft
from agentos.workflows.prompts import Earlier, draft_prompt, review_prompt, revise_prompt, shipped_template
from agentos.workflows.registry import ItemContext, Tools

Kind = Literal["issue", "lld"]

GATE_RETURNS = 3  # how often in a row a draft may go back for missing sections
UNREADABLE_REVIEWS = 3  # how many reviews in a row may be unreadable
NO_PROGRESS_REPEATS = 2  # how often the same findings may come back
_WRITTEN = {Author.EDITED: "edited by a person", Author.FOREIGN: "not written by agentos"}


class LoopState(TypedDict, total=False):
    """What is saved between nodes: plain values only, no secret."""

    lineage: str  # the trail's name when done
    trail: int  # numbered files written so far
    drafts: int
    draft: str
    missing: list[str]  # sections the gate did not find
    returns: int  # drafts sent back by the gate in a row
    reviews: int
    reply: str
    reviewer: str  # the model that gave the reply
    verdict: str
    findings: list[dict[str, Any]]  # still open
    repeats: int  # times in a row the same findings came back
    unreadable: int  # unreadable reviews in a row
    allowance_from: int  # reviews before the present allowance began
    note: str  # a person's word to both models
    noted: int  # the latest of a person's notes that was taken up
    basis: str  # the document that the first draft revises
    old_source: str  # the item's text that the basis was written for, if it was another
    seen: str  # hash of the document in its place when it was last looked at
    log: list[dict[str, Any]]  # a line a review, for the document's review log
    held: dict[str, Any]
    output: str


def start_state() -> LoopState:
    """What a new item begins with."""
    return {
        "drafts": 0,
        "draft": "",
        "missing": [],
        "returns": 0,
        "reviews": 0,
        "findings": [],
        "repeats": 0,
        "unreadable": 0,
        "allowance_from": 0,
        "note": "",
        "log": [],
    }


@dataclass(frozen=True, kw_only=True)
class Document:
    """What tells the two workflows apart: names, and where the approved document goes."""

    kind: Kind
    source_name: str  # "issue" or "brief": how the first file of the trail is called
    output: Path  # where the approved document goes, from the worktree


def build_loop(document: Document, context: ItemContext, tools: Tools) -> StateGraph[Any, Any, Any, Any]:
    """Make the graph of one item."""
    nodes = _Nodes(document, context, tools)
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(LoopState)
    graph.add_node("load", nodes.load, destinations=("draft", "gate"))
    graph.add_node("draft", nodes.draft)
    graph.add_node("gate", nodes.gate, destinations=("draft", "review", "hold"))
    graph.add_node("review", nodes.review)
    graph.add_node("judge", nodes.judge, destinations=("draft", "review", "finalize", "hold"))
    graph.add_node("hold", nodes.hold, destinations=("draft", "gate", "review", "finalize"))
    graph.add_node("finalize", nodes.finalize, destinations=("draft", "gate", END))
    graph.add_edge(START, "load")
    graph.add_edge("draft", "gate")
    graph.add_edge("review", "judge")
    return graph


def warm_up() -> None:
    """Do once, before workers are forked, what each of them would do on its first call."""
    kinds: tuple[Kind, ...] = ("issue", "lld")
    for kind in kinds:
        review_schema(kind)
        shipped_template(kind)
        draft_prompt(kind, item_id="1", label="", title="", source_text="", template="")
        check_draft(kind, "# Draft", item_id="1")


class _Nodes:
    def __init__(self, document: Document, context: ItemContext, tools: Tools) -> None:
        self.document = document
        self.context = context
        self.tools = tools
        item = context.item
        self.lineage = Lineage(
            worktree=context.worktree,
            folder=context.folders["lineage"],
            name=context.trail or f"{item.id}-{item.workflow}",
        )
        self.about = {"item_id": item.id, "label": item.label, "title": item.title, "source_text": item.text}

    def load(self, state: LoopState) -> Command[str]:
        """Begin the trail; keep the document that is there, and take it as the basis where that is asked."""
        del state  # nothing is known yet
        item, output = self.context.item, self.document.output
        found = find_document(self.context.worktree, output, item.label, self.lineage)
        mocked = author(dict(self.context.models)) == MOCK
        name = self.lineage.begin(self.document.source_name, item.text, "" if mocked else self.context.run_id)
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
            update["old_source"] = self.lineage.source_with(found.stamp.input) or ""
        notes = self.context.notes
        if notes and not any(note.text for note in notes):
            # A person asks for a review of the document as it is.
            return Command(
                update=update | {"draft": found.basis, "noted": max(note.id for note in notes)}, goto="gate"
            )
        return Command(update=update, goto="draft")

    def _edits(self, state: LoopState, *, asked: bool) -> LoopState:
        """What a person wrote into the document since it was last looked at becomes the draft.

        `asked`: the person wants the document reviewed as it is, changed since or not.
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

    def _unheard(self, state: LoopState) -> list[NoteData]:
        """A person's notes that no draft has taken up yet."""
        return [note for note in self.context.notes if note.id > state.get("noted", 0)]

    def _note(self, state: LoopState) -> str:
        return "\n\n".join(filter(None, [state["note"], *(note.text for note in self._unheard(state))]))

    def _take_notes(self, state: LoopState) -> LoopState:
        """Take up what a person has noted since; each note stands in the review log."""
        unheard = self._unheard(state)
        if not unheard:
            return {}
        told = [
            {"decision": "revise", "by": note.by, "at": note.at, "note": note.text}
            for note in unheard
            if note.text
        ]
        return {
            "note": self._note(state),
            "noted": max(note.id for note in unheard),
            "log": [*state["log"], *told],
        }

    def draft(self, state: LoopState) -> LoopState:
        number = state["drafts"] + 1
        template = self.context.templates[self.document.kind]
        if number == 1 and not state.get("basis"):
            prompt = draft_prompt(
                self.document.kind,
                **self.about,
                template=template,
                note=self._note(state),
                context=self.context.context,
            )
        else:
            prompt = revise_prompt(
                self.document.kind,
                **self.about,
                template=template,
                draft=state["draft"] or state.get("basis", ""),
                findings=state["findings"],
                missing=state["missing"],
                note=self._note(state),
                earlier=self._earlier(state),
                context=self.context.context,
            )
        reply = self.tools.call("drafter", number=number, prompt=prompt)
        return self._take_notes(state) | {"drafts": number, "draft": reply.text}

    def gate(self, state: LoopState) -> Command[str]:
        trail = state["trail"] + 1
        self.lineage.write(trail, "draft", state["draft"])
        result = check_draft(self.document.kind, state["draft"], item_id=self.context.item.id)
        missing = list(result.missing)
        returns = state["returns"] + 1 if missing else 0
        self.tools.audit(
            "gate",
            draft=state["drafts"],
            missing=missing,
            notes=list(result.notes),
            lineage=state["lineage"],
            file=file_name(trail, "draft"),
        )
        name = f"draft {state['drafts']}" if state["drafts"] else "the document as it is"
        for note in result.notes:
            self.tools.say(f"{name}: {note}")
        update: LoopState = {"trail": trail, "draft": result.draft, "missing": missing, "returns": returns}
        if not missing:
            self.tools.say(f"{name} passed the gate")
            return Command(update=update, goto="review")
        self.tools.say(f"{name} is missing: {', '.join(missing)}")
        if returns > GATE_RETURNS:
            reason = f"the draft still misses {', '.join(missing)} after it went back {GATE_RETURNS} times"
            return Command(update=update | self._held("failed", reason), goto="hold")
        return Command(update=update, goto="draft")

    def review(self, state: LoopState) -> LoopState:
        number = state["reviews"] + 1
        prompt = review_prompt(
            self.document.kind,
            **self.about,
            draft=state["draft"],
            earlier_findings=state["findings"],
            note=self._note(state),
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
        told = (
            f": {reading.reason}"
            if reading.reason
            else f", {counted(len(blocking), 'finding')}"
            if blocking
            else ""
        )
        self.tools.say(f"review {state['reviews']}: {reading.verdict.value}{told}")
        entry = {
            "review": state["reviews"],
            "draft": state["drafts"],
            "verdict": reading.verdict.value,
            "model": state["reviewer"],
            "findings": [f"Tier {one.tier} {one.category}: {one.title or one.text[:80]}" for one in blocking],
        }
        update: LoopState = {"trail": trail, "verdict": reading.verdict.value, "log": [*state["log"], entry]}
        if reading.verdict is Verdict.UNREADABLE:
            return self._unreadable(state, update, reading)
        update["unreadable"] = 0
        update["note"] = ""
        update["findings"] = [finding.as_dict() for finding in reading.findings]
        if any(note.text for note in self._unheard(state)):
            # A note that came since the draft was written: the drafter has not seen it.
            return Command(update=update, goto="draft")
        if reading.verdict is Verdict.APPROVED:
            return Command(update=update, goto="finalize")
        if reading.verdict is Verdict.DISCUSS:
            asked = " / ".join(reading.questions) or "the reviewer asks for a person's decision"
            return Command(update=update | self._held("discuss", asked), goto="hold")
        return self._revise(state, update, reading)

    def _unreadable(self, state: LoopState, update: LoopState, reading: Reading) -> Command[str]:
        update["unreadable"] = state["unreadable"] + 1
        if update["unreadable"] >= UNREADABLE_REVIEWS:
            reason = f"the review could not be read {UNREADABLE_REVIEWS} times in a row: {reading.reason}"
            return Command(update=update | self._held("failed", reason), goto="hold")
        if self._used_up(state):
            return Command(update=update | self._held("needs_revision", self._limit_text(state)), goto="hold")
        return Command(update=update, goto="review")

    def _revise(self, state: LoopState, update: LoopState, reading: Reading) -> Command[str]:
        before = {identity(finding) for finding in state["findings"] if finding["tier"] < 3}
        now = {identity(finding.as_dict()) for finding in reading.findings if finding.tier < 3}
        update["repeats"] = state["repeats"] + 1 if state["reviews"] > 1 and before == now else 0
        if update["repeats"] >= NO_PROGRESS_REPEATS:
            reason = f"no progress: the same findings came back {NO_PROGRESS_REPEATS} times"
            return Command(update=update | self._held("needs_revision", reason, stuck=True), goto="hold")
        if self._used_up(state):
            return Command(update=update | self._held("needs_revision", self._limit_text(state)), goto="hold")
        return Command(update=update, goto="draft")

    def _used_up(self, state: LoopState) -> bool:
        return state["reviews"] - state["allowance_from"] >= self.context.max_iterations

    def _limit_text(self, state: LoopState) -> str:
        return f"not approved after {counted(state['reviews'], 'review')}"

    def hold(self, state: LoopState) -> Command[str]:
        """Wait here until a person or a later run makes it possible to go on; runs again with each run."""
        held = state["held"]
        anew: LoopState = {"allowance_from": state["reviews"], "repeats": 0, "returns": 0, "unreadable": 0}
        decision = self.context.decision
        if self._unheard(state):
            return self._sent_back(state, anew)
        if held["status"] == "discuss":
            if decision is None or decision.reviews != state["reviews"]:
                interrupt(held)
            assert decision is not None
            self.tools.audit("decision", **decision.model_dump())
            self.tools.say(f"decided: {decision.answer}" + (f" ({decision.note})" if decision.note else ""))
            told = {"decision": decision.answer, "by": decision.by, "at": decision.at, "note": decision.note}
            log = [*state["log"], told]
            if decision.answer == "approve":
                return Command(update={"verdict": Verdict.APPROVED.value, "log": log}, goto="finalize")
            edits = self._edits(state, asked=False)
            return Command(update=anew | edits | {"note": decision.note, "log": log}, goto="draft")
        later_run = held["run"] != self.context.run_id
        if held["status"] == "needs_revision":
            raised = not held["stuck"] and not self._used_up(state)
            if later_run and self.context.retry_failed:
                return Command(update=anew, goto="draft")
            if later_run and raised:
                return Command(goto="draft")
            interrupt(held)
        if not later_run:
            interrupt(held)
        return Command(update=anew, goto="review" if state["unreadable"] else "draft")

    def _sent_back(self, state: LoopState, anew: LoopState) -> Command[str]:
        """A person has sent an item back that had stopped, with notes or for a review of their edits."""
        unheard = self._unheard(state)
        only_asked = not any(note.text for note in unheard)
        edits = self._edits(state, asked=only_asked)
        if only_asked and edits:
            heard: LoopState = {"noted": max(note.id for note in unheard)}
            return Command(update=anew | edits | heard, goto="gate")
        return Command(update=anew | edits, goto="draft")

    def finalize(self, state: LoopState) -> Command[str]:
        output = self.document.output
        done: LoopState = {"trail": state["trail"] + 1, "output": str(output)}
        if self.lineage.is_done(state["lineage"]):
            # A run was cut off when all was in its place; what a person has made of it since stays there.
            return Command(update=done, goto=END)
        if unheard := self._unheard(state):
            # A run was cut off after the approval, and a person has sent the item back since.
            back = self._sent_back(state, {"allowance_from": state["reviews"], "repeats": 0})
            if back.goto == "gate" or any(note.text for note in unheard):
                return back
        document = with_log(self.context, state["draft"], state["log"], state["findings"])
        kept = put_in_place(
            self.context.worktree, output, document, label=self.context.item.label, lineage=self.lineage
        )
        for name in kept:
            if "edited" in name:
                self.tools.say(
                    f"{output} was edited meanwhile; that version is kept as {name} in the lineage"
                )
        self.lineage.finish(state["lineage"], state["trail"] + 1, state["draft"])
        self.tools.say(f"saved {output}")
        return Command(update=done, goto=END)

    def _held(self, status: str, reason: str, *, stuck: bool = False) -> LoopState:
        return {"held": {"status": status, "reason": reason, "stuck": stuck, "run": self.context.run_id}}

    def _verdict_document(self, reply: str, reading: Reading) -> str:
        review = structured_review(reply)
        if review is not None:
            return render_review(review, kind=self.document.kind, title=self.context.item.title)
        if reading.verdict is Verdict.UNREADABLE:
            return f"<!-- Not a readable review: {reading.reason.replace('--', '- -')} -->\n\n{reply}\n"
        return reply
