"""What the doctor says about rights and clocks."""

import pytest

from agentos.doctor.check import State
from agentos.doctor.database import check_clock, check_database, check_rights
from agentos.store.postgres.facts import SUBMITTER_ONLY


@pytest.mark.parametrize(
    ("difference", "state", "words"),
    [
        (0.2, State.OK, "same time"),
        (-4.9, State.OK, "same time"),
        (61.0, State.WARNING, "61 s ahead of"),
        (-7.2, State.WARNING, "7 s behind"),
    ],
)
def test_a_clock_that_is_wrong_is_a_warning(difference: float, state: State, words: str) -> None:
    check = check_clock(difference)
    assert check.state is state
    assert words in check.text


@pytest.mark.parametrize(
    ("missing", "superuser", "state", "words"),
    [
        ((), False, State.OK, "may submit"),
        ((), True, State.WARNING, "superuser"),
        (tuple(SUBMITTER_ONLY), False, State.OK, "but not submit"),
        (("agentos_runs", "procrastinate_jobs"), False, State.PROBLEM, "use procrastinate_jobs."),
        (("checkpoints", "procrastinate_jobs"), False, State.PROBLEM, "use checkpoints and 1 more."),
    ],
)
def test_a_missing_right_is_a_problem_for_whom_it_stops(
    missing: tuple[str, ...], superuser: bool, state: State, words: str
) -> None:
    check = check_rights("ann", missing, superuser=superuser)
    assert check.state is state
    assert words in check.text


def test_the_clock_is_compared_with_the_servers(prepared_postgres: str) -> None:
    checks = check_database({"AGENTOS_DATABASE_URL": prepared_postgres}, wall=lambda: 0.0)
    (clock,) = [one for one in checks if one.name == "clock"]
    assert clock.state is State.WARNING


def test_without_the_variable_nothing_is_checked() -> None:
    assert list(check_database({})) == []
