"""Builds prompts from the shipped .md files; untrusted text is fenced. Worker process.

A prompt has three parts, in this order: what is the same for every call of a role in a run, what is the same
for an item, and what changes with each round. Providers charge less for the start of a prompt that they have
seen before, so nothing about an item may be in the first part and nothing about a round in the second.
"""

import difflib
import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from agentos.console.lines import one_line
from agentos.repo_map.parts import NO_MAP, Part, RepositoryMap
from agentos.workflows.gates import Kind, own_reference, required_by

__all__ = [
    "Kind",
    "Material",
    "Prompt",
    "draft_prompt",
    "fence",
    "fill",
    "review_prompt",
    "revise_prompt",
    "shipped_template",
]

_PLACEHOLDER = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_NOTHING = "None."
_CODE_LENGTH = 16  # hexadecimal digits
_DOCUMENT: dict[Kind, str] = {"issue": "issue", "lld": "low-level design (LLD)"}
_SOURCE: dict[Kind, str] = {"issue": "brief", "lld": "issue"}

_Role = Literal["drafter", "reviewer"]


@dataclass(frozen=True, kw_only=True)
class Material:
    """What both models get to know besides the item: the same for every round."""

    template: str
    rules: str = ""  # the team's own
    language: str = ""
    repository: RepositoryMap = NO_MAP
    fence_secret: str = field(default="", repr=False)  # of the run; empty: a new one for each prompt


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
    breaks: tuple[int, ...] = ()  # where in the text the part of the run and the part of the item end


def fence(text: str, *, what: str, secret: str) -> str:
    """Quote a text between marker lines that the text itself cannot contain.

    The code in the markers comes from a secret, the name and the text: nobody can guess it, and equal texts
    have equal quotations.
    """
    if "\n" in what:
        raise ValueError("The name of a fence is one line.")
    if not secret:
        raise ValueError("A fence needs a secret.")
    code = _code(text, what, secret)
    return f"<<<BEGIN {code} {what}\n{text}\n<<<END {code}"


def _code(text: str, what: str, secret: str) -> str:
    lowered = text.lower()
    tries = 0
    while True:
        message = f"{tries}\0{what}\0{text}".encode(errors="surrogatepass")
        code = hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()[:_CODE_LENGTH]
        if code not in lowered:
            return code
        tries += 1


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
    material: Material,
    note: str = "",
    earlier: Earlier = _NOTHING_BEFORE,
) -> Prompt:
    """Ask for the first draft."""
    make = _Maker(kind=kind, role="drafter", material=material)
    item = make.drafter_item(item_id, label, title, source_text, earlier)
    return make.prompt(
        item, "round-first.md", {"document": _DOCUMENT[kind], "note": make.quote(note, "decision")}
    )


def revise_prompt(
    kind: Kind,
    *,
    item_id: str,
    label: str,
    title: str,
    source_text: str,
    material: Material,
    draft: str,
    findings: Sequence[Mapping[str, Any]],
    missing: Sequence[str],
    note: str,
    paths: Sequence[str] = (),
    earlier: Earlier = _NOTHING_BEFORE,
) -> Prompt:
    """Ask for the next draft, with everything that is still open in the last one."""
    make = _Maker(kind=kind, role="drafter", material=material)
    item = make.drafter_item(item_id, label, title, source_text, earlier)
    values = {
        "document": _DOCUMENT[kind],
        "findings": make.quote(_findings(findings), "open findings"),
        "missing": make.quote(_listed(missing), "missing parts"),
        "paths": make.quote(_listed(paths), "wrong paths"),
        "note": make.quote(note, "decision"),
        "draft": make.quote(draft, "previous draft"),
    }
    return make.prompt(item, "round-revise.md", values)


def review_prompt(
    kind: Kind,
    *,
    item_id: str,
    label: str,
    title: str,
    source_text: str,
    material: Material,
    draft: str,
    earlier_findings: Sequence[Mapping[str, Any]],
    note: str = "",
    paths: Sequence[str] = (),
    earlier: Earlier = _NOTHING_BEFORE,
) -> Prompt:
    """Ask for a verdict on a draft; the note is what a person has decided about the item."""
    make = _Maker(kind=kind, role="reviewer", material=material)
    item = make.reviewer_item(item_id, label, title, source_text, earlier)
    values = {
        "earlier_findings": make.quote(_findings(earlier_findings), "earlier findings"),
        "paths": make.quote(_listed(paths), "wrong paths"),
        "note": make.quote(note, "decision"),
        "draft": make.quote(draft, "draft"),
    }
    return make.prompt(item, "round-review.md", values)


class _Maker:
    """Puts the three parts of one prompt together, and remembers which files it used."""

    def __init__(self, *, kind: Kind, role: _Role, material: Material) -> None:
        self._kind, self._role, self._material = kind, role, material
        self._secret = material.fence_secret or secrets.token_hex(16)
        self._used: list[str] = []

    def quote(self, text: str, what: str) -> str:
        return fence(text, what=what, secret=self._secret) if text.strip() else _NOTHING

    def prompt(self, item: str, round_file: str, values: Mapping[str, str]) -> Prompt:
        shared, last = self._shared(), self._filled(round_file, values)
        system = self._filled(f"system-{self._role}.md", {})
        used = "\0".join(f"{name}\0{_read(name)}" for name in sorted(self._used))
        first, second = f"{shared}\n\n", f"{item}\n\n"
        return Prompt(
            system=system,
            text=f"{first}{second}{last}\n",
            version=hashlib.sha256(used.encode()).hexdigest()[:12],
            breaks=(len(first), len(first) + len(second)),
        )

    def drafter_item(self, item_id: str, label: str, title: str, text: str, earlier: Earlier) -> str:
        values = {
            "item_id": item_id,
            "label": label,
            "source": self._source(title, text),
            "earlier": self._filled("earlier-drafter.md", self._earlier(text, earlier)),
            "repository": self._parts(self._material.repository.own),
        }
        if self._kind == "lld":
            values["reference"] = own_reference(item_id)
        return self._filled(f"item-drafter-{self._kind}.md", values)

    def reviewer_item(self, item_id: str, label: str, title: str, text: str, earlier: Earlier) -> str:
        before = self._earlier(text, earlier) | {
            "old_document": self.quote(earlier.document, "document before")
        }
        values = {
            "item_id": item_id,
            "label": label,
            "document": _DOCUMENT[self._kind],
            "source_name": _SOURCE[self._kind],
            "source": self._source(title, text),
            "earlier": self._filled("earlier-reviewer.md", before),
            "repository": self._parts(self._material.repository.own),
        }
        return self._filled("item-reviewer.md", values)

    def _shared(self) -> str:
        """What is the same for every item and round of the role: nothing here may know the item."""
        kind, material = self._kind, self._material
        required = self.quote("\n".join(required_by(kind, material.template).names), "required parts")
        values = {
            "material": self._filled("material.md", {}),
            "team": self._filled(
                f"team-{self._role}.md",
                {
                    "team_rules": self.quote(material.rules, "team rules"),
                    "language": self.quote(material.language, "language"),
                },
            ),
            "repository": self._parts(material.repository.shared),
        }
        if self._role == "drafter":
            values["rules"] = self._filled(f"rules-{kind}.md", {"required": required})
            values["revising"] = self._filled("revising.md", {})
            values["template"] = self.quote(material.template, "template")
        else:
            values["required"] = required
            values["judging"] = self._filled("judging.md", {})
        return self._filled(f"{self._role}-{kind}.md", values)

    def _source(self, title: str, text: str) -> str:
        return self.quote(f"Title: {title}\n\n{text}", _SOURCE[self._kind])

    def _earlier(self, text: str, earlier: Earlier) -> dict[str, str]:
        name = _SOURCE[self._kind]
        return {
            "source_name": name,
            "old_source": self.quote(earlier.source, f"{name} before"),
            "changes": self.quote(earlier.changes(text), "changes"),
        }

    def _parts(self, parts: Sequence[Part]) -> str:
        """Quote parts of the repository, each by its kind and path."""
        quoted = (
            fence(part.text, what=f"{part.kind} {one_line(part.path)}", secret=self._secret) for part in parts
        )
        return "\n\n".join(quoted) or _NOTHING

    def _filled(self, name: str, values: Mapping[str, str]) -> str:
        self._used.append(name)
        return fill(_read(name), values).rstrip("\n")


@cache
def _read(name: str) -> str:
    return files("agentos.workflows").joinpath("prompts", name).read_text("utf-8")


def _listed(names: Sequence[str]) -> str:
    return "\n".join(f"- {name}" for name in names)


def _findings(findings: Sequence[Mapping[str, Any]]) -> str:
    return "\n\n".join(f"{number}. {_finding(one)}" for number, one in enumerate(findings, 1))


def _finding(finding: Mapping[str, Any]) -> str:
    lines = [f"Tier {finding['tier']}, {finding['category']}: {finding['title'] or ''}".rstrip(" :")]
    if text := str(finding["text"] or "").strip():
        lines.append(text)
    if recommendation := str(finding["recommendation"] or "").strip():
        lines.append(f"Recommendation: {recommendation}")
    return "\n".join(lines).replace("\n", "\n   ")
