"""What a person has to do, and what to type."""

from typing import Any

import pytest

from agentos.report.needs_you import ItemCase, NeedsYou, needs_you
from agentos.report.run_again import RunAgain

FLAGS = ("--mock", "--all", "--budget 0.02", "--parallel 4")
TYPED = "agentos --home x lld --all --mock --budget 0.02 --parallel 4"
RETRIED = "agentos --home x lld --retry-failed --mock --budget 0.02 --parallel 4"


def case(number: int, status: str, **more: object) -> ItemCase:
    return ItemCase(id=str(number), label=f"LLD-{number}", status=status, **more)  # type: ignore[arg-type]


def found(*items: ItemCase, live: bool = False, **more: Any) -> NeedsYou:
    how: dict[str, Any] = {"start": "agentos --home x", "flags": FLAGS}
    return needs_you(items, RunAgain(workflow="lld", **how | more), live=live)


def typed(needs: NeedsYou) -> list[str]:
    return [one.command for one in needs.commands]


def test_nothing_is_needed_after_a_good_run() -> None:
    needs = found(case(1, "approved"), case(2, "skipped"))
    assert not needs
    assert needs.commands == ()


def test_a_question_is_told_in_the_reviewers_words() -> None:
    asked = case(1, "discuss", title="T", questions=("One hour?", "Or two?"), said="an error")
    assert [one.text for one in found(asked).questions] == ["One hour?\nOr two?"]
    assert found(case(1, "discuss", said="Is an hour fine?")).questions[0].text == "Is an hour fine?"
    assert found(case(1, "discuss")).questions[0].text == "The reviewer asks a person to decide."


def test_the_page_comes_before_the_command_and_many_questions_need_one() -> None:
    assert typed(found(case(1, "discuss"))) == [
        "agentos --home x view",
        'agentos --home x decide LLD-1 --note "..."',
    ]
    many = found(*(case(number, "discuss") for number in range(20)))
    assert typed(many) == ["agentos --home x view"]
    assert many.commands[0].why == "answer all 20 questions on one page"
    both = found(case(1, "discuss"), case(2, "discuss"))
    assert both.commands[0].why == "answer both questions on one page"
    more = found(case(1, "discuss", questions=("Q1: A?", "Q2: B?")), case(2, "discuss"))
    assert more.commands[0].why == "answer all 3 questions on one page"


def test_an_approval_despite_blocking_findings_is_offered_as_such_and_last() -> None:
    asked = found(case(1, "discuss", questions=("Q1: A?",), blocking=1)).commands[1]
    assert asked.command == 'agentos --home x decide LLD-1 --note "Q1: ..."'
    assert asked.why == "or --revise, or --approve although 1 blocking finding is open"


def test_a_question_that_stops_nothing_can_be_answered() -> None:
    asking = case(1, "approved", questions=("Q2: UTC?",), remarks=("asks Q2: UTC?", "lacks a line"))
    needs = found(asking, case(2, "needs_revision", questions=("Q1: A?",)), case(3, "approved"))
    assert [(one.label, one.text) for one in needs.remarks] == [("LLD-1", "asks Q2: UTC?\nlacks a line")]
    commands = [(one.command, one.why) for one in needs.commands if one.action == "decide"]
    assert commands == [
        ('agentos --home x decide LLD-1 --note "Q2: ..."', "answer what a review asked; 1 more item asked")
    ]
    assert not found(asking)  # nothing waits for an answer


def test_an_answered_question_waits_only_for_the_next_run() -> None:
    needs = found(case(1, "discuss", answered=True))
    assert (needs.questions, needs.answered) == ((), 1)
    assert [(one.command, one.why) for one in needs.commands] == [(TYPED, "continue after the answer")]


def test_what_was_not_approved_has_its_reason_and_is_retried() -> None:
    needs = found(case(1, "failed", said="no schema"), case(2, "timed_out"), case(3, "needs_revision"))
    assert [(one.status, one.reason) for one in needs.problems] == [
        ("failed", "no schema"),
        ("timed_out", "no reason is recorded"),
        ("needs_revision", "no reason is recorded"),
    ]
    assert typed(needs) == [RETRIED, "agentos --home x logs LLD-1"]
    assert typed(found(case(3, "needs_revision"))) == [RETRIED]


def test_a_file_that_cannot_be_used_is_not_retried() -> None:
    needs = found(case(1, "failed", said="cannot be read", attempts=0))
    assert len(needs.problems) == 1
    assert needs.commands == ()


@pytest.mark.parametrize("status", ["interrupted", "paused", "pending", "cut_off"])
def test_what_did_not_finish_resumes_with_the_same_command(status: str) -> None:
    needs = found(case(1, status), case(2, "approved"))
    assert (needs.unfinished, typed(needs)) == (1, [TYPED])


def test_a_budget_that_was_reached_is_raised() -> None:
    needs = found(case(1, "paused"), stopped="budget", budget=0.02, needed_budget=0.0207)
    assert typed(needs) == ["agentos --home x lld --all --mock --budget 0.063 --parallel 4"]
    unset = found(case(1, "paused"), stopped="budget", budget=1.0, exit_code=5, flags=("--all",))
    assert typed(unset) == ["agentos --home x lld --all --budget 2"]


def test_during_the_run_only_questions_can_be_answered() -> None:
    needs = found(case(1, "discuss"), case(2, "failed"), case(3, "pending"), live=True)
    assert typed(needs)[0] == "agentos --home x view"
    assert (len(needs.problems), needs.unfinished) == (1, 0)
    assert not any("--retry-failed" in command for command in typed(needs))


def test_approved_issues_that_are_not_filed() -> None:
    items = [ItemCase(id="a", label="a", status="approved", filing="wanted")]
    needs = needs_you(items, RunAgain(workflow="issue"))
    assert (needs.unfiled, typed(needs)) == (1, ["agentos issue --all --yes"])
