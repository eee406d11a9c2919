"""How models are reached: providers, options per role, proxy and CA. Pure.

A provider has a name of the user's choice, and a kind: the format that its server speaks. Keys, limits and
prices belong to the name.
"""

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args
from urllib.parse import unquote, urlsplit

from agentos.loopback import on_this_machine
from agentos.secret import Secret

Kind = Literal["openai", "anthropic", "gemini"]
Effort = Literal["minimal", "low", "medium", "high"]

KINDS: tuple[Kind, ...] = get_args(Kind)  # also the names of providers that need no configuration
EFFORTS: tuple[Effort, ...] = get_args(Effort)
PROXY_LOGIN = "proxy-login"  # the name of the secret
ROLES = ("drafter", "reviewer")
COMMAND_PROVIDERS = frozenset({"claude-cli", "gemini-cli"})  # programs with their own login instead of a key
BUILT_IN = (*KINDS, *sorted(COMMAND_PROVIDERS), "mock")
SERVERS: Mapping[Kind, str] = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com",
}
KEY_HEADERS: Mapping[Kind, str] = {
    "openai": "authorization",
    "anthropic": "x-api-key",
    "gemini": "x-goog-api-key",
}

_WITH_PORT = re.compile(r"(?P<host>[^:]+|\[.*\]):(?P<port>\d{1,5})")


@dataclass(frozen=True, kw_only=True)
class Header:
    """One extra header: a plain value, or the variable that holds it."""

    name: str  # lower case
    value: str = field(default="", repr=False)  # before the variable's value, if there is one: "Bearer "
    env: str | None = None  # the variable; its value is a secret

    def __str__(self) -> str:
        """What may be shown: a plain value may, but need not, be private."""
        return self.name if self.env is None else f"{self.name} = {self.value}env:{self.env}"


@dataclass(frozen=True, kw_only=True)
class ProviderSpec:
    """One provider as the user's file describes it."""

    name: str
    kind: Kind
    base_url: str | None = None
    headers: tuple[Header, ...] = ()

    @property
    def server(self) -> str:
        """The address that calls go to."""
        return self.base_url or SERVERS[self.kind]

    @property
    def needs_key(self) -> bool:
        """Whether calls need a key: not if a header identifies the user, or if it is a local server."""
        if any(header.env is not None for header in self.headers):
            return False
        return self.name in KINDS or not on_this_machine(urlsplit(self.server).hostname or "")


@dataclass(frozen=True, kw_only=True)
class RoleOptions:
    """What the user's file sets for the calls of one role; None leaves it to the default."""

    max_output_tokens: int | None = None
    temperature: float | None = None
    reasoning_effort: Effort | None = None
    timeout: float | None = None  # seconds for one call


@dataclass(frozen=True, kw_only=True)
class Proxy:
    """A forward proxy; its login is never part of the address."""

    url: str  # http://HOST:PORT
    user: str = field(default="", repr=False)
    password: Secret | None = None


@dataclass(frozen=True, kw_only=True)
class Network:
    """How calls to models and GitHub leave this machine."""

    proxies: Mapping[str, Proxy] = field(default_factory=dict)  # by the scheme of the target
    bypassed: tuple[str, ...] = ()  # the entries of NO_PROXY
    from_environment: bool = False  # proxy = "env"
    ca_file: str | None = None
    ca: str = field(default="", repr=False)  # the content of the file, PEM


def usual_variable(provider: str) -> str:
    """The variable that holds a provider's key if no [[keys]] are configured."""
    return f"{provider.upper().replace('-', '_')}_API_KEY"


def provider_of(model: str) -> str:
    """The provider in `provider:model`."""
    return model.partition(":")[0]


def known_providers(named: Iterable[str]) -> tuple[str, ...]:
    """Every provider that a model or a key can name."""
    return tuple(dict.fromkeys((*BUILT_IN, *named)))


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The most similar of the names, if one is similar enough to be meant."""
    import difflib  # noqa: PLC0415 - for mistyped names only

    return next(iter(difflib.get_close_matches(name[:80], list(names), n=1)), None)


def no_provider(name: str, named: Iterable[str]) -> str:
    """The end of a message about a provider that does not exist."""
    names = known_providers(named)
    meant = nearest(name, names)
    hint = f"Did you mean {meant!r}?" if meant else f"Choose one of {', '.join(names)}."
    return f"there is no provider {name[:80]!r}. {hint}"


class NotAProxy(ValueError):  # noqa: N818 - reads well without Error
    """The text is not the address of a proxy; the message completes "must be" and never quotes it."""


def read_proxy(text: str) -> Proxy:
    """Read `http://[USER:PASSWORD@]HOST[:PORT]`; the password becomes a secret."""
    given = text.strip()
    try:
        parts = urlsplit(given if "://" in given else f"http://{given}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise NotAProxy("http://HOST:PORT") from None
    if parts.scheme != "http" or not host or parts.path not in {"", "/"} or parts.query or parts.fragment:
        raise NotAProxy("http://HOST:PORT; other kinds of proxy are not supported")
    shown = f"[{host}]" if ":" in host else host
    password = None
    if parts.password is not None:
        Secret(PROXY_LOGIN, parts.password)  # known as it is written, so that it is not shown either
        password = Secret(PROXY_LOGIN, unquote(parts.password))
    return Proxy(
        url=f"http://{shown}:{80 if port is None else port}",
        user=unquote(parts.username or ""),
        password=password,
    )


def proxy_for(url: str, network: Network) -> Proxy | None:
    """The proxy for a target; what stays on this machine never goes through one."""
    parts = urlsplit(url)
    host, port = (parts.hostname or "").rstrip("."), parts.port or (443 if parts.scheme == "https" else 80)
    if on_this_machine(host) or any(_bypasses(entry, host, port) for entry in network.bypassed):
        return None
    return network.proxies.get(parts.scheme)


def _bypasses(entry: str, host: str, port: int) -> bool:
    """Whether an entry of NO_PROXY covers this host: `*`, a domain, an address, a network."""
    wanted = entry.strip().lower()
    if wanted == "*":
        return True
    if with_port := _WITH_PORT.fullmatch(wanted):
        if int(with_port["port"]) != port:
            return False
        wanted = with_port["host"]
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(wanted.strip("[]"), strict=False)
    except ValueError:
        pass
    domain = wanted.removeprefix("*").lstrip(".")
    return bool(domain) and (host == domain or host.endswith(f".{domain}"))
