"""Finds the repository of the worktree and the token for it. Coordinator process."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from agentos import programs
from agentos.errors import ConfigError
from agentos.loopback import on_this_machine
from agentos.secret import Secret, read_secret

GITHUB_API = "https://api.github.com"
TOOL_SECONDS = 5.0  # for git and gh, each for one small question
_SCHEMES = frozenset({"https", "http", "ssh", "git"})
_SCP_FORM = re.compile(r"(?:[^@/:]+@)?(?P<host>[^@/:]{2,}):(?P<path>[^:]+)")
_PATH = re.compile(r"/*(?P<owner>[A-Za-z0-9][A-Za-z0-9_-]{0,99})/(?P<name>[A-Za-z0-9._-]{1,104})/?")
_TOKEN = re.compile(r"[\x21-\x7e]+")  # and not the message that gh prints if it has none
_ENTERPRISE_TOKENS = frozenset(
    {"GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"}
)  # the variables that gh itself reads


@dataclass(frozen=True, kw_only=True)
class Repository:
    """One repository on one server."""

    full_name: str  # "owner/name"
    api_url: str = GITHUB_API

    def __str__(self) -> str:
        return self.full_name if self.api_url == GITHUB_API else f"{self.full_name} at {self.api_url}"

    @property
    def address(self) -> str:
        """Identifies the repository; GitHub's names ignore case."""
        return f"{self.api_url}/repos/{self.full_name}".lower()

    def page(self, number: int) -> str:
        """The web page of an issue, for an answer that does not give it."""
        site = "https://github.com" if self.api_url == GITHUB_API else self.api_url.removesuffix("/api/v3")
        return f"{site}/{self.full_name}/issues/{number}"

    def has_page_at(self, host: str) -> bool:
        """Whether this host may show its issues to people; a server on this machine may act for any host."""
        api = urlsplit(self.api_url).hostname or ""
        return on_this_machine(api) or _site(host) == _site(api)


def api_url(environment: Mapping[str, str]) -> str:
    """Return the server to talk to; a token goes in clear text only to this machine."""
    given = environment.get("GITHUB_API_URL", "").strip()
    if not given:
        return GITHUB_API
    try:
        parts = urlsplit(given)
        host, _port = parts.hostname or "", parts.port
    except ValueError:
        raise ConfigError(
            "GITHUB_API_URL is not a URL. Give one such as https://github.example.com/api/v3."
        ) from None
    if parts.username is not None or parts.query or parts.fragment:
        raise ConfigError("GITHUB_API_URL must not contain credentials, a query or a fragment. Remove them.")
    if parts.scheme not in {"http", "https"} or not re.fullmatch(r"[A-Za-z0-9.-]+|[0-9a-f:]+", host):
        raise ConfigError(
            f"GITHUB_API_URL {given!r} is not an http(s) URL. Give one such as https://github.example.com/api/v3."
        )
    if parts.scheme == "http" and not on_this_machine(host):
        raise ConfigError(f"GITHUB_API_URL {given!r} would send the token in clear text. Use https.")
    return given.rstrip("/")


def find_repository(worktree: Path, environment: Mapping[str, str]) -> Repository | None:
    """Find the GitHub repository that `origin` names, if any; it must be on the configured server."""
    api = api_url(environment)
    url = programs.git(["remote", "get-url", "origin"], environment, worktree, seconds=TOOL_SECONDS)
    remote = _read_remote(_text(url)) if url else None
    if remote is None:
        return None
    host, full_name = remote
    server = urlsplit(api).hostname or ""
    if not on_this_machine(server) and _site(host) != _site(server):
        if api == GITHUB_API:
            return None
        raise ConfigError(
            f"origin is on {host}, but GITHUB_API_URL is on {server}: an issue with the same number there"
            " is a different one, and the token for one server must not go to another. Unset GITHUB_API_URL,"
            " or correct it or origin. --source local needs neither."
        )
    return Repository(full_name=full_name, api_url=api)


def find_token(environment: Mapping[str, str], worktree: Path | None) -> Secret | None:
    """Find the user's token: GH_TOKEN, GITHUB_TOKEN, or what `gh` has for this server."""
    for name in ("GH_TOKEN", "GITHUB_TOKEN"):
        if (token := environment.get(name, "")).strip():
            return read_secret("github-token", token, where=f"The GitHub token in {name}")
    arguments, also = ["auth", "token"], frozenset[str]()
    api = api_url(environment)
    if api != GITHUB_API:
        # The token for github.com must not go to another server.
        arguments += ["--hostname", urlsplit(api).hostname or ""]
        also = _ENTERPRISE_TOKENS
    token = _text(programs.gh(arguments, environment, worktree, also=also, seconds=TOOL_SECONDS) or b"")
    return Secret("github-token", token) if _TOKEN.fullmatch(token) else None


def _site(host: str) -> str:
    """Return what the API, SSH and web hosts of one GitHub share: api.github.com belongs to github.com."""
    return re.sub(r"^(?:api|ssh|www)\.", "", host.lower().rstrip("."))


def _read_remote(url: str) -> tuple[str, str] | None:
    """Return the host and `owner/name` of a remote; credentials in it are dropped here."""
    host: str | None
    if "://" in url:
        try:
            parts = urlsplit(url)
            host, path = parts.hostname, parts.path
        except ValueError:
            return None
        if parts.scheme.lower() not in _SCHEMES:
            return None
    elif scp := _SCP_FORM.fullmatch(url):
        host, path = scp["host"], scp["path"]
    else:
        return None
    found = _PATH.fullmatch(path)
    name = found["name"].removesuffix(".git") if found else ""
    if not host or found is None or name in {"", ".", ".."}:
        return None
    return host.lower(), f"{found['owner']}/{name}"


def _text(output: bytes) -> str:
    return output.decode("utf-8", errors="replace").strip()
