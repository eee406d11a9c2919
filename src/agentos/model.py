"""The product's basic terms as frozen values. Pure."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Literal

from agentos.errors import UsageError

MAX_ID_LENGTH = 64
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_DEVICE_NAMES = frozenset(
    {"con", "prn", "aux", "nul"} | {f"com{n}" for n in range(10)} | {f"lpt{n}" for n in range(10)}
)


class Status(StrEnum):
    """The status of an item at the end of a run."""

    APPROVED = "approved"  # reviewed, approved, saved or filed
    NEEDS_REVISION = "needs_revision"  # the loop ended without an approval
    DISCUSS = "discuss"  # a person must decide
    FAILED = "failed"  # could not continue
    TIMED_OUT = "timed_out"  # hung past its time limit and was killed
    INTERRUPTED = "interrupted"  # stopped by a person or --run-timeout; resumes
    PAUSED = "paused"  # stopped for quota or budget; resumes
    PENDING = "pending"  # never started in this run
    SKIPPED = "skipped"  # nothing to do


LimitName = Literal["rpm", "rpd", "tpm", "itpm", "otpm"]  # requests or tokens, a minute or a day


class CallError(StrEnum):
    """Why a call gave no result, and so what to do about it."""

    RATE_LIMITED = "rate_limited"  # this key (its quota group) must wait; another can be tried immediately
    QUOTA_EXHAUSTED = "quota_exhausted"  # this key must wait until its quota resets
    CAPACITY = "capacity"  # the provider is overloaded; no key is to blame
    KEY_REJECTED = "key_rejected"  # this key is not valid; it stays disabled until a person enables it
    BAD_REQUEST = "bad_request"  # the request is refused, perhaps every other one too; a retry cannot help
    DECLINED = "declined"  # refused for what this prompt says, or for its length; a retry cannot help
    CORRECTED = "corrected"  # refused, but the server said what to change; made again, costs no try
    CUT_OFF = "cut_off"  # answered, but cut at the output limit; the same request would be cut again
    TRANSIENT = "transient"  # network, timeout, garbled answer; a retry may help
    DROPPED = "dropped"  # the connection was closed before any reply; a retry may help
    UNREACHABLE = "unreachable"  # no connection to the provider, so nothing was sent; not a try of the item
    NO_CREDIT = "no_credit"  # this key's account is out of credit; waiting does not help
    NO_MODEL = "no_model"  # the provider does not have the model, or not for this account
    FORBIDDEN = "forbidden"  # this account, project or place may not use the API; the key itself is valid
    WRONG_ENDPOINT = "wrong_endpoint"  # the server does not serve this provider's API at this address
    UNTRUSTED = "untrusted"  # the server's certificate is not trusted; nothing was sent
    PROXY_REFUSED = "proxy_refused"  # the proxy wants a login, or does not allow the server
    OTHER_MODEL = "other_model"  # answered, but by another model than requested; the answer is discarded
    UNREADABLE = "unreadable"  # perhaps answered, but nobody can read what; counts as paid for
    GIVEN_UP = "given_up"  # the worker was asked to stop, or its item failed, before an answer came
    WORKER_GONE = "worker_gone"  # the worker died during the call


# The server understood the request and refuses it.
REFUSED_REQUEST = frozenset({CallError.BAD_REQUEST, CallError.DECLINED})
# What one account may not use, another may: these are about the key that made the call.
OF_ACCOUNT = frozenset({CallError.NO_MODEL, CallError.FORBIDDEN})
# Paid for, whatever became of the answer.
ANSWERED = frozenset({None, CallError.OTHER_MODEL, CallError.UNREADABLE})
# Errors of the configuration: every other item would get the same one.
SAME_FOR_ALL = frozenset(
    {
        CallError.NO_MODEL,
        CallError.FORBIDDEN,
        CallError.WRONG_ENDPOINT,
        CallError.UNTRUSTED,
        CallError.PROXY_REFUSED,
    }
)


@dataclass(frozen=True, kw_only=True)
class Usage:
    """The tokens of one call, as its server counted them."""

    tokens_in: int = 0  # all that was sent, including what came from a cache or went into one
    tokens_out: int = 0  # all that was written, including reasoning
    tokens_cached: int = 0  # the part of tokens_in that was read from a cache
    tokens_cache_written: int = 0  # the part of tokens_in that was written to a cache
    tokens_reasoning: int = 0  # the part of tokens_out that is not in the reply
    tokens_exempt: int = 0  # the part of tokens_in that the provider's token limits do not count

    def counts(self) -> dict[str, Any]:
        """Only these fields, also of a class that has more."""
        return {one.name: getattr(self, one.name) for one in fields(Usage)}


def check_id(text: str) -> str:
    """Return the item id, or refuse it by name before any work."""
    if len(text) > MAX_ID_LENGTH:
        raise UsageError(
            f"Item id {text[:20]!r}... is too long ({len(text)} characters; the limit is {MAX_ID_LENGTH})."
        )
    if not _ID.fullmatch(text):
        raise UsageError(
            f"Item id {text!r} is not valid: use letters, digits, '_' and '-' only, not starting with '-'."
        )
    if text.lower() in _DEVICE_NAMES:
        raise UsageError(f"Item id {text!r} is a Windows device name. Choose another name.")
    return text


def check_distinct(ids: Iterable[str]) -> None:
    """Refuse ids that differ only in case: on some file systems they share one file."""
    seen: dict[str, str] = {}
    for one in ids:
        other = seen.setdefault(one.lower(), one)
        if other != one:
            raise UsageError(f"Item ids {other!r} and {one!r} differ only in case. Rename one of them.")


def available(names: Sequence[str], *, none: str, most: int = 10) -> str:
    """The end of a message about a name that does not exist: the names that do; `none` if there are none."""
    if not names:
        return none
    return f"Available: {', '.join(names[:most])}{', ...' if len(names) > most else '.'}"


def counted(number: int, noun: str) -> str:
    """`1 review`, `2 reviews`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


@dataclass(frozen=True, kw_only=True)
class Item:
    """One brief or issue to process."""

    workflow: str  # "lld"
    id: str  # "42"
    label: str  # "LLD-42"
    title: str
    text: str
    source: str  # where it came from, as shown to a person
    problem: str | None = None  # why it cannot run, if it cannot
    remote: bool = False  # from GitHub, where anyone may have written it
    by_mock: bool = False  # written by the mock and not changed since
    old_hash: str = ""  # of the text including its stamp, as version 1 computed it
    labels: tuple[str, ...] = ()  # as given by its source
    context: tuple[str, ...] = ()  # files and folders of the repo that its front matter names
    whole: str = ""  # the text with what its source hides from people; empty if that is the same
    whole_hash: str = ""  # of the text before secrets were taken out of it, on the way to a worker

    @property
    def input_hash(self) -> str:
        return self.whole_hash or hashlib.sha256(self.as_written.encode()).hexdigest()

    @property
    def as_written(self) -> str:
        """The text as its source has it: for its hash, for the records and for the mock's script."""
        return self.whole or self.text

    def is_input(self, digest: str) -> bool:
        """Whether a hash is of this text, also as version 1 computed it."""
        return digest in {self.input_hash, self.old_hash or self.input_hash}
