"""The interface of a provider: a request in, a reply or a classified error out. Worker process."""

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from agentos import redact
from agentos.errors import AgentosError, StopRequested
from agentos.llm.correction import Correction
from agentos.model import CallError, LimitName, Usage
from agentos.model_access import Effort
from agentos.model_facts import UNKNOWN, ModelFacts
from agentos.secret import Secret

Role = Literal["drafter", "reviewer"]
USUAL_OUTPUT = 16_000  # tokens to ask for, unless the user set another number


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """One call as the workflow wants it, without any key.

    What is None is not sent. So a parameter that a server does not know is left out by setting it to None.
    """

    role: Role
    model: str  # without the provider's name
    number: int  # counts every call of the role for the item, from 1, looks as well
    system: str
    prompt: str
    nth: int = 0  # which draft or review of the item this is, from 1
    breaks: tuple[int, ...] = ()  # where in the prompt the part of the run and the part of the item end
    schema: dict[str, Any] | None = None  # JSON schema of a structured reply; its title is its name
    max_output_tokens: int = USUAL_OUTPUT
    temperature: float | None = None
    reasoning_effort: Effort | None = None
    facts: ModelFacts = UNKNOWN  # what is known about requests to the model


def schema_name(schema: Mapping[str, Any]) -> str:
    """The title of a schema as a name that every format accepts."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", str(schema.get("title", "")))[:64] or "reply"


# For formats that want a number of tokens instead of a word.
_THINKING_TOKENS: Mapping[Effort, int] = {"minimal": 1_024, "low": 2_048, "medium": 8_192, "high": 24_576}


def thinking_tokens(request: ModelRequest) -> int | None:
    """The tokens that the effort allows for thinking; at most half, to leave room for the answer."""
    if request.reasoning_effort is None:
        return None
    return min(_THINKING_TOKENS[request.reasoning_effort], request.max_output_tokens // 2)


@dataclass(frozen=True, kw_only=True)
class Reply(Usage):
    """The complete reply, with what it used."""

    text: str
    model: str  # the model that served it, as the server says
    headers: dict[str, str] = field(default_factory=dict)  # rate limit headers, lower case


class ProviderError(AgentosError):
    """A call without a usable reply, classified."""

    def __init__(
        self,
        error_class: CallError,
        message: str,
        *,
        retry_after: float | None = None,
        quota_reset: float | None = None,
        headers: dict[str, str] | None = None,
        limits: Mapping[LimitName, float] | None = None,
        usage: Usage | None = None,
        correction: Correction | None = None,
    ) -> None:
        super().__init__(redact.hide_parts(message))  # a server may quote a part of the key
        self.error_class = error_class
        self.retry_after = retry_after  # seconds, as the server says
        self.quota_reset = quota_reset  # seconds until a used-up quota resets
        self.headers = headers or {}
        self.limits = dict(limits or {})  # that the refusal names
        self.correction = correction  # what the server said about the request
        self.usage = usage or Usage()  # an answer that cannot be used is paid for anyway


class RefusedReply(ProviderError):  # noqa: N818 - the name says what happened
    """The server's answer contains one of our secrets: none of it is kept, and the call is not retried."""

    def __init__(self, secret: str, *, usage: Usage) -> None:
        # As with other unusable answers, no key is blamed.
        super().__init__(
            CallError.TRANSIENT, f"the server's reply contains the key {secret}; it was refused", usage=usage
        )


class CutReply(ProviderError):  # noqa: N818 - the name says what happened
    """The reply reached the output limit."""

    def __init__(self, usage: Usage, *, model: str = "", fixed: bool = False) -> None:
        super().__init__(CallError.CUT_OFF, "the reply was cut at the output limit", usage=usage)
        self.model = model  # the model that served it, as the server says
        self.fixed = fixed  # the limit cannot be changed by the request


class Cancel:
    """Set once when the worker must stop; every wait ends immediately."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._set = False
        self._listeners: list[Callable[[], None]] = []

    def set(self) -> None:
        with self._changed:
            self._set = True
            self._changed.notify_all()
            for listener in self._listeners:
                listener()

    def on_set(self, listener: Callable[[], None]) -> None:
        """Add a listener for the stop; it is called immediately if the stop has come already."""
        with self._changed:
            self._listeners.append(listener)
            if self._set:
                listener()

    def wake(self) -> None:
        """Make every waiting thread check its condition again."""
        with self._changed:
            self._changed.notify_all()

    def wait(self, ready: Callable[[], bool], seconds: float | None) -> None:
        """Wait until it is ready or time is up; raise StopRequested if the stop comes first."""
        with self._changed:
            self._changed.wait_for(lambda: self._set or ready(), seconds)
            if self._set and not ready():
                raise StopRequested

    def sleep(self, seconds: float) -> None:
        """Wait, or raise StopRequested as soon as the stop comes."""
        self.wait(lambda: False, seconds)


class Provider(Protocol):
    """Makes one call with one key; never retries by itself."""

    def call(self, request: ModelRequest, *, secret: Secret, cancel: Cancel) -> Reply: ...
