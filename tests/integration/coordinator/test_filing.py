"""Filing: one issue each, always, whatever GitHub answers and wherever the process is killed."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentos.coordinator.file_issue import FiledIssue, Filer, NotFiled
from agentos.events import filing as events
from agentos.events.catalogue import Event
from agentos.github.client import GitHub
from agentos.github.repository import Repository
from agentos.model import Item
from agentos.secret import Secret
from agentos.store.records import Fence, Filing, FilingState, Records
from harness import github as fakegithub
from harness.github import FakeGitHub, Fault, refusal, running_fakegithub, secondary_limit
from harness.processes import wait_until
from harness.records import approve, hold
from integration.coordinator.filing_process import DOCUMENT, ITEM

FENCE = Fence(run_id="run-1", attempt=1)
OTHER = replace(ITEM, id="other", label="ISSUE-other")
THIRD = replace(OTHER, id="third")


def want(records: Records, item: Item, state: FilingState) -> None:
    """Approve an item with this wish."""
    approve(records, item, filing=state)


@dataclass(kw_only=True)
class Time:
    """Time that passes only by sleeping."""

    at: float = 0.0
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    slept: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at += seconds

    def clock(self) -> float:
        return self.at

    def now(self) -> datetime:
        return self.began + timedelta(seconds=self.at)


@dataclass(kw_only=True)
class Desk:
    """A filer with everything around it."""

    fake: FakeGitHub
    records: Records
    folder: Path
    time: Time = field(default_factory=Time)
    said: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    repository: str = fakegithub.REPOSITORY
    timeout: float = 30.0

    def filer(self, **how: Any) -> Filer:
        """A filer as a new run has it."""
        repository = Repository(full_name=self.repository, api_url=self.fake.url)
        github = GitHub(
            repository,
            Secret("github-token", self.fake.token),
            limit=self.timeout,
            sleep=lambda _seconds: None,
        )
        given: dict[str, Any] = {
            "fence": lambda _one: FENCE,
            "say": self.said.append,
            "record": self.events.append,
            "sleep": self.time.sleep,
            "now": self.time.now,
            "clock": self.time.clock,
            "allowed_labels": ("UI", "small"),
        }
        return Filer(github, self.records, **given | how)

    def row(self, item: Item = ITEM) -> Filing:
        found = self.records.filing(item)
        assert found is not None
        return found


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with running_fakegithub() as fake, Records(tmp_path / "records.db") as records:
        records.claim([ITEM, OTHER, THIRD], FENCE.run_id)
        yield Desk(fake=fake, records=records, folder=tmp_path)


# All is well.


def test_an_issue_is_filed_and_recorded(desk: Desk) -> None:
    want(desk.records, ITEM, FilingState.WANTED)

    result = desk.filer().file(ITEM, DOCUMENT)

    assert result == FiledIssue(number=1, url="https://github.test/acme/widgets/issues/1")
    (issue,) = desk.fake.issues.values()
    assert issue["title"] == "Dark mode"
    assert issue["body"].startswith("## User Story\n\nAs a reader")
    assert [label["name"] for label in issue["labels"]] == ["UI", "small"]
    row = desk.row()
    assert (row.state, row.number, row.tries, row.error) == (FilingState.FILED, 1, 1, None)
    assert issue["body"].endswith(f"\n\n{row.marker}\n")
    assert desk.events == [
        events.FilingStarted(item="dark-mode", repository=f"acme/widgets at {desk.fake.url}"),
        events.Filed(item="dark-mode", number=1, url=row.url),
    ]
    assert desk.said == [f"ISSUE-dark-mode: filed as #1: {row.url}"]


def test_labels_that_the_user_does_not_allow_stay_text(desk: Desk) -> None:
    document = DOCUMENT.replace("ui, small", "security-approved, Ui, small-ish")

    desk.filer().file(ITEM, document)

    (issue,) = desk.fake.issues.values()
    assert [label["name"] for label in issue["labels"]] == ["UI"]
    assert "security-approved, Ui, small-ish" in issue["body"]
    assert "labels left as text: security-approved, small-ish;" in desk.said[0]
    assert "filing_labels" in desk.said[0]


def test_what_is_filed_is_not_asked_about_again(desk: Desk) -> None:
    first = desk.filer().file(ITEM, DOCUMENT)

    assert desk.filer().file(ITEM, DOCUMENT) == first
    assert len(desk.fake.requests) == 1


def test_the_intent_is_synced_before_anything_is_sent(desk: Desk) -> None:
    seen: list[tuple[str, Any]] = []
    desk.records._file._db.set_trace_callback(lambda statement: seen.append(("sql", statement)))

    def at(step: str) -> None:
        seen.append((step, desk.fake.count("POST")))

    desk.filer(at=at).file(ITEM, DOCUMENT)

    steps = [one for one in seen if one[0] != "sql"]
    assert steps == [
        ("before_intent", 0),
        ("after_intent", 0),
        ("after_create", 1),
        ("before_result", 1),
        ("after_result", 1),
    ]
    for first, last in (("before_intent", "after_intent"), ("before_result", "after_result")):
        names = [name for name, _what in seen]
        between = [what for _name, what in seen[names.index(first) : names.index(last)]]
        assert "PRAGMA synchronous=FULL" in between
        assert between[-1] == "COMMIT"


def test_writes_are_a_second_apart_also_between_items(desk: Desk) -> None:
    filer = desk.filer()
    desk.fake.next_posts(refusal(422), fakegithub.OK, fakegithub.CREATE_502)
    moments: list[float] = []

    for number in range(5):
        item = replace(ITEM, id=f"item-{number}")
        hold(desk.records, item)
        filer.file(item, DOCUMENT)
        moments.append(desk.time.at)

    assert moments == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_a_text_that_changed_has_a_row_of_its_own(desk: Desk) -> None:
    changed = replace(ITEM, text="Another brief")
    desk.filer().file(ITEM, DOCUMENT)

    assert desk.filer().file(changed, DOCUMENT) == FiledIssue(
        number=2, url="https://github.test/acme/widgets/issues/2"
    )
    assert desk.row().number == 1
    assert desk.row(changed).number == 2


# Uncertain.


@pytest.mark.parametrize(
    "fault",
    [fakegithub.CREATE_502, fakegithub.CREATE_CLOSE, fakegithub.CREATE_HANG, fakegithub.CREATE_GARBLED],
)
def test_an_issue_made_without_an_answer_is_found_and_not_made_again(desk: Desk, fault: Fault) -> None:
    desk.fake.next_posts(fault)
    if fault.hangs:
        desk.timeout = 1.0

    result = desk.filer().file(ITEM, DOCUMENT)

    assert isinstance(result, FiledIssue)
    assert desk.fake.holding(desk.row().marker) == [1]
    assert desk.fake.count("POST") == 1
    assert desk.row().state is FilingState.FILED


def test_it_is_made_again_only_when_it_had_time_to_appear(desk: Desk) -> None:
    desk.fake.next_posts(fakegithub.REFUSE_502)

    result = desk.filer().file(ITEM, DOCUMENT)

    assert isinstance(result, FiledIssue)
    assert desk.time.slept == [2.0] * 5
    assert desk.fake.count("GET") == 6
    assert desk.fake.holding(desk.row().marker) == [1]
    assert desk.row().tries == 2


def test_an_issue_that_appears_late_is_found(desk: Desk) -> None:
    desk.fake.next_posts(fakegithub.REFUSE_502)

    def sleep(seconds: float) -> None:
        desk.time.sleep(seconds)
        if desk.time.at == 8.0:
            desk.fake.add(body=f"text\n\n{desk.row().marker}\n")

    result = desk.filer(sleep=sleep).file(ITEM, DOCUMENT)

    assert isinstance(result, FiledIssue)
    assert desk.fake.count("POST") == 1


def test_after_three_uncertain_tries_it_stays_unknown_and_the_next_run_looks_again(desk: Desk) -> None:
    desk.fake.next_posts(*[fakegithub.REFUSE_502] * 3)

    result = desk.filer().file(ITEM, DOCUMENT)

    assert isinstance(result, NotFiled)
    assert result.unknown
    assert "502" in result.reason
    assert desk.fake.count("POST") == 3
    row = desk.row()
    assert (row.state, row.tries, row.error) == (FilingState.INTENDED, 3, result.reason)
    assert desk.events[-1] == events.FilingUnknown(item="dark-mode", reason=result.reason)

    assert isinstance(desk.filer().file(ITEM, DOCUMENT), FiledIssue)
    assert desk.row().marker == row.marker
    assert desk.row().attempted_at == row.attempted_at
    assert desk.fake.holding(row.marker) == [1]


@pytest.mark.parametrize("status", [500, 403, 404, 401])
def test_what_cannot_be_looked_up_stays_unknown_and_is_not_made_again(desk: Desk, status: int) -> None:
    desk.fake.next_posts(fakegithub.CREATE_502)
    desk.fake.fail_lists(status)

    first = desk.filer().file(ITEM, DOCUMENT)
    again = desk.filer().file(ITEM, DOCUMENT)

    for result in (first, again):
        assert isinstance(result, NotFiled)
        assert result.unknown
    assert desk.row().state is FilingState.INTENDED
    assert desk.fake.count("POST") == 1

    desk.fake.fail_lists(None)
    assert isinstance(desk.filer().file(ITEM, DOCUMENT), FiledIssue)
    assert desk.fake.count("POST") == 1


@pytest.mark.parametrize(
    ("age", "polls"), [(0, 5), (15, 5), (30, 5), (37, 2), (50, 0), (86_400, 0), (-50, 5)]
)
def test_an_attempt_of_an_earlier_process_is_given_its_time(desk: Desk, age: int, polls: int) -> None:
    desk.records.intend(
        ITEM,
        FENCE,
        repository=f"{desk.fake.url}/repos/acme/widgets",
        marker=f"<!-- agentos-filing: {'0' * 32} -->",
        at=(desk.time.now() - timedelta(seconds=age)).isoformat(),
    )

    result = desk.filer().file(ITEM, DOCUMENT)

    assert isinstance(result, FiledIssue)
    assert len(desk.time.slept) == polls
    assert desk.fake.holding("0" * 32) == [1]


def test_an_attempt_in_another_repository_is_not_repeated_here(desk: Desk) -> None:
    desk.fake.next_posts(fakegithub.CREATE_502)
    desk.fake.fail_lists(500)
    desk.filer().file(ITEM, DOCUMENT)
    asked = len(desk.fake.requests)
    desk.repository = "acme/other"

    result = desk.filer().file(ITEM, DOCUMENT)

    assert isinstance(result, NotFiled)
    assert result.unknown
    assert "acme/widgets" in result.reason
    assert len(desk.fake.requests) == asked
    assert desk.row().state is FilingState.INTENDED


# Earlier texts.


def unknown(desk: Desk) -> Filing:
    """Leave an attempt behind whose issue is there, and nobody knows it."""
    desk.fake.next_posts(fakegithub.CREATE_502)
    desk.fake.fail_lists(500)
    desk.filer().file(ITEM, DOCUMENT)
    desk.fake.fail_lists(None)
    return desk.row()


def settle(desk: Desk) -> tuple[Filing, ...]:
    return desk.filer().settle_earlier(
        desk.records.unknown_filings(), lambda row: f"ISSUE-{row.item}", lambda _row: FilingState.KEPT
    )


def test_an_earlier_text_is_looked_up_and_recorded(desk: Desk) -> None:
    unknown(desk)

    assert settle(desk) == ()
    assert (desk.row().state, desk.row().number) == (FilingState.FILED, 1)
    assert "ISSUE-dark-mode: an earlier version was filed as #1" in desk.said[-1]
    assert desk.fake.count("POST") == 1


def test_an_earlier_text_that_is_surely_absent_is_intended_no_more(desk: Desk) -> None:
    unknown(desk)
    desk.fake.issues.clear()

    assert settle(desk) == ()
    assert desk.row().state is FilingState.KEPT
    assert desk.said[-1] == "ISSUE-dark-mode: an earlier version was not filed"
    assert desk.records.unknown_filings() == ()


@pytest.mark.parametrize("elsewhere", [False, True])
def test_an_earlier_text_that_cannot_be_looked_up_stays_unknown(desk: Desk, elsewhere: bool) -> None:
    before = unknown(desk)
    desk.fake.fail_lists(None if elsewhere else 500)
    desk.repository = "acme/other" if elsewhere else desk.repository

    (left,) = settle(desk)

    assert left.marker == before.marker
    assert desk.row().state is FilingState.INTENDED
    assert "ISSUE-dark-mode: an earlier version may already be filed" in desk.said[-1]


@pytest.mark.parametrize(("age", "wait"), [(0.0, 1.0), (0.25, 0.75), (5.0, 0.0), (-60.0, 1.0)])
def test_the_first_write_keeps_its_distance_from_the_latest_of_another_process(
    desk: Desk, age: float, wait: float
) -> None:
    moment = (desk.time.now() - timedelta(seconds=age)).isoformat()
    desk.records.intend(OTHER, FENCE, repository="r", marker="m", at=moment)

    desk.filer().file(ITEM, DOCUMENT)

    assert sum(desk.time.slept) == pytest.approx(wait)


# Refused.


def test_a_rate_limit_is_waited_for_and_the_issue_filed(desk: Desk) -> None:
    desk.fake.next_posts(secondary_limit(30), secondary_limit(60, 429))

    result = desk.filer().file(ITEM, DOCUMENT)

    assert isinstance(result, FiledIssue)
    assert desk.time.slept == [30.0, 60.0]
    assert desk.fake.count("POST") == 3
    assert any("not filed yet" in line and "rate limit" in line for line in desk.said)


def test_a_rate_limit_that_goes_on_leaves_it_wanted(desk: Desk) -> None:
    desk.fake.next_posts(*[secondary_limit(5)] * 3)

    result = desk.filer().file(ITEM, DOCUMENT)

    assert isinstance(result, NotFiled)
    assert not result.unknown
    assert desk.row().state is FilingState.WANTED
    assert desk.fake.count("POST") == 3


def test_a_long_rate_limit_is_not_waited_for_and_holds_for_every_item(desk: Desk) -> None:
    desk.fake.next_posts(secondary_limit(3600))
    filer = desk.filer()

    first = filer.file(ITEM, DOCUMENT)
    second = filer.file(OTHER, DOCUMENT)

    for result, item in ((first, ITEM), (second, OTHER)):
        assert isinstance(result, NotFiled)
        assert not result.unknown
        assert "rate limit" in result.reason
        assert desk.row(item).state is FilingState.WANTED
    assert desk.fake.count("POST") == 1
    assert desk.time.slept == []
    assert filer.file(THIRD, DOCUMENT) == second


def test_a_refusal_leaves_it_wanted_with_the_reason(desk: Desk) -> None:
    desk.fake.next_posts(refusal(403, "Resource not accessible"))

    result = desk.filer().file(ITEM, DOCUMENT)

    assert isinstance(result, NotFiled)
    assert not result.unknown
    assert "Resource not accessible" in result.reason
    row = desk.row()
    assert (row.state, row.error) == (FilingState.WANTED, result.reason)
    assert desk.fake.count("POST") == 1
    assert desk.events[-1] == events.FilingRefused(item="dark-mode", reason=result.reason)
    assert isinstance(desk.filer().file(ITEM, DOCUMENT), FiledIssue)
    assert desk.row().error is None


def test_what_was_refused_there_may_be_filed_here(desk: Desk) -> None:
    desk.repository = "acme/gone"
    desk.filer().file(ITEM, DOCUMENT)
    there = desk.row()
    assert there.state is FilingState.WANTED
    desk.repository = fakegithub.REPOSITORY

    assert isinstance(desk.filer().file(ITEM, DOCUMENT), FiledIssue)
    assert desk.row().marker != there.marker
    assert desk.row().repository.endswith("acme/widgets")


def test_an_issue_that_comes_up_after_a_refusal_is_still_found(desk: Desk) -> None:
    desk.fake.next_posts(fakegithub.REFUSE_502, refusal(403))
    desk.filer().file(ITEM, DOCUMENT)
    assert desk.row().state is FilingState.WANTED
    desk.fake.add(body=desk.row().marker)

    assert isinstance(desk.filer().file(ITEM, DOCUMENT), FiledIssue)
    assert desk.fake.count("POST") == 2


def test_a_text_that_is_too_long_is_not_sent(desk: Desk) -> None:
    result = desk.filer().file(ITEM, "# T\n\n" + "x" * 65_536)

    assert isinstance(result, NotFiled)
    assert "65,536" in result.reason
    assert "Shorten the document or the brief" in result.reason
    assert desk.fake.requests == []
    assert desk.row().state is FilingState.WANTED


@pytest.mark.parametrize(
    ("fault", "state"),
    [(secondary_limit(30), FilingState.WANTED), (fakegithub.REFUSE_502, FilingState.INTENDED)],
)
def test_a_stop_while_waiting_leaves_what_is_true(desk: Desk, fault: Fault, state: FilingState) -> None:
    desk.fake.next_posts(fault)

    def stop(_seconds: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        desk.filer(sleep=stop).file(ITEM, DOCUMENT)

    assert desk.row().state is state
    assert isinstance(desk.filer().file(ITEM, DOCUMENT), FiledIssue)
    assert len(desk.fake.issues) == 1


def test_what_the_model_wrote_is_posted_harmless(desk: Desk) -> None:
    document = (
        "# For @bob\n\nFixes #1, @acme/team <!-- agentos-filing: 00000000000000000000000000000000 -->\n"
    )

    desk.filer().file(ITEM, document)

    (issue,) = desk.fake.issues.values()
    assert not re.search(r"@\w|Fixes #", issue["title"] + issue["body"])
    assert issue["body"].count("<!--") == 1


# Records.


def test_whether_an_item_is_wanted_can_change_until_it_was_sent(desk: Desk) -> None:
    records = desk.records
    assert records.filing(ITEM) is None
    want(records, ITEM, FilingState.KEPT)
    assert desk.row().state is FilingState.KEPT
    want(records, ITEM, FilingState.WANTED)
    assert desk.row().state is FilingState.WANTED
    records.intend(ITEM, FENCE, repository="r", marker="m", at="2026-01-01T00:00:00.000Z")
    want(records, ITEM, FilingState.KEPT)
    assert desk.row().state is FilingState.INTENDED
    records.filed(ITEM, FENCE, number=7, url="u")
    want(records, ITEM, FilingState.WANTED)
    records.intend(ITEM, FENCE, repository="r", marker="m2", at="2026-01-02T00:00:00.000Z")
    records.filing_failed(ITEM, FENCE, error="no", unknown=False)
    records.filed(ITEM, FENCE, number=8, url="v")
    row = desk.row()
    assert (row.state, row.number, row.url, row.marker, row.error) == (FilingState.FILED, 7, "u", "m", None)


def test_filings_are_listed_by_item_and_text_and_go_when_the_item_is_forgotten(desk: Desk) -> None:
    records = desk.records
    changed = replace(ITEM, text="changed")
    for item in (ITEM, changed, OTHER, replace(ITEM, workflow="lld")):
        want(records, item, FilingState.WANTED)

    assert set(records.filings("issue")) == {(item.id, item.input_hash) for item in (ITEM, changed, OTHER)}
    records.forget(ITEM, hold(records, ITEM))
    assert set(records.filings("issue")) == {(item.id, item.input_hash) for item in (changed, OTHER)}
    assert records.filing(ITEM) is None
    with Records(desk.folder / "none" / "records.db", write=False) as empty:
        assert empty.filings("issue") == {}


# Taken over by another run.


@pytest.mark.parametrize(
    ("step", "sent", "told"),
    [
        ("before_intent", 0, "run run-2 has the item now"),
        ("after_create", 1, "it was filed as #1: https://github.test/acme/widgets/issues/1, but run run-2"),
    ],
)
def test_a_run_that_lost_the_item_records_nothing_and_the_other_finds_the_issue(
    desk: Desk, step: str, sent: int, told: str
) -> None:
    want(desk.records, ITEM, FilingState.WANTED)
    before: list[Filing] = []

    def at(now: str) -> None:
        if now == step:
            before.append(desk.row())
            hold(desk.records, ITEM, "run-2")

    result = desk.filer(at=at).file(ITEM, DOCUMENT)

    assert isinstance(result, NotFiled)
    assert result.reason.startswith(told)
    assert result.unknown == bool(sent)
    assert desk.said[-1] == f"ISSUE-dark-mode: {result.reason}; this run recorded nothing for it"
    assert (desk.fake.count("POST"), [desk.row()]) == (sent, before)
    later = desk.filer(fence=lambda _one: hold(desk.records, ITEM)).file(ITEM, DOCUMENT)
    assert later == FiledIssue(number=1, url="https://github.test/acme/widgets/issues/1")
    assert desk.fake.count("POST") == 1


@pytest.mark.parametrize("fault", [refusal(422), fakegithub.CREATE_502])
def test_a_failure_is_not_recorded_by_a_run_that_lost_the_item(desk: Desk, fault: Fault) -> None:
    desk.fake.next_posts(fault)
    desk.fake.fail_lists(404)
    before: list[Filing] = []

    def at(now: str) -> None:
        if now == "after_create":
            before.append(desk.row())
            hold(desk.records, ITEM, "run-2")

    result = desk.filer(at=at).file(ITEM, DOCUMENT)

    assert isinstance(result, NotFiled)
    assert result.reason == "run run-2 has the item now"
    assert result.unknown == (fault is fakegithub.CREATE_502)
    assert [desk.row()] == before
    told = "filing_unknown" if result.unknown else "filing_refused"
    assert [event.name for event in desk.events] == ["filing", told]


@pytest.mark.parametrize("there", [True, False])
def test_what_became_of_an_earlier_text_is_not_recorded_by_a_run_that_lost_the_item(
    desk: Desk, there: bool
) -> None:
    desk.records.intend(
        ITEM,
        FENCE,
        repository=f"{desk.fake.url}/repos/acme/widgets",
        marker="<!-- m -->",
        at="2026-01-01T00:00Z",
    )
    if there:
        desk.fake.add(body="<!-- m -->")
    before = desk.row()
    hold(desk.records, ITEM, "run-2")

    desk.filer().settle_earlier([before], lambda _row: "ISSUE-x", lambda _row: FilingState.KEPT)

    assert desk.row() == before
    assert "not recorded: run run-2 has the item now" in desk.said[-1]
    assert desk.events == []


# Killed.


@pytest.fixture(scope="module")
def process() -> Iterator[subprocess.Popen[str]]:
    """The process that forks one for every filing."""
    with subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("filing_process.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as started:
        try:
            yield started
        finally:
            assert started.stdin is not None
            started.stdin.close()
            started.wait(timeout=30)


@dataclass(kw_only=True)
class Office:
    """Files in processes of their own, which can be killed."""

    process: subprocess.Popen[str]
    fake: FakeGitHub
    folder: Path
    hangs: bool = False  # then a busy machine must not look like a server that hangs

    def start(self, kill: str = "") -> int:
        order = {
            "kill": kill,
            "timeout": 1.0 if self.hangs else 60.0,
            "settle": 3.0 if self.hangs else 0.1,
            "repository": self.fake.repository,
            "url": self.fake.url,
            "token": self.fake.token,
            "records": str(self.folder / "records.db"),
            "done": str(self.folder / "done.json"),
        }
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return int(self._line()["started"])

    def end(self) -> dict[str, Any]:
        return self._line()

    def run(self, kill: str = "") -> dict[str, Any]:
        self.start(kill)
        return self.end()

    def marker(self) -> str:
        with Records(self.folder / "records.db", write=False) as records:
            row = records.filing(ITEM)
            return row.marker if row else ""

    def _line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found


@pytest.fixture
def office(process: subprocess.Popen[str], tmp_path: Path) -> Iterator[Office]:
    with running_fakegithub() as fake:
        yield Office(process=process, fake=fake, folder=tmp_path)


STEPS = ("before_intent", "after_intent", "after_create", "before_result", "after_result")
ANSWERS = ("ok", "create-502", "create-hang", "create-close", "502", "secondary")


@pytest.mark.slow
@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_any_step_with_any_answer_there_is_one_issue(
    office: Office, step: str, answer: str
) -> None:
    office.fake.next_posts(fakegithub.MODES[answer])
    office.hangs = fakegithub.MODES[answer].hangs

    first = office.run(kill=step)
    second = office.run()

    assert first["killed"]
    assert second == {"killed": False, "filed": 1}
    assert office.fake.holding(office.marker()) == [1]
    assert len(office.fake.issues) == 1
    assert office.run() == second


@pytest.mark.parametrize("step", STEPS)
def test_killed_at_the_same_step_again_and_again_there_is_one_issue(office: Office, step: str) -> None:
    office.fake.next_posts(fakegithub.REFUSE_502, fakegithub.CREATE_502)

    for _time in range(3):
        office.run(kill=step)

    assert office.run()["filed"] == 1
    assert office.fake.holding(office.marker()) == [1]
    assert len(office.fake.issues) == 1


@pytest.mark.parametrize("fault", [fakegithub.CREATE_HANG, fakegithub.HANG, fakegithub.HANG_THEN_CREATE])
def test_killed_while_github_works_there_is_one_issue(office: Office, fault: Fault) -> None:
    office.fake.next_posts(fault)
    pid = office.start()
    wait_until(lambda: office.fake.count("POST") == 1, "the write")

    os.kill(pid, signal.SIGKILL)
    assert office.end()["killed"]
    office.fake.released.set()
    if fault.late:
        wait_until(lambda: office.fake.issues, "the issue made after the process had died")

    assert office.run()["filed"] == 1
    assert office.fake.holding(office.marker()) == [1]
    assert len(office.fake.issues) == 1


def test_killed_and_not_to_be_looked_up_it_is_not_filed_again(office: Office) -> None:
    assert office.run(kill="after_create")["killed"]
    office.fake.fail_lists(404)

    result = office.run()

    assert (result["filed"], result["unknown"]) == (None, True)
    assert office.fake.count("POST") == 1
    office.fake.fail_lists(None)
    assert office.run()["filed"] == 1
    assert office.fake.count("POST") == 1
