"""The stamp at the end of a document: its item, the input it was written for, its hash, its authors. Pure.

One HTML comment: `<!-- agentos: item=LLD-42 input=sha256:... text=sha256:... by=DRAFTER+REVIEWER -->`.
"""

import hashlib
import re
from dataclasses import dataclass

MOCK = "mock"
_STAMP = re.compile(r"<!--[ \t]*agentos:([^<>]*)-->", re.IGNORECASE)
_FIELD = re.compile(r"(\w+)=(\S+)")
_CONFLICT = re.compile(r"^(<{7}|>{7})( |$)", re.MULTILINE)
_NOT_IN_STAMP = re.compile(r"[^A-Za-z0-9._:/@+#-]+")


@dataclass(frozen=True, kw_only=True)
class Stamp:
    """What a stamp says; missing fields are empty."""

    item: str = ""
    input: str = ""  # hash of the text the document was written for
    text: str = ""  # hash of the document without its stamp; documents of version 1 have none
    by: str = ""  # drafter+reviewer, or "mock"
    filed: str = ""  # owner/repo#12, in the receipt of a filed issue

    def __str__(self) -> str:
        fields = [f"item={_plain(self.item)}"]
        fields += [f"input=sha256:{self.input}"] if self.input else []
        fields += [f"text=sha256:{self.text}"] if self.text else []
        fields += [f"by={_plain(self.by)}"] if self.by else []
        fields += [f"filed={_plain(self.filed)}"] if self.filed else []
        return f"<!-- agentos: {' '.join(fields)} -->"


@dataclass(frozen=True, kw_only=True)
class Stamped:
    """A text, split into body and stamp."""

    body: str  # without its stamp, with LF line ends
    stamp: Stamp | None

    @property
    def unchanged(self) -> bool | None:
        """Whether the body is what was stamped; None if the stamp does not say."""
        if self.stamp is None or _CONFLICT.search(self.body):
            return False
        return None if not self.stamp.text else self.stamp.text == text_hash(self.body)

    @property
    def by_mock(self) -> bool:
        return self.stamp is not None and self.stamp.by == MOCK


def split(text: str) -> Stamped:
    """Take the last stamp out of a text, wherever it is; a text without one keeps its body."""
    stamps = list(_STAMP.finditer(text))
    if not stamps:
        return Stamped(body=text.replace("\r\n", "\n"), stamp=None)
    text = _with_line_feeds(text)
    found = list(_STAMP.finditer(text))[-1]
    fields = dict(_FIELD.findall(found[1]))
    before, after = text[: found.start()], text[found.end() :].strip("\n")
    body = before.rstrip("\n") + ("\n\n" + after if after else "") + "\n"
    return Stamped(
        body=body,
        stamp=Stamp(
            item=fields.get("item", ""),
            input=fields.get("input", "").removeprefix("sha256:"),
            text=fields.get("text", "").removeprefix("sha256:"),
            by=fields.get("by", ""),
            filed=fields.get("filed", ""),
        ),
    )


def seal(body: str, *, item: str, input_hash: str, by: str) -> str:
    """Add a stamp to the end of a document."""
    body = without_stamps(_with_line_feeds(body)).rstrip("\n")
    stamp = Stamp(item=item, input=input_hash, text=text_hash(body), by=by)
    return f"{body}\n\n{stamp}\n"


def text_hash(body: str) -> str:
    return hashlib.sha256(_with_line_feeds(body).strip("\n").encode("utf-8", "replace")).hexdigest()


def without_stamps(text: str) -> str:
    """Defuse everything that looks like a stamp; models and people may write anything."""
    return re.sub(r"<!--(\s*)agentos:", r"<!--\1(agentos):", text, flags=re.IGNORECASE)


def author(models: dict[str, str]) -> str:
    """Who wrote and approved a document, for its stamp; if one role is the mock, it is the mock's."""
    if any(model.partition(":")[0] == MOCK for model in models.values()):
        return MOCK
    return _plain("+".join(models.get(role, "") for role in ("drafter", "reviewer")))


def _with_line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _plain(text: str) -> str:
    return _NOT_IN_STAMP.sub("_", text)
