"""The live page in a real browser: addresses that last, questions, time that moves, search, keyboard."""

import fcntl
import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from browser.test_view import PATIENCE, View, arrive, clean, view  # noqa: F401 - a fixture

PageAt = Callable[..., Any]


def opened(page: Page, label: str) -> None:
    expect(page.locator(".ar-detail h2")).to_have_text(label)


def test_an_opened_item_has_an_address_of_its_own(project: Any, view: View, page_at: PageAt) -> None:  # noqa: F811
    project.issue(41)
    project.issue(42)
    assert project.lld("--all").code == 0
    first = project.runs()[-1].name
    project.issue(43)
    assert project.lld("--all").code == 0
    address = view(project)
    shown = page_at()
    page = arrive(shown, address, f"#/runs/{first}")
    page.locator("#run").get_by_role("button", name="LLD-41", exact=True).click()
    opened(page, "LLD-41")
    assert page.url.endswith(f"#/runs/{first}/item/LLD-41")
    page.locator(".ar-detail").get_by_role("button", name="Next item").click()
    opened(page, "LLD-42")
    kept = page.url
    assert kept.endswith(f"#/runs/{first}/item/LLD-42")
    page.go_back()  # one step leads out of all items
    expect(page.locator(".ar-detail")).to_be_hidden()
    page.go_forward()
    opened(page, "LLD-42")
    page.locator(".ar-detail").get_by_role("link", name="LLD-42.log").click()
    expect(page.locator("#log-pane")).to_be_visible()
    opened(page, "LLD-42")  # the panel stays
    page.locator("#log-close").click()
    expect(page.locator("#log-pane")).to_be_hidden()
    page.keyboard.press("Escape")
    expect(page.locator(".ar-detail")).to_be_hidden()
    assert page.url.endswith(f"#/runs/{first}")

    # Opened again, in the same browser.
    other = page.context.new_page()
    other.goto(kept)
    opened(other, "LLD-42")
    other.goto("about:blank")
    other.goto(kept.replace("LLD-42", "LLD-99"))
    expect(other.locator("#problem")).to_have_text("There is no item LLD-99 in this run.")
    # Without a run in the address, the item pins the run that is shown.
    page.evaluate("location.hash = '#/runs'")
    expect(page.locator("#run .ar-over")).to_contain_text(project.runs()[-1].name)
    page.locator("#run").get_by_role("button", name="LLD-43", exact=True).click()
    expect(page).to_have_url(re.compile(re.escape(f"#/runs/{project.runs()[-1].name}/item/LLD-43") + "$"))
    clean(shown, address)


def test_a_discussed_item_leads_to_its_question_and_then_says_what_was_decided(
    project: Any,
    view: View,  # noqa: F811
    page_at: PageAt,
) -> None:
    project.issue(43, mock="verdicts=DISCUSS,APPROVED")
    assert project.lld("43").code == 3
    run = project.runs()[-1].name
    address = view(project)
    shown = page_at()
    page = arrive(shown, address, f"#/runs/{run}/item/LLD-43")
    panel = page.locator(".ar-detail")
    expect(panel.locator(".ar-badge").first).to_have_text("discuss")
    expect(panel.locator(".v-question")).to_contain_text("Question")
    shown.shoot("live-question")
    panel.get_by_role("link", name="Answer it in the inbox").click()
    assert page.url.endswith("#/inbox/LLD-43")
    page.locator("#note").fill("Stop at once.")
    page.get_by_role("button", name="Send back").click()
    expect(page.locator("#decided-title")).to_have_text("Decided: revise; the next run resumes")
    page.get_by_role("link", name="view run").click()
    opened(page, "LLD-43")
    expect(panel.locator(".ar-badge").first).to_have_text("decided: revise")
    expect(panel.locator(".v-question")).to_contain_text("Stop at once.")
    expect(panel.locator(".v-question code")).to_have_text("agentos lld 43 --mock")
    shown.shoot("live-decided")
    # An answer from elsewhere is shown too, in the open panel.
    assert project.run("decide", "43", "--approve").code == 0
    expect(panel.locator(".ar-badge").first).to_have_text("decided: approve", timeout=PATIENCE)
    assert project.run("lld", "43", "--mock").code == 0
    expect(panel.locator(".ar-badge").first).to_have_text(
        "answered; a later run resumed it", timeout=PATIENCE
    )
    expect(panel.locator(".v-question")).to_have_count(0)
    clean(shown, address)


@pytest.fixture
def live_run(make_project: Callable[[str], Any]) -> Iterator[tuple[Any, Path]]:
    """A project with a run in progress that writes nothing by itself."""
    made = make_project("live")
    made.write("agentos.toml", "")
    run = made.make_home() / "logs" / "parallel" / "2026-11-16T00-37-24.647Z"
    run.mkdir(parents=True)
    with (run / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield made, run


def happened(run: Path, *records: dict[str, Any]) -> None:
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    with (run / "events.jsonl").open("a", encoding="utf-8") as file:
        file.write("".join(json.dumps({"time": now} | record) + "\n" for record in records))


def test_time_moves_by_itself_and_only_changes_are_sent(
    live_run: tuple[Any, Path],
    view: View,  # noqa: F811
    page_at: PageAt,
) -> None:
    project, run = live_run
    address = view(project)
    shown = page_at()
    page = arrive(shown, address)
    # The first seconds of a run.
    expect(page.locator("#side-list a")).to_contain_text("starting")
    expect(page.locator("#run .ar-over")).to_have_text(f"agentos / starting … / {run.name}")
    begun = {"event": "run_started", "items": 2, "parallel": 2, "workflow": "lld", "run_id": run.name}
    items = [{"event": "started", "item": one, "label": f"LLD-{one}", "attempt": 1} for one in ("41", "42")]
    wait = {"event": "waiting", "item": "41", "kind": "key", "reason": "every key is rate limited"}
    happened(run, begun, *items, wait | {"until_seconds": 500.0})
    expect(page.locator("#run .ar-over")).to_contain_text("agentos / lld /")
    page.locator("#run").get_by_role("button", name="LLD-41", exact=True).click()
    panel = page.locator(".ar-detail")
    waiting = panel.locator("[data-tick=waiting]")
    expect(waiting).to_contain_text("every key is rate limited, about 8 min")
    page.evaluate("getSelection().selectAllChildren(document.querySelector('.ar-detail h2'))")

    def left() -> int:
        found = re.search(r"about (\d+) min (\d+) s left", waiting.inner_text())
        assert found is not None
        return int(found[1]) * 60 + int(found[2])

    # Nothing happens and nothing is asked, but the countdown moves.
    page.route("**/api/**", lambda route: route.abort())
    seen = {left()}
    while len(seen) < 4:
        page.wait_for_timeout(100)
        seen.add(left())
    page.unroute("**/api/**")
    assert page.evaluate("String(getSelection())") == "LLD-41"  # what was selected stays selected

    bodies: list[dict[str, Any]] = []

    def kept(answer: Any) -> None:
        if f"/api/runs/{run.name}" in answer.url:
            bodies.append(answer.json())

    page.on("response", kept)
    with page.expect_response(lambda answer: f"/api/runs/{run.name}" in answer.url):
        happened(
            run, {"event": "completed", "item": "42", "label": "LLD-42", "status": "failed", "error": "no"}
        )
    expect(page.locator("#run .ar-items")).to_contain_text("failed")
    expect(page.locator("#run .ar-items")).to_contain_text("running")
    assert bodies
    assert all("data" not in body for body in bodies)
    assert shown.errors == []


def test_the_search_finds_titles_errors_findings_and_files(
    project: Any,
    view: View,  # noqa: F811
    page_at: PageAt,
) -> None:
    project.issue(41, text="# Export search results as CSV\n\nText.\n")
    project.issue(43, text="# Keep deleted accounts\n\nText.\n", mock="verdicts=DISCUSS")
    project.issue(45, text="# Import\n\nText.\n", mock='fail="no such table: customers"')
    assert project.lld("--all").code == 1
    run = project.runs()[-1].name
    address = view(project)
    shown = page_at()
    page = arrive(shown, address)
    hits = page.locator("#side-list .v-hits a")
    for words, label in (
        ("export results", "LLD-41"),
        ("no such table", "LLD-45"),
        ("waiting or stopping", "LLD-43"),
        ("active/LLD-41.md", "LLD-41"),
    ):
        page.locator("#search").fill(words)
        expect(hits).to_have_count(1)
        expect(hits).to_contain_text(label)
    page.locator("#search").fill("customers")
    expect(hits).to_contain_text("error: no such table: customers")
    shown.shoot("live-search")
    hits.click()
    opened(page, "LLD-45")
    assert page.url.endswith(f"#/runs/{run}/item/LLD-45")
    page.keyboard.press("Escape")
    # The search of the run itself knows the same texts.
    page.locator("#run input[type=search]").fill("waiting or stopping")
    expect(page.locator("#run .ar-items tbody tr")).to_have_count(1)
    expect(page.locator("#run .ar-items tbody")).to_contain_text("LLD-43")
    page.locator("#tab-inbox").click()
    page.locator("#search").fill("undecided waiting")
    expect(page.locator("#side-list li")).to_have_count(1)
    page.locator("#search").fill("something else")
    expect(page.locator("#side-list li")).to_have_count(0)
    clean(shown, address)
