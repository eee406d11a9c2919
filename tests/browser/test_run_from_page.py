"""Runs that the live page starts and stops, in a real browser and with the real command."""

import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from browser.test_view import ADDRESS, PATIENCE, arrive, clean
from harness.processes import wait_until

PageAt = Callable[..., Any]


@pytest.fixture
def served(project: Any) -> Iterator[Callable[..., tuple[str, Any]]]:
    """Start `agentos view --allow-run`; return its address and its process."""
    started: list[Any] = []

    def start(*flags: str) -> tuple[str, Any]:
        process = project.start(*flags, "view", "--no-open", "--allow-run")
        started.append(process)
        found = ADDRESS.search(process.line())
        assert found is not None
        return found[0], process

    yield start
    for process in started:
        if process.poll() is None:
            process.signal(signal.SIGINT)
            project.finish(process, timeout=20)


def confirm(page: Any, button: str, *texts: str) -> None:
    window = page.get_by_role("dialog")
    for text in texts:
        expect(window).to_contain_text(text)
    window.get_by_role("button", name=button, exact=True).click()


def test_an_answer_is_run_from_the_page(project: Any, served: Any, page_at: PageAt) -> None:
    project.issue(43, mock="verdicts=DISCUSS,APPROVED")
    assert project.lld("43").code == 3
    address, _ = served()
    shown = page_at()
    page = arrive(shown, address, "#/inbox/LLD-43")
    page.get_by_role("button", name="Approve").click()
    page.get_by_role("button", name="Run now").click()
    confirm(page, "Cancel", "agentos lld 43 --mock", "The mock costs nothing.")
    expect(page.locator("#started")).to_be_hidden()
    page.get_by_role("button", name="Run now").click()
    shown.shoot("run-confirm", whole=False)
    confirm(page, "Start")
    expect(page.locator("#started")).to_contain_text("ended with exit code 0", timeout=PATIENCE)
    page.locator("#started summary").click()
    expect(page.locator("#started pre")).to_contain_text("1 approved")
    shown.shoot("run-started")
    assert project.statuses() == {"43": "approved"}
    assert len(project.runs()) == 2
    clean(shown, address)


def test_an_answer_runs_as_the_run_that_asked(project: Any, served: Any, page_at: PageAt) -> None:
    project.issue(43, mock="verdicts=DISCUSS,APPROVED")
    typed = ("--max-wait", "60", "--max-retries", "2", "--no-file", "--source", "local", "--budget", "3")
    assert project.lld("43", *typed).code == 3
    home = project.root / ".agentos"
    address, _ = served("--home", ".agentos")
    page = arrive(page_at(), address, "#/inbox/LLD-43")
    page.get_by_role("button", name="Approve").click()
    flags = "--mock --source local --max-retries 2 --max-wait 60 --budget 3 --no-file"
    command = f"agentos --home {home} lld 43 {flags}"
    expect(page.locator("#inbox-view .v-command code")).to_have_text(command)
    page.get_by_role("button", name="Run now").click()
    confirm(page, "Start", command)
    expect(page.locator("#started")).to_contain_text("ended with exit code 0", timeout=PATIENCE)
    first, second = project.events("run_started")
    assert first["flags"] == second["flags"]


def test_a_run_stopped_for_its_budget_resumes_with_a_larger_one(
    project: Any, served: Any, page_at: PageAt
) -> None:
    project.issue(1)
    stopped = project.lld("1", "--budget", "0.001")
    assert stopped.code == 5, stopped
    address, _ = served()
    page = arrive(page_at(), address)
    command = page.locator(".ar-type code").first.inner_text()
    assert "--budget" in command
    assert command in stopped.text
    page.get_by_role("button", name="Resume").click()
    confirm(page, "Start", command)
    expect(page.locator("#started")).to_contain_text("ended with exit code 0", timeout=PATIENCE)


def test_failed_items_are_retried_and_an_error_is_shown(project: Any, served: Any, page_at: PageAt) -> None:
    project.issue(41)
    project.issue(45, mock='fail="no such table"')
    assert project.lld("41", "45").code == 1
    address, _ = served()
    shown = page_at()
    page = arrive(shown, address)
    expect(page.get_by_role("button", name="Resume")).to_have_count(0)
    page.get_by_role("button", name="Retry failed").click()
    confirm(page, "Start", "agentos lld 41 45 --retry-failed --mock")
    expect(page.locator("#started")).to_contain_text("ended with exit code 1", timeout=PATIENCE)
    expect(page.locator("#started pre")).to_contain_text("no such table")
    # The run may be impossible: its message is shown.
    (project.root / "issues/active/45.md").unlink()
    page.get_by_role("button", name="Retry failed").click()
    confirm(page, "Start")
    expect(page.locator("#started")).to_contain_text("ended with exit code 2", timeout=PATIENCE)
    expect(page.locator("#started pre").first).to_contain_text("45")
    clean(shown, address)


def test_a_run_is_stopped_once_and_resumed(project: Any, served: Any, page_at: PageAt) -> None:
    project.issue(7, mock="latency=1 verdicts=REVISE,REVISE,APPROVED")
    running = project.start("lld", "7", "--mock")  # not started by the page
    address, view = served()
    shown = page_at()
    page = arrive(shown, address)
    stop = page.get_by_role("button", name="Stop the run")
    expect(stop).to_be_visible(timeout=PATIENCE)
    expect(page.locator("#side-list a")).to_contain_text("1 running", timeout=PATIENCE)
    stop.click()
    confirm(page, "Stop", "save their progress")
    expect(page.locator("#news")).to_contain_text("Stopping; progress is saved.")
    assert project.finish(running).code == 130
    page.get_by_role("button", name="Resume").click(timeout=PATIENCE)
    confirm(page, "Start", "agentos lld 7 --mock")
    expect(page.locator("#started")).to_contain_text("running, started from this page", timeout=PATIENCE)
    wait_until(lambda: len(project.runs()) == 2, "the run's folder")
    # The server ends; the run continues.
    view.signal(signal.SIGINT)
    ended = project.finish(view, timeout=20)
    assert ended.code == 0
    found = re.search(r"Still running: agentos lld 7 --mock \(process (\d+)\)", ended.out)
    assert found is not None, ended.out
    wait_until((project.runs()[-1] / "summary.json").exists, "the end of the run")
    wait_until(lambda: not Path("/proc", found[1]).exists(), "the end of its process")
    assert project.statuses() == {"7": "approved"}


def test_without_the_flag_nothing_can_be_started(project: Any, page_at: PageAt) -> None:
    project.issue(45, mock='fail="no"')
    assert project.lld("45").code == 1
    process = project.start("view", "--no-open")
    found = ADDRESS.search(process.line())
    assert found is not None
    page = arrive(page_at(), found[0])
    expect(page.locator("#run h1")).to_be_visible()
    expect(page.locator("#actions")).to_be_hidden()
    refused = page.evaluate(
        "run => fetch('/api/start', {method: 'POST', headers: {'Content-Type': 'application/json',"
        " Authorization: `Bearer ${localStorage.getItem('agentos-token')}`},"
        " body: JSON.stringify({action: 'retry', run, command: 'agentos lld 45 --retry-failed --mock'})})"
        ".then((answer) => answer.json())",
        project.runs()[-1].name,
    )
    assert "--allow-run" in refused["error"]
    page.goto("about:blank")
    process.signal(signal.SIGINT)
    assert project.finish(process, timeout=20).code == 0
    assert len(project.runs()) == 1
