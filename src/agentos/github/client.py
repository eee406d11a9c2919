"""All access to GitHub: reads are retried, a write is sent once. Coordinator process.

GitHub's answers are not trusted: pages, rows, numbers and texts are bounded and typed here. An error has our
own text, a status, and at most one line from the server.
"""

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from agentos import __version__
from agentos.duration import words
from agentos.errors import ListingError, UsageError
from agentos.github import FilingUncertain, IssueRefused, RemoteIssue
from agentos.github.exchange import ANSWER_SECONDS, SILENT_SECONDS, Exchange, NoAnswer, ServerAnswer
from agentos.github.issue import read_issue
from agentos.github.refusal import quoted, refusal_text, wait_seconds
from agentos.github.repository import Repository
from agentos.model_access import Network
from agentos.secret import Secret

BACKOFF_SECONDS = (0.5, 2.0)  # before the second and the third try of a read
MAX_READ_WAIT_SECONDS = 60.0  # a longer wait is reported, not waited for
CLOCK_PRECISION = timedelta(seconds=2)  # of GitHub's times, and of comparing two clocks
CLOCK_MARGIN = timedelta(days=1)  # how wrong this machine's clock may have been at an attempt
STALE_SECONDS = 10.0  # how long pages may bring nothing new
LISTING_SECONDS = 1_800.0  # for a whole list, its waits included
MAX_ROWS = 100_000  # of one list
MAX_PAGES = 5_000
MAX_LISTING_BYTES = 400_000_000  # of all its pages together
_API_VERSION = "2022-11-28"
_PER_PAGE = "100"
_NEXT = {  # what to try if the refusal is not a rate limit
    403: " Give the token permission to read issues there.",
    404: " Check the URL of origin and the token.",
}


@dataclass(frozen=True, kw_only=True)
class Access:
    """What the token may do in the repository, for `agentos doctor`."""

    readable: bool
    has_issues: bool | None = None
    push: bool | None = None  # GitHub ignores labels from a token that may not push
    problem: str | None = None


class GitHub:
    """One repository on GitHub."""

    def __init__(
        self,
        repository: Repository,
        token: Secret,
        *,
        timeout: float = SILENT_SECONDS,
        limit: float = ANSWER_SECONDS,
        stale: float = STALE_SECONDS,
        network: Network | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        tell: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self.repository = repository
        self.limit = limit  # seconds after which a request has certainly ended
        self._stale = stale
        self._sleep = sleep
        self._clock = clock
        self._tell = tell
        self._clock_error = timedelta(0)
        self._path = f"/repos/{repository.full_name}"
        headers = {
            "Authorization": f"Bearer {token.reveal()}",
            "User-Agent": f"agentos/{__version__}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": _API_VERSION,
        }
        self._exchange = Exchange(repository.api_url, headers, silent=timeout, seconds=limit, network=network)

    def __repr__(self) -> str:
        return f"GitHub({self.repository})"

    def open_issues(self, labels: Sequence[str] = ()) -> tuple[RemoteIssue, ...]:
        """List every open issue that has all the labels, without pull requests, by number."""
        query = {"state": "open", "sort": "created", "direction": "asc"}
        # The server would read a comma as two labels.
        if asked := [label for label in labels if "," not in label]:
            query["labels"] = ",".join(asked)
        checked = {label.lower() for label in labels if "," in label}
        found = {
            one.number: one for one in self._list(query) if checked <= {name.lower() for name in one.labels}
        }
        return tuple(found[number] for number in sorted(found))

    def labels(self) -> tuple[str, ...]:
        """List the names of all labels."""
        named = (row.get("name") for row in self._rows("labels", {}, "name"))
        return tuple(name for name in named if isinstance(name, str))

    def issue(self, number: int) -> RemoteIssue:
        """Read one issue; a number without an issue is a usage error."""
        what = f"Issue {number} of {self.repository} could not be read: "
        answer = self._get(f"{self._path}/issues/{number}", allowed=(404, 410), what=what)
        if answer.status != 200:
            raise UsageError(f"There is no issue {number} in {self.repository}.")
        found = read_issue(self._json(answer), self.repository)
        if found is None:
            raise UsageError(f"{number} in {self.repository} is a pull request, not an issue.")
        if found.number != number:
            raise UsageError(f"Issue {number} has moved from {self.repository} to {found.url}.")
        return found

    def find(self, marker: str, since: datetime) -> RemoteIssue | None:
        """Find our issue with the marker in its body; None if there certainly is none.

        Anyone can copy a marker, also into an older issue. Ours is the first since then by us.
        """
        early = min(since, datetime.now(UTC)) - CLOCK_MARGIN
        query = {"state": "all", "sort": "created", "direction": "desc", "since": _text(early)}
        found: list[RemoteIssue] = []
        for one in self._list(query):
            if one.problem is not None:
                raise ListingError(one.problem)
            if marker in one.body:
                found.append(one)
        begun = _text(since - self._clock_error - CLOCK_PRECISION)
        ours = self._ours(found) if found else []
        if later := [one for one in ours if one.created_at >= begun]:
            return min(later, key=lambda one: one.number)
        if ours:  # this machine's clock was set since then
            return max(ours, key=lambda one: one.number)
        for one in found:
            if one.created_at >= begun:  # a copy, or ours with the token of another user
                raise ListingError(
                    f"{one.url} has the hidden line of this filing, but {one.author} wrote it."
                    " If it is a copy, remove the line there. If it is yours, use the token of its author."
                )
        if abs(self._clock_error) > CLOCK_MARGIN / 2:
            raise ListingError(
                f"This machine's clock and GitHub's differ by {abs(self._clock_error)}, so recent"
                " issues cannot be distinguished from old ones. Set the clock."
            )
        return None

    def _ours(self, issues: Sequence[RemoteIssue]) -> list[RemoteIssue]:
        """The issues that this token's user may have written; an app cannot ask who it is, and is a bot."""
        answer = self._get("/user", allowed=(403, 404), what="The user of the token could not be read: ")
        user = self._json(answer) if answer.status == 200 else None
        if isinstance(user, dict) and user.get("login"):
            return [one for one in issues if one.author in {"", user["login"]}]
        return [one for one in issues if one.by_bot] or [*issues]

    def create(self, title: str, body: str, labels: Sequence[str]) -> RemoteIssue:
        """Create an issue: sent once, and then certainly created, certainly refused, or uncertain."""
        content = json.dumps({"title": title, "body": body, "labels": list(labels)}).encode()
        try:
            answer = self._exchange.send("POST", f"{self._path}/issues", content=content)
        except NoAnswer as exc:
            message = f"GitHub ({self._exchange.host}) {exc}."
            raise (FilingUncertain(message) if exc.sent else IssueRefused(message)) from None
        status = answer.status
        if status == 201:
            try:
                created = read_issue(self._json(answer), self.repository)
            except ListingError:
                raise FilingUncertain("GitHub's answer to the new issue cannot be read.") from None
            if created is None:
                raise FilingUncertain("GitHub's answer to the new issue shows a pull request.")
            if created.problem is not None:
                raise FilingUncertain("GitHub's answer to the new issue cannot be read.")
            return created
        if 300 <= status < 500 and status != 408:
            delay = wait_seconds(answer)
            raise IssueRefused(refusal_text(self.repository, answer, delay), delay)
        raise FilingUncertain(f"GitHub answered {status}{quoted(answer)}.")

    def check(self) -> Access:
        """Check whether the repository can be read and what the token may do there."""
        try:
            data = self._json(self._get(self._path))
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
        for row in self._rows("issues", query, "number"):
            if (read := read_issue(row, self.repository)) is not None:
                yield read

    def _rows(self, listed: str, query: dict[str, str], key: str) -> Iterator[dict[str, Any]]:
        """Yield every row of a list, each once; a list that does not end is an error."""
        name = f"list of {listed} of {self.repository}"
        what = f"The {listed} of {self.repository} could not be listed: "
        path = f"{self._path}/{listed}"
        asked: dict[str, str] | None = query | {"per_page": _PER_PAGE}
        seen: set[int | str] = set()
        visited: set[str] = set()
        size = 0
        began = news = self._clock()
        while True:
            answer = self._get(path, asked, what=what)
            page = self._json(answer)
            # Otherwise an empty answer would count as an empty list, and a null as no issue.
            if not isinstance(page, list) or not all(isinstance(one, dict) for one in page):
                raise ListingError(f"GitHub's {name} cannot be read.")
            size += len(answer.content)
            rows = _unseen(page, key, seen)
            yield from rows
            following = answer.next_page
            if following is None:
                return
            path, asked = self._followed(following, listed), None
            now = self._clock()
            news = now if rows else news
            if path in visited:
                raise ListingError(f"GitHub's {name} links back to an earlier page.")
            visited.add(path)
            if now - news >= self._stale:
                raise ListingError(f"GitHub's {name} has returned nothing new for {self._stale:g} s.")
            if (
                len(seen) > MAX_ROWS
                or len(visited) > MAX_PAGES
                or size > MAX_LISTING_BYTES
                or now - began > LISTING_SECONDS
            ):
                raise ListingError(f"GitHub's {name} does not end. Use --label, or name the issues.")

    def _followed(self, url: str, listed: str) -> str:
        """Return the path of the next page, which must be on this server: the token goes nowhere else."""
        try:
            here, there = urlsplit(self.repository.api_url), urlsplit(url)
            same = (there.scheme, there.hostname, there.port) == (here.scheme, here.hostname, here.port)
        except ValueError:
            same = False
        if not same:
            raise ListingError("GitHub's list links to another server. The token is not sent there.")
        path = there.path.removeprefix(here.path)
        if not path.endswith(f"/{listed}") or not path.startswith("/"):
            raise ListingError(f"GitHub's list links to something other than {listed}.")
        return f"{path}?{there.query}"

    def _get(
        self, path: str, query: dict[str, str] | None = None, *, allowed: Sequence[int] = (), what: str = ""
    ) -> ServerAnswer:
        """Send a read at most three times; an error begins with what failed."""
        for wait in (*BACKOFF_SECONDS, None):
            try:
                answer = self._exchange.send("GET", path, query=query)
            except NoAnswer as exc:
                if wait is None or not exc.passing:
                    raise ListingError(
                        f"{what}GitHub ({self._exchange.host}) {exc}."
                        " Check the network and GITHUB_API_URL, then try again."
                    ) from None
                self._sleep(wait)
                continue
            self._compare_clocks(answer)
            if answer.status == 200 or answer.status in allowed:
                return answer
            delay = wait_seconds(answer)
            passing = answer.status >= 500 or delay is not None
            if wait is None or not passing or (delay or 0.0) > MAX_READ_WAIT_SECONDS:
                next_step = _NEXT.get(
                    answer.status, " Try again in a few minutes." if answer.status >= 500 else ""
                )
                raise ListingError(
                    what + refusal_text(self.repository, answer, delay) + ("" if delay else next_step)
                )
            if delay is not None:
                self._tell(
                    f"GitHub: rate limited while reading {self.repository} ({answer.status});"
                    f" retrying in {words(delay)}"
                )
            self._sleep(wait if delay is None else delay)
        raise AssertionError

    def _json(self, answer: ServerAnswer) -> Any:
        try:
            return json.loads(answer.content)
        except (ValueError, RecursionError):
            raise ListingError(
                f"GitHub's answer about {self.repository} cannot be read: it is not JSON."
            ) from None

    def _compare_clocks(self, answer: ServerAnswer) -> None:
        with contextlib.suppress(ValueError, TypeError, OverflowError, KeyError):
            server_time = parsedate_to_datetime(answer.headers["date"])
            self._clock_error = timedelta(seconds=round((datetime.now(UTC) - server_time).total_seconds()))


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _unseen(page: list[dict[str, Any]], key: str, seen: set[int | str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for row in page:
        value = row.get(key)
        if not isinstance(value, int | str):
            rows.append(row)  # the reader of the row says what is wrong
        elif value not in seen:
            seen.add(value)
            rows.append(row)
    return rows
