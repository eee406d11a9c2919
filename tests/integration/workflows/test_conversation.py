"""What the loop remembers: decisions, findings by number, questions, and what a person wrote."""

import json
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from agentos.decisions import Decision
from agentos.end_matter import take_end
from agentos.errors import StopRequested
from agentos.stamp import split
from agentos.wire import Ended
from harness.loop import APPROVED, ASKED, OUTPUT, Tools, World, decide, found, lld, review, revise

SQLITE = "Take SQLite."


@pytest.fixture
def world(tmp_path: Path) -> World:
    (tmp_path / "repo").mkdir()
    return World(tmp_path)


def document(world: World) -> Path:
    return world.root / "repo" / OUTPUT


def note(text: str, number: int = 1, question: str = "") -> Decision:
    return Decision(id=number, text=text, question=question, by="ann", at="2026-01-01T00:00:00Z")


def again(world: World, text: str = "") -> World:
    """The same repository with a new checkpoint, as a later run, a clone or another text has it."""
    for path in world.root.glob("checkpoint.db*"):
        path.unlink()
    return replace(world, item=replace(world.item, text=text or world.item.text))


def told(tools: Tools, name: str) -> str:
    """The part of a prompt that is about the item."""
    return tools.prompts[name].text.partition("## The item")[2]


def open_now(tools: Tools) -> list[int]:
    """The numbers of the findings that are open after the last review."""
    ledger = [record["ledger"] for record in tools.records if record["kind"] == "verdict"][-1]
    return [one["number"] for one in ledger if one["state"] == "open"]


# Decisions.


def test_a_decision_is_in_every_later_prompt_of_both_models_with_its_question(world: World) -> None:
    world.run(Tools([ASKED]))
    tools = Tools([ASKED, revise("a"), revise("b"), revise("c"), APPROVED])
    said = decide("revise", note=SQLITE)
    assert world.run(tools, run_id="run-2", said=said, max_iterations=9).status == "approved"
    assert len(tools.prompts) == 8
    later = again(world, "# Login\n\nPlease, and soon.\n")
    revised = Tools()
    assert later.run(revised, run_id="run-3", revise=True).status == "approved"
    started_over = Tools()
    assert again(world).run(started_over, run_id="run-4").status == "approved"
    for prompt in (*tools.prompts.values(), *revised.prompts.values(), *started_over.prompts.values()):
        assert "Question: Which database?\n  Decision: Take SQLite.\n  (ann, 1 Jan 2026)\n" in prompt.text
    assert "- 1 Jan 2026, ann: **Which database?** Take SQLite.\n" in document(world).read_text()


def test_deleting_the_line_from_the_document_ends_a_decision_and_adding_one_makes_it(world: World) -> None:
    world.put_in_the_way().unlink()
    world.run(Tools(), said=[note(SQLITE)])
    path = document(world)
    path.write_text(
        path.read_text().replace(f"- 1 Jan 2026, ann: {SQLITE}\n", "- Use Postgres.\n\n  Version 15.\n")
    )
    tools = Tools()
    assert again(world).run(tools, run_id="run-2", revise=True).status == "approved"
    for name in ("drafter 1", "reviewer 1"):
        assert "- Use Postgres.\n  \n  Version 15.\n" in told(tools, name)
        assert SQLITE not in told(tools, name)
    assert "## Decisions\n\n- Use Postgres.\n\n  Version 15.\n" in path.read_text()


def test_a_draft_cannot_decide_anything(world: World) -> None:
    world.run(Tools([ASKED]), said=[note(SQLITE)])
    end = "\n<!-- agentos-end: x -->\n\n## Decisions\n\n- 1 Jan 2026, ann: Take MongoDB.\n"
    tools = Tools([ASKED, APPROVED], drafts=[lld(), lld(2) + end])
    said = [note(SQLITE), *decide("revise", number=2, note="Go on.")]
    assert world.run(tools, run_id="run-2", said=said).status == "approved"
    text = document(world).read_text()
    assert text.count("agentos-end") == 1
    assert [one.text for one in take_end(split(text).body)[1].decisions] == [SQLITE, "Go on."]


def test_a_review_that_asks_what_is_decided_is_told_so_and_does_not_count(world: World) -> None:
    world.run(Tools([ASKED]))
    tools = Tools([ASKED, ASKED, APPROVED])
    ended = world.run(tools, run_id="run-2", said=decide("revise", note=SQLITE))
    assert (ended.status, ended.reviews) == ("approved", 2)
    assert tools.calls == ["drafter 2", "reviewer 2", "reviewer 3"]
    words = "It asks what a person has decided:\nWhich database? Take SQLite."
    assert words in told(tools, "reviewer 3")


def test_decisions_of_the_mock_mean_nothing_to_other_models(world: World) -> None:
    mock = {"drafter": "mock:d", "reviewer": "mock:r"}
    assert world.run(Tools(), said=[note(SQLITE)], models=mock).status == "approved"
    assert SQLITE in document(world).read_text()
    tools = Tools()
    assert again(world).run(tools, run_id="run-2").status == "approved"
    assert all(SQLITE not in prompt.text for prompt in tools.prompts.values())


# The ledger.


def test_a_fix_that_is_lost_again_is_a_regression_with_its_old_number(world: World) -> None:
    second = review("REVISE", tier2=[found("names", "Quality")], F1="resolved")
    third = review("REVISE", F1="open", F2="resolved")
    drafts = [lld(1), lld(2) + "\nAt most 5 tries.\n", lld(3), lld(4) + "\nAt most 5 tries.\n"]
    tools = Tools(
        [revise("retries"), second, third, review("APPROVED", F1="resolved")], drafts, resolves=False
    )
    assert world.run(tools).status == "approved"
    third_prompt = told(tools, "reviewer 3")
    assert "resolved findings\n- F1 (Tier 1, Cost: retries): section 2\n" in third_prompt
    assert "\n-At most 5 tries.\n" in third_prompt
    assert "open findings\nF2. Tier 2, Quality: names\n" in third_prompt
    returned = told(tools, "drafter 4")
    assert (
        "open findings\nF1. REGRESSION (resolved before, and lost again): Tier 1, Cost: retries\n" in returned
    )
    assert "F2." not in returned
    assert "review 3: REVISE, 1 open finding: F1 (regression)" in tools.said
    ledger = [record["ledger"] for record in tools.records if record["kind"] == "verdict"][-1]
    assert [(one["number"], one["state"]) for one in ledger] == [(1, "resolved"), (2, "resolved")]


def test_a_finding_that_is_not_answered_is_asked_for_once_and_stays_open(world: World) -> None:
    silent = review("APPROVED")
    tools = Tools([revise("cost"), silent, silent, APPROVED], resolves=False)
    ended = world.run(tools, max_iterations=2)
    assert (ended.status, ended.reviews, open_now(tools)) == ("needs_revision", 2, [1])
    assert tools.calls == ["drafter 1", "reviewer 1", "drafter 2", "reviewer 2", "reviewer 3"]
    asked = told(tools, "reviewer 3")
    assert "It does not answer F1." in asked
    assert silent in asked  # its own last reply
    assert "review 2: It does not answer F1. Asking again." in tools.said
    assert "review 2: REVISE: It says APPROVED, but F1 (Tier 1, Cost: cost) is open." in tools.said


def test_a_finding_that_is_answered_twice_stays_open(world: World) -> None:
    twice = json.loads(review("APPROVED", F1="open"))
    twice["earlier"].append({"number": "F1", "state": "resolved", "where": "section 3"})
    tools = Tools([revise("cost"), json.dumps(twice)], resolves=False)
    assert (world.run(tools, max_iterations=2).status, open_now(tools)) == ("needs_revision", [1])


def test_an_incomplete_review_counts_if_the_next_reply_cannot_be_read(world: World) -> None:
    tools = Tools(
        [revise("cost"), review("REVISE", tier1=[found("keys", "Security")]), "What?"], resolves=False
    )
    ended = world.run(tools, max_iterations=2)
    assert (ended.status, ended.reviews, open_now(tools)) == ("needs_revision", 2, [1, 2])


def test_a_reviewer_that_words_the_same_finding_differently_makes_no_progress(world: World) -> None:
    reviews = [revise(f"the cost, in words {number}") for number in range(20)]
    ended = world.run(Tools(reviews, resolves=False), max_iterations=10)
    assert (ended.status, ended.reviews) == ("needs_revision", 3)
    assert ended.error == "no progress: 2 rounds resolved none of F1, F2, F3"


def test_a_review_in_markdown_answers_by_repeating_a_finding_or_not(world: World) -> None:
    def markdown(title: str, verdict: str) -> str:
        boxes = "".join(
            f"[{'x' if word == verdict else ' '}] **{word}**\n" for word in ("APPROVED", "REVISE", "DISCUSS")
        )
        line = f"- [ ] **{title}:** What is wrong." if title else "- [ ] No issues found."
        return (
            "# LLD Review: T\n\n## Identity Confirmation\nMe.\n\n## Pre-Flight Gate\nPASSED\n\n"
            f"## Review Summary\nFine.\n\n## Tier 1: BLOCKING Issues\n### Cost\n{line}\n\n"
            "## Tier 2: HIGH PRIORITY Issues\n### Quality\n- [ ] No issues found.\n\n"
            "## Tier 3: SUGGESTIONS\n- None.\n\n## Questions for Orchestrator\n1. None.\n\n"
            f"## Verdict\n{boxes}"
        )

    reviews = [markdown("Retries", "REVISE"), markdown("Retries", "REVISE"), markdown("", "APPROVED")]
    tools = Tools(reviews, resolves=False)
    assert world.run(tools).status == "approved"
    assert tools.calls[-1] == "reviewer 3"
    assert "open findings\nF1. Tier 1, Cost: Retries\n" in told(tools, "reviewer 3")


def test_follow_ups_of_an_approval_are_open_findings_of_the_next_revision(world: World) -> None:
    world.run(Tools([revise("a"), review("APPROVED", tier2=[found("names", "Quality")], F1="resolved")]))
    tools = Tools([revise("b"), APPROVED])
    assert again(world).run(tools, run_id="run-2", revise=True, said=[note("Shorter.")]).status == "approved"
    for name in ("drafter 1", "reviewer 1"):
        assert "F2. Tier 2, Quality: names\n" in told(tools, name)
    assert "F3. Tier 1, Cost: b\n" in told(tools, "drafter 2")  # numbers go on
    log = document(world).read_text().partition("## Review log")[2]
    assert [line[:25] for line in log.splitlines() if line.startswith("- ")] == [
        "- 2 reviews by b:reviewer",
        "- 2 reviews by b:reviewer",
    ]


def test_what_a_review_says_about_an_open_finding_reaches_the_drafter(world: World) -> None:
    tools = Tools(
        [revise("cost"), review("REVISE", F1="open"), review("APPROVED", F1="resolved")], resolves=False
    )
    assert world.run(tools).status == "approved"
    assert "   Recommendation: Mend cost.\n   Last review: section 2\n" in told(tools, "drafter 3")


def test_a_fix_that_a_later_revision_loses_is_a_regression_too(world: World) -> None:
    world.run(Tools([revise("retries"), APPROVED]))
    lost = review("REVISE", F1="open")
    tools = Tools([lost, review("APPROVED", F1="resolved")], resolves=False)
    assert again(world).run(tools, run_id="run-2", revise=True, said=[note("Shorter.")]).status == "approved"
    for name in ("drafter 1", "reviewer 1"):
        assert "resolved findings\n- F1 (Tier 1, Cost: retries" in told(tools, name)
    assert "F1. REGRESSION" in told(tools, "drafter 2")
    verdict = next(text for name, text in world.files().items() if name.endswith("005-verdict.md"))
    assert "## Findings So Far\n- F1 resolved, Tier 1, Cost: retries" in verdict


# Answers.


def test_an_answer_without_a_word_decides_nothing(world: World) -> None:
    world.run(Tools([ASKED]))
    tools = Tools([ASKED, APPROVED])
    assert world.run(tools, run_id="run-2", said=decide("revise")).questions == ["Q1: Which database?"]
    assert "Decisions" not in told(tools, "drafter 2")
    assert "Q1: Which database?" in told(tools, "drafter 2")
    assert "## Decisions" not in document(world).read_text()


def test_an_answer_that_names_its_question_is_given_it(world: World) -> None:
    asks = review("REVISE", tier1=[found("cost")], questions=["Errors / which stream?", "Who pays?"])
    world.run(Tools([asks]), max_iterations=1)
    tools = Tools([asks, review("APPROVED", F1="resolved")])
    said = [note("Q1: standard error\nQ2: the team")]
    assert world.run(tools, run_id="run-2", said=said, max_iterations=1).questions == []
    for name in ("drafter 2", "reviewer 2"):
        assert "Question: Errors / which stream?\n  Decision: standard error\n" in told(tools, name)
        assert "Question: Who pays?\n  Decision: the team\n" in told(tools, name)


def test_one_answer_to_two_questions_keeps_both(world: World) -> None:
    asks = review("DISCUSS", questions=["Errors / which stream?", "Who pays?"])
    assert world.run(Tools([asks])).error == "Q1: Errors / which stream? / Q2: Who pays?"
    said = [replace(decide("revise", note="As usual.")[0], question="Errors / which stream?\nWho pays?")]
    assert world.run(Tools([asks, APPROVED]), run_id="run-2", said=said).questions == []
    line = "- 1 Jan 2026, ann: **Errors / which stream?** **Who pays?** As usual.\n"
    assert line in document(world).read_text()
    (read,) = take_end(split(document(world).read_text()).body)[1].decisions
    assert read.questions == ("Errors / which stream?", "Who pays?")


# Questions without DISCUSS.


def test_a_question_without_discuss_stops_nothing_and_is_listed(world: World) -> None:
    first = review("REVISE", tier1=[found("cost")], questions=["Is UTC fine?"])
    tools = Tools([first, review("APPROVED", F1="resolved", questions=["Who pays?", "is  UTC fine?"])])
    ended = world.run(tools)
    assert (ended.status, ended.questions) == ("approved", ["Q1: Is UTC fine?", "Q2: Who pays?"])
    for name in ("drafter 2", "reviewer 2"):
        assert "- Q1: Is UTC fine?\n" in told(tools, name)
    assert "review 1 asks Q1: Is UTC fine?" in tools.said
    assert "## Open questions\n\n- **Q1** Is UTC fine?\n- **Q2** Who pays?\n" in document(world).read_text()
    answered = Tools()
    said = [note("Yes, everywhere.", question="Is UTC fine?")]
    assert again(world).run(answered, run_id="run-2", revise=True, said=said).questions == ["Q2: Who pays?"]
    text = document(world).read_text()
    assert "**Is UTC fine?** Yes, everywhere.\n\n## Open questions\n\n- **Q2** Who pays?\n" in text


# What a person wrote.


def test_an_edited_document_is_shown_as_a_persons_changes_and_a_lost_line_is_named(world: World) -> None:
    world.run(Tools())
    path = document(world)
    path.write_text(path.read_text().replace("What is done.", "What is done.\n\nNever on Fridays."))
    tools = Tools([APPROVED], drafts=[lld(9)])
    ended = again(world).run(tools, run_id="run-2", revise=True, said=[note("Shorter.")])
    assert (ended.status, ended.dropped) == ("approved", ["Never on Fridays."])
    for name in ("drafter 1", "reviewer 1"):
        assert "a person's changes\n--- before\n+++ now\n" in told(tools, name)
        assert "\n+Never on Fridays.\n" in told(tools, name)
        assert "# LLD-42: Draft 1\n" in told(tools, name)  # as it was approved
    assert "a person's lines\nNever on Fridays.\n" in told(tools, "reviewer 1")
    assert f"{OUTPUT} lacks a line that a person added: Never on Fridays." in tools.said
    lost = "  - Not taken over, although a person added it: Never on Fridays.\n"
    assert lost in path.read_text()
    third = Tools()
    assert again(world).run(third, run_id="run-3", revise=True, said=[note("Longer.", 2)]).dropped == []
    assert lost in path.read_text()  # the log is continued


def test_an_edit_that_is_kept_is_not_named(world: World) -> None:
    world.run(Tools())
    path = document(world)
    path.write_text(path.read_text().replace("What is done.", "What is done.\n\nNever on Fridays."))
    tools = Tools(drafts=[lld(9) + "\n- **Never** on   Fridays!\n"])
    ended = again(world).run(tools, run_id="run-2", revise=True, said=[note("Shorter.")])
    assert (ended.dropped, "lacks a line" in "".join(tools.said)) == ([], False)


def test_an_edit_while_the_item_was_in_progress_is_named(world: World) -> None:
    world.run(Tools())
    later = again(world)
    later.run(Tools(), run_id="run-2", revise=True, said=[note("Shorter.")], stop_before="finalize")
    path = document(world)
    path.write_text(path.read_text().replace("What is done.", "What is done.\n\nNever on Fridays."))
    ended = later.run(Tools(), run_id="run-2", revise=True, said=[note("Shorter.")])
    assert (ended.status, ended.dropped) == ("approved", ["Never on Fridays."])


# Random histories.


@dataclass
class History:
    """A repository, the records of its home, and what must not get lost."""

    world: World
    runs: int = 0
    said: list[Decision] = field(default_factory=list)  # in the records
    everything: list[str] = field(default_factory=list)  # the words of every decision that still counts
    waiting: Ended | None = None

    def decide(self, text: str) -> None:
        held = self.waiting is not None and self.waiting.status == "discuss"
        number = max([0, *(one.id for one in self.said)], default=0) + 1 + len(self.everything)
        reviews = self.waiting.reviews if self.waiting is not None and held else 0
        self.said.append(replace(note(text, number), answer="revise" if held else "", reviews=reviews))
        self.everything.append(text)

    def edit(self, line: str) -> str | None:
        path = document(self.world)
        if not path.exists():
            return None
        path.write_text(path.read_text().replace("What is done.", f"What is done.\n\n{line}", 1))
        return line

    def clone(self) -> None:
        """Another home: what only the records had stays behind."""
        for one in self.said:
            if one.text in self.everything:
                self.everything.remove(one.text)
        self.said, self.waiting, self.world = [], None, again(self.world)

    def change_the_issue(self, text: str) -> None:
        self.waiting, self.world = None, again(self.world, f"# Login\n\n{text}\n")

    def run(self, tools: Tools) -> Ended | None:
        self.runs += 1
        try:
            ended = self.world.run(
                tools,
                run_id=f"run-{self.runs}",
                revise=document(self.world).exists(),
                said=tuple(self.said),
                retry_failed=True,
                max_iterations=3,
            )
        except StopRequested:
            ended = None
        for name, prompt in tools.prompts.items():
            for words in self.everything:
                assert words in prompt.text, (name, words)
        if ended is not None and ended.status in {"approved", "discuss", "needs_revision"}:
            latest = ended.noted or 0
            if ended.status == "approved":  # its document has them now
                self.said = [one for one in self.said if one.id > latest]
                self.world = again(self.world)
            self.said = [replace(one, used=one.used or one.id <= latest) for one in self.said]
        self.waiting = ended
        return ended


Step = tuple[str, list[object], int]  # what, how, and where a run is cut off
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("run"), st.lists(st.sampled_from("RDAQM"), min_size=1, max_size=4), st.integers(0, 25)
        ),
        st.tuples(st.just("decide"), st.just([]), st.just(0)),
        st.tuples(st.just("edit"), st.booleans().map(lambda keep: [keep]), st.just(0)),
        st.tuples(st.just("clone"), st.just([]), st.just(0)),
        st.tuples(st.just("change"), st.just([]), st.just(0)),
    ),
    min_size=2,
    max_size=8,
)


def walk(root: Path, steps: list[Step]) -> None:
    shutil.rmtree(root, ignore_errors=True)
    (root / "repo").mkdir(parents=True)
    history = History(World(root))
    lines: dict[str, bool] = {}  # of a person, since the last approval; whether drafts keep them
    last: Step = ("run", ["A"], 0)
    for number, (step, chosen, cut) in enumerate([*steps, last]):
        if step == "run":
            run_and_check(history, lines, [_review(str(one), number) for one in chosen], cut)
        elif step == "edit" and (line := history.edit(f"A line of step {number}.")):
            lines[line] = bool(chosen[0])
        elif step == "decide":
            history.decide(f"Decision number {number}.")
        elif step == "clone":
            history.clone()
        elif step == "change":
            history.change_the_issue(f"Text {number}")


def run_and_check(history: History, lines: dict[str, bool], reviews: list[str], cut: int) -> None:
    kept = "".join(f"\n{line}\n" for line, keep in lines.items() if keep)
    tools = Tools(reviews, [lld() + kept], cut_at=cut or None)
    ended = history.run(tools)
    _check_findings(tools)
    for prompt in tools.prompts.values():
        assert all(line in prompt.text for line in lines)
    if ended is not None and ended.status == "approved":
        result = document(history.world).read_text()
        for line, keep in lines.items():
            assert keep or (f"although a person added it: {line}" in result and line in ended.dropped)
        assert all(words in result for words in history.everything)
        lines.clear()


def _review(letter: str, number: int) -> str:
    point = f"point {number}{letter}"
    return {
        "R": revise(point),
        "D": review("DISCUSS", questions=[f"What about {point}?"]),
        "Q": review("REVISE", tier2=[found(point, "Quality")], questions=[f"Why {point}?"]),
        "M": "It could not be better!",
        "A": APPROVED,
    }[letter]


def _check_findings(tools: Tools) -> None:
    """What a review left open is in the next prompt, whoever gets it."""
    open_now: list[str] = []
    calls = iter(tools.calls)
    for record in [
        one for one in tools.records if one["kind"] == "verdict" and one["verdict"] != "UNREADABLE"
    ]:
        name = next(calls, "")
        while name and name != f"reviewer {record['call']}":
            name = next(calls, "")
        after = next(calls, "")
        open_now = [one["text"] for one in record["ledger"] if one["state"] == "open"]
        if after:
            assert all(text in tools.prompts[after].text for text in open_now)


RELAXED = settings(
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
)


@pytest.mark.parametrize("examples", [10, pytest.param(200, marks=pytest.mark.slow)])
def test_no_word_of_a_person_and_no_open_finding_gets_lost(tmp_path: Path, examples: int) -> None:
    @settings(RELAXED, max_examples=examples)
    @given(STEPS)
    def any_history(steps: list[Step]) -> None:
        walk(tmp_path / "history", steps)

    any_history()


def test_a_review_with_a_trailing_comma_or_a_comment_is_read(world: World) -> None:
    text = json.dumps(json.loads(APPROVED), indent=1)
    loose = text.replace("[]", "[ /* none */ ]").replace('"APPROVED"\n}', '"APPROVED", // at last\n}')
    tools = Tools(["\ufeff```json\n" + loose + "\n```"], resolves=False)
    assert (world.run(tools).status, tools.calls) == ("approved", ["drafter 1", "reviewer 1"])
