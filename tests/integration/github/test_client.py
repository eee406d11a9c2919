"""The client against a GitHub over HTTP: every page, no pull request, one write, and errors in words."""

import json
import logging
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import count
from typing import Any

import pytest

from agentos.errors import AgentosError, ListingError, UsageError
from agentos.github import FilingUncertain, IssueRefused, client
from agentos.github.client import Access, GitHub
from agentos.github.repository import Repository
from agentos.secret import Secret
from harness import github as fakegithub
from harness.github import FakeGitHub, refusal, running_fakegithub, secondary_limit
from harness.processes import wait_until


@pytest.fixture
def fake() -> Iterator[FakeGitHub]:
    with running_fakegithub() as running:
        yield running


@pytest.fixture
def slept() -> list[float]:
    return []


@pytest.fixture
def github(fake: FakeGitHub, slept: list[float]) -> GitHub:
    return connect(fake, slept)


def connect(
    fake: FakeGitHub,
    slept: list[float] | None = None,
    *,
    token: str = fakegithub.TOKEN,
    name: str = fakegithub.REPOSITORY,
    **how: Any,
) -> GitHub:
    repository = Repository(full_name=name, api_url=fake.url)
    given = Secret("github-token", token)
    return GitHub(repository, given, sleep=(slept if slept is not None else []).append, **how)


def an_hour_ago() -> datetime:
    return datetime.now(UTC) - timedelta(hours=1)


# Listing.


def test_every_page_of_open_issues_is_read_by_number(fake: FakeGitHub, github: GitHub) -> None:
    fake.fill(250)

    found = github.open_issues()

    assert [issue.number for issue in found] == list(range(1, 251))
    assert fake.count("GET") == 3


def test_250_issues_with_a_label_are_found_among_others_and_pull_requests(
    fake: FakeGitHub, github: GitHub
) -> None:
    for number in range(250):
        fake.add(f"Wanted {number}", labels=("Ready", "bug"))
        fake.add("other", labels=("bug",))
        if number % 50 == 0:
            fake.add("A change", labels=("ready",), pull_request=True)
            fake.add("done", labels=("ready",), state="closed")

    found = github.open_issues(["ready"])

    assert [issue.title for issue in found] == [f"Wanted {number}" for number in range(250)]
    assert {issue.labels for issue in found} == {("Ready", "bug")}
    assert fake.count("GET") == 3


def test_a_label_with_a_comma_is_one_label(fake: FakeGitHub, github: GitHub) -> None:
    wanted = fake.add(labels=("Small, cheap",))
    fake.add(labels=("small", "cheap"))

    assert [issue.number for issue in github.open_issues(["small, cheap"])] == [wanted]


def test_all_of_several_labels_must_be_there(fake: FakeGitHub, github: GitHub) -> None:
    fake.add(labels=("ready",))
    wanted = fake.add(labels=("Ready", "Small, cheap", "bug"))
    fake.add(labels=("ready", "bug"))

    found = github.open_issues(["ready", "bug", "small, cheap"])

    assert [issue.number for issue in found] == [wanted]


def test_every_page_of_labels_is_read(fake: FakeGitHub, github: GitHub) -> None:
    fake.unused_labels = tuple(f"label-{number:03}" for number in range(150))
    fake.add(labels=("zebra",))

    assert github.labels() == (*fake.unused_labels, "zebra")
    assert fake.count("GET", "/labels") == 2


def test_labels_that_cannot_be_listed_are_an_error(fake: FakeGitHub, github: GitHub) -> None:
    fake.fail_lists(404)
    with pytest.raises(ListingError, match=r"The labels of acme/widgets .* could not be listed"):
        github.labels()


def test_no_issue_is_an_empty_list(github: GitHub) -> None:
    assert github.open_issues() == ()


def test_an_issue_without_a_body_has_an_empty_one_and_costs_no_further_request(
    fake: FakeGitHub, github: GitHub
) -> None:
    fake.add(body=None)
    del fake.issues[1]["body"]

    assert github.open_issues()[0].body == ""
    assert fake.count("GET") == 1


@pytest.mark.parametrize(
    "answer", ["", "{}", "null", "<html>", '{"message": "hello"}', "[null]", '["x"]', "[[]]"]
)
def test_an_answer_that_is_no_list_is_an_error_and_not_an_empty_list(
    fake: FakeGitHub, github: GitHub, answer: str
) -> None:
    fake.next_lists(fakegithub.Fault(status=200, body=answer))

    with pytest.raises(ListingError, match="cannot be read"):
        github.open_issues()


def test_an_issue_that_cannot_be_read_fails_the_listing(fake: FakeGitHub, github: GitHub) -> None:
    fake.add()
    fake.issues[1]["number"] = "one"

    with pytest.raises(ListingError, match="cannot be read"):
        github.open_issues()


def test_only_the_number_of_an_issue_is_needed(fake: FakeGitHub, github: GitHub) -> None:
    entries = [
        {"number": 7},
        {"number": 8, "title": None, "labels": ["a", {"name": "b"}, {"id": 1}], "html_url": "no url"},
    ]
    fake.next_lists(fakegithub.Fault(status=200, body=json.dumps(entries)))
    fake.next_posts(fakegithub.Fault(creates=True, status=201, body='{"number": 9}'))

    seven, eight = github.open_issues()

    assert (seven.number, seven.title, seven.body, seven.labels) == (7, "", "", ())
    assert seven.url == f"{fake.url}/acme/widgets/issues/7"
    assert (eight.labels, eight.url) == (("a", "b"), f"{fake.url}/acme/widgets/issues/8")
    assert github.create("t", "b", ()).number == 9


def test_an_issue_that_cannot_be_read_is_named_and_harms_no_other(fake: FakeGitHub, github: GitHub) -> None:
    rows = '[{"number": 7, "title": ["x"]}, {"number": 8, "body": "\\ud800"}, {"number": 9, "title": "t"}]'
    fake.next_lists(*[fakegithub.Fault(status=200, body=rows)] * 2)

    seven, eight, nine = github.open_issues()

    assert "issue 7, which cannot be read (title)" in (seven.problem or "")
    assert eight.body == "?"
    assert (nine.title, nine.problem) == ("t", None)
    # Whether a marker stands there cannot be said.
    with pytest.raises(ListingError, match="issue 7, which cannot be read"):
        github.find("<!-- mark -->", an_hour_ago())


def test_a_moved_repository_is_told_and_not_followed(fake: FakeGitHub, github: GitHub) -> None:
    moved = refusal(301, "Moved Permanently", location=f"{fake.url}/repositories/4711/issues")
    fake.fill(1)
    fake.next_lists(moved)
    fake.next_posts(moved)

    with pytest.raises(ListingError, match=r"acme/widgets.* has moved \(301\)\. Set the new URL of origin"):
        github.open_issues()
    with pytest.raises(IssueRefused, match="has moved"):
        github.create("t", "b", ())
    assert len(fake.requests) == 2


@pytest.mark.parametrize(
    ("status", "next_step"), [(500, "Try again"), (403, "Give the token"), (404, "Check the URL of origin")]
)
def test_a_list_that_fails_says_what_and_what_next(
    fake: FakeGitHub, github: GitHub, status: int, next_step: str
) -> None:
    fake.fail_lists(status)

    with pytest.raises(ListingError, match=f"issues of acme/widgets.* could not be listed: .*{next_step}"):
        github.open_issues()


def test_a_wait_for_a_limit_is_told_before_it(fake: FakeGitHub) -> None:
    done: list[str] = []
    repository = Repository(full_name=fakegithub.REPOSITORY, api_url=fake.url)
    fake.next_lists(secondary_limit(7))

    GitHub(
        repository,
        Secret("github-token", fake.token),
        sleep=lambda seconds: done.append(f"slept {seconds:g}"),
        tell=done.append,
    ).open_issues()

    assert "acme/widgets" in done[0]
    assert "7 s" in done[0]
    assert done[1:] == ["slept 7"]


@pytest.fixture
def dead_proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{unused.getsockname()[1]}")
            monkeypatch.setenv(name.lower(), f"http://127.0.0.1:{unused.getsockname()[1]}")
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        yield


@pytest.mark.usefixtures("dead_proxy")
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_is_not_there_sends_nothing(scheme: str) -> None:
    away = FakeGitHub(url=f"{scheme}://github.invalid/api/v3")
    with pytest.raises(IssueRefused, match="proxy"):
        connect(away).create("t", "b", ())


@pytest.mark.usefixtures("dead_proxy")
def test_no_proxy_carries_what_stays_on_this_machine(fake: FakeGitHub) -> None:
    assert connect(fake).create("t", "b", ()).number == 1
    assert connect(FakeGitHub(url=fake.url.replace("127.0.0.1", "localhost"))).issue(1).title == "t"


def test_a_page_that_fails_in_the_middle_fails_the_listing(
    fake: FakeGitHub, github: GitHub, slept: list[float]
) -> None:
    fake.fill(150)
    fake.next_lists(fakegithub.OK, *[fakegithub.REFUSE_502] * 3)

    with pytest.raises(ListingError, match=r"answered 502 for acme/widgets.*Server Error"):
        github.open_issues()
    assert slept == [0.5, 2.0]


def test_a_read_is_tried_again_after_a_server_error_and_a_broken_connection(
    fake: FakeGitHub, github: GitHub
) -> None:
    fake.fill(1)
    fake.next_lists(fakegithub.REFUSE_502, fakegithub.REFUSE_CLOSE)

    assert len(github.open_issues()) == 1
    assert fake.count("GET") == 3


def test_a_server_that_never_answers_is_a_listing_error(fake: FakeGitHub) -> None:
    fake.next_lists(*[fakegithub.HANG] * 3)

    with pytest.raises(ListingError, match=r"did not answer within 0\.1 s"):
        connect(fake, timeout=0.1).open_issues()


def test_a_short_rate_limit_is_waited_for(fake: FakeGitHub, github: GitHub, slept: list[float]) -> None:
    fake.fill(1)
    fake.next_lists(secondary_limit(7), refusal(429, "slow down", retry_after="60"))

    assert len(github.open_issues()) == 1
    assert slept == [7.0, 60.0]


def test_a_primary_limit_is_waited_for_until_its_reset(
    fake: FakeGitHub, github: GitHub, slept: list[float]
) -> None:
    reset = int(datetime.now(UTC).timestamp()) + 30
    fake.next_lists(
        refusal(403, "API rate limit exceeded", x_ratelimit_remaining="0", x_ratelimit_reset=str(reset))
    )

    assert github.open_issues() == ()
    assert len(slept) == 1
    assert 0 < slept[0] <= 31


def test_a_long_rate_limit_is_told_with_its_end(fake: FakeGitHub, github: GitHub, slept: list[float]) -> None:
    fake.fail_lists(403, x_ratelimit_remaining="0", x_ratelimit_reset="4102444800")

    with pytest.raises(ListingError, match=r"Try again after 2100-01-01 00:0\d:\d\d UTC"):
        github.open_issues()
    assert slept == []


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (401, r"refused the token \(401\)"),
        (403, r"is not allowed to do this in acme/widgets.*\(403\): Server says no"),
        (404, r"acme/widgets.* does not exist, or the token cannot see it \(404\)"),
        (410, r"Issues are turned off"),
        (302, r"has moved \(302\)"),
        (418, r"answered 418"),
    ],
)
def test_a_refused_list_says_why_and_is_not_tried_again(
    fake: FakeGitHub, github: GitHub, status: int, told: str
) -> None:
    fake.fail_lists(status)

    with pytest.raises(ListingError, match=told):
        github.open_issues()
    assert fake.count("GET") == 1


def test_a_wrong_token_is_refused_and_not_shown(fake: FakeGitHub, caplog: pytest.LogCaptureFixture) -> None:
    github = connect(fake, token="ghp_secretsecret")
    with caplog.at_level(logging.DEBUG), pytest.raises(ListingError, match="refused the token") as raised:
        github.open_issues()

    assert "secretsecret" not in caplog.text + repr(github) + str(raised.value) + repr(raised.value.__cause__)


def test_no_document_gets_into_the_log(
    fake: FakeGitHub, github: GitHub, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        github.create("A title", "private words", ())
        github.open_issues()

    assert "private words" not in caplog.text
    assert fakegithub.TOKEN not in caplog.text


def test_a_server_that_is_not_there_cannot_be_listed() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        gone = FakeGitHub(url=f"http://127.0.0.1:{unused.getsockname()[1]}")
        with pytest.raises(ListingError, match="cannot be reached"):
            connect(gone).open_issues()
        with pytest.raises(IssueRefused, match="cannot be reached"):
            connect(gone).create("t", "b", ())


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("how", ["redirect", "link"])
def test_the_token_never_goes_to_another_server(
    fake: FakeGitHub, github: GitHub, status: int, how: str
) -> None:
    asked: list[str] = []

    class Thief(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

    with HTTPServer(("127.0.0.1", 0), Thief) as thief:
        thread = threading.Thread(target=thief.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        elsewhere = f"http://localhost:{thief.server_address[1]}/repos/acme/widgets/issues"
        if how == "redirect":
            fake.next_lists(refusal(status, "Moved", location=elsewhere))
        else:
            one = json.dumps([{"number": 1, "title": "t", "html_url": "http://x/1", "state": "open"}])
            fake.next_lists(
                fakegithub.Fault(status=200, body=one, headers={"link": f'<{elsewhere}>; rel="next"'})
            )
        try:
            with pytest.raises(ListingError, match=r"another|has moved"):
                github.open_issues()
        finally:
            thief.shutdown()
            thread.join()
    assert asked == []


# An answer has an end, and so has a list.


@pytest.mark.parametrize("fault", [fakegithub.DRIP_HEAD, fakegithub.DRIP_BODY, fakegithub.HANG])
def test_an_answer_is_whole_in_time_or_none(fake: FakeGitHub, fault: fakegithub.Fault) -> None:
    fake.next_posts(fault)

    with pytest.raises(FilingUncertain, match=r"within 0\.3 s"):
        connect(fake, limit=0.3).create("t", "b", ())

    # Nothing of it is left that could still send something.
    wait_until(lambda: "github" not in {one.name for one in threading.enumerate()}, "the end of its thread")


def test_an_error_holds_words_of_ours_alone(fake: FakeGitHub) -> None:
    fake.next_lists(*[fakegithub.REFUSE_CLOSE] * 3, fakegithub.refusal(422, "no"), fakegithub.HANG)
    fake.next_posts(fakegithub.CREATE_CLOSE, fakegithub.CREATE_GARBLED, fakegithub.refusal(422, "no"))
    github = connect(fake, timeout=0.2)

    for _time in range(3):
        for call in (github.open_issues, lambda: github.create("t", "private words", ())):
            error: BaseException | None = None
            try:
                call()
            except AgentosError as exc:
                error = exc
            while error is not None:
                assert type(error).__module__.startswith(("agentos.", "json")), error
                assert fake.token not in repr(error) + repr(vars(error))
                assert error.__cause__ is None
                error = None if error.__suppress_context__ else error.__context__


@pytest.mark.parametrize(
    ("limit", "value"),
    [("MAX_ROWS", 5), ("MAX_PAGES", 5), ("MAX_LISTING_BYTES", 50), ("LISTING_SECONDS", 50)],
)
def test_a_list_that_goes_on_and_on_is_given_up(
    fake: FakeGitHub, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    fake.endless = lambda page: [{"number": page}]
    monkeypatch.setattr(client, limit, value)
    ticks = count(step=9)
    with pytest.raises(ListingError, match="does not end"):
        connect(fake, clock=lambda: float(next(ticks))).open_issues()
    assert fake.count("GET") < 10


def test_pages_without_news_are_borne_for_a_while(fake: FakeGitHub) -> None:
    pages = {1: [{"number": 1}], 3: [{"number": 1}, {"number": 2}]}
    fake.endless = lambda page: pages.get(page, [])
    ticks = count(step=3)
    with pytest.raises(ListingError, match="has returned nothing new for 10 s"):
        connect(fake, clock=lambda: float(next(ticks))).open_issues()
    assert fake.count("GET") == 7  # page 3 had news; pages 4 to 7 took 12 s


@pytest.mark.parametrize(
    "link",
    ['<>; rel="next"', "<http://[x>; rel=next", "next", '<//x/issues>; rel="next"', '<?page=2>; rel="next"'],
)
def test_a_link_that_is_none_leads_nowhere(fake: FakeGitHub, github: GitHub, link: str) -> None:
    fake.next_lists(fakegithub.Fault(status=200, body='[{"number": 1}]', headers={"link": link}))

    if link == "next":
        assert [one.number for one in github.open_issues()] == [1]
    else:
        with pytest.raises(ListingError, match="links to another server"):
            github.open_issues()
    assert fake.count("GET") == 1


# One issue.


def test_an_issue_is_read(fake: FakeGitHub, github: GitHub) -> None:
    number = fake.add("The title", body="The body", labels=("a", "b"), state="closed")

    issue = github.issue(number)

    assert (issue.number, issue.title, issue.body, issue.labels, issue.state) == (
        number,
        "The title",
        "The body",
        ("a", "b"),
        "closed",
    )
    assert issue.url == "https://github.test/acme/widgets/issues/1"


def test_a_number_that_is_no_issue_is_a_usage_error(fake: FakeGitHub, github: GitHub) -> None:
    change = fake.add(pull_request=True)

    with pytest.raises(UsageError, match=r"no issue 99 in acme/widgets"):
        github.issue(99)
    with pytest.raises(UsageError, match=r"1 in acme/widgets.* is a pull request"):
        github.issue(change)


def test_a_server_error_is_not_a_missing_issue(fake: FakeGitHub) -> None:
    with pytest.raises(ListingError):
        connect(fake, token="wrong").issue(1)


# Creating.


def test_an_issue_is_created_with_title_body_and_labels(fake: FakeGitHub, github: GitHub) -> None:
    created = github.create("A title with ü", "A body\n\n<!-- x -->\n", ("bug", "size: S"))

    assert created.number == 1
    assert created.url == "https://github.test/acme/widgets/issues/1"
    (issue,) = fake.issues.values()
    assert (issue["title"], issue["body"]) == ("A title with ü", "A body\n\n<!-- x -->\n")
    assert [label["name"] for label in issue["labels"]] == ["bug", "size: S"]


@pytest.mark.parametrize(
    "fault",
    [
        fakegithub.CREATE_502,
        fakegithub.CREATE_HANG,
        fakegithub.CREATE_CLOSE,
        fakegithub.CREATE_GARBLED,
        fakegithub.REFUSE_502,
        fakegithub.REFUSE_CLOSE,
        fakegithub.Fault(creates=True, status=201, body="[]"),
        fakegithub.Fault(creates=True, status=201, body='{"number": 0}'),
        fakegithub.Fault(creates=True, status=200),
        fakegithub.Fault(creates=True, status=202),
        fakegithub.Fault(creates=True, status=408),
    ],
)
def test_a_write_is_sent_once_and_a_doubtful_answer_is_uncertain(
    fake: FakeGitHub, fault: fakegithub.Fault
) -> None:
    fake.next_posts(fault)

    with pytest.raises(FilingUncertain):
        connect(fake, timeout=0.5 if fault.hangs else 20.0).create("t", "b", ())

    assert fake.count("POST") == 1
    assert len(fake.issues) == fault.creates


@pytest.mark.parametrize(
    ("fault", "retry_after", "told"),
    [
        (secondary_limit(9), 9.0, r"rate limit is reached \(403\)"),
        (secondary_limit(5, 429), 5.0, r"rate limit is reached \(429\)"),
        (refusal(403, fakegithub.LIMIT), 60.0, "rate limit"),
        (refusal(429), 60.0, "rate limit"),
        (
            refusal(403, "Resource not accessible by integration"),
            None,
            "is not allowed to do this.*Resource not",
        ),
        (
            refusal(403, "no", x_ratelimit_remaining="4999", x_ratelimit_reset="4102444800"),
            None,
            "is not allowed",
        ),
        (refusal(401, "Bad credentials"), None, "refused the token"),
        (refusal(404, "Not Found"), None, "does not exist"),
        (refusal(410, "Issues are disabled"), None, "turned off"),
        (refusal(422, "Validation\x1b[31m Failed"), None, r"answered 422 .*Validation \[31m Failed"),
        (refusal(307, "Moved"), None, "has moved"),
    ],
)
def test_a_refusal_is_told_with_the_wait_it_asks_for(
    fake: FakeGitHub, github: GitHub, fault: fakegithub.Fault, retry_after: float | None, told: str
) -> None:
    fake.next_posts(fault)

    with pytest.raises(IssueRefused, match=told) as raised:
        github.create("t", "b", ())

    assert raised.value.retry_after == retry_after
    assert fake.count("POST") == 1
    assert fake.issues == {}


# Looking for a marker.


def test_a_marker_is_found_in_closed_issues_beyond_the_first_page(fake: FakeGitHub, github: GitHub) -> None:
    ours = fake.add(body="text\n\n<!-- mark -->\n", state="closed")
    fake.fill(150)

    found = github.find("<!-- mark -->", an_hour_ago())

    assert found is not None
    assert found.number == ours
    assert fake.count("GET", "/issues") == 2
    assert all("search" not in path for _method, path in fake.requests)


def test_of_copies_the_first_is_ours_and_a_pull_request_never_is(fake: FakeGitHub, github: GitHub) -> None:
    fake.add(body="<!-- mark -->", pull_request=True)
    ours = fake.add(body="<!-- mark -->")
    fake.add(body="copied: <!-- mark -->")

    found = github.find("<!-- mark -->", an_hour_ago())

    assert found is not None
    assert found.number == ours


def touch(fake: FakeGitHub, number: int, *, hours: float, body: str = "<!-- mark -->") -> None:
    """Let an issue be this old, and put a text into it now."""
    created = datetime.now(UTC) - timedelta(hours=hours)
    fake.issues[number] |= {"body": body, "created_at": created.strftime("%Y-%m-%dT%H:%M:%SZ")}


@pytest.mark.parametrize("login", ["ann", None])
@pytest.mark.parametrize("hours", [0, 2, 2_000])
def test_a_strangers_issue_with_our_marker_is_not_ours(
    fake: FakeGitHub, github: GitHub, login: str | None, hours: float
) -> None:
    fake.login = login
    for author in ("mallory", None):  # also an older one of our own
        touch(fake, fake.add(author=author), hours=hours if author else 2)
    ours = fake.add(body="<!-- mark -->")
    fake.add(body="<!-- mark -->", author="mallory")

    found = github.find("<!-- mark -->", an_hour_ago())

    assert found is not None
    assert found.number == ours


def test_a_strangers_issue_alone_is_a_doubt_unless_it_is_older(fake: FakeGitHub, github: GitHub) -> None:
    copy = fake.add(body="<!-- mark -->", author="mallory")
    with pytest.raises(
        ListingError, match="issues/1 has the hidden line of this filing, but mallory wrote it"
    ):
        github.find("<!-- mark -->", an_hour_ago())
    touch(fake, copy, hours=2)
    assert github.find("<!-- mark -->", an_hour_ago()) is None


def test_our_issue_is_found_if_the_clock_was_set_since(fake: FakeGitHub, github: GitHub) -> None:
    ours = fake.add(body="<!-- mark -->")
    touch(fake, ours, hours=2)

    found = github.find("<!-- mark -->", an_hour_ago())

    assert found is not None
    assert found.number == ours


def test_a_marker_that_is_nowhere_is_surely_absent(fake: FakeGitHub, github: GitHub) -> None:
    fake.fill(150)

    assert github.find("<!-- mark -->", an_hour_ago()) is None
    assert fake.count("GET") == 2


def test_an_incomplete_look_is_an_error_and_not_absence(fake: FakeGitHub, github: GitHub) -> None:
    fake.fill(150)
    fake.next_lists(fakegithub.OK, *[fakegithub.REFUSE_502] * 3)

    with pytest.raises(ListingError):
        github.find("<!-- mark -->", an_hour_ago())


@pytest.mark.parametrize("hours", [-10, 10])
def test_a_clock_that_is_hours_wrong_hides_nothing(hours: int) -> None:
    there = FakeGitHub(now=lambda: datetime.now(UTC) + timedelta(hours=hours))
    with running_fakegithub(there) as fake:
        github = connect(fake)
        ours = fake.add(body="<!-- mark -->")

        found = github.find("<!-- mark -->", datetime.now(UTC))

        assert found is not None
        assert found.number == ours


def test_with_a_clock_that_is_days_wrong_nothing_is_surely_absent() -> None:
    there = FakeGitHub(now=lambda: datetime.now(UTC) - timedelta(days=3))
    with running_fakegithub(there) as fake:
        github = connect(fake)
        fake.add(body="<!-- mark -->")

        with pytest.raises(ListingError, match="Set the clock"):
            github.find("<!-- mark -->", datetime.now(UTC))


# For the doctor.


def test_check_tells_what_may_be_done(fake: FakeGitHub, github: GitHub) -> None:
    assert github.check() == Access(readable=True, has_issues=True, push=True)
    fake.has_issues = fake.push = False
    assert github.check() == Access(readable=True, has_issues=False, push=False)


def test_check_tells_a_problem_instead_of_failing(fake: FakeGitHub) -> None:
    access = connect(fake, token="wrong").check()
    missing = connect(fake, name="acme/other").check()

    assert not access.readable
    assert access.problem is not None
    assert "refused the token" in access.problem
    assert missing.problem is not None
    assert "acme/other" in missing.problem
