"""Exit codes and what they mean."""

from agentos.errors import MEANINGS, Exit


def test_every_exit_code_has_a_meaning() -> None:
    assert set(MEANINGS) == set(Exit)
