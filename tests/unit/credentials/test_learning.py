"""Limits learnt from whatever a server says, in virtual time: the figures that must hold."""

from dataclasses import replace

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


@seeds
@pytest.mark.parametrize(
    ("per_second", "burst", "style", "least"),
    [
        (4.0, 4.0, "window", 0.9),
        (4.0, 20.0, "window", 0.7),  # the first window could be used up at once
        (1.0, 5.0, "window-dates", 0.85),
    ],
)
def test_fixed_windows_shorter_than_a_minute(
    per_second: float, burst: float, style: str, least: float, seed: int
) -> None:
    quotas = even(per_second=per_second, burst=burst)
    world = World(
        quotas=quotas, keys=untold(quotas), style=style, retry_after=exact, calls=960, send=NEAR, seed=seed
    )
    result = Experiment(world).run()
    assert result.goodput >= least
    assert result.refused_share < 0.05


TWO = ("drafter", "reviewer")


@seeds
@pytest.mark.parametrize("per_model", [False, True])
@pytest.mark.parametrize("style", ["openai", "anthropic", "burst", "ietf"])
def test_two_models_that_share_a_limit_or_have_their_own(style: str, per_model: bool, seed: int) -> None:
    quotas = even()
    world = World(
        quotas=quotas,
        keys=untold(quotas),
        style=style,
        retry_after=whole_seconds if style == "anthropic" else exact,
        calls=480,
        workers=40,
        send=NEAR,
        models=TWO,
        per_model=per_model,
        seed=seed,
    )
    result = Experiment(world).run()
    assert result.goodput >= 0.9
    assert result.refused_share < (0.01 if per_model else 0.03)


@seeds
def test_two_models_and_no_hint(seed: int) -> None:
    quotas = even()
    keys = untold(quotas)
    world = World(quotas=quotas, keys=keys, retry_after=lambda _: None, models=TWO, calls=480, seed=seed)
    result = Experiment(world).run()
    assert result.goodput >= 0.85
    assert result.refused_share < 0.05


@seeds
@pytest.mark.parametrize(("per_second", "burst"), [(4.0, 4.0), (1.0, 1.0)])
def test_configured_limits_of_a_gateway_are_those_of_all_models_together(
    per_second: float, burst: float, seed: int
) -> None:
    quotas = even(per_second=per_second, burst=burst)
    keys = [replace(key, per_model=False) for key in told(quotas)]
    world = World(quotas=quotas, keys=keys, retry_after=exact, models=TWO, calls=480, send=NEAR, seed=seed)
    result = Experiment(world).run()
    assert result.goodput >= 0.97
    assert result.refused_share < 0.01
