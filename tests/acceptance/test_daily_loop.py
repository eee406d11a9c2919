"""A team's daily loop: designs edited, issues changed, clones, feedback, mock and real runs side by side.

The models are an HTTP server's of the test, which keeps every prompt and counts every call.
"""

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentos.errors import Exit
from agentos.stamp import split
from agentos.store.documents import put_in_place
from agentos.store.lineage import Lineage
from harness.github import FakeGitHub, running_fakegithub
from harness.processes import kill, wait_until
from harness.project import ORPHAN_SECONDS, Command, Project, Result
from harness.provider import GIT, Asked, Bench, Provider

ISSUE = "# Rate limits\n\nThe old sentence asks for zanzibar.\n"
MakeProject = Callable[[str], Project]


@pytest.fixture
def designed(bench: Bench) -> Bench:
    """Issue 3105 has an approved design."""
    bench.project.issue(3105, ISSUE)
    paid, done = bench.paid("lld", "3105")
    assert (paid, done.code) == (2, 0), done
    return bench


def test_a_secret_in_an_issue_does_not_make_it_a_new_one_each_time(project: Project) -> None:
    """Workers get the text without the secret; the item is still the same."""
    env = {"OPENAI_API_KEY": "sk-SECRETINTEXT123456789"}
    project.issue(1, "# Title\n\nUse sk-SECRETINTEXT123456789 here.\n")
    assert project.lld("--all", env=env).code == 0
    again = project.lld("--all", env=env)
    assert again.code == 0, again
    assert "1 skipped" in again.text, again
    assert len(project.trails("1-lld")) == 1


def is_stamped_by(path: Path, by: str) -> bool:
    taken = split(path.read_text())
    return taken.unchanged is True and taken.stamp is not None and taken.stamp.by == by


REAL = "openai:drafter+openai:reviewer"


# a. An edited design, and an issue that says more.


def test_a_changed_issue_revises_the_edited_design(designed: Bench) -> None:
    edited = designed.edit(3105, "A person wrote quokka here.")
    designed.say_more(3105, "The new sentence asks for xylophone.")
    assert designed.plan("lld", "3105")["3105"]["action"] == "revise"
    since = len(designed.provider.asked)
    paid, done = designed.paid("lld", "3105")
    assert (paid, done.code) == (2, Exit.OK), done
    (name,) = designed.kept(edited)
    assert re.fullmatch(r"\d{3}-edited\.md", name)
    assert f"docs/lld/active/LLD-3105.md was edited by a person; kept as {name} in the lineage" in done.said
    (draft,) = designed.provider.of("drafter", since)
    (review,) = designed.provider.of("reviewer", since)
    for prompt in (draft, review):
        assert "A person wrote quokka here." in prompt
        assert ISSUE in prompt  # the old text, whole; the new one has one line more
        assert f"{ISSUE}\nThe new sentence asks for xylophone.\n" in prompt
        assert "\n+The new sentence asks for xylophone." in prompt
        assert "Review log" not in prompt.partition("BEGIN")[2]
    assert is_stamped_by(designed.document(3105), REAL)
    assert designed.free("lld", "--all").code == Exit.OK
    assert designed.project.row("3105")["status"] == "skipped"


def test_fresh_starts_from_nothing_and_still_keeps_the_edit(designed: Bench) -> None:
    edited = designed.edit(3105, "A person wrote quokka here.")
    designed.say_more(3105, "The new sentence asks for xylophone.")
    assert designed.plan("lld", "3105", "--fresh")["3105"]["action"] == "anew"
    since = len(designed.provider.asked)
    paid, done = designed.paid("lld", "3105", "--fresh")
    assert (paid, done.code) == (2, Exit.OK), done
    for prompt in [one.prompt for one in designed.provider.asked[since:]]:
        assert "quokka" not in prompt
        assert "xylophone" in prompt
    assert len(designed.kept(edited)) == 1
    assert "quokka" not in designed.document(3105).read_text()


def test_a_changed_issue_revises_an_unedited_design_too(designed: Bench) -> None:
    before = designed.document(3105).read_text()
    mark = re.search(r"Draft mark \w+", before)
    assert mark
    designed.say_more(3105, "The new sentence asks for xylophone.")
    assert designed.plan("lld", "3105")["3105"]["action"] == "revise"
    since = len(designed.provider.asked)
    designed.ok("lld", "3105")
    (draft,) = designed.provider.of("drafter", since)
    assert mark[0] in draft
    assert "\n+The new sentence asks for xylophone." in draft
    assert designed.document(3105).read_text() != before


def test_an_edit_without_a_change_of_the_issue_is_left_alone(designed: Bench) -> None:
    edited = designed.edit(3105, "A person wrote quokka here.")
    found = designed.plan()["3105"]
    assert (found["action"], found["reason"]) == ("skip", "stamped: docs/lld/active/LLD-3105.md, edited")
    assert designed.free("lld", "3105").code == Exit.OK
    assert designed.document(3105).read_text() == edited


# b. Clones.


def test_a_clone_pays_nothing_for_what_is_committed(bench: Bench, make_project: MakeProject) -> None:
    bench.project.issues(3)
    bench.ok("lld", "--all", "-j3")
    bench.edit(2, "A person wrote quokka here.")
    bench.commit()
    clone = bench.clone_into(make_project("clone"))
    assert not clone.git("ls-files", ".agentos")
    found = clone.plan()
    assert {row["action"] for row in found.values()} == {"skip"}
    for name in "13":
        assert found[name]["reason"] == f"stamped: docs/lld/active/LLD-{name}.md"
    assert found["2"]["reason"].startswith("stamped: docs/lld/active/LLD-2.md")
    assert "edited" in found["2"]["reason"]
    assert clone.free("lld", "--all").code == Exit.OK
    assert set(clone.project.statuses().values()) == {"skipped"}
    assert clone.git("status", "--porcelain") == ""

    edited = clone.document(2).read_text()
    pulled = clone.document(3).read_text()
    for item in (2, 3):
        clone.say_more(item, f"Item {item} now asks for xylophone.")
    assert {row["id"]: row["action"] for row in clone.plan().values()} == {
        "1": "skip",
        "2": "revise",
        "3": "revise",
    }
    since = len(clone.provider.asked)
    paid, done = clone.paid("lld", "--all", "-j2")
    assert (paid, done.code) == (8, Exit.OK), done  # each model looks before its draft or review
    assert [name.partition("-")[2] for name in clone.kept(edited)] == ["edited.md"]
    assert [name.partition("-")[2] for name in clone.kept(pulled)] == ["replaced.md"]
    # The old text of the issue is known in the clone, because the lineage is committed.
    assert all("@@" in prompt for prompt in clone.provider.of("drafter", since))


def test_line_ends_that_git_has_changed_are_no_edit(designed: Bench) -> None:
    path = designed.document(3105)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert designed.plan()["3105"]["reason"] == "stamped: docs/lld/active/LLD-3105.md"


def test_a_home_that_was_deleted_costs_nothing(designed: Bench) -> None:
    subprocess.run(["rm", "-rf", designed.project.home], check=True)
    assert designed.free("lld", "--all").code == Exit.OK
    assert designed.plan()["3105"]["reason"] == "stamped: docs/lld/active/LLD-3105.md"


# c. Filed issues.


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    with running_fakegithub() as fake:
        yield fake


@pytest.fixture
def filing(project: Project, provider: Provider, github: FakeGitHub) -> Bench:
    """A clone of a repository on the fake GitHub."""
    made = Bench(
        project=project, provider=provider, env={"GITHUB_API_URL": github.url, "GH_TOKEN": github.token}
    )
    made.git("init", "-q")
    made.git("remote", "add", "origin", f"https://github.com/{github.repository}.git")
    return made


def from_github(clone: Bench, github: FakeGitHub) -> Bench:
    clone.git("remote", "set-url", "origin", f"https://github.com/{github.repository}.git")
    return clone


def test_a_clone_files_no_brief_again(filing: Bench, github: FakeGitHub, make_project: MakeProject) -> None:
    for slug in ("dark-mode", "export"):
        filing.project.brief(slug)
    filing.ok("issue", "--all", "--yes", "-j2")
    assert len(github.issues) == 2
    receipts = {
        stamp.item: stamp.filed
        for path in (filing.root / "docs/lineage/done").rglob("*-filed.md")
        if (stamp := split(path.read_text()).stamp) is not None
    }
    assert set(receipts) == {"ISSUE-dark-mode", "ISSUE-export"}
    assert set(receipts.values()) == {f"{github.repository}#1", f"{github.repository}#2"}
    filing.commit()
    clone = from_github(filing.clone_into(make_project("clone")), github)
    again = clone.free("issue", "--all", "--yes")
    assert again.code == Exit.OK, again
    assert len(github.issues) == 2
    assert set(clone.project.statuses().values()) == {"skipped"}
    assert f"filed as {receipts['ISSUE-export']}" in str(clone.project.row("export"))
    # A brief that says something else is another one.
    clone.project.brief("export", "Something else altogether.")
    paid, done = clone.paid("issue", "--all", "--yes")
    assert (paid, done.code, len(github.issues)) == (2, Exit.OK, 3), done


def test_an_issue_edited_before_it_was_filed_is_not_filed(filing: Bench, github: FakeGitHub) -> None:
    filing.project.brief("dark-mode")
    assert filing.run("issue", "--all").code == Exit.ATTENTION  # nobody said yes
    path = filing.root / "issues/active/dark-mode.md"
    edited = path.read_text().replace("## User Story\n", "## User Story\n\nA person wrote quokka here.\n")
    assert "quokka" in edited
    path.write_text(edited)
    for args in (("--all",), ("dark-mode",)):
        refused = filing.free("issue", *args, "--yes")
        assert refused.code == Exit.ATTENTION, refused
        assert "was edited after its approval" in refused.said
        assert github.issues == {}
        assert path.read_text() == edited
    # Reviewed as it is, it is filed with the person's words.
    since = len(filing.provider.asked)
    assert filing.run("revise", "ISSUE-dark-mode").code == Exit.OK
    done = filing.ok("issue", "--all", "--yes")
    assert filing.provider.of("drafter", since) == [], done
    (body,) = [issue["body"] for issue in github.issues.values()]
    assert "A person wrote quokka here." in body
    assert filing.kept(edited)


def test_an_issue_edited_in_the_same_run_is_not_filed(filing: Bench, github: FakeGitHub) -> None:
    """The person edits the file after its approval and before it is filed, which waits for another run."""
    filing.project.brief("dark-mode")
    filing.project.make_home()
    path = filing.root / "issues/active/dark-mode.md"
    with (filing.project.home / "filing.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = filing.start("issue", "--all", "--yes")
        wait_until(path.is_file, "the approved issue")
        logs = filing.project.home.rglob
        wait_until(
            lambda: any("another run is filing" in log.read_text() for log in logs("coordinator.log")),
            "the run that waits to file",
        )
        edited = path.read_text().replace("## User Story\n", "## User Story\n\nA quokka.\n")
        path.write_text(edited)
    done = filing.project.finish(process)
    assert done.code == Exit.ATTENTION, done
    assert github.issues == {}
    assert path.read_text() == edited


# d. The mock in a worktree with real documents.


def test_the_mock_changes_no_real_design(bench: Bench) -> None:
    bench.project.issues(2)
    bench.ok("lld", "--all", "-j2")
    bench.edit(2, "A person wrote quokka here.")
    bench.commit()
    for flags in ((), ("--fresh",)):
        done = bench.free("lld", "--all", "--mock", *flags)
        assert done.code == Exit.OK, done
        assert bench.git("status", "--porcelain") == ""
        for name in "12":
            row = bench.project.row(name)
            assert row["status"] == "skipped"
            assert f"docs/lld/active/LLD-{name}.md was not written by the mock" in row["reason"]
    for item in (1, 2):
        bench.say_more(item, "More xylophones.")
    before = {item: bench.document(item).read_bytes() for item in (1, 2)}
    assert bench.free("lld", "--all", "--mock").code == Exit.OK
    assert {item: bench.document(item).read_bytes() for item in (1, 2)} == before


def test_the_mock_does_not_disturb_a_real_item_under_way(bench: Bench) -> None:
    bench.project.issue(7)
    bench.provider.verdicts.append("DISCUSS")
    assert bench.run("lld", "7").code == Exit.ATTENTION
    trail = bench.project.lineage("7-lld", "active")
    bench.free("lld", "--all", "--mock")
    assert bench.project.lineage("7-lld", "active") == trail
    assert bench.run("decide", "7", "--approve").code == Exit.OK
    paid, done = bench.paid("lld", "7")
    assert (paid, done.code) == (0, Exit.OK), done
    assert is_stamped_by(bench.document(7), REAL)


# e. After the mock.


def to_do(bench: Bench) -> str:
    """What the doctor says of the issues."""
    checks = bench.run("doctor", "--json").json["checks"]
    return str(next(row["text"] for row in checks if row["name"] == "issues"))


def test_nothing_of_the_mock_counts_for_a_real_run(bench: Bench) -> None:
    bench.project.issues(2)
    assert bench.free("lld", "--all", "--mock").code == Exit.OK
    for item in (1, 2):
        assert is_stamped_by(bench.document(item), "mock")
    mocked = {item: bench.document(item).read_text() for item in (1, 2)}
    assert to_do(bench) == "2 issues in issues/active, 2 pending (2 done with the mock only)"
    assert {row["action"] for row in bench.plan().values()} == {"start"}
    paid, done = bench.paid("lld", "--all", "-j2")
    assert (paid, done.code) == (4, Exit.OK), done
    for item in (1, 2):
        assert is_stamped_by(bench.document(item), REAL)
        assert bench.kept(mocked[item]) == []  # nobody's work
    assert "2 pending" not in to_do(bench)
    assert not any("mock" in one.prompt for one in bench.provider.asked)


def test_a_mock_document_that_a_person_edited_is_a_persons(bench: Bench) -> None:
    bench.project.issue(7)
    assert bench.free("lld", "7", "--mock").code == Exit.OK
    edited = bench.edit(7, "A person wrote quokka here.")
    for flags in ((), ("--fresh",)):
        again = bench.free("lld", "--all", "--mock", *flags)
        assert again.code == Exit.OK, again
        assert bench.project.row("7")["status"] == "skipped"
        assert "was edited by a person" in bench.project.row("7")["reason"]
        assert bench.document(7).read_text() == edited
    assert bench.plan()["7"]["action"] == "revise"
    paid, done = bench.paid("lld", "--all")
    assert (paid, done.code) == (2, Exit.OK), done
    assert "A person wrote quokka here." in bench.provider.of("drafter")[0]
    assert [name.partition("-")[2] for name in bench.kept(edited)] == ["edited.md"]
    assert is_stamped_by(bench.document(7), REAL)


def test_an_issue_of_the_mock_is_no_input_of_a_real_design(bench: Bench) -> None:
    bench.project.brief("dark-mode")
    assert bench.free("issue", "--all", "--mock").code == Exit.OK
    path = bench.root / "issues/active/dark-mode.md"
    assert is_stamped_by(path, "mock")
    for args in (("--all",), ("dark-mode",)):
        done = bench.free("lld", *args)
        assert bench.project.row("dark-mode")["status"] == "skipped", done
        assert "the mock wrote issues/active/dark-mode.md" in bench.project.row("dark-mode")["reason"]
    assert bench.free("lld", "--all", "--mock").code == Exit.OK
    assert bench.project.row("dark-mode")["status"] == "approved"
    # Once a person has made it theirs, it is an issue like any other.
    path.write_text(path.read_text() + "\nA person wrote quokka here.\n")
    paid, done = bench.paid("lld", "--all")
    assert (paid, done.code) == (2, Exit.OK), done
    assert "quokka" in bench.provider.of("drafter")[0]


# f. Feedback.


def outcome_of(bench: Bench, item: str) -> str:
    return str(bench.project.row(item)["status"])


def heard(bench: Bench, since: int, words: str) -> dict[str, int]:
    """How often words stand in the prompts of each role."""
    return {
        role: sum(prompt.count(words) for prompt in bench.provider.of(role, since))
        for role in ("drafter", "reviewer")
    }


def test_notes_add_up_and_are_in_every_later_prompt_once(designed: Bench) -> None:
    designed.project.write("note.txt", "Second: mention the wombat.\n")
    told = designed.run("revise", "3105", "--note", "First: mention the numbat.")
    assert told.code == Exit.OK
    assert "lld 3105" in told.out
    assert designed.run("revise", "LLD-3105", "--note-file", "note.txt").code == Exit.OK
    piped = designed.project.shell(
        f'printf "Third: mention the dingo." | {sys.executable} -m agentos revise "#3105"'
    )
    assert piped.code == Exit.OK, piped
    piped = designed.project.shell(
        f'printf "Fourth: mention the potoroo." | {sys.executable} -m agentos revise 3105 --note-file -'
    )
    assert piped.code == Exit.OK, piped
    assert designed.plan()["3105"]["action"] == "revise"
    since = len(designed.provider.asked)
    before = designed.document(3105).read_text()
    paid, done = designed.paid("lld", "--all")
    assert (paid, done.code) == (2, Exit.OK), done
    for words in ("mention the numbat", "mention the wombat", "mention the dingo", "mention the potoroo"):
        assert heard(designed, since, words) == {"drafter": 1, "reviewer": 1}
    assert (
        ": First: mention the numbat.\n" in designed.document(3105).read_text().partition("## Decisions")[2]
    )
    assert designed.kept(before)
    assert designed.free("lld", "--all").code == Exit.OK
    assert designed.plan()["3105"]["action"] == "skip"
    designed.say_more(3105, "Xylophones.")
    since = len(designed.provider.asked)
    designed.ok("lld", "--all")
    assert heard(designed, since, "mention the numbat") == {"drafter": 1, "reviewer": 1}


def test_a_note_with_run_revises_at_once(designed: Bench) -> None:
    since = len(designed.provider.asked)
    paid, done = designed.paid("revise", "3105", "--note", "Mention the numbat.", "--run")
    assert (paid, done.code) == (2, Exit.OK), done
    assert heard(designed, since, "Mention the numbat.") == {"drafter": 1, "reviewer": 1}
    assert outcome_of(designed, "3105") == "approved"


def test_a_note_on_an_edited_design_revises_the_edit(designed: Bench) -> None:
    edited = designed.edit(3105, "A person wrote quokka here.")
    since = len(designed.provider.asked)
    designed.ok("revise", "3105", "--note", "Mention the numbat.", "--run")
    (draft,) = designed.provider.of("drafter", since)
    assert "\n+A person wrote quokka here." in draft
    assert heard(designed, since, "Mention the numbat.") == {"drafter": 1, "reviewer": 1}
    assert designed.kept(edited)


def test_edits_without_a_note_are_reviewed_as_they_are(designed: Bench) -> None:
    edited = designed.edit(3105, "A person wrote quokka here.")
    since = len(designed.provider.asked)
    paid, done = designed.paid("revise", "3105", "--run")
    assert (paid, done.code) == (1, Exit.OK), done
    assert designed.provider.of("drafter", since) == []
    assert "A person wrote quokka here." in designed.provider.of("reviewer", since)[0]
    document = designed.document(3105).read_text()
    assert "A person wrote quokka here." in document
    assert document.count("## Review log") == 1
    assert is_stamped_by(designed.document(3105), REAL)
    assert designed.kept(edited)
    assert designed.plan()["3105"]["reason"] == "stamped: docs/lld/active/LLD-3105.md"


def test_edits_that_the_review_sends_back_are_revised(designed: Bench) -> None:
    designed.edit(3105, "A person wrote quokka here.")
    designed.provider.verdicts.append("REVISE")
    since = len(designed.provider.asked)
    paid, done = designed.paid("revise", "3105", "--run")
    assert (paid, done.code) == (3, Exit.OK), done
    assert "A person wrote quokka here." in designed.provider.of("drafter", since)[0]


@pytest.mark.parametrize("state", ["discuss", "needs_revision"])
def test_edits_are_reviewed_as_they_are_also_where_a_run_had_stopped(designed: Bench, state: str) -> None:
    """The issue changed, the revision came to a halt; the person then edits the design that is in place."""
    designed.say_more(3105, "Xylophones.")
    designed.provider.stuck = True
    designed.provider.verdicts.extend(["DISCUSS"] if state == "discuss" else ["REVISE"] * 3)
    assert designed.run("lld", "3105").code == Exit.ATTENTION
    assert outcome_of(designed, "3105") == state
    edited = designed.edit(3105, "A person wrote quokka here.")
    since = len(designed.provider.asked)
    told = designed.run("revise", "3105")
    assert told.code == Exit.OK
    assert "the next run reviews your edits" in told.said
    paid, done = designed.paid("lld", "3105")
    assert done.code == Exit.OK, done
    assert designed.kept(edited)
    assert "A person wrote quokka here." in designed.provider.of("reviewer", since)[0]
    assert (paid, designed.provider.of("drafter", since)) == (1, [])
    assert "A person wrote quokka here." in designed.document(3105).read_text()


def test_nothing_new_and_nothing_known_is_refused(designed: Bench) -> None:
    designed.project.issue(8)
    before = designed.project.snapshot()
    for args in (
        ("3105",),
        ("3105", "--run"),
        ("3105", "--note", "  "),
        ("3105", "--note", "a", "--note-file", "b"),
        ("3105", "--note-file", "not-there.txt"),
        ("99", "--note", "a"),
        ("8", "--note", "a"),
        ("ISSUE-3105", "--note", "a"),
        ("../3105", "--note", "a"),
    ):
        refused = designed.free("revise", *args)
        assert refused.code == Exit.USAGE, (args, refused)
    assert designed.project.snapshot().keys() == before.keys()
    assert designed.plan()["3105"]["action"] == "skip"


def test_a_stuck_item_goes_on_with_a_note(bench: Bench) -> None:
    bench.project.issue(7)
    bench.provider.stuck = True
    bench.provider.verdicts.extend(["REVISE"] * 3)
    assert bench.run("lld", "7").code == Exit.ATTENTION
    assert outcome_of(bench, "7") == "needs_revision"
    assert bench.free("lld", "7").code == Exit.ATTENTION  # the same again would be paid for nothing
    assert bench.run("revise", "7", "--note", "Mention the numbat.").code == Exit.OK
    assert bench.plan()["7"]["action"] == "resume"
    since = len(bench.provider.asked)
    paid, done = bench.paid("lld", "7")
    assert (paid, done.code) == (2, Exit.OK), done
    assert heard(bench, since, "Mention the numbat.") == {"drafter": 1, "reviewer": 1}
    assert "Simulated finding" in bench.provider.of("drafter", since)[0]


def test_a_failed_item_goes_on_with_a_note(bench: Bench) -> None:
    bench.project.issue(7)
    bench.provider.drafts.extend(["# No sections at all"] * 4)
    assert bench.run("lld", "7").code == Exit.FAILED
    assert bench.run("revise", "7", "--note", "Mention the numbat.").code == Exit.OK
    since = len(bench.provider.asked)
    paid, done = bench.paid("lld", "7")
    assert (paid, done.code) == (2, Exit.OK), done
    assert heard(bench, since, "Mention the numbat.") == {"drafter": 1, "reviewer": 1}


def approved_and_cut_off(bench: Bench) -> None:
    """Leave item 7 where a kill right after its approval does: paid for, judged, not yet in its place."""
    bench.project.issue(7)

    def stand_in_the_way(one: Asked) -> None:
        if one.role == "reviewer":
            bench.document(7).mkdir(parents=True)

    bench.provider.during = stand_in_the_way
    assert bench.run("lld", "7").code == Exit.FAILED
    bench.provider.during = None
    assert bench.provider.calls() == 2
    bench.document(7).rmdir()


def test_a_note_on_an_item_that_was_cut_off_after_its_approval_is_heard(bench: Bench) -> None:
    approved_and_cut_off(bench)
    assert bench.free("revise", "7", "--note", "Mention the numbat.").code == Exit.OK
    since = len(bench.provider.asked)
    paid, done = bench.paid("lld", "7")
    assert (paid, done.code) == (2, Exit.OK), done
    assert heard(bench, since, "Mention the numbat.") == {"drafter": 1, "reviewer": 1}
    assert bench.free("lld", "--all").code == Exit.OK


def test_a_document_written_after_a_cut_off_approval_is_reviewed_when_asked(bench: Bench) -> None:
    approved_and_cut_off(bench)
    mine = "# Mine\n\n**Issue:** #7\n\n## Context\n\nA quokka.\n\n## Proposed Changes\n\n1. All.\n"
    bench.document(7).write_text(mine)
    assert bench.free("revise", "7").code == Exit.OK
    since = len(bench.provider.asked)
    done = bench.run("lld", "7")
    assert done.code == Exit.OK, done
    assert any("A quokka." in one for one in bench.provider.of("reviewer", since))
    assert bench.kept(mine)
    assert bench.free("lld", "--all").code == Exit.OK


def test_a_cut_off_approval_without_a_word_since_costs_nothing_more(bench: Bench) -> None:
    approved_and_cut_off(bench)
    assert bench.free("lld", "7").code == Exit.OK
    assert is_stamped_by(bench.document(7), REAL)


def test_an_item_in_discussion_goes_on_with_a_note(bench: Bench) -> None:
    bench.project.issue(7)
    bench.provider.verdicts.append("DISCUSS")
    assert bench.run("lld", "7").code == Exit.ATTENTION
    since = len(bench.provider.asked)
    paid, done = bench.paid("revise", "7", "--note", "Mention the numbat.", "--run")
    assert (paid, done.code) == (2, Exit.OK), done
    assert heard(bench, since, "Mention the numbat.") == {"drafter": 1, "reviewer": 1}
    assert bench.free("lld", "--all").code == Exit.OK


def test_an_unfinished_item_without_a_document_needs_a_note(bench: Bench) -> None:
    bench.project.issue(7)
    bench.provider.verdicts.append("DISCUSS")
    assert bench.run("lld", "7").code == Exit.ATTENTION
    assert bench.free("revise", "7").code == Exit.USAGE


def test_feedback_on_a_document_of_the_mock_goes_to_the_mock(bench: Bench) -> None:
    bench.project.issue(7)
    assert bench.free("lld", "7", "--mock").code == Exit.OK
    told = bench.free("revise", "7", "--note", "Mention the numbat.")
    assert told.code == Exit.OK
    assert "lld 7 --mock" in told.out
    assert bench.free("revise", "7", "--note", "Mention the wombat.", "--run").code == Exit.OK
    assert is_stamped_by(bench.document(7), "mock")
    assert "Mention the numbat." in bench.document(7).read_text()
    assert "Mention the wombat." in bench.document(7).read_text()
    bench.ok("lld", "7")
    assert heard(bench, 0, "Mention the numbat.") == {"drafter": 0, "reviewer": 0}


def test_a_revision_that_fails_leaves_the_edited_design_in_its_place(designed: Bench) -> None:
    edited = designed.edit(3105, "A person wrote quokka here.")
    designed.say_more(3105, "Xylophones.")
    designed.provider.drafts.extend(["# No sections at all"] * 4)
    assert designed.run("lld", "3105").code == Exit.FAILED
    assert designed.document(3105).read_text() == edited
    designed.ok("lld", "3105", "--fresh")
    assert designed.kept(edited)


def test_a_note_that_comes_in_mid_run_is_not_lost(designed: Bench) -> None:
    """Whether this run or the next one takes it up: both models hear it, once."""
    told: list[Result] = []

    def tell(one: Asked) -> None:
        if one.role == "reviewer" and not told:
            told.append(designed.project.run("revise", "3105", "--note", "Mention the numbat."))

    designed.say_more(3105, "Xylophones.")
    since = len(designed.provider.asked)
    designed.provider.during = tell
    designed.ok("lld", "3105")
    assert told[0].code == Exit.OK
    designed.ok("lld", "3105")
    assert heard(designed, since, "Mention the numbat.") == {"drafter": 1, "reviewer": 1}
    assert designed.free("lld", "3105").code == Exit.OK


def test_a_note_outlives_a_run_that_is_killed_before_anybody_heard_it(designed: Bench) -> None:
    since = len(designed.provider.asked)
    kill_during(designed, "drafter", "revise", "3105", "--note", "Mention the numbat.", "--run")
    assert heard(designed, since, "Mention the numbat.") == {"drafter": 1, "reviewer": 0}
    designed.ok("lld", "--all")
    assert heard(designed, since, "Mention the numbat.")["reviewer"] == 1
    assert "Mention the numbat." in designed.document(3105).read_text()


def test_a_note_that_only_the_drafter_got_goes_to_both_models_again_when_the_issue_changes(
    designed: Bench,
) -> None:
    kill_during(designed, "reviewer", "revise", "3105", "--note", "Mention the numbat.", "--run")
    designed.say_more(3105, "Xylophones.")
    since = len(designed.provider.asked)
    designed.ok("lld", "--all")
    assert heard(designed, since, "Mention the numbat.") == {"drafter": 1, "reviewer": 1}


# g. A document that agentos did not write.


FOREIGN = (
    "# Ours since 2019\n\n**Issue:** #7\n\n## Context\n\nA person wrote quokka here.\n\n"
    "## Proposed Changes\n\n1. Keep it.\n"
)


def test_a_foreign_document_is_passed_by_or_refused(bench: Bench) -> None:
    bench.project.issue(7)
    bench.project.write("docs/lld/active/LLD-7.md", FOREIGN)
    assert bench.free("lld", "--all").code == Exit.OK
    assert bench.project.row("7")["status"] == "skipped"
    refused = bench.free("lld", "7")
    assert refused.code == Exit.FAILED, refused
    assert "was not written by agentos; run 'agentos revise LLD-7' to start from it" in refused.said
    assert bench.free("lld", "7", "--fresh").code == Exit.FAILED
    assert bench.document(7).read_text() == FOREIGN


@pytest.mark.parametrize("note", ["", "Mention the numbat."])
def test_revise_takes_a_foreign_document_as_the_basis_and_keeps_it(bench: Bench, note: str) -> None:
    bench.project.issue(7)
    bench.project.write("docs/lld/active/LLD-7.md", FOREIGN)
    words = ("--note", note) if note else ()
    paid, done = bench.paid("revise", "7", *words, "--run")
    assert (paid, done.code) == (2 if note else 1, Exit.OK), done
    assert all("A person wrote quokka here." in one.prompt for one in bench.provider.asked)
    assert bench.kept(FOREIGN)
    assert is_stamped_by(bench.document(7), REAL)
    assert bench.free("lld", "7").code == Exit.OK


def test_a_decision_on_a_foreign_document_that_was_sent_back_is_carried_out(bench: Bench) -> None:
    bench.project.issue(7)
    bench.project.write("docs/lld/active/LLD-7.md", FOREIGN)
    bench.provider.verdicts.append("DISCUSS")
    assert bench.run("revise", "7", "--note", "Mention the numbat.", "--run").code == Exit.ATTENTION
    assert bench.run("decide", "7", "--approve").code == Exit.OK
    assert bench.plan("lld", "7")["7"]["action"] == "resume"
    done = bench.free("lld", "7")
    assert done.code == Exit.OK, done
    assert bench.kept(FOREIGN)
    assert is_stamped_by(bench.document(7), REAL)


def test_a_killed_revision_of_a_foreign_document_goes_on(bench: Bench) -> None:
    bench.project.issue(7)
    bench.project.write("docs/lld/active/LLD-7.md", FOREIGN)
    kill_during(bench, "reviewer", "revise", "7", "--note", "Mention the numbat.", "--run")
    assert bench.document(7).read_text() == FOREIGN
    done = bench.ok("lld", "7")
    assert bench.provider.of("drafter")[1:] == [], done  # that was paid for
    assert bench.kept(FOREIGN)
    assert is_stamped_by(bench.document(7), REAL)


def test_a_foreign_document_that_is_no_text_is_kept_byte_by_byte(bench: Bench) -> None:
    bench.project.issue(7)
    data = FOREIGN.replace("quokka", "b\xe4r").encode("latin-1")
    bench.project.write("docs/lld/active/LLD-7.md", data)
    assert bench.free("lld", "--all").code == Exit.OK
    assert bench.free("lld", "7").code == Exit.FAILED
    assert bench.document(7).read_bytes() == data
    bench.ok("revise", "7", "--note", "Mention the numbat.", "--run")
    kept = [path for path in (bench.root / "docs/lineage").rglob("*.md") if path.read_bytes() == data]
    assert len(kept) == 1


def test_the_stamp_of_another_item_makes_a_document_foreign(designed: Bench) -> None:
    designed.project.issue(7)
    copy = designed.document(3105).read_text()
    designed.document(7).write_text(copy)
    assert designed.plan()["7"]["action"] == "skip"
    assert designed.free("lld", "7").code == Exit.FAILED
    assert designed.document(7).read_text() == copy


# h. Kills, and a person who writes while a run goes on.


def kill_during(bench: Bench, role: str, *args: str, everything: bool = False) -> None:
    """Run a command and kill its coordinator, or all of it, while the provider works on a call."""
    started: list[Command] = []
    killed: list[int] = []

    def strike(one: Asked) -> None:
        if one.role == role and not killed:
            wait_until(lambda: started, "the command")
            killed.append(started[0].pid)
            for process in bench.project.processes() if everything else ():
                kill(process.pid)
            kill(started[0].pid)

    bench.provider.during = strike
    started.append(bench.start(*args))
    assert started[0].wait().code == -signal.SIGKILL
    assert killed
    bench.provider.during = None
    bench.project.assert_gone(ORPHAN_SECONDS)


@pytest.mark.parametrize("role", ["drafter", "reviewer"])
@pytest.mark.parametrize("everything", [False, True])
def test_a_kill_during_a_call_loses_no_word_of_a_person(designed: Bench, role: str, everything: bool) -> None:
    edited = designed.edit(3105, "A person wrote quokka here.")
    note = ("--note", "Mention the numbat.")
    kill_during(designed, role, "revise", "3105", *note, "--run", everything=everything)
    assert designed.document(3105).read_text() == edited  # nothing is approved yet
    designed.ok("lld", "3105")
    assert designed.kept(edited)
    assert is_stamped_by(designed.document(3105), REAL)
    assert not designed.project.lineage("3105-lld", "active")
    assert designed.free("lld", "--all").code == Exit.OK


def test_an_edit_after_a_kill_is_kept_beside_the_one_before_it(designed: Bench) -> None:
    first = designed.edit(3105, "A person wrote quokka here.")
    kill_during(designed, "reviewer", "revise", "3105", "--note", "Mention the numbat.", "--run")
    second = designed.edit(3105, "And then bandicoot.")
    designed.ok("lld", "3105")
    assert designed.kept(first)
    assert designed.kept(second) or designed.document(3105).read_text() == second


# Ends the coordinator, by the kernel's hand, just before or just after it writes a line with the text.
SWITCH = """
import os, signal, sys
text = os.environ.get("KILL_AT", "").encode()
if text and "agentos" in " ".join(sys.orig_argv):
    write = os.write
    def killing(descriptor, data):
        here = text in bytes(data)
        if here and os.environ["KILL_WHEN"] == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        written = write(descriptor, data)
        if here:
            os.kill(os.getpid(), signal.SIGKILL)
        return written
    os.write = killing
"""


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("text", ['"node": "finalize"', '"event": "completed"'])
def test_a_kill_while_the_document_is_replaced(designed: Bench, when: str, text: str) -> None:
    patched = designed.project.outside / "patched"
    patched.mkdir()
    (patched / "sitecustomize.py").write_text(SWITCH)
    edited = designed.edit(3105, "A person wrote quokka here.")
    killed = designed.run(
        *("revise", "3105", "--note", "Mention the numbat.", "--run"),
        PYTHONPATH=str(patched),
        KILL_AT=text,
        KILL_WHEN=when,
    )
    assert killed.code == -signal.SIGKILL, killed
    designed.project.assert_gone(ORPHAN_SECONDS)
    assert designed.holding("A person wrote quokka here.")
    done = designed.free("lld", "3105")  # everything was paid for
    assert done.code == Exit.OK, done
    assert designed.kept(edited)
    assert is_stamped_by(designed.document(3105), REAL)
    assert designed.free("lld", "--all").code == Exit.OK


def _replace(root: Path, text: str, fatal: int) -> int:
    """Replace the document in a process that is killed at its n-th act on the disk; give its end."""
    child = os.fork()
    if child == 0:
        left = fatal

        def strike(event: str, _args: tuple[object, ...]) -> None:
            nonlocal left
            if event in {"open", "os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "shutil.move"}:
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        try:
            lineage = Lineage(worktree=root, folder="docs/lineage", name="7-lld")
            sys.addaudithook(strike)
            put_in_place(root, Path("LLD-7.md"), text, label="LLD-7", lineage=lineage)
            lineage.finish("7-lld-abc123", 3, text)
            os._exit(0)
        except BaseException:  # noqa: BLE001 - it is a process of its own
            os._exit(9)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _struck_everywhere(tmp_path: Path, *, kept_before: bool) -> Iterator[tuple[Path, int]]:
    """Strike at each act in turn, then do it again undisturbed; give the folder after that."""
    for fatal in range(200):
        root = tmp_path / str(fatal)
        trail = root / "docs/lineage/active/7-lld"
        trail.mkdir(parents=True)
        (trail / "001-issue.md").write_text("An issue.\n")
        if kept_before:
            (trail / "002-edited.md").write_text(FOREIGN)
        (root / "LLD-7.md").write_text(FOREIGN)
        end = _replace(root, NEW, fatal)
        assert any(path.read_text() == FOREIGN for path in root.rglob("*") if path.is_file()), fatal
        if end == 0:
            assert fatal > 8  # so many acts there are at least
            return
        assert end == -signal.SIGKILL, (fatal, end)
        assert _replace(root, NEW, 10_000) == 0, fatal
        yield root, fatal
    raise AssertionError("it never came to an end")


NEW = "# The new one\n"


@pytest.mark.slow
@pytest.mark.parametrize("kept_before", [False, True])
def test_a_kill_at_every_act_on_the_disk_while_a_document_is_replaced(
    tmp_path: Path, kept_before: bool
) -> None:
    for root, fatal in _struck_everywhere(tmp_path, kept_before=kept_before):
        assert (root / "LLD-7.md").read_text() == NEW, fatal
        kept = [path for path in (root / "docs/lineage").rglob("*.md") if path.read_text() == FOREIGN]
        assert kept, (fatal, sorted(root.rglob("*")))
        if kept_before:
            assert list(root.rglob(".*")) == [], "something half-written lies about"


@pytest.mark.parametrize("role", ["drafter", "reviewer"])
@pytest.mark.parametrize("first", ["edited", "as it was", "missing", "the mock's"])
def test_a_person_who_writes_while_the_run_goes_on_loses_nothing(
    designed: Bench, role: str, first: str
) -> None:
    path = designed.document(3105)
    before = ""
    if first == "edited":
        before = designed.edit(3105, "A person wrote quokka here.")
    elif first == "missing":
        path.unlink()
    elif first == "the mock's":
        path.unlink()
        subprocess.run(["rm", "-rf", designed.project.home], check=True)
        assert designed.free("lld", "3105", "--mock").code == Exit.OK
    designed.say_more(3105, "Xylophones.")
    written: list[str] = []

    def write(one: Asked) -> None:
        if one.role == role and not written:
            text = (
                path.read_text() if path.exists() else FOREIGN
            ) + "\nMeanwhile a person wrote bandicoot.\n"
            written.append(text)
            path.write_text(text)

    designed.provider.during = write
    done = designed.ok("lld", "3105")
    assert written
    assert designed.kept(written[0]), done
    assert "was edited in the meantime; that version is kept as" in done.said
    if before:
        assert designed.kept(before)
    assert is_stamped_by(path, REAL)


# i. Two branches.


def test_two_branches_that_ran_the_same_item_merge_without_a_conflict_in_the_lineage(
    bench: Bench, make_project: MakeProject
) -> None:
    bench.project.issue(7)
    bench.commit()
    other = bench.clone_into(make_project("other"))
    bench.ok("lld", "7")
    bench.commit("ours")
    other.provider.drafts.append(FOREIGN.replace("quokka", "bandicoot"))
    other.ok("lld", "7")
    other.commit("theirs")
    bench.git("fetch", "-q", str(other.root), "HEAD:theirs")
    merged = subprocess.run(
        [*GIT, "merge", "-q", "theirs"],
        cwd=bench.root,
        env=bench.project.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    conflicts = bench.git("diff", "--name-only", "--diff-filter=U").split()
    assert conflicts == ["docs/lld/active/LLD-7.md"], (merged.stdout, merged.stderr)
    assert len(list((bench.root / "docs/lineage/done").iterdir())) == 2
    # With the marks of the conflict in it, it is a document that a person is at work on.
    text = bench.document(7).read_text()
    assert "<<<<<<<" in text
    found = bench.plan()["7"]
    assert (found["action"], found["reason"]) == ("skip", "stamped: docs/lld/active/LLD-7.md, edited")
    assert bench.free("lld", "--all").code == Exit.OK
    assert bench.document(7).read_text() == text
    # Solved in favour of one side it is that side's document again.
    bench.git("checkout", "-q", "--theirs", "docs/lld/active/LLD-7.md")
    assert bench.plan()["7"]["reason"] == "stamped: docs/lld/active/LLD-7.md"


def test_the_json_of_a_dry_run_names_every_action(designed: Bench) -> None:
    """One of each, side by side."""
    designed.project.issue(1)
    designed.project.issue(2)
    designed.ok("lld", "2")
    designed.say_more(2, "Xylophones.")
    designed.project.issue(4)
    designed.provider.verdicts.append("DISCUSS")
    assert designed.run("lld", "4").code == Exit.ATTENTION
    result = designed.free("lld", "--all", "--dry-run", "--json")
    actions = {row["id"]: row["action"] for row in json.loads(result.out)["items"]}
    assert actions == {"1": "start", "2": "revise", "3105": "skip", "4": "wait"}
