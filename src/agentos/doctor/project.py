"""Checks that there is a project, and that a run can read and write what it needs there."""

import os
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shlex import quote

from agentos import __version__, programs
from agentos.app.named_files import check_named_files, context_rules
from agentos.config import Config
from agentos.coordinator.item_facts import survey
from agentos.coordinator.plan import Choice, make_plan
from agentos.discovery.local import list_files
from agentos.doctor.check import Check, State
from agentos.errors import AgentosError
from agentos.model import Item, counted
from agentos.settings import Settings
from agentos.store.home import Home
from agentos.store.records import Records
from agentos.workflows.context import read_context
from agentos.workflows.document_workflow import ReviewedWorkflow
from agentos.workflows.issue import WORKFLOW as ISSUE
from agentos.workflows.lld import WORKFLOW as LLD
from agentos.workflows.team_rules import read_rules

GIT_SECONDS = 5.0


def check_git(worktree: Path | None, environment: Mapping[str, str]) -> Iterator[Check]:
    """Check for git and a repository; a project works without them, but nothing is versioned."""
    version = _git(["--version"], environment, worktree)
    if version is None:
        yield Check(
            section="git",
            name="installed",
            state=State.WARNING,
            text="git is not on your PATH. Runs work, but without GitHub.",
            fix="install git: https://git-scm.com/downloads",
        )
        return
    yield Check(section="git", name="installed", text=version)
    if worktree is None:
        return
    if not any((folder / ".git").exists() for folder in (worktree, *worktree.parents)):
        yield Check(
            section="git",
            name="repository",
            state=State.WARNING,
            text=f"{worktree} is not in a git repository. Runs work, but nothing is versioned.",
            fix="git init",
        )
    elif (top := _git(["rev-parse", "--show-toplevel"], environment, worktree)) is None:
        yield Check(
            section="git",
            name="repository",
            state=State.WARNING,
            text=f"git rejects the repository of {worktree}.",
            fix=f"git -C {quote(str(worktree))} status",
        )
    else:
        yield Check(section="git", name="repository", text=top)


def _git(arguments: Sequence[str], environment: Mapping[str, str], worktree: Path | None) -> str | None:
    output = programs.git(arguments, environment, worktree, seconds=GIT_SECONDS)
    return None if output is None else output.decode("utf-8", errors="replace").strip()


def check_program() -> Check:
    text = f"agentos {__version__}, Python {platform.python_version()} on {sys.platform}"
    return Check(section="project", name="program", text=text)


def check_project(worktree: Path, home: Home | None, config: Config, home_from: str) -> Iterator[Check]:
    """Check the folders and their items, the home, and the files that settings name."""
    yield Check(section="project", name="worktree", text=str(worktree))
    settings = config.settings
    if home is not None:
        yield _check_home(home, worktree, home_from)
    for flow in (LLD, ISSUE):
        yield from _check_items(flow, worktree, home, settings)
    for flow in (ISSUE, LLD):
        if (template := getattr(settings, f"{flow.name}_template")) is not None:
            yield _check_template(flow, worktree, settings, template)
    if settings.context:
        yield _check_context(worktree, config)
    yield from _check_not_decrypted(worktree, config)
    if settings.rules is not None:
        yield _check_rules(worktree, settings.rules)


def _check_home(home: Home, worktree: Path, home_from: str) -> Check:
    where = home.path
    if where.exists() and not where.is_dir():
        return Check(
            section="project",
            name="home",
            state=State.PROBLEM,
            text=f"{where} is a file, but the home must be a folder.",
            fix=f"mv {quote(str(where))} {quote(str(where))}.old",
        )
    nearest = next(folder for folder in (where, *where.parents) if folder.exists())
    if not os.access(nearest, os.W_OK | os.X_OK):
        return Check(
            section="project",
            name="home",
            state=State.PROBLEM,
            text=f"{nearest} is not writable, but the home is {where}.",
            fix=f"chmod u+rwx {quote(str(nearest))}\nexport AGENTOS_HOME=DIR",
        )
    why = f" ({home_from})" if home_from else ""
    outside = "" if where.is_relative_to(worktree) else ", outside the project, as you set it"
    missing = "" if where.exists() else ", created by the first run"
    return Check(section="project", name="home", text=f"{where}{why}{outside}{missing}")


def _check_items(
    flow: ReviewedWorkflow, worktree: Path, home: Home | None, settings: Settings
) -> Iterator[Check]:
    place = flow.folder(worktree, settings)
    name, folder = f"{flow.source_name}s", place.path
    try:
        items = list_files(place)
        pending, mocked = _pending(flow, items, home, worktree, settings)
    except AgentosError as exc:
        fix = f"ls -la {quote(str(worktree / folder))}"
        yield Check(section="project", name=name, state=State.PROBLEM, text=str(exc), fix=fix)
        return
    if not items:
        there = (worktree / folder).is_dir()
        text = f"{folder} is empty" if there else f"{folder} does not exist"
        fix = "" if there else "agentos init"
        yield Check(section="project", name=name, text=text, fix=fix)
        return
    text = f"{counted(len(items), flow.source_name)} in {folder}, {pending} pending"
    text += f" ({mocked} done with the mock only)" if mocked else ""
    yield Check(section="project", name=name, text=text)
    bad = [item.problem for item in items if item.problem is not None]
    if bad:
        more = f", and {len(bad) - 1} more" if len(bad) > 1 else ""
        yield Check(
            section="project",
            name=name,
            state=State.WARNING,
            text=f"{bad[0]}{more}; a run with --all fails on it.",
            fix=f"agentos {flow.name} --all --dry-run",
        )


def _pending(
    flow: ReviewedWorkflow, items: Sequence[Item], home: Home | None, worktree: Path, settings: Settings
) -> tuple[int, int]:
    """Count the items that a real run would run, and how many of those the mock has done."""
    if home is None:
        return sum(item.problem is None for item in items), 0
    with Records(home.records, write=False) as records:
        folders = settings.folders
        known = survey(flow, items, records, worktree=worktree, folders=folders, filing=flow.filed)
    plan = make_plan(items, known, Choice())
    documents = [known[entry.item.id].document for entry in plan if entry.runs]
    return len(documents), sum(one is not None and one.by_mock for one in documents)


def _check_template(flow: ReviewedWorkflow, worktree: Path, settings: Settings, template: str) -> Check:
    try:
        flow.prepare(worktree, settings)
    except AgentosError as exc:
        return Check(
            section="project",
            name=f"{flow.name} template",
            state=State.PROBLEM,
            text=str(exc),
            fix=f"fix {template}, or remove {flow.name}_template; 'agentos config' shows where it is set",
        )
    return Check(section="project", name=f"{flow.name} template", text=template)


def _check_rules(worktree: Path, path: str) -> Check:
    try:
        size = len(read_rules(worktree, path).encode())
    except AgentosError as exc:
        fix = "change rules; 'agentos config' shows where it is set"
        return Check(section="project", name="team rules", state=State.PROBLEM, text=str(exc), fix=fix)
    return Check(section="project", name="team rules", text=f"{path}, {size:,} bytes")


def _check_not_decrypted(worktree: Path, config: Config) -> Iterator[Check]:
    try:
        check_named_files(worktree, config, config.settings)
    except AgentosError as exc:
        fix = "name another file; 'agentos config' shows where it is set"
        yield Check(section="project", name="decrypted file", state=State.PROBLEM, text=str(exc), fix=fix)


def _check_context(worktree: Path, config: Config) -> Check:
    try:
        rules = context_rules(worktree, config, config.settings, skip=lambda _path, _why: None)
        texts = read_context(worktree, config.settings.context, rules)
    except AgentosError as exc:
        return Check(
            section="project",
            name="context",
            state=State.PROBLEM,
            text=str(exc),
            fix="change context; 'agentos config' shows where it is set",
        )
    size = sum(len(text.encode()) for text in texts.values())
    return Check(section="project", name="context", text=f"{counted(len(texts), 'file')}, {size:,} bytes")
