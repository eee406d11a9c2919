"""The replies of the simulated models: wishes to a look, a review if other JSON is wanted, else a document.

An item can script its reviews with `<!-- mock: verdicts=REVISE,APPROVED -->` in its text, as with the mock.
"""

import hashlib
import json
import re
import zlib
from typing import Any

from agentos.llm.mock_documents import answers, look

_COMMENT = re.compile(r"<!--\s*mock:(.*?)-->", re.DOTALL)
_VERDICTS = re.compile(r"\bverdicts=([A-Za-z,]+)")
_STUCK = re.compile(r"\bstuck\b")
_REGRESS = re.compile(r"\bregress=(\d{1,4})\b")
_QUESTION = re.compile(r'\bquestion="([^"\\]+)"')
_LOOK = re.compile(r'\blook=(?:"([^"\\]+)"|([^\s"]+))')
_QUOTE = re.compile(r"^<<<BEGIN (\S+) ?(.*?)$.*?^<<<END \1", re.DOTALL | re.MULTILINE)
_SOURCES = frozenset({"issue", "brief"})  # the names of quotations with an item's text
_MARK = re.compile(r"^<<<(?:BEGIN|END) (\S+)", re.MULTILINE)
_REFERENCE = re.compile(r"\*\*Issue:\*\*\s+(#?[A-Za-z0-9_-]+)")
_NUMBER = re.compile(r"#(\d+)\b")
_LABEL = re.compile(r"\bLLD-[A-Za-z0-9_-]+")
_HEADING = re.compile(r"^# .*", re.MULTILINE)
_MAX_ITEMS = 100_000


class DefaultResponder:
    """Writes one document for both workflows. Reviews as the item's comment says; without one, approves."""

    def __init__(self) -> None:
        self._reviews: dict[str, int] = {}

    def __call__(self, model: str, system: str, prompt: str, wanted: str) -> str:  # noqa: ARG002
        if wanted == "look":
            return look(prompt, _wishes(prompt))
        return self._review(model, prompt) if wanted else _document(model, prompt)

    def reset(self) -> None:
        self._reviews.clear()

    def _review(self, model: str, prompt: str) -> str:
        comment = _item_comment(prompt) if "<!--" in prompt else None
        script = comment[1] if comment else ""
        listed = _VERDICTS.search(script)
        verdicts = [one.upper() for one in listed[1].split(",") if one] if listed else []
        number = 1
        if comment and verdicts:
            item = _item_hash(prompt, comment)
            number = self._reviews.get(item, 0) + 1
            if len(self._reviews) < _MAX_ITEMS or item in self._reviews:
                self._reviews[item] = number
        verdict = verdicts[min(number, len(verdicts)) - 1] if verdicts else "APPROVED"
        stuck, regress = bool(_STUCK.search(script)), _REGRESS.search(script)
        made = review(model, verdict, 1 if stuck else number)
        made["earlier"] = answers(
            prompt, stuck=stuck, regress=regress is not None and int(regress[1]) == number
        )
        if asked := _QUESTION.search(script):
            made["questions"] = [asked[1]]
        return json.dumps(made)


def review(model: str, verdict: str, number: int) -> dict[str, Any]:
    """Return a review in the reviewer's schema; each number has different findings."""
    finding = {
        "category": "Safety",
        "title": f"Simulated finding {number}",
        "text": f"Step {number} does not say what happens when it is interrupted.",
        "recommendation": f"Say for step {number} what is kept and how it resumes.",
    }
    return {
        "identity": f"{model}, a simulated reviewer",
        "pre_flight": {"passed": True, "note": "All required parts are there."},
        "earlier": [],
        "summary": f"Simulated review {number}.",
        "tier1": [finding] if verdict == "REVISE" else [],
        "tier2": [],
        "suggestions": ["Name the owner of the roll-out."],
        "questions": ["Which of the two readings is meant?"] if verdict == "DISCUSS" else [],
        "verdict": verdict,
    }


def _wishes(prompt: str) -> list[str]:
    comment = _item_comment(prompt)
    listed = _LOOK.search(comment[1]) if comment else None
    return (listed[1] or listed[2]).split() if listed else []


def _item_comment(prompt: str) -> re.Match[str] | None:
    """Find the script of the item; files of the repository in the prompt may have scripts, too."""
    for quote in _QUOTE.finditer(prompt):
        if quote[2] in _SOURCES:
            return _COMMENT.search(prompt, quote.start(), quote.end())
    return _COMMENT.search(prompt)


def plain(prompt: str) -> str:
    """Return the prompt without the codes around quotations, which differ from run to run."""
    marks = set(_MARK.findall(prompt)) if "<<<" in prompt else ()
    for mark in marks:
        prompt = prompt.replace(mark, "")
    return prompt


def _item_hash(prompt: str, comment: re.Match[str]) -> str:
    """Identify the item that has the comment, by text that stays the same in every round."""
    for quote in _QUOTE.finditer(prompt):
        if quote.start() < comment.start() < quote.end():
            text = quote[0].replace(quote[1], "")
            break
    else:
        before = _HEADING.findall(prompt, 0, comment.start())[-1:]
        after = _HEADING.search(prompt, comment.end())
        number = _NUMBER.search(prompt)
        text = "\n".join([comment[0], *before, after[0] if after else "", number[0] if number else ""])
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _document(model: str, prompt: str) -> str:
    own = _QUOTE.sub("", prompt) if "<<<" in prompt else prompt  # what is quoted may name other items
    reference = _REFERENCE.search(own)
    number = _NUMBER.search(own)
    name = reference[1] if reference else f"#{number[1]}" if number else "#1"
    label = _LABEL.search(own)
    mark = zlib.crc32(plain(prompt).encode(errors="surrogatepass"))
    return f"""# {label[0] if label else "Simulated"}: a document by {model}

**Issue:** {name}

## Context

The backlog asks for a change that is described here. Draft mark {mark:08x}.

## Proposed Changes

1. Add the module and its test.
2. Bound every loop at 3 tries and 60 seconds.

## User Story

As a developer, I want this change, so that the work can go on.

## Acceptance Criteria

- [ ] The new test passes.
- [ ] A failing step leaves the stored state as it was.

## Definition of Done

- [ ] Code, tests and documentation are merged.

## Labels

simulated

## T-shirt size

S, one module.
"""
