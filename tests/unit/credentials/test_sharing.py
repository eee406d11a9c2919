"""Whether models share the limits of a key, told by what is refused and what the server names."""

import pytest

from agentos.credentials.export_state import export_state
from agentos.credentials.headers import Limit
from agentos.credentials.key_state import Group
from agentos.credentials.pool import KeySpec, Settlement
from agentos.credentials.restore_state import restore_pool
from agentos.credentials.sharing import DOUBT_SECONDS, SHARED_SECONDS, TOLD_SECONDS
from agentos.model import CallError
from unit.credentials.pool_kit import Desk

WALL = 1_800_000_000.0


def named(requests: int) -> Settlement:
    return Settlement(tokens_in=1, tokens_out=1, headers={"x-ratelimit-limit-requests": str(requests)})


REFUSED = Settlement(error=CallError.RATE_LIMITED, retry_after=0.4)


def group(desk: Desk, key: str = "key-1") -> Group:
    return desk.pool.pool_state.keys[key].group


def use(desk: Desk, limits: dict[str, int]) -> None:
    """Call each model with each key, which names its limit."""
    for model, requests in limits.items():
        for _ in desk.pool.pool_state.keys:
            desk.settle(desk.lease(model=model), named(requests))
            desk.wait(2.0)


def refuse(desk: Desk, *, times: int, apart: float = 1.0) -> None:
    for _ in range(times):
        desk.settle(desk.lease("a", model="one"), REFUSED)
        desk.wait(apart)


def desk_of(keys: int = 2, **limits: float) -> Desk:
    return Desk(*(KeySpec(id=f"key-{n}", provider="p", **limits) for n in range(1, keys + 1)))  # type: ignore[arg-type]


def test_refusals_show_that_models_with_the_same_limit_share_it_and_for_all_keys() -> None:
    desk = desk_of()
    use(desk, {"one": 600, "two": 600})
    assert not group(desk).is_shared
    refuse(desk, times=4)
    for key in ("key-1", "key-2"):
        assert group(desk, key).is_shared
        assert group(desk, key).budget("one", desk.now) is group(desk, key).budget("two", desk.now)
    assert group(desk).budget("three", desk.now) is group(desk).budget("one", desk.now)


@pytest.mark.parametrize(
    ("limits", "apart"),
    [
        ({"one": 600, "two": 900}, 1.0),  # different limits are not one
        ({"one": 600}, 1.0),  # no other model is in use
        ({"one": 600, "two": 600}, DOUBT_SECONDS + 1),  # a refusal now and then is no sign
    ],
)
def test_refusals_that_show_nothing(limits: dict[str, int], apart: float) -> None:
    desk = desk_of(keys=1)
    use(desk, limits)
    refuse(desk, times=3, apart=apart)
    assert not group(desk).is_shared


def test_it_is_tried_again_after_a_while() -> None:
    desk = desk_of(keys=1)
    use(desk, {"one": 600, "two": 600})
    refuse(desk, times=2)
    assert group(desk).is_shared
    desk.wait(SHARED_SECONDS)
    assert not group(desk).is_shared
    one, two = (group(desk).budget(model, desk.now) for model in ("one", "two"))
    assert one is not two
    assert one.limits() == two.limits()


def test_configured_limits_of_all_models_together() -> None:
    desk = desk_of(keys=1, rpm=60.0, burst=1, per_model=False)
    desk.settle(desk.lease("a", model="one"))
    assert desk.ask("b", model="two") is None
    desk = desk_of(keys=1, rpm=60.0, burst=1)
    desk.settle(desk.lease("a", model="one"))
    assert desk.ask("b", model="two") is not None


def test_a_server_that_names_different_limits_for_models_has_limits_for_each() -> None:
    desk = desk_of(keys=1, rpm=60.0, per_model=False)
    use(desk, {"one": 600})
    assert group(desk).is_shared
    use(desk, {"two": 900})
    assert not group(desk).is_shared
    assert group(desk).budget("one", desk.now) is not group(desk).budget("two", desk.now)


def test_a_state_that_is_saved_remembers_it() -> None:
    desk = desk_of(keys=1)
    use(desk, {"one": 600, "two": 600})
    refuse(desk, times=2)
    data = export_state(desk.pool, desk.now, WALL)
    pool = restore_pool(data, now=50.0, wall=WALL + 10.0)
    found = pool.pool_state.keys["key-1"].group
    assert found.is_shared
    assert found.budget("one", 50.0) is found.budget("two", 50.0)
    assert export_state(pool, 50.0, WALL + 10.0)["groups"][0]["sharing"] == data["groups"][0]["sharing"]
    pool.advance(50.0 + SHARED_SECONDS)
    assert not found.is_shared


def test_a_state_from_before_knows_nothing_about_it() -> None:
    desk = desk_of(keys=1)
    use(desk, {"one": 600})
    data = export_state(desk.pool, desk.now, WALL)
    for one in data["groups"]:
        del one["sharing"]
        for budget in one["budgets"]:
            del budget["charged_at"]
            for refill in budget["refills"]:
                del refill["window"]
    for key in data["keys"]:
        del key["per_model"]
    assert not restore_pool(data, now=50.0, wall=WALL).pool_state.keys["key-1"].group.is_shared


@pytest.mark.parametrize(("wait", "shared"), [(0.1, False), (1.0, False), (0.4, True)])
def test_a_short_wait_or_whole_seconds_may_only_mean_that_calls_arrived_unevenly(
    wait: float, shared: bool
) -> None:
    desk = desk_of(keys=1)
    use(desk, {"one": 60, "two": 60})  # with a burst of one
    for _ in range(6):
        desk.wait(1.0)
        desk.settle(desk.lease("a", model="one"), Settlement(error=CallError.RATE_LIMITED, retry_after=wait))
        desk.wait(1.0)
    assert group(desk).is_shared is shared


def test_keys_that_have_not_answered_yet_share_too() -> None:
    desk = desk_of()
    for model in ("one", "two"):
        group(desk, "key-2").budget(model, desk.now)
    use(desk, {"one": 600, "two": 600})
    fresh = Desk(*(KeySpec(id=f"key-{n}", provider="p") for n in (1, 2)))
    for model in ("one", "two"):
        group(fresh, "key-2").budget(model, fresh.now)
    group(fresh, "key-2").share(fresh.now)
    one, two = (group(fresh, "key-2").budget(model, fresh.now) for model in ("one", "two"))
    assert one is two


def test_what_was_used_today_is_not_counted_twice() -> None:
    desk = desk_of(keys=1, rpd=1000.0)
    use(desk, dict.fromkeys(("one", "two"), 600))
    found = group(desk)
    for _ in range(3):
        found.share(desk.now)
        assert found.is_shared
        desk.wait(SHARED_SECONDS)
        use(desk, dict.fromkeys(("one", "two"), 600))
    day = found.budget("one", desk.now).buckets[Limit.RPD]
    assert day.capacity - day.level(desk.now) < 10


def test_limits_that_differ_only_while_they_change_are_still_one() -> None:
    desk = desk_of(keys=1, rpm=600.0, per_model=False)
    use(desk, {"one": 600, "two": 600})
    use(desk, {"one": 1200})
    assert not group(desk).is_shared
    use(desk, {"two": 1200})
    assert group(desk).is_shared
    assert group(desk).budget("one", desk.now) is group(desk).budget("two", desk.now)
    use(desk, {"one": 1200})
    desk.wait(TOLD_SECONDS + 1)
    use(desk, {"two": 2400})  # what was named long ago is not compared
    assert group(desk).is_shared


def test_a_model_that_is_not_used_any_more_does_not_matter() -> None:
    desk = desk_of(keys=1)
    use(desk, {"old": 100})
    desk.wait(600.0)
    use(desk, {"one": 600, "two": 600})
    refuse(desk, times=2)
    assert group(desk).is_shared


def test_what_is_configured_for_all_models_stays_one_when_a_belief_ends() -> None:
    desk = desk_of(keys=1, rpm=600.0, per_model=False)
    use(desk, {"one": 600, "two": 600})
    group(desk).sharing.believe(desk.now)
    desk.wait(SHARED_SECONDS)
    assert group(desk).budget("one", desk.now) is group(desk).budget("two", desk.now)


def test_budgets_that_become_one_in_a_saved_state_keep_what_both_used() -> None:
    apart = [KeySpec(id="key-1", provider="p", rpd=1000.0)]
    desk = Desk(*apart)
    for model, times in (("one", 5), ("two", 1)):
        for _ in range(times):
            desk.settle(desk.lease(model=model))
    data = export_state(desk.pool, desk.now, WALL)
    together = [KeySpec(id="key-1", provider="p", rpd=1000.0, per_model=False)]
    pool = restore_pool(data, now=50.0, wall=WALL, keys=together)
    budget = pool.pool_state.keys["key-1"].group.budget("two", 50.0)
    day = budget.buckets[Limit.RPD]
    assert day.capacity - day.level(50.0) >= 5.0 - 0.01


def test_the_longest_calls_decide_how_many_items_are_useful() -> None:
    desk = desk_of(keys=1, rpm=600.0, per_model=False)
    for model, seconds in (("slow", 60.0), ("fast", 2.0)):
        given = desk.lease(model=model)
        desk.wait(seconds)
        desk.settle(given)
    assert desk.pool.useful_parallel(desk.now) > 60
