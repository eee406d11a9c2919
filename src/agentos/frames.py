"""Messages as bytes: JSON after its length, without the secrets that do not belong in it.

No pickle, no code: whatever does not match the schema of `wire` ends the connection.
"""

import json
import struct
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from agentos import redact
from agentos.audit_record import first_error
from agentos.secret import Secret
from agentos.wire import Job, LeaseGranted, Message, ProtocolError, ToCoordinator, ToWorker, Vet

MAX_MESSAGE_BYTES = 16_000_000
MAX_WORKER_BYTES = 8_000_000  # of one message from a worker
MESSAGES_MOST = 100_000  # from one worker in total
WORKER_BYTES_MOST = 200_000_000  # in all messages of one worker
PRIVATE = ("environment", "providers", "database_url")  # fields of a job that may contain secrets
T = TypeVar("T")
M = TypeVar("M", bound=Message)
_LENGTH = struct.Struct(">I")
_TO_WORKER: TypeAdapter[ToWorker] = TypeAdapter(ToWorker)
_TO_COORDINATOR: TypeAdapter[ToCoordinator] = TypeAdapter(ToCoordinator)


def encode(message: Message) -> bytes:
    try:
        data = message.model_dump_json().encode()
    except ValueError:
        # Half of a surrogate pair, from a model or a file name, cannot be encoded in UTF-8.
        data = json.dumps(message.model_dump(), ensure_ascii=False).encode("utf-8", errors="replace")
    # A lease carries a key to a worker; a job may carry the secrets of headers, a proxy's login and the
    # user's own for tracing.
    if not isinstance(message, LeaseGranted):
        data = _without_secrets(data, but=PRIVATE if isinstance(message, Job) else ())
    if len(data) > MAX_MESSAGE_BYTES:
        raise ProtocolError(f"a message of {len(data):,} bytes is too large")
    return _LENGTH.pack(len(data)) + data


def sealed(message: Message) -> bytes:
    """A message as the database may hold it: without any secret. Whoever takes it adds its own."""
    if isinstance(message, LeaseGranted):
        message = message.model_copy(update={"secret": Secret(message.key, "")})
    if isinstance(message, Job):
        message = message.model_copy(update={"environment": {}, "providers": {}, "database_url": ""})
    return _without_secrets(encode(message)[_LENGTH.size :])


def read_for_worker(frame: bytes) -> ToWorker:
    return _validate(_TO_WORKER, frame)


def read_for_coordinator(frame: bytes) -> ToCoordinator:
    message = _validate(_TO_COORDINATOR, frame)
    # Again, because the coordinator knows the secrets of all workers.
    cleaned = frame if isinstance(message, Vet) else _without_secrets(frame)
    return message if cleaned is frame else _validate(_TO_COORDINATOR, cleaned)


def read_letter(kind: type[M], body: bytes) -> M:
    """Read what a machine says itself."""
    return _validate(TypeAdapter(kind), body)


def _without_secrets(frame: bytes, *, but: tuple[str, ...] = ()) -> bytes:
    """The same JSON without the secrets that this process knows, except in some fields."""
    if redact.find(frame.decode("utf-8", errors="replace")) is None:
        return frame
    try:
        decoded = json.loads(frame)
        cleaned = redact.clean(decoded)
    except RecursionError:
        raise ProtocolError("not a message: nested too deeply") from None
    return json.dumps(cleaned | {name: decoded[name] for name in but} if but else cleaned).encode()


def _validate(adapter: TypeAdapter[T], frame: bytes) -> T:
    try:
        return adapter.validate_json(frame)
    except ValidationError as exc:
        # Say what is wrong, not what was sent: a malformed lease would show its secret.
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
