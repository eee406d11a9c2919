"""What people decide is in every later prompt and in the document, until they delete it there."""

import re
from collections.abc import Callable

import pytest

from agentos.errors import Exit
from harness.project import Project
from harness.provider import Bench

QUESTION = "Which of the two readings is meant?"
ANSWER = "The second, with a numbat."


@pytest.fixture
def answered(bench: Bench) -> Bench:
    """A review of issue 42 asked a question, which a person has answered."""
    bench.project.issue(42)
    bench.provider.verdicts.append("DISCUSS")
    assert bench.run("lld", "42").code == Exit.ATTENTION
    assert bench.project.row("42")["error"] == f"Q1: {QUESTION}"
    assert bench.run("decide", "42", "--note", ANSWER).code == Exit.OK
    return bench


def with_it(bench: Bench, *args: str, verdicts: tuple[str, ...] = (), code: Exit = Exit.OK) -> list[bool]:
    """Run issue 42; say of each prompt whether it has the question with the answer, once."""
    since = len(bench.provider.asked)
    bench.provider.verdicts.extend(verdicts)
    done = bench.run("lld", "42", *args)
    assert done.code == code, done
    decided = f"- Question: {QUESTION}\n  Decision: {ANSWER}\n"
    return [decided in one.prompt and one.prompt.count(ANSWER) == 1 for one in bench.provider.asked[since:]]


def decisions(bench: Bench) -> list[str]:
    """The decisions that the document lists, without day and name."""
    section = bench.document(42).read_text().partition("\n## Decisions\n")[2].partition("\n## ")[0]
    return re.findall(r"^- (?:\d+ \w+ \d{4}, .+?: )?(.+)$", section, re.MULTILINE)


def test_an_answer_is_in_every_later_prompt_and_in_the_document_until_it_is_deleted_there(
    answered: Bench, make_project: Callable[[str], Project]
) -> None:
    assert with_it(answered, verdicts=("REVISE",) * 3) == [True] * 8
    assert decisions(answered) == [f"**{QUESTION}** {ANSWER}"]
    answered.commit()

    answered.say_more(42, "More.")
    assert with_it(answered) == [True] * 4  # the next run: a draft and a review, each after a look
    assert with_it(answered, "--fresh") == [True] * 4
    clone = answered.clone_into(make_project("clone"))
    clone.say_more(42, "Something else.")
    assert with_it(clone) == [True] * 4
    for bench in (answered, clone):
        assert decisions(bench) == [f"**{QUESTION}** {ANSWER}"]

    path = answered.document(42)
    path.write_text(re.sub(rf"^- .*{ANSWER}$", "- Mention the wombat.", path.read_text(), flags=re.MULTILINE))
    answered.say_more(42, "Yet more.")
    since = len(answered.provider.asked)
    assert with_it(answered) == [False] * 4
    for one in answered.provider.asked[since:]:
        assert "numbat" not in one.prompt
        assert "- Mention the wombat.\n" in one.prompt
    assert decisions(answered) == ["Mention the wombat."]


@pytest.mark.parametrize("flags", [(), ("--fresh",)])
@pytest.mark.parametrize("used", [False, True])
def test_an_answer_outlives_the_text_and_the_start_that_it_was_given_for(
    answered: Bench, used: bool, flags: tuple[str, ...]
) -> None:
    if used:
        again = with_it(answered, "--max-iterations", "1", verdicts=("REVISE",), code=Exit.ATTENTION)
        assert again == [True] * 2
    answered.say_more(42, "More.")
    assert with_it(answered, *flags, verdicts=("REVISE",)) == [True] * 4
    assert decisions(answered) == [f"**{QUESTION}** {ANSWER}"]


def test_a_question_that_was_answered_is_not_asked_again(answered: Bench) -> None:
    """A review that asks it is told so, and does not count."""
    assert with_it(answered, verdicts=("DISCUSS",))[:2] == [True] * 2
    assert answered.project.row("42")["reviews"] == 2
    assert (
        f"It asks what a person has decided:\n{QUESTION} {ANSWER}\n" in answered.provider.of("reviewer")[-1]
    )
