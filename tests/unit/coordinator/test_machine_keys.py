"""A call names the keys that its machine has, and gets no other."""

from agentos.coordinator.keys import KeyRing, KeyService
from agentos.credentials.pool import KeySpec
from agentos.events.keys import Leased, Refused
from agentos.secret import Secret
from agentos.spending.call import Call


def service() -> KeyService:
    specs = tuple(KeySpec(id=f"key-{number}", provider="open") for number in (1, 2, 3))
    secrets = {spec.id: Secret(spec.id, f"sk-{spec.id}-12345") for spec in specs}
    ring = KeyRing(specs=specs, secrets=secrets)
    return KeyService(ring, None, run_id="run", call_timeout=600.0, refuse_every=None)


def call(number: int, only: frozenset[str] | None) -> Call:
    return Call(
        item=f"LLD-{number}", attempt=1, number=1, role="drafter", provider="open", model="m", only=only
    )


def test_a_call_gets_only_a_key_that_its_machine_has() -> None:
    keys = service()
    for number in range(6):
        (leased,) = keys.request(call(number, frozenset({"key-2", "other"})), 1.0)
        assert isinstance(leased, Leased)
        assert leased.key == "key-2"
        assert keys.answer(leased).key == "key-2"


def test_without_a_list_of_keys_every_key_may_serve() -> None:
    keys = service()
    leased = [keys.request(call(number, None), 1.0)[0] for number in range(3)]
    assert {one.key for one in leased if isinstance(one, Leased)} == {"key-1", "key-2", "key-3"}


def test_a_machine_without_a_key_is_refused() -> None:
    (refused,) = service().request(call(1, frozenset()), 1.0)
    assert isinstance(refused, Refused)
    assert refused.reason == "no key for open on the machine that runs this item"
