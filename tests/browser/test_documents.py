"""The documents in the panel of an item, in a real browser: rendered, inert, with their own address."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from agentos.report.data import run_data
from agentos.report.documents import with_texts
from agentos.report.page import write_report
from browser.conftest import PageAt
from browser.made_runs import make_run
from browser.test_view import View, arrive, clean, view
from harness.project import Project

__all__ = ["view"]  # a fixture

HOSTILE = (
    "# A <script>window.pwned = 1</script>\n\n<img src=x onerror='window.pwned = 2'>\n\n"
    "![a picture](http://127.0.0.1:9/p.png) [bad](javascript:window.pwned=3) [good](https://example.com/a)\n\n"
    "| a | b |\n|---|---|\n| 1 | `two` |\n\n```sh\nrm -rf /\n```\n"
)


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Path]:
    def make(**how: Any) -> Path:
        run = make_run(tmp_path, 11)
        (tmp_path / "docs/lineage/done/42-lld/002-draft.md").write_text(HOSTILE, "utf-8")
        data = run_data(run, worktree=tmp_path)
        data["items"][1]["gates"][0]["paths"] = ["src/none.py (Modify)"]
        write_report(run, with_texts(data, run=run, worktree=tmp_path, **how))
        return run / "report.html"

    return make


def test_a_draft_is_read_in_the_panel_and_at_full_width(made: Callable[..., Path], page_at: PageAt) -> None:
    shown = page_at(offline=True)
    page = shown.open(made(), "#LLD-42")
    panel = page.locator(".ar-detail")
    expect(panel).to_contain_text("Paths that do not fit the repository: src/none.py (Modify)")
    panel.get_by_text("Read draft 1").click()
    text = panel.locator(".ar-part .ar-md")
    expect(text.locator(".ar-md-h1")).to_have_text("A <script>window.pwned = 1</script>")
    expect(text).to_contain_text("[picture: a picture]")
    expect(text.locator("pre")).to_have_text("rm -rf /\n")
    expect(text.locator("td code")).to_have_text("two")
    assert text.locator("a").evaluate_all("all => all.map((one) => [one.href, one.rel])") == [
        ["https://example.com/a", "noopener noreferrer"]
    ]
    shown.shoot("document-in-panel", whole=False)
    panel.get_by_role("button", name="Open full width").click()
    assert page.url.endswith("#LLD-42/002-draft.md")
    expect(panel.get_by_role("heading", level=2)).to_have_text("Draft 1")
    assert panel.evaluate("node => node.getBoundingClientRect().width") == 1280
    shown.shoot("document", whole=False)
    panel.get_by_role("button", name="Next document").click()
    expect(panel.get_by_role("heading", level=2)).to_have_text("Draft 2")
    panel.get_by_role("button", name="Back to LLD-42").click()
    expect(panel.get_by_role("heading", level=2)).to_have_text("LLD-42")
    assert page.url.endswith("#LLD-42")
    assert shown.evaluate("window.pwned") is None
    assert (shown.errors, shown.said, shown.outside(), shown.overflow()) == ([], [], [], 0)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (390, "light")])
def test_a_document_has_its_own_address(
    made: Callable[..., Path], page_at: PageAt, width: int, scheme: str
) -> None:
    shown = page_at(width, scheme, offline=True)
    page = shown.open(made(), "#LLD-42/002-draft.md")
    expect(page.locator(".ar-wide .ar-md-h1")).to_be_visible()
    shown.shoot(f"document-{width}-{scheme}", whole=False)
    assert shown.overflow() == 0
    page.keyboard.press("Escape")
    expect(page.locator(".ar-detail")).to_be_hidden()


def test_what_does_not_fit_is_linked(made: Callable[..., Path], page_at: PageAt) -> None:
    shown = page_at(offline=True)
    page = shown.open(made(most=0), "#LLD-42/002-draft.md")
    link = page.locator(".ar-wide .ar-md a")
    expect(page.locator(".ar-wide .ar-md")).to_contain_text("Not in this page, to keep it small")
    link.click()
    expect(page.locator("body")).to_contain_text("# A <script>")


def test_a_real_run_in_report_and_live_page(project: Project, view: View, page_at: PageAt) -> None:
    project.issue(41, mock="verdicts=REVISE,APPROVED latency=0.01")
    project.issue(43, mock="verdicts=DISCUSS")
    assert project.lld("--all").code == 3
    first = project.runs()[-1]
    for number in (41, 43):
        trail = next(project.root.glob(f"docs/lineage/*/{number}-lld*"))
        (trail / "002-draft.md").write_text(HOSTILE, "utf-8")
    report = page_at()
    page = report.open(first / "report.html", "#LLD-41")
    panel = page.locator(".ar-detail")
    names = panel.locator(".ar-document-list button").all_inner_texts()
    assert names == [
        *("Issue", "Draft 1", "Review 1", "Draft 2", "Review 2", "Document as approved", "Document")
    ]
    panel.get_by_text("Read document").click()
    expect(panel.locator(".ar-documents .ar-md")).to_contain_text("Review log", ignore_case=True)
    panel.get_by_text("Read review 1").click()
    expect(panel.locator(".ar-part-round .ar-md").first).to_contain_text("REVISE")
    assert (report.errors, report.said, report.outside()) == ([], [], [])

    # A later run; the live page still has the documents of the first one.
    assert project.run("decide", "43", "--approve").code == 0
    assert project.lld("--all").code == 0
    address = view(project)
    shown = page_at()
    page = arrive(shown, address, f"#/runs/{first.name}/item/LLD-43")
    panel = page.locator(".ar-detail")
    expect(panel.get_by_role("heading", level=2)).to_have_text("LLD-43")
    panel.get_by_text("Read draft 1").click()
    expect(panel.locator(".ar-part .ar-md-h1")).to_have_text("A <script>window.pwned = 1</script>")
    panel.get_by_role("button", name="Open full width").click()
    expect(panel.locator(".ar-md")).to_contain_text("[picture: a picture]")
    assert "/item/LLD-43/document/002-draft.md" in page.url
    shown.shoot("document-live", whole=False)
    page.reload()
    expect(page.locator(".ar-wide .ar-md-h1")).to_be_visible()
    clean(shown, address)
