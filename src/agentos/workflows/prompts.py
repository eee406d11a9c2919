"""Builds prompts from the shipped .md files; untrusted text is fenced. Worker process.

A prompt has these parts, in this order: what is the same for every call of a role in a run, the item with its
map, what was read for it, what people decided, and the round. Providers charge less for the start of a prompt
that they have seen before: nothing about an item is in the first part, nothing about a round before the last.
"""

import difflib
import hashlib
import hmac
import re
import secrets
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import groupby
from typing import Literal

from agentos.console.lines import one_line
from agentos.decisions import Decision
from agentos.end_matter import day
from agentos.model import counted
from agentos.repo_map.parts import MAX_WISHES, NO_MAP, Part, PartKind, RepositoryMap, ranges_of
from agentos.review import Finding
from agentos.workflows.gates import Kind, own_reference, required_by
from agentos.workflows.ledger import Ledger, in_full, in_short

__all__ = [
    "Earlier",
    "Kind",
    "Look",
    "LookRead",
    "Material",
    "Prompt",
    "RoundMaterial",
    "check_prompt",
    "diff",
    "draft_prompt",
    "fence",
    "fill",
    "look_prompt",
    "review_prompt",
    "revise_prompt",
    "shipped_template",
]

_PLACEHOLDER = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_SECTION = re.compile(r"^(?=## )", re.MULTILINE)
_NOTHING = "None."
_BEGIN = "<<<BEGIN"
_UNCHANGED = "Nothing: the draft is the same as the one that was reviewed last."
_SAME_DRAFT = 'It is the approved document above, under "The document as it was approved".'
_CODE_LENGTH = 16  # hexadecimal digits
_DOCUMENT: dict[Kind, str] = {"issue": "issue", "lld": "low-level design (LLD)"}
_SOURCE: dict[Kind, str] = {"issue": "brief", "lld": "issue"}

# What is shown of a file is one quotation, however many parts it has.
_KINDS = dict.fromkeys((PartKind.BODY, PartKind.SIGNATURE), "code")
LOOKED_UP = "looked up"
_LAST_LOOK = "This is the last time you can ask."

_Role = Literal["drafter", "reviewer"]


@dataclass(frozen=True, kw_only=True)
class LookRead:
    """What a model asked for, and what it got."""

    answers: Sequence[str]
    parts: Sequence[Part]


@dataclass(frozen=True, kw_only=True)
class Material:
    """What both models get to know besides the item: the same for every round."""

    template: str
    rules: str = ""  # the team's own
    language: str = ""
    repository: RepositoryMap = NO_MAP
    read: Sequence["LookRead"] = ()
    fence_secret: str = field(default="", repr=False)  # of the run; empty: a new one for each prompt


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """What there was before this run, and what people said: usually the same for every round."""

    document: str = ""  # as it was approved
    edits: str = ""  # what a person changed in it since, as a diff
    source: str = ""  # the text it was written for, if that was different
    decisions: Sequence[Decision] = ()


@dataclass(frozen=True, kw_only=True)
class RoundMaterial:
    """What changes from call to call."""

    draft: str = ""
    reviewed: str = ""  # the draft reviewed last
    ledger: Ledger = field(default_factory=Ledger)
    suggestions: Sequence[Finding] = ()
    missing: Sequence[str] = ()
    paths: Sequence[str] = ()
    absent: Sequence[str] = ()  # names in the draft that occur nowhere in the repository
    named: Sequence[Part] = ()  # definitions that the draft names
    dropped: Sequence[str] = ()  # lines of a person that the draft lacks
    redo: str = ""  # what was wrong with the last reply
    reply: str = ""  # that reply, if it could be read


_NOTHING_BEFORE = Earlier()


def diff(before: str, after: str, *, context: int = 2) -> str:
    """What changed between two texts, as a unified diff."""
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), "before", "now", lineterm="", n=context
    )
    return "\n".join(lines)


def decisions_in_words(decisions: Iterable[Decision]) -> str:
    """What people decided, as both models get it."""
    entries = []
    for one in decisions:
        asked = "".join(f"Question: {' '.join(text.split())}\n" for text in one.questions)
        asked += "Decision: " if asked else ""
        signed = ", ".join(filter(None, [one.by, day(one.at)]))
        entries.append(f"{asked}{one.words}" + (f"\n({signed})" if signed else ""))
    return "\n\n".join(f"- {entry}".replace("\n", "\n  ") for entry in entries)


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """One prompt, ready to send."""

    system: str
    text: str
    version: str  # short hash of the prompt files used, the same for every item
    breaks: tuple[int, ...] = ()  # where in the text the parts end that later calls may share


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
    return f"{_BEGIN} {code} {what}\n{text}\n<<<END {code}"


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
    earlier: Earlier = _NOTHING_BEFORE,
) -> Prompt:
    """Ask for the first draft."""
    make = _Maker(kind=kind, role="drafter", material=material)
    item = make.drafter_item(item_id, label, title, source_text, earlier)
    return make.prompt(item, "round-first.md", {"document": _DOCUMENT[kind]}, earlier)


def revise_prompt(
    kind: Kind,
    *,
    item_id: str,
    label: str,
    title: str,
    source_text: str,
    material: Material,
    round: RoundMaterial,  # noqa: A002 - the word for it
    earlier: Earlier = _NOTHING_BEFORE,
) -> Prompt:
    """Ask for the next draft, with everything that is still open in the last one."""
    make = _Maker(kind=kind, role="drafter", material=material)
    item = make.drafter_item(item_id, label, title, source_text, earlier)
    same = round.draft == earlier.document and round.draft
    values = {
        "document": _DOCUMENT[kind],
        "findings": make.quote(in_full(round.ledger.open), "open findings"),
        "resolved": make.quote(in_short(round.ledger.resolved), "resolved findings"),
        "suggestions": make.quote(_listed(one.said for one in round.suggestions), "suggestions"),
        "questions": make.quote(_listed(map(str, round.ledger.questions)), "open questions"),
        "missing": make.quote(_listed(round.missing), "missing parts"),
        "paths": make.quote(_listed(round.paths), "wrong paths"),
        "absent": make.quote(_listed(round.absent), "unknown names"),
        "dropped": make.quote("\n".join(round.dropped), "a person's lines"),
        "draft": _SAME_DRAFT if same else make.quote(round.draft, "previous draft"),
    }
    return make.prompt(item, "round-revise.md", values, earlier)


@dataclass(frozen=True, kw_only=True)
class Look:
    """What a model is told when it is asked what it wants to read."""

    tokens: int  # that are left
    rounds: int = 1  # that are left, with this one


def look_prompt(
    kind: Kind,
    *,
    item_id: str,
    label: str,
    title: str,
    source_text: str,
    material: Material,
    round: RoundMaterial,  # noqa: A002 - the word for it
    look: Look,
    earlier: Earlier = _NOTHING_BEFORE,
) -> Prompt:
    """Ask the drafter what it wants to read."""
    make = _Maker(kind=kind, role="drafter", material=material)
    item = make.drafter_item(item_id, label, title, source_text, earlier)
    further = look.rounds - 1
    values = {
        "findings": make.quote(in_full(round.ledger.open), "open findings"),
        "draft": make.quote(round.draft, "previous draft"),
        "wishes": str(MAX_WISHES),
        "tokens": f"{look.tokens:,}",
        "left": f"You can ask {counted(further, 'more time')}." if further else _LAST_LOOK,
    }
    return make.prompt(item, "round-look.md", values, earlier)


def check_prompt(
    kind: Kind,
    *,
    item_id: str,  # noqa: ARG001 - as for every prompt
    label: str,  # noqa: ARG001
    title: str,
    source_text: str,
    material: Material,
    round: RoundMaterial,  # noqa: A002 - the word for it
    look: Look,
    earlier: Earlier = _NOTHING_BEFORE,
) -> Prompt:
    """Ask the reviewer what it wants to read; no other call shares this prompt, so it is short."""
    make = _Maker(kind=kind, role="reviewer", material=material)
    values = {
        "absent": make.quote(_listed(round.absent), "unknown names"),
        "draft": make.quote(round.draft, "draft"),
        "wishes": str(MAX_WISHES),
        "tokens": f"{look.tokens:,}",
    }
    return make.short_prompt(title, source_text, values, round.named, earlier)


def review_prompt(
    kind: Kind,
    *,
    item_id: str,
    label: str,
    title: str,
    source_text: str,
    material: Material,
    round: RoundMaterial,  # noqa: A002 - the word for it
    earlier: Earlier = _NOTHING_BEFORE,
) -> Prompt:
    """Ask for a verdict on a draft."""
    make = _Maker(kind=kind, role="reviewer", material=material)
    item = make.reviewer_item(item_id, label, title, source_text, earlier)
    changes = diff(round.reviewed, round.draft) if round.reviewed else ""
    values = {
        "findings": make.quote(in_full(round.ledger.open), "open findings"),
        "resolved": make.quote(in_short(round.ledger.resolved), "resolved findings"),
        "questions": make.quote(_listed(map(str, round.ledger.questions)), "open questions"),
        "changes": _UNCHANGED
        if round.reviewed and not changes
        else make.quote(changes, "changes in the draft"),
        "paths": make.quote(_listed(round.paths), "wrong paths"),
        "absent": make.quote(_listed(round.absent), "unknown names"),
        "named": make.parts(round.named),
        "dropped": make.quote("\n".join(round.dropped), "a person's lines"),
        "draft": make.quote(round.draft, "draft"),
        "redo": make.redo(round),
    }
    return make.prompt(item, "round-review.md", values, earlier)


class _Maker:
    """Puts the three parts of one prompt together, and remembers which files it used."""

    def __init__(self, *, kind: Kind, role: _Role, material: Material) -> None:
        self._kind, self._role, self._material = kind, role, material
        self._secret = material.fence_secret or secrets.token_hex(16)
        self._used: list[str] = []

    def quote(self, text: str, what: str) -> str:
        return fence(text, what=what, secret=self._secret) if text.strip() else _NOTHING

    def prompt(self, item: str, round_file: str, values: Mapping[str, str], earlier: Earlier) -> Prompt:
        read = [self._looked(look) for look in self._material.read]
        if read:
            about = {"source_name": _SOURCE[self._kind], "read": read[0]}
            read[0] = self._filled("read.md", about)
        last = self._with_decisions(earlier, self._filled(round_file, values))
        return self._joined([self._shared(), item, *read], last)

    def _with_decisions(self, earlier: Earlier, text: str) -> str:
        decided = self.quote(decisions_in_words(earlier.decisions), "decisions")
        decisions = self._filled("decisions.md", {"source_name": _SOURCE[self._kind], "decisions": decided})
        return "\n\n".join(filter(None, [decisions, text]))

    def _looked(self, look: LookRead) -> str:
        answers = self.quote(_listed(look.answers), LOOKED_UP)
        return f"{answers}\n\n{self.parts(look.parts)}" if look.parts else answers

    def short_prompt(
        self, title: str, text: str, values: Mapping[str, str], named: Sequence[Part], earlier: Earlier
    ) -> Prompt:
        """A prompt that only names the code which the others show."""
        shared = self._filled("check-lld.md", {"material": self._filled("material.md", {})})
        material = self._material
        every = [*material.repository.parts, *(part for look in material.read for part in look.parts), *named]
        lines: dict[str, list[str]] = defaultdict(list)
        for path, start, end in sorted(ranges_of(every)):
            lines[path].append(f"{start}-{end}")
        shown = _listed(f"{path}, lines {', '.join(found)}" for path, found in lines.items())
        item = {"source": self._source(title, text), "shown": self.quote(shown, "code")}
        last = self._with_decisions(earlier, self._filled("round-check.md", values))
        return self._joined([shared, self._filled("item-check.md", item)], last)

    def _joined(self, parts: Sequence[str], last: str) -> Prompt:
        system = self._filled(f"system-{self._role}.md", {})
        used = "\0".join(f"{name}\0{_read(name)}" for name in sorted(self._used))
        text, ends = "", []
        for part in parts:
            text += f"{part}\n\n"
            ends.append(len(text))
        return Prompt(
            system=system,
            text=f"{text}{last}\n",
            version=hashlib.sha256(used.encode()).hexdigest()[:12],
            breaks=tuple(dict.fromkeys((*ends[:2], *ends[2:][-2:]))),
        )

    def drafter_item(self, item_id: str, label: str, title: str, text: str, earlier: Earlier) -> str:
        values = {
            "item_id": item_id,
            "label": label,
            "source": self._source(title, text),
            "earlier": self._earlier(text, earlier),
            "repository": self.parts(self._material.repository.own),
        }
        if self._kind == "lld":
            values["reference"] = own_reference(item_id)
        return self._filled(f"item-drafter-{self._kind}.md", values)

    def reviewer_item(self, item_id: str, label: str, title: str, text: str, earlier: Earlier) -> str:
        values = {
            "item_id": item_id,
            "label": label,
            "document": _DOCUMENT[self._kind],
            "source_name": _SOURCE[self._kind],
            "source": self._source(title, text),
            "earlier": self._earlier(text, earlier),
            "repository": self.parts(self._material.repository.own),
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
            "repository": self.parts(material.repository.shared),
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

    def _earlier(self, text: str, earlier: Earlier) -> str:
        """What the document and its source were before; nothing for a new document."""
        if not (earlier.document or earlier.edits or earlier.source):
            return ""
        name = _SOURCE[self._kind]
        values = {
            "source_name": name,
            "changes": self.quote(
                diff(earlier.source, text) if earlier.source else "", f"changes in the {name}"
            ),
            "old_document": self.quote(earlier.document, "approved document"),
            "edits": self.quote(earlier.edits, "a person's changes"),
        }
        return self._filled(f"earlier-{self._role}.md", values)

    def redo(self, round: RoundMaterial) -> str:  # noqa: A002 - the word for it
        """What was wrong with the last reply; nothing in the first try."""
        if not round.redo:
            return ""
        values = {
            "why": self.quote(round.redo, "what was wrong"),
            "reply": self.quote(round.reply, "last reply"),
        }
        return self._filled("redo.md", values)

    def parts(self, parts: Sequence[Part]) -> str:
        """Quote parts of the repository, those of a file together."""
        quoted = [
            fence("".join(part.text for part in group), what=one_line(f"{kind} {path}"), secret=self._secret)
            for (kind, path), group in groupby(
                parts, key=lambda part: (_KINDS.get(part.kind, part.kind), part.path)
            )
        ]
        return "\n\n".join(quoted) or _NOTHING

    def _filled(self, name: str, values: Mapping[str, str]) -> str:
        """Fill a prompt file. A section that has nothing to show is left out."""
        self._used.append(name)
        text = _read(name)
        names = _PLACEHOLDER.findall(text)
        for empty in [one for one, value in values.items() if not value]:
            text = text.replace(f"\n{{{{{empty}}}}}\n\n", "\n")  # a line of its own, with the blank one below
        sections = _SECTION.split(text)
        shown = [section for section in sections if not _is_empty(section, values)]
        dropped = set(names) - set(_PLACEHOLDER.findall("".join(shown)))
        rest = {name: value for name, value in values.items() if name not in dropped}
        return fill("".join(shown), rest).rstrip("\n")


def _is_empty(section: str, values: Mapping[str, str]) -> bool:
    shown = [values.get(name, "") for name in _PLACEHOLDER.findall(section)]
    return _NOTHING in shown and not any(value.startswith(_BEGIN) for value in shown)


@cache
def _read(name: str) -> str:
    return files("agentos.workflows").joinpath("prompts", name).read_text("utf-8")


def _listed(names: Iterable[str]) -> str:
    return "\n".join(f"- {name}".replace("\n", "\n  ") for name in names)
