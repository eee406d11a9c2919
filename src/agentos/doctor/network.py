"""The live checks: a tiny call with each model and key, and one query to GitHub.

Nothing else uses the network but the checks of the database.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agentos.app.connections import connections
from agentos.config import Config
from agentos.doctor.access import GitHubAccess, KeyInUse, models_of
from agentos.doctor.check import Check, State
from agentos.errors import AgentosError, Exit, StopRequested
from agentos.llm.http import incomplete
from agentos.llm.provider import Cancel, ModelRequest, ProviderError, Reply
from agentos.llm.providers import real_provider
from agentos.llm.request_shape import corrected_call
from agentos.model import SAME_FOR_ALL, CallError
from agentos.model_access import Network, RoleOptions, provider_of

CALL_SECONDS = 20.0
GRACE_SECONDS = 2.0  # for a call to stop after it was cancelled
MAX_OUTPUT_TOKENS = 16
MAX_THINKING_TOKENS = 2_048  # the fewest that allow a model to think first
PROMPT = "Answer with the word ok."

_ADVICE: Mapping[CallError, str] = {
    CallError.RATE_LIMITED: "wait a minute, then: agentos doctor --live",
    CallError.QUOTA_EXHAUSTED: "wait until the quota resets, or pay the provider's bill",
    CallError.CAPACITY: "the provider is overloaded; try later: agentos doctor --live",
    CallError.KEY_REJECTED: "create a new key at the provider, then:",
    CallError.BAD_REQUEST: "name a model that this key may use; 'agentos config' shows where it is set",
    CallError.DECLINED: "name a model that answers; 'agentos config' shows where it is set",
    CallError.TRANSIENT: "check the network and base_url, then: agentos doctor --live",
    CallError.DROPPED: "check the network and base_url, then: agentos doctor --live",
    CallError.UNREACHABLE: "check the network and base_url, then: agentos doctor --live",
    CallError.NO_CREDIT: "pay the provider's bill, then: agentos doctor --live",
    CallError.NO_MODEL: "name a model that this key may use; 'agentos config' shows where it is set",
    CallError.FORBIDDEN: "check your account at the provider, then: agentos doctor --live",
    CallError.WRONG_ENDPOINT: "check base_url in your configuration file, then: agentos doctor --live",
    CallError.PROXY_REFUSED: "check proxy under [network] and its login, then: agentos doctor --live",
    CallError.UNTRUSTED: "check base_url and the server's certificate, then: agentos doctor --live",
}
_OF_EVERY_KEY = SAME_FOR_ALL | {CallError.BAD_REQUEST, CallError.DECLINED, CallError.UNREACHABLE}


@dataclass(frozen=True, kw_only=True)
class Called:
    """The result of one call with one key."""

    key: KeyInUse
    model: str
    seconds: float
    reply: Reply | None = None
    error: AgentosError | None = None


@dataclass(frozen=True, kw_only=True)
class _Planned:
    """One call to make: a model with the options of its role, and a key of its provider."""

    key: KeyInUse
    model: str
    options: RoleOptions


def check_calls(config: Config, keys: Sequence[KeyInUse]) -> list[Check]:
    """Call every role's model once with each key of its provider, all at the same time."""
    # Once if both roles have the same model and options.
    pairs = dict.fromkeys((model, config.options(role)) for role, model in models_of(config).items())
    return judge(
        _call_all(
            config,
            [
                _Planned(key=key, model=model, options=options)
                for key in keys
                for model, options in pairs
                if provider_of(model) == key.provider
            ],
        )
    )


def _call_all(config: Config, calls: Sequence[_Planned]) -> list[Called]:
    cancel = Cancel()
    done: dict[int, Called] = {}

    def call(number: int) -> None:
        done[number] = _call(config, calls[number], cancel)

    # Daemon threads: a name server that does not answer must not keep the process alive.
    threads = [threading.Thread(target=call, args=(number,), daemon=True) for number in range(len(calls))]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, began + CALL_SECONDS - time.monotonic()))
    cancel.set()
    for thread in threads:
        thread.join(max(0.0, began + CALL_SECONDS + GRACE_SECONDS - time.monotonic()))
    late = ProviderError(CallError.TRANSIENT, f"no answer within {CALL_SECONDS:.0f} s")
    return [
        done.get(number) or Called(key=one.key, model=one.model, seconds=CALL_SECONDS, error=late)
        for number, one in enumerate(calls)
    ]


def _call(config: Config, planned: _Planned, cancel: Cancel) -> Called:
    key, model, options = planned.key, planned.model, planned.options
    fewest = MAX_OUTPUT_TOKENS if options.reasoning_effort is None else MAX_THINKING_TOKENS
    request = ModelRequest(
        role="drafter",
        model=model.partition(":")[2],
        number=1,
        system="You check a connection.",
        prompt=PROMPT,
        # The user's own limit as a run sends it: would the server take it? The answer is short anyway.
        max_output_tokens=options.max_output_tokens or fewest,
        temperature=options.temperature,
        reasoning_effort=options.reasoning_effort,
    )
    began = time.monotonic()
    reply: Reply | None = None
    error: AgentosError | None = None
    try:
        provider = real_provider(
            key.provider,
            connections(config, [key.provider]).get(key.provider),
            call_timeout=CALL_SECONDS,
            worktree=config.worktree or Path(),
        )
        reply = corrected_call(provider, request, secret=key.secret, cancel=cancel)
    except AgentosError as exc:
        error = exc
    except StopRequested:
        error = ProviderError(CallError.TRANSIENT, f"no answer within {CALL_SECONDS:.0f} s")
    except Exception as exc:  # noqa: BLE001 - in its own thread, where it would be lost
        # Without its text, which may quote a header and so the key.
        error = ProviderError(CallError.TRANSIENT, f"the call failed: {type(exc).__name__}")
    return Called(key=key, model=model, seconds=time.monotonic() - began, reply=reply, error=error)


def judge(calls: Sequence[Called]) -> list[Check]:
    """Turn results into checks. A failed key is only a warning while another works with the same model."""
    checks = [(call, _judged(call)) for call in calls]
    working = {call.model for call, check in checks if check.state is State.OK}
    return [
        replace(check, state=State.WARNING)
        if check.state is State.PROBLEM and call.model in working and _of_key(call)
        else check
        for call, check in checks
    ]


def _of_key(call: Called) -> bool:
    return isinstance(call.error, ProviderError) and call.error.error_class not in _OF_EVERY_KEY


def _judged(call: Called) -> Check:
    name, took = call.key.id, f"{call.seconds:.1f} s"
    if call.reply is not None:
        served = f", served by {call.reply.model}" if call.reply.model else ""
        return Check(section="live", name=name, text=f"{call.model} answered in {took}{served}")
    error = call.error
    if not isinstance(error, ProviderError):
        return Check(section="live", name=name, state=State.PROBLEM, text=str(error), fix="agentos config")
    if str(error).startswith(str(incomplete(""))):
        # A model that thinks first used up the few tokens it was allowed; key and model work.
        return Check(section="live", name=name, text=f"{call.model} answered in {took}, cut short as asked")
    kind = error.error_class
    passing = kind in {CallError.RATE_LIMITED, CallError.CAPACITY}
    of_key = kind in {CallError.KEY_REJECTED, CallError.QUOTA_EXHAUSTED, CallError.NO_CREDIT}
    return Check(
        section="live",
        name=name,
        state=State.WARNING if passing else State.PROBLEM,
        text=f"{call.model}: {kind.value.replace('_', ' ')}: {error}",
        fix=f"{_ADVICE[kind]}\n{call.key.renew}" if kind is CallError.KEY_REJECTED else _ADVICE[kind],
        exit_code=Exit.NO_KEY if of_key else Exit.USAGE,
    )


def check_github_access(access: GitHubAccess, network: Network) -> list[Check]:
    """Ask GitHub what the token can do in the repository."""
    if access.repository is None or access.token is None:
        return []
    from agentos.github.client import GitHub  # noqa: PLC0415 - an HTTP client

    def check(state: State, text: str, fix: str = "") -> list[Check]:
        return [Check(section="live", name="github", state=state, text=text, fix=fix)]

    try:
        found = GitHub(
            access.repository, access.token, limit=CALL_SECONDS / 2, network=network, sleep=_no_wait
        ).check()
    except AgentosError as exc:
        return check(State.PROBLEM, str(exc), "gh auth login")
    if not found.readable:
        return check(State.PROBLEM, found.problem or "Cannot read from GitHub.", "gh auth login")
    if found.has_issues is False:
        return check(
            State.WARNING,
            f"Issues are disabled in {access.repository}.",
            f"gh repo edit {access.repository.full_name} --enable-issues",
        )
    may = (
        " and can push"
        if found.push
        else "; labels are not set, since it cannot push"
        if found.push is False
        else ""
    )
    return check(State.OK, f"the token reads {access.repository}{may}")


def _no_wait(_seconds: float) -> None:
    """Retry immediately: a person is waiting for the result."""
