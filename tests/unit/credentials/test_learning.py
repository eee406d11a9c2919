"""Limits learnt from whatever a server says, in virtual time: the figures that must hold."""

import pytest

from unit.credentials.experiment import Experiment, World, even, told, untold, whole_seconds

seeds = pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 7))]
)
NEAR = (0.0, 0.01)  # seconds from the grant to a provider on the same machine


def exact(wait: float) -> float:
    return wait


@seeds
@pytest.mark.parametrize("style", ["openai", "anthropic", "gemini", "burst", "ietf"])
def test_four_keys_that_are_learnt(style: str, seed: int) -> None:
    quotas = even()
    retry = whole_seconds if style == "anthropic" else exact
    world = World(
        quotas=quotas, keys=untold(quotas), style=style, retry_after=retry, calls=480, send=NEAR, seed=seed
    )
    result = Experiment(world).run()
    assert result.goodput >= 0.93
    assert result.refused_share < 0.02


@seeds
@pytest.mark.parametrize("style", ["openai", "gemini", "none"])
def test_four_keys_that_are_configured(style: str, seed: int) -> None:
    quotas = even()
    world = World(
        quotas=quotas, keys=told(quotas), style=style, retry_after=exact, calls=480, send=NEAR, seed=seed
    )
    result = Experiment(world).run()
    assert result.goodput >= 0.98
    assert result.refused_share < 0.01


@seeds
def test_four_keys_without_any_hint(seed: int) -> None:
    quotas = even()
    world = World(
        quotas=quotas, keys=untold(quotas), retry_after=lambda _: None, calls=480, send=NEAR, seed=seed
    )
    result = Experiment(world).run()
    assert result.goodput >= 0.85
    assert result.refused_share < 0.05


@seeds
@pytest.mark.parametrize("style", ["openai", "gemini", "none"])
def test_a_burst_of_one_that_is_configured(style: str, seed: int) -> None:
    quotas = even(per_second=1.0, burst=1.0)
    world = World(
        quotas=quotas, keys=told(quotas), style=style, retry_after=exact, calls=480, send=NEAR, seed=seed
    )
    result = Experiment(world).run()
    assert result.goodput >= 0.97
    assert result.refused_share < 0.01


@seeds
@pytest.mark.parametrize("style", ["openai", "anthropic", "gemini", "burst", "ietf"])
def test_a_burst_of_one_that_is_learnt(style: str, seed: int) -> None:
    quotas = even(per_second=1.0, burst=1.0)
    retry = whole_seconds if style == "anthropic" else exact
    world = World(
        quotas=quotas, keys=untold(quotas), style=style, retry_after=retry, calls=480, send=NEAR, seed=seed
    )
    result = Experiment(world).run()
    assert result.goodput >= 0.93
    assert result.refused_share < 0.03
