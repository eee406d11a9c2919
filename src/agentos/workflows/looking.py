"""What a model may ask to read, and which names of the code a draft mentions. Pure."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from agentos.model import counted
from agentos.repo_map.parts import Part, PartKind
from agentos.repo_map.path_kinds import SOURCE_ENDINGS
from agentos.repo_map.words import defined

LOOK = "look"  # the title of the schema
SCHEMA: dict[str, Any] = {
    "title": LOOK,
    "type": "object",
    "properties": {
        "wishes": {
            "type": "array",
            "items": {"type": "string"},
            "description": "path, path#Name, path:first-last, a folder, or words to search for.",
        }
    },
    "required": ["wishes"],
    "additionalProperties": False,
}
CHECKED_TOKENS = 8_000  # for the definitions that a draft names
NAMES_MOST = 80  # of one draft
_LONGEST = 400  # characters of a wish
_SPAN = re.compile(r"(?<!`)`([^`\n]{2,200})`(?!`)")
_FENCED = re.compile(r"^[ \t]{0,3}(```+|~~~+)[^\n]*\n(.*?)^[ \t]{0,3}\1", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"([A-Za-z_]\w*(?:(?:\.|::)[A-Za-z_]\w*)*)(\(.*\))?")
_FILE_ENDINGS = SOURCE_ENDINGS | {
    "cfg",
    "css",
    "html",
    "ini",
    "json",
    "lock",
    "md",
    "rst",
    "toml",
    "txt",
    "yaml",
    "yml",
}
_NEW = re.compile(
    r"\b(?:new|adds?|added|adding|introduc\w+|creat\w+|defin\w+|extract\w*|renam\w+|split\w*|becomes?)\b",
    re.IGNORECASE,
)
_CODE = re.compile(r"`[^`\n]+`|\b[\w.-]+/[\w./-]+|\b\w+\.(?:py|js|ts|go|rs|java|rb|c|h|cpp|cs|php)\b")


def read_wishes(reply: str) -> list[str] | None:
    """The wishes of a reply; None if it cannot be read."""
    start = reply.find("{") if "{" in reply else reply.find("[")
    try:
        value, _ = json.JSONDecoder().raw_decode(reply[max(0, start) :])
    except (ValueError, RecursionError):
        return None
    wishes = value.get("wishes") if isinstance(value, dict) else value
    if not isinstance(wishes, list):
        return None
    texts = (" ".join(one.split())[:_LONGEST] for one in wishes if isinstance(one, str))
    return list(dict.fromkeys(filter(None, texts)))


def names_code(texts: Iterable[str]) -> bool:
    """Whether one of the texts names a path or a piece of code."""
    return any(_CODE.search(text) for text in texts)


def names_in(draft: str) -> list[str]:
    """What looks like a name of the code in code marks, in order; not what the draft introduces."""
    prose = _FENCED.sub("", draft)
    new = {name.lower() for _, code in _FENCED.findall(draft) for name in defined(code)}
    for line in prose.splitlines():
        if _NEW.search(line):
            new.update(_last(name).lower() for name in _names(line))
    names = dict.fromkeys(name for name in _names(prose) if _last(name).lower() not in new)
    return list(names)[:NAMES_MOST]


def _names(text: str) -> list[str]:
    found = []
    for span in _SPAN.findall(text):
        name = _NAME.fullmatch(span.strip())
        if name is None or (name[1].rpartition(".")[2].lower() in _FILE_ENDINGS and "." in name[1]):
            continue
        telling = "_" in name[1].strip("_") or "." in name[1] or ":" in name[1] or name[2] is not None
        if telling or re.search(r"[a-z][A-Z]|^_", name[1]):
            found.append(name[1].replace("::", "."))
    return found


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def definitions_in(parts: Iterable[Part]) -> int:
    """How many definitions are shown; lines without a name count as one."""
    lines = [part for part in parts if part.kind is not PartKind.FOUND]
    return sum(len(part.name.split(", ")) if part.name else 1 for part in lines)


def summary(parts: Sequence[Part]) -> str:
    """What was read, for people."""
    files = {part.path for part in parts if part.kind is not PartKind.FOUND}
    found = sum(part.kind is PartKind.FOUND for part in parts)
    said = []
    if files:
        said.append(f"{counted(definitions_in(parts), 'definition')} in {counted(len(files), 'file')}")
    if found:
        said.append(counted(found, "search result"))
    return " and ".join(said)
