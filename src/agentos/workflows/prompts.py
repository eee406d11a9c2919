"""Builds prompts from the shipped .md files; untrusted text is fenced. Worker process."""

import difflib
import hashlib
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from agentos.workflows.gates import Kind, own_reference

__all__ = [
    "Kind",
    "Prompt",
    "draft_prompt",
    "fence",
    "fill",
    "new_nonce",
    "review_prompt",
    "revise_prompt",
    "shipped_template",
]

_PLACEHOLDER = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_NOTHING = "None."
_NO_FILES: Mapping[str, str] = MappingProxyType({})
_DOCUMENT: dict[Kind, str] = {"issue": "issue", "lld": "low-level design (LLD)"}
_SOURCE: dict[Kind, str] = {"issue": "brief", "lld": "issue"}


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """What there was before this run: a document, and the text it was written for if that was different."""

    document: str = ""
    source: str = ""

    def changes(self, source: str) -> str:
        """Show what has changed in the item's text since then."""
        if not self.source:
            return ""
        lines = difflib.unified_diff(
            self.source.splitlines(), source.splitlines(), "before", "now", lineterm="", n=2
        )
        return "\n".join(lines)


_NOTHING_BEFORE = Earlier()


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """One prompt, ready to send."""

    system: str
    text: str
    version: str  # short hash of the prompt files used, the same for every item


def new_nonce(*texts: str) -> str:
    """Make a random code that occurs in none of the texts, in upper or lower case."""
    lowered = [text.lower() for text in texts]
    while True:
        nonce = secrets.token_hex(8)
        if not any(nonce in text for text in lowered):
            return nonce


def fence(text: str, *, what: str, nonce: str) -> str:
    """Quote a text between marker lines that the text itself cannot contain."""
    if not nonce or nonce in text.lower():
        raise ValueError(f"The nonce of the fence around the {what} is empty or occurs in the text.")
    if "\n" in what:
        raise ValueError("The name of a fence is one line.")
    return f"<<<BEGIN {nonce} {what}\n{text}\n<<<END {nonce}"


def fill(text: str, values: Mapping[str, str]) -> str:
    """Put in each value, in one pass; the names in the text and in the values must be the same."""
    used: set[str] = set()

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in values:
            raise ValueError(f"The placeholder {match.group()!r} has no value.")
        used.add(name)
        return values[name]

    filled = _PLACEHOLDER.sub(value, text)
    if unused := sorted(values.keys() - used):
        raise ValueError(f"There is no placeholder for: {', '.join(unused)}.")
    return filled


@cache
def shipped_template(kind: Kind) -> str:
    """Read the document template that comes with the package."""
    return files("agentos.workflows").joinpath("templates", f"{kind}.md").read_text("utf-8")


def draft_prompt(
    kind: Kind,
    *,
    item_id: str,
    label: str,
    title: str,
    source_text: str,
    template: str,
    note: str = "",
    context: Mapping[str, str] = _NO_FILES,
) -> Prompt:
    """Ask for the first draft."""
    source = _source(title, source_text)
    quote = _quoter(source, template, note, *context, *context.values())
    return _prompt(
        "system-drafter.md",
        f"draft-{kind}.md",
        parts={"material.md": {"nonce": quote.nonce}, f"rules-{kind}.md": _rule_values(kind, item_id, label)},
        values={
            "source": quote(source, _SOURCE[kind]),
            "template": quote(template, "template"),
            "note": quote(note, "decision"),
            "context": quote.files(context),
        },
    )


def revise_prompt(
    kind: Kind,
    *,
    item_id: str,
    label: str,
    title: str,
    source_text: str,
    template: str,
    draft: str,
    findings: Sequence[Mapping[str, Any]],
    missing: Sequence[str],
    note: str,
    earlier: Earlier = _NOTHING_BEFORE,
    context: Mapping[str, str] = _NO_FILES,
) -> Prompt:
    """Ask for the next draft, with everything that is still open in the last one."""
    source, open_findings = _source(title, source_text), _findings(findings)
    changes = earlier.changes(source_text)
    quote = _quoter(
        source, template, *context, *context.values(), draft, open_findings, note, earlier.source, changes
    )
    return _prompt(
        "system-drafter.md",
        "revise.md",
        parts={"material.md": {"nonce": quote.nonce}, f"rules-{kind}.md": _rule_values(kind, item_id, label)},
        values={
            "document": _DOCUMENT[kind],
            "source_name": _SOURCE[kind],
            "findings": quote(open_findings, "open findings"),
            "missing": "\n".join(f"- {name}" for name in missing) or _NOTHING,
            "note": quote(note, "decision"),
            "old_source": quote(earlier.source, f"{_SOURCE[kind]} before"),
            "changes": quote(changes, "changes"),
            "draft": quote(draft, "previous draft"),
            "source": quote(source, _SOURCE[kind]),
            "template": quote(template, "template"),
            "context": quote.files(context),
        },
    )


def review_prompt(
    kind: Kind,
    *,
    item_id: str,
    label: str,
    title: str,
    source_text: str,
    draft: str,
    earlier_findings: Sequence[Mapping[str, Any]],
    note: str = "",
    earlier: Earlier = _NOTHING_BEFORE,
) -> Prompt:
    """Ask for a verdict on a draft; the note is what a person has decided about the item."""
    source, findings = _source(title, source_text), _findings(earlier_findings)
    changes = earlier.changes(source_text)
    quote = _quoter(source, draft, findings, note, earlier.source, earlier.document, changes)
    return _prompt(
        "system-reviewer.md",
        f"review-{kind}.md",
        parts={"material.md": {"nonce": quote.nonce}, "judging.md": {}},
        values={
            "item_id": item_id,
            "label": label,
            "earlier": quote(findings, "earlier findings"),
            "note": quote(note, "decision"),
            "old_source": quote(earlier.source, f"{_SOURCE[kind]} before"),
            "changes": quote(changes, "changes"),
            "old_document": quote(earlier.document, "document before"),
            "source": quote(source, _SOURCE[kind]),
            "draft": quote(draft, "draft"),
        },
    )


@dataclass(frozen=True, kw_only=True)
class _Quoter:
    nonce: str

    def __call__(self, text: str, what: str) -> str:
        return fence(text, what=what, nonce=self.nonce) if text.strip() else _NOTHING

    def files(self, context: Mapping[str, str]) -> str:
        """Quote files of the repository, each by its path."""
        blocks = [fence(text, what=f"file {path}", nonce=self.nonce) for path, text in context.items()]
        return "\n\n".join(blocks) or _NOTHING


def _quoter(*texts: str) -> _Quoter:
    return _Quoter(nonce=new_nonce(*texts))


def _prompt(
    system: str, main: str, *, parts: Mapping[str, Mapping[str, str]], values: Mapping[str, str]
) -> Prompt:
    # The part `rules-lld.md` fills the placeholder `rules`.
    filled = {name.removesuffix(".md").split("-")[0]: _read_filled(name, of) for name, of in parts.items()}
    used = [system, main, *parts]
    return Prompt(
        system=_read(system).rstrip("\n"),
        text=fill(_read(main), {**filled, **values}),
        version=hashlib.sha256("\0".join(f"{name}\0{_read(name)}" for name in used).encode()).hexdigest()[
            :12
        ],
    )


@cache
def _read(name: str) -> str:
    return files("agentos.workflows").joinpath("prompts", name).read_text("utf-8")


def _read_filled(name: str, values: Mapping[str, str]) -> str:
    return fill(_read(name), values).rstrip("\n")


def _source(title: str, text: str) -> str:
    return f"Title: {title}\n\n{text}"


def _rule_values(kind: Kind, item_id: str, label: str) -> dict[str, str]:
    values = {"item_id": item_id, "label": label}
    return values if kind == "issue" else {**values, "reference": own_reference(item_id)}


def _findings(findings: Sequence[Mapping[str, Any]]) -> str:
    return "\n\n".join(f"{number}. {_finding(one)}" for number, one in enumerate(findings, 1))


def _finding(finding: Mapping[str, Any]) -> str:
    lines = [f"Tier {finding['tier']}, {finding['category']}: {finding['title'] or ''}".rstrip(" :")]
    if text := str(finding["text"] or "").strip():
        lines.append(text)
    if recommendation := str(finding["recommendation"] or "").strip():
        lines.append(f"Recommendation: {recommendation}")
    return "\n".join(lines).replace("\n", "\n   ")
