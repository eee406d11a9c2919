"""Turns what a person wrote into a value, or into a message that says what it must be. Pure."""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence, Sized
from pathlib import Path
from typing import Any

MOST = 1_000_000  # of any count
LONGEST_TEXT = 1_000  # characters of a value
LONGEST_LIST = 200
LONGEST_LANGUAGE = 40
LONGEST_TIME = 3650 * 86_400.0  # seconds
MOST_MONEY = 1e9  # USD

Parser = Callable[[Any], Any]

Rule = Callable[[Any], Any]
"""Maps a value from a repo's file to the one that applies: the same, a smaller one, or NotForRepo."""


class Rejected(ValueError):  # noqa: N818 - reads well without Error
    """A value is wrong; the text completes "must be"."""

    part: str | None = None  # the wrong entry of a list

    def about(self, name: str, shown: str) -> str:
        """The whole message about the value of a setting, flag or variable."""
        if self.part is None:
            return f"{name} must be {self}, not {shown}."
        return f"{name} {self.part}: must be {self}." if name[:2] == "--" else f"{name}: {self.about_part}."

    @property
    def about_part(self) -> str:
        return f"{'it' if self.part is None else repr(self.part)} must be {self}"


class NotForRepo(Rejected):
    """A value that only the user may set; the text completes "a repo may not choose"."""


class OutsideRepo(Rejected):
    """A path leads outside the repo, or into .git or .agentos."""


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise Rejected("non-empty text")
    if len(value) > LONGEST_TEXT:
        raise Rejected(f"text of at most {LONGEST_TEXT:,} characters")
    if _CONTROL.search(value):
        raise Rejected("text without control characters")
    return value


def path(value: Any) -> Path:
    return Path(text(value))


def paths(value: Any) -> tuple[Path, ...]:
    listed = _between_colons(value)
    _refuse_long(listed)
    return tuple(Path(one) for one in _each(repo_path, listed))


def globs(value: Any) -> tuple[str, ...]:
    """Patterns for paths from a list, or from one text with colons between them."""
    listed = _between_colons(value)
    _refuse_long(listed)
    return tuple(_each(text, listed))


def any_paths(value: Any) -> tuple[Path, ...]:
    """Paths from a list, or from one text with colons between them."""
    listed = _between_colons(value)
    _refuse_long(listed)
    return tuple(_each(path, listed))


def labels(value: Any) -> tuple[str, ...]:
    """Labels from a list, or from one text with commas between them."""
    if isinstance(value, str):
        value = [part for part in value.split(",") if part.strip()]
    if not isinstance(value, list | tuple):
        raise Rejected("a list of labels")
    _refuse_long(value)
    return tuple(dict.fromkeys(one.strip() for one in _each(text, value)))


def _each(parse: Parser, listed: Sequence[Any]) -> Iterator[Any]:
    for one in listed:
        try:
            yield parse(one)
        except Rejected as exc:
            exc.part = _short(one)
            raise


def _between_colons(value: Any) -> Sequence[Any]:
    if isinstance(value, str):
        return [part for part in value.split(":") if part]
    if not isinstance(value, list | tuple):
        raise Rejected("a list of paths")
    return value


def _refuse_long(value: Sized) -> None:
    if len(value) > LONGEST_LIST:
        raise Rejected(f"a list of at most {LONGEST_LIST} entries")


_LANGUAGE = re.compile(r"[^\W\d_]+(?:[ -][^\W\d_]+){0,3}")


def language_name(value: Any) -> str:
    """The name of a language; it becomes part of prompts, so it has room for nothing else."""
    named = text(value).strip()
    if len(named) > LONGEST_LANGUAGE or not _LANGUAGE.fullmatch(named):
        raise Rejected(f"the name of a language in letters, at most {LONGEST_LANGUAGE} characters")
    return named


def yes_no(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = _short(value).strip().lower()
    if word in {"1", "true", "yes", "on"}:
        return True
    if word in {"", "0", "false", "no", "off"}:
        return False
    raise Rejected("true or false")


def whole(minimum: int) -> Parser:
    needed = f"a whole number from {minimum} to {MOST:,}"

    def parse(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise Rejected(needed)
        try:
            number = int(str(value).strip())
        except ValueError:
            raise Rejected(needed) from None
        if not minimum <= number <= MOST:
            raise Rejected(needed)
        return number

    return parse


_DURATION = re.compile(r"(?:\d+(?:\.\d+)?\s*(?:ms|[smhd])\s*)+|\d+(?:\.\d+)?")
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|[smhd])?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def duration(value: Any) -> float:
    written = "" if isinstance(value, bool) else _short(value).strip().lower()
    parts = _DURATION_PART.findall(written) if _DURATION.fullmatch(written) else []
    units = [_UNITS[unit or "s"] for _, unit in parts]
    # From the largest unit to the smallest, each once: 30m1h and 1h1h are mistakes.
    if not parts or units != sorted(set(units), reverse=True):
        raise Rejected("a duration such as 90, 90s, 5m or 1h30m")
    seconds = sum(float(number) * unit for (number, _), unit in zip(parts, units, strict=True))
    if not 0 < seconds <= LONGEST_TIME:
        raise Rejected("a duration above 0 and up to 3650d")
    return seconds


def _short(value: Any) -> str:
    """A number or text as it was written; empty if it is too long."""
    try:
        written = str(value)
    except ValueError:  # a number with thousands of digits
        return ""
    return written if len(written) <= LONGEST_TEXT else ""


def money(value: Any) -> float:
    try:
        amount = float(value)
    except (TypeError, ValueError, OverflowError):
        raise Rejected("an amount in USD above 0, such as 5 or 0.50") from None
    if isinstance(value, bool) or not 0 < amount <= MOST_MONEY:
        raise Rejected(f"an amount in USD above 0 and up to {MOST_MONEY:,.0f}")
    return amount


def one_of(*words: str) -> Parser:
    *most, last = words
    listed = f"{', '.join(most)} or {last}" if most else last

    def parse(value: Any) -> str:
        if value not in words:
            raise Rejected(listed)
        return str(value)

    return parse


MOCK = "mock"
_PRIVATE = frozenset({".git", ".agentos"})
_SHORT_NAME = re.compile(r"(?:git|agento)~\d+")  # their short names on Windows
_UNSEEN = re.compile("[\xad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")  # ignored by some file systems
_MODEL = re.compile(r"[a-z][a-z0-9-]*:\S+")


def model(value: Any) -> str:
    if not isinstance(value, str) or not _MODEL.fullmatch(value):
        raise Rejected("provider:model, such as openai:gpt-5")
    return text(value)


def runs_command(value: Any) -> bool:
    """Whether a model is a program on this machine, which only the user may choose."""
    return isinstance(value, str) and value.partition(":")[0].endswith("-cli")


def as_given(value: Any) -> Any:
    """The rule for settings that a repo may set freely."""
    return value


def api_model(value: str) -> str:
    """The rule for models: a repo may name only models that are called with a key."""
    if runs_command(value):
        raise NotForRepo("a model that runs a command")
    if value.partition(":")[0] == MOCK:
        raise NotForRepo("the mock, whose reviews are made up")
    return value


def at_most(most: int) -> Rule:
    return lambda value: min(value, most)


def repo_path(value: Any) -> str:
    path = Path(text(value))
    if path.is_absolute() or ".." in path.parts:
        raise OutsideRepo("inside the repo")
    if (part := private_part(path)) is not None:
        raise OutsideRepo(f"outside {part}")
    return str(path)


def repo_folder(value: Any) -> str:
    folder = repo_path(value)
    if not Path(folder).parts:
        raise OutsideRepo("a folder below the repo's root")
    return folder


def private_part(path: Path) -> str | None:
    """The part of a path that names .git or .agentos, in any spelling that some file system accepts."""
    for part in path.parts:
        plain = unicodedata.normalize("NFKC", _UNSEEN.sub("", part)).casefold().partition(":")[0].rstrip(". ")
        if plain in _PRIVATE or _SHORT_NAME.fullmatch(plain):
            return ".agentos" if plain.startswith((".agentos", "agento")) else ".git"
    return None
