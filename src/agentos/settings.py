"""Every setting in one place: its name, default, meaning, and who may set it.

The flag, the AGENTOS_* variable and the key in a file all come from the field's name: `max_retries` is
`--max-retries`, `AGENTOS_MAX_RETRIES` and `max_retries = 5`. Imports nothing heavy: the help page reads this.
"""

import dataclasses
import re
import unicodedata
from collections.abc import Callable, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DEFAULT_PARALLEL = 3  # what a bare --parallel means
PARALLEL_CAP = 10
REPO_ITERATIONS = 10  # reviews that a repo may ask for
MOST = 1_000_000  # of anything that is counted
LONGEST_TEXT = 1_000  # characters of a value
LONGEST_LIST = 200
LONGEST_TIME = 3650 * 86_400.0  # seconds
MOST_MONEY = 1e9  # USD

Parser = Callable[[Any], Any]


class Rejected(ValueError):  # noqa: N818 - read as what it is
    """A value does not fit; the text says what would."""


class NotForRepo(Rejected):
    """A value that only the user may set; the text says why."""


Rule = Callable[[Any], Any]
"""From a value that a repo's file gives to the one that is taken: the same, a smaller one, or NotForRepo."""


@dataclass(frozen=True, kw_only=True)
class About:
    """What is known of a setting beside its value."""

    parse: Parser
    help: str
    group: str
    metavar: str | None = None
    repo: Rule | None = None  # whether a repo's own file may set it, and what of it is taken
    short: str | None = None
    negative: str | None = None  # the flag that says no


def setting(default: Any, parse: Parser, help: str, group: str, **about: Any) -> Any:  # noqa: A002
    return field(default=default, metadata={"about": About(parse=parse, help=help, group=group, **about)})


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise Rejected("a text that is not empty is needed")
    if len(value) > LONGEST_TEXT:
        raise Rejected(f"a text of at most {LONGEST_TEXT:,} characters is needed")
    if _CONTROL.search(value):
        raise Rejected("a text without control characters is needed")
    return value


def path(value: Any) -> Path:
    return Path(text(value))


def paths(value: Any) -> tuple[Path, ...]:
    if isinstance(value, str):
        value = [part for part in value.split(":") if part]
    if not isinstance(value, list | tuple):
        raise Rejected("a list of paths is needed")
    _refuse_long(value)
    return tuple(Path(repo_path(one)) for one in value)


def any_paths(value: Any) -> tuple[Path, ...]:
    """Paths from a list, or from one text that separates them by colons."""
    if isinstance(value, str):
        value = [part for part in value.split(":") if part]
    if not isinstance(value, list | tuple):
        raise Rejected("a list of paths is needed")
    return tuple(path(one) for one in value)


def labels(value: Any) -> tuple[str, ...]:
    """Labels from a list, or from one text that separates them by commas."""
    if isinstance(value, str):
        value = [part for part in value.split(",") if part.strip()]
    if not isinstance(value, list | tuple):
        raise Rejected("a list of labels is needed")
    _refuse_long(value)
    return tuple(dict.fromkeys(text(one).strip() for one in value))


def _refuse_long(value: Sized) -> None:
    if len(value) > LONGEST_LIST:
        raise Rejected(f"a list of at most {LONGEST_LIST} is needed")


def yes_no(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = _short(value).strip().lower()
    if word in {"1", "true", "yes", "on"}:
        return True
    if word in {"", "0", "false", "no", "off"}:
        return False
    raise Rejected("true or false is needed")


def whole(minimum: int) -> Parser:
    needed = f"a whole number from {minimum} to {MOST:,} is needed"

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


_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def duration(value: Any) -> float:
    found = None if isinstance(value, bool) else _DURATION.fullmatch(_short(value).strip().lower())
    if not found:
        raise Rejected("a duration is needed: seconds, or such as 90s, 5m, 1h")
    seconds = float(found[1]) * _UNITS[found[2] or "s"]
    if not 0 < seconds <= LONGEST_TIME:
        raise Rejected("a duration above zero and of at most 3650d is needed")
    return seconds


def _short(value: Any) -> str:
    """A number or text as it was written; what is too long for one is nothing."""
    try:
        written = str(value)
    except ValueError:  # a number of thousands of digits
        return ""
    return written if len(written) <= LONGEST_TEXT else ""


def money(value: Any) -> float:
    try:
        amount = float(value)
    except (TypeError, ValueError, OverflowError):
        raise Rejected("an amount in USD is needed") from None
    if isinstance(value, bool) or not 0 < amount <= MOST_MONEY:
        raise Rejected(f"an amount in USD above zero and of at most {MOST_MONEY:,.0f} is needed")
    return amount


def one_of(*words: str) -> Parser:
    def parse(value: Any) -> str:
        if value not in words:
            raise Rejected(f"one of {', '.join(words)} is needed")
        return str(value)

    return parse


MOCK = "mock"
_PRIVATE = frozenset({".git", ".agentos"})
_SHORT_NAME = re.compile(r"(?:git|agento)~\d+")  # what Windows makes of them
_UNSEEN = re.compile("[\xad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")  # passed over by some disks
_MODEL = re.compile(r"[a-z][a-z0-9-]*:\S+")


def model(value: Any) -> str:
    if not isinstance(value, str) or not _MODEL.fullmatch(value):
        raise Rejected("provider:model is needed, such as openai:gpt-5")
    return text(value)


def runs_command(value: Any) -> bool:
    """Tell whether a model is a program on this machine, which only the user may choose."""
    return isinstance(value, str) and value.partition(":")[0].endswith("-cli")


def as_given(value: Any) -> Any:
    """The rule for what a repo may set as it likes."""
    return value


def api_model(value: str) -> str:
    """The rule for models: a repo names those that are called with a key, and no other."""
    if runs_command(value):
        raise NotForRepo("which runs a command")
    if value.partition(":")[0] == MOCK:
        raise NotForRepo("whose reviews are made up")
    return value


def at_most(most: int) -> Rule:
    return lambda value: min(value, most)


class OutsideRepo(Rejected):
    """A path leads out of the repo, or to what is not the repo's content."""


def repo_path(value: Any) -> str:
    path = Path(text(value))
    if path.is_absolute() or ".." in path.parts:
        raise OutsideRepo("a path inside the repo is needed")
    if (part := private_part(path)) is not None:
        raise OutsideRepo(f"a path outside of {part} is needed")
    return str(path)


def repo_folder(value: Any) -> str:
    folder = repo_path(value)
    if not Path(folder).parts:
        raise OutsideRepo("a folder below the repo's own is needed")
    return folder


def private_part(path: Path) -> str | None:
    """The part of a path that is git's or ours, however it is spelt; some disks know a name by many."""
    for part in path.parts:
        plain = unicodedata.normalize("NFKC", _UNSEEN.sub("", part)).casefold().partition(":")[0].rstrip(". ")
        if plain in _PRIVATE or _SHORT_NAME.fullmatch(plain):
            return ".agentos" if plain.startswith((".agentos", "agento")) else ".git"
    return None


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings with their values; where each came from is kept beside it in Config."""

    all: bool = setting(False, yes_no, "Take every pending item.", "Which")
    label: tuple[str, ...] = setting(
        (),
        labels,
        "Take only items with this label; may be given more than once, then all must be there.",
        "Which",
        metavar="NAME",
    )
    limit: int | None = setting(None, whole(1), "Take at most this many items.", "Which", metavar="N")
    source: str = setting(
        "auto",
        one_of("auto", "github", "local"),
        "Where issues come from: auto, github or local.",
        "Which",
        metavar="WHERE",
    )
    retry_failed: bool = setting(
        False,
        yes_no,
        "Take the items that failed, timed out or need revision, with a new allowance of tries.",
        "Which",
    )
    fresh: bool = setting(
        False, yes_no, "Start items over, also approved ones; what was there is kept in the lineage.", "Which"
    )

    parallel: int = setting(
        1,
        whole(1),
        "Run this many items at once; 3 if no number is given.",
        "How",
        metavar="[N]",
        repo=as_given,
        short="-j",
    )
    timeout: float = setting(
        3600.0,
        duration,
        "Kill a worker that ran this long, waiting for a key not counted.",
        "How",
        metavar="DURATION",
    )
    run_timeout: float | None = setting(
        None, duration, "Stop the whole run after this long; it can be resumed.", "How", metavar="DURATION"
    )
    max_retries: int = setting(5, whole(0), "Try a failing call again this often.", "How", metavar="N")
    max_iterations: int = setting(
        5,
        whole(1),
        "Stop after this many reviews without an approval.",
        "How",
        metavar="N",
        repo=at_most(REPO_ITERATIONS),
    )
    max_wait: float = setting(
        3600.0,
        duration,
        "Wait this long for a key when all rest, then stop resumable.",
        "How",
        metavar="DURATION",
    )
    no_wait: bool = setting(False, yes_no, "Stop resumable at once when all keys rest.", "How")
    fail_fast: bool = setting(False, yes_no, "Stop at the first item that fails.", "How")

    drafter: str | None = setting(
        None, model, "The model that drafts, as provider:model.", "With what", metavar="MODEL", repo=api_model
    )
    reviewer: str | None = setting(
        None,
        model,
        "The model that reviews, as provider:model.",
        "With what",
        metavar="MODEL",
        repo=api_model,
    )
    mock: bool = setting(
        False, yes_no, "Use the built-in mock: no network, no cost, no outward effect.", "With what"
    )
    budget: float | None = setting(
        None, money, "Spend at most this much in the run.", "With what", metavar="USD"
    )
    item_budget: float | None = setting(
        None, money, "Spend at most this much on an item.", "With what", metavar="USD"
    )
    context: tuple[Path, ...] = setting(
        (),
        paths,
        "Give the drafter this file or folder of the repo to read; may be given more than once.",
        "With what",
        metavar="PATH",
        repo=as_given,
    )
    engine: str = setting(
        "local", one_of("local", "postgres"), "Where items run.", "With what", metavar="ENGINE"
    )

    dry_run: bool = setting(False, yes_no, "Show what would be done; no call, no write.", "Effects")
    file: bool = setting(
        True,
        yes_no,
        "File approved issues on GitHub, or keep them as local files.",
        "Effects",
        negative="--no-file",
    )
    yes: bool = setting(False, yes_no, "Do not ask before filing.", "Effects")

    output: str = setting(
        "stream",
        one_of("stream", "grouped", "quiet"),
        "Show lines as they come (stream), item by item (grouped), or not at all (quiet).",
        "Output",
        metavar="HOW",
    )
    json: bool = setting(
        False, yes_no, "Print JSON on standard output, everything else on standard error.", "Output"
    )
    verbose: bool = setting(False, yes_no, "Show every node and lease, too.", "Output", short="-v")
    quiet: bool = setting(False, yes_no, "Show only the summary.", "Output", short="-q")

    trace: bool = setting(
        True,
        yes_no,
        "Keep the run's spans in trace.jsonl; sent only where OTEL_EXPORTER_OTLP_ENDPOINT is set.",
        "Files only",
    )
    langsmith: bool = setting(
        False,
        yes_no,
        "Let LangSmith's own variables reach the workers, which then send texts to LangSmith.",
        "Files only",
    )
    safe_directories: tuple[Path, ...] = setting(
        (), any_paths, "Folders to work in though they belong to another user; * is all.", "Files only"
    )
    filing_labels: tuple[str, ...] = setting(
        (),
        labels,
        "The labels that a filed issue may get from its model; others stay text in its body.",
        "Files only",
    )
    max_parallel: int = setting(PARALLEL_CAP, whole(1), "The cap on --parallel.", "Files only")
    issue_template: str | None = setting(
        None, repo_path, "The repo's own issue template.", "Files only", repo=as_given
    )
    lld_template: str | None = setting(
        None, repo_path, "The repo's own LLD template.", "Files only", repo=as_given
    )
    briefs_folder: str = setting(
        "ideas/active", repo_folder, "Where briefs are.", "Files only", repo=as_given
    )
    issues_folder: str = setting(
        "issues/active", repo_folder, "Where local issues are.", "Files only", repo=as_given
    )
    lld_folder: str = setting(
        "docs/lld/active", repo_folder, "Where approved LLDs go.", "Files only", repo=as_given
    )
    lineage_folder: str = setting(
        "docs/lineage", repo_folder, "Where the paper trail goes.", "Files only", repo=as_given
    )

    @property
    def folders(self) -> dict[str, str]:
        """Where documents and trails are, by the names that workflows know."""
        return {"issues": self.issues_folder, "lld": self.lld_folder, "lineage": self.lineage_folder}


def about(name: str) -> About:
    found: About = _FIELDS[name].metadata["about"]
    return found


def flag_of(name: str) -> str:
    return "--" + name.replace("_", "-")


def variable_of(name: str) -> str:
    return "AGENTOS_" + name.upper()


_FIELDS = {one.name: one for one in dataclasses.fields(Settings)}
NAMES = tuple(_FIELDS)
DEFAULTS: dict[str, Any] = {name: one.default for name, one in _FIELDS.items()}
