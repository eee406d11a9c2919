"""A run of thousands of items: a small page that shows only what can be seen, and everything on paper."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from agentos.report.data import run_data
from agentos.report.page import write_report
from browser.conftest import PageAt
from browser.made_runs import make_run

Report = Callable[..., Path]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    made: dict[int, Path] = {}

    def make(count: int) -> Path:
        if count not in made:
            root = tmp_path_factory.mktemp("large")
            run = make_run(root, count, parallel=10, keys=6, every=False)
            write_report(run, run_data(run, worktree=root))
            made[count] = run / "report.html"
        return made[count]

    return make


def labels(page: Page) -> list[str]:
    return page.locator(".ar-items tbody th button").all_inner_texts()


def ready(page: Page) -> None:
    expect(page.locator(".ar-items tbody tr").first).to_be_attached()


def scroll(page: Page, to: str) -> None:
    page.locator(".ar-items").evaluate(f"(node) => {{ node.scrollTop = {to}; }}")


def heights(page: Page) -> set[float]:
    found: list[float] = page.locator(".ar-items tbody tr:not(.ar-gap)").evaluate_all(
        "(all) => all.map((one) => one.getBoundingClientRect().height)"
    )
    return set(found)


def test_two_thousand_items_are_small_and_only_what_is_seen_is_drawn(report: Report, page_at: PageAt) -> None:
    path = report(2000)
    assert path.stat().st_size < 1_500_000
    shown = page_at(offline=True)
    page = shown.open(path)
    ready(page)
    assert 10 < len(labels(page)) < 60
    assert page.locator(".ar-row").count() < 80
    assert page.locator("*").count() < 6000
    # Whoever listens to the page knows how long the table is.
    table = page.get_by_role("table", name="Items of the run")
    expect(table).to_have_attribute("aria-rowcount", "2001")
    assert heights(page) == {57}
    scroll(page, "node.scrollHeight")
    expect(table.get_by_role("button", name="LLD-2040", exact=True)).to_be_visible()
    assert len(labels(page)) < 60
    last = page.locator(".ar-items tbody tr:not(.ar-gap)").last
    expect(last).to_have_attribute("aria-rowindex", "2001")
    table.get_by_role("button", name="LLD-2040", exact=True).click()
    expect(page.locator(".ar-detail h2")).to_have_text("LLD-2040")
    page.keyboard.press("Escape")
    page.get_by_label("Find items by text").fill("LLD-1234")
    assert labels(page) == ["LLD-1234"]
    assert shown.errors == shown.said == []


def test_columns_and_places_stay_while_the_table_is_scrolled(report: Report, page_at: PageAt) -> None:
    shown = page_at()
    page = shown.open(report(300))
    ready(page)

    def widths() -> Any:
        return page.locator(".ar-items thead th").evaluate_all("(all) => all.map((one) => one.offsetWidth)")

    before = widths()
    for place in ("4000", "9000", "node.scrollHeight"):
        scroll(page, place)
        expect(page.locator(".ar-gap[data-where=above]")).to_be_attached()
        assert widths() == before
    scroll(page, "57 * 100")
    expect(page.get_by_role("button", name="LLD-141", exact=True)).to_be_visible()
    top = page.evaluate(
        """() => {
            const head = document.querySelector(".ar-items thead th").getBoundingClientRect().bottom;
            const rows = [...document.querySelectorAll(".ar-items tbody tr:not(.ar-gap)")];
            const first = rows.find((one) => one.getBoundingClientRect().bottom > head + 1);
            return first.querySelector("button").textContent;
        }"""
    )
    assert top == "LLD-141"
    page.locator("th.ar-c-order button").click()
    scroll(page, "0")
    expect(page.locator(".ar-items tbody th button").first).to_have_text("LLD-340")


def test_the_focus_stays_in_a_table_that_is_scrolled(report: Report, page_at: PageAt) -> None:
    shown = page_at()
    page = shown.open(report(300))
    page.get_by_role("table", name="Items of the run").get_by_role(
        "button", name="LLD-42", exact=True
    ).focus()
    scroll(page, "9000")
    expect(page.locator(".ar-items")).to_be_focused()


def test_every_row_is_there_for_printing_and_gone_after(report: Report, page_at: PageAt) -> None:
    shown = page_at()
    page = shown.open(report(300))
    ready(page)
    page.get_by_label("Group items without problems").uncheck()
    few = len(labels(page))
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert len(labels(page)) == 300
    assert page.locator(".ar-row").count() == 300
    assert page.locator(".ar-gap").count() == 0
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert len(labels(page)) == few
    assert page.locator(".ar-row").count() < 80


def test_a_browser_that_cannot_unpack_shows_the_same(report: Report, page_at: PageAt) -> None:
    path = report(300)
    assert 'data-packed="gzip"' in path.read_text()
    texts = []
    for script in ("", "delete window.DecompressionStream"):
        shown = page_at()
        if script:
            shown.page.add_init_script(script)
        page = shown.open(path)
        ready(page)
        assert page.evaluate("typeof DecompressionStream") == ("undefined" if script else "function")
        texts.append(page.locator(".ar-panel").all_inner_texts())
        assert shown.errors == shown.said == []
    assert texts[0] == texts[1]
