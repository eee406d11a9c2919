"""The one door to GitHub: reads are tried again, a write is sent once. Coordinator process.

PyGithub does the requests and the paging. Its own retries are off, since they would send a write twice, and
its issue objects are not used, since they ask GitHub again for every field an answer left out.
"""

import contextlib
import json
import logging
import re
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Self
from urllib.parse import urlsplit

import requests
from github.Auth import Token as TokenAuth
from github.GithubObject import NonCompletableGithubObject
from github.PaginatedList import PaginatedList
from github.Requester import HTTPRequestsConnectionClass, HTTPSRequestsConnectionClass, Requester
from pydantic import BaseModel, Field, ValidationError
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError
from urllib3.exceptions import ProxyError as NoProxy
from urllib3.exceptions import SSLError as TLSError

from agentos import __version__
from agentos.errors import ConfigError, ListingError, UsageError
from agentos.github import FilingRefused, FilingUncertain, RemoteIssue
from agentos.github.repository import Repository

TIMEOUT_SECONDS = 20.0
BACKOFF_SECONDS = (0.5, 2.0)  # before the second and the third try of a read
MAX_READ_WAIT_SECONDS = 60.0  # a longer rest is told, not waited for
UNTOLD_LIMIT_SECONDS = 60.0  # GitHub's advice where a secondary limit names no time
CLOCK_MARGIN = timedelta(days=1)  # how far this machine's clock may have been wrong at an attempt
MAX_ISSUES = 100_000  # a listing that goes on for longer leads in a circle
_API_VERSION = "2022-11-28"
_WEB = re.compile(r"https?://[^\s<>\"]+")
_NEXT = {  # what to try after an answer that is no limit
    403: " Give the token the right to read issues there.",
    404: " Check the URL of origin and the token.",
}

# Requests and answers are logged in full at DEBUG: documents would end up in somebody's log.
logging.getLogger("github").setLevel(logging.WARNING)


@dataclass(frozen=True, kw_only=True)
class Access:
    """What the token may do in the repository, for `agentos doctor`."""

    readable: bool
    has_issues: bool | None = None
    push: bool | None = None  # labels are only taken from who may push
    problem: str | None = None


class GitHub:
    """One repository on GitHub."""

    def __init__(
        self,
        repository: Repository,
        token: str,
        *,
        timeout: float = TIMEOUT_SECONDS,
        sleep: Callable[[float], None] = time.sleep,
        tell: Callable[[str], None] = lambda _line: None,
    ) -> None:
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise ConfigError("The GitHub token holds characters that no token has. Set it again.")
        self.repository = repository
        self.timeout = timeout
        self._door = _Door(repository, token, timeout, sleep, tell)
        self._path = f"/repos/{repository.full_name}"

    def __repr__(self) -> str:
        return f"GitHub({self.repository})"

    def close(self) -> None:
        self._door.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def open_issues(self, labels: Sequence[str] = ()) -> tuple[RemoteIssue, ...]:
        """Every open issue that has all the labels, pull requests left out, by number."""
        query = {"state": "open", "sort": "created", "direction": "asc"}
        # The server would take a comma for two labels.
        if asked := [label for label in labels if "," not in label]:
            query["labels"] = ",".join(asked)
        checked = {label.lower() for label in labels if "," in label}
        found = {
            one.number: one for one in self._list(query) if checked <= {name.lower() for name in one.labels}
        }
        return tuple(found[number] for number in sorted(found))

    def labels(self) -> tuple[str, ...]:
        """The name of every label there is."""
        pages = PaginatedList(_Raw, self._door, f"{self._path}/labels", {})
        names: list[str] = []
        for count, one in enumerate(pages):
            if count >= MAX_ISSUES:
                raise ListingError(f"The list of labels of {self.repository} does not end.")
            if isinstance(name := one.raw_data.get("name"), str):
                names.append(name)
        return tuple(names)

    def issue(self, number: int) -> RemoteIssue:
        """One issue; a number that is none is a usage error."""
        what = f"Issue {number} of {self.repository} could not be read: "
        status, _headers, data = self._door.get(
            f"{self._path}/issues/{number}", allowed=(404, 410), what=what
        )
        if status != 200:
            raise UsageError(f"There is no issue {number} in {self.repository}.")
        found = _read(data, self.repository, number)
        if found is None:
            raise UsageError(f"{number} in {self.repository} is a pull request, not an issue.")
        if found.number != number:
            raise UsageError(f"Issue {number} has moved from {self.repository} to {found.url}.")
        return found

    def find(self, marker: str, since: datetime) -> RemoteIssue | None:
        """The issue whose body holds the marker; None if there is none among all written since."""
        early = min(since, datetime.now(UTC)) - CLOCK_MARGIN
        query = {"state": "all", "sort": "created", "direction": "desc"}
        query["since"] = early.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        # Somebody may have copied the text: the first one is ours.
        found = min((one for one in self._list(query) if marker in one.body), key=_number, default=None)
        if found is None and abs(self._door.clock_error) > CLOCK_MARGIN / 2:
            raise ListingError(
                f"This machine's clock and GitHub's are {abs(self._door.clock_error)} apart, so that recent"
                " issues cannot be told from old ones. Set the clock."
            )
        return found

    def create(self, title: str, body: str, labels: Sequence[str]) -> RemoteIssue:
        """Create an issue: sent once, and either surely done, surely refused, or uncertain."""
        content = {"title": title, "body": body, "labels": list(labels)}
        try:
            status, headers, text = self._door.post(f"{self._path}/issues", content)
        except _Moved as exc:
            raise FilingRefused(_refusal(self.repository, exc.status, "", None)) from exc
        except Exception as exc:
            where = f"GitHub ({self._door.host})"
            if _never_sent(exc):
                raise FilingRefused(f"{where} {_in_words(exc, self.timeout)}.") from exc
            raise FilingUncertain(f"{where} {_in_words(exc, self.timeout)}.") from exc
        if status == 201:
            try:
                created = _read(json.loads(text), self.repository)
            except (ValueError, RecursionError, ListingError) as exc:
                raise FilingUncertain("GitHub's answer to the new issue cannot be read.") from exc
            if created is None:
                raise FilingUncertain("GitHub's answer to the new issue shows a pull request.")
            return created
        if 300 <= status < 500 and status != 408:
            rest = _rest(status, headers, text)
            raise FilingRefused(_refusal(self.repository, status, text, rest), rest)
        raise FilingUncertain(f"GitHub answered {status}{_quoted(text)}.")

    def check(self) -> Access:
        """Whether the repository can be read and what may be done there."""
        try:
            _status, _headers, data = self._door.get(self._path)
        except ListingError as exc:
            return Access(readable=False, problem=str(exc))
        if not isinstance(data, dict) or "full_name" not in data:
            return Access(readable=False, problem="GitHub's answer cannot be read.")
        rights = data.get("permissions")
        push = rights.get("push") if isinstance(rights, dict) else None
        issues = data.get("has_issues")
        return Access(
            readable=True,
            has_issues=issues if isinstance(issues, bool) else None,
            push=push if isinstance(push, bool) else None,
        )

    def _list(self, query: dict[str, str]) -> Iterator[RemoteIssue]:
        pages = PaginatedList(_Raw, self._door, f"{self._path}/issues", dict(query))
        for count, one in enumerate(pages):
            if count >= MAX_ISSUES:
                raise ListingError(f"The list of issues of {self.repository} does not end.")
            if (read := _read(one.raw_data, self.repository)) is not None:
                yield read


class _Door(Requester):
    """PyGithub's requester, with the token for one server only and with our rules for trying again."""

    def __init__(
        self,
        repository: Repository,
        token: str,
        timeout: float,
        sleep: Callable[[float], None],
        tell: Callable[[str], None],
    ) -> None:
        super().__init__(
            auth=TokenAuth(str(token)),
            base_url=repository.api_url,
            timeout=timeout,  # type: ignore[arg-type]  # passed on to requests, which takes any number
            user_agent=f"agentos/{__version__}",
            per_page=100,
            verify=True,
            retry=0,
            pool_size=None,
            seconds_between_requests=None,
            seconds_between_writes=None,
            lazy=True,
            api_version=_API_VERSION,
        )
        self._repository = repository
        self._seconds = timeout
        self._sleep = sleep
        self._tell = tell
        self._opened: HTTPRequestsConnectionClass | HTTPSRequestsConnectionClass | None = None
        self._origin = _origin(repository.api_url)
        self.host = self._origin[1]
        self.clock_error = timedelta(0)

    def requestJsonAndCheck(  # noqa: N802, PLR0917 - what PyGithub's paging calls
        self,
        verb: str,
        url: str,
        parameters: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        input: Any | None = None,  # noqa: A002
        follow_302_redirect: bool = False,  # noqa: FBT001, FBT002
    ) -> tuple[dict[str, Any], Any]:
        assert verb == "GET"
        assert headers is None
        assert input is None
        assert not follow_302_redirect
        listed = "labels" if urlsplit(url).path.endswith("/labels") else "issues"
        what = f"The {listed} of {self._repository} could not be listed: "
        _status, told, data = self.get(url, parameters, what=what)
        # An empty answer would pass for an empty list, and a null for no issue.
        if not isinstance(data, list) or not all(isinstance(one, dict) for one in data):
            raise ListingError(f"GitHub's list of {listed} of {self._repository} cannot be read.")
        return told, data

    def get(
        self,
        url: str,
        parameters: dict[str, Any] | None = None,
        *,
        allowed: Sequence[int] = (),
        what: str = "",
    ) -> tuple[int, dict[str, Any], Any]:
        """Read, at most three times; give status, headers and JSON. An error begins with what failed."""
        if not url.startswith("/") and _origin(url) != self._origin:
            raise ListingError(f"GitHub's list leads to another server ({urlsplit(url).hostname}).")
        for wait in (*BACKOFF_SECONDS, None):
            try:
                status, headers, text = self.requestJson("GET", url, parameters, cnx=self._connection())
            except _Moved as exc:
                raise ListingError(what + _refusal(self._repository, exc.status, "", None)) from exc
            except Exception as exc:
                if wait is None or not isinstance(exc, requests.RequestException):
                    raise ListingError(
                        f"{what}GitHub ({self.host}) {_in_words(exc, self._seconds)}."
                        " Check the network and GITHUB_API_URL, then try again."
                    ) from exc
                self._sleep(wait)
                continue
            self._compare_clocks(headers)
            if status == 200 or status in allowed:
                return status, headers, self._json(text) if status == 200 else None
            rest = _rest(status, headers, text)
            passing = status >= 500 or rest is not None
            if wait is None or not passing or (rest or 0.0) > MAX_READ_WAIT_SECONDS:
                next_step = _NEXT.get(status, " Try again in a few minutes." if status >= 500 else "")
                raise ListingError(
                    what + _refusal(self._repository, status, text, rest) + ("" if rest else next_step)
                )
            if rest is not None:
                self._tell(
                    f"GitHub asks to wait before {self._repository} is read (rate limit, {status});"
                    f" going on in {rest:.0f} s"
                )
            self._sleep(wait if rest is None else rest)
        raise AssertionError

    def post(self, url: str, content: dict[str, Any]) -> tuple[int, dict[str, Any], str]:
        # On a connection that the server has meanwhile closed the write would be lost, and nobody sure of it.
        self.close()
        return self.requestJson("POST", url, input=content, cnx=self._connection())

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None
        super().close()

    def _connection(self) -> Any:
        """A connection that does not follow a 301; PyGithub would, without the query, and with a write."""
        if self._opened is None:
            scheme, host, port = self._origin
            kind = HTTPSRequestsConnectionClass if scheme == "https" else HTTPRequestsConnectionClass
            self._opened = kind(host, port, timeout=self._seconds, retry=0, pool_size=None, verify=True)  # type: ignore[arg-type]
            self._opened.session.hooks["response"].append(_stop_where_moved)
        return self._opened

    def _json(self, text: str) -> Any:
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as exc:
            raise ListingError(
                f"GitHub's answer about {self._repository} cannot be read: it is not JSON."
            ) from exc

    def _compare_clocks(self, headers: dict[str, Any]) -> None:
        with contextlib.suppress(ValueError, TypeError, KeyError):
            self.clock_error = timedelta(
                seconds=round((datetime.now(UTC) - parsedate_to_datetime(headers["date"])).total_seconds())
            )


class _Moved(Exception):  # noqa: N818 - read as what it is
    """The server sends us to another place, where nothing was sent yet."""

    def __init__(self, status: int) -> None:
        super().__init__(str(status))
        self.status = status


def _stop_where_moved(response: requests.Response, *_args: Any, **_how: Any) -> None:
    if response.is_redirect or response.status_code == 301:
        raise _Moved(response.status_code)


class _Raw(NonCompletableGithubObject):
    """What a list holds, as it came."""

    def _initAttributes(self) -> None: ...  # noqa: N802 - PyGithub's name

    def _useAttributes(self, attributes: dict[str, Any]) -> None: ...  # noqa: N802


class _Issue(BaseModel):
    number: int = Field(gt=0, le=2**53, strict=True)  # what a database has a place for
    title: str | None = None
    body: str | None = None
    html_url: str | None = None
    state: str | None = None
    labels: list[dict[str, Any] | str] | None = None
    pull_request: Any = None


def _read(data: Any, repository: Repository, number: int | None = None) -> RemoteIssue | None:
    """The issue, or None for a pull request; only its number must be there."""
    try:
        read = _Issue.model_validate(data)
    except ValidationError as exc:
        told = data.get("number", number) if isinstance(data, dict) else number
        which = f"issue {told}" if isinstance(told, int) else "an issue without a number"
        wrong = ", ".join(sorted({str(error["loc"][0]) for error in exc.errors() if error["loc"]}))
        about = f" ({wrong})" if wrong else ""
        raise ListingError(
            f"GitHub's answer about {repository} holds {which} that cannot be read{about}."
        ) from exc
    if read.pull_request is not None:
        return None
    names = (label if isinstance(label, str) else label.get("name") for label in read.labels or ())
    url = read.html_url or ""
    return RemoteIssue(
        number=read.number,
        title=read.title or "",
        body=read.body or "",
        url=url if _WEB.fullmatch(url) else repository.page(read.number),
        labels=tuple(name for name in names if isinstance(name, str)),
        state=read.state or "open",
    )


def _number(issue: RemoteIssue) -> int:
    return issue.number


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port


def _never_sent(exc: BaseException) -> bool:
    """Whether no connection came about, so that nothing can have been received."""
    if isinstance(exc, requests.ConnectTimeout):
        return True
    if not isinstance(exc, requests.ConnectionError) or not exc.args:
        return False
    reason = getattr(exc.args[0], "reason", None)
    if isinstance(reason, TLSError):
        return bool(reason.args) and isinstance(reason.args[0], ssl.SSLCertVerificationError)
    if isinstance(reason, NoProxy):
        # The proxy itself was not there, or it refused to open the tunnel: nothing got through it.
        tunnel = isinstance(reason.original_error, OSError) and "Tunnel connection failed" in str(reason)
        return tunnel or isinstance(reason.original_error, NewConnectionError | ConnectTimeoutError)
    return isinstance(reason, NewConnectionError | ConnectTimeoutError)


def _in_words(exc: BaseException, timeout: float) -> str:
    if isinstance(exc, requests.exceptions.SSLError):
        return "shows a certificate that is not accepted"
    if isinstance(exc, requests.exceptions.ProxyError):
        return "cannot be reached through the proxy"
    if _never_sent(exc):
        return "cannot be reached"
    if isinstance(exc, requests.Timeout):
        return f"did not answer within {timeout:g} s"
    if isinstance(exc, requests.RequestException):
        return "broke the connection"
    return f"gave an answer that cannot be read ({type(exc).__name__})"


def _rest(status: int, headers: dict[str, Any], text: str) -> float | None:
    """How long a rate limit lasts, in seconds, if this is one."""
    if status not in {403, 429}:
        return None
    after = _seconds(headers.get("retry-after"))
    if after is not None:
        return after
    if headers.get("x-ratelimit-remaining") == "0":
        reset = _seconds(headers.get("x-ratelimit-reset"))
        if reset is not None:
            # A second more: it is not told when within that second.
            return max(0.0, reset - time.time()) + 1.0
    message = _message(text).lower()
    limited = status == 429 or Requester.isRateLimitError(message) or "rate limit" in message
    return UNTOLD_LIMIT_SECONDS if limited else None


def _seconds(text: Any) -> float | None:
    try:
        number = float(text)
    except (TypeError, ValueError):
        return None
    return number if 0 <= number < 1e12 else None


def _refusal(  # noqa: PLR0911 - a table
    repository: Repository, status: int, text: str, rest: float | None
) -> str:
    if rest is not None:
        until = datetime.now(UTC) + timedelta(seconds=min(rest, 1e10))
        return f"GitHub asks to wait until {until:%Y-%m-%d %H:%M:%S} UTC (rate limit, {status})."
    told = _quoted(text)
    match status:
        case 401:
            return "GitHub refused the token (401). Check GH_TOKEN or run `gh auth login`."
        case 403:
            return f"The token may not do this in {repository} (403){told}."
        case 404:
            return f"{repository} is not there or the token may not see it (404)."
        case 410:
            return f"Issues are turned off in {repository} (410)."
        case _ if 300 <= status < 400:
            return f"{repository} has moved ({status}). Set the new URL of origin."
    return f"GitHub answered {status} for {repository}{told}."


def _message(text: str) -> str:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    message = data.get("message") if isinstance(data, dict) else None
    return message if isinstance(message, str) else ""


def _quoted(text: str) -> str:
    message = "".join(char if char.isprintable() else " " for char in _message(text))[:200].strip()
    return f": {message}" if message else ""
