"""Whether models share the limits of a key, told by what is refused and what the server names."""

import pytest

from agentos.credentials.export_state import export_state
from agentos.credentials.key_state import Group
from agentos.credentials.pool import KeySpec, Settlement
from agentos.credentials.restore_state import restore_pool
from agentos.credentials.sharing import DOUBT_SECONDS, SHARED_SECONDS
from agentos.model import CallError
from unit.credentials.pool_kit import Desk

WALL = 1_800_000_000.0


def named(requests: int) -> Settlement:
    return Settlement(tokens_in=1, tokens_out=1, headers={"x-ratelimit-limit-requests": str(requests)})


REFUSED = Settlement(error=CallError.RATE_LIMITED, retry_after=0.1)


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
