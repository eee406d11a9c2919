"""Names of items: what a person types, what files are called, and better names to suggest. Pure."""

import re
import unicodedata
from collections.abc import Callable, Container
from collections.abc import Set as AbstractSet

from agentos.errors import UsageError
from agentos.model import MAX_ID_LENGTH, check_id

IdOf = Callable[[str], str]  # from a file's stem to the item's id

_NUMBERED = re.compile(r"(\d+)(?:-.*)?")
_HASHED = re.compile(r"#([0-9]+)")
_SPELT = str.maketrans({
    "\u00e4": "ae", "\u00f6": "oe", "\u00fc": "ue", "\u00c4": "Ae", "\u00d6": "Oe", "\u00dc": "Ue",
    "\u00df": "ss", "\u00e6": "ae", "\u00c6": "Ae", "\u00f8": "oe", "\u00d8": "Oe", "\u0153": "oe",
    "\u0152": "Oe", "\u00e5": "aa", "\u00c5": "Aa", "\u0142": "l", "\u0141": "L", "\u0111": "d",
    "\u0110": "D", "\u00f0": "d", "\u00fe": "th",
})  # fmt: skip


def issue_id(stem: str) -> str:
    """`42` and `42-some-title` are item 42, anything else is its own id."""
    numbered = _NUMBERED.fullmatch(stem)
    return numbered[1] if numbered else stem


def brief_id(stem: str) -> str:
    """The slug of a brief: its file's name, with a dash for anything but letters, digits, `_` and `-`."""
    return _slug(stem) or stem


def command_of(workflow: str) -> str:
    """The command that runs a workflow, without `agentos`."""
    return workflow if workflow in {"lld", "issue"} else f"run {workflow}"


def step_in_words(node: str) -> str:
    """A node of a workflow, for people: an item on `hold` waits until a person decides or tries again."""
    return "decision" if node == "hold" else node


def is_path(name: str) -> bool:
    """Whether an item is named by its file."""
    return name.endswith(".md")


def ids_named(name: str, prefix: str, id_of: IdOf = issue_id) -> tuple[str, ...]:
    """The ids that a name can mean, best match first.

    `42`, `#42`, `LLD-42`, `42-some-title` and `issues/active/42-some-title.md` all name item 42.
    """
    if is_path(name):
        stem = re.split(r"[/\\]", name)[-1].removesuffix(".md")
        return tuple(dict.fromkeys((id_of(stem), stem)))
    if hashed := _HASHED.fullmatch(name):
        return (hashed[1],)
    labelled = name.removeprefix(f"{prefix}-") if prefix else name
    return tuple(dict.fromkeys(one for text in (labelled, name) for one in (text, id_of(text))))


def check_name(name: str) -> None:
    """Refuse an impossible name before any work; a path is looked up later."""
    if not is_path(name) and not _HASHED.fullmatch(name):
        check_id(name)


def is_id(text: str) -> bool:
    try:
        check_id(text)
    except UsageError:
        return False
    return True


def safe_name(name: str, taken: Container[str]) -> str:
    """A name to show for a file without a usable id; its dot distinguishes it from every id."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", _spelt(name.removesuffix(".md"))).strip("-.")[:MAX_ID_LENGTH]
    found, number = f"{plain or 'file'}.md", 2
    while found in taken:
        found, number = f"{plain or 'file'}.{number}.md", number + 1
    return found


def proposal(stem: str, *, title: str, id_of: IdOf, taken: AbstractSet[str]) -> str:
    """A usable stem close to the given one, with a free id and name; `taken` is in lower case."""
    base = (_slug(_spelt(stem)) or _slug(_spelt(title)) or "item")[: MAX_ID_LENGTH - 4].strip("-")
    numbered = _NUMBERED.fullmatch(base)
    if numbered and id_of(base) == numbered[1]:
        # Changing the title would not change the number, which is the id.
        rest, number = base.removeprefix(numbered[1]), int(numbered[1])
        if _free(base, id_of, taken):
            return base
        highest = max((int(one) for one in taken if re.fullmatch(r"[0-9]{1,9}", one)), default=number)
        return f"{highest + 1}{rest}"
    found, number = base, 2
    while not _free(found, id_of, taken):
        found, number = f"{base}-{number}", number + 1
    return found


def _free(stem: str, id_of: IdOf, taken: AbstractSet[str]) -> bool:
    return is_id(id_of(stem)) and id_of(stem).lower() not in taken and f"{stem}.md".lower() not in taken


def _spelt(text: str) -> str:
    """Spell out letters that have no ASCII form, as people do in file names."""
    return unicodedata.normalize("NFC", text).translate(_SPELT)


def _slug(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9_]+", "-", plain).strip("-")
