"""The loop of drafting and reviewing: how it ends, what prompts carry, that any cut can be resumed."""

import hashlib
import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from agentos.decisions import Decision
from agentos.errors import StopRequested
from agentos.model import Item
from agentos.repo_map.parts import Part, PartKind, RepositoryMap
from agentos.stamp import seal, split, text_hash
from agentos.wire import Ended
from agentos.workflows.lld import WORKFLOW as LLD
from agentos.workflows.prompts import shipped_template
from harness.loop import (
    APPROVED,
    ASKED,
    GARBAGE,
    ISSUE_DRAFT,
    NODES,
    OUTPUT,
    Tools,
    World,
    decide,
    found,
    lld,
    review,
    revise,
)


@pytest.fixture
def world(tmp_path: Path) -> World:
    (tmp_path / "repo").mkdir()
    return World(tmp_path)


# Endings.


def test_approved_at_once(world: World) -> None:
    tools = Tools()
    ended = world.run(tools)
    assert (ended.status, ended.verdict, ended.reviews, ended.output) == ("approved", "APPROVED", 1, OUTPUT)
    assert tools.calls == ["drafter 1", "reviewer 1"]
    assert world.trail() == ["001-issue.md", "002-draft.md", "003-verdict.md", "004-final.md"]
    document = world.files()[OUTPUT]
    assert document.startswith("# LLD-42: Draft 1\n")
    assert "- 1 review by b:reviewer, " in document
    assert "; details in `docs/lineage/done/42-lld`" in document


def test_revised_until_approved(world: World) -> None:
    tools = Tools([revise("cost"), revise("safety"), APPROVED])
    ended = world.run(tools)
    assert (ended.status, ended.reviews) == ("approved", 3)
    assert tools.calls == [f"{role} {number}" for number in (1, 2, 3) for role in ("drafter", "reviewer")]
    assert len(world.trail()) == 8
    assert world.files()[OUTPUT].startswith("# LLD-42: Draft 3\n")


def test_the_other_workflow_saves_an_issue_where_the_first_one_finds_it(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    brief = Item(
        workflow="issue", id="dark-mode", label="ISSUE-dark-mode", title="T", text="dark", source="s"
    )
    world = World(tmp_path, item=brief)
    ended = world.run(Tools(drafts=[ISSUE_DRAFT]))
    assert (ended.status, ended.output) == ("approved", "issues/active/dark-mode.md")
    assert world.trail() == ["001-brief.md", "002-draft.md", "003-verdict.md", "004-final.md"]


def test_a_placeholder_reference_becomes_the_items_own_and_is_noted(world: World) -> None:
    tools = Tools(drafts=[lld(reference="#TBD")])
    assert world.run(tools).status == "approved"
    assert "**Issue:** #42" in world.files()[OUTPUT]
    assert any("#TBD" in line for line in tools.said)
    assert "#TBD" not in tools.prompts["reviewer 1"].text


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_after_so_many_reviews_it_needs_revision(world: World, limit: int) -> None:
    tools = Tools([revise(f"point {number}") for number in range(10)])
    ended = world.run(tools, max_iterations=limit)
    assert (ended.status, ended.verdict, ended.reviews) == ("needs_revision", "REVISE", limit)
    assert f"not approved after {limit} review" in str(ended.error)
    assert OUTPUT not in world.files()


@pytest.mark.parametrize(
    "again",
    [
        revise("cost", "safety"),
        review("REVISE", tier1=[found("safety"), found("cost")]),
        review("REVISE", tier1=[found("COST", text="what is  WRONG with cost."), found("safety")]),
        review("REVISE", tier1=[found("cost"), found("safety")], suggestions=["Something new."]),
    ],
    ids=["word for word", "in another order", "in other spelling", "with another suggestion"],
)
def test_no_progress_when_the_same_findings_come_back_twice(world: World, again: str) -> None:
    ended = world.run(Tools([revise("cost", "safety"), again]))
    assert (ended.status, ended.reviews) == ("needs_revision", 3)
    assert "no progress" in str(ended.error)


@pytest.mark.parametrize(
    "reviews",
    [
        [revise("a"), revise("a"), revise("b"), revise("b"), revise("c")],
        [revise("a"), revise("a", "b"), revise("a"), revise("a", "b"), revise("a")],
        [revise("a"), revise("a"), revise("b"), revise("a"), revise("a")],
    ],
)
def test_findings_that_change_in_between_are_progress(world: World, reviews: list[str]) -> None:
    ended = world.run(Tools(reviews))
    assert ended.reviews == 5
    assert "no progress" not in str(ended.error)


def test_an_approval_beside_a_tier_2_finding_stands_and_the_finding_is_a_follow_up(world: World) -> None:
    ended = world.run(Tools([review("APPROVED", tier2=[found("names", "Quality")])]))
    assert ended.status == "approved"
    line = "- **F1** Tier 2, Quality: **names** What is wrong with names. Recommendation: Mend names."
    assert f"## Follow-ups\n\n{line}\n" in world.files()[OUTPUT]


def test_an_approval_beside_a_tier_1_finding_is_none(world: World) -> None:
    tools = Tools([review("APPROVED", tier1=[found("cost")]), APPROVED])
    ended = world.run(tools)
    assert (ended.status, ended.reviews) == ("approved", 2)
    assert "What is wrong with cost." in tools.prompts["drafter 2"].text


# What a prompt carries.


def test_every_open_finding_and_the_draft_reach_the_next_revision(world: World) -> None:
    first = review(
        "REVISE",
        tier1=[found("cost"), found("keys", "Security")],
        tier2=[found("layers", "Architecture"), found("traces", "Observability")],
        suggestions=["Consider a diagram."],
    )
    tools = Tools([first, APPROVED])
    world.run(tools)
    told = tools.prompts["drafter 2"].text
    for title in ("cost", "keys", "layers", "traces"):
        assert title in told
        assert f"What is wrong with {title}." in told
        assert f"Mend {title}." in told
    assert "Consider a diagram." in told
    assert "# LLD-42: Draft 1" in told
    assert "Please." in told
    assert "What is wrong with cost." in tools.prompts["reviewer 2"].text


def test_the_first_draft_is_asked_for_with_issue_and_template(world: World) -> None:
    tools = Tools()
    world.run(tools)
    told = tools.prompts["drafter 1"].text
    assert "Please." in told
    assert shipped_template("lld").strip() in told


def test_findings_survive_a_draft_that_the_gate_returns(world: World) -> None:
    tools = Tools([revise("cost"), APPROVED], drafts=[lld(1), "# nothing", lld(3)])
    assert world.run(tools).status == "approved"
    assert "What is wrong with cost." in tools.prompts["drafter 3"].text
    assert "Proposed Changes" in tools.prompts["drafter 3"].text


# The gate.


def test_what_a_draft_misses_goes_back_by_name_before_a_review_is_paid_for(world: World) -> None:
    tools = Tools(drafts=["# LLD-42\n\n**Issue:** #42\n\n## Context\n\nWhy.\n", lld(2)])
    ended = world.run(tools)
    assert (ended.status, ended.reviews) == ("approved", 1)
    assert tools.calls == ["drafter 1", "drafter 2", "reviewer 1"]
    missing = [line for line in tools.prompts["drafter 2"].text.splitlines() if line.startswith("- ")]
    assert "- Proposed Changes" in missing
    assert "- Context" not in missing


def test_a_draft_goes_back_three_times_in_a_row_then_the_item_fails(world: World) -> None:
    tools = Tools(drafts=["# nothing"])
    ended = world.run(tools)
    assert ended.status == "failed"
    assert "Context" in str(ended.error)
    assert tools.calls == [f"drafter {number}" for number in (1, 2, 3, 4)]


def test_only_returns_in_a_row_count(world: World) -> None:
    bad = "# nothing"
    drafts = [bad, bad, bad, lld(4), bad, bad, bad, lld(8)]
    tools = Tools([revise("cost"), APPROVED], drafts=drafts)
    assert world.run(tools).status == "approved"
    assert len([call for call in tools.calls if call.startswith("drafter")]) == 8


def test_a_later_run_gives_a_draft_that_failed_the_gate_new_tries(world: World) -> None:
    world.run(Tools(drafts=["# nothing"]))
    again = Tools(drafts=["# nothing"] * 5 + [lld(6)])
    assert world.run(again, run_id="run-2").status == "approved"
    assert again.calls == ["drafter 5", "drafter 6", "reviewer 1"]


# Paths under "Files changed".


TRACKED = ("src/pool.py", "src/keys.py")


def naming(*lines: str, number: int = 1) -> str:
    return lld(number) + "\n### Files changed\n\n" + "".join(f"- {line}\n" for line in lines)


def test_wrong_paths_go_to_the_reviewer_with_the_draft_and_then_to_the_drafter(world: World) -> None:
    bad = naming("`src/pol.py`: changed", "`src/keys.py`: added", "`src/new.py`: added")
    good = naming("`src/pool.py`: changed", number=2)
    tools = Tools([revise("paths"), APPROVED], drafts=[bad, good])
    assert world.run(tools, files=TRACKED).status == "approved"
    assert tools.calls == ["drafter 1", "reviewer 1", "drafter 2", "reviewer 2"]
    assert "draft 1 names files that do not exist: src/pol.py (nearest: src/pool.py)" in tools.said
    assert "draft 1 adds files that exist already: src/keys.py" in tools.said
    assert "draft 1 has every required section; the reviewer is told about the paths" in tools.said
    assert "draft 1 passed the gate" not in tools.said
    for name in ("reviewer 1", "drafter 2"):
        told = "- src/pol.py (nearest: src/pool.py)\n- src/keys.py (exists already)\n"
        assert told in tools.prompts[name].text
    gates = [record["paths"] for record in tools.records if record["kind"] == "gate"]
    assert gates == [["src/pol.py (nearest: src/pool.py)", "src/keys.py (exists already)"], []]
    assert "Wrong paths" not in tools.prompts["reviewer 2"].text.split("## The item")[1]


@pytest.mark.parametrize("files", [(), ("src/pol.py",)])
def test_without_tracked_files_or_with_the_right_ones_nothing_goes_back(
    world: World, files: tuple[str, ...]
) -> None:
    tools = Tools(drafts=[naming("`src/pol.py`: changed")])
    world.run(tools, files=files)
    assert tools.calls == ["drafter 1", "reviewer 1"]


def test_a_file_that_another_open_design_adds_counts_as_existing(world: World) -> None:
    folder = (world.root / "repo" / OUTPUT).parent
    folder.mkdir(parents=True)
    (folder / "LLD-7.md").write_text(naming("`src/later.py`: added"))
    (folder / "LLD-8.md").write_bytes(b"\xff")
    tools = Tools(drafts=[naming("`src/later.py`: changed")])
    world.run(tools, files=TRACKED)
    assert tools.calls == ["drafter 1", "reviewer 1"]


def test_the_other_workflow_has_no_files_to_check(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    brief = Item(workflow="issue", id="dark", label="ISSUE-dark", title="T", text="dark", source="s")
    tools = Tools(drafts=[ISSUE_DRAFT + "\n## Files changed\n\n- `src/pol.py`: changed\n"])
    World(tmp_path, item=brief).run(tools, files=TRACKED)
    assert tools.calls == ["drafter 1", "reviewer 1"]


def test_a_person_s_own_document_is_reviewed_as_it_is_whatever_it_names(world: World) -> None:
    path = world.root / "repo" / OUTPUT
    path.parent.mkdir(parents=True)
    path.write_text(naming("`src/pol.py`: changed"))
    tools = Tools()
    world.run(tools, files=TRACKED, revise=True, said=[Decision(id=1)])
    assert tools.calls == ["reviewer 1"]
    assert "- src/pol.py (nearest: src/pool.py)" in tools.prompts["reviewer 1"].text


def test_a_checkpoint_from_before_there_was_a_check_of_paths_goes_on(world: World) -> None:
    first = Tools(drafts=[naming("`src/pol.py`: changed")])
    world.run(first, stop_before="review")
    again = Tools(drafts=[naming("`src/pol.py`: changed")])
    assert world.run(again, files=TRACKED).status == "approved"
    assert again.calls == ["reviewer 1"]


# Templates, rules and the repository.


def test_the_gate_asks_for_the_headings_of_the_template(world: World) -> None:
    template = "# LLD-<id>\n\n**Issue:** #\n\n## Kontext\n\n<!-- required -->\n"
    tools = Tools(drafts=[lld(1), lld(2) + "\n## Kontext\n\nWarum.\n"])
    assert world.run(tools, template=template).status == "approved"
    assert "draft 1 is missing: Kontext" in tools.said
    assert "missing parts\n- Kontext\n" in tools.prompts["drafter 2"].text


def test_both_models_get_the_map_the_rules_and_the_language_in_every_round(world: World) -> None:
    tree = Part(kind=PartKind.TREE, path=".", text="src/pool.py", why="the tree")
    own = Part(kind=PartKind.FILE, path="src/pool.py", text="POOL = 1", why="named")
    tools = Tools([revise("cost"), APPROVED])
    world.run(
        tools,
        repository=RepositoryMap(shared=(tree,), own=(own,)),
        rules="R7: no globals.",
        language="German",
        fence_secret="s3cret",
    )
    assert len(tools.prompts) == 4
    for prompt in tools.prompts.values():
        for words in ("tree .\nsrc/pool.py\n", "file src/pool.py\nPOOL = 1\n", "R7: no globals.", "German"):
            assert words in prompt.text
        assert "s3cret" not in prompt.text
    for role in ("drafter", "reviewer"):
        one, two = (tools.prompts[f"{role} {number}"] for number in (1, 2))
        assert one.text[: one.breaks[1]] == two.text[: two.breaks[1]]


# Reviews that cannot be read.


def test_an_unreadable_review_is_never_an_approval_and_is_asked_for_again(world: World) -> None:
    tools = Tools([GARBAGE, APPROVED])
    ended = world.run(tools)
    assert (ended.status, ended.reviews) == ("approved", 1)
    assert tools.calls == ["drafter 1", "reviewer 1", "reviewer 2"]
    assert "It could not be read. " in tools.prompts["reviewer 2"].text
    verdicts = [text for name, text in world.files().items() if name.endswith("-verdict.md")]
    assert GARBAGE in verdicts[0]


@pytest.mark.parametrize("reply", [GARBAGE, "", APPROVED[:-30], "<html>502</html>", APPROVED + APPROVED])
def test_three_unreadable_reviews_in_a_row_fail_the_item(world: World, reply: str) -> None:
    tools = Tools([reply])
    ended = world.run(tools)
    assert (ended.status, ended.verdict, ended.reviews) == ("failed", "UNREADABLE", 0)
    assert tools.calls == ["drafter 1", "reviewer 1", "reviewer 2", "reviewer 3"]


def test_only_unreadable_reviews_in_a_row_count(world: World) -> None:
    reviews = [GARBAGE, GARBAGE, revise("a"), GARBAGE, APPROVED]
    ended = world.run(Tools(reviews), max_iterations=2)
    assert (ended.status, ended.reviews) == ("approved", 2)


def test_a_later_run_reviews_the_same_draft_again(world: World) -> None:
    world.run(Tools([GARBAGE]))
    again = Tools([GARBAGE] * 3 + [APPROVED])
    assert world.run(again, run_id="run-2").status == "approved"
    assert again.calls == ["reviewer 4"]


def test_findings_stay_open_over_an_unreadable_review(world: World) -> None:
    tools = Tools([revise("cost"), GARBAGE, revise("other"), APPROVED])
    world.run(tools)
    assert "What is wrong with cost." in tools.prompts["reviewer 3"].text


# A person decides.


def test_a_discussion_waits_with_its_question_and_costs_nothing_until_it_is_answered(world: World) -> None:
    ended = world.run(Tools([ASKED]))
    assert (ended.status, ended.verdict, ended.reviews) == ("discuss", "DISCUSS", 1)
    assert (ended.error, ended.questions) == ("Q1: Which database?", ["Q1: Which database?"])
    for run_id in ("run-1", "run-2"):
        waiting = Tools([ASKED])
        assert world.run(waiting, run_id=run_id).status == "discuss"
        assert waiting.calls == []


def test_an_answer_to_another_discussion_is_no_answer(world: World) -> None:
    world.run(Tools([ASKED]))
    tools = Tools()
    assert world.run(tools, said=decide("approve", reviews=2)).status == "discuss"
    assert tools.calls == []


def test_a_person_may_approve(world: World) -> None:
    world.run(Tools([ASKED]))
    tools = Tools()
    ended = world.run(tools, run_id="run-2", said=decide("approve", note="Take SQLite."))
    assert (ended.status, ended.verdict) == ("approved", "APPROVED")
    assert tools.calls == []
    assert (
        "## Decisions\n\n- 1 Jan 2026, ann: **Which database?** Take SQLite.\n"
        "- 1 Jan 2026, ann: Accepted as it is: F1 (Tier 2, Architecture: storage).\n\n## Review log\n\n"
        "- 1 review by b:reviewer, approved by ann, "
    ) in world.files()[OUTPUT]
    assert [record["kind"] for record in tools.records] == ["decision"]


def test_a_person_may_ask_for_a_revision_and_drafter_and_reviewer_hear_it(world: World) -> None:
    world.run(Tools([ASKED]))
    tools = Tools([ASKED, APPROVED])
    ended = world.run(tools, run_id="run-2", said=decide("revise", note="Take SQLite."))
    assert (ended.status, ended.reviews) == ("approved", 2)
    assert tools.calls == ["drafter 2", "reviewer 2"]
    for name in tools.calls:
        assert "Take SQLite." in tools.prompts[name].text
    assert "What is wrong with storage." in tools.prompts["drafter 2"].text


def test_a_persons_word_holds_until_a_review_was_read(world: World) -> None:
    world.run(Tools([ASKED]))
    tools = Tools([ASKED, GARBAGE, APPROVED], drafts=[lld(1), "# nothing", lld(3)])
    assert world.run(tools, run_id="run-2", said=decide("revise", note="Take SQLite.")).status == "approved"
    assert tools.calls == ["drafter 2", "drafter 3", "reviewer 2", "reviewer 3"]
    for name in tools.calls:
        assert "Take SQLite." in tools.prompts[name].text, name


def test_a_persons_word_gives_a_new_allowance_of_reviews(world: World) -> None:
    world.run(Tools([revise("a"), ASKED]), max_iterations=2)
    tools = Tools([revise("a"), ASKED, revise("b"), APPROVED])
    ended = world.run(tools, run_id="run-2", max_iterations=2, said=decide("revise", reviews=2))
    assert (ended.status, ended.reviews) == ("approved", 4)


def test_a_second_discussion_needs_a_second_answer(world: World) -> None:
    world.run(Tools([ASKED]))
    second = review("DISCUSS", questions=["Which host?"])
    ended = world.run(Tools([ASKED, second]), run_id="run-2", said=decide("revise"))
    assert (ended.status, ended.reviews, ended.error) == ("discuss", 2, "Q2: Which host?")
    again = world.run(Tools([ASKED]), run_id="run-3", said=decide("approve", reviews=2, number=2))
    assert again.status == "approved"


# A later run.


def test_an_item_that_needs_revision_is_not_tried_again_by_itself(world: World) -> None:
    world.run(Tools([revise("a"), revise("b")]), max_iterations=2)
    tools = Tools()
    ended = world.run(tools, run_id="run-2", max_iterations=2)
    assert (ended.status, ended.reviews, tools.calls) == ("needs_revision", 2, [])


def test_retry_failed_gives_a_new_allowance(world: World) -> None:
    points = [revise(f"point {number}") for number in range(10)]
    world.run(Tools(points), max_iterations=2)
    tools = Tools(points)
    ended = world.run(tools, run_id="run-2", max_iterations=2, retry_failed=True)
    assert (ended.status, ended.reviews) == ("needs_revision", 4)
    assert tools.calls == ["drafter 3", "reviewer 3", "drafter 4", "reviewer 4"]
    assert "What is wrong with point 1." in tools.prompts["drafter 3"].text


def test_retry_failed_gives_its_allowance_once_a_run(world: World) -> None:
    points = [revise(f"point {number}") for number in range(10)]
    world.run(Tools(points), max_iterations=1)
    world.run(Tools(points), run_id="run-2", max_iterations=1, retry_failed=True)
    tools = Tools(points)
    ended = world.run(tools, run_id="run-2", max_iterations=1, retry_failed=True)
    assert (ended.reviews, tools.calls) == (2, [])


def test_retry_failed_tries_one_that_made_no_progress_again(world: World) -> None:
    world.run(Tools([revise("a")]))
    tools = Tools([revise("a")] * 3 + [APPROVED])
    assert world.run(tools, run_id="run-2", retry_failed=True).status == "approved"
    assert tools.calls == ["drafter 4", "reviewer 4"]


def test_a_raised_limit_goes_on_where_it_stopped(world: World) -> None:
    points = [revise(f"point {number}") for number in range(3)]
    world.run(Tools(points), max_iterations=2)
    tools = Tools([*points, APPROVED])
    ended = world.run(tools, run_id="run-2", max_iterations=4)
    assert (ended.status, ended.reviews) == ("approved", 4)
    assert tools.calls == ["drafter 3", "reviewer 3", "drafter 4", "reviewer 4"]


def test_a_raised_limit_does_not_go_on_with_one_that_made_no_progress(world: World) -> None:
    world.run(Tools([revise("a")]))
    tools = Tools()
    assert world.run(tools, run_id="run-2", max_iterations=50).status == "needs_revision"
    assert tools.calls == []


# Cut off and resumed.


REVIEWS = [revise("cost"), GARBAGE, APPROVED]
USES = 15  # of the tools in such a run: two drafts, three reviews, and what is said and noted of each


def same_files(one: dict[str, str], other: dict[str, str]) -> bool:
    """Equal but for the hashes in stamps: the review log has the name of the trail, which differs."""
    stamped = re.compile(r"text=sha256:[0-9a-f]{64}")
    plain = [{name: stamped.sub("", text) for name, text in files.items()} for files in (one, other)]
    return plain[0] == plain[1]


def same_end(one: Ended, other: Ended) -> bool:
    return one.model_copy(update={"text_hash": ""}) == other.model_copy(update={"text_hash": ""})


@dataclass(frozen=True)
class Uncut:
    """How the run ends that nothing cuts off."""

    ended: Ended
    files: dict[str, str]
    calls: list[str]


@pytest.fixture(scope="module")
def uncut(tmp_path_factory: pytest.TempPathFactory) -> Uncut:
    root = tmp_path_factory.mktemp("uncut")
    (root / "repo").mkdir()
    whole, tools = World(root), Tools(REVIEWS)
    ended = whole.run(tools)
    assert tools.uses == USES
    return Uncut(ended=ended, files=whole.files(), calls=tools.calls)


@pytest.mark.parametrize("node", NODES)
def test_a_run_stopped_before_any_node_goes_on_there(world: World, uncut: Uncut, node: str) -> None:
    calls: list[str] = []
    for life in range(10):
        tools = Tools(REVIEWS)
        last = world.run(tools, run_id=f"run-{life}", stop_before=node)
        calls += tools.calls
        if last.status == "approved":
            break
    assert last is not None
    assert same_end(last, uncut.ended)
    assert calls == uncut.calls
    assert same_files(world.files(), uncut.files)


@pytest.mark.parametrize("cut_at", range(1, USES + 1))
def test_a_run_cut_off_anywhere_goes_on_and_pays_nothing_twice(
    world: World, uncut: Uncut, cut_at: int
) -> None:
    first, second = Tools(REVIEWS, cut_at=cut_at), Tools(REVIEWS)
    with pytest.raises(StopRequested):
        world.run(first)
    assert same_end(world.run(second, run_id="run-2"), uncut.ended)
    assert first.calls + second.calls == uncut.calls
    assert same_files(world.files(), uncut.files)


def test_a_run_cut_off_after_everything_was_in_place_only_ends(world: World, uncut: Uncut) -> None:
    tools = Tools(REVIEWS)
    world.run(tools, stop_before="finalize")
    before = (world.root / "checkpoint.db").read_bytes()
    assert same_end(world.run(tools), uncut.ended)
    document = world.root / "repo" / OUTPUT
    approved = text_hash(split(document.read_text()).body)
    document.write_text("edited since then")
    # Its last step is not in the checkpoint.
    for path in world.root.glob("checkpoint.db*"):
        path.unlink()
    (world.root / "checkpoint.db").write_bytes(before)
    again = Tools(REVIEWS)
    assert same_end(world.run(again, run_id="run-2"), uncut.ended)
    assert (again.calls, document.read_text()) == ([], "edited since then")
    # What was approved is known by its own text, not by what is there now.
    assert world.run(Tools(REVIEWS), run_id="run-3").text_hash == approved


def test_a_run_cut_off_time_and_again_ends_all_the_same(world: World, uncut: Uncut) -> None:
    calls: list[str] = []
    last = None
    for life in range(3 * USES):
        tools = Tools(REVIEWS, cut_at=1 + life % 3)
        try:
            last = world.run(tools, run_id=f"run-{life}")
        except StopRequested:
            continue
        finally:
            calls += tools.calls
        break
    assert last is not None
    assert same_end(last, uncut.ended)
    assert calls == uncut.calls
    assert same_files(world.files(), uncut.files)


def test_a_finished_item_that_is_run_again_stays_finished(world: World) -> None:
    ended = world.run(Tools())
    files = world.files()
    tools = Tools()
    assert world.run(tools, run_id="run-2") == ended
    assert tools.calls == []
    assert world.files() == files


# A document that is there.


FOREIGN = "# A person's design\n\nBy hand.\n"


def sealed(body: str = "# LLD-42: Before\n", text: str = "# Login\n\nPlease.\n", by: str = "a+b") -> str:
    return seal(body, item="LLD-42", input_hash=hashlib.sha256(text.encode()).hexdigest(), by=by)


def test_a_persons_document_is_kept_before_anything_is_paid_for_and_replaced_at_the_end(world: World) -> None:
    path = world.put_in_the_way()
    first = Tools()
    world.run(first, stop_before="draft")
    assert first.calls == []
    assert path.read_text() == "mine"
    assert world.trail("active") == ["001-issue.md", "002-edited.md"]
    assert any("002-edited.md" in line for line in first.said)
    assert world.run(Tools(), run_id="run-2").status == "approved"
    files = world.files()
    assert files["docs/lineage/done/42-lld/002-edited.md"] == "mine"
    assert files[OUTPUT].startswith("# LLD-42: Draft 1\n")
    assert world.trail() == [
        "001-issue.md",
        "002-edited.md",
        "003-draft.md",
        "004-verdict.md",
        "005-final.md",
    ]


@pytest.mark.parametrize("killed", [False, True])
def test_a_file_that_comes_in_the_way_is_kept_in_the_trail_and_replaced(world: World, killed: bool) -> None:
    world.run(Tools(), stop_before="finalize")
    path = world.put_in_the_way()
    tools = Tools()
    if killed:
        with pytest.raises(StopRequested):
            world.run(Tools(cut_at=1), run_id="run-1")
        assert world.run(tools, run_id="run-2").status == "approved"
    else:
        assert world.run(tools, run_id="run-2").status == "approved"
        assert any("edited in the meantime" in line and "004-edited.md" in line for line in tools.said)
    assert tools.calls == []
    assert path.read_text().startswith("# LLD-42: Draft 1\n")
    assert world.files()["docs/lineage/done/42-lld/004-edited.md"] == "mine"
    assert world.trail()[-1] == "005-final.md"


def test_a_beginning_that_is_cut_off_after_it_kept_a_document_leaves_one_trail(world: World) -> None:
    world.put_in_the_way()
    with pytest.raises(StopRequested):
        world.run(Tools(cut_at=1))
    assert world.run(Tools(), run_id="run-2").status == "approved"
    assert len(world.trail()) == 5


@pytest.mark.parametrize(
    ("document", "kept"),
    [
        (FOREIGN, "002-edited.md"),
        (sealed() + "More.\n", "002-edited.md"),
        (sealed(), "002-replaced.md"),
        (sealed(by="mock") + "More.\n", "002-edited.md"),
        (sealed(by="mock"), None),
    ],
    ids=["foreign", "edited", "ours", "edited mock", "mock"],
)
def test_all_but_the_mocks_own_is_kept(world: World, document: str, kept: str | None) -> None:
    world.put_in_the_way().write_text(document)
    assert world.run(Tools()).status == "approved"
    texts = [text for name, text in world.files().items() if "/done/" in name]
    assert (document in texts) == (kept is not None)
    assert len(world.trail()) == (5 if kept else 4)
    if kept:
        assert world.files()[f"docs/lineage/done/42-lld/{kept}"] == document


def test_the_document_is_the_basis_of_the_first_draft_where_that_is_asked(world: World) -> None:
    world.put_in_the_way().write_text(FOREIGN)
    tools = Tools()
    assert world.run(tools, revise=True).status == "approved"
    for name in ("drafter 1", "reviewer 1"):
        assert "By hand." in tools.prompts[name].text, name


def test_the_document_is_no_basis_where_it_is_not_asked(world: World) -> None:
    world.put_in_the_way().write_text(FOREIGN)
    tools = Tools()
    world.run(tools)
    assert all("By hand." not in prompt.text for prompt in tools.prompts.values())


def test_both_models_see_what_the_document_was_written_for(world: World) -> None:
    before = World(world.root, item=replace(world.item, text="The old wish."))
    before.run(Tools())
    (world.root / "checkpoint.db").unlink()
    tools = Tools()
    assert world.run(tools, run_id="run-2", revise=True).status == "approved"
    assert "The old wish." in tools.prompts["drafter 1"].text
    assert "The old wish." in tools.prompts["reviewer 1"].text
    assert len(list((world.root / "repo/docs/lineage/done").iterdir())) == 2


# Notes.


def note(number: int, text: str) -> Decision:
    return Decision(id=number, text=text, by="ann", at="2026-01-01T00:00:00Z")


def test_a_note_reaches_both_models_and_stays_in_the_document(world: World) -> None:
    world.put_in_the_way().write_text(sealed())
    tools = Tools()
    assert world.run(tools, revise=True, said=[note(1, "Name it better.")]).status == "approved"
    for name in ("drafter 1", "reviewer 1"):
        assert "Name it better." in tools.prompts[name].text, name
    assert "## Decisions\n\n- 1 Jan 2026, ann: Name it better.\n" in world.files()[OUTPUT]


def test_a_note_without_a_word_has_the_document_reviewed_as_it_is(world: World) -> None:
    world.put_in_the_way().write_text(lld(7))
    tools = Tools()
    assert world.run(tools, revise=True, said=[note(1, "")]).status == "approved"
    assert tools.calls == ["reviewer 1"]
    assert world.files()[OUTPUT].startswith("# LLD-42: Draft 7\n")


def test_a_note_lets_an_item_go_on_that_needs_revision(world: World) -> None:
    world.run(Tools([revise("a"), revise("b")]), max_iterations=2)
    tools = Tools([revise("a"), revise("b"), APPROVED])
    ended = world.run(tools, run_id="run-2", max_iterations=2, said=[note(1, "Cut it in half.")])
    assert (ended.status, tools.calls) == ("approved", ["drafter 3", "reviewer 3"])
    assert "Cut it in half." in tools.prompts["drafter 3"].text


def test_a_note_that_comes_after_the_draft_is_heard_before_the_approval(world: World) -> None:
    world.run(Tools(), stop_before="review")
    tools = Tools()
    assert world.run(tools, run_id="run-2", said=[note(1, "Also in blue.")]).status == "approved"
    assert tools.calls == ["reviewer 1", "drafter 2", "reviewer 2"]
    assert "Also in blue." in tools.prompts["drafter 2"].text


# What is left behind.


def test_the_audit_tells_of_every_gate_and_verdict(world: World) -> None:
    tools = Tools([revise("cost"), APPROVED])
    world.run(tools)
    assert [record["kind"] for record in tools.records] == ["gate", "verdict", "gate", "verdict"]
    first = tools.records[1]
    assert (first["review"], first["verdict"], first["model"]) == (1, "REVISE", "reviewer-model")
    assert [finding["title"] for finding in first["findings"]] == ["cost"]


def test_a_verdict_in_the_trail_is_a_document_people_can_read(world: World) -> None:
    world.run(Tools([revise("cost"), APPROVED]))
    verdict = next(text for name, text in world.files().items() if name.endswith("003-verdict.md"))
    assert "Verdict" in verdict
    assert "cost" in verdict
    assert not verdict.startswith("{")


@pytest.mark.parametrize("half", ["half of a pair: \ud83d", "an undecodable byte: \udcff"])
def test_a_model_that_sends_half_a_character_does_not_bring_its_item_down(world: World, half: str) -> None:
    draft = f"{lld()}\n{half}\n"
    assert world.run(Tools(drafts=[draft])).status == "approved"
    assert world.files()[OUTPUT].startswith("# LLD-42")


def test_an_end_without_an_ending_is_a_failure() -> None:
    ended = LLD.ending({"reviews": 1, "verdict": "REVISE"}, None)
    assert (ended.status, ended.reviews) == ("failed", 1)
