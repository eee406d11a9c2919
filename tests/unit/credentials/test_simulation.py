"""The pool against a model of a provider, in virtual time: how much quota is used, how much is refused."""

import pytest

from unit.credentials.experiment import UNEVEN, Experiment, World, even, told, untold, with_tokens

seeds = pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])


@seeds
@pytest.mark.parametrize("calls", [400, 1200])
@pytest.mark.parametrize("burst", [True, False])
def test_configured_limits_are_used_up_and_hardly_ever_refused(seed: int, calls: int, burst: bool) -> None:
    quotas = even()
    result = Experiment(World(quotas=quotas, keys=told(quotas, burst=burst), calls=calls, seed=seed)).run()
    assert result.goodput >= 0.97
    assert result.refused_share < 0.01


@seeds
@pytest.mark.parametrize("calls", [400, 1200])
def test_limits_learnt_from_headers(seed: int, calls: int) -> None:
    quotas = even()
    result = Experiment(
        World(quotas=quotas, keys=untold(quotas), style="openai", calls=calls, seed=seed)
    ).run()
    assert result.goodput >= 0.90
    assert result.refused_share < 0.05


@seeds
@pytest.mark.parametrize("learn", [False, True])
def test_uneven_keys_are_each_used_up(seed: int, learn: bool) -> None:
    keys = untold(UNEVEN) if learn else told(UNEVEN)
    result = Experiment(
        World(quotas=UNEVEN, keys=keys, style="openai" if learn else "", calls=1000, seed=seed)
    ).run()
    assert result.goodput >= 0.97
    assert result.refused_share < 0.01
    assert result.by_key["key-1"] == pytest.approx(500, rel=0.03)
    assert result.by_key["key-4"] == pytest.approx(125, rel=0.03)


@seeds
@pytest.mark.parametrize("learn", [False, True])
def test_refused_calls_that_cost_quota(seed: int, learn: bool) -> None:
    quotas = even()
    keys = untold(quotas) if learn else told(quotas)
    result = Experiment(
        World(
            quotas=quotas,
            keys=keys,
            style="openai" if learn else "",
            refused_costs=True,
            calls=400,
            seed=seed,
        )
    ).run()
    assert result.goodput >= (0.90 if learn else 0.97)
    assert result.refused_share < (0.05 if learn else 0.01)


@seeds
def test_the_peers_experiment(seed: int) -> None:
    """4 keys of 10 calls a second and burst 10, 400 calls of 50 ms, 20 at once."""
    quotas = even(per_second=10.0, burst=10.0)
    world = World(quotas=quotas, keys=told(quotas), calls=400, service=(0.05, 0.05), seed=seed)
    result = Experiment(world).run()
    assert result.goodput >= 0.97
    assert result.refused_share < 0.01


@seeds
@pytest.mark.parametrize("asked", [1_000, 4_000, 10_000])
def test_a_token_budget_is_used_up_however_rough_the_estimate(seed: int, asked: int) -> None:
    quotas = with_tokens(2_000.0, 2_000.0)
    world = World(quotas=quotas, keys=told(quotas), tokens=(800, 1_200), asked=asked, calls=400, seed=seed)
    result = Experiment(world).run()
    assert result.goodput >= 0.97
    assert result.refused_share < 0.01


@seeds
def test_token_limits_learnt_from_headers(seed: int) -> None:
    quotas = with_tokens(2_000.0, 2_000.0)
    world = World(
        quotas=quotas,
        keys=untold(quotas),
        style="openai",
        tokens=(800, 1_200),
        asked=1_000,
        calls=400,
        seed=seed,
    )
    result = Experiment(world).run()
    assert result.goodput >= 0.90
    assert result.refused_share < 0.05


def test_long_calls_need_many_at_once_and_get_them() -> None:
    quotas = even()
    world = World(quotas=quotas, keys=told(quotas), service=(5.0, 10.0), workers=200, calls=3200)
    result = Experiment(world).run()
    # The last calls take up to 10 s after the last bit of quota is used.
    assert result.ideal / (result.seconds - 10.0) >= 0.97
    assert result.refused == 0


@seeds
def test_limits_configured_twice_too_high_are_found_out(seed: int) -> None:
    quotas = even()
    result = Experiment(
        World(quotas=quotas, keys=told(quotas, burst=False, wrong=2.0), calls=1600, seed=seed)
    ).run()
    assert result.goodput >= 0.90
    assert result.refused_share < 0.05


def test_nothing_known_and_nothing_told_still_gets_all_calls_through() -> None:
    quotas = even(1)
    world = World(quotas=quotas, keys=untold(quotas), calls=100, retry_after=lambda _: None)
    assert sum(Experiment(world).run().by_key.values()) == 100


def test_no_polling() -> None:
    quotas = even()
    result = Experiment(World(quotas=quotas, keys=told(quotas), calls=1600)).run()
    assert result.wakes <= 2 * 1600
