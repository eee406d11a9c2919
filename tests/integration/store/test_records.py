"""Records: what is kept, what is kept once, who holds what; the database and the memory alike."""

from dataclasses import replace
from typing import Any

import pytest

from agentos.decisions import Decision
from agentos.model import Item, Status
from agentos.store.records import FilingState, Paid, Taken, timestamp
from agentos.store.records.protocols import AllRecords
from harness.records import AT, answer, approve, begin, end, hold, item, note, paid, said

# Outcomes.


def test_an_approval_becomes_the_outcome_of_that_item_and_input(records: AllRecords) -> None:
    begin(records, item(), "run-1")
    approve(records, item())
    outcome = records.outcomes("lld")["42"]
    assert outcome.input_hash == item().input_hash
    assert (outcome.run_id, outcome.verdict, outcome.reviews, outcome.output) == (
        "run-1",
        "APPROVED",
        2,
        "out.md",
    )
    assert records.progress() == {}


def test_an_outcome_is_written_once(records: AllRecords) -> None:
    approve(records, item(), "run-1", output="first.md")
    approve(records, item(), "run-2", output="second.md")
    (outcome,) = records.outcomes("lld").values()
    assert (outcome.run_id, outcome.output) == ("run-1", "first.md")


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.APPROVED])
def test_any_other_ending_is_no_outcome(records: AllRecords, status: Status) -> None:
    begin(records, item(), "run-1")
    end(records, item(), status)
    assert records.outcomes("lld") == {}


# Progress.


def test_progress_follows_the_item_from_node_to_node(records: AllRecords) -> None:
    begin(records, item(), "run-1")
    begun = records.progress("lld")["lld", "42"]
    assert (begun.status, begun.node, begun.reviews, begun.run_id) == ("running", "", 0, "run-1")
    records.at_node(item(), hold(records, item()), "review", 1)
    at = records.progress("lld")["lld", "42"]
    assert (at.status, at.node, at.reviews) == ("running", "review", 1)
    end(records, item(), Status.FAILED, reviews=2, error="it broke")
    ended = records.progress("lld")["lld", "42"]
    assert (ended.status, ended.node, ended.reviews, ended.error) == ("failed", "review", 2, "it broke")


def test_a_later_run_on_the_same_input_keeps_how_far_the_item_got(records: AllRecords) -> None:
    begin(records, item(), "run-1")
    records.at_node(item(), hold(records, item()), "review", 2)
    end(records, item(), Status.INTERRUPTED)
    begin(records, item(), "run-2")
    again = records.progress()["lld", "42"]
    assert (again.status, again.run_id, again.node, again.reviews) == ("running", "run-2", "review", 2)


def test_a_later_run_on_another_input_begins_from_nothing(records: AllRecords) -> None:
    begin(records, item(text="old"), "run-1")
    records.at_node(item(text="old"), hold(records, item(text="old")), "review", 4)
    end(records, item(text="old"), Status.FAILED, reviews=4, error="it broke")
    begin(records, item(text="new"), "run-2")
    anew = records.progress()["lld", "42"]
    assert anew.input_hash == item(text="new").input_hash
    assert (anew.node, anew.reviews, anew.error) == ("", 0, None)


def test_an_ending_that_knows_of_fewer_reviews_takes_none_back(records: AllRecords) -> None:
    begin(records, item(), "run-1")
    records.at_node(item(), hold(records, item()), "draft", 3)
    end(records, item(), Status.INTERRUPTED, reviews=0)
    assert records.progress()["lld", "42"].reviews == 3


def test_progress_may_be_asked_for_one_workflow_or_all(records: AllRecords) -> None:
    begin(records, item(), "run-1")
    begin(records, item("idea", workflow="issue"), "run-1")
    assert records.progress().keys() == {("lld", "42"), ("issue", "idea")}
    assert records.progress("issue").keys() == {("issue", "idea")}


def test_progress_can_be_dropped_unless_a_living_run_has_the_item(
    records: AllRecords, dead: set[str]
) -> None:
    begin(records, item(), "run-1")
    begin(records, item("43"), "run-1")
    holder = records.drop_progress("lld", "42")
    assert holder is not None
    assert holder.run_id == "run-1"
    assert records.progress().keys() == {("lld", "42"), ("lld", "43")}
    dead.add("run-1")
    assert records.drop_progress("lld", "42") is None
    assert records.drop_progress("lld", "nobody") is None
    assert records.progress().keys() == {("lld", "43")}


def test_of_a_forgotten_item_only_what_people_said_is_kept(records: AllRecords) -> None:
    for one in (item(), item("43")):
        approve(records, one)
        begin(records, one, "run-2")
        answer(records, one, 1)
        note(records, one)
    before = records.decisions()
    records.forget(item(), hold(records, item()))
    assert records.outcomes("lld").keys() == {"43"}
    assert records.progress().keys() == {("lld", "43")}
    assert records.decisions() == before


# Decisions.


def test_what_people_said_is_given_in_its_order_until_a_document_has_it(records: AllRecords) -> None:
    for text in ("First.", "", "Third."):
        note(records, item(), text)
    note(records, item("43"))
    note(records, item(workflow="issue"))
    first, _, third = known = said(records, item())
    assert [(one.text, one.by, one.at, one.used) for one in known] == [
        (text, "ann", AT, False) for text in ("First.", "", "Third.")
    ]
    assert sorted({one.id for one in known}) == [one.id for one in known]
    assert records.decisions("lld").keys() == {("lld", "42"), ("lld", "43")}
    assert records.decisions().keys() == {("lld", "42"), ("lld", "43"), ("issue", "42")}
    fence = hold(records, item())
    assert records.use_decisions(item(), fence, known[1].id, kept=False) is None
    assert [one.used for one in said(records, item())] == [True, True, False]
    assert records.use_decisions(item(), fence, first.id, kept=True) is None
    assert [one.text for one in said(records, item())] == ["", "Third."]
    assert records.use_decisions(item(), fence, known[1].id, kept=False) is None  # takes nothing back
    assert records.use_decisions(item(), fence, third.id, kept=True) is None
    assert said(records, item()) == ()
    assert [one.used for one in (*said(records, item("43")), *said(records, item(workflow="issue")))] == [
        False,
        False,
    ]


def test_an_answer_is_kept_with_its_question_whatever_becomes_of_the_text(records: AllRecords) -> None:
    answer(records, item(), 2, "revise", "use less")
    begin(records, item(text="changed"))
    (known,) = said(records, item(text="changed"))
    assert (known.question, known.answer, known.text, known.reviews) == ("Which?", "revise", "use less", 2)


def test_an_answer_replaces_only_an_earlier_one_that_no_run_has_used(records: AllRecords) -> None:
    answer(records, item(), 1, "revise", "used")
    records.use_decisions(item(), hold(records, item()), said(records, item())[-1].id, kept=False)
    note(records, item(), "a note")
    answer(records, item("43"), 1, "revise", "another item")
    answer(records.of(mock=True), item(), 1, "revise", "another world")
    answer(records, item(), 2, "revise", "replaced")
    assert not answer(records, item(), 2, "revise", "too late", unless=lambda: True)
    records.decide("lld", "42", [Decision(text=text, answer="approve", reviews=2) for text in "xy"])
    assert [one.text for one in said(records, item())] == ["used", "a note", "x", "y"]
    assert [one.text for one in said(records, item("43"))] == ["another item"]
    assert [one.text for one in said(records.of(mock=True), item())] == ["another world"]


def test_what_is_said_while_a_run_uses_the_rest_waits(records: AllRecords) -> None:
    note(records, item(), "before")
    (before,) = said(records, item())
    note(records, item(), "meanwhile")
    records.use_decisions(item(), hold(records, item()), before.id, kept=True)
    (left,) = said(records, item())
    assert (left.text, left.used) == ("meanwhile", False)


# Claims.


def test_an_item_is_held_by_one_living_run(records: AllRecords) -> None:
    both = [item("1"), item("2")]
    assert records.claim(both[:1], "run-1") == {}
    refused = records.claim(both, "run-2")
    assert refused.keys() == {"1"}
    assert refused["1"].run_id == "run-1"
    assert {key: claim.run_id for key, claim in records.claims().items()} == {
        ("lld", "1"): "run-1",
        ("lld", "2"): "run-2",
    }


def test_the_claim_of_a_dead_run_is_taken_over(records: AllRecords, dead: set[str]) -> None:
    records.claim([item()], "run-1")
    records.claim([item("43")], "run-2")
    dead.add("run-1")
    assert records.claim([item()], "run-3") == {}
    assert {key: claim.run_id for key, claim in records.claims().items()} == {
        ("lld", "42"): "run-3",
        ("lld", "43"): "run-2",
    }


def test_the_claims_of_dead_runs_go_also_on_items_nobody_wants(records: AllRecords, dead: set[str]) -> None:
    records.claim([item("1"), item("2")], "run-1")
    dead |= {"run-1", "run-2"}  # a run that claims is alive, whatever is said of it
    records.claim([item("3")], "run-2")
    assert records.claim([item("4")], "run-2") == {}
    assert records.claims().keys() == {("lld", "3"), ("lld", "4")}


def test_a_run_releases_its_own_claims_only(records: AllRecords) -> None:
    records.claim([item("1")], "run-1")
    records.claim([item("2")], "run-2")
    records.release("run-1")
    assert records.claims().keys() == {("lld", "2")}


def test_the_same_id_in_two_workflows_is_two_items(records: AllRecords) -> None:
    records.claim([item()], "run-1")
    assert records.claim([item(workflow="issue")], "run-2") == {}


def test_an_item_named_twice_is_claimed_once(records: AllRecords) -> None:
    assert records.claim([item(), item(text="another")], "run-1") == {}
    assert records.claims().keys() == {("lld", "42")}


def test_a_run_may_claim_again_what_it_has(records: AllRecords) -> None:
    fence = begin(records, item(), "run-1")
    before = records.claims()
    assert records.claim([item()], "run-1") == {}
    assert records.claims() == before
    assert before["lld", "42"].attempt == fence.attempt


def test_the_holder_of_an_item_is_a_living_run(records: AllRecords, dead: set[str]) -> None:
    assert records.holder(item()) is None
    records.claim([item()], "run-1")
    holder = records.holder(item(text="another"))
    assert holder is not None
    assert holder.run_id == "run-1"
    dead.add("run-1")
    assert records.holder(item()) is None
    assert records.claims().keys() == {("lld", "42")}


def test_a_claim_that_fails_in_its_midst_takes_nothing(
    records: AllRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    records.claim([item("2")], "run-1")

    def broken(_run: str) -> bool:
        raise RuntimeError

    monkeypatch.setattr(records, "_alive", broken)
    with pytest.raises(RuntimeError):
        records.claim([item("1"), item("2")], "run-2")
    monkeypatch.undo()
    assert records.claims().keys() == {("lld", "2")}
    assert records.claim([item("1")], "run-3") == {}


def test_a_timestamp_is_utc_to_the_millisecond() -> None:
    assert len(timestamp()) == len("2026-01-01T00:00:00.000Z")
    assert timestamp().endswith("Z")


# What items took.

MODELS = {"drafter": "openai:big", "reviewer": "openai:small"}


def pay(records: AllRecords, one: Item, role: str, number: int = 1, **more: Any) -> None:
    told: dict[str, Any] = {
        "journal_id": f"life-{one.id}",
        "run_id": "run-1",
        "model": MODELS[role],
        "usd": 0.1,
    }
    told |= {"tokens_in": 100, "tokens_out": 10}
    records.pay(Paid(role=role, number=number, workflow=one.workflow, item=one.id, **told | more))


def test_what_an_item_took_is_known_once_it_is_approved(records: AllRecords) -> None:
    for number, role in ((1, "drafter"), (2, "drafter"), (1, "reviewer")):
        pay(records, item(), role, number)
    assert records.tokens_of_items("lld", **MODELS) == []
    approve(records, item())
    assert records.tokens_of_items("lld", **MODELS) == [
        {
            "drafter": Taken(calls=2, tokens_in=200, tokens_out=20),
            "reviewer": Taken(calls=1, tokens_in=100, tokens_out=10),
        }
    ]
    assert records.tokens_of_items("issue", **MODELS) == []


@pytest.mark.parametrize("role", ["drafter", "reviewer"])
@pytest.mark.parametrize("model", ["mock:drafter", "openai:other", None])
def test_an_item_with_a_call_of_another_or_an_unknown_model_is_not_measured(
    records: AllRecords, role: str, model: str | None
) -> None:
    pay(records, item(), "drafter")
    pay(records, item(), "reviewer")
    pay(records, item(), role, 2, model=model)
    approve(records, item())
    assert records.tokens_of_items("lld", **MODELS) == []
    assert records.tokens_of_items("lld", drafter=None, reviewer=None) == []


def test_an_item_is_measured_by_its_latest_start_and_what_failed_in_it(records: AllRecords) -> None:
    pay(records, item(), "drafter", journal_id="set aside", run_id="run-0", tokens_in=9_000)
    pay(records, item(), "drafter", 0, journal_id="run-0-1", run_id="run-0", tokens_in=5_000)
    records.forget(item(), hold(records, item()))
    pay(records, item(), "drafter")
    pay(records, item(), "drafter", 0, journal_id="run-1-1", tokens_in=7, tokens_out=0)
    pay(records, item(), "reviewer")
    approve(records, item())
    [found] = records.tokens_of_items("lld", **MODELS)
    assert found["drafter"] == Taken(calls=2, tokens_in=107, tokens_out=10)


def test_what_came_from_a_cache_is_remembered(records: AllRecords) -> None:
    pay(records, item(), "drafter", tokens_cached=80, tokens_cache_written=5)
    pay(records, item(), "drafter", 2, tokens_cached=1)
    approve(records, item())
    [found] = records.tokens_of_items("lld", **MODELS)
    expected = Taken(calls=2, tokens_in=200, tokens_out=20, tokens_cached=81, tokens_cache_written=5)
    assert found["drafter"] == expected


def test_the_source_of_each_workflow_is_remembered(records: AllRecords) -> None:
    assert records.source("lld") is None
    records.note_source("lld", "issues/active")
    records.note_source("issue", "ideas/active")
    records.note_source("lld", "acme/widgets on GitHub")
    assert records.source("lld") == "acme/widgets on GitHub"
    assert records.source("issue") == "ideas/active"


# Runs.


def test_a_run_continues_those_that_were_stopped_while_they_paid_for_its_items(
    records: AllRecords, dead: set[str]
) -> None:
    for run, one in (("run-1", "1"), ("run-2", "2"), ("run-3", "1"), ("run-4", "1")):
        records.begin_run(run, "lld", [])
        records.pay(paid(f"life-{run}", run_id=run, one=one))
    records.finish_run("run-4")
    dead |= {"run-1", "run-2", "run-4"}
    records.begin_run("run-5", "lld", ["1"])
    assert records.spent_before("lld", "run-5") == {"1": 1.0}
    dead.add("run-5")
    records.pay(paid("life-5", run_id="run-5", usd=2.0))
    records.begin_run("run-6", "lld", ["1", "2"])
    assert records.spent_before("lld", "run-6") == {"1": 3.0, "2": 1.0}
    assert records.spent_on_items("lld") == {"1": 5.0, "2": 1.0}


def test_a_paid_call_is_counted_once_whoever_tells_of_it(records: AllRecords) -> None:
    assert records.pay(paid("life-1"))
    assert not records.pay(paid("life-1", run_id="run-2", usd=9.0))
    assert records.spent_on_items("lld") == {"1": 1.0}


def test_a_run_that_another_continued_does_not_finish(records: AllRecords, dead: set[str]) -> None:
    records.begin_run("run-1", "lld", [])
    records.pay(paid("life-1"))
    dead.add("run-1")
    records.begin_run("run-2", "lld", ["1"])
    assert records.finish_run("run-1") == "run-2"
    assert records.finish_run("run-2") is None
    assert records.spent_before("lld", "run-2") == {"1": 1.0}


# Two worlds: what is real, and what is the mock's.


@pytest.mark.parametrize("mock", [False, True])
def test_nothing_that_one_world_notes_is_seen_in_the_other(records: AllRecords, mock: bool) -> None:
    mine, other = records.of(mock=mock), records.of(mock=not mock)
    begin(mine, item("1"), "run-1")
    mine.at_node(item("1"), hold(mine, item("1")), "review", 1)
    end(mine, item("1"), Status.DISCUSS, reviews=1, error="Which?")
    note(mine, item("1"))
    mine.begin_run("run-1", "lld", ["1", "2"])
    mine.pay(paid("life-1", usd=2.0))
    approve(mine, item("2"))
    assert (mine.mock, other.mock) == (mock, not mock)
    assert list(mine.progress()) == [("lld", "1")]
    assert list(mine.outcomes("lld")) == ["2"]
    assert list(mine.decisions()) == [("lld", "1")]
    assert mine.spent_on_items("lld") == {"1": 2.0}
    assert mine.usual_outputs("lld") == {"drafter": 20}
    assert other.progress() == {}
    assert other.outcomes("lld") == {}
    assert other.decisions() == {}
    assert other.spent_on_items("lld") == {}
    assert other.usual_outputs("lld") == {}


@pytest.mark.parametrize("mock", [False, True])
def test_what_one_world_does_changes_nothing_in_the_other(records: AllRecords, mock: bool) -> None:
    mine, other = records.of(mock=mock), records.of(mock=not mock)
    for world, run in ((mine, "run-1"), (other, "run-2")):
        begin(world, item(), run)
        world.at_node(item(), hold(world, item()), "review", 3)
        answer(world, item(), 3)
        world.pay(paid(run, run_id=run, one="42"))
        approve(world, item("7"), run)
    before = (other.progress(), other.outcomes("lld"), other.decisions(), other.spent_on_items("lld"))
    begin(mine, item(text="another"), "run-3")
    mine.at_node(item(text="another"), hold(mine, item(text="another")), "draft", 1)
    end(mine, item(text="another"), Status.FAILED, error="x")
    mine.moved(item("7"), hold(mine, item("7")), "elsewhere.md")
    mine.use_decisions(item(), hold(mine, item()), said(mine, item())[-1].id, kept=True)
    mine.forget(item(), hold(mine, item()))
    mine.forget(item("7"), hold(mine, item("7")))
    approve(mine, item(), "run-4")
    mine.release("run-4")
    assert mine.drop_progress("lld", "42") is None
    assert before == (other.progress(), other.outcomes("lld"), other.decisions(), other.spent_on_items("lld"))
    assert other.progress()["lld", "42"].run_id == "run-2"
    assert mine.progress() == {}


def test_a_real_run_does_not_go_on_from_one_of_the_mock(records: AllRecords, dead: set[str]) -> None:
    mock = records.of(mock=True)
    dead.add("run-1")
    mock.begin_run("run-1", "lld", ["1"])
    mock.pay(paid("life-1", usd=5.0))
    records.begin_run("run-2", "lld", ["1"])
    assert records.spent_before("lld", "run-2") == {}
    mock.begin_run("run-3", "lld", ["1"])
    assert mock.spent_before("lld", "run-3") == {"1": 5.0}


def test_the_history_of_what_items_took_is_of_one_world(records: AllRecords) -> None:
    for world, life in ((records, "a"), (records.of(mock=True), "b")):
        world.pay(paid(life, run_id=f"run-{life}"))
    approve(records.of(mock=True), item("1"))
    assert records.tokens_of_items("lld", drafter="a:x", reviewer="b:y") == []
    [found] = records.of(mock=True).tokens_of_items("lld", drafter="a:x", reviewer="b:y")
    assert found == {"drafter": Taken(calls=1, tokens_in=10, tokens_out=20)}


@pytest.mark.parametrize("filing", [False, True])
def test_the_mock_forgets_nothing_of_what_is_on_github(records: AllRecords, filing: bool) -> None:
    approve(records, item(), filing=FilingState.WANTED)
    mock = records.of(mock=True)
    assert mock.forget(item(), hold(mock, item()), filing=filing) is None
    row = records.filing(item())
    assert row is not None
    assert row.state is FilingState.WANTED
    records.forget(item(), hold(records, item()), filing=filing)
    assert records.filing(item()) is None


def test_a_claim_holds_in_both_worlds(records: AllRecords) -> None:
    assert records.claim([item()], "run-1") == {}
    assert set(records.of(mock=True).claim([item()], "run-2")) == {"42"}


# Hashes of the first version.


def test_what_was_noted_under_the_old_hash_of_a_text_is_taken_over(records: AllRecords) -> None:
    old, new = item(text="text and stamp"), replace(item(), old_hash=item(text="text and stamp").input_hash)
    approve(records, old, filing=FilingState.KEPT)
    begin(records, old, "run-2")
    other = item("43", text="text and stamp")
    begin(records, other, "run-3")
    for _ in range(2):
        records.rehash(new)
    assert records.outcomes("lld")["42"].input_hash == new.input_hash
    assert records.progress()["lld", "42"].input_hash == new.input_hash
    assert records.filing(new) is not None
    assert records.filing(old) is None
    assert records.progress()["lld", "43"].input_hash == other.input_hash


def test_what_the_new_hash_has_already_stays(records: AllRecords) -> None:
    old, new = item(text="old"), replace(item(), old_hash=item(text="old").input_hash)
    approve(records, old, "run-1")
    approve(records, new, "run-2")
    records.rehash(new)
    assert {one.run_id for one in records.outcomes("lld").values()} == {"run-2"}


@pytest.mark.parametrize("old_hash", ["", item().input_hash])
def test_without_an_old_hash_nothing_is_done(records: AllRecords, old_hash: str) -> None:
    approve(records, item(text="old"))
    records.rehash(replace(item(), old_hash=old_hash))
    assert records.outcomes("lld")["42"].input_hash == item(text="old").input_hash
