"""One call: how often it is tried, and what is asked for and settled."""

import errno
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from agentos.errors import ItemFailed, NoUsableKey, OwnFault, StopRequested
from agentos.llm.caller import SAFETY_TOKENS, Caller, LeaseRequest, Made, estimate_tokens
from agentos.llm.provider import Cancel, ModelRequest, ProviderError, Reply
from agentos.model import OF_ACCOUNT, SAME_FOR_ALL, CallError, Usage
from agentos.secret import Secret
from agentos.wire import CallSettled, Kept, LeaseGranted

REQUEST = ModelRequest(role="drafter", model="gpt-5", number=1, system="s" * 40, prompt="p" * 360)
REPLY = Reply(text="hello", model="gpt-5-1", tokens_in=10, tokens_out=20, headers={"x-remaining": "9"})
KEPT = Kept(journal_id="life-1", number=1)
Answer = Reply | BaseException
LONG = 3600.0


def error(error_class: CallError, message: str = "why", **more: float) -> ProviderError:
    return ProviderError(error_class, message, **more)  # type: ignore[arg-type]


@dataclass
class Desk:
    """A provider that answers as told, and the coordinator's side; both note what happened in order."""

    answers: list[Answer]
    seen: list[str] = field(default_factory=list)
    settled: list[CallSettled] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)
    wanted: list[LeaseRequest] = field(default_factory=list)
    kept: list[Made] = field(default_factory=list)
    keys: int | None = None
    one_key: bool = False  # every lease is of the same key
    probe: bool = False
    stop_at: int | None = None  # the ask during which the stop comes
    others: dict[str, str] = field(default_factory=dict)  # texts in which the coordinator finds a secret

    def vet(self, texts: Sequence[str]) -> str | None:
        return next((self.others[text] for text in texts if text in self.others), None)

    def lease(self, ask: LeaseRequest) -> LeaseGranted:
        self.seen.append("lease")
        self.wanted.append(ask)
        number = len(self.wanted)
        if self.stop_at == number:
            raise StopRequested
        if self.keys is not None and number > self.keys:
            raise NoUsableKey("no key is left")
        if self.settled and self.settled[-1].error is CallError.BAD_REQUEST:
            raise OwnFault
        key = "key-1" if self.one_key else f"key-{number}"
        return LeaseGranted(
            number=number,
            lease=100 + number,
            key=key,
            secret=Secret(key, f"secret-{number}"),
            probe=self.probe,
        )

    def settle(self, settled: CallSettled) -> None:
        self.seen.append("settle")
        self.settled.append(settled)

    def call(self, request: ModelRequest, *, secret: Secret, cancel: Cancel) -> Reply:
        assert replace(request, schema=None) == REQUEST
        self.seen.append("call")
        self.secrets.append(secret.reveal())
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def keep(self, made: Made) -> Kept:
        assert made.reply == REPLY  # without what was wrapped around it
        self.kept.append(made)
        self.seen.append("keep")
        return KEPT


def make(
    desk: Desk, cancel: Cancel | None = None, *, max_retries: int = 5, call_timeout: float = LONG
) -> Caller:
    return Caller(
        "openai", desk, desk, cancel=cancel or Cancel(), max_retries=max_retries, call_timeout=call_timeout
    )


def call(desk: Desk, cancel: Cancel | None = None, *, max_retries: int = 5) -> Made:
    return make(desk, cancel, max_retries=max_retries).call(REQUEST, keep=desk.keep)


def errors(*classes: CallError) -> Sequence[Answer]:
    return [error(one) for one in classes]


# A call that is answered.


def test_a_reply_is_kept_before_the_lease_is_settled() -> None:
    desk = Desk([REPLY])
    made = call(desk)
    assert desk.seen == ["lease", "call", "keep", "settle"]
    assert (made.reply, made.key, made.tries) == (REPLY, "key-1", 1)
    assert desk.kept == [made]
    (settled,) = desk.settled
    assert (settled.lease, settled.tokens_in, settled.tokens_out, settled.error) == (101, 10, 20, None)
    assert settled.headers == {"x-remaining": "9"}
    assert settled.kept == KEPT


def test_the_lease_is_asked_for_with_provider_model_and_estimated_tokens() -> None:
    desk = Desk([REPLY])
    call(desk)
    tokens = 100 + 4_000 + SAFETY_TOKENS
    assert desk.wanted == [
        LeaseRequest(provider="openai", model="gpt-5", role="drafter", tokens=tokens, prompt_tokens=100)
    ]
    assert desk.secrets == ["secret-1"]


def test_the_estimate_grows_with_the_prompt_and_takes_no_more_output_than_is_asked_for() -> None:
    small = ModelRequest(role="drafter", model="m", number=1, system="", prompt="", max_output_tokens=10)
    assert estimate_tokens(small) == 10 + SAFETY_TOKENS
    assert estimate_tokens(REQUEST) > estimate_tokens(small)


def test_when_a_reply_cannot_be_kept_the_failure_comes_through() -> None:
    desk = Desk([REPLY])

    def full(_made: Made) -> Kept:
        raise OSError

    with pytest.raises(OSError):
        make(desk).call(REQUEST, keep=full)


# Trying again.


@pytest.mark.parametrize("retries", [0, 1, 5])
@pytest.mark.parametrize("error_class", [CallError.TRANSIENT, CallError.CAPACITY])
def test_a_call_is_tried_once_and_again_as_often_as_allowed(error_class: CallError, retries: int) -> None:
    desk = Desk([*errors(*[error_class] * retries), REPLY])
    assert call(desk, max_retries=retries).tries == retries + 1
    assert desk.seen.count("call") == retries + 1
    assert len(desk.settled) == retries + 1


@pytest.mark.parametrize("retries", [0, 1, 5])
@pytest.mark.parametrize("error_class", [CallError.TRANSIENT, CallError.CAPACITY])
def test_then_the_item_fails_and_says_so(error_class: CallError, retries: int) -> None:
    desk = Desk([*errors(*[error_class] * (retries + 1)), REPLY])
    with pytest.raises(
        ItemFailed, match=rf"openai:gpt-5 .*{retries + 1} tr(y|ies) .*{error_class.value}: why"
    ):
        call(desk, max_retries=retries)
    assert desk.seen.count("call") == retries + 1
    assert [one.error for one in desk.settled] == [error_class.value] * (retries + 1)
    assert "keep" not in desk.seen


NO_TRY = (CallError.KEY_REJECTED, CallError.NO_CREDIT, CallError.UNREACHABLE)


@pytest.mark.parametrize("kind", NO_TRY)
def test_a_failure_of_a_key_or_the_network_counts_as_no_try(kind: CallError) -> None:
    desk = Desk([*errors(*[kind] * 8), REPLY])
    made = call(desk, max_retries=0)
    assert (made.tries, made.key) == (1, "key-9")
    assert [one.error for one in desk.settled[:-1]] == [kind] * 8


def test_a_dropped_connection_is_a_try_unless_the_provider_was_known_to_be_down() -> None:
    with pytest.raises(ItemFailed, match="in 1 try "):
        call(Desk(list(errors(CallError.DROPPED))), max_retries=0)
    desk = Desk([*errors(*[CallError.DROPPED] * 8), REPLY], probe=True)
    assert call(desk, max_retries=0).tries == 1


@pytest.mark.parametrize("kind", sorted(SAME_FOR_ALL))
def test_an_error_that_every_item_gets_is_asked_about_once_more(kind: CallError) -> None:
    desk = Desk(list(errors(kind)), keys=1)
    with pytest.raises(NoUsableKey):  # the coordinator stops the run
        call(desk, max_retries=0)
    assert desk.seen == ["lease", "call", "settle", "lease"]
    desk = Desk(list(errors(kind, kind, kind)), one_key=True)
    with pytest.raises(ItemFailed, match="in 2 tries "):  # it does not
        call(desk, max_retries=0)


@pytest.mark.parametrize("kind", sorted(OF_ACCOUNT))
def test_the_first_refusal_of_each_key_without_access_counts_as_no_try(kind: CallError) -> None:
    desk = Desk([*errors(*[kind] * 8), REPLY])
    made = call(desk, max_retries=0)
    assert (made.tries, made.key) == (1, "key-9")


@pytest.mark.parametrize("error_class", [CallError.RATE_LIMITED, CallError.QUOTA_EXHAUSTED])
def test_a_refusal_counts_as_no_try_of_the_item(error_class: CallError) -> None:
    desk = Desk([*errors(*[error_class] * 30), REPLY])
    assert call(desk, max_retries=0).tries == 1
    assert [ask.tries for ask in desk.wanted] == [0] * 31
    assert desk.wanted[-1].after == 130  # the coordinator knows what came before


def test_limits_that_a_refusal_names_are_passed_on() -> None:
    refusal = ProviderError(CallError.RATE_LIMITED, "why", limits={"rpm": 60.0})
    desk = Desk([refusal, REPLY])
    call(desk)
    assert desk.settled[0].limits == {"rpm": 60.0}


def test_when_every_key_is_rejected_the_coordinator_has_the_last_word() -> None:
    desk = Desk(list(errors(*[CallError.KEY_REJECTED] * 3)), keys=2)
    with pytest.raises(NoUsableKey):
        call(desk)
    assert desk.seen.count("call") == 2


def test_a_declined_request_fails_at_once() -> None:
    desk = Desk([error(CallError.DECLINED, "prompt too long"), REPLY])
    with pytest.raises(ItemFailed, match="refused the request: prompt too long"):
        call(desk)
    assert desk.seen == ["lease", "call", "settle"]
    assert desk.settled[0].error == "declined"


@pytest.mark.parametrize("max_retries", [0, 5])
def test_the_coordinator_says_whose_fault_a_bad_request_is(max_retries: int) -> None:
    desk = Desk([error(CallError.BAD_REQUEST, "odd"), REPLY])
    with pytest.raises(ItemFailed, match="openai:gpt-5 refused the request: odd"):
        call(desk, max_retries=max_retries)
    assert desk.seen == ["lease", "call", "settle", "lease"]
    stopping = Desk([error(CallError.BAD_REQUEST, "odd"), REPLY], keys=1)
    with pytest.raises(NoUsableKey):
        call(stopping, max_retries=max_retries)


REFUSALS = {CallError.RATE_LIMITED, CallError.QUOTA_EXHAUSTED, *NO_TRY, *OF_ACCOUNT}
FINAL = {CallError.BAD_REQUEST, CallError.DECLINED, CallError.UNREADABLE}
RETRIED = [one for one in CallError if one not in REFUSALS | FINAL]


@pytest.mark.parametrize("error_class", RETRIED)
def test_the_next_try_is_asked_for_at_once_with_what_failed_before(error_class: CallError) -> None:
    desk = Desk([error(error_class, retry_after=30.0), error(error_class), REPLY])
    call(desk)
    assert desk.seen == ["lease", "call", "settle"] * 2 + ["lease", "call", "keep", "settle"]
    assert [(ask.tries, ask.after) for ask in desk.wanted] == [(0, 0), (1, 101), (2, 102)]
    assert desk.settled[0].retry_after == 30.0
    assert desk.secrets == ["secret-1", "secret-2", "secret-3"]


def test_what_came_with_an_error_is_settled() -> None:
    refusal = error(CallError.QUOTA_EXHAUSTED, "x" * 2000, quota_reset=50.0)
    refusal.headers = {"x-remaining": "0"}
    desk = Desk([refusal, REPLY])
    call(desk)
    first = desk.settled[0]
    assert (first.lease, first.quota_reset, first.headers) == (101, 50.0, {"x-remaining": "0"})
    assert len(first.message) == 500


# Deadlines and stops.


class Hanging:
    """A provider that answers only when the test lets it."""

    def __init__(self) -> None:
        self.let = threading.Event()
        self.began = threading.Event()
        self.calls = 0

    def call(self, request: ModelRequest, *, secret: Secret, cancel: Cancel) -> Reply:
        self.calls += 1
        self.began.set()
        self.let.wait(60)
        return REPLY


def test_a_call_that_gives_no_reply_in_time_is_a_passing_failure() -> None:
    desk, provider = Desk([]), Hanging()
    caller = Caller("openai", provider, desk, cancel=Cancel(), max_retries=1, call_timeout=0.01)
    with pytest.raises(ItemFailed, match="no reply within"):
        caller.call(REQUEST, keep=desk.keep)
    provider.let.set()
    assert provider.calls == 2
    assert [one.error for one in desk.settled] == ["transient", "transient"]


def test_a_stop_in_a_call_gives_it_up_at_once_and_settles_its_lease() -> None:
    desk, provider, cancel = Desk([]), Hanging(), Cancel()

    def stop() -> None:
        provider.began.wait(60)
        cancel.set()

    stopper = threading.Thread(target=stop)
    stopper.start()
    caller = Caller("openai", provider, desk, cancel=cancel, max_retries=5, call_timeout=LONG)
    with pytest.raises(StopRequested):
        caller.call(REQUEST, keep=desk.keep)
    stopper.join()
    provider.let.set()
    assert [one.error for one in desk.settled] == ["given_up"]
    assert "keep" not in desk.seen


def test_a_stop_while_waiting_ends_the_wait_and_nothing_is_settled_twice() -> None:
    desk = Desk([*errors(*[CallError.TRANSIENT] * 3)], stop_at=3)
    with pytest.raises(StopRequested):
        call(desk)
    assert desk.seen.count("call") == 2
    assert [one.error for one in desk.settled] == ["transient", "transient"]


def test_a_reply_that_is_there_when_the_stop_comes_is_kept() -> None:
    class StopWithTheReply(Cancel):
        def wait(self, ready: Callable[[], bool], seconds: float | None) -> None:
            super().wait(ready, seconds)
            self.set()
            super().wait(ready, seconds)

    desk = Desk([REPLY])
    assert call(desk, StopWithTheReply()).reply == REPLY
    assert desk.seen == ["lease", "call", "keep", "settle"]


def test_a_workflow_that_fails_inside_its_provider_fails_without_another_try() -> None:
    desk = Desk([ItemFailed("as scripted"), REPLY])
    with pytest.raises(ItemFailed, match="as scripted"):
        call(desk)
    assert desk.seen == ["lease", "call", "settle"]
    assert desk.settled[0].error == "given_up"


def test_an_unexpected_error_of_a_provider_fails_the_item_by_its_name_and_without_its_arguments() -> None:
    desk = Desk([UnicodeEncodeError("ascii", "Bearer secret-1", 0, 1, "odd"), REPLY])
    with pytest.raises(ItemFailed, match="openai: unexpected UnicodeEncodeError") as raised:
        call(desk)
    assert "secret-1" not in repr(raised.value)
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__
    assert [one.error for one in desk.settled] == ["unreadable"]


def test_an_answer_that_cannot_be_kept_is_settled_with_what_it_used() -> None:
    desk = Desk([REPLY])

    def full(_made: Made) -> Kept:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        make(desk).call(REQUEST, keep=full)
    (settled,) = desk.settled
    assert (settled.error, settled.kept, settled.usage.counts()) == ("unreadable", None, REPLY.counts())


ECHOES = {
    "text": replace(REPLY, text="the key is secret-1, is it not?"),
    "model": replace(REPLY, model="gpt-secret-1"),
    "header": replace(REPLY, headers={"x-ratelimit-remaining": "secret-1"}),
}


@pytest.mark.parametrize("where", ECHOES)
def test_a_reply_with_the_key_in_it_is_refused_paid_for_and_not_asked_for_again(where: str) -> None:
    desk = Desk([ECHOES[where], REPLY])
    with pytest.raises(ItemFailed, match="reply contains the key key-1; it was refused") as raised:
        call(desk)
    assert desk.seen == ["lease", "call", "settle"]
    (settled,) = desk.settled
    assert (settled.tokens_in, settled.tokens_out) == (10, 20)
    assert "secret-1" not in settled.model_dump_json() + repr(raised.value)


def test_an_error_is_told_without_the_key() -> None:
    desk = Desk([error(CallError.BAD_REQUEST, "you sent secret-1"), REPLY])
    with pytest.raises(ItemFailed, match="whose text contains the key key-1; not shown"):
        call(desk)
    assert desk.settled[0].message == "an error whose text contains the key key-1; not shown"


def test_a_reply_with_the_key_of_another_worker_is_refused_by_the_coordinators_word() -> None:
    desk = Desk([REPLY], others={"hello": "key-9"})
    with pytest.raises(ItemFailed, match="reply contains the key key-9; it was refused"):
        call(desk)
    desk = Desk([error(CallError.BAD_REQUEST, "hello"), REPLY], others={"hello": "key-9"})
    with pytest.raises(ItemFailed, match="whose text contains the key key-9"):
        call(desk)
    assert "keep" not in desk.seen


# The stop itself.


def test_a_stop_that_has_come_ends_every_later_wait_at_once() -> None:
    cancel = Cancel()
    cancel.set()
    with pytest.raises(StopRequested):
        cancel.sleep(LONG)
    cancel.wait(lambda: True, LONG)


def test_who_asks_to_be_told_of_the_stop_is_told_also_when_it_has_come() -> None:
    cancel, told = Cancel(), []
    cancel.on_set(lambda: told.append("first"))
    assert told == []
    cancel.set()
    cancel.on_set(lambda: told.append("second"))
    assert told == ["first", "second"]


def test_a_stop_cannot_be_caught_as_an_ordinary_error() -> None:
    assert not issubclass(StopRequested, Exception)


# What a model wraps around its reply.


def test_a_reply_is_kept_without_its_wrapping() -> None:
    desk = Desk([replace(REPLY, text="<think>Hm.</think>\nhello")])
    desk_reply = replace(REPLY, text="hello\n")
    kept: list[Made] = []

    def keep(made: Made) -> Kept:
        kept.append(made)
        return KEPT

    made = make(desk).call(REQUEST, keep=keep)
    assert (made.reply, made.removed) == (desk_reply, ("the model's thinking",))
    assert kept == [made]


def test_the_object_of_a_structured_reply_is_found_also_for_a_drafter() -> None:
    said = replace(REPLY, text='I need more.\n\n{"wishes": []}')
    asked = replace(REQUEST, schema={"title": "look"})
    texts = [make(Desk([said])).call(one, keep=lambda _: KEPT).reply.text for one in (asked, REQUEST)]
    assert texts == ['{"wishes": []}\n', said.text]


def test_a_reply_of_nothing_but_thinking_is_incomplete_and_tried_again() -> None:
    desk = Desk([replace(REPLY, text="<think>cut off"), REPLY])
    assert make(desk).call(REQUEST, keep=desk.keep).reply == REPLY
    failed, good = desk.settled
    assert (failed.error, failed.tokens_out, good.error) == (CallError.TRANSIENT, REPLY.tokens_out, None)
    assert "the reply is incomplete: it has nothing but the model's thinking" in failed.message


def test_an_answer_that_is_paid_for_and_cannot_be_used_is_tried_once_more_only() -> None:
    def odd() -> ProviderError:
        usage = Usage(tokens_in=10, tokens_out=20)
        return ProviderError(CallError.TRANSIENT, "finish reason 'odd'", usage=usage)

    desk = Desk([odd(), error(CallError.TRANSIENT, "HTTP 500"), odd(), REPLY])
    with pytest.raises(ItemFailed, match="finish reason 'odd'"):
        call(desk)
    assert len(desk.settled) == 3
