"""Every setting in one place: its name, default, meaning, and who may set it.

The flag, the AGENTOS_* variable and the key in a file all come from the field's name: `max_retries` is
`--max-retries`, `AGENTOS_MAX_RETRIES` and `max_retries = 5`. Imports nothing heavy: the help page reads this.
"""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentos.values import (
    Parser,
    Rule,
    any_paths,
    api_model,
    as_given,
    at_most,
    duration,
    labels,
    model,
    money,
    one_of,
    paths,
    repo_folder,
    repo_path,
    whole,
    yes_no,
)

DEFAULT_PARALLEL = 3  # what a bare --parallel means
PARALLEL_CAP = 10
REPO_ITERATIONS = 10  # reviews that a repo may ask for


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
