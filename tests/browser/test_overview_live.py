"""The first screen of a run in the live page: the way to an answer, and how far the run is."""

import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import expect

from browser.test_view import PATIENCE, View, arrive, clean, view  # noqa: F401 - a fixture

PageAt = Callable[..., Any]


def test_a_question_leads_to_the_inbox_and_is_told_as_decided_after(
    project: Any,
    view: View,  # noqa: F811
    page_at: PageAt,
) -> None:
    project.issue(43, mock="verdicts=DISCUSS,APPROVED")
    assert project.lld("43").code == 3
    address = view(project)
    shown = page_at()
    page = arrive(shown, address, f"#/runs/{project.runs()[-1].name}")
    needs = page.locator(".ar-needs")
    expect(needs).to_contain_text("Is a wait of up to one hour acceptable to users")
    needs.get_by_role("button", name="Answer LLD-43").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Title of 43")
    assert page.url.endswith("#/inbox/LLD-43")
    page.get_by_role("button", name="Approve").click()
    expect(page.locator("#decided-title")).to_be_visible()
    page.go_back()
    expect(needs).to_contain_text("decided: approve")
    expect(needs.get_by_role("button", name="Answer LLD-43")).to_have_count(0)
    clean(shown, address)


def test_a_live_run_shows_its_queue_and_how_far_it_is(
    project: Any,
    view: View,  # noqa: F811
    page_at: PageAt,
) -> None:
    project.issues(4, mock="latency=3")
    address = view(project)
    shown = page_at()
    page = arrive(shown, address)
    command = project.start("lld", "--all", "--mock", "--parallel", "2", "--budget", "1")
    progress = page.locator(".ar-progress")
    expect(progress).to_have_text(re.compile(r"^0 of 4 done · 2 running · 2 in the queue"), timeout=PATIENCE)
    expect(progress).to_contain_text("of $1.00")
    expect(progress).to_contain_text("no estimate yet")
    table = page.get_by_role("table", name="Items of the run")
    expect(table.locator("tbody tr", has_text="LLD-4")).to_contain_text("not started")
    expect(table.locator("tbody tr", has_text="LLD-4")).to_contain_text("Title of 4")
    expect(page.locator(".ar-share-list")).to_contain_text("in calls")
    expect(page.locator(".ar-needs")).to_have_text("Nothing needs you so far.")
    shown.shoot("live-queue")
    assert project.finish(command).code == 0
    expect(progress).to_be_hidden(timeout=PATIENCE)
    expect(page.locator(".ar-needs")).to_have_text("Nothing needs you.")
    clean(shown, address)
