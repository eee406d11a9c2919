"""What a provider is to the rest of the program: a request in, a reply or a classified error out. Worker process."""

import threading
import time
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol

from agentos.errors import AgentosError, StopRequested

Role = Literal["drafter", "reviewer"]


class ErrorClass(StrEnum):
    """Why a call gave no reply, and so what to do about it."""

    RATE_LIMITED = "rate_limited"  # this key (its quota group) must rest; another may be tried at once
    QUOTA_EXHAUSTED = "quota_exhausted"  # this key rests until its quota's reset
    CAPACITY = "capacity"  # the provider is overloaded; no key is to blame
    KEY_REJECTED = "key_rejected"  # this key is not valid; never try it again by itself
    BAD_REQUEST = "bad_request"  # the request itself is refused; trying again cannot help
    TRANSIENT = "transient"  # network, timeout, garbled answer; trying again may help


@dataclass(frozen=True, kw_only=True)
class Request:
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
        error_class: ErrorClass,
        message: str,
        *,
        retry_after: float | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.error_class = error_class
        self.retry_after = retry_after  # seconds, by the server's word
        self.headers = headers or {}


class Cancel:
    """Set once when the worker must stop; waits end at once."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    @property
    def is_set(self) -> bool:
        return self._event.is_set()

    def sleep(self, seconds: float) -> None:
        """Wait, or raise StopRequested as soon as the stop comes."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if self._event.wait(left):
                break
        self.check()

    def check(self) -> None:
        if self._event.is_set():
            raise StopRequested


class Provider(Protocol):
    """Makes one call with one key; never retries by itself."""

    def call(self, request: Request, *, secret: str, cancel: Cancel) -> Reply: ...
