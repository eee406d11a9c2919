"""Every setting in one place: its name, default, meaning, and who may set it.

The flag, the AGENTOS_* variable and the key in a file all come from the field's name: `max_retries` is
`--max-retries`, `AGENTOS_MAX_RETRIES` and `max_retries = 5`. Imports nothing heavy: the help page reads this.
"""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentos.parse_value import (
    Parser,
    Rule,
    any_paths,
    api_model,
    as_given,
    at_most,
    duration,
    globs,
    labels,
    language_name,
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
FILES_ONLY = "Files only"  # the group of settings that have no flag
LOOK_ROUNDS = 4
REPO_ITERATIONS = 10  # the most reviews that a repo may set


@dataclass(frozen=True, kw_only=True)
class About:
    """Everything about a setting except its value."""

    parse: Parser
    help: str
    group: str
    metavar: str | None = None
    repo: Rule | None = None  # None: a repo's file may not set it; else what it may set
    short: str | None = None
    negative: str | None = None  # the flag for no, such as --no-file


def setting(default: Any, parse: Parser, help: str, group: str, **about: Any) -> Any:  # noqa: A002
    return field(default=default, metadata={"about": About(parse=parse, help=help, group=group, **about)})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings with their values; Config also holds where each came from."""

    all: bool = setting(False, yes_no, "Run all pending items.", "Which items")
    label: tuple[str, ...] = setting(
        (),
        labels,
        "Run only items with this label; repeat it to require several labels.",
        "Which items",
        metavar="NAME",
    )
    limit: int | None = setting(None, whole(1), "Run at most this many items.", "Which items", metavar="N")
    source: str = setting(
        "auto",
        one_of("auto", "github", "local"),
        "Read issues from auto, github or local; auto is github if origin is on GitHub and a token is found.",
        "Which items",
        metavar="WHERE",
    )
    retry_failed: bool = setting(
        False,
        yes_no,
        "Retry the items that failed, timed out or need revision; the review limit starts again.",
        "Which items",
    )
    fresh: bool = setting(
        False,
        yes_no,
        "Start over, even with approved items; the old documents are kept in the lineage.",
        "Which items",
    )

    parallel: int = setting(
        1,
        whole(1),
        "Run this many items at a time; 3 if no number is given.",
        "How to run",
        metavar="[N]",
        repo=as_given,
        short="-j",
    )
    timeout: float = setting(
        3600.0,
        duration,
        "Kill a worker after this long, not counting the time it waits for a key.",
        "How to run",
        metavar="DURATION",
    )
    run_timeout: float | None = setting(
        None,
        duration,
        "Stop the run after this long; the same command resumes it.",
        "How to run",
        metavar="DURATION",
    )
    max_retries: int = setting(
        5, whole(0), "Retry a failed call at most this many times.", "How to run", metavar="N"
    )
    max_iterations: int = setting(
        5,
        whole(1),
        "Stop an item after this many reviews without an approval.",
        "How to run",
        metavar="N",
        repo=at_most(REPO_ITERATIONS),
    )
    max_wait: float = setting(
        3600.0,
        duration,
        "Let an item wait at most this long for a key or a provider, then stop; the same command resumes.",
        "How to run",
        metavar="DURATION",
    )
    no_wait: bool = setting(
        False,
        yes_no,
        "Stop as soon as no key is available or a provider is down; the same command resumes.",
        "How to run",
    )
    fail_fast: bool = setting(False, yes_no, "Stop the run when an item fails.", "How to run")

    drafter: str | None = setting(
        None,
        model,
        "Draft with this model, given as provider:model.",
        "Models, cost and context",
        metavar="MODEL",
        repo=api_model,
    )
    reviewer: str | None = setting(
        None,
        model,
        "Review with this model, given as provider:model.",
        "Models, cost and context",
        metavar="MODEL",
        repo=api_model,
    )
    mock: bool = setting(
        False,
        yes_no,
        "Use the built-in mock instead of models: no network, no cost, nothing filed.",
        "Models, cost and context",
    )
    budget: float | None = setting(
        None, money, "Spend at most this much on the run.", "Models, cost and context", metavar="USD"
    )
    item_budget: float | None = setting(
        None, money, "Spend at most this much on each item.", "Models, cost and context", metavar="USD"
    )
    context: tuple[Path, ...] = setting(
        (),
        paths,
        "Give both models this file or folder of the repo to read; repeatable.",
        "Models, cost and context",
        metavar="PATH",
        repo=as_given,
    )
    engine: str = setting(
        "local",
        one_of("local", "postgres"),
        "Run items here (local) or on worker machines (postgres).",
        "Models, cost and context",
        metavar="ENGINE",
    )

    dry_run: bool = setting(
        False, yes_no, "Show what a run would do; call no model, write nothing.", "Effects"
    )
    file: bool = setting(
        True,
        yes_no,
        "File approved issues on GitHub, or keep them as local files.",
        "Effects",
        negative="--no-file",
    )
    yes: bool = setting(False, yes_no, "File without asking.", "Effects")

    output: str = setting(
        "stream",
        one_of("stream", "grouped", "quiet"),
        "Show lines as they arrive (stream), item by item (grouped), or not at all (quiet).",
        "Output",
        metavar="HOW",
    )
    json: bool = setting(
        False, yes_no, "Print JSON on standard output and everything else on standard error.", "Output"
    )
    verbose: bool = setting(False, yes_no, "Also show every step, call and answer.", "Output", short="-v")
    quiet: bool = setting(False, yes_no, "Show only the summary.", "Output", short="-q")

    trace: bool = setting(
        True,
        yes_no,
        "Write the run's spans to trace.jsonl; they are sent only if OTEL_EXPORTER_OTLP_ENDPOINT is set.",
        FILES_ONLY,
    )
    langsmith: bool = setting(
        False,
        yes_no,
        "Pass LangSmith's variables to the workers, which then send texts to LangSmith.",
        FILES_ONLY,
    )
    safe_directories: tuple[Path, ...] = setting(
        (), any_paths, "Folders of other users that you trust; * trusts all.", FILES_ONLY
    )
    filing_labels: tuple[str, ...] = setting(
        (),
        labels,
        "The labels that a model may give to a filed issue; others stay text in its body.",
        FILES_ONLY,
    )
    context_tokens: int = setting(
        40_000,
        whole(0),
        "The size of the repository map that both models get with each item; 0 turns it off.",
        FILES_ONLY,
    )
    look_rounds: int = setting(
        LOOK_ROUNDS,
        whole(0),
        "How often the drafter of a design may ask to read more of the repository; 0 turns it off.",
        FILES_ONLY,
        repo=at_most(LOOK_ROUNDS),
    )
    look_tokens: int = setting(40_000, whole(0), "How much it may read in all, for one item.", FILES_ONLY)
    context_exclude: tuple[str, ...] = setting(
        (), globs, "Files that never go into the repository map, as patterns.", FILES_ONLY, repo=as_given
    )
    context_allow: tuple[str, ...] = setting(
        (),
        globs,
        "Files that may be sent to a model although they look like secrets, as patterns.",
        FILES_ONLY,
    )
    keep_prompts: bool = setting(
        False, yes_no, "Keep the prompt and the answer of every call in the run's folder.", FILES_ONLY
    )
    max_parallel: int = setting(PARALLEL_CAP, whole(1), "The cap on --parallel.", FILES_ONLY)
    issue_template: str | None = setting(
        None, repo_path, "The repo's own issue template.", FILES_ONLY, repo=as_given
    )
    lld_template: str | None = setting(
        None, repo_path, "The repo's own LLD template.", FILES_ONLY, repo=as_given
    )
    rules: str | None = setting(
        None,
        repo_path,
        "The team's own rules, a file of the repo: the drafter follows them, the reviewer checks them.",
        FILES_ONLY,
        repo=as_given,
    )
    language: str | None = setting(
        None,
        language_name,
        "The language of documents and reviews, such as German.",
        FILES_ONLY,
        repo=as_given,
    )
    briefs_folder: str = setting(
        "ideas/active", repo_folder, "The folder with the briefs.", FILES_ONLY, repo=as_given
    )
    issues_folder: str = setting(
        "issues/active", repo_folder, "The folder with the local issues.", FILES_ONLY, repo=as_given
    )
    lld_folder: str = setting(
        "docs/lld/active", repo_folder, "The folder for approved LLDs.", FILES_ONLY, repo=as_given
    )
    lineage_folder: str = setting(
        "docs/lineage",
        repo_folder,
        "The folder for the lineage: source, drafts, verdicts and final text of each item.",
        FILES_ONLY,
        repo=as_given,
    )

    @property
    def folders(self) -> dict[str, str]:
        """The folders of documents and lineage, by the names that workflows use."""
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
