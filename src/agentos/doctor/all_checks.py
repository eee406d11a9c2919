"""Runs all checks, in the order of setting up. Only reads.

Uses the network only with `live`, and for a database that AGENTOS_DATABASE_URL names.
"""

from collections.abc import Mapping
from pathlib import Path
from shlex import quote

from agentos.config import load_config
from agentos.doctor.access import check_github, check_keys, check_models
from agentos.doctor.check import Check, State
from agentos.doctor.configuration import check_configuration, failed
from agentos.doctor.database import check_database
from agentos.doctor.project import check_git, check_program, check_project
from agentos.errors import AgentosError
from agentos.project import check_owner, find_worktree
from agentos.store.home import check_home, locate_home
from agentos.store.known_homes import register_of


def run_checks(
    start: Path,
    *,
    environment: Mapping[str, str],
    user_file: Path | None,
    named_file: Path | None,
    home: Path | None,
    live: bool,
) -> tuple[Check, ...]:
    """Check everything; `user_file` is where the user's file is or would be, `named_file` must exist."""
    checks: list[Check] = []
    worktree, place = None, None
    try:
        worktree = find_worktree(start)
        given = home or environment.get("AGENTOS_HOME") or None
        place = locate_home(worktree, None if given is None else Path(given), register_of(environment))
        check_home(place, worktree, environment)
    except AgentosError as exc:
        place = None
        fix = "agentos init" if worktree is None else f"rm -r {quote(str(worktree / '.agentos'))}"
        checks.append(Check(section="project", name="project", state=State.PROBLEM, text=str(exc), fix=fix))
    checks = [*check_git(worktree, environment), check_program(), *checks]
    try:
        config = load_config(flags={}, worktree=worktree, user_file=named_file, environment=environment)
    except AgentosError as exc:
        checks.append(failed(exc, worktree, user_file))
        return tuple(checks)
    if worktree is not None:
        try:
            safe = config.settings.safe_directories
            owned = worktree / ".agentos" if place is None else place.path
            check_owner(worktree, owned, safe=safe, environment=environment)
        except AgentosError as exc:
            # Stop here: nothing that another user wrote is read any further, let alone used for calls.
            fix = f'in {user_file or "your configuration file"}:\nsafe_directories = ["{worktree}"]'
            checks.append(Check(section="project", name="owner", state=State.PROBLEM, text=str(exc), fix=fix))
            return tuple(checks)
        home_from = "--home" if home else "AGENTOS_HOME" if environment.get("AGENTOS_HOME") else ""
        checks += check_project(worktree, place, config, home_from)
    checks += check_configuration(config, worktree, user_file, environment)
    checks += check_models(config, user_file)
    key_checks, keys = check_keys(config, place, user_file)
    checks += key_checks
    access = None
    if worktree is not None:
        github_checks, access = check_github(worktree, config, environment)
        checks += github_checks
    checks += check_database(environment)
    if live:
        from agentos.doctor.network import check_calls, check_github_access  # noqa: PLC0415 - an HTTP client

        checks += check_calls(config, keys)
        checks += [] if access is None else check_github_access(access, config.network)
    return tuple(checks)
