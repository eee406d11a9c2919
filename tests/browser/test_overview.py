"""The first screen of a run's page: what needs a person, where the time went, how the run was started."""

import json
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from agentos.report.data import history_of, run_data
from agentos.report.page import write_report
from browser.conftest import PageAt, Shown
from browser.made_runs import make_run
from harness.processes import wait_until
from harness.project import Project
from unit.events.histories import record

Report = Callable[..., Path]
BEGUN = {
    "run_id": "r",
    "items": 2,
    "parallel": 2,
    "command": "agentos lld --all --budget 1",
    "workflow": "lld",
    "drafter": "openai:gpt-5",
    "reviewer": "anthropic:opus-5",
    "budget": 1.0,
    "carried": 0.25,
    "timeout": 3600,
    "max_iterations": 5,
    "max_wait": 3600,
    "version": "1.2.3",
    "commit": "0123456789ab",
}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Make the report of a made-up run; `change` may change its data first."""
    made: dict[str, tuple[Path, dict[str, Any]]] = {}

    def make(count: int = 11, change: Callable[[dict[str, Any]], None] | None = None, **how: Any) -> Path:
        name = json.dumps([count, how])
        if name not in made:
            root = tmp_path_factory.mktemp("made")
            run = make_run(root, count, **how)
            made[name] = run, run_data(run, worktree=root, history=history_of(run))
        run, data = made[name]
        data = json.loads(json.dumps(data))
        if change is not None:
            change(data)
        write_report(run, data)
        return run / "report.html"

    return make


@pytest.fixture
def of_events(tmp_path: Path) -> Callable[..., Path]:
    """Make the report of a run with these events."""

    def make(*events: dict[str, Any], **begun: Any) -> Path:
        run = tmp_path / ".agentos" / "logs" / "parallel" / "2026-11-16T10-00-00.000Z"
        run.mkdir(parents=True)
        lines = [record(0, "run_started", **BEGUN | begun), *events]
        (run / "events.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
        write_report(run, run_data(run, worktree=tmp_path))
        return run / "report.html"

    return make


def started(when: float, item: str, **more: Any) -> dict[str, Any]:
    return record(when, "started", item=item, label=f"LLD-{item}", attempt=1, pid=5, **more)


def waiting(when: float, item: str, kind: str, reason: str) -> dict[str, Any]:
    return record(when, "waiting", item=item, reason=reason, until_seconds=None, kind=kind, model="m")


def leased(when: float, item: str, lease: int, key: str = "key-1") -> dict[str, Any]:
    return record(when, "leased", item=item, lease=lease, key=key, provider="openai", model="gpt-5")


def settled(when: float, item: str, lease: int, **more: Any) -> dict[str, Any]:
    return record(when, "settled", item=item, lease=lease, key="key-1", **more)


def calm(shown: Shown) -> None:
    assert shown.errors == []
    assert shown.said == []
    assert shown.outside() == []
    assert shown.overflow() == 0


def live(data: dict[str, Any]) -> None:
    data["run"]["live"] = True


# Needs you.


def test_questions_and_failures_come_first_with_what_to_type(report: Report, page_at: PageAt) -> None:
    shown = page_at()
    page = shown.open(report())
    needs = page.locator(".ar-needs")
    expect(needs.get_by_role("heading", name="Needs you")).to_be_in_viewport()
    expect(needs.locator(".ar-needs-questions li")).to_have_count(1)
    expect(needs.locator(".ar-needs-questions")).to_contain_text("LLD-43")
    expect(needs.locator(".ar-needs-questions")).to_contain_text("Is a wait of up to one hour acceptable")
    expect(needs.locator(".ar-needs-problems li")).to_have_count(4)
    expect(needs.locator(".ar-needs-problems")).to_contain_text("the legacy schema is not described anywhere")
    expect(needs).to_contain_text("3 items have not finished: no key became free in time")
    assert needs.locator(".ar-type code").all_inner_texts() == [
        "agentos view",
        'agentos decide LLD-43 --note "..."',
        "agentos lld --all",
        "agentos lld --retry-failed",
        "agentos logs LLD-44",
    ]
    needs.get_by_role("button", name="LLD-43", exact=True).click()
    expect(page.locator(".ar-detail")).to_contain_text("Drafts and reviews")
    calm(shown)


def test_a_command_can_be_copied(report: Report, page_at: PageAt) -> None:
    shown = page_at()
    page = shown.open(report())
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    button = page.get_by_role("button", name="Copy: agentos view")
    button.click()
    expect(button).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == "agentos view"


def test_a_command_is_selected_where_the_clipboard_is_refused(report: Report, page_at: PageAt) -> None:
    shown = page_at()
    shown.page.add_init_script("delete Navigator.prototype.clipboard")
    page = shown.open(report())
    button = page.get_by_role("button", name="Copy: agentos view")
    button.click()
    expect(button).to_have_text("Press Ctrl+C")
    assert page.evaluate("String(getSelection())") == "agentos view"


def test_many_questions_need_one_command_and_do_not_bury_the_page(report: Report, page_at: PageAt) -> None:
    shown = page_at()
    page = shown.open(report(300, parallel=10, keys=6, every=False))
    needs = page.locator(".ar-needs")
    questions = needs.locator(".ar-needs-questions li")
    expect(questions).to_have_count(3)
    commands = needs.locator(".ar-type code").all_inner_texts()
    assert commands[0] == "agentos view"
    assert not any("decide" in one for one in commands)
    needs.get_by_role("button", name=re.compile(r"^Show \d+ more$")).first.click()
    assert questions.count() > 3
    expect(questions.nth(3).locator(".ar-open")).to_be_focused()
    calm(shown)


def test_the_question_leads_to_its_answer_where_the_page_can_answer(report: Report, page_at: PageAt) -> None:
    shown = page_at()
    page = shown.open(report())
    expect(page.get_by_role("button", name="Answer LLD-43")).to_have_count(0)
    page.evaluate(
        """() => {
            const place = document.getElementById("agentos-run");
            const data = window.AgentosRun.unpacked(JSON.parse(document.getElementById("agentos-run-data").textContent));
            window.AgentosRun.mount(place, data, { answer: (label) => { window.answered = label; } });
        }"""  # noqa: E501 - a script
    )
    page.get_by_role("button", name="Answer LLD-43").click()
    assert page.evaluate("window.answered") == "LLD-43"


def test_a_run_that_needs_nobody_says_so(report: Report, page_at: PageAt) -> None:
    shown = page_at()
    page = shown.open(report(3, rounds=1, every=False))
    expect(page.locator(".ar-needs")).to_have_text("Nothing needs you.")


@pytest.mark.parametrize(("count", "scheme"), [(11, "light"), (300, "dark")])
def test_the_first_screen_tells_what_happened_what_is_needed_what_it_cost_and_where_the_time_went(
    report: Report, page_at: PageAt, count: int, scheme: str
) -> None:
    shown = page_at(1280, scheme, height=900)
    page = shown.open(report(count, parallel=10 if count > 11 else 4, every=count == 11, earlier=3))
    for part in ("h1", ".ar-ended", ".ar-needs", ".ar-stats", ".ar-shares", ".ar-share-list"):
        expect(page.locator(part)).to_be_in_viewport(ratio=1)
    shown.shoot(f"first-{count}-{scheme}", whole=False)


def test_hostile_questions_are_text(report: Report, page_at: PageAt) -> None:
    shown = page_at()
    page = shown.open(report(hostile=True))
    expect(page.locator(".ar-needs-questions")).to_contain_text("<script>")
    assert page.evaluate("window.pwned") is None
    calm(shown)


# Where the time went, and honest figures.


def test_the_time_of_the_workers_is_one_bar_that_explains_itself(report: Report, page_at: PageAt) -> None:
    shown = page_at()
    page = shown.open(report())
    section = page.locator(".ar-time")
    shares = section.locator(".ar-share-list li")
    texts = shares.all_text_contents()
    assert [text.split(" % ")[1] for text in texts] == [
        "in calls",
        "waiting for keys",
        "back-off",
        "start-up and rest",
    ]
    assert sum(int(text.split(" %")[0]) for text in texts) == 100
    tip = page.locator(".ar-tip")
    section.locator(".ar-shares .ar-t-keys").hover()
    expect(tip).to_contain_text("No key could take the call")
    page.mouse.move(2, 2)
    expect(tip).to_be_hidden()
    shares.first.focus()
    expect(tip).to_contain_text("in calls")
    page.keyboard.press("Tab")
    expect(tip).to_contain_text("waiting for keys")
    shown.shoot("time", whole=False)
    calm(shown)


def test_waits_of_every_kind_are_hatched_and_say_why(of_events: Callable[..., Path], page_at: PageAt) -> None:
    kinds = {
        "key": "key-1 is rate limited",
        "overloaded": "gpt-5 is overloaded",
        "outage": "openai is down: no route",
        "budget": "calls in flight may use up the budget",
    }
    events = [started(0, "1"), record(0.1, "ready", item="1", pid=5)]
    for number, (kind, reason) in enumerate(kinds.items()):
        at = 1 + number * 10
        events += [waiting(at, "1", kind, reason), leased(at + 6, "1", number), settled(at + 9, "1", number)]
    events += [
        record(42, "waiting", item="1", reason="connection cut", until_seconds=5, kind="backoff"),
        record(50, "failed", item="1", label="LLD-1", status="failed", error="gave up"),
        record(50.2, "run_finished", exit_code=1, totals={"failed": 1}, stopped=None, seconds=50.2),
    ]
    shown = page_at()
    page = shown.open(of_events(*events, items=1))
    for kind, reason in kinds.items():
        span = page.locator(f".ar-row rect.ar-w-{kind}")
        assert "url" in str(span.evaluate("(node) => getComputedStyle(node).fill"))
        span.hover()
        expect(page.locator(".ar-tip")).to_contain_text(reason)
        page.mouse.move(2, 2)
    page.locator(".ar-row rect.ar-retry").hover()
    expect(page.locator(".ar-tip")).to_contain_text("connection cut")
    for words in ("waiting for a key", "overloaded model", "provider that is down", "the budget", "to retry"):
        expect(page.locator(".ar-legend")).to_contain_text(words)
    # No more time than the one worker had, and nobody at work while everything waits.
    texts = dict(
        zip(
            page.locator(".ar-stat dt").all_inner_texts(),
            page.locator(".ar-stat dd").all_inner_texts(),
            strict=True,
        )
    )
    assert texts["Workers at work"].split("\n")[0] == "0.4"
    assert texts["Worker time waited"].split("\n") == ["58 %", "29 s, all workers added up"]
    for stat in page.locator(".ar-stat").all():
        assert stat.get_attribute("title")
    shown.shoot("waits")
    calm(shown)


def test_calls_cut_short_by_a_stop_are_not_failures(of_events: Callable[..., Path], page_at: PageAt) -> None:
    events = [
        started(0, "1"),
        started(0, "2"),
        leased(1, "1", 1),
        leased(1, "2", 2),
        settled(9, "1", 1, error="given_up"),
        record(9.1, "interrupted", item="1", label="LLD-1", status="interrupted"),
        record(9.2, "returned", item="2", lease=2, key="key-1"),
        record(9.3, "timed_out", item="2", label="LLD-2", status="timed_out", error="timed out after 9 s"),
        record(9.4, "run_finished", exit_code=130, totals={}, stopped="interrupted", seconds=9.4),
    ]
    shown = page_at()
    page = shown.open(of_events(*events))
    expect(page.locator(".ar-row rect.ar-cut")).to_have_count(2)
    expect(page.locator(".ar-row rect.ar-bad")).to_have_count(0)
    expect(page.locator(".ar-legend")).not_to_contain_text("failed call")
    expect(page.locator(".ar-legend")).to_contain_text("call cut short")
    row = page.get_by_role("region", name="Table of keys").locator("tbody tr")
    assert row.locator("td").nth(3).inner_text() == "\N{EN DASH}"
    page.locator(".ar-row rect.ar-cut").first.hover()
    expect(page.locator(".ar-tip")).to_contain_text("stopped before an answer came")


def test_slow_models_have_a_lane_beside_the_keys(of_events: Callable[..., Path], page_at: PageAt) -> None:
    model = {"provider": "openai", "model": "gpt-5"}
    events = [
        started(0, "1"),
        leased(1, "1", 1),
        settled(5, "1", 1, error="capacity"),
        record(5, "capacity", **model, seconds=20, strikes=1, told=False),
        waiting(5, "1", "overloaded", "gpt-5 is overloaded"),
        record(15, "capacity_recovered", **model),
        leased(15, "1", 2),
        record(20, "provider_down", provider="openai", reason="no route"),
        record(30, "provider_back", provider="openai", seconds=10),
        settled(31, "1", 2),
        record(32, "completed", item="1", label="LLD-1", status="approved"),
        record(32, "run_finished", exit_code=0, totals={"approved": 1}, stopped=None, seconds=32),
    ]
    shown = page_at()
    page = shown.open(of_events(*events, items=1))
    page.get_by_role("button", name="By key").click()
    rows = page.locator(".ar-row-model")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("down for 10 s")
    expect(rows.last).to_contain_text("openai:gpt-5")
    expect(rows.last).to_contain_text("overloaded for 10 s")
    # The key is not to blame.
    assert (
        page.get_by_role("region", name="Table of keys").locator("tbody td").nth(3).inner_text()
        == "\N{EN DASH}"
    )
    rows.last.locator("rect.ar-w-overloaded").hover()
    expect(page.locator(".ar-tip")).to_contain_text("Model overloaded")
    expect(page.locator(".ar-legend")).to_contain_text("model overloaded")
    page.locator(".ar-rows").focus()
    page.keyboard.press("End")
    expect(page.locator(".ar-tip")).to_contain_text("another key would not help")
    page.keyboard.press("Enter")
    shown.shoot("slow-models")
    calm(shown)


# The header.


def test_the_header_tells_how_the_run_was_started(of_events: Callable[..., Path], page_at: PageAt) -> None:
    events = [
        started(0, "1"),
        leased(1, "1", 1),
        settled(5, "1", 1, tokens_in=1000, tokens_out=100, usd=0.3),
        record(6, "completed", item="1", label="LLD-1", status="approved"),
        record(7, "run_finished", exit_code=0, totals={"approved": 1}, stopped=None, seconds=7),
    ]
    shown = page_at()
    page = shown.open(of_events(*events))
    head = page.locator(".ar-head")
    for words in (
        "agentos lld --all --budget 1",
        "drafter openai:gpt-5",
        "reviewer anthropic:opus-5",
        "budget $1.00, $0.45 left ($0.25 spent by earlier runs)",
        "limits 1 h per item, 5 reviews, 1 h of waiting",
        "agentos 1.2.3",
        "commit 0123456789ab",
    ):
        expect(head).to_contain_text(words)
    expect(page.locator(".ar-stat").last).to_contain_text("of $1.00 budget")
    calm(shown)


def test_times_are_local_with_how_long_ago_and_utc_on_hover(browser: Browser, report: Report) -> None:
    context = browser.new_context(timezone_id="Asia/Tokyo")
    page = context.new_page()
    page.clock.install(time="2026-11-14T09:32:30Z")
    page.goto(report().as_uri())
    time = page.locator(".ar-head time")
    expect(time).to_have_text("14 Nov 2026, 18:30 (2 min ago)")
    expect(time).to_have_attribute("title", "14 Nov 2026, 09:30:00 UTC")
    page.clock.fast_forward(3_600_000)
    expect(time).to_have_text("14 Nov 2026, 18:30 (1 h ago)")
    context.close()


# Progress.


def bar_of(page: Page) -> list[str]:
    names = page.locator(".ar-share rect").evaluate_all(
        "(all) => all.map((one) => one.getAttribute('class'))"
    )
    return [str(name).rpartition("ar-s-")[2] for name in names]


def test_finished_items_come_first_in_the_progress_bar(report: Report, page_at: PageAt) -> None:
    def change(data: dict[str, Any]) -> None:
        live(data)
        data["run"]["totals"] = {"running": 4, "pending": 8, "approved": 1, "failed": 1}
        data["run"]["expected"] = 14

    shown = page_at()
    page = shown.open(report(change=change))
    assert bar_of(page) == ["approved", "failed", "running", "pending"]
    faint = page.locator(".ar-share .ar-s-pending").evaluate("(node) => getComputedStyle(node).fill")
    assert faint == "rgb(228, 227, 222)"


@pytest.mark.parametrize(
    ("left", "words"),
    [(None, "no estimate yet"), ("under 5 s", "under 5 s left"), ("2-5 min", "2-5 min left")],
)
def test_a_live_run_says_how_far_it_is(report: Report, page_at: PageAt, left: str | None, words: str) -> None:
    def change(data: dict[str, Any]) -> None:
        live(data)
        data["progress"] |= {"done": 5, "total": 40, "running": 4, "queued": 31, "left_words": left}
        data["progress"] |= {"spent": 0.123, "budget": 1.0, "calls_per_minute": 14.2}

    shown = page_at()
    page = shown.open(report(change=change))
    expect(page.locator(".ar-progress")).to_have_text(
        f"5 of 40 done · 4 running · 31 in the queue · $0.12 of $1.00 · 14 calls per minute · {words}"
    )


def test_what_runs_is_on_top_and_the_queue_is_visible(report: Report, page_at: PageAt) -> None:
    def change(data: dict[str, Any]) -> None:
        live(data)
        for item in data["items"][200:204]:
            item.update(status="running", node="draft")
        for item in data["items"][210:]:
            item.update(status="pending", attempts=0, spans=[])

    shown = page_at()
    page = shown.open(report(300, parallel=10, keys=6, every=False, change=change))
    rows = page.locator(".ar-row .ar-name")
    assert rows.all_inner_texts()[:4] == ["LLD-241", "LLD-242", "LLD-243", "LLD-244"]
    table = page.locator(".ar-items tbody th button")
    assert table.all_inner_texts()[:4] == ["LLD-241", "LLD-242", "LLD-243", "LLD-244"]
    page.locator(".ar-rows").focus()
    page.keyboard.press("End")
    queue = page.locator(".ar-row-group", has_text="90 in the queue")
    expect(queue).to_be_visible()
    queue.click()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".ar-row.ar-active")).to_contain_text("LLD-251")
    calm(shown)


def test_a_real_run_is_in_the_queue_before_it_starts(project: Project) -> None:
    project.issues(2)
    project.lld("--all", "--mock", "--parallel", "1")
    first = project.events()[:3]
    assert [one["event"] for one in first] == ["run_started", "queued", "queued"]
    assert [(one["label"], bool(one["title"])) for one in first[1:]] == [("LLD-1", True), ("LLD-2", True)]


# Small lines of earlier runs.


@pytest.mark.parametrize("width", [390, 1280, 1440, 1920])
def test_sparklines_cross_no_text(report: Report, page_at: PageAt, width: int) -> None:
    shown = page_at(width)
    page = shown.open(report(earlier=9))
    crossed = page.evaluate(
        """() => {
            const found = [];
            for (const line of document.querySelectorAll(".ar-stat .ar-spark")) {
                const box = line.getBoundingClientRect();
                for (const node of line.closest(".ar-stat").querySelectorAll("dt > span, dd > span")) {
                    const range = document.createRange();
                    range.selectNodeContents(node);
                    for (const one of range.getClientRects()) {
                        if (one.left < box.right && one.right > box.left && one.top < box.bottom && one.bottom > box.top) found.push(node.textContent);
                    }
                }
            }
            return [document.querySelectorAll(".ar-stat .ar-spark").length, found];
        }"""  # noqa: E501 - a script
    )
    assert crossed == [2, []]
    calm(shown)


# Real runs.


def shown_report(project: Project, page_at: PageAt) -> Page:
    return page_at().open(project.runs()[-1] / "report.html")


def test_a_real_run_shows_its_budget_and_the_waits_for_it(project: Project, page_at: PageAt) -> None:
    project.issues(3, mock="latency=0.3")
    project.run("lld", "--all", "--mock", "--parallel", "3", "--budget", "0.012")
    page = shown_report(project, page_at)
    assert page.locator(".ar-row rect.ar-w-budget").count() >= 2
    page.locator(".ar-row rect.ar-w-budget").first.hover()
    expect(page.locator(".ar-tip")).to_contain_text("calls in flight may use up the budget")
    expect(page.locator(".ar-share-list")).to_contain_text("waiting for the budget")
    expect(page.locator(".ar-stat").last).to_contain_text("of $0.012 budget")
    expect(page.locator(".ar-started")).to_contain_text("left")
    expect(page.locator(".ar-command")).to_contain_text(
        "agentos lld --all --mock --parallel 3 --budget 0.012"
    )
    needs = page.locator(".ar-needs")
    expect(needs).to_contain_text("the budget is reached")
    again = needs.locator(".ar-type code").first.inner_text().split()
    assert again[:3] == ["agentos", "lld", "--all"]
    assert float(again[again.index("--budget") + 1]) > 0.012
    assert project.run(*again[1:]).code == 0


def test_a_real_time_out_and_a_real_interruption_blame_no_key(project: Project, page_at: PageAt) -> None:
    project.issue(1, mock="hang=60")
    project.issue(2, mock="latency=60")
    project.lld("1", "--timeout", "2s")
    blames_no_key(project, page_at)
    command = project.start("lld", "2", "--mock")
    wait_until(lambda: len(project.runs()) == 2 and project.events("leased", run=-1), "a call")
    command.signal(signal.SIGINT)
    assert project.finish(command).code == 130
    blames_no_key(project, page_at)


def blames_no_key(project: Project, page_at: PageAt) -> None:
    keys = project.run("report", "--json").json["keys"]
    assert sum(key["errors"] for key in keys) == 0
    assert sum(key["cut_short"] for key in keys) == 1
    page = shown_report(project, page_at)
    expect(page.locator(".ar-legend")).to_contain_text("call cut short")
    expect(page.locator(".ar-legend")).not_to_contain_text("failed call")


def test_a_reason_does_not_repeat_the_status(report: Report, page_at: PageAt) -> None:
    def change(data: dict[str, Any]) -> None:
        problem = {"label": "LLD-44", "title": None, "status": "timed_out"}
        data["needs_you"]["problems"] = [problem | {"reason": "timed out after 5 s; stack trace in the log"}]

    page = page_at().open(report(change=change))
    expect(page.locator(".ar-needs-problems .ar-said")).to_have_text(
        "timed out after 5 s; stack trace in the log"
    )
