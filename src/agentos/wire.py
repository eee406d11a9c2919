"""The messages between coordinator and worker: small JSON objects of a closed schema, each behind its length.

No pickle, no code: what does not fit the schema ends the connection. What a worker sends is typed and bounded
here, once: a worker runs other people's graphs and hears other people's servers.
"""

import json
import struct
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    TypeAdapter,
    ValidationError,
)

from agentos import record as records
from agentos import redact
from agentos.model import CallError
from agentos.record import Count, JournalId, Name, Seconds, Text, Tokens, first_error
from agentos.secret import Secret

MAX_MESSAGE_BYTES = 16_000_000
MAX_WORKER_BYTES = 8_000_000  # of one message of a worker
MESSAGES_MOST = 100_000  # of one worker, in its life
WORKER_BYTES_MOST = 200_000_000  # of them all
T = TypeVar("T")
_LENGTH = struct.Struct(">I")


class ProtocolError(Exception):
    """The other side sent something that is no message."""


class Message(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, serialize_by_alias=True
    )


# From the coordinator to a worker.


class ItemData(Message):
    workflow: str
    id: str
    label: str
    title: str
    text: str
    source: str


class Decision(Message):
    """A person's answer to a DISCUSS; it answers the discussion after that many reviews and no other."""

    reviews: int
    answer: Literal["approve", "revise"]
    note: str = ""
    by: str = ""
    at: str = ""


class NoteData(Message):
    """A person's word about an item; without a text it asks for a review of the document as it is."""

    id: int
    text: str = ""
    by: str = ""
    at: str = ""


class Job(Message):
    """All a worker knows."""

    type: Literal["job"] = "job"
    run_id: str
    attempt: int
    item: ItemData
    worktree: str
    database: str
    drafter: str
    reviewer: str
    templates: dict[str, str] = Field(default_factory=dict)
    context: dict[str, str] = Field(default_factory=dict)  # files of the repo for the drafter, by path
    folders: dict[str, str] = Field(default_factory=dict)
    max_iterations: int
    max_retries: int
    call_timeout: float
    retry_failed: bool = False
    decision: Decision | None = None
    notes: tuple[NoteData, ...] = ()
    revise: bool = False  # the document that is there is the basis of the first draft
    trail: str = ""  # the item's folder in the lineage, if not the usual one
    base_urls: dict[str, str] = Field(default_factory=dict)
    mock_shell: bool = False
    environment: dict[str, str] = Field(default_factory=dict)


def _secret(value: object, key: str) -> Secret:
    if isinstance(value, Secret):
        return value
    if not isinstance(value, str):
        raise ValueError("not a key")  # noqa: TRY004 - what pydantic takes for a wrong value
    return Secret(key, value)


class LeaseGranted(Message):
    """The right to make one call with one key."""

    type: Literal["leased"] = "leased"
    number: int
    lease: int
    key: str
    secret: Annotated[
        Secret,
        PlainValidator(lambda value, info: _secret(value, info.data.get("key", "key"))),
        PlainSerializer(Secret.reveal),  # the one place where a secret is made part of a message
    ]


class LeaseRefused(Message):
    """No key will ever serve this request in this run."""

    type: Literal["lease_refused"] = "lease_refused"
    number: int
    reason: str


class Vetted(Message):
    """Which secret of any worker the texts hold, by its name; none if they hold none."""

    type: Literal["vetted"] = "vetted"
    number: int
    secret: str | None = None


class Drain(Message):
    """Stop at the next chance; a call in flight is given up."""

    type: Literal["drain"] = "drain"
    reason: str


# From a worker to the coordinator.


def _few(headers: Any) -> Any:
    """Keep of a server's headers what can be of use; it may have sent any number."""
    if not isinstance(headers, dict) or not all(isinstance(one, str) for one in headers.values()):
        return headers
    return {
        name[: records.NAME]: value[: records.NAME] for name, value in list(headers.items())[:HEADERS_MOST]
    }


HEADERS_MOST = 50
Headers = Annotated[dict[str, str], BeforeValidator(_few)]


class Hello(Message):
    type: Literal["hello"] = "hello"
    pid: Count
    resumed: bool
    warm: bool = False  # its imports were done before it was forked


class NodeStarted(Message):
    type: Literal["node_started"] = "node_started"
    node: Name
    reviews: Count = 0


class NodeEnded(Message):
    type: Literal["node_ended"] = "node_ended"
    node: Name
    seconds: Seconds


class LeaseWanted(Message):
    type: Literal["lease_wanted"] = "lease_wanted"
    number: Count
    provider: Name
    model: Text  # as the settings name it
    tokens: Tokens
    prompt_tokens: Tokens = 0  # the part of them that is sent
    role: Name = ""
    tries: Count = 0  # how often this call has failed before
    after: Count = 0  # the lease of its last try


class Vet(Message):
    """Texts of a server, before anything is done with them; a worker knows its own keys alone."""

    type: Literal["vet"] = "vet"
    number: Count
    texts: tuple[str, ...]


class Kept(Message):
    """Where the answer of a call stands in its item's journal."""

    journal_id: JournalId
    number: Count
    node: Name = ""
    tries: Count = 1
    prompt_version: Name = ""


class CallSettled(Message):
    """What came of a leased call."""

    type: Literal["settled"] = "settled"
    lease: Count
    seconds: Seconds
    tokens_in: Tokens = 0
    tokens_out: Tokens = 0
    served: Name = ""  # the model, by its own word
    kept: Kept | None = None  # answered, and taken as a result
    error: CallError | None = None
    message: Text = ""
    retry_after: Seconds | None = None
    quota_reset: Seconds | None = None
    headers: Headers = Field(default_factory=dict)


class Beat(Message):
    """The worker is alive, though it has nothing to say."""

    type: Literal["beat"] = "beat"


class Audit(Message):
    """One record of the item's audit trail."""

    type: Literal["audit"] = "audit"
    record: records.Audited


class PaidBefore(Message):
    """The journal's record of a call made by an earlier process; it may have been heard, or not."""

    type: Literal["paid_before"] = "paid_before"
    record: records.CallRecord


class Ended(Message):
    """The worker's last word on its item."""

    type: Literal["ended"] = "ended"
    status: Literal["approved", "needs_revision", "discuss", "failed", "interrupted"]
    verdict: Name | None = None
    reviews: Count = 0
    output: Text | None = None
    error: Text | None = None
    noted: Count | None = None  # the latest of a person's notes that the models were told; None is all


ToWorker = Annotated[Job | LeaseGranted | LeaseRefused | Vetted | Drain, Field(discriminator="type")]
ToCoordinator = Annotated[
    Hello | NodeStarted | NodeEnded | LeaseWanted | Vet | CallSettled | Beat | Audit | PaidBefore | Ended,
    Field(discriminator="type"),
]
_TO_WORKER: TypeAdapter[ToWorker] = TypeAdapter(ToWorker)
_TO_COORDINATOR: TypeAdapter[ToCoordinator] = TypeAdapter(ToCoordinator)


def encode(message: Message) -> bytes:
    try:
        data = message.model_dump_json().encode()
    except ValueError:
        # Half of a surrogate pair, from a model or a file's name; UTF-8 has no place for it.
        data = json.dumps(message.model_dump(), ensure_ascii=False).encode("utf-8", errors="replace")
    # A lease brings a secret to a worker; a job may bring the user's own for tracing. Nothing else does.
    if not isinstance(message, LeaseGranted):
        data = _without_secrets(data, but="environment" if isinstance(message, Job) else None)
    if len(data) > MAX_MESSAGE_BYTES:
        raise ProtocolError(f"a message of {len(data):,} bytes is too large")
    return _LENGTH.pack(len(data)) + data


def read_for_worker(frame: bytes) -> ToWorker:
    return _validate(_TO_WORKER, frame)


def read_for_coordinator(frame: bytes) -> ToCoordinator:
    message = _validate(_TO_COORDINATOR, frame)
    # Again, for the coordinator knows the secrets of all workers.
    cleaned = frame if isinstance(message, Vet) else _without_secrets(frame)
    return message if cleaned is frame else _validate(_TO_COORDINATOR, cleaned)


def _without_secrets(frame: bytes, *, but: str | None = None) -> bytes:
    """The same JSON with every secret that this process knows taken out of its texts, but for one field."""
    if redact.find(frame.decode("utf-8", errors="replace")) is None:
        return frame
    try:
        told = json.loads(frame)
        cleaned = redact.clean(told)
    except RecursionError:
        raise ProtocolError("not a message: nested too deeply") from None
    return json.dumps(cleaned if but is None else cleaned | {but: told[but]}).encode()


def _validate(adapter: TypeAdapter[T], frame: bytes) -> T:
    try:
        return adapter.validate_json(frame)
    except ValidationError as exc:
        # Says what is wrong, not what was sent: a malformed lease would show its secret.
        raise ProtocolError(f"not a message: {first_error(exc)}"[:300]) from None
    except RecursionError as exc:
        raise ProtocolError("not a message: nested too deeply") from exc


class FrameReader:
    """Cuts a stream of bytes into frames."""

    def __init__(self, most: int = MAX_MESSAGE_BYTES) -> None:
        self._most = most  # bytes of one frame
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        self._buffer += data
        frames: list[bytes] = []
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if length > self._most:
                raise ProtocolError(f"a frame of {length:,} bytes is too large")
            end = _LENGTH.size + length
            if len(self._buffer) < end:
                break
            frames.append(bytes(self._buffer[_LENGTH.size : end]))
            del self._buffer[:end]
        return frames
