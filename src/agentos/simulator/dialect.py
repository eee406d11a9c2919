"""What the three wire formats share: the call they read, and the reply or problem they write."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol

from agentos.simulator.limits import Level, LimitName, Refusal
from agentos.simulator.prefix_cache import CacheUse

Headers = list[tuple[str, str]]
Finish = Literal["stop", "length", "filtered"]
STREAM_PIECES = 6


class ProblemKind(StrEnum):
    """Why a call gets an error instead of a reply."""

    NO_KEY = "no_key"  # no key was sent
    BAD_KEY = "bad_key"  # unknown key
    PAYMENT = "payment"  # the bill is not paid
    FORBIDDEN = "forbidden"  # the key may not do this
    INVALID = "invalid"  # the request is wrong
    NO_MODEL = "no_model"  # the model does not exist
    NOT_FOUND = "not_found"  # the path does not exist
    RATE_LIMITED = "rate_limited"  # a limit is reached; waiting helps
    QUOTA = "quota"  # a limit is reached; waiting does not help
    INTERNAL = "internal"  # 500
    UNAVAILABLE = "unavailable"  # 503
    OVERLOADED = "overloaded"  # 529


@dataclass(frozen=True, kw_only=True)
class Problem:
    kind: ProblemKind
    message: str = ""
    param: str | None = None
    model: str = ""
    secret: str = field(default="", repr=False)
    refusal: Refusal | None = None
    hints: bool = True  # say when to retry


class RefusedCall(Exception):  # noqa: N818 - the client's error, not ours
    """The request is invalid and cannot be served."""

    def __init__(self, kind: ProblemKind, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.param = param


@dataclass(frozen=True, kw_only=True)
class ToolChoice:
    """The tool that the reply calls."""

    name: str
    demanded: bool = False  # the request allows no other tool


@dataclass(frozen=True, kw_only=True)
class SimulatedCall:
    """One request, independent of the format."""

    model: str
    system: str
    prompt: str
    wanted: str = ""  # the name of the reply's schema; empty if the reply is free text
    schema: str = ""  # the tools and the reply's schema, as JSON
    tool: ToolChoice | None = None
    stream: bool = False
    stream_usage: bool = False
    max_tokens: int | None = None
    marks: tuple[int, ...] | None = None  # where the cache is marked in `text`; None: it needs no marks

    @property
    def text(self) -> str:
        """All that is sent, as the cache sees it: a different schema leaves no common start."""
        return f"{self.schema}\n{self.system}\n{self.prompt}"


@dataclass(frozen=True, kw_only=True)
class SimulatedReply:
    """The model's reply to a call."""

    call: SimulatedCall
    text: str
    finish: Finish
    model: str  # the model that is reported as serving
    tokens_in: int
    tokens_out: int
    cache: CacheUse
    id: str  # hexadecimal, looks random
    created: int  # seconds since 1970

    @property
    def limited_tokens(self) -> int:
        """What counts against a token limit: all, but where caching is marked, what was read is free."""
        free = 0 if self.call.marks is None else self.cache.read
        return self.tokens_in + self.tokens_out - free


@dataclass(frozen=True, kw_only=True)
class ErrorAnswer:
    """Status, JSON body and extra headers of an error."""

    status: int
    body: dict[str, Any]
    headers: Headers = field(default_factory=list)


class Dialect(Protocol):
    """One provider's wire format."""

    def too_long(self, call: SimulatedCall, most: int) -> str: ...

    def secret(self, headers: Mapping[str, str], query: Mapping[str, str]) -> str | None: ...

    def read(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> SimulatedCall: ...

    def body(self, reply: SimulatedReply) -> dict[str, Any]: ...

    def stream(self, reply: SimulatedReply) -> Iterator[bytes]: ...

    def answer(self, problem: Problem, request_id: str) -> ErrorAnswer: ...

    def headers(self, levels: Mapping[LimitName, Level], request_id: str, wall: float) -> Headers: ...

    def models(self, names: tuple[str, ...]) -> dict[str, Any]: ...


def bearer(headers: Mapping[str, str]) -> str | None:
    scheme, _, value = headers.get("authorization", "").partition(" ")
    return value.strip() or None if scheme.lower() == "bearer" else None


def count_tokens(text: str) -> int:
    """Estimate by the providers' rule of thumb: four characters per token."""
    return max(1, (len(text) + 3) // 4)


def pieces(text: str) -> list[str]:
    """Split a text into the pieces of a stream."""
    size = max(1, -(-len(text) // STREAM_PIECES))
    return [text[start : start + size] for start in range(0, len(text), size)] or [""]


def as_object(text: str) -> dict[str, Any]:
    """Return the arguments of a tool call; empty if the JSON is cut off."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.3f}"


def text_of(content: Any, where: str) -> str:
    """Return the text of a string or of a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [part.get("text", "") for part in content if isinstance(part, dict)]
        return "\n".join(part for part in parts if isinstance(part, str))
    raise RefusedCall(ProblemKind.INVALID, f"{where} must be text or a list of parts.", where)


def name_of(schema: Any, field: str = "title") -> str:
    """Return the name of a schema; `reply` if it has none."""
    name = schema.get(field) if isinstance(schema, dict) else None
    return name if isinstance(name, str) and name else "reply"


def schema_text(*given: Any) -> str:
    """Return tools and schemas as the text that a provider puts before the system prompt."""
    return "\n".join(json.dumps(one) for one in given if one)


def need_list(body: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return a required, non-empty list of objects."""
    value = body.get(name)
    if not isinstance(value, list) or not value or not all(isinstance(one, dict) for one in value):
        raise RefusedCall(ProblemKind.INVALID, f"{name}: a non-empty list of objects is required.", name)
    return value


def need_text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise RefusedCall(ProblemKind.INVALID, f"{name}: text is required.", name)
    return value


def optional_count(body: Mapping[str, Any], name: str) -> int | None:
    """Return a whole number above 0, or None if it is missing."""
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise RefusedCall(ProblemKind.INVALID, f"{name}: a whole number above 0 is required.", name)
    return value


def objects(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a list; empty if it is not a list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
