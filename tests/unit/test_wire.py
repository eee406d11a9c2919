"""The wire: messages come out as they went in, and nothing else comes through."""

import contextlib
import json
import math
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.audit_record import CallRecord, OwnRecord, VerdictRecord, plain_fields
from agentos.decisions import Decision
from agentos.frames import (
    MAX_MESSAGE_BYTES,
    MAX_WORKER_BYTES,
    FrameReader,
    encode,
    read_for_coordinator,
    read_for_worker,
)
from agentos.model import CallError
from agentos.repo_map.parts import Part, PartKind, RepositoryMap
from agentos.secret import Secret
from agentos.wire import (
    Audit,
    Beat,
    CallSettled,
    Drain,
    Ended,
    Hello,
    ItemData,
    Job,
    Kept,
    LeaseGranted,
    LeaseRefused,
    LeaseWanted,
    Message,
    NodeEnded,
    NodeStarted,
    PaidBefore,
    ProtocolError,
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
    decisions=(Decision(id=3, question="Q?", text="less", answer="revise", reviews=2, at="2026", used=True),),
    repository=RepositoryMap(
        shared=(Part(kind=PartKind.TREE, path=".", text="src/\n", why="the tree"),), files=("src/a.py",)
    ),
    rules="R1",
    fence_secret="0f",
)
CALL = {
    "kind": "call",
    "role": "drafter",
    "number": 1,
    "model": "openai:x",
    "tokens_in": 5,
    "tokens_out": 6,
    "life": "a",
}
TO_WORKER: list[Message] = [
    JOB,
    LeaseGranted(number=1, lease=7, key="key-1", secret=Secret("key-1", "sk-12345678")),
    LeaseRefused(number=1, reason="no key"),
    Drain(reason="interrupted"),
]
TO_COORDINATOR: list[Message] = [
    Hello(pid=1, resumed=True),
    NodeStarted(node="draft", reviews=2),
    NodeEnded(node="draft", seconds=1.5),
    LeaseWanted(number=1, provider="openai", model="gpt-5", tokens=100),
    CallSettled(lease=7, seconds=1.0, error=CallError.RATE_LIMITED, retry_after=2.5, headers={"a": "b"}),
    CallSettled(lease=8, seconds=1.0, tokens_in=5, kept=Kept(journal_id="a", number=1)),
    Beat(),
    Audit(record=OwnRecord(kind="own", fields={"nested": {"list": [1, 2.5, None, True, "x"]}})),
    Audit(record=VerdictRecord(kind="verdict", review=1, verdict="APPROVED")),
    PaidBefore(record=CallRecord.model_validate(CALL)),
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
    leased = LeaseGranted(number=1, lease=7, key="key-1", secret=Secret("key-1", "sk-12345678"))
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
    assert frames(encode(Audit(record=OwnRecord(kind="own", fields=plain_fields({"text": text})))))


# Numbers and texts from outside.

NONSENSE: dict[str, dict[str, Any]] = {
    "usage beyond any database": {"type": "settled", "lease": 1, "seconds": 1.0, "tokens_in": 10**19},
    "usage below nothing": {"type": "settled", "lease": 1, "seconds": 1.0, "tokens_out": -1},
    "usage of a part": {"type": "settled", "lease": 1, "seconds": 1.0, "tokens_out": 1.5},
    "usage as text": {"type": "settled", "lease": 1, "seconds": 1.0, "tokens_out": "12"},
    "usage as a truth": {"type": "settled", "lease": 1, "seconds": 1.0, "tokens_out": True},
    "no number of seconds": {"type": "settled", "lease": 1, "seconds": float("nan")},
    "endless seconds": {"type": "node_ended", "node": "x", "seconds": float("inf")},
    "seconds below nothing": {"type": "waiting", "seconds": -1.0, "reason": "x"},
    "a delay beyond all": {"type": "settled", "lease": 1, "seconds": 1.0, "retry_after": 1e30},
    "too many reviews": {"type": "node_started", "node": "x", "reviews": 10**30},
    "reviews of an ending": {"type": "ended", "status": "approved", "reviews": 10**30},
    "a record that is none": {"type": "audit", "record": {"a": 1}},
    "a record of the coordinator's own": {"type": "audit", "record": {"kind": "failed_call"}},
    "a call without its fields": {"type": "audit", "record": {"kind": "call"}},
    "a call of 10**19 tokens": {"type": "paid_before", "record": CALL | {"tokens_in": 10**19}},
    "a call of text": {"type": "paid_before", "record": CALL | {"tokens_in": "5"}},
    "a verdict where a call is due": {
        "type": "paid_before",
        "record": {"kind": "verdict", "review": 1, "verdict": "REVISE"},
    },
    "a verdict of nonsense": {"type": "audit", "record": {"kind": "verdict", "review": [], "verdict": 1}},
    "a record that takes the place of another": {
        "type": "audit",
        "record": {"kind": "own", "run_id": "other", "item": "99"},
    },
    "a number in a record beyond any database": {
        "type": "audit",
        "record": {"kind": "own", "fields": {"a": 10**30}},
    },
    "a record without end": {"type": "audit", "record": {"kind": "own", "fields": {"a": "x" * 1_000_000}}},
}


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_of_a_worker_is_a_protocol_error_that_repeats_nothing(name: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        read_for_coordinator(json.dumps(NONSENSE[name]).encode())
    assert len(str(caught.value)) < 400
    assert str(10**19) not in str(caught.value)


def test_texts_that_are_too_long_are_cut() -> None:
    long = "x" * 1_000_000
    ended = Ended(status="failed", error=long, verdict=long, output=long)
    assert len(encode(ended)) < 10_000
    settled = CallSettled(
        lease=1, seconds=1.0, served=long, message=long, headers={str(n): long for n in range(999)}
    )
    assert len(encode(settled)) < 20_000


SIXTY_FOUR = 2**63 - 1


def bounded(value: Any) -> bool:
    """Whether a database and JSON have a place for all of it."""
    if isinstance(value, dict):
        return all(isinstance(name, str) and bounded(one) for name, one in value.items())
    if isinstance(value, list | tuple):
        return all(map(bounded, value))
    if isinstance(value, bool | str) or value is None:
        return True
    if isinstance(value, int):
        return -SIXTY_FOUR <= value <= SIXTY_FOUR
    return isinstance(value, float) and math.isfinite(value)


NUMBERS = st.integers() | st.floats() | st.sampled_from([10**19, -(10**19), 2**63, 10**400, float("nan")])
ODD = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
WELL = {type(one): json.loads(encode(one)[4:]) for one in TO_COORDINATOR}


@STEADY
@given(data=st.data(), well=st.sampled_from(list(WELL.values())))
def test_what_comes_through_fits_whatever_is_put_in(data: st.DataObject, well: dict[str, Any]) -> None:
    spoilt = dict(well)
    for name in data.draw(st.lists(st.sampled_from(sorted(well)), max_size=3)):
        inner = spoilt[name]
        if isinstance(inner, dict) and inner and data.draw(st.booleans()):
            spoilt[name] = inner | {data.draw(st.sampled_from(sorted(inner))): data.draw(ODD)}
        else:
            spoilt[name] = data.draw(ODD)
    with contextlib.suppress(ProtocolError):
        message = read_for_coordinator(json.dumps(spoilt).encode())
        assert bounded(message.model_dump())
        assert len(encode(message)) < MAX_WORKER_BYTES


class Odd:
    def __repr__(self) -> str:
        raise RuntimeError


@STEADY
@given(
    st.dictionaries(
        st.text(max_size=5) | st.integers(),
        st.recursive(
            ODD | st.binary(max_size=9) | st.builds(Odd) | st.sets(st.integers(), max_size=3),
            lambda inner: st.lists(inner, max_size=3) | st.tuples(inner),
            max_leaves=8,
        ),
        max_size=5,
    )
)
def test_a_graphs_own_fields_become_json_of_bounded_size(fields: dict[Any, Any]) -> None:
    plain = plain_fields(fields)
    assert bounded(plain)
    assert plain_fields(plain) == plain
    record = OwnRecord(kind="own", fields=plain)
    (frame_,) = frames(encode(Audit(record=record)))
    assert read_for_coordinator(frame_) == Audit(record=record)


def test_fields_without_end_are_cut() -> None:
    endless: list[Any] = []
    endless.append(endless)
    plain = plain_fields({"a": endless, "b": "x" * 10**6, "c": list(range(10**6)), "d": "\U0001f600" * 10**6})
    assert len(json.dumps(plain, ensure_ascii=False).encode()) < 300_000
    assert plain_fields(plain) == plain
