"""The loop of both workflows: load, draft, gate, review, judge, and back until approved. Worker process.

    load -> look -> draft -> gate -> check -> review -> judge -> finalize
             ^        ^        |                          |
             +--------+--------+-------- (revise) --------+--> hold: waits for a person or a later run

In `look` the drafter says what it wants to read, in `check` the reviewer does; designs only. A paid call has
a node to itself, and its reply is in the journal before anything is done with it. So every node can run twice
with the same result.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from agentos.decisions import Decision, asked_by, bound, plain, settled
from agentos.discovery.hidden_text import shown_text
from agentos.end_matter import EndMatter, for_reading, without_markers
from agentos.files_changed import WrongPath, added_in, changes_in, check_paths, marked_headings
from agentos.repo_map.parts import Part, PartKind, Reading, ranges_of
from agentos.review import (
    Finding,
    ParsedReview,
    Verdict,
    read_reply,
    render_review,
    review_schema,
    structured_review,
)
from agentos.stamp import MOCK, author, split, text_hash
from agentos.store.documents import Author, Found, find_document, other_documents, put_in_place
from agentos.store.lineage import Lineage, file_name
from agentos.workflows.documents import Approval, finished, lacking
from agentos.workflows.gates import check_draft
from agentos.workflows.ledger import Ledger, in_words, so_far
from agentos.workflows.looking import (
    CHECKED_TOKENS,
    SCHEMA,
    definitions_in,
    names_code,
    names_in,
    read_wishes,
    summary,
)
from agentos.workflows.prompts import (
    Earlier,
    Look,
    LookRead,
    Material,
    RoundMaterial,
    check_prompt,
    diff,
    draft_prompt,
    look_prompt,
    review_prompt,
    revise_prompt,
    shipped_template,
)
from agentos.workflows.registry import ItemContext, Tools
from agentos.workflows.routing import (
    NextNode,
    after_gate,
    after_review,
    after_unreadable,
    approves,
    from_hold,
    new_allowance,
    unheard,
)
from agentos.workflows.state import LoopState, start_state

Kind = Literal["issue", "lld"]

LEAST_TOKENS = 200  # less is not worth a call
_MOST_REPLY = 20_000  # characters of a reply that its model is shown again
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
    graph.add_node("load", node("load"), destinations=("look", "draft", "gate"))
    graph.add_node("look", node("look"), destinations=("look", "draft"))
    graph.add_node("draft", node("draft"))
    graph.add_node("gate", node("gate"), destinations=("draft", "check", "review", "hold"))
    graph.add_node("check", node("check"), destinations=("review",))
    graph.add_node("review", node("review"))
    graph.add_node("judge", node("judge"), destinations=("look", "draft", "review", "finalize", "hold"))
    graph.add_node("hold", node("hold"), destinations=("look", "draft", "gate", "review", "finalize"))
    graph.add_node("finalize", node("finalize"), destinations=("look", "draft", "gate", END))
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
        return Command(update={"lineage": ""}, goto="look")

    def look(self, _state: LoopState) -> Command[str]:
        return Command(update={"looks": 1}, goto="draft")

    def draft(self, _state: LoopState) -> LoopState:
        return {"draft": ""}

    def gate(self, _state: LoopState) -> Command[str]:
        return Command(update={"draft": ""}, goto="check")

    def check(self, _state: LoopState) -> Command[str]:
        return Command(update={"checks": 1}, goto="review")

    def review(self, _state: LoopState) -> LoopState:
        return {"reply": ""}

    def judge(self, _state: LoopState) -> Command[str]:
        return Command(update={"reviews": 1}, goto="finalize")

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
        # Only a design is about code, and only if there is some.
        self.mapped = document.kind == "lld" and bool(context.files and context.repository.parts)
        self.mocked = author(dict(context.models)) == MOCK
        self.about: dict[str, Any] = {
            "item_id": item.id,
            "label": item.label,
            "title": item.title,
            "source_text": for_reading(item.text),
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
        item, found = self.context.item, self._document()
        name = self.lineage.begin(
            self.document.source_name, item.as_written, "" if self.mocked else self.context.run_id
        )
        update: LoopState = {"lineage": name, "trail": 1}
        if found is None:
            return Command(update=update, goto=self._to_draft(state | update))
        if found.text is not None and not (found.by_mock and found.author is Author.OURS):
            self._keep(found)
            update |= {"trail": 2, "seen": found.seen}
        update["ledger"] = self._begun(self._end(found)).save()
        if not self.context.revise:
            return Command(update=update, goto=self._to_draft(state | update))
        update |= self._revised(found)
        if found.stamp is not None and found.stamp.input not in {"", item.input_hash}:
            source = self.lineage.source_with(found.stamp.input) or ""
            update["old_source"] = for_reading(shown_text(source) if item.remote else source)
        said = unheard(update, self.context)
        if said and all(one.asks_review for one in said):
            # A person wants the document reviewed as it is.
            update |= {"draft": found.basis, "noted": said[-1].id}
            return Command(update=update, goto="gate")
        return Command(update=update, goto=self._to_draft(state | update))

    def _begun(self, end: EndMatter) -> Ledger:
        review = self.lineage.last_in(end.trail, "verdict") or ""
        return Ledger.of(end, carry=self.context.revise, review=review)

    def _document(self) -> Found | None:
        return find_document(
            self.context.worktree, self.document.output, self.context.item.label, self.lineage
        )

    def _end(self, found: Found | None) -> EndMatter:
        """What the end of the document says. The mock's own documents mean nothing to other models."""
        if found is None or (found.by_mock and found.author is Author.OURS and not self.mocked):
            return EndMatter()
        return found.end

    def _decisions(self, state: LoopState, found: Found | None = None) -> tuple[Decision, ...]:
        """All that people have decided about the item, as of now."""
        said = bound(self.context.decisions, _ledger(state).all_questions)
        return settled(self._end(found or self._document()).decisions, said)

    def _keep(self, found: Found) -> None:
        """Keep the existing document in the lineage, and say so if a person wrote in it."""
        assert found.text is not None
        kept = self.lineage.keep("replaced" if found.author is Author.OURS else "edited", found.text)
        if found.author is not Author.OURS:
            self.tools.say(
                f"{self.document.output} was {_WRITTEN[found.author]}; kept as {kept} in the lineage"
            )

    def _revised(self, found: Found) -> LoopState:
        """The document to revise, and what it was before a person changed it."""
        edited = found.author is not Author.OURS
        before = (self.lineage.last_in(found.end.trail, "final") or "") if edited else found.basis
        return {
            "basis": found.basis,
            "approved": before if found.author is not Author.FOREIGN else "",
            "edited": edited,
            "reviewed": found.basis,
        }

    def _edits(self, state: LoopState, *, asked: bool) -> LoopState:
        """If a person edited the document since it was last read, it becomes the draft.

        `asked`: the person wants the document reviewed as it is, edited since or not.
        """
        found = self._document()
        if found is None or found.text is None or found.author is Author.OURS:
            return {}
        seen = found.seen
        if seen == state.get("seen") and not asked:
            return {}
        self._keep(found)
        update = self._revised(found) | {"draft": found.basis, "seen": seen}
        return update | {"reviewed": state.get("reviewed", ""), "trail": self.lineage.next_number() - 1}

    def _earlier(self, state: LoopState) -> Earlier:
        before = state.get("approved", "")
        return Earlier(
            document=before,
            edits=diff(before, state["basis"], context=3) if state.get("edited") else "",
            source=state.get("old_source", ""),
            decisions=self._decisions(state),
        )

    def _round(self, state: LoopState) -> RoundMaterial:
        draft = state["draft"] or state.get("basis", "")
        return RoundMaterial(
            draft=draft,
            reviewed=state.get("reviewed", ""),
            ledger=_ledger(state).answered(asked_by(self._decisions(state))),
            suggestions=[Finding(**one) for one in state["findings"] if one["tier"] == 3],
            missing=state["missing"],
            paths=state.get("wrong_paths", []),
            absent=state.get("absent", []),
            named=_parts(state.get("named", [])),
            dropped=self._lacking(state, draft),
            redo=state.get("redo", ""),
            reply=(state.get("incomplete") or state.get("reply", ""))[-_MOST_REPLY:],
        )

    def _lacking(self, state: LoopState, draft: str) -> list[str]:
        """The lines of a person that a draft lacks."""
        return lacking(state.get("approved", ""), state["basis"], draft) if state.get("edited") else []

    def draft(self, state: LoopState) -> LoopState:
        number = state["drafts"] + 1
        earlier, about = self._earlier(state), self._about(state)
        if number == 1 and not state.get("basis"):
            prompt = draft_prompt(self.document.kind, **about, earlier=earlier)
        else:
            prompt = revise_prompt(self.document.kind, **about, round=self._round(state), earlier=earlier)
        reply = self.tools.call("drafter", number=number + state.get("looks", 0), prompt=prompt, nth=number)
        noted = max([state.get("noted", 0), *(one.id for one in self.context.decisions)])
        return {"noted": noted, "drafts": number, "draft": reply.text}

    # Reading.

    def _about(self, state: LoopState) -> dict[str, Any]:
        """What every prompt of the item says about it."""
        material = replace(self.about["material"], read=_all_read(state))
        return self.about | {"material": material}

    def _left(self, state: LoopState) -> int:
        """The tokens that may still be read."""
        return self.context.look_tokens - sum(part.tokens for look in _all_read(state) for part in look.parts)

    def _may_look(self, state: LoopState) -> bool:
        return self.mapped and self.context.look_rounds > 0 and self._left(state) >= LEAST_TOKENS

    def _to_draft(self, state: LoopState) -> str:
        """The node before the next draft: to look, if something is to be found out."""
        rounds = self.context.look_rounds - state.get("looks", 0)
        first = not state.get("drafts") and not state.get("looks")
        texts = [text for one in _ledger(state).open for text in (one.title, one.text, one.recommendation)]
        return "look" if rounds > 0 and self._may_look(state) and (first or names_code(texts)) else "draft"

    def look(self, state: LoopState) -> Command[str]:
        """Ask the drafter what it wants to read, and read it; again until it has enough."""
        number = state.get("looks", 0) + 1
        rounds = self.context.look_rounds - number
        look = Look(tokens=self._left(state), rounds=rounds + 1)
        prompt = look_prompt(
            self.document.kind,
            **self._about(state),
            round=self._round(state),
            look=look,
            earlier=self._earlier(state),
        )
        calls = state["drafts"] + number
        reply = self.tools.call("drafter", number=calls, prompt=prompt, schema=SCHEMA, nth=number)
        update, wishes = self._read(state, reply.text, "drafter", number)
        again = wishes and rounds > 0 and self._left(state | update) >= LEAST_TOKENS
        return Command(update=update | {"looks": number}, goto="look" if again else "draft")

    def check(self, state: LoopState) -> Command[str]:
        """Ask the reviewer, once per item, what it wants to read to check the draft."""
        number = state.get("asks", state["reviews"]) + 1
        look = Look(tokens=self._left(state))
        prompt = check_prompt(
            self.document.kind,
            **self._about(state),
            round=self._round(state),
            look=look,
            earlier=self._earlier(state),
        )
        reply = self.tools.call("reviewer", number=number, prompt=prompt, schema=SCHEMA, nth=1)
        update, _ = self._read(state, reply.text, "reviewer", 1)
        return Command(update=update | {"checks": 1, "asks": number}, goto="review")

    def _read(self, state: LoopState, reply: str, role: str, number: int) -> tuple[LoopState, list[str]]:
        """Read what a reply asks for. One that cannot be read asks for nothing."""
        wishes, shown = read_wishes(reply), self._shown(state)
        known, left = ranges_of(shown), self._left(state)
        reading = self.tools.look_up(wishes=wishes, known=known, tokens=left) if wishes else Reading()
        parts = [part for part in reading.parts if part not in shown]
        refused = [str(one) for one in reading.answers if one.refused]
        self.tools.audit(
            "look",
            role=role,
            look=number,
            wishes=wishes or [],
            answers=list(map(str, reading.answers)),
            refused=refused,
            definitions=definitions_in(parts),
            read=[part.place for part in parts],
            tokens=sum(part.tokens for part in parts),
        )
        got = f"read {summary(parts)}" if parts else "nothing new" if wishes else "no wishes"
        said = "the reply could not be read, so nothing is read" if wishes is None else got
        not_given = f"; refused: {'; '.join(refused[:3])}" if refused else ""
        self.tools.say(f"{'look' if role == 'drafter' else 'check'} {number}: {said}{not_given}")
        if not reading.answers:
            return {}, []
        read = {"answers": list(map(str, reading.answers)), "parts": list(map(_row, parts))}
        return {"read": [*state.get("read", []), read]}, wishes or []

    def _shown(self, state: LoopState) -> list[Part]:
        """All parts of the repository that the models have."""
        return [*self.context.repository.parts, *(part for look in _all_read(state) for part in look.parts)]

    def _claims(self, state: LoopState, draft: str) -> LoopState:
        """What the repository says about the names in a design."""
        names = names_in(draft) if self.mapped else []
        if not names:
            return {"absent": [], "named": []}
        known = ranges_of(self._shown(state))
        reading = self.tools.look_up(names=names, known=known, tokens=CHECKED_TOKENS)
        return {"absent": list(reading.absent), "named": [_row(part) for part in reading.parts]}

    def gate(self, state: LoopState) -> Command[str]:
        trail = state["trail"] + 1
        self.lineage.write(trail, "draft", state["draft"])
        result = check_draft(
            self.document.kind,
            without_markers(state["draft"]),
            item_id=self.context.item.id,
            template=self.template,
        )
        missing = list(result.missing)
        paths = self._wrong_paths(result.draft)
        wrong_paths = [str(path) for path in paths]
        claims = self._claims(state, result.draft) if not missing else LoopState(absent=[], named=[])
        self.tools.audit(
            "gate",
            draft=state["drafts"],
            missing=missing,
            paths=wrong_paths,
            absent=claims["absent"],
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
        if claims["absent"]:
            self.tools.say(f"{name} names what no tracked file contains: {', '.join(claims['absent'])}")
        step = after_gate(state, self.context, missing)
        if step.goto == "review" and not state.get("checks") and self._may_look(state):
            step = replace(step, goto="check")
        if missing:
            self.tools.say(f"{name} is missing: {', '.join(missing)}")
        else:
            told = "; the reviewer is told about the paths" if paths else ""
            self.tools.say(f"{name} has every required section{told}" if told else f"{name} passed the gate")
        return _command(step, claims | {"trail": trail, "draft": result.draft, "wrong_paths": wrong_paths})

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
        number = state.get("asks", state["reviews"]) + 1
        prompt = review_prompt(
            self.document.kind, **self._about(state), round=self._round(state), earlier=self._earlier(state)
        )
        schema, nth = review_schema(self.document.kind), number - state.get("checks", 0)
        reply = self.tools.call("reviewer", number=number, prompt=prompt, schema=schema, nth=nth)
        return {"asks": number, "reply": reply.text, "reviewer": reply.model}

    def judge(self, state: LoopState) -> Command[str]:
        """Read the review. If it cannot be read, or leaves something unanswered, ask once more."""
        reply, first = state["reply"], state.get("incomplete", "")
        reading = read_reply(reply, self.document.kind)
        if reading.verdict is Verdict.UNREADABLE and first:
            reply, reading = first, read_reply(first, self.document.kind)
        decisions = self._decisions(state)
        before = _ledger(state).answered(asked_by(decisions))
        if reading.verdict is Verdict.UNREADABLE:
            return self._unreadable(state, reading)
        if not first and (gap := _gap(before, reading, decisions)):
            self.tools.say(f"review {state['reviews'] + 1}: {gap} Asking again.")
            return Command(update={"redo": gap, "incomplete": reply}, goto="review")
        now = before.reviewed(reading, asked_by(decisions))
        reading = _with_ledger(reading, now)
        number = state["reviews"] + 1
        trail = state["trail"] + 1
        self.lineage.write(trail, "verdict", self._verdict_document(reply, reading, now))
        self._audit_verdict(state, reading, number, trail, now)
        still = in_words(now.open)
        outcome = f": {reading.reason}" if reading.reason else f", {still}" if still else ""
        self.tools.say(f"review {number}: {reading.verdict.value}{outcome}")
        for question in now.questions:
            if question.number > before.asked:
                self.tools.say(f"review {number} asks {question}")
        for text in reading.questions:
            if plain(text) in set(map(plain, asked_by(decisions))):
                self.tools.say(f"review {number} asks again what is decided: {text}")
        counts: LoopState = {"reviews": number, "repeats": state["repeats"]}
        step = after_review(state | counts, self.context, reading, before, now)
        update: LoopState = counts | {
            "trail": trail,
            "ledger": now.save(),
            "findings": [finding.as_dict() for finding in reading.findings],
            "reviewed": state["draft"],
            "redo": "",
            "incomplete": "",
        }
        return self._command(state, step, update)

    def _unreadable(self, state: LoopState, reading: ParsedReview) -> Command[str]:
        number, trail = state["reviews"] + 1, state["trail"] + 1
        self.lineage.write(trail, "verdict", self._verdict_document(state["reply"], reading, Ledger()))
        self._audit_verdict(state, reading, number, trail, Ledger())
        self.tools.say(f"review {number}: {reading.verdict.value}: {reading.reason}")
        return _command(after_unreadable(state, self.context, reading.reason), {"trail": trail})

    def _audit_verdict(
        self, state: LoopState, reading: ParsedReview, number: int, trail: int, now: Ledger
    ) -> None:
        self.tools.audit(
            "verdict",
            review=number,
            call=state.get("asks", number),
            verdict=reading.verdict.value,
            reason=reading.reason,
            findings=[finding.as_dict() for finding in reading.findings],
            ledger=now.save()["findings"],
            questions=[str(question) for question in now.questions],
            model=state["reviewer"],
            lineage=state["lineage"],
            file=file_name(trail, "verdict"),
        )

    def hold(self, state: LoopState) -> Command[str]:
        """Wait until a person or a later run makes it possible to continue; executed again in each run."""
        said = unheard(state, self.context)
        for one in said:
            if one.answer:
                self.tools.audit(
                    "decision", reviews=one.reviews, answer=one.answer, note=one.text, by=one.by, at=one.at
                )
                self.tools.say(f"decided: {one.answer}" + (f" ({one.text})" if one.text else ""))
        if state["held"]["status"] == "discuss" and approves(said):
            noted = said[-1].id
            update: LoopState = {"verdict": Verdict.APPROVED.value, "noted": noted, "accepted": noted}
            return Command(update=update, goto="finalize")
        if said:
            return self._sent_back(state, new_allowance(state))
        step = from_hold(state, self.context)
        if step is None:
            interrupt(state["held"])
        assert step is not None
        return self._command(state, step, {})

    def _command(self, state: LoopState, step: NextNode, also: LoopState) -> Command[str]:
        """The step as a command; the drafter may want to look first."""
        update = also | step.update
        return Command(
            update=update, goto=self._to_draft(state | update) if step.goto == "draft" else step.goto
        )

    def _sent_back(self, state: LoopState, reset: LoopState) -> Command[str]:
        """Continue an item that a person sent back, with notes or for a review of their edits."""
        said = unheard(state, self.context)
        only_asked = all(one.asks_review for one in said)
        edits = self._edits(state, asked=only_asked)
        if only_asked and edits:
            heard: LoopState = {"noted": said[-1].id}
            return Command(update=reset | edits | heard, goto="gate")
        return Command(update=reset | edits, goto=self._to_draft(state | reset | edits))

    def finalize(self, state: LoopState) -> Command[str]:
        output, found = self.document.output, self._document()
        placed = self.lineage.is_done(state["lineage"])
        dropped = self._lacking(state, state["draft"])
        edited = found is not None and found.author is not Author.OURS and found.seen != state.get("seen")
        if found is not None and edited and not placed:  # while the item was in progress
            dropped = lacking(state.get("basis", ""), found.basis, state["draft"])
        document = finished(
            self.context,
            state["draft"],
            Approval(
                earlier=self._end(found),
                decisions=self._decisions(state, found),
                ledger=_ledger(state),
                reviews=state["reviews"],
                trail=str(self.lineage.done(state["lineage"])),
                at=datetime.now(UTC).date().isoformat(),
                dropped=dropped,
                by=next((one for one in self.context.decisions if one.id == state.get("accepted")), None),
            ),
        )
        done: LoopState = {
            "trail": state["trail"] + 1,
            "output": str(output),
            "text_hash": text_hash(split(document).body),
            "dropped": dropped,
        }
        if placed:
            # A run was interrupted after everything was in place; what a person changed since then stays.
            return Command(update=done, goto=END)
        if said := unheard(state, self.context):
            # A run was interrupted after the approval, and a person has sent the item back since then.
            back = self._sent_back(state, {"allowance_from": state["reviews"], "repeats": 0})
            if back.goto == "gate" or not all(one.asks_review for one in said):
                return back
        kept = put_in_place(
            self.context.worktree, output, document, label=self.context.item.label, lineage=self.lineage
        )
        for name in kept:
            if "edited" in name:
                self.tools.say(
                    f"{output} was edited in the meantime; that version is kept as {name} in the lineage"
                )
        for line in dropped:
            self.tools.say(f"{output} lacks a line that a person added: {line}")
        self.lineage.finish(state["lineage"], state["trail"] + 1, state["draft"])
        return Command(update=done, goto=END)

    def _verdict_document(self, reply: str, reading: ParsedReview, now: Ledger) -> str:
        review = structured_review(reply)
        if review is not None:
            title = self.context.item.title
            return render_review(review, kind=self.document.kind, title=title, ledger=so_far(now))
        if reading.verdict is Verdict.UNREADABLE:
            return f"<!-- Not a readable review: {reading.reason.replace('--', '- -')} -->\n\n{reply}\n"
        return reply


def _command(step: NextNode, also: LoopState | None = None) -> Command[str]:
    """Return the step as a LangGraph command, with what else the node has to save."""
    return Command(update=(also or {}) | step.update, goto=step.goto)


def _parts(rows: Sequence[Mapping[str, Any]]) -> list[Part]:
    return [Part(**{**row, "kind": PartKind(row["kind"])}) for row in rows]


def _row(part: Part) -> dict[str, Any]:
    return asdict(part) | {"kind": part.kind.value}  # a checkpoint holds plain values only


def _all_read(state: LoopState) -> list[LookRead]:
    """What was read for the item, look by look."""
    return [LookRead(answers=one["answers"], parts=_parts(one["parts"])) for one in state.get("read", [])]


def _ledger(state: LoopState) -> Ledger:
    return Ledger.load(state.get("ledger"), state["findings"])


def _gap(ledger: Ledger, reading: ParsedReview, decisions: Sequence[Decision]) -> str:
    """What a review leaves unanswered, or asks although it is decided; in words for the reviewer."""
    if numbers := ledger.gaps(reading):
        return f"It does not answer {', '.join(numbers)}."
    if reading.verdict is Verdict.DISCUSS and reading.questions:
        decided = {plain(text): one for one in decisions if one.words for text in one.questions}
        known = [decided[plain(text)] for text in reading.questions if plain(text) in decided]
        if len(known) == len(reading.questions):
            told = "\n".join(dict.fromkeys(f"{' '.join(one.questions)} {one.words}" for one in known))
            return f"It asks what a person has decided:\n{told}"
    return ""


def _with_ledger(reading: ParsedReview, now: Ledger) -> ParsedReview:
    """No approval stands beside an open finding of Tier 1, whichever review raised it."""
    if reading.verdict is not Verdict.APPROVED or not now.blocking:
        return reading
    reason = f"It says APPROVED, but {now.blocking[0]} is open."
    return replace(reading, verdict=Verdict.REVISE, reason=reason)
