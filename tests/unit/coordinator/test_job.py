"""How long the calls of a run may take."""

from pathlib import Path

from agentos.coordinator.job import ParallelRunConfig
from agentos.model_access import RoleOptions


def longest(**timeouts: float) -> float:
    roles = {role: RoleOptions(timeout=seconds) for role, seconds in timeouts.items()}
    config = ParallelRunConfig(
        base_dir=Path("/h"), worktree=Path("/w"), workflow="lld", drafter="a:b", reviewer="a:b", roles=roles
    )
    return config.longest_call


def test_a_lease_must_outlast_the_slowest_role() -> None:
    assert longest() == 600.0
    assert longest(drafter=1200.0) == 1200.0
    assert longest(drafter=30.0) == 600.0, "the reviewer has the usual time"
    assert longest(drafter=30.0, reviewer=60.0) == 60.0
