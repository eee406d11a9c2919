"""Every call of an item in its panel, in a real browser: tries, waits, tokens, prompts on request."""

from pathlib import Path

from playwright.sync_api import expect

from agentos.report.data import run_data
from agentos.report.page import write_report
from browser.conftest import PageAt
from browser.made_runs import make_run
from browser.test_view import View, arrive, clean, view
from harness.project import Project

__all__ = ["view"]  # a fixture


def test_every_call_with_its_failed_tries(tmp_path: Path, page_at: PageAt) -> None:
    run = make_run(tmp_path, 11)
    data = run_data(run, worktree=tmp_path)
    item = next(item for item in data["items"] if item["label"] == "LLD-43")
    calls = [span for span in item["spans"] if span["kind"] == "call"]
    answered = [span for span in calls if not span.get("error")]
    assert len(answered) < len(calls)
    answered[0]["tokens_cached"] = 1_234
    write_report(run, data)
    shown = page_at(offline=True)
    page = shown.open(run / "report.html", "#LLD-43")
    part = page.locator(".ar-calls")
    failed = len(calls) - len(answered)
    part.get_by_text(f"{len(answered)} calls, {failed} failed").click()
    rows = part.locator("tbody tr:not(.ar-call-more)")
    expect(rows).to_have_count(len(answered))
    expect(rows.first).to_contain_text("1.2k")
    expect(rows.first).to_contain_text(answered[0]["key"])
    tries = part.locator(".ar-call-more p")
    expect(tries.filter(has_text="429: rate limited after")).to_have_count(failed)
    expect(tries.filter(has_text="answered").first).to_contain_text("Try 2")
    expect(part).to_contain_text("Prompts and answers were not kept. keep_prompts = true")
    shown.shoot("calls", whole=False)
    assert (shown.errors, shown.said, shown.outside()) == ([], [], [])


def test_prompt_and_answer_on_request(project: Project, view: View, page_at: PageAt) -> None:
    config = project.outside / "user.toml"
    config.write_text("keep_prompts = true\n", "utf-8")
    project.environment["AGENTOS_CONFIG"] = str(config)
    project.issue(41, text="# A <script>window.pwned = 1</script>\n", mock="verdicts=REVISE,APPROVED 429=1")
    assert project.lld("41").code == 0
    report = page_at()
    page = report.open(project.runs()[-1] / "report.html", "#LLD-41")
    page.locator(".ar-calls summary").first.click()
    expect(page.locator(".ar-calls")).to_contain_text("Prompts and answers are kept in prompts-41.jsonl")
    expect(page.locator(".ar-calls a")).to_have_attribute("href", "prompts-41.jsonl")

    address = view(project)
    shown = page_at()
    page = arrive(shown, address)
    page.get_by_role("button", name="LLD-41", exact=True).first.click()
    part = page.locator(".ar-calls")
    part.locator("summary").first.click()
    expect(part.locator("summary")).to_have_count(5)
    part.locator("summary").nth(1).click()
    expect(part.locator(".ar-prompt").nth(1)).to_contain_text("<script>window.pwned = 1</script>")
    expect(part.locator(".ar-prompt").last).to_contain_text("Context")
    shown.shoot("prompt", whole=False)
    clean(shown, address)
