"""Reads the configuration: flag > environment > user > repo > default. Keeps the source of each value.

The only reader of the environment. A repo's file is not trusted: it may set only what `settings` marks;
anything else in it is ignored with a warning.
"""

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from agentos import environment as environ
from agentos import settings
from agentos.access_tables import read_network, read_providers, read_roles, refuse_unknown, shortened
from agentos.console.visible import one_line
from agentos.errors import ConfigError
from agentos.key_tables import KeyReference, read_keys, read_prices
from agentos.model_access import KINDS, Network, ProviderSpec, RoleOptions, usual_variable
from agentos.money import Price
from agentos.parse_value import NotForRepo, OutsideRepo, Rejected
from agentos.settings import Settings
from agentos.store.rooted_tree import TooLarge, Tree, read_named, worktree_tree
from agentos.toml_value import toml_value

MAX_FILE_BYTES = 1_000_000
FOLDERS = (
    *("briefs_folder", "issues_folder", "lld_folder", "lineage_folder", "issue_template", "lld_template"),
    *("context", "rules"),
)
USER_TABLES = frozenset({"keys", "providers", "roles", "network", "prices"})


class Origin(StrEnum):
    """Who set a value, strongest first."""

    FLAG = "flag"  # on the command line
    ENVIRONMENT = "environment"  # an AGENTOS_* variable
    USER = "user"  # the user's own file
    REPO = "repo"  # agentos.toml or [tool.agentos] in the repo
    DEFAULT = "default"  # not set anywhere


@dataclass(frozen=True, kw_only=True)
class SettingSource:
    """Where one value came from: who, and which flag, variable or file."""

    origin: Origin
    name: str


@dataclass(frozen=True, kw_only=True)
class RepoFile:
    """The settings that a file of the repo sets and may set."""

    name: str  # "agentos.toml"
    names: tuple[str, ...]  # of the settings
    digest: str  # changes with any value

    def __str__(self) -> str:
        *most, last = self.names
        return f"{self.name} in this repository sets {', '.join(most)}{' and ' if most else ''}{last}"


@dataclass(frozen=True, kw_only=True)
class Config:
    """The settings of this command, each with its source, and warnings about what was ignored."""

    settings: Settings
    sources: Mapping[str, SettingSource]
    warnings: tuple[str, ...] = ()
    repo: tuple[RepoFile, ...] = ()
    keys: tuple[KeyReference, ...] = ()
    providers: Mapping[str, ProviderSpec] = field(
        default_factory=dict
    )  # those that the user's file describes
    roles: Mapping[str, RoleOptions] = field(default_factory=dict)
    network: Network = field(default_factory=Network)
    prices: Mapping[str, Price] = field(default_factory=dict)  # the user's own, by provider:model
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    worktree: Path | None = None
    user_file: Path | None = None  # where the user's file is or would be

    @property
    def named_user_file(self) -> str:
        """The user's file as messages name it."""
        return named_user_file(self.user_file)

    @property
    def base_urls(self) -> dict[str, str]:
        """The servers that are not the usual ones, by provider."""
        return {name: spec.base_url for name, spec in self.providers.items() if spec.base_url is not None}

    @property
    def key_variables(self) -> frozenset[str]:
        """The variables that hold secrets of the user's providers: keys and headers."""
        keys = {key.env for key in self.keys if key.env is not None}
        headers = {one.env for spec in self.providers.values() for one in spec.headers if one.env is not None}
        usual = "|".join(usual_variable(name) for name in (*KINDS, *self.providers))
        named = re.compile(rf"(?:{usual}|GOOGLE_API_KEY)(?:_\d+)?")
        return frozenset(keys | headers | {name for name in self.environment if named.fullmatch(name)})

    def provider(self, name: str) -> ProviderSpec | None:
        """A provider with a server, described by the user's file or built in; None for any other name."""
        if name in self.providers:
            return self.providers[name]
        return next((ProviderSpec(name=name, kind=kind) for kind in KINDS if kind == name), None)

    def options(self, role: str) -> RoleOptions:
        """What the user's file sets for a role."""
        return self.roles.get(role, RoleOptions())


def load_config(
    *,
    flags: Mapping[str, Any],
    worktree: Path | None,
    user_file: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Config:
    """Merge all layers; a wrong value raises a ConfigError that says where it is set."""
    env = environ.read() if environment is None else dict(environment)
    usual_file = user_file_of(user_file, env)
    merged = _Merged(named_user_file(usual_file))
    of_repo: list[RepoFile] = []
    for repo_path, table in [] if worktree is None else _repo_tables(worktree):
        allowed = _allowed_of_repo(table, repo_path, merged)
        merged.take(allowed, Origin.REPO, partial(_place, repo_path))
        if allowed:
            of_repo.append(_repo_file(repo_path, allowed))
    user_path = _user_path(user_file, env)
    user_table = {} if user_path is None else _read_toml(user_path)
    tables = {name: user_table.pop(name) for name in USER_TABLES & user_table.keys()}
    refuse_unknown(user_table, (*settings.NAMES, *sorted(USER_TABLES)), str(user_path))
    merged.take(user_table, Origin.USER, partial(_place, user_path))
    variables = {
        name: env[settings.variable_of(name)] for name in settings.NAMES if settings.variable_of(name) in env
    }
    merged.take(variables, Origin.ENVIRONMENT, settings.variable_of)
    given = {name: raw for name, raw in flags.items() if raw is not None}
    merged.take(given, Origin.FLAG, settings.flag_of)

    _cap_repo_parallel(merged.values, merged.sources, merged.warnings)
    where = str(user_path)
    providers = read_providers(tables.get("providers", {}), where)
    return Config(
        settings=Settings(**merged.values),
        sources=merged.sources,
        warnings=tuple(merged.warnings),
        repo=tuple(of_repo),
        keys=read_keys(tables.get("keys", []), where, providers),
        providers=providers,
        roles=read_roles(tables.get("roles", {}), where),
        network=read_network(tables.get("network", {}), where, env),
        prices=read_prices(tables.get("prices", {}), where, providers),
        environment=env,
        worktree=worktree,
        user_file=usual_file,
    )


class _Merged:
    """The values so far, each with its source."""

    def __init__(self, user_file: str) -> None:
        self.user_file = user_file
        self.values: dict[str, Any] = dict(settings.DEFAULTS)
        self.sources = {name: SettingSource(origin=Origin.DEFAULT, name="") for name in self.values}
        self.warnings: list[str] = []

    def take(self, layer: Mapping[str, Any], origin: Origin, name_of: Callable[[str], str]) -> None:
        """Apply the next layer."""
        for name, raw in layer.items():
            where = name_of(name)
            try:
                value = settings.about(name).parse(raw)
                if origin is Origin.REPO:
                    value = self._of_repo(name, raw, value, where)
            except NotForRepo as exc:
                self.warnings.append(f"Ignoring {_line(name, raw, where)}: a repo may not choose {exc}.")
                continue
            except Rejected as exc:
                if origin is not Origin.REPO or not isinstance(exc, OutsideRepo):
                    raise ConfigError(exc.about(where, _shown(raw))) from exc
                self.warnings.append(f"Ignoring {_line(name, raw, where)}: {exc.about_part}.")
                continue
            self.values[name] = value
            self.sources[name] = SettingSource(origin=origin, name=where)

    def _of_repo(self, name: str, raw: Any, value: Any, where: str) -> Any:
        """Limit a value that a repo sets to what it may set."""
        for one in raw if isinstance(raw, list) else [raw]:
            if isinstance(one, str) and one_line(one) != one:
                raise Rejected("text without invisible characters")
        rule = settings.about(name).repo
        taken = value if rule is None else rule(value)
        if taken != value:
            self.warnings.append(
                f"Using {taken} instead of {_line(name, raw, where)}: a repo may set at most {taken}. "
                f"Set more in {self.user_file}."
            )
        return taken


def _place(path: Path | None, name: str) -> str:
    return f"{name} in {path}"


def _repo_tables(worktree: Path) -> list[tuple[Path, dict[str, Any]]]:
    found: list[tuple[Path, dict[str, Any]]] = []
    tree = worktree_tree(worktree)
    pyproject = worktree / "pyproject.toml"
    if tree.exists(pyproject):
        # We need only our own table, but a file that cannot be parsed may contain one.
        tools = _read_toml(pyproject, tree).get("tool", {})
        table = tools.get("agentos", {}) if isinstance(tools, dict) else None
        if not isinstance(table, dict):
            raise ConfigError(f"tool and tool.agentos in {pyproject} must be tables.")
        if table:
            found.append((pyproject, table))
    own = worktree / "agentos.toml"
    if tree.exists(own):
        found.append((own, _read_toml(own, tree)))
    return found


def _allowed_of_repo(table: dict[str, Any], where: Path, merged: "_Merged") -> dict[str, Any]:
    allowed: dict[str, Any] = {}
    mine = {name: raw for name, raw in table.items() if name not in USER_TABLES}
    refuse_unknown(mine, settings.NAMES, str(where))
    for name, raw in table.items():
        if name in mine and settings.about(name).repo is not None:
            allowed[name] = raw
        else:
            merged.warnings.append(
                f"Ignoring {name!r} in {where}: a repo may not set it. Set it in {merged.user_file}."
            )
    return allowed


def _repo_file(path: Path, table: Mapping[str, Any]) -> RepoFile:
    content = json.dumps({str(name): repr(raw) for name, raw in table.items()}, sort_keys=True)
    digest = hashlib.sha256(content.encode()).hexdigest()
    return RepoFile(name=path.name, names=tuple(table), digest=digest)


def _line(name: str, raw: Any, where: str) -> str:
    """A setting as its file has it, with the file."""
    return f"{name} = {shortened(toml_value(raw))}{where.removeprefix(name)}"


def _shown(raw: Any) -> str:
    """A wrong value, shortened for a message."""
    return shortened(repr(raw))


def check_folders(config: Config, worktree: Path, home: Path) -> None:
    """Refuse folders inside the home, wherever the home is."""
    for name in FOLDERS:
        value = getattr(config.settings, name)
        for one in value if isinstance(value, tuple) else [value]:
            if one is not None and _real(worktree / one).is_relative_to(_real(home)):
                where = config.sources[name].name or name
                raise ConfigError(
                    f"{where} is {_shown(str(one))}, which is in the home {home}. Use another folder."
                )


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _cap_repo_parallel(
    values: dict[str, Any], sources: Mapping[str, SettingSource], warnings: list[str]
) -> None:
    if sources["parallel"].origin is Origin.REPO and values["parallel"] > values["max_parallel"]:
        warnings.append(
            f"Using {values['max_parallel']} instead of "
            f"{_line('parallel', values['parallel'], sources['parallel'].name)}: "
            f"max_parallel is {values['max_parallel']}."
        )
        values["parallel"] = values["max_parallel"]


def user_file_of(given: Path | None, env: Mapping[str, str]) -> Path | None:
    """Where the user's file is or would be."""
    if named := given or env.get("AGENTOS_CONFIG"):
        return Path(named)
    base = env.get("XDG_CONFIG_HOME") or (env["HOME"] + "/.config" if env.get("HOME") else None)
    return None if base is None else Path(base) / "agentos" / "config.toml"


def named_user_file(path: Path | None) -> str:
    """The user's file as messages name it."""
    return "your configuration file" + ("" if path is None else f" ({path})")


def _user_path(given: Path | None, env: Mapping[str, str]) -> Path | None:
    path = user_file_of(given, env)
    if path is None or path.is_file():
        return path
    if given or env.get("AGENTOS_CONFIG"):
        raise ConfigError(f"The configuration file {path} does not exist.")
    return None


def _read_toml(path: Path, tree: Tree | None = None) -> dict[str, Any]:
    try:
        data = read_named(path, MAX_FILE_BYTES) if tree is None else tree.read(path, MAX_FILE_BYTES)
        return tomllib.loads(data.decode("utf-8-sig"))
    except TooLarge as exc:
        raise ConfigError(
            f"{path} is larger than {MAX_FILE_BYTES:,} bytes; that is not a configuration file."
        ) from exc
    except OSError as exc:
        raise ConfigError(f"Cannot read {path}: {exc.strerror or exc}.") from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{path} is not UTF-8 text. Save it as UTF-8.") from exc
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError(f"{path} is not valid TOML: {exc}.") from exc
    except (RecursionError, ValueError) as exc:
        raise ConfigError(
            f"Cannot read {path} as TOML: it is nested too deeply, or a number is too long."
        ) from exc
