"""Keyboard, theme and CSV, in the report and in the live page."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from browser.made_runs import make_run
from browser.test_live import opened
from browser.test_view import View, arrive, clean, view  # noqa: F401 - a fixture
from harness.processes import wait_until

PageAt = Callable[..., Any]


def report_of(run: Path, root: Path) -> Path:
    from agentos.report.data import run_data
    from agentos.report.page import write_report

    write_report(run, run_data(run, worktree=root))
    return run / "report.html"


@pytest.fixture
def report(tmp_path: Path) -> Path:
    return report_of(make_run(tmp_path, 12), tmp_path)


def ground(page: Any) -> str:
    found: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return found


def test_the_keys_of_the_report(report: Path, page_at: PageAt) -> None:
    shown = page_at(offline=True)
    page = shown.open(report)
    page.keyboard.press("/")
    search = page.locator(".ar-search")
    expect(search).to_be_focused()
    page.keyboard.type("j?/")  # in a field, keys are only letters
    expect(search).to_have_value("j?/")
    expect(page.locator("dialog")).to_have_count(0)
    search.fill("")
    search.blur()
    page.keyboard.press("j")
    page.keyboard.press("j")
    active = page.locator(".ar-row.ar-active .ar-name")
    second = active.inner_text()
    page.keyboard.press("k")
    expect(active).not_to_have_text(second)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    opened(page, second)
    page.keyboard.press("j")
    expect(page.locator(".ar-detail h2")).not_to_have_text(second)
    page.keyboard.press("k")
    opened(page, second)
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.locator("dialog[open]")).to_contain_text("next / previous item")
    shown.shoot("keyboard-help", whole=False)
    page.keyboard.press("j")  # the window has the keys
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    expect(page.locator(".ar-hint")).to_have_text("Drag across the chart to zoom.")
    assert shown.errors == []


def test_one_key_does_not_decide(project: Any, view: View, page_at: PageAt) -> None:  # noqa: F811
    for number in (43, 44):
        project.issue(number, mock="verdicts=DISCUSS")
    assert project.lld("--all").code == 3
    address = view(project)
    shown = page_at()
    page = arrive(shown, address, "#/inbox")
    expect(page.get_by_role("heading", level=1)).to_have_text("Title of 43")
    page.keyboard.press("j")
    expect(page.get_by_role("heading", level=1)).to_have_text("Title of 44")
    page.keyboard.press("k")
    expect(page.get_by_role("heading", level=1)).to_have_text("Title of 43")
    expect(page.locator(".v-pane-draft .ar-md .ar-md-h1")).to_be_visible()  # not as raw Markdown
    shown.shoot("inbox-draft", whole=False)
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.type("LLD")
    page.keyboard.press("Escape")
    expect(page.locator("#search")).to_have_value("")
    page.keyboard.press("Escape")
    expect(page.locator("#main")).to_be_focused()
    page.keyboard.press("a")
    expect(page.locator("dialog[open]")).to_contain_text("Approve: LLD-43?")
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    assert project.run("decide", "43", "--revise").code == 0  # nothing was decided before
    expect(page.locator("#decided-title")).to_have_text("Decided: revise; the next run resumes")
    page.keyboard.press("a")  # there is no button to press
    expect(page.locator("dialog")).to_have_count(0)
    page.keyboard.press("j")
    expect(page.get_by_role("heading", level=1)).to_have_text("Title of 43")  # answered ones come last
    page.keyboard.press("k")
    page.locator("#note").fill("Too slow.")
    page.locator("#note").blur()
    page.keyboard.press("r")
    expect(page.locator("dialog[open]")).to_contain_text("Too slow.")
    shown.shoot("keyboard-confirm", whole=False)
    page.get_by_role("dialog").get_by_role("button", name="Send back").click()
    expect(page.locator("#decided-title")).to_have_text("Decided: revise; the next run resumes")
    page.keyboard.press("?")
    expect(page.locator("dialog[open]")).to_contain_text("approve the draft, in the inbox")
    page.keyboard.press("Escape")
    clean(shown, address)


def remember_theme(page: Any, theme: str) -> None:
    """Reload until the theme is there: a reload may come before the browser has stored it."""

    def reloaded() -> bool:
        page.reload()
        return bool(page.get_by_label("Theme").input_value() == theme)

    wait_until(reloaded, "the chosen theme")


@pytest.mark.parametrize(("scheme", "other"), [("light", "dark"), ("dark", "light")])
def test_the_theme_is_chosen_and_remembered(report: Path, page_at: PageAt, scheme: str, other: str) -> None:
    shown = page_at(scheme=scheme, offline=True)
    page = shown.open(report)
    theirs = ground(page)
    page.get_by_label("Theme").select_option(other)
    assert ground(page) != theirs
    remember_theme(page, other)
    assert ground(page) != theirs
    page.get_by_label("Theme").select_option(scheme)
    assert ground(page) == theirs
    page.get_by_label("Theme").select_option("system")
    assert ground(page) == theirs
    page.emulate_media(color_scheme="light" if scheme == "dark" else "dark")
    assert ground(page) != theirs  # it follows the system again
    assert shown.errors == []


def test_the_theme_of_the_live_page(project: Any, view: View, page_at: PageAt) -> None:  # noqa: F811
    project.issue(41)
    assert project.lld("41").code == 0
    address = view(project)
    shown = page_at()
    page = arrive(shown, address)
    expect(page.locator("#run h1")).to_be_visible()
    before = ground(page)
    page.get_by_label("Theme").select_option("dark")
    assert ground(page) != before
    shown.shoot("theme-dark")
    remember_theme(page, "dark")
    assert ground(page) != before
    clean(shown, address)


def test_the_table_as_csv_is_safe_in_a_spreadsheet(tmp_path: Path, page_at: PageAt) -> None:
    run = make_run(tmp_path, 12)
    summary = json.loads((run / "summary.json").read_text("utf-8"))
    for row, text in zip(
        summary["items"], ("=1+1", "+1", "-1", "@SUM(A1)", 'a "b", c\nd', "plain"), strict=False
    ):
        row["error"] = text
    (run / "summary.json").write_text(json.dumps(summary), "utf-8")
    shown = page_at(offline=True)
    page = shown.open(report_of(run, tmp_path))
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    assert download.value.suggested_filename == f"agentos-{run.name}.csv"
    text = Path(download.value.path()).read_text("utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 12
    errors = [row["error"] for row in rows]
    assert errors[:6] == ["'=1+1", "'+1", "'-1", "'@SUM(A1)", 'a "b", c\nd', "plain"]
    assert {"label", "status", "cost_usd", "tokens_in"} <= rows[0].keys()
    # Only what is shown.
    page.locator(".ar-search").fill("LLD-41")
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    one = Path(download.value.path()).read_text("utf-8-sig")
    assert [row["label"] for row in csv.DictReader(io.StringIO(one))] == ["LLD-41"]
    assert shown.errors == []
    wait_until(lambda: shown.outside() == [], "no request to the outside")


def test_the_live_page_has_the_csv_too(project: Any, view: View, page_at: PageAt) -> None:  # noqa: F811
    project.issue(41)
    assert project.lld("41").code == 0
    page = arrive(page_at(), view(project))
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    assert "LLD-41" in Path(download.value.path()).read_text("utf-8-sig")
