"""The wire: messages come out as they went in, and nothing else comes through."""

import contextlib
import json
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.secret import Secret
from agentos.wire import (
    MAX_MESSAGE_BYTES,
    Audit,
    Beat,
    Decision,
    Drain,
    Ended,
    FrameReader,
    Hello,
    ItemData,
    Job,
    Leased,
    LeaseRefused,
    LeaseWanted,
    Message,
    NodeEnded,
    NodeStarted,
    PaidBefore,
    ProtocolError,
    Settled,
    Waiting,
    encode,
    read_for_coordinator,
    read_for_worker,
)

STEADY = settings(derandomize=True, database=None, deadline=None)
Read = Callable[[bytes], Message]

ITEM = ItemData(workflow="lld", id="42", label="LLD-42", title="Täst 😀", text="a\nb\0\u2028", source="42.md")
JOB = Job(
    run_id="run-1",
    attempt=1,
    item=ITEM,
    worktree="/repo",
    database="/repo/x.db",
    drafter="mock:d",
    reviewer="mock:r",
    templates={"lld": "# T"},
    folders={"lld": "docs"},
    max_iterations=5,
    max_retries=5,
    call_timeout=600.0,
    decision=Decision(reviews=2, answer="revise", note="less"),
)
TO_WORKER: list[Message] = [
    JOB,
    Leased(number=1, lease=7, key="key-1", secret=Secret("key-1", "sk-12345678")),
    LeaseRefused(number=1, reason="no key"),
    Drain(reason="interrupted"),
]
TO_COORDINATOR: list[Message] = [
    Hello(pid=1, resumed=True),
    NodeStarted(node="draft", reviews=2),
    NodeEnded(node="draft", seconds=1.5),
    LeaseWanted(number=1, provider="openai", model="gpt-5", tokens=100),
    Settled(lease=7, seconds=1.0, error="rate_limited", retry_after=2.5, headers={"a": "b"}),
    Waiting(seconds=10.0, reason="transient"),
    Beat(),
    Audit(record={"kind": "call", "nested": {"list": [1, 2.5, None, True, "x"]}}),
    PaidBefore(record={"kind": "call", "tokens_in": 5}),
    Ended(status="approved", verdict="APPROVED", reviews=1, output="docs/x.md"),
]
WAYS = [(read_for_worker, one) for one in TO_WORKER] + [(read_for_coordinator, one) for one in TO_COORDINATOR]


def frames(data: bytes) -> list[bytes]:
    return FrameReader().feed(data)


def frame(text: str) -> bytes:
    return text.encode()


@pytest.mark.parametrize(("read", "message"), WAYS, ids=lambda one: type(one).__name__)
def test_every_message_comes_out_as_it_went_in(read: Read, message: Message) -> None:
    (one,) = frames(encode(message))
    assert read(one) == message


@pytest.mark.parametrize("message", TO_COORDINATOR, ids=lambda one: type(one).__name__)
def test_a_worker_takes_no_message_meant_for_the_coordinator(message: Message) -> None:
    with pytest.raises(ProtocolError):
        read_for_worker(encode(message)[4:])


@pytest.mark.parametrize("message", TO_WORKER, ids=lambda one: type(one).__name__)
def test_the_coordinator_takes_no_message_meant_for_a_worker(message: Message) -> None:
    with pytest.raises(ProtocolError):
        read_for_coordinator(encode(message)[4:])


GARBAGE = {
    "nothing": "",
    "no JSON": "hello",
    "no object": "[1]",
    "null": "null",
    "no type": '{"pid": 1}',
    "unknown type": '{"type": "shell", "command": "rm"}',
    "type is no text": '{"type": {"a": 1}}',
    "field missing": '{"type": "hello", "pid": 1}',
    "field too many": '{"type": "beat", "more": 1}',
    "field of another type": '{"type": "hello", "pid": "x", "resumed": true}',
    "status unknown": '{"type": "ended", "status": "great"}',
    "status of the coordinator's own": '{"type": "ended", "status": "skipped"}',
    "cut off": '{"type": "hello", "pid": 1, "resumed": tr',
    "two in one": '{"type": "beat"}{"type": "beat"}',
    "nested too deeply": '{"type": "audit", "record": {"a": ' + "[" * 100_000 + "]" * 100_000 + "}}",
    "endless number": '{"type": "hello", "resumed": true, "pid": ' + "9" * 10_000 + "}",
    "half a character": '{"type": "drain", "reason": "\\ud800"',
}


@pytest.mark.parametrize("name", GARBAGE)
@pytest.mark.parametrize("read", [read_for_worker, read_for_coordinator])
def test_what_is_no_message_is_a_protocol_error(read: Read, name: str) -> None:
    with pytest.raises(ProtocolError, match="not a message"):
        read(frame(GARBAGE[name]))


@pytest.mark.parametrize("read", [read_for_worker, read_for_coordinator])
@pytest.mark.parametrize(
    "data", [b"\xff\xfe", b"\0" * 100, b"\x80\x04\x95", b'{"type": "drain", "reason": "\xff"}']
)
def test_bytes_that_are_no_text_are_a_protocol_error(read: Read, data: bytes) -> None:
    with pytest.raises(ProtocolError):
        read(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NAMES = sorted({name for message in TO_WORKER + TO_COORDINATOR for name in type(message).model_fields})
TYPES = [str(one.type) for one in TO_WORKER + TO_COORDINATOR if hasattr(one, "type")]


@STEADY
@given(
    fields=st.dictionaries(st.sampled_from(NAMES), JSON, max_size=6),
    kind=st.sampled_from(TYPES),
    junk=st.binary(max_size=40),
)
def test_garbage_raises_nothing_but_a_protocol_error(fields: dict[str, Any], kind: str, junk: bytes) -> None:
    for data in (json.dumps(fields | {"type": kind}).encode(), junk):
        for read in (read_for_worker, read_for_coordinator):
            with contextlib.suppress(ProtocolError):
                assert isinstance(read(data), Message)


def test_a_message_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        JOB.attempt = 2


# Secrets.


def test_a_lease_does_not_show_its_secret() -> None:
    leased = Leased(number=1, lease=7, key="key-1", secret=Secret("key-1", "sk-12345678"))
    assert "12345678" not in repr(leased)
    assert "12345678" not in str(leased)
    assert leased.secret.reveal() == "sk-12345678"


@pytest.mark.parametrize(
    "text",
    [
        '{"type": "leased", "number": 1, "lease": 7, "key": "key-1", "secret": ["sk-12345678"]}',
        '{"type": "leased", "number": 1, "lease": 7, "secret": "sk-12345678"}',
        '{"type": "leased", "secret": "sk-12345678", "number": 1, "lease": 7, "key": null}',
        '{"secret": "sk-12345678"}',
    ],
)
def test_a_broken_lease_does_not_show_its_secret_either(text: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        read_for_worker(frame(text))
    assert "12345678" not in str(caught.value)


# Frames.


@STEADY
@given(
    messages=st.lists(st.sampled_from(TO_COORDINATOR), max_size=6),
    sizes=st.lists(st.integers(1, 50), min_size=1, max_size=10),
)
def test_any_chunking_of_the_stream_gives_the_same_messages(
    messages: list[Message], sizes: list[int]
) -> None:
    stream = b"".join(map(encode, messages))
    reader, found, at, turn = FrameReader(), [], 0, 0
    while at < len(stream):
        size = sizes[turn % len(sizes)]
        found += reader.feed(stream[at : at + size])
        at, turn = at + size, turn + 1
    assert [read_for_coordinator(one) for one in found] == messages


def test_a_frame_that_is_not_whole_waits() -> None:
    reader = FrameReader()
    data = encode(Beat())
    assert reader.feed(data[:-1]) == []
    assert reader.feed(b"") == []
    assert reader.feed(data[-1:] + data[:2]) == [data[4:]]


def test_an_empty_frame_is_a_frame_but_no_message() -> None:
    (empty,) = frames(struct.pack(">I", 0))
    with pytest.raises(ProtocolError):
        read_for_coordinator(empty)


@pytest.mark.parametrize("length", [MAX_MESSAGE_BYTES + 1, 2**32 - 1])
def test_a_frame_that_is_too_large_is_refused_before_it_is_read(length: int) -> None:
    with pytest.raises(ProtocolError, match="too large"):
        frames(struct.pack(">I", length))


def test_a_message_that_is_too_large_is_not_sent() -> None:
    with pytest.raises(ProtocolError, match="too large"):
        encode(Drain(reason="x" * MAX_MESSAGE_BYTES))


@pytest.mark.parametrize("text", ["half of a pair: \ud83d", "an undecodable byte: \udcff"])
def test_text_that_utf8_cannot_hold_is_sent_all_the_same(text: str) -> None:
    """A model may send half of a pair; the name of a file may be no UTF-8."""
    (one,) = frames(encode(Ended(status="failed", error=text)))
    message = read_for_coordinator(one)
    assert isinstance(message, Ended)
    assert message.error is not None
    assert message.error.startswith(text[:-1])
    assert frames(encode(Audit(record={"text": text})))
