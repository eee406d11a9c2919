"""The page on paper: A4, light, every row and column, nothing cut."""

from pathlib import Path
from unicodedata import normalize

import pytest
from playwright.sync_api import Page, expect
from pypdf import PdfReader

from agentos.report.data import history_of, run_data
from agentos.report.documents import with_texts
from agentos.report.page import write_report
from browser.conftest import PageAt
from browser.made_runs import make_run
from browser.test_view import View, arrive, view
from harness.project import Project

__all__ = ["view"]  # a fixture

COLUMNS = (*("Item", "Status", "Reviews", "Attempts", "Time", "Waited", "Tokens", "Cost"), "Result or reason")
A4 = (595, 842)  # points


def printed(page: Page, folder: Path) -> list[str]:
    """Print the page; return the text of each sheet."""
    path = folder / "page.pdf"
    page.pdf(path=path, format="A4", print_background=True)
    reader = PdfReader(path)
    for sheet in reader.pages:
        assert (sheet.mediabox.width, sheet.mediabox.height) == pytest.approx(A4, abs=2)
    texts = (normalize("NFKC", sheet.extract_text()) for sheet in reader.pages)  # without ligatures
    return [" ".join(text.split()) for text in texts]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("large")
    run = make_run(root, 300, earlier=2)
    data = run_data(run, worktree=root, history=history_of(run))
    write_report(run, with_texts(data, run=run, worktree=root))
    return run / "report.html"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_three_hundred_items_on_paper(large: Path, page_at: PageAt, tmp_path: Path, scheme: str) -> None:
    shown = page_at(1280, scheme, offline=True)
    page = shown.open(large)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    sheets = printed(page, tmp_path)
    words = set(" ".join(sheets).split())
    assert {f"LLD-{number}" for number in range(41, 341)} <= words
    with_rows = [sheet for sheet in sheets if sheet.count(" approved ") > 8]
    assert len(with_rows) > 8
    for sheet in with_rows:  # every sheet of the table has all its heads
        assert all(name in sheet for name in COLUMNS), sheet[:300]
    assert (shown.errors, shown.said) == ([], [])


def test_the_layout_of_a_sheet(large: Path, page_at: PageAt) -> None:
    shown = page_at(1280, "dark", offline=True)
    page = shown.open(large)
    expect(page.locator(".ar-row").first).to_be_visible()
    before = page.locator(".ar-items tbody tr").count()
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    colours = page.evaluate(
        "['.ar', '.ar-panel', '.ar-items td'].map((one) => getComputedStyle(document.querySelector(one)))"
        ".map((one) => [one.backgroundColor, one.color])"
    )
    assert [one[0] for one in colours[:2]] == ["rgb(255, 255, 255)"] * 2
    assert colours[2][1] == "rgb(29, 30, 32)"
    assert page.locator(".ar-items tbody tr").count() == 300
    assert page.evaluate("document.querySelector('.ar').scrollWidth") <= 700
    wide = page.evaluate(
        "[...document.querySelectorAll('.ar *')].filter((one) => one.checkVisibility()"
        " && !one.closest('svg, .ar-sr') && one.getBoundingClientRect().right > 701)"
        ".map((one) => one.className)"
    )
    assert wide == []
    # Nothing scrolls, and every row of the timeline is there.
    cut = page.evaluate(
        "[...document.querySelectorAll('.ar-rows, .ar-items, .ar-scroll')]"
        ".filter((one) => one.scrollHeight > one.clientHeight + 1).map((one) => one.className)"
    )
    assert cut == []
    rows = page.locator(".ar-row")
    assert rows.last.get_attribute("id") == f"ar-row-{rows.count() - 1}"
    shown.shoot("paper")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen", color_scheme="dark")
    assert before <= page.locator(".ar-items tbody tr").count() < 60
    assert page.locator(".ar-paper").count() == 0
    assert shown.overflow() == 0


def test_an_open_item_is_printed_alone_and_whole(large: Path, page_at: PageAt, tmp_path: Path) -> None:
    shown = page_at(1280, "dark", offline=True)
    page = shown.open(large, "#LLD-45")
    page.get_by_text("Read draft 3").click()
    expect(page.locator(".ar-part .ar-md")).to_contain_text("LLD-45")
    text = " ".join(printed(page, tmp_path))
    assert "Tier 1 · blocking" in text
    assert "Proposed changes" in text
    assert "LLD-340" not in text
    assert text.count("Upload files in parts, and resume") < 4  # not on each sheet


def test_the_live_page_prints_the_run(project: Project, view: View, page_at: PageAt, tmp_path: Path) -> None:
    for number in range(41, 44):
        project.issue(number)
    assert project.lld("--all").code == 0
    shown = page_at(1280, "dark")
    page = arrive(shown, view(project))
    expect(page.locator(".ar-items tbody tr")).to_have_count(3)
    (text,) = printed(page, tmp_path)[:1]
    assert "3 of 3 items approved" in text
    whole = " ".join(printed(page, tmp_path))
    assert all(f"LLD-{number}" in whole for number in range(41, 44))
    assert [name for name in COLUMNS if name not in whole] == []
    assert "Inbox" not in whole
