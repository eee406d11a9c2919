"""What a provider is to the rest: a request in, a reply or a classified error out. Worker process."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from agentos.errors import AgentosError, StopRequested
from agentos.model import CallError
from agentos.secret import Secret

Role = Literal["drafter", "reviewer"]


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """One call as the workflow wants it; says nothing about keys."""

    role: Role
    model: str  # without the provider's name
    number: int  # the how-manieth call of this role for this item, from 1
    system: str
    prompt: str
    schema: dict[str, Any] | None = None  # JSON schema of the reply, where structured output is wanted
    max_output_tokens: int = 16_000


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What came back, whole."""

    text: str
    model: str  # the model that served it, by its own word
    tokens_in: int
    tokens_out: int
    headers: dict[str, str] = field(default_factory=dict)  # rate limit headers, lower case


class ProviderError(AgentosError):
    """A call that gave no usable reply, classified."""

    def __init__(
        self,
        error_class: CallError,
        message: str,
        *,
        retry_after: float | None = None,
        quota_reset: float | None = None,
        headers: dict[str, str] | None = None,
        tokens: tuple[int, int] = (0, 0),
    ) -> None:
        super().__init__(message)
        self.error_class = error_class
        self.retry_after = retry_after  # seconds, by the server's word
        self.quota_reset = quota_reset  # seconds until a used up quota is there again
        self.headers = headers or {}
        self.tokens = tokens  # in and out: an answer that cannot be used is paid for all the same


class RefusedReply(ProviderError):  # noqa: N818 - read as what it is
    """The server's answer holds one of our secrets: nothing of it is kept, and it is not asked again."""

    def __init__(self, secret: str, *, tokens: tuple[int, int]) -> None:
        # No key is to blame, as with other answers that cannot be used.
        super().__init__(
            CallError.TRANSIENT,
            f"the server's answer contains the key {secret}; it was refused",
            tokens=tokens,
        )


class Cancel:
    """Set once when the worker must stop; every wait ends at once."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._set = False
        self._listeners: list[Callable[[], None]] = []

    def set(self) -> None:
        with self._changed:
            self._set = True
            self._changed.notify_all()
            for tell in self._listeners:
                tell()

    def on_set(self, tell: Callable[[], None]) -> None:
        """Have one more told of the stop, at once if it has come already."""
        with self._changed:
            self._listeners.append(tell)
            if self._set:
                tell()

    def wake(self) -> None:
        """Let those who wait look again at what they wait for."""
        with self._changed:
            self._changed.notify_all()

    def wait(self, ready: Callable[[], bool], seconds: float | None) -> None:
        """Wait until it is ready or the time is over; raise StopRequested if the stop comes first."""
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
