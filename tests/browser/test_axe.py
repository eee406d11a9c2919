"""Accessibility: axe-core finds nothing wrong, on any screen, with whatever is open."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from agentos.report.data import history_of, run_data
from agentos.report.documents import with_texts
from agentos.report.page import write_report
from browser.conftest import PageAt
from browser.made_runs import make_run
from browser.test_run_from_page import served
from browser.test_view import View, arrive, view
from harness.axe import NoAxe, axe_source, violations
from harness.project import Project

__all__ = ["served", "view"]  # fixtures

SCREENS = [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")]
MARKDOWN = (
    "# A\n\n### B\n\nText with `code` and [a link](https://example.com).\n\n"
    "| a |\n|---|\n| 1 |\n\n```\nx\n```\n"
)
OPEN = "document.querySelectorAll('.ar-detail details').forEach((one) => { one.open = true; })"


@pytest.fixture(scope="session")
def axe() -> str:
    try:
        return axe_source()
    except NoAxe as exc:
        pytest.skip(f"no axe-core: {exc}")


Look = Callable[[Page], None]
Made = Callable[[int], Path]
Served = Callable[[], tuple[str, Any]]


@pytest.fixture
def look(axe: str) -> Iterator[Look]:
    """Check a page as it is now; what is wrong is told at the end of the test, all of it."""
    wrong: list[str] = []
    yield lambda page: wrong.extend(violations(page, axe))
    assert not wrong, "\n".join(["", *dict.fromkeys(wrong)])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    reports: dict[int, Path] = {}

    def make(count: int) -> Path:
        if count not in reports:
            root = tmp_path_factory.mktemp("axe")
            run = make_run(root, count, earlier=2)
            (root / "docs/lineage/done/42-lld/006-draft.md").write_text(MARKDOWN, "utf-8")
            data = run_data(run, worktree=root, history=history_of(run))
            write_report(run, with_texts(data, run=run, worktree=root))
            reports[count] = run / "report.html"
        return reports[count]

    return make


def open_all(page: Page) -> None:
    """Open every part of the panel that can be opened, also those inside."""
    for _ in range(2):
        page.evaluate(
            "document.querySelectorAll('.ar-detail details').forEach((one) => { one.open = true; })"
        )
        page.evaluate("new Promise((done) => setTimeout(done, 50))")


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_the_report(look: Look, made: Made, page_at: PageAt, width: int, scheme: str) -> None:
    shown = page_at(width, scheme, offline=True)
    page = shown.open(made(11))
    expect(page.locator(".ar-row").first).to_be_visible()
    look(page)
    page.keyboard.press("?")
    expect(page.locator("dialog")).to_be_visible()
    look(page)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="By key").click()
    look(page)
    page.get_by_role("button", name="LLD-42", exact=True).first.click()
    expect(page.locator(".ar-detail")).to_be_visible()
    open_all(page)
    expect(page.locator(".ar-detail .ar-md").first).to_be_visible()
    assert shown.overflow() == 0
    shown.shoot(f"all-open-{width}-{scheme}", whole=False)
    look(page)
    page.get_by_role("button", name="Open full width").first.click()
    expect(page.locator(".ar-wide .ar-md-h1")).to_be_visible()
    look(page)


@pytest.mark.parametrize(("width", "scheme"), SCREENS[::3])
def test_a_report_of_many_items(look: Look, made: Made, page_at: PageAt, width: int, scheme: str) -> None:
    shown = page_at(width, scheme, offline=True)
    page = shown.open(made(130))
    expect(page.locator(".ar-row").first).to_be_visible()
    look(page)


@pytest.mark.parametrize("screen", SCREENS)
def test_the_live_page(
    look: Look, project: Project, view: View, page_at: PageAt, screen: tuple[int, str]
) -> None:
    project.issue(41, mock="verdicts=REVISE,APPROVED 429=1")
    project.issue(42, mock="verdicts=REVISE,DISCUSS")
    project.issue(43, mock='fail="no"')
    project.lld("41")
    assert project.lld("--all", "-j2").code == 1
    shown = page_at(*screen)
    page = arrive(shown, view(project))
    expect(page.locator(".ar-items tbody tr")).to_have_count(3)
    look(page)
    page.keyboard.press("?")
    expect(page.locator("dialog")).to_be_visible()
    look(page)
    page.keyboard.press("Escape")
    page.get_by_label("Compare with").select_option(project.runs()[0].name)
    expect(page.locator(".ar-compare-items")).to_be_visible()
    look(page)
    page.locator("#run").get_by_role("button", name="LLD-42", exact=True).first.click()
    expect(page.locator(".ar-detail")).to_be_visible()
    open_all(page)
    expect(page.locator(".ar-detail .ar-md").first).to_contain_text("Context")
    look(page)
    page.evaluate("location.hash = '#/inbox/LLD-42'")
    expect(page.locator("#item-title")).to_be_visible()
    look(page)
    page.evaluate(f"location.hash = '#/runs/{project.runs()[-1].name}/log/LLD-42'")
    expect(page.locator("#log-text")).to_contain_text("draft")
    look(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_live_page_that_may_start_runs(
    look: Look, project: Project, served: Served, page_at: PageAt, scheme: str
) -> None:
    project.issue(43, mock='fail="no"')
    assert project.lld("--all").code == 1
    page = arrive(page_at(1280, scheme), served()[0])
    page.locator(".v-actions button").first.click()
    expect(page.locator("dialog[open]")).to_be_visible()
    look(page)
    page.keyboard.press("Escape")
    look(page)


def test_a_live_page_with_nothing_in_it(look: Look, project: Project, view: View, page_at: PageAt) -> None:
    page = arrive(page_at(), view(project))
    expect(page.get_by_role("heading", level=1)).to_have_text("No runs yet")
    look(page)
    page.evaluate("location.hash = '#/inbox'")
    expect(page.get_by_role("heading", level=1)).to_have_text("No open questions")
    look(page)


CONTRAST = """([of, from, ground]) => {
    const numbers = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map((one) => one / 255);
    const light = (colour) => numbers(colour).map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4))
        .reduce((sum, one, n) => sum + one * [0.2126, 0.7152, 0.0722][n], 0);
    const [node, name, pseudo] = [document.querySelector(of), ...from];
    const both = [light(getComputedStyle(node, pseudo)[name]), light(getComputedStyle(document.querySelector(ground)).backgroundColor)];
    return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
}"""  # noqa: E501 - a script


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_axe_does_not_look_at(made: Made, page_at: PageAt, scheme: str) -> None:
    """Placeholders need 4.5:1, shapes that mean something 3:1."""
    page = page_at(1280, scheme, offline=True).open(made(11))
    expect(page.locator(".ar-row").first).to_be_visible()
    placeholder = page.evaluate(CONTRAST, [".ar-search", ["color", "::placeholder"], ".ar-search"])
    assert placeholder >= 4.5
    assert page.evaluate(CONTRAST, [".ar-life", ["stroke", None], ".ar-timeline"]) >= 3
