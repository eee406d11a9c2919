"""What reviews ask and what became of a person's words is seen wherever people look, and can be answered."""

import re
import shlex
import signal

import pytest

from agentos.errors import Exit
from harness.project import Project, Result
from harness.provider import Asked, Bench

ASKED = "Is UTC fine?"
MOCK_ASKS = "Is a wait of up to one hour acceptable to users, or should the work stop instead?"


def offered(result: Result, verb: str) -> list[str]:
    """The command with this verb that a run or a status ends with."""
    lines = re.findall(rf"^  (agentos {verb} .*?)(?:    # .*)?$", result.out, re.MULTILINE)
    assert lines, result
    return shlex.split(lines[0])[1:]


def test_a_question_without_discuss_is_shown_everywhere_and_can_be_answered(project: Project) -> None:
    project.issue(42, mock=f'verdicts=REVISE,APPROVED question="{ASKED}"')
    ended = project.lld("42")
    assert ended.code == Exit.OK, ended
    assert f"\n  LLD-42 asks Q1: {ASKED}\n" in ended.out
    assert "Needs you" not in ended.out
    assert project.row("42")["questions"] == [f"Q1: {ASKED}"]
    assert f"- LLD-42 asks Q1: {ASKED}\n" in (project.runs()[-1] / "summary.md").read_text()
    page = project.run("report", "--json").json
    [item] = page["items"]
    assert item["questions"] == [f"Q1: {ASKED}"]
    assert page["needs_you"]["remarks"] == [
        {"label": "LLD-42", "title": item["title"], "text": f"asks Q1: {ASKED}"}
    ]
    first, second = item["rounds"]
    assert [(one["number"], one["state"]) for one in first["findings"] if one["tier"] < 3] == [
        (1, "resolved"),
        (2, "resolved"),
    ]
    assert [(one["number"], one["state"]) for one in second["earlier"]] == [(1, "resolved"), (2, "resolved")]

    decide = offered(ended, "decide")
    assert decide == ["decide", "LLD-42", "--note", "Q1: ..."]
    assert "Replace the dots" in project.run(*decide).err
    answered = project.run(*decide[:-1], "Q1: Yes, always.")
    assert answered.code == 0, answered
    assert f"LLD-42 {ASKED} Yes, always." in project.run("status").said.replace("(mock) ", "")
    assert project.run(*offered(answered, "lld")).code == Exit.OK
    document = project.read("docs/lld/active/LLD-42.md")
    assert f"**{ASKED}** Yes, always." in document
    assert "Open questions" not in document
    assert project.row("42")["questions"] == []


def test_a_finding_that_comes_back_keeps_its_number(project: Project) -> None:
    project.issue(1, mock="verdicts=REVISE,REVISE,REVISE,APPROVED regress=3")
    assert project.lld("1").code == Exit.OK
    rounds = project.run("report", "--json").json["items"][0]["rounds"]
    back = [one["number"] for one in rounds[2]["findings"] if one.get("returned")]
    assert back[:2] == [1, 2]
    assert [one["number"] for one in rounds[0]["findings"] if one["tier"] < 3] == [1, 2]


def test_one_discussion_with_two_questions_counts_them_and_takes_two_answers(project: Project) -> None:
    project.issue(1, mock=f'verdicts=DISCUSS,APPROVED question="{ASKED}"')
    ended = project.lld("1")
    assert ended.code == Exit.ATTENTION
    assert "\nNeeds you: 2 questions\n" in ended.out
    assert f"\n  LLD-1  discuss  Q1: {ASKED}\n  LLD-1  discuss  Q2: {MOCK_ASKS}\n" in ended.out
    decide = offered(ended, "decide")
    assert decide == ["decide", "LLD-1", "--note", "Q1: ...", "--note", "Q2: ..."]
    assert offered(project.run("status"), "decide") == decide
    assert "Replace the dots" in project.run(*decide).err
    first = project.run("decide", "1", "--note", "Q2: Stop.")
    assert "LLD-1: sent back for revision (Q2: Stop.). Not answered: Q1. To resume it:" in first.out
    project.run("decide", "1", "--revise")  # says nothing, so the answer stays
    assert "decided: revise (Q2: Stop." in project.run("status").out
    answered = project.run("decide", "1", "--note", "Q1: Yes.", "--note", "Q2: Stop.")
    assert "LLD-1: sent back for revision (Q1: Yes. / Q2: Stop.). To resume it:" in answered.out
    assert "decided: revise (Q1: Yes. / Q2: Stop.)" in project.run("status").out
    assert project.lld("1").code == Exit.OK
    document = project.read("docs/lld/active/LLD-1.md")
    assert f"**{ASKED}** Yes." in document
    assert f"**{MOCK_ASKS}** Stop." in document
    [answer] = [one["decision"] for one in project.run("report", "--json").json["items"][0]["rounds"][:1]]
    assert answer["note"] == "Yes.\nStop."


def test_an_approval_despite_blocking_findings_says_how_many_are_open(project: Project) -> None:
    project.issue(1, mock="verdicts=REVISE,DISCUSS stuck")
    for shown in (project.lld("1"), project.run("status")):
        assert "or --revise, or --approve although 1 blocking finding is open" in shown.said


def test_an_answer_must_say_which_of_several_questions_it_answers(bench: Bench) -> None:
    bench.project.issue(42)
    bench.ok("lld", "42")
    path = bench.document(42)
    listed = f"## Open questions\n\n- **Q1** {ASKED}\n- Who owns it?\n\n## Review log"
    path.write_text(path.read_text().replace("## Review log", listed))
    alone = bench.run("decide", "42", "--approve")
    assert alone.code == Exit.USAGE
    assert "nothing to approve" in alone.err
    for note in ("Yes.", "Q7: Yes."):
        unclear = bench.run("decide", "42", "--note", note)
        assert unclear.code == Exit.USAGE
        assert f"Open: Q1: {ASKED} / Q2: Who owns it?" in unclear.said
    bench.ok("decide", "42", "--note", "Q2: The platform team.")
    bench.ok("lld", "42")
    assert "**Who owns it?** The platform team." in path.read_text()


def test_a_line_of_a_person_that_the_approved_document_lacks_is_named(bench: Bench) -> None:
    bench.project.issue(42)
    bench.ok("lld", "42")
    line = "Timestamps are in UTC."
    bench.edit(42, line)
    bench.ok("revise", "42", "--note", "Make it shorter.")
    bench.provider.drafts.append(
        "# LLD-42: Short\n\n**Issue:** #42\n\n## Context\n\nWhy.\n\n## Proposed Changes\n\nWhat.\n"
    )
    ended = bench.ok("lld", "42")
    assert f"\n  LLD-42 lacks a line that you added: {line}\n" in ended.out
    assert bench.project.row("42")["dropped"] == [line]
    assert f"lacks a line that you added: {line}" in (bench.project.runs()[-1] / "summary.md").read_text()
    page = bench.run("report", "--json").json
    assert page["items"][0]["dropped"] == [line]
    assert page["needs_you"]["remarks"][0]["text"] == f"lacks a line that you added: {line}"


def test_a_review_of_edits_without_a_note_is_called_that(bench: Bench) -> None:
    bench.project.issue(42)
    bench.ok("lld", "42")
    bench.edit(42, "Timestamps are in UTC.")
    bench.ok("revise", "42")
    assert "would be revised (your edits)" in bench.run("lld", "42", "--dry-run").out
    assert bench.plan()["42"]["calls"] == {"low": 1, "high": 9}
    assert "note" not in bench.ok("lld", "42").said


# Estimates.


@pytest.mark.parametrize(
    ("answer", "calls", "words"),
    [
        (["--approve"], {"low": 0, "high": 0}, "No calls, no cost."),
        (["--note", "Stop."], {"low": 2, "high": 10}, "2 to 10 calls, 0.0"),
    ],
)
def test_an_answered_item_has_an_estimate_of_its_own(
    project: Project, answer: list[str], calls: dict[str, int], words: str
) -> None:
    project.issue(1, mock="verdicts=DISCUSS,APPROVED")
    project.lld("1")
    assert project.run("decide", "1", *answer).code == 0
    shown = project.lld("1", "--dry-run").said
    assert words in shown
    assert "0.0000 to" not in shown.partition("Repository map")[0]
    planned = project.lld("1", "--dry-run", "--json").json
    assert planned["items"][0]["calls"] == planned["calls"] == calls


def test_an_item_that_resumes_at_its_review_pays_for_that_review(bench: Bench) -> None:
    bench.project.issue(42)
    running = bench.start("lld", "42")

    def stop(asked: Asked) -> None:
        if asked.role == "reviewer":
            running.signal(signal.SIGINT)

    bench.provider.during = stop
    assert bench.project.finish(running).code == Exit.INTERRUPTED
    bench.provider.during = None
    planned = bench.plan()["42"]
    assert (planned["from"], planned["calls"]) == ("review", {"low": 1, "high": 9})
    bench.ok("lld", "42")
    bench.ok("revise", "42", "--note", "Shorter.")
    assert bench.plan()["42"]["calls"] == {"low": 2, "high": 10}
