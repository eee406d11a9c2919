"""Which refusals end a run: those after which no key is left."""

from agentos.coordinator.refusals import Refusals, RunRefused
from agentos.coordinator.scheduler import Stop
from agentos.credentials.key_state import KeyState
from agentos.credentials.snapshot import KeyView
from agentos.model import CallError
from agentos.spending.call import Call


def view(key: str, state: KeyState = KeyState.AVAILABLE) -> KeyView:
    return KeyView(
        id=key,
        provider="p",
        group=key,
        state=state,
        until=None,
        reason=None,
        in_flight=0,
        limit=10,
        calls=0,
        rate_limited=0,
        tokens_in=0,
        tokens_out=0,
        budgets=(),
    )


def refuse(found: Refusals, key: str, error: CallError, *keys: KeyView) -> RunRefused | None:
    call = Call(
        item="LLD-1", attempt=1, number=1, role="drafter", provider="p", model="m", key=key, error=error
    )
    return found.refused(call, "host: no", keys)


def test_a_key_without_access_and_one_without_credit_leave_none() -> None:
    for first, second, stop in (
        (CallError.NO_MODEL, CallError.NO_CREDIT, Stop.NO_KEY),
        (CallError.NO_CREDIT, CallError.NO_MODEL, Stop.MISCONFIGURED),
        (CallError.FORBIDDEN, CallError.NO_CREDIT, Stop.NO_KEY),
    ):
        found = Refusals(set_in={}, user_file="user.toml")
        keys = (view("key-1"), view("key-2"))
        assert refuse(found, "key-1", first, *keys) is None
        end = refuse(found, "key-2", second, *keys)
        assert end is not None
        assert end.stop is stop


def test_credit_is_only_said_to_miss_where_it_does() -> None:
    found = Refusals(set_in={}, user_file="user.toml")
    keys = (view("key-1"), view("key-2"))
    refuse(found, "key-1", CallError.FORBIDDEN, *keys)
    end = refuse(found, "key-2", CallError.NO_CREDIT, *keys)
    assert end is not None
    assert end.text.startswith("p: every key with access to m is out of credit (key-2): host: no.")


def test_a_wrong_name_is_said_at_once_although_another_key_rests_until_tomorrow() -> None:
    keys = (view("key-1"), view("key-2", KeyState.QUOTA_EXHAUSTED))
    assert refuse(Refusals(set_in={}, user_file="u"), "key-1", CallError.NO_MODEL, *keys) is not None
    # What one account may not use, the other may tomorrow.
    assert refuse(Refusals(set_in={}, user_file="u"), "key-1", CallError.FORBIDDEN, *keys) is None


def test_what_was_not_said_about_a_key_is_said_once() -> None:
    found = Refusals(set_in={}, user_file="user.toml")
    refuse(found, "key-1", CallError.NO_MODEL, view("key-1"), view("key-2"))
    (line,) = found.unsaid("p:m")
    assert line == "key-1 is not used for p:m, because it has no access: host: no"
    assert found.unsaid("p:m") == []
