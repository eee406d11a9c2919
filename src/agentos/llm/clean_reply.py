"""Removes what a model wraps around its answer: its thinking, a greeting, a fence. Pure.

Models that think aloud, and models behind a chat template, send more than the document. What is inside the
document is never touched: a reply that starts with its title comes back byte for byte.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from agentos.llm.review_chat import greets, may_be_removed, may_judge
from agentos.review import Verdict, read_document

_UNSEEN = "\ufeff\u200b\u2060"  # a byte order mark, or a space without width
_THINKING = re.compile(
    r"(?:^|(?<=\n))\s*<(think|thinking|thoughts?|reasoning)(?: [^<>]{0,200})?>", re.IGNORECASE
)
_OTHER_THINKING = (  # of other chat templates: each whole, or cut off
    re.compile(r"\s*\[THINK\](?:.*?\[/THINK\]|.*\Z)", re.DOTALL),
    re.compile(r"\s*\u25c1think\u25b7(?:.*?\u25c1/think\u25b7|.*\Z)", re.DOTALL),
    re.compile(
        r"\s*(?:<\|start\|>\w{1,20})?<\|channel\|>(?:.*?<\|channel\|>)?final(?: [^<>]{0,100})?<\|message\|>"
        r"|\s*(?:<\|start\|>\w{1,20})?<\|channel\|>(?:analysis|commentary)\b.*\Z",
        re.DOTALL,
    ),
)
_END_OF_TURN = re.compile(r"<\|(?:return|end|im_end|eot_id|endoftext)\|>\s*\Z")
_END_OF_THINKING = re.compile(
    r"^.*</(?:think|thinking|thoughts?|reasoning)>[ \t]*(?:$|(?=[#{]))", re.IGNORECASE | re.MULTILINE
)
_FENCE = re.compile(r" {0,3}(?P<mark>`{3,}|~{3,})[ \t]*(?P<language>[^\s`]*)[^`]*")
_WRAPPERS = frozenset({"", "markdown", "md", "json", "text"})
_MARKDOWN = frozenset({"markdown", "md"})
_TITLE = re.compile(r"# +\S")
_UNDERLINE = re.compile(r" {0,3}=+[ \t]*")  # makes the line above it a title
_FIELD = re.compile(r"\*\*[^*]{1,40}(?::\*\*|\*\*:)")  # as in "**Issue:** #42": a part of the document
_HEADING = re.compile(r" {0,3}#{1,6}(?:\s|$)")
_ONLY_GREETING = re.compile(
    r"(?:sure|certainly|of course|absolutely|okay|ok|got it|understood|no problem)[.! ]{0,5}", re.IGNORECASE
)
_LONGEST_CHAT = 600  # characters around a fence that are taken for chat


@dataclass(frozen=True, kw_only=True)
class CleanReply:
    """A reply without its wrapping; empty if there was nothing else."""

    text: str
    removed: tuple[str, ...] = ()  # what was removed, such as "the model's thinking"


def clean_reply(text: str, *, review: bool) -> CleanReply:
    """Remove the wrapping. Of a review, only a greeting goes: other words may speak against its verdict.

    Any other structured reply is cleaned like a review; no words can speak against it.
    """
    removed: list[str] = []
    seen = text.lstrip(_UNSEEN)
    if seen != text:
        removed.append("invisible characters")
    inner = _without_thinking(seen)
    if inner != seen:
        removed.append("the model's thinking")
    if review and (found := _only_object(inner)) is not None:
        return CleanReply(text=f"{found}\n", removed=(*removed, "the text around the reply"))
    lines = inner.strip().split("\n")
    if (unwrapped := _unfenced(lines, review=review)) is not None:
        lines = unwrapped
        removed.append("the code fence around the reply")
    if (start := _start(lines, review=review)) > 0:
        lines = lines[start:]
        removed.append("the text before the title")
    if not removed:
        return CleanReply(text=text)
    bare = "\n".join(lines).strip()
    return CleanReply(text=f"{bare}\n" if bare else "", removed=tuple(removed))


def _without_thinking(text: str) -> str:
    for pattern in _OTHER_THINKING:
        if (found := pattern.match(text)) is not None:
            text = _END_OF_TURN.sub("", text[found.end() :].lstrip("\n"))
    at = 0
    if (first := _THINKING.search(text)) is not None and _is_chat_before_thinking(text[: first.start()]):
        at = first.start()
    while (opening := _THINKING.match(text, at)) is not None:
        closing = re.compile(f"</{opening[1]}>", re.IGNORECASE).search(text, opening.end())
        if closing is None:
            return ""  # cut off while it was thinking
        at = closing.end()
    text = text[at:].lstrip("\n") if at else text
    # Some chat templates eat the opening tag.
    stray = _END_OF_THINKING.search(text)
    if stray is not None and not text.lstrip().startswith("{"):
        before = text[: stray.end()].split("\n")
        if not any(map(_HEADING.match, before)) and not any(map(_FENCE.fullmatch, before)):
            return text[stray.end() :].lstrip("\n")
    return text


def _is_chat_before_thinking(text: str) -> bool:
    """Whether nothing but chat, such as `Sure!`, comes before the thinking."""
    lines = text.strip().split("\n")
    return (
        _is_chat(lines, review=False)
        and not any(map(_FIELD.match, lines))
        and not text.lstrip().startswith(("{", "---", "<!--", "|", "[!", "!["))
        and not may_judge(text)
    )


def _only_object(text: str) -> str | None:
    """The one JSON object of a reply with chat around it; None if there is no chat, or it may judge."""
    bare = text.strip()
    start = 0 if bare.startswith("{") else bare.find("\n{") + 1
    if not bare.startswith("{", start):
        return None
    try:
        read, end = json.JSONDecoder().raw_decode(bare, start)
    except (ValueError, RecursionError):
        return None
    if not isinstance(read, dict):
        return None
    around = [line for part in (bare[:start], bare[end:]) for line in part.strip().split("\n")]
    chat = [line for line in around if not _FENCE.fullmatch(line)]
    if len(around) - len(chat) not in {0, 2} or not any(map(str.strip, chat)):
        return None  # another fence; or no chat at all, which is read below
    before, after = (_unmarked(part) for part in (bare[:start], bare[end:]))
    usable = _is_chat(chat, review=False) and "{" not in before + after
    judged = "verdict" in read and not may_be_removed(before, after, _verdict_of(read))
    return bare[start:end] if usable and not judged else None


def _verdict_of(read: dict[str, object]) -> Verdict:
    """The verdict that an object names; what is not one of ours is read as an approval, the strictest way."""
    try:
        return Verdict(str(read["verdict"]))
    except ValueError:
        return Verdict.APPROVED


def _unmarked(text: str) -> str:
    """Some text without its fences."""
    return "\n".join(line for line in text.strip().split("\n") if not _FENCE.fullmatch(line))


def _unfenced(lines: Sequence[str], *, review: bool) -> list[str] | None:
    """The lines inside a fence around the whole reply, or around all of it but some chat."""
    at = next((number for number, line in enumerate(lines) if _FENCE.fullmatch(line)), None)
    if at is None or not _is_chat(lines[:at], review=False):
        return None
    opening = _FENCE.fullmatch(lines[at])
    assert opening is not None
    language, rest = opening["language"].lower(), lines[at + 1 :]
    if language not in _WRAPPERS:
        return None
    if [line.strip() for line in rest if line.strip()] == [opening["mark"]]:
        return []
    first = next((line for line in rest if line.strip()), "")
    if not (_TITLE.match(first) or first.startswith(("{", "## ", "---"))):
        return None  # an example, not the document
    end = _closing(lines, at, opening["mark"])
    if end is not None and _is_chat(lines[end + 1 :], review=False):
        inner = list(lines[at + 1 : end])
        return inner if not review or _is_only_wrapped(lines[:at], inner, lines[end + 1 :]) else None
    sure = not review and language in _MARKDOWN and _TITLE.match(first) is not None
    return _half_fenced(rest, opening["mark"]) if sure else None


def _half_fenced(lines: Sequence[str], mark: str) -> list[str] | None:
    """The lines of a draft whose fence is not closed, or is hard to tell from the fences inside."""
    fences = [number for number, line in enumerate(lines) if _FENCE.fullmatch(line)]
    if len(fences) % 2 == 0:
        return list(lines)  # those inside are in pairs: the one around the document was not closed
    last = fences[-1]
    closes = lines[last].strip().startswith(mark) and not lines[last].strip(" `~\t")
    return list(lines[:last]) if closes and not any(line.strip() for line in lines[last + 1 :]) else None


def _closing(lines: Sequence[str], at: int, mark: str) -> int | None:
    """The line that closes the fence; fences with a language inside it open and close on their own."""
    depth = 1
    for number in range(at + 1, len(lines)):
        fence = _FENCE.fullmatch(lines[number])
        if fence is None or fence["mark"][0] != mark[0] or (len(fence["mark"]) < len(mark) and depth == 1):
            continue
        depth += 1 if fence["language"] else -1
        if depth == 0:
            return number
    return None


def _is_only_wrapped(before: Sequence[str], inner: Sequence[str], after: Sequence[str]) -> bool:
    """Whether a review in a fence can be read without the chat around it."""
    if _is_chat(before, review=True) and _is_chat(after, review=True):
        return True
    verdict = read_document("\n".join(inner)).verdict
    return verdict is not Verdict.UNREADABLE and may_be_removed("\n".join(before), "\n".join(after), verdict)


def _is_chat(lines: Sequence[str], *, review: bool) -> bool:
    text = "\n".join(lines).strip()
    if not text:
        return True
    if len(text) > _LONGEST_CHAT or any(map(_HEADING.match, lines)) or any(map(_FENCE.fullmatch, lines)):
        return False
    return not review or greets(text)


def _start(lines: Sequence[str], *, review: bool) -> int:
    """The line with which the document starts; the number of lines if there is only a greeting."""
    first = next((number for number in range(len(lines)) if _begins(lines, number)), None)
    if first is None:
        text = "\n".join(lines).strip()
        nothing_else = _ONLY_GREETING.fullmatch(text) or (text.endswith(":") and greets(text))
        return len(lines) if nothing_else else 0
    before = lines[:first]
    text = "\n".join(before).strip()
    if not text or any(map(_FENCE.fullmatch, before)) or any(map(_FIELD.match, before)):
        return 0
    if text.startswith(("---", "<!--", "|", "[!", "![")):
        return 0
    titled = not review and (_TITLE.match(lines[first]) or _underlined(lines, first))
    return first if titled or greets(text) else 0


def _begins(lines: Sequence[str], number: int) -> bool:
    line = lines[number]
    return _HEADING.match(line) is not None or line.startswith("{") or _underlined(lines, number)


def _underlined(lines: Sequence[str], number: int) -> bool:
    after = lines[number + 1] if number + 1 < len(lines) else ""
    return bool(lines[number].strip()) and _UNDERLINE.fullmatch(after) is not None
