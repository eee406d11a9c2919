"""Reads [providers], [roles] and [network] of the user's file; a mistake is an error that names the fix.

No message quotes a header's value or the address of a proxy: both may contain secrets.
"""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from agentos import parse_value
from agentos.errors import ConfigError
from agentos.model_access import (
    BUILT_IN,
    EFFORTS,
    KEY_HEADERS,
    KINDS,
    ROLES,
    Header,
    Kind,
    Network,
    NotAProxy,
    ProviderSpec,
    Proxy,
    RoleOptions,
    nearest,
    read_proxy,
)
from agentos.parse_value import Rejected
from agentos.store.rooted_tree import TooLarge, read_named

MAX_CA_BYTES = 4_000_000  # all public CAs together need less than a tenth
MAX_SHOWN = 80  # characters of a wrong name or value
FEW = 12  # names that a message lists
HOTTEST = 2.0  # the highest temperature of any provider
_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_HEADER_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,998}[\x21-\x7e])?")
_REFERENCE = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9_-]* )?env:(?P<name>[A-Za-z_][A-Za-z0-9_]{0,99})")
_PRIVATE = re.compile(
    r"(?:^|[-_.])(?:\w*keys?|\w*token|secret|auth|\w*authorization|cookie|password)(?:$|[-_.])"
)
# Decided by the connection or by the body, so not for anyone to set.
_OURS = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te"}
    | {"trailer", "transfer-encoding", "upgrade", "host", "expect", "accept-encoding"}
    | {"content-length", "content-type", "content-encoding"}
)
_VARIABLES = {"http": "http_proxy", "https": "https_proxy"}


def read_providers(tables: Any, where: str) -> dict[str, ProviderSpec]:
    """Read the [providers.NAME] tables."""
    if not isinstance(tables, dict):
        raise ConfigError(f"providers in {where} must be tables such as [providers.openai].")
    return {name: _read_provider(name, table, where) for name, table in tables.items()}


def _read_provider(name: str, table: Any, where: str) -> ProviderSpec:
    place = f"[providers.{shortened(name)}] in {where}"
    if not isinstance(table, dict):
        raise ConfigError(f"{place} must be a table with kind, base_url or headers.")
    refuse_unknown(table, ("kind", "base_url", "headers"), place)
    kind = _kind(name, table, place)
    if name not in KINDS and "base_url" not in table:
        raise ConfigError(f"{place} is missing base_url, the address of its server.")
    if not set(table) & {"base_url", "headers"}:
        raise ConfigError(f"{place} is empty. Set base_url or headers, or remove it.")
    url = _base_url(table["base_url"], place) if "base_url" in table else None
    headers = _headers(table.get("headers", {}), name, kind, place)
    return ProviderSpec(name=name, kind=kind, base_url=url, headers=headers)


def _kind(name: str, table: Mapping[str, Any], place: str) -> Kind:
    if name in BUILT_IN and name not in KINDS:
        raise ConfigError(f"{place}: {name} has no server and cannot be changed. Choose another name.")
    kinds = f"{', '.join(KINDS[:-1])} or {KINDS[-1]}"
    given = table.get("kind", name)
    if given not in KINDS:
        meant = nearest(str(given), KINDS)
        if "kind" in table:
            hint = f" Did you mean {meant!r}?" if meant else ""
            raise ConfigError(f"kind of {place} must be {kinds}, not {shortened(repr(given))}.{hint}")
        hint = f"Did you mean [providers.{meant}]? For a provider of your own, set" if meant else "Set"
        raise ConfigError(f"{place} has no kind. {hint} kind to {kinds}.")
    if name in KINDS and given != name:
        raise ConfigError(f"kind of {place} is always {name}. Give a provider of your own another name.")
    if not _NAME.fullmatch(name) or name.endswith("-cli"):
        raise ConfigError(
            f"{place}: a provider's name has lower case letters, digits and '-', starts with a letter, "
            "has at most 40 characters and does not end in -cli."
        )
    found: Kind = next(kind for kind in KINDS if kind == given)
    return found


def _base_url(url: Any, place: str) -> str:
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        raise ConfigError(f"base_url of {place} must start with http:// or https://.")
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or not url.isprintable() or " " in url:
        raise ConfigError(f"base_url of {place} is not a URL such as https://models.example/v1.")
    if parts.username is not None or parts.password is not None:
        raise ConfigError(
            f"base_url of {place} contains a login. Remove it, and use [[keys]] or headers with env:NAME."
        )
    asked = {name for name, _ in parse_qsl(parts.query, keep_blank_values=True)}
    if parts.fragment or asked - {"api-version"}:
        raise ConfigError(f"base_url of {place} may have no fragment, and no query but api-version=....")
    return url


def _headers(table: Any, provider: str, kind: Kind, place: str) -> tuple[Header, ...]:
    if not isinstance(table, dict):
        raise ConfigError(f'headers of {place} must be a table such as {{ api-key = "env:NAME" }}.')
    found: dict[str, Header] = {}
    for given, value in table.items():
        name = given.lower()
        if not _HEADER_NAME.fullmatch(name):
            raise ConfigError(f"{shortened(repr(given))} in headers of {place} is not the name of a header.")
        if name in found:
            raise ConfigError(f"{given!r} is twice in headers of {place}; upper and lower case are the same.")
        if name in _OURS:
            raise ConfigError(f"{given!r} in headers of {place} is set by agentos itself. Remove it.")
        found[name] = _header(name, value, provider, kind, place)
    return tuple(found.values())


def _header(name: str, value: Any, provider: str, kind: Kind, place: str) -> Header:
    about = f"{name} in headers of {place}"
    if not isinstance(value, str) or not _HEADER_VALUE.fullmatch(value):
        raise ConfigError(f"{about} must be a text of printable ASCII, or env:NAME for a variable.")
    reference = _REFERENCE.fullmatch(value)
    if reference is None and re.search(r"(?:^|\s)env\s*:", value, re.IGNORECASE):
        raise ConfigError(f'{about}: to refer to a variable, write "env:NAME" or "Bearer env:NAME".')
    if name == KEY_HEADERS[kind]:
        entry = (
            f'[[keys]] with provider = "{provider}" and env = "{reference["name"] if reference else "NAME"}"'
        )
        raise ConfigError(f"{about}: this header carries the key. Use {entry} instead.")
    if reference is not None:
        return Header(name=name, value=reference["scheme"] or "", env=reference["name"])
    if _PRIVATE.search(name):
        raise ConfigError(f"{about} looks like a secret. Put the value into a variable and write env:NAME.")
    return Header(name=name, value=value)


def read_roles(tables: Any, where: str) -> dict[str, RoleOptions]:
    """Read [roles.drafter] and [roles.reviewer]."""
    if not isinstance(tables, dict):
        raise ConfigError(f"roles in {where} must be tables such as [roles.drafter].")
    refuse_unknown(tables, ROLES, f"roles in {where}", what="role")
    return {role: _read_role(table, f"[roles.{role}] in {where}") for role, table in tables.items()}


def _read_role(table: Any, place: str) -> RoleOptions:
    if not isinstance(table, dict):
        raise ConfigError(f"{place} must be a table.")
    parsers = {
        "max_output_tokens": parse_value.whole(1),
        "temperature": _temperature,
        "reasoning_effort": parse_value.one_of(*EFFORTS),
        "timeout": parse_value.duration,
    }
    refuse_unknown(table, parsers, place)
    values: dict[str, Any] = {}
    for name, raw in table.items():
        try:
            values[name] = parsers[name](raw)
        except Rejected as exc:
            raise ConfigError(exc.about(f"{name} of {place}", shortened(repr(raw)))) from exc
    return RoleOptions(**values)


def _temperature(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= HOTTEST:
        raise Rejected(f"a number from 0 to {HOTTEST:g}")
    return float(value)


def read_network(table: Any, where: str, environment: Mapping[str, str]) -> Network:
    """Read [network]; with proxy = "env" also the usual variables."""
    place = f"[network] in {where}"
    if not isinstance(table, dict):
        raise ConfigError(f"network in {where} must be the table [network].")
    refuse_unknown(table, ("proxy", "ca_file"), place)
    given = table.get("proxy")
    proxies: dict[str, Proxy] = {}
    bypassed: tuple[str, ...] = ()
    if given == "env":
        proxies = _usual_proxies(environment)
        listed = _variable(environment, "no_proxy")[1]
        bypassed = tuple(entry.strip() for entry in listed.split(",") if entry.strip())
    elif given is not None:
        if not isinstance(given, str):
            raise ConfigError(f'proxy of {place} must be "http://HOST:PORT" or "env".')
        proxies = dict.fromkeys(_VARIABLES, _proxy(given, f"proxy of {place}"))
    ca_file, ca = _read_ca(table["ca_file"], place) if "ca_file" in table else (None, "")
    return Network(
        proxies=proxies, bypassed=bypassed, from_environment=given == "env", ca_file=ca_file, ca=ca
    )


def _usual_proxies(environment: Mapping[str, str]) -> dict[str, Proxy]:
    found: dict[str, Proxy] = {}
    for scheme, variable in _VARIABLES.items():
        for usual in (variable, "all_proxy"):
            name, value = _variable(environment, usual)
            if value:
                found[scheme] = _proxy(value, f"The variable {name}")
                break
    return found


def _variable(environment: Mapping[str, str], name: str) -> tuple[str, str]:
    """A usual variable with its value; the name in lower case wins, as with other programs."""
    for spelling in (name, name.upper()):
        if value := environment.get(spelling, "").strip():
            return spelling, value
    return name, ""


def _proxy(text: str, about: str) -> Proxy:
    try:
        return read_proxy(text)
    except NotAProxy as exc:
        raise ConfigError(f"{about} must be {exc}.") from None


def _read_ca(given: Any, place: str) -> tuple[str, str]:
    import ssl  # noqa: PLC0415 - only if there is a CA to check

    about = f"ca_file of {place}"
    path = Path(given).expanduser() if isinstance(given, str) and given.strip() else Path()
    if not path.is_absolute():
        # A relative path would be looked for in whatever repository the command is started in.
        raise ConfigError(f"{about} must be the absolute path of a PEM file.")
    try:
        text = read_named(path, MAX_CA_BYTES).decode("ascii", errors="ignore")
    except TooLarge:
        raise ConfigError(f"{about}: {path} is larger than {MAX_CA_BYTES:,} bytes.") from None
    except OSError as exc:
        raise ConfigError(f"{about}: {path} cannot be read: {exc.strerror or exc}.") from exc
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError):
        raise ConfigError(f"{about}: {path} contains no readable certificate in PEM format.") from None
    return str(path), text


def refuse_unknown(
    table: Mapping[str, Any], known: Collection[str], place: str, what: str = "setting"
) -> None:
    """Refuse names that do not exist, with the nearest one that does."""
    for name in table:
        if name not in known:
            meant = nearest(name, known) if len(name) <= MAX_SHOWN else None
            few = f"Choose from {', '.join(known)}." if len(known) <= FEW else "Remove it."
            hint = f"Did you mean {meant!r}?" if meant else few
            raise ConfigError(f"Unknown {what} {shortened(repr(name))} in {place}. {hint}")


def shortened(text: str) -> str:
    """A wrong name or value, short enough for a message."""
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}... ({len(text):,} characters)"
