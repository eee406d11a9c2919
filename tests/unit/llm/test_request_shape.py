"""How the request of one call changes with what its server says."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from agentos.errors import ItemFailed, OwnFault
from agentos.llm.caller import Caller, LeaseRequest, Made
from agentos.llm.correction import CORRECTIONS_MOST, Correction
from agentos.llm.provider import USUAL_OUTPUT, Cancel, CutReply, ModelRequest, ProviderError, Reply
from agentos.llm.request_shape import LARGER_OUTPUT, RequestShape, corrected_call
from agentos.model import CallError, Usage
from agentos.model_facts import UNKNOWN, ModelFacts
from agentos.secret import Secret
from agentos.wire import CallSettled, Kept, LeaseGranted

REQUEST = ModelRequest(role="drafter", model="m", number=1, system="", prompt="p" * 4_000)
REPLY = Reply(text="hello", model="m", tokens_in=10, tokens_out=20)
CUT = Usage(tokens_in=10, tokens_out=30)


def refused(**correction: object) -> ProviderError:
    said = Correction(**correction)  # type: ignore[arg-type]
    return ProviderError(CallError.BAD_REQUEST, "no", correction=said)


def cut() -> CutReply:
    return CutReply(CUT, model="m-1")


@dataclass
class Desk:
    """A provider and a coordinator in one; notes what was asked and settled."""

    answers: list[Reply | Exception]
    asked: list[ModelRequest] = field(default_factory=list)
    wanted: list[LeaseRequest] = field(default_factory=list)
    settled: list[CallSettled] = field(default_factory=list)

    def lease(self, ask: LeaseRequest) -> LeaseGranted:
        if self.settled and self.settled[-1].error is CallError.BAD_REQUEST:
            raise OwnFault
        self.wanted.append(ask)
        number = len(self.wanted)
        return LeaseGranted(number=number, lease=number, key="key-1", secret=Secret("key-1", "s-1"))

    def vet(self, texts: Sequence[str]) -> str | None:
        return None

    def settle(self, settled: CallSettled) -> None:
        self.settled.append(settled)

    def call(self, request: ModelRequest, *, secret: Secret, cancel: Cancel) -> Reply:
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def caller(self, **facts: ModelFacts) -> Caller:
        known = {f"openai:{model}": one for model, one in facts.items()}
        return Caller("openai", self, self, cancel=Cancel(), max_retries=0, call_timeout=60, facts=known)

    @property
    def limits(self) -> list[int]:
        return [request.max_output_tokens for request in self.asked]

    @property
    def errors(self) -> list[CallError | None]:
        return [settled.error for settled in self.settled]


def keep(_: Made) -> Kept:
    return Kept(journal_id="j", number=1)


def test_a_corrected_call_costs_no_try_and_what_worked_is_told_with_the_reply() -> None:
    desk = Desk([refused(max_output=8_192), refused(unsupported="temperature"), REPLY, REPLY])
    caller = desk.caller()
    assert caller.call(REQUEST, keep=keep).tries == 1
    assert desk.errors == [CallError.CORRECTED, CallError.CORRECTED, None]
    assert [ask.tries for ask in desk.wanted] == [0, 0, 0]
    known = ModelFacts(max_output=8_192, unsupported=("temperature",))
    assert [settled.facts for settled in desk.settled] == [None, None, known]
    # The next call of the item begins with it, and has nothing new to tell.
    caller.call(REQUEST, keep=keep)
    assert desk.asked[-1].facts == known
    assert (desk.limits[-1], desk.settled[-1].facts) == (8_192, None)


def test_what_is_known_is_asked_for_at_once() -> None:
    desk = Desk([REPLY])
    desk.caller(m=ModelFacts(max_output=4_096)).call(REQUEST, keep=keep)
    assert desk.limits == [4_096]


def test_a_correction_that_led_to_nothing_is_not_told() -> None:
    desk = Desk([refused(max_output=8_192), ProviderError(CallError.BAD_REQUEST, "still no")])
    with pytest.raises(ItemFailed, match="refused the request: still no"):
        desk.caller().call(REQUEST, keep=keep)
    assert all(settled.facts is None for settled in desk.settled)


def test_the_corrections_of_a_call_are_bounded_and_each_must_change_it() -> None:
    desk = Desk([refused(max_output=15_000 - number) for number in range(20)])
    with pytest.raises(ItemFailed, match="refused the request"):
        desk.caller().call(REQUEST, keep=keep)
    assert len(desk.asked) == CORRECTIONS_MOST + 1
    same = Desk([refused(max_output=8_192), refused(max_output=8_192)])
    with pytest.raises(ItemFailed, match="refused the request"):
        same.caller().call(REQUEST, keep=keep)
    assert len(same.asked) == 2


def test_room_in_a_context_is_for_this_call_and_the_context_for_the_next() -> None:
    shape = RequestShape(REQUEST, UNKNOWN, larger=False)
    assert shape.change(refused(context=8_192, prompt=1_064))
    assert shape.request.max_output_tokens <= 8_192 - 1_064 - 64
    assert shape.facts.context == 8_192


def test_a_cut_reply_is_paid_for_and_asked_for_once_more() -> None:
    desk = Desk([cut(), REPLY, REPLY])
    caller = desk.caller()
    assert caller.call(REQUEST, keep=keep).tries == 1
    assert desk.limits == [USUAL_OUTPUT, LARGER_OUTPUT]
    first = desk.settled[0]
    assert (first.error, first.tokens_out, first.served) == (CallError.CUT_OFF, 30, "m-1")
    # The item's later calls of this role begin with the larger limit, so they are paid for once.
    caller.call(REQUEST, keep=keep)
    assert desk.limits[-1] == LARGER_OUTPUT


@pytest.mark.parametrize(
    ("answers", "limits", "at"),
    [
        ([cut(), cut()], [USUAL_OUTPUT, LARGER_OUTPUT], "64,000"),
        ([cut(), refused(max_output=USUAL_OUTPUT)], [USUAL_OUTPUT, LARGER_OUTPUT], "16,000"),
        ([cut(), ProviderError(CallError.BAD_REQUEST, "no")], [USUAL_OUTPUT, LARGER_OUTPUT], "16,000"),
        ([cut(), refused(max_output=20_000), cut()], [USUAL_OUTPUT, LARGER_OUTPUT, 20_000], "20,000"),
    ],
)
def test_then_it_fails(answers: list[Reply | Exception], limits: list[int], at: str) -> None:
    desk = Desk(list(answers))
    with pytest.raises(ItemFailed, match=rf"cut at {at} tokens; set max_output_tokens in \[roles.drafter\]"):
        desk.caller().call(REQUEST, keep=keep)
    assert desk.limits == limits


def test_a_limit_that_the_user_set_or_that_is_the_largest_is_not_raised() -> None:
    for request, facts in (
        (
            ModelRequest(role="drafter", model="m", number=1, system="", prompt="", max_output_tokens=500),
            UNKNOWN,
        ),
        (REQUEST, ModelFacts(max_output=8_192)),
    ):
        desk = Desk([cut()])
        with pytest.raises(ItemFailed, match="was cut at"):
            desk.caller(m=facts).call(request, keep=keep)
        assert len(desk.asked) == 1


def test_another_failure_after_a_cut_is_told_as_what_it_is() -> None:
    desk = Desk([cut(), ProviderError(CallError.TRANSIENT, "the connection failed")])
    with pytest.raises(ItemFailed, match=r"gave no reply in 1 try .*the connection failed"):
        desk.caller().call(REQUEST, keep=keep)


def test_a_program_has_its_own_limit() -> None:
    desk = Desk([CutReply(CUT, fixed=True)])
    with pytest.raises(ItemFailed, match="cut at the program's limit"):
        desk.caller().call(REQUEST, keep=keep)


def test_a_call_outside_of_a_run_is_corrected_too() -> None:
    desk = Desk([refused(limit_name="max_completion_tokens"), cut()])
    reply = corrected_call(desk, REQUEST, secret=Secret("key-1", "s"), cancel=Cancel())
    assert (reply.model, reply.tokens_out) == ("m-1", 30)
    assert desk.asked[-1].facts.limit_name == "max_completion_tokens"
