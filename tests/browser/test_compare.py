"""Comparing two runs in the live page, in a real browser."""

from playwright.sync_api import expect

from browser.conftest import PageAt
from browser.test_view import View, arrive, clean, view
from harness.project import Project

__all__ = ["view"]  # a fixture


def test_a_second_run_is_chosen_and_compared(project: Project, view: View, page_at: PageAt) -> None:
    project.issue(41)
    project.issue(42, mock="verdicts=REVISE,DISCUSS")
    assert project.lld("--all").code == 3
    address = view(project)
    shown = page_at()
    page = arrive(shown, address)
    expect(page.get_by_label("Compare with")).to_be_disabled()
    assert project.run("decide", "42", "--approve").code == 0
    assert project.lld("--all").code == 0
    expect(page.get_by_role("heading", level=1)).to_have_text("1 of 1 item approved")
    chosen = page.get_by_label("Compare with")
    expect(chosen.locator("option")).to_have_count(2)
    chosen.select_option(project.runs()[0].name)
    part = page.locator(".ar-compared")
    row = part.locator(".ar-compare-items tbody tr")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("LLD-42")
    expect(row.locator(".ar-badge")).to_have_text(["discuss", "approved"])
    expect(part).to_contain_text("1 item approved before and skipped in this run.")
    expect(part.locator(".ar-compare-totals")).to_contain_text("Wall time")
    part.scroll_into_view_if_needed()
    shown.shoot("compare", whole=False)
    row.get_by_role("button", name="LLD-42").click()
    expect(page.locator(".ar-detail")).to_be_visible()
    clean(shown, address)
    assert shown.overflow() == 0
