"""Checks that a run can use its models, keys and GitHub; never shows a character of a key."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Any

from agentos.app.connections import connection
from agentos.app.keys import moment, rest_of
from agentos.app.known_keys import known_health
from agentos.config import Config
from agentos.coordinator.keys import key_references, keyless, read_key, usual_keys
from agentos.doctor.check import Check, State
from agentos.duration import words
from agentos.errors import AgentosError, Exit
from agentos.github.repository import Repository, find_repository, find_token
from agentos.key_tables import KeyReference
from agentos.llm.providers import check_provider
from agentos.loopback import in_clear_text
from agentos.model_access import (
    COMMAND_PROVIDERS,
    ROLES,
    ProviderSpec,
    known_providers,
    provider_of,
    proxy_for,
    usual_variable,
)
from agentos.money import PriceTable
from agentos.secret import Secret
from agentos.store.home import Home


@dataclass(frozen=True, kw_only=True)
class KeyInUse:
    """One key as a run would find it."""

    id: str
    provider: str
    secret: Secret
    renew: str = ""  # how to replace it


@dataclass(frozen=True, kw_only=True)
class GitHubAccess:
    """The repository and the token a run would use."""

    repository: Repository | None = None
    token: Secret | None = None


def models_of(config: Config) -> dict[str, str]:
    """The models that a run would use, by role; roles that are not set are missing."""
    chosen = {role: getattr(config.settings, role) for role in ROLES}
    return {role: model for role, model in chosen.items() if model is not None and not config.settings.mock}


def check_models(config: Config, user_file: Path | None) -> Iterator[Check]:
    """Check the models of drafter and reviewer."""
    if config.settings.mock:
        yield Check(
            section="models", name="mock", text="the built-in mock drafts and reviews; no key is needed"
        )
        return
    models = models_of(config)
    for role in ROLES:
        yield _check_model(role, models.get(role), config, user_file)
    if models.get("drafter") is not None and models.get("drafter") == models.get("reviewer"):
        yield Check(
            section="models",
            name="reviewer",
            state=State.WARNING,
            text="Drafter and reviewer are the same model. A model overlooks its own mistakes.",
            fix=_put(user_file, 'reviewer = "PROVIDER:ANOTHER-MODEL"'),
        )
    used = set(map(provider_of, models.values()))
    for spec in config.providers.values():
        yield _check_server(spec, config, user_file, used=spec.name in used)


def _check_server(spec: ProviderSpec, config: Config, user_file: Path | None, *, used: bool) -> Check:
    """Check one provider of the user's file: its address and the variables of its headers."""
    name, proxy = spec.name, proxy_for(spec.server, config.network)
    through = "" if proxy is None else f", through the proxy {proxy.url}"
    try:
        connection(spec, config)
    except AgentosError as exc:
        variable = next(header.env for header in spec.headers if header.env and header.env in str(exc))
        state = State.PROBLEM if used else State.WARNING
        fix = f'export {variable}="..."'
        return Check(section="models", name=name, state=state, text=str(exc), fix=fix, exit_code=Exit.NO_KEY)
    if in_clear_text(spec.server) is not None and used:
        return Check(
            section="models",
            name=name,
            state=State.WARNING,
            text=f"Keys and texts are sent unencrypted to {spec.server}{through}.",
            fix=_put(user_file, f'[providers.{name}]\nbase_url = "https{spec.server.removeprefix("http")}"'),
        )
    kind = "" if spec.kind == name else f"{spec.kind} format, "
    headers = f", headers {', '.join(map(str, spec.headers))}" if spec.headers else ""
    text = f"{kind}{spec.server}{headers}{through}{'' if used else ', not used'}"
    return Check(section="models", name=name, text=text)


def _check_model(role: str, model: str | None, config: Config, user_file: Path | None) -> Check:
    wanted = _put(user_file, f'{role} = "provider:model"')
    if model is None:
        names = ", ".join(name for name in known_providers(config.providers) if name != "mock")
        text = f"No {role} is set, so only runs with --mock work. Providers: {names}."
        return Check(section="models", name=role, state=State.PROBLEM, text=text, fix=wanted)
    if "<" in model:
        text = f"{model} is only the example. Name a real model."
        return Check(section="models", name=role, state=State.PROBLEM, text=text, fix=wanted)
    try:
        check_provider(model, config.worktree, config.environment, config.providers)
    except AgentosError as exc:
        return Check(section="models", name=role, state=State.PROBLEM, text=str(exc), fix=wanted)
    if PriceTable(own=config.prices).knows(model):
        return Check(section="models", name=role, text=f"{model}, price known")
    price = f"agentos config price {quote(model)} --input USD --output USD  # per million tokens"
    if config.settings.budget is None and config.settings.item_budget is None:
        text = f"{model}; its price is unknown, so costs are shown as unknown."
        return Check(section="models", name=role, state=State.WARNING, text=text, fix=price)
    text = f"{model}; its price is unknown, so a budget cannot be enforced."
    return Check(section="models", name=role, state=State.PROBLEM, text=text, fix=price)


def _put(user_file: Path | None, lines: str) -> str:
    """Say which lines go into which file; a missing file is created first."""
    if user_file is None or not user_file.is_file():
        return f"agentos init --user\nthen in {user_file or 'the file it creates'}:\n{lines}"
    return f"in {user_file}:\n{lines}"


def check_keys(
    config: Config, home: Home | None, user_file: Path | None
) -> tuple[list[Check], list[KeyInUse]]:
    """Check every key by its id; also return the keys that a run could use, for live calls."""
    chosen = set(map(provider_of, models_of(config).values()))
    used = sorted(chosen & set(known_providers(config.providers)) - {"mock"})
    # The limit on keys is for tests; it gets its own check below.
    environment = {k: v for k, v in config.environment.items() if k != "AGENTOS_CREDENTIAL_LIMIT"}
    plain = replace(config, environment=environment)
    references = key_references(plain)
    checks: list[Check] = []
    health: Mapping[str, Mapping[str, Any]] = {}
    damage: list[str] = []
    try:
        health = known_health(plain, home, references, damage.append)
        checks += [
            Check(section="keys", name="shared state", state=State.WARNING, text=text) for text in damage
        ]
    except AgentosError as exc:
        checks.append(Check(section="keys", name="shared state", state=State.PROBLEM, text=str(exc)))
    keys: list[KeyInUse] = []
    rejected: list[str] = []
    referred: set[str] = set()  # providers with a configured key, even one that cannot be read
    for reference in references:
        referred.add(reference.provider)
        needed = reference.provider in used
        found = _find(plain, reference)
        if isinstance(found, Check):
            checks.append(found if needed else replace(found, state=State.WARNING))
            continue
        entry = health.get(reference.id, {})
        checks.append(_check_key(reference, entry, needed=needed))
        keys.append(found)
        rejected += [reference.id] if entry.get("disabled") else []
    checks += _same(keys)
    checks += _empty(environment, config)
    for provider in used:
        theirs = [key.id for key in keys if key.provider == provider]
        if provider in keyless(config, used) and provider not in referred:
            keys.append(KeyInUse(id=provider, provider=provider, secret=Secret(provider, "")))
            text = f"{_identified(provider, config)}; no key is needed"
            checks.append(Check(section="keys", name=provider, text=text))
        elif provider not in referred:
            checks.append(_missing(provider, config, user_file))
        elif theirs and set(theirs) <= set(rejected):
            text = f"Every key of {provider} is disabled because it was rejected, so no run uses one."
            fix = "\n".join(f"agentos keys enable {one}" for one in theirs)
            checks.append(_no_key(provider, text, fix))
    if not used and not checks:
        checks.append(Check(section="keys", name="keys", text="none (none is needed yet)"))
    if limit := config.environment.get("AGENTOS_CREDENTIAL_LIMIT"):
        text = f"AGENTOS_CREDENTIAL_LIMIT is {limit}: runs use at most that many keys."
        fix = "unset AGENTOS_CREDENTIAL_LIMIT"
        checks.append(Check(section="keys", name="limit", state=State.WARNING, text=text, fix=fix))
    return checks, [key for key in keys if key.provider in used]


def _identified(provider: str, config: Config) -> str:
    """Why a provider needs no key."""
    if provider in COMMAND_PROVIDERS:
        return "a program with its own login"
    spec = config.provider(provider)
    by_headers = spec is not None and any(header.env is not None for header in spec.headers)
    return "identified by its headers" if by_headers else "a server on this machine"


def _no_key(name: str, text: str, fix: str) -> Check:
    return Check(section="keys", name=name, state=State.PROBLEM, text=text, fix=fix, exit_code=Exit.NO_KEY)


def _find(config: Config, reference: KeyReference) -> KeyInUse | Check:
    """Read a key as a run would, or say why that fails."""
    place = reference.env or reference.file
    renew = (
        f'export {place}="..."'
        if reference.env
        else f"put only the key into {place}\nchmod 600 {quote(str(place))}"
    )
    try:
        secret = read_key(reference, config.environment)
    except AgentosError as exc:
        return _no_key(reference.id, str(exc), renew)
    return KeyInUse(id=reference.id, provider=reference.provider, secret=secret, renew=renew)


def _check_key(reference: KeyReference, entry: Mapping[str, Any], *, needed: bool) -> Check:
    pause = rest_of(entry, time.time())
    group = f", quota group {reference.quota_group}" if reference.quota_group else ""
    about = f"{reference.provider}{group}, from {reference.env or reference.file}"
    state, fix = State.OK, ""
    if entry.get("disabled"):
        since = f" since {moment(entry['disabled_at'])}" if entry.get("disabled_at") else ""
        state, about = State.WARNING, f"{about}; disabled{since}: {entry['disabled']}"
        fix = f"agentos keys enable {reference.id}"
    elif pause.seconds:
        state = State.WARNING
        about = f"{about}; {pause.state.replace('_', ' ')} for {words(pause.seconds)} more"
        fix = "wait, or: agentos keys"
    elif reference.file is not None and _open_to_others(Path(reference.file).expanduser()):
        state, about = State.WARNING, f"{about}, which other users of this machine can read"
        fix = f"chmod 600 {quote(reference.file)}"
    else:
        about += "; usable" if needed else "; not used by the chosen models"
    return Check(section="keys", name=reference.id, state=state, text=about, fix=fix)


def _open_to_others(path: Path) -> bool:
    try:
        return bool(os.stat(path).st_mode & 0o077)  # noqa: PTH116
    except OSError:
        return False


def _same(keys: Sequence[KeyInUse]) -> Iterator[Check]:
    first: dict[Secret, str] = {}
    for key in keys:
        if key.secret in first:
            yield Check(
                section="keys",
                name=key.id,
                state=State.WARNING,
                text=f"It is the same key as {first[key.secret]}, so it is not used.",
                fix=f"remove {key.id}",
            )
        else:
            first[key.secret] = key.id


def _empty(environment: Mapping[str, str], config: Config) -> Iterator[Check]:
    """Warn about usual key variables that are empty; those named in [[keys]] have their own check."""
    checked = {reference.env for reference in config.keys}
    blank = {name: "set" for name, value in environment.items() if not value.strip()}
    for reference in usual_keys(blank, config.providers):
        if reference.env not in checked:
            yield Check(
                section="keys",
                name=reference.id,
                state=State.WARNING,
                text=f"The variable {reference.env} is set but empty.",
                fix=f'export {reference.env}="..."',
            )


def _missing(provider: str, config: Config, user_file: Path | None) -> Check:
    variable = usual_variable(provider)
    if not config.keys:
        return _no_key(provider, f"No key for {provider}.", f'export {variable}="..."')
    lines = f'[[keys]]\nid = "{provider}-1"\nprovider = "{provider}"\nenv = "{variable}"'
    text = f"No [[keys]] entry is for {provider}. With [[keys]], only the variables named there are used."
    return _no_key(provider, text, _put(user_file, lines))


def check_github(
    worktree: Path, config: Config, environment: Mapping[str, str]
) -> tuple[list[Check], GitHubAccess]:
    """Find the repository and the token, without contacting GitHub."""
    wanted = config.settings.source == "github"
    severity = State.PROBLEM if wanted else State.WARNING
    try:
        repository = find_repository(worktree, environment)
        token = find_token(environment, worktree)
    except AgentosError as exc:
        return [_github("access", severity, str(exc), "unset GITHUB_API_URL\ngh auth login")], GitHubAccess()
    if repository is None:
        text = "origin is not a GitHub repository; issues are read from files."
        fix = "git remote add origin https://github.com/OWNER/NAME" if wanted else ""
        state = State.PROBLEM if wanted else State.OK
        return [_github("repository", state, text, fix)], GitHubAccess()
    checks = [_github("repository", State.OK, str(repository))]
    if token is None:
        text = "No token, so issues are read from files and kept as files."
        checks.append(_github("token", severity, text, 'gh auth login\nor: export GH_TOKEN="..."'))
    else:
        named = (name for name in ("GH_TOKEN", "GITHUB_TOKEN") if environment.get(name, "").strip())
        checks.append(
            _github("token", State.OK, f"from {next(named, 'gh')}; try it with: agentos doctor --live")
        )
    return checks, GitHubAccess(repository=repository, token=token)


def _github(name: str, state: State, text: str, fix: str = "") -> Check:
    return Check(section="github", name=name, state=state, text=text, fix=fix)
