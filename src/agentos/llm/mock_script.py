r"""Reads the comment in an item's text that scripts the mock: `<!-- mock: verdicts=REVISE latency=1 -->`.

Words are separated by blanks; a value with blanks is in double quotes, with `\"` and `\\` as escapes.
"""

import re
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

from agentos.errors import ItemFailed

Verdict = Literal["APPROVED", "REVISE", "DISCUSS"]
Garbage = Literal["truncated", "empty", "spoof", "html"]

LONGEST_SECONDS = 1_000_000.0  # far more than any test needs, far less than a timer refuses
_START = re.compile(r"<!--\s*mock:")
_WORD = re.compile(
    r'\s*(?P<name>[^\s="]+)(?:(?P<given>=)(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s"]*)))?(?=\s|\Z)',
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:x(?P<byte>[0-9a-fA-F]{2})|(?P<letter>.)|\Z)|(?P<text>[^\\]+)", re.DOTALL)
_LETTERS = {
    "n": b"\n",
    "t": b"\t",
    "r": b"\r",
    "e": b"\x1b",
    "a": b"\a",
    "b": b"\b",
    "0": b"\0",
    "\\": b"\\",
    '"': b'"',
}


@dataclass(frozen=True, kw_only=True)
class Script:
    """What the mock does for one item."""

    verdicts: tuple[Verdict, ...] = ("APPROVED",)  # one per review; the last repeats
    latency: float = 0.0  # seconds per call
    fail: str | None = None  # the workflow fails with this message
    hang: float | None = None  # seconds the first draft sleeps, ignoring any stop
    crash: signal.Signals | None = None  # the worker sends itself this signal
    say: bytes | None = None  # printed
    sh: str | None = None  # run by a shell
    refuse_first: int = 0  # calls that are refused before the first is served
    garbage: Garbage | None = None  # what every reply is instead of a review
    gate: int = 0  # drafts that are missing a required section
    chat: bool = False  # every reply is wrapped in thinking, a greeting and a fence
    stuck: bool = False  # findings are the same in every round, and stay open
    regress: int = 0  # the review in which findings that were resolved come back
    question: str | None = None  # asked in every review, without DISCUSS
    look: tuple[str, ...] = ()  # what the first look of each role wishes to read
    files: tuple[str, ...] = ()  # files a design also changes, so that designs can overlap


def parse_script(text: str) -> Script:
    """Read the first mock comment of an item's text; without one the mock approves the first draft."""
    start = _START.search(text)
    if start is None:
        return Script()
    end = text.find("-->", start.end())
    if end < 0:
        raise ItemFailed("the mock comment has no closing '-->'")
    given: dict[str, Any] = {}
    for name, value in _words(text[start.end() : end]):
        field, read = _READERS.get(name, (name, None))
        if read is None:
            raise ItemFailed(f"the mock does not know {_shown(name)}; it knows {', '.join(_READERS)}")
        if field in given:
            raise ItemFailed(f"the mock comment has {name} twice")
        given[field] = read(name, value)
    return Script(**given)


def _words(body: str) -> Iterator[tuple[str, str | None]]:
    """Split into names and raw values; the meaning of a backslash differs by key."""
    at, body = 0, body.rstrip()
    while at < len(body):
        word = _WORD.match(body, at)
        if word is None:
            raise ItemFailed(f"the mock comment cannot be read at {_shown(body[at:].strip())}")
        quoted, plain = word["quoted"], word["plain"]
        yield word["name"], (quoted if quoted is not None else plain) if word["given"] else None
        at = word.end()


def _value(name: str, value: str | None) -> str:
    if not value:
        raise ItemFailed(f"the mock's {name} needs a value: {name}=...")
    return value


def _text(name: str, value: str | None) -> str:
    return re.sub(r'\\(["\\])', r"\1", _value(name, value))


def _bytes(name: str, value: str | None) -> bytes:
    parts = []
    for match in _ESCAPE.finditer(_value(name, value)):
        if match["text"]:
            parts.append(match["text"].encode("utf-8", "surrogatepass"))
        elif match["byte"]:
            parts.append(bytes.fromhex(match["byte"]))
        elif match["letter"] in _LETTERS:
            parts.append(_LETTERS[match["letter"]])
        else:
            raise ItemFailed(f"the mock's {name} has an unknown escape {_shown(match.group())}")
    return b"".join(parts)


def _seconds(name: str, value: str | None) -> float:
    number = _value(name, value)
    if (
        not re.fullmatch(r"[0-9]{1,9}(?:\.[0-9]{1,9})?|\.[0-9]{1,9}", number)
        or float(number) > LONGEST_SECONDS
    ):
        raise ItemFailed(
            f"the mock's {name}={_shown(number)} is not a number of seconds up to {LONGEST_SECONDS:.0f}"
        )
    return float(number)


def _count(name: str, value: str | None) -> int:
    number = _value(name, value)
    if not re.fullmatch(r"[0-9]{1,9}", number):
        raise ItemFailed(f"the mock's {name}={_shown(number)} is not a whole number")
    return int(number)


def _verdicts(name: str, value: str | None) -> tuple[str, ...]:
    words = tuple(_value(name, value).split(","))
    for word in words:
        _one_of(name, word, get_args(Verdict))
    return words


def _files(name: str, value: str | None) -> tuple[str, ...]:
    return tuple(file for file in _text(name, value).split(",") if file)


def _wishes(name: str, value: str | None) -> tuple[str, ...]:
    return tuple(_text(name, value).split())


def _garbage(name: str, value: str | None) -> str:
    return _one_of(name, _value(name, value), get_args(Garbage))


def _signal(name: str, value: str | None) -> signal.Signals:
    return signal.Signals[_one_of(name, _value(name, value), tuple(signal.Signals.__members__))]


def _flag(name: str, value: str | None) -> bool:
    if value is not None:
        raise ItemFailed(f"the mock's {name} takes no value")
    return True


def _one_of(name: str, word: str, known: tuple[str, ...]) -> str:
    if word not in known:
        raise ItemFailed(f"the mock's {name} does not know {_shown(word)}; it knows {', '.join(known)}")
    return word


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}...")


_READERS: dict[str, tuple[str, Callable[[str, str | None], Any]]] = {
    "verdicts": ("verdicts", _verdicts),
    "latency": ("latency", _seconds),
    "fail": ("fail", _text),
    "hang": ("hang", _seconds),
    "crash": ("crash", _signal),
    "say": ("say", _bytes),
    "sh": ("sh", _text),
    "429": ("refuse_first", _count),
    "garbage": ("garbage", _garbage),
    "gate": ("gate", _count),
    "chat": ("chat", _flag),
    "stuck": ("stuck", _flag),
    "regress": ("regress", _count),
    "question": ("question", _text),
    "look": ("look", _wishes),
    "files": ("files", _files),
}
