"""Verdict words: what a box or a line says, read exactly. Pure."""

import re
from dataclasses import dataclass

from agentos.review.parsed_review import Verdict, VerdictReason
from agentos.review.phrases import is_emoji

LONGEST_SHOWN = 60  # characters of a label in a one-sentence reason

_WORDS = {verdict.value: verdict for verdict in Verdict if verdict is not Verdict.UNREADABLE}
_REFUSALS = (
    "BLOCK", "BLOCKED", "BLOCKING", "CHANGES REQUESTED", "CHANGES REQUIRED", "DECLINED", "DENIED",
    "DISAPPROVED", "FAIL", "FAILED", "NEEDS CHANGES", "NEEDS REVISION", "NEEDS WORK", "NOT APPROVED",
    "NOT READY", "REJECT", "REJECTED", "REQUEST CHANGES", "REVISION NEEDED", "REVISION REQUIRED",
    "REVISIONS NEEDED", "REVISIONS REQUIRED", "UNAPPROVED",
)  # fmt: skip
_WORDS |= dict.fromkeys(_REFUSALS, Verdict.REVISE)

# Only these may appear next to APPROVED; a cross or a warning sign makes it a different word.
_CHEERS = frozenset("\u2705\u2714\u2713\u2611\U0001f389\U0001f44d\U0001f680\U0001f7e2\ufe0f")

_EMPHASIS = re.compile(r"\*{1,3}|_{1,3}|`")
_END = re.compile(r"\s*[-\u2013\u2014]+(?:\s|$)|[:.!](?=[\s*_]|$)|\(")
_LONGEST = 200  # characters within which a label must end
_STATEMENT = re.compile(
    r"[*_]{0,3}(?:final |overall )?verdict(?:[*_]{0,3} ?[:\u2013\u2014-]| is\b)[*_]{0,3} ?", re.IGNORECASE
)
_CONDITION = re.compile(
    r"\b(?:but|however|if|once|after|until|unless|except|pending|provided|assuming|subject to|not|conditions?"
    r"|conditional\w*|(?:with|minor|small|some) (?:\w+ )?(?:changes?|fix(?:es)?|edits?|revisions?"
    r"|modifications?|amendments?|reservations?|caveats?|exceptions?|comments?)"
    r"|revise|discuss|block(?:ed)?|reject(?:ed)?|unapproved|disapproved)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class VerdictWord:
    """The words after a box, or in place of one."""

    word: str  # in capitals; "" if the label is empty or cut off
    tail: str = ""

    @property
    def verdict(self) -> Verdict | None:
        return _WORDS.get(self.word)

    @property
    def shown(self) -> str:
        return shorten(self.word)

    def decision(self) -> VerdictReason:
        """Turn a known word into the verdict it means."""
        verdict = _WORDS[self.word]
        if verdict is Verdict.APPROVED and takes_back(self.tail):
            condition = shorten(" ".join(self.tail.split()).strip("-:.!( \u2013\u2014"))
            return VerdictReason.unreadable(f'The approval has a condition: "{condition}".')
        if verdict.value != self.word:
            return VerdictReason(
                verdict=verdict, reason=f"The reviewer's verdict is {self.word}, which is read as {verdict}."
            )
        return VerdictReason(verdict=verdict)


def label_of(text: str) -> VerdictWord:
    """Read the words up to a dash, colon or full stop; emphasis and emoji do not count."""
    head, more = " ".join(text[:_LONGEST].split()), text[_LONGEST:]
    bare = _without_lead(head)
    emoji, head = head[: len(head) - len(bare)], bare
    opener = _EMPHASIS.match(head)
    if opener:
        close = head.find(opener[0], opener.end())
        if close < 0:
            return VerdictWord(word="")
        inner, behind = head[opener.end() : close], head[close + len(opener[0]) :]
        if _END.search(inner) is None:
            after = _without_lead(behind)
            emoji += behind[: len(behind) - len(after)]
            if after and not _END.match(after):
                return VerdictWord(
                    word=_capitals(f"{inner} {after}")
                )  # "**APPROVED** WITH CHANGES" is one label
            return _label(inner, after + more, emoji)
        head = inner + behind
    end = _END.search(head)
    return (
        _label(head[: end.start()], head[end.start() :] + more, emoji) if end else _label(head, more, emoji)
    )


def stated_in(line: str) -> VerdictWord:
    """Read a line that may begin with "Verdict:"."""
    return label_of(_STATEMENT.sub("", line, count=1))


def contradicts(line: str, verdict: Verdict) -> bool:
    """Say whether a line states a different verdict."""
    stated = stated_in(line).verdict
    if stated is not None:
        return stated is not verdict
    return verdict is Verdict.APPROVED and _STATEMENT.match(line) is not None


def states_other(line: str, verdict: Verdict) -> bool:
    """Say whether a line outside the Verdict section gives a verdict, and not this one."""
    if _STATEMENT.match(line) or label_of(line).verdict is not None:
        return contradicts(line, verdict)
    return any(contradicts(line[found.start() :], verdict) for found in _STATEMENT.finditer(line))


def takes_back(text: str) -> bool:
    """Say whether the words around an approval make it conditional."""
    return _CONDITION.search(text) is not None


def shorten(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 3] + "..."


def _without_lead(text: str) -> str:
    start = 0
    while start < len(text) and (text[start] == " " or is_emoji(text[start])):
        start += 1
    return text[start:]


def _label(words: str, tail: str, emoji: str) -> VerdictWord:
    beside = emoji.replace(" ", "") + "".join(character for character in words if is_emoji(character))
    word = _capitals("".join(character for character in words if not is_emoji(character)))
    if word == Verdict.APPROVED and not set(beside) <= _CHEERS:
        word = f"{beside} {word}"
    return VerdictWord(word=word, tail=tail)


def _capitals(words: str) -> str:
    folded = " ".join(words.split()).strip("*_ ")
    # Letters of other scripts can become Latin letters in capitals.
    return folded.upper() if folded.isascii() else folded
