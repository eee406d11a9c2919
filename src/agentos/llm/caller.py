"""Makes one call to a model: gets a lease, calls, settles, and retries within bounds. Worker process."""

import json
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from agentos import redact
from agentos.errors import AgentosError, ItemFailed, OwnFault, StopRequested
from agentos.lease import LeaseNumber
from agentos.llm.clean_reply import CleanReply, clean_reply
from agentos.llm.leaked_secrets import REMOVED, without_secrets
from agentos.llm.provider import Cancel, CutReply, ModelRequest, Provider, ProviderError, RefusedReply, Reply
from agentos.llm.request_shape import RequestShape, prompt_tokens
from agentos.llm.same_model import Sameness, same_model
from agentos.model import OF_ACCOUNT, REFUSED_REQUEST, SAME_FOR_ALL, CallError
from agentos.model_facts import UNKNOWN, ModelFacts
from agentos.secret import Secret
from agentos.wire import CallSettled, Kept, LeaseGranted

SAFETY_TOKENS = 64
# These say nothing about the call itself: the item waits for a key or for the provider, within --max-wait.
_NO_TRY = frozenset(
    {
        CallError.KEY_REJECTED,
        CallError.NO_CREDIT,
        CallError.QUOTA_EXHAUSTED,
        CallError.RATE_LIMITED,
        CallError.UNREACHABLE,
    }
)
PAID_MOST = 2  # answers of one call that are paid for and cannot be used
MODEL_LENGTH = 200  # characters that are kept of a served model's name


@dataclass(frozen=True, kw_only=True)
class LeaseRequest:
    """What a worker needs a lease for."""

    provider: str
    model: str
    role: str
    tokens: int
    prompt_tokens: int
    tries: int = 0  # how many times this call has failed
    after: LeaseNumber = 0  # the lease of its last try; the coordinator knows how long to wait after it


class Leases(Protocol):
    """The coordinator's side of a call, as the worker sees it."""

    def lease(self, ask: LeaseRequest) -> LeaseGranted: ...

    def vet(self, texts: Sequence[str]) -> str | None: ...

    def settle(self, settled: CallSettled) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Made:
    """An answered call, with what is worth keeping about it."""

    reply: Reply
    key: str
    seconds: float
    tries: int
    removed: tuple[str, ...] = ()  # what was wrapped around the reply, and secrets


class Caller:
    """Makes calls to one provider through leases."""

    def __init__(
        self,
        provider_name: str,
        provider: Provider,
        leases: Leases,
        *,
        cancel: Cancel,
        max_retries: int,
        call_timeout: float,
        facts: Mapping[str, ModelFacts] | None = None,
    ) -> None:
        self._name = provider_name
        self._provider = provider
        self._leases = leases
        self._cancel = cancel
        self._max_retries = max_retries
        self._call_timeout = call_timeout
        self._facts = dict(facts or {})  # by provider:model
        self._larger: set[str] = set()  # the roles whose replies do not fit the usual limit

    def call(self, request: ModelRequest, *, keep: Callable[[Made], Kept]) -> Made:
        """Call until there is a reply; `keep` saves it before anything else happens."""
        began = time.monotonic()
        tries = paid = 0
        refusal = ""
        without: set[str] = set()  # keys that have no access to the model
        shaping = RequestShape(request, self._known(request), larger=request.role in self._larger)
        ask = LeaseRequest(
            provider=self._name,
            model=request.model,
            role=request.role,
            tokens=estimate_tokens(request),
            prompt_tokens=prompt_tokens(request),
        )
        while True:
            leased = self._leased(ask, refusal)
            started = time.monotonic()
            try:
                reply = self._within_deadline(shaping.request, leased.secret)
                structured = request.role == "reviewer" or request.schema is not None
                cleaned = _cleaned(reply, review=structured)
            except ProviderError as error:
                seconds = time.monotonic() - started
                changed = shaping.change(error)
                settled = _failed(leased, error, seconds)
                if changed and error.error_class in REFUSED_REQUEST:
                    settled = settled.model_copy(update={"error": CallError.CORRECTED})
                self._leases.settle(settled)
                if not changed:
                    shut_out = error.error_class in OF_ACCOUNT and leased.key not in without
                    without |= {leased.key} if shut_out else set()
                    tries += not shut_out and _is_try(error.error_class, probe=leased.probe)
                    paid += error.usage.tokens_out > 0
                    most = self._max_retries if paid < PAID_MOST else 0
                    self._check_retry(shaping, error, tries, time.monotonic() - began, most=most)
                elif shaping.larger:
                    self._larger.add(request.role)
                refusal = str(error)
                ask = replace(ask, tries=tries, after=leased.lease)
            except (ItemFailed, StopRequested):
                seconds = time.monotonic() - started
                self._leases.settle(
                    CallSettled(lease=leased.lease, seconds=seconds, error=CallError.GIVEN_UP)
                )
                raise
            else:
                seconds = time.monotonic() - started
                reply = replace(reply, text=cleaned.text)
                made = Made(
                    reply=reply, key=leased.key, seconds=seconds, tries=tries + 1, removed=cleaned.removed
                )
                self._settle_reply(shaping, leased, made, keep)
                return made

    def _settle_reply(
        self, shaping: RequestShape, leased: LeaseGranted, made: Made, keep: Callable[[Made], Kept]
    ) -> None:
        """Keep a reply and settle its call. It is paid for, even if it cannot be kept."""
        request, reply = shaping.request, made.reply
        found = self._compared(request, reply)
        as_asked = found is not Sameness.DIFFERENT
        settled = CallSettled(
            lease=leased.lease,
            seconds=made.seconds,
            **reply.counts(),
            served=reply.model,
            error=CallError.UNREADABLE if as_asked else CallError.OTHER_MODEL,
            headers=reply.headers,
            facts=self._learnt(shaping),
            unverified=found is Sameness.UNKNOWN,
        )
        try:
            if as_asked:
                settled = settled.model_copy(update={"kept": keep(made), "error": None})
        finally:
            self._leases.settle(settled)
        if not as_asked:
            accepted = json.dumps(f"{self._name}:{reply.model[:100]}", ensure_ascii=False)
            raise ItemFailed(
                f"reviewer: {self._name}:{request.model} was requested but {reply.model[:100]!r}"
                f" replied, so the review was rejected. Set reviewer = {accepted} to accept it"
            )

    def _compared(self, request: ModelRequest, reply: Reply) -> Sameness:
        """Whether the model asked for has answered. It matters for reviews: they are independent."""
        return same_model(request.model, reply.model) if request.role == "reviewer" else Sameness.SAME

    def _known(self, request: ModelRequest) -> ModelFacts:
        return self._facts.get(f"{self._name}:{request.model}", UNKNOWN)

    def _learnt(self, shaping: RequestShape) -> ModelFacts | None:
        """What this call found out. Only what led to a reply is kept."""
        if shaping.facts == self._known(shaping.request):
            return None
        self._facts[f"{self._name}:{shaping.request.model}"] = shaping.facts
        return shaping.facts

    def _check_retry(
        self, shaping: RequestShape, error: ProviderError, tries: int, elapsed: float, *, most: int
    ) -> None:
        """Fail unless the call may be retried; the coordinator decides when, with the next lease."""
        request = shaping.request
        if shaping.was_cut(error):
            where = f"set max_output_tokens in [roles.{request.role}] of your configuration file"
            if isinstance(error, CutReply) and error.fixed:
                raise ItemFailed(f"{self._name}:{request.model}: the answer was cut at the program's limit")
            raise ItemFailed(
                f"{self._name}:{request.model}: the answer was cut at {shaping.cut_at:,} tokens; {where}"
            ) from None
        if isinstance(error, RefusedReply):
            raise ItemFailed(f"{self._name}:{request.model}: {error}") from None
        if error.error_class is CallError.UNREADABLE:
            raise ItemFailed(str(error)) from None
        if error.error_class is CallError.DECLINED:
            raise self._refused(request.model, str(error)) from None
        # An item that asks again learns whether the whole run stops for the error.
        most = max(1, most) if error.error_class in SAME_FOR_ALL | {CallError.BAD_REQUEST} else most
        if tries > most:
            raise ItemFailed(
                f"{self._name}:{request.model} gave no reply in {_tries(tries)} over {elapsed:.0f} s; "
                f"last error: {error.error_class.value}: {error}"
            ) from None

    def _leased(self, ask: LeaseRequest, refusal: str) -> LeaseGranted:
        try:
            return self._leases.lease(ask)
        except OwnFault:
            raise self._refused(ask.model, refusal) from None

    def _refused(self, model: str, why: str) -> ItemFailed:
        return ItemFailed(f"{self._name}:{model} refused the request: {why}")

    def _within_deadline(self, request: ModelRequest, secret: Secret) -> Reply:
        """Make the call in a thread, so that a stop or a slow server never has to be waited for."""
        box: list[Reply | BaseException] = []

        def run() -> None:
            try:
                box.append(self._provider.call(request, secret=secret, cancel=self._cancel))
            except BaseException as exc:  # noqa: BLE001 - handed to the thread that waits
                box.append(exc)
            self._cancel.wake()

        threading.Thread(target=run, name="llm-call", daemon=True).start()
        self._cancel.wait(lambda: bool(box), self._call_timeout)
        if not box:
            raise ProviderError(CallError.TRANSIENT, f"no reply within {self._call_timeout:.0f} s")
        result = box[0]
        if isinstance(result, BaseException):
            raise self._harmless(result) from None
        # By now, texts that came in parts are complete.
        echoed = self._echoed(result.text, result.model, *map(" ".join, result.headers.items()))
        if echoed is not None:
            raise RefusedReply(echoed, usage=result)
        # Half a surrogate pair cannot be written to a file; a model's name must stay short.
        text = result.text.encode("utf-8", errors="replace").decode()
        return replace(result, text=text, model=result.model[:MODEL_LENGTH])

    def _echoed(self, *texts: str) -> str | None:
        """Name a secret in the texts: one of this worker's, or one that only the coordinator knows."""
        known = (found for text in texts if (found := redact.find(text)) is not None)
        return next(known, None) or (self._leases.vet(texts) if any(texts) else None)

    def _harmless(self, exc: BaseException) -> BaseException:
        """Return an error that a graph, and so its checkpoint, may see: without arguments or a history."""
        exc.__cause__ = exc.__context__ = None
        if isinstance(exc, AgentosError):
            headers = exc.headers if isinstance(exc, ProviderError) else {}
            served = exc.model if isinstance(exc, CutReply) else ""
            if (echoed := self._echoed(str(exc), served, *map(" ".join, headers.items()))) is not None:
                if isinstance(exc, ProviderError) and any(exc.usage.counts().values()):
                    return RefusedReply(echoed, usage=exc.usage)  # an answer, though not a complete one
                exc.args = (f"an error whose text contains the key {echoed}; not shown",)
                headers.clear()
        elif isinstance(exc, Exception):
            # The traceback goes to the item's log, through the coordinator; it may contain the request.
            traceback.print_exception(exc)
            return ProviderError(
                CallError.UNREADABLE, f"{self._name}: unexpected {type(exc).__name__} in a call; see the log"
            )
        return exc


def _cleaned(reply: Reply, *, review: bool) -> CleanReply:
    """The reply without its wrapping and without secrets."""
    cleaned = clean_reply(reply.text, review=review)
    if cleaned.removed and not cleaned.text:
        raise _empty(reply, cleaned)
    safe = without_secrets(cleaned.text)
    return cleaned if safe == cleaned.text else CleanReply(text=safe, removed=(*cleaned.removed, REMOVED))


def _empty(reply: Reply, cleaned: CleanReply) -> ProviderError:
    """Nothing is left: the model was cut off while it was thinking, or said nothing else."""
    return ProviderError(
        CallError.TRANSIENT,
        f"the reply is incomplete: it has nothing but {' and '.join(cleaned.removed)}",
        headers=reply.headers,
        usage=reply,
    )


def _is_try(error: CallError, *, probe: bool) -> bool:
    """Say whether a failed call counts against its item: not if a key, or a provider that is down, failed."""
    if error is CallError.DROPPED:
        return not probe
    return error not in _NO_TRY


def _tries(number: int) -> str:
    return "1 try" if number == 1 else f"{number} tries"


def estimate_tokens(request: ModelRequest) -> int:
    """Estimate how many tokens of a budget the call will use."""
    return prompt_tokens(request) + min(request.max_output_tokens, 4_000) + SAFETY_TOKENS


def _failed(leased: LeaseGranted, error: ProviderError, seconds: float) -> CallSettled:
    return CallSettled(
        lease=leased.lease,
        seconds=seconds,
        **error.usage.counts(),
        error=error.error_class,
        served=error.model[:MODEL_LENGTH] if isinstance(error, CutReply) else "",
        message=str(error)[:500],
        retry_after=error.retry_after,
        quota_reset=error.quota_reset,
        headers=error.headers,
        limits=error.limits,
    )
