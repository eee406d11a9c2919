"""Numbered findings, open questions and lost lines on the report's page and in the inbox."""

from collections.abc import Callable
from typing import Any

from playwright.sync_api import expect

from browser.test_view import View, arrive, clean, view  # noqa: F401 - a fixture

PageAt = Callable[..., Any]


def test_the_report_shows_numbers_states_questions_and_lost_lines(project: Any, page_at: PageAt) -> None:
    project.issue(42, mock='verdicts=REVISE,REVISE,REVISE,APPROVED regress=3 question="Is UTC fine?"')
    assert project.lld("42").code == 0
    events = project.runs()[-1] / "events.jsonl"
    lost = '"dropped": ["Timestamps are in UTC."]'
    events.write_text(events.read_text().replace('"dropped": []', lost))
    (project.runs()[-1] / "summary.json").unlink()
    assert project.run("report").code == 0
    shown = page_at()
    page = shown.open(project.runs()[-1] / "report.html")
    needs = page.locator(".ar-needs")
    expect(needs.locator("h2")).to_have_text("To know")
    expect(needs).to_contain_text(
        "asks Q1: Is UTC fine?\nlacks a line that you added: Timestamps are in UTC."
    )
    expect(needs.locator("code")).to_have_text(['agentos decide LLD-42 --note "Q1: ..."'])
    shown.shoot("questions")
    needs.get_by_role("button", name="LLD-42", exact=True).click()
    panel = page.locator(".ar-detail")
    expect(panel.locator(".ar-question").first).to_have_text("Q1: Is UTC fine?")
    expect(panel.locator(".ar-dropped")).to_have_text("Timestamps are in UTC.")
    first, second, third, _ = panel.locator(".ar-part-round").all()
    expect(first.locator(".ar-finding-head").first).to_contain_text("F1resolved")
    expect(second).to_contain_text("Earlier findings")
    expect(third.locator(".ar-finding-head", has_text="regression").first).to_contain_text("F1")
    shown.shoot("findings")
    assert shown.outside() == []


def test_the_inbox_numbers_questions_and_findings_and_takes_answers_one_by_one(
    project: Any,
    view: View,  # noqa: F811
    page_at: PageAt,
) -> None:
    project.issue(43, mock='verdicts=REVISE,DISCUSS,APPROVED question="Is UTC fine?" stuck')
    assert project.lld("43").code == 3
    address = view(project)
    shown = page_at()
    page = arrive(shown, address, "#/inbox/LLD-43")
    expect(page.locator(".v-asked p").first).to_have_text("Q1: Is UTC fine?")
    expect(page.locator("#findings-title")).to_have_text("Open findings (4, 1 blocking)")
    expect(page.locator(".v-finding-head").first).to_contain_text("F1")
    expect(page.locator("#approve-help")).to_contain_text("although 1 blocking finding is open")
    expect(page.locator("#note-help")).to_contain_text("begin a line with Q1: or Q2:")
    shown.shoot("inbox-questions")
    page.locator("#note").fill("Q1: Yes.\nQ2: Stop.")
    page.get_by_role("button", name="Send back").click()
    expect(page.locator(".v-decided blockquote")).to_have_text("Q1: Yes.\nQ2: Stop.")
    page.get_by_role("button", name="Change answer").click()
    expect(page.locator("#note")).to_have_value("Q1: Yes.\nQ2: Stop.")
    page.get_by_role("button", name="Keep answer").click()
    clean(shown, address)
    assert "decided: revise (Q1: Yes. / Q2: Stop.)" in project.run("status").out
