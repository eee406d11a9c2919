"""The report in a real browser: from disk, offline, on any screen, with hostile texts."""

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from agentos.report.data import history_of, run_data
from agentos.report.page import write_report
from browser.conftest import PageAt, Shown
from browser.made_runs import ENDINGS, HOSTILE, make_run
from harness.project import Project

Report = Callable[..., Path]
SCREENS = [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")]


INTRUDER = """async (url) => {
    const found = [];
    const stopped = new Promise((done) => {
        document.addEventListener("securitypolicyviolation", (event) => {
            found.push(event.effectiveDirective);
            if (found.includes("img-src") && found.includes("connect-src")) done();
        });
    });
    const image = document.createElement("img");
    image.src = url + "a.png";
    document.body.append(image);
    await fetch(url).catch(() => 0);
    try { document.body.insertAdjacentHTML("beforeend", "<b>x</b>"); } catch { found.push("markup"); }
    try {
        const script = document.createElement("script");
        script.textContent = "window.pwned = 3";
        document.body.append(script);
    } catch { found.push("script"); }
    await stopped;
    return found;
}"""
CONTRAST = """() => {
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const pixel = (colour) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const part = (value) => (value <= 10.02 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
    const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
    const ground = (node) => {
        for (let one = node; one; one = one.parentElement) {
            const found = pixel(getComputedStyle(one).backgroundColor);
            if (found[3] === 255) return found;
        }
        return [255, 255, 255];
    };
    const weak = [];
    for (const node of document.querySelectorAll(".ar *")) {
        if (!node.checkVisibility() || node.closest("svg, :disabled, .ar-sr, .ar-scale-top, .ar-scale-zero")) continue;
        if (![...node.childNodes].some((one) => one.nodeType === 3 && one.textContent.trim())) continue;
        const both = [light(pixel(getComputedStyle(node).color)), light(ground(node))];
        const ratio = (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
        if (ratio < 4.5) weak.push(`${node.className} ${ratio.toFixed(2)} ${node.textContent.slice(0, 30)}`);
    }
    return weak;
}"""  # noqa: E501 - a script


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Make the report of a made-up run; the same one is made only once."""
    made: dict[str, Path] = {}

    def make(count: int = 11, **how: Any) -> Path:
        name = json.dumps([count, how])
        if name not in made:
            root = tmp_path_factory.mktemp("made")
            run = make_run(root, count, **how)
            write_report(run, run_data(run, worktree=root, history=history_of(run)))
            made[name] = run / "report.html"
        return made[name]

    return make


def calm_and_whole(shown: Shown) -> None:
    """No errors, no console messages, no outside requests, no overflow."""
    assert shown.errors == []
    assert shown.said == []
    assert shown.outside() == []
    assert shown.overflow() == 0


def shown_rows(page: Page) -> list[str]:
    return page.locator(".ar-items tbody th button").all_inner_texts()


def detail(page: Page) -> Any:
    return page.locator(".ar-detail")


# Screenshots.


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_few_items_with_every_ending(report: Report, page_at: PageAt, width: int, scheme: str) -> None:
    shown = page_at(width, scheme, offline=True)
    page = shown.open(report(earlier=9))
    for word in ENDINGS:
        named = {"pending": "not started"}.get(word, word.replace("_", " "))
        expect(page.locator(".ar-chips").get_by_text(named)).to_be_visible()
        expect(page.locator(".ar-items tbody").get_by_text(named).first).to_be_attached()
    shown.shoot(f"few-{width}-{scheme}")
    page.get_by_role("button", name="By key").click()
    shown.shoot(f"few-{width}-{scheme}-keys")
    page.get_by_role("button", name="LLD-42", exact=True).first.click()
    expect(detail(page)).to_be_visible()
    shown.shoot(f"few-{width}-{scheme}-item", whole=False)
    calm_and_whole(shown)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (390, "light")])
def test_three_hundred_items(report: Report, page_at: PageAt, width: int, scheme: str) -> None:
    shown = page_at(width, scheme, offline=True)
    page = shown.open(report(300, parallel=10, keys=6, every=False, earlier=9))
    expect(page.locator(".ar-row-group")).to_contain_text("without problems")
    shown.shoot(f"many-{width}-{scheme}")
    page.get_by_role("button", name="By key").click()
    shown.shoot(f"many-{width}-{scheme}-keys")
    calm_and_whole(shown)


def test_five_hundred_items_are_small_and_soon_there(report: Report, page_at: PageAt) -> None:
    path = report(500, parallel=10, keys=6, hostile=True)
    assert path.stat().st_size < 1_000_000
    shown = page_at(offline=True)
    page = shown.open(path)
    # It takes half a second or less; the bound only catches a page that is slow by design.
    expect(page.locator(".ar-row").first).to_be_visible()
    ready = shown.evaluate("performance.getEntriesByName('agentos-run-ready')[0].startTime")
    assert ready < 15_000
    # Only the visible rows are drawn.
    page.get_by_label("Group items without problems").uncheck()
    assert page.locator(".ar-row").count() < 80
    page.locator(".ar-rows").evaluate("(node) => { node.scrollTop = node.scrollHeight; }")
    expect(page.locator(".ar-row").last).to_contain_text("LLD-540")
    assert page.locator(".ar-row").count() < 80
    page.get_by_label("Find items by text").fill("LLD-333")
    expect(page.locator(".ar-row")).to_have_count(1)
    calm_and_whole(shown)


def test_many_rounds_are_small_and_whole(report: Report, page_at: PageAt) -> None:
    path = report(500, parallel=10, keys=6, every=False, rounds=4)
    assert path.stat().st_size < 1_000_000
    shown = page_at(offline=True)
    page = shown.open(path, "#LLD-300")
    expect(detail(page).locator(".ar-part-round")).to_have_count(4)
    expect(page.locator(".ar-foot")).not_to_contain_text("of findings shortened")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="By key").click()
    expect(page.locator(".ar-row-key").first).to_contain_text("calls")
    assert page.locator(".ar-row-key .ar-call").count() > 50
    calm_and_whole(shown)


# From disk, with nothing else.


def test_nothing_leaves_and_nothing_outside_is_needed(report: Report, page_at: PageAt) -> None:
    path = report(hostile=True)
    shown = page_at(offline=True)
    page = shown.open(path)
    for label in shown_rows(page):
        page.get_by_role("button", name=label, exact=True).first.click()
        for summary in page.locator(".ar-detail summary").all():
            summary.click()
    assert shown.requests == [path.as_uri()]
    calm_and_whole(shown)


def test_the_policy_stops_what_the_page_does_not_do_itself(report: Report, page_at: PageAt) -> None:
    """What an attacker would try: load an image, send data, run a script, write markup."""
    shown = page_at()
    shown.open(report())
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        stopped = shown.evaluate(INTRUDER, f"http://127.0.0.1:{server.getsockname()[1]}/")
        assert set(stopped) >= {"img-src", "connect-src", "markup", "script"}
        with pytest.raises(BlockingIOError):
            server.accept()  # no connection came
    assert shown.evaluate("window.pwned") is None


def test_texts_of_models_and_users_are_inert(report: Report, page_at: PageAt) -> None:
    shown = page_at()
    page = shown.open(report(hostile=True))
    # It is shown as plain text in titles of issues, errors, drafts and verdicts.
    expect(page.locator(".ar-row").first).to_contain_text("<script>window.pwned = 1</script>")
    page.get_by_role("button", name="LLD-42", exact=True).first.click()
    panel = detail(page)
    expect(panel.locator(".ar-finding").first).to_contain_text('<img src=x onerror="window.pwned = 2">')
    panel.locator("summary", has_text="Changes").first.click()
    expect(panel.locator(".ar-diff").first).to_contain_text("draft 2")
    page.get_by_role("button", name="LLD-43", exact=True).first.click()
    expect(panel.locator(".ar-question")).to_contain_text("![p](http://127.0.0.1:9/p.png)")
    expect(panel.locator(".ar-callout").first).to_contain_text("</script><!-- {{script}}")
    page.keyboard.press("Escape")
    expect(page.locator(".ar-overlaps")).to_contain_text("<img src=x")
    assert shown.evaluate("window.pwned") is None
    assert page.locator("img, iframe, object, embed, form").count() == 0
    assert page.locator("script").count() == 2
    calm_and_whole(shown)


def test_marks_that_turn_the_writing_are_shown(report: Report, page_at: PageAt) -> None:
    shown = page_at()
    page = shown.open(report())
    shown.evaluate(
        """() => {
            const data = document.getElementById("agentos-run-data").textContent;
            const run = AgentosRun.unpacked(JSON.parse(data));
            for (const item of run.items) {
                item.title = item.error = "pay\\u202Eelbon\\u2066x\\u200F";
                for (const draft of item.drafts) if (draft.diff) draft.diff = "+a\\u202Eb";
                for (const round of item.rounds) for (const one of round.findings) one.text = "c\\u061Cd";
            }
            AgentosRun.mount(document.getElementById("agentos-run"), run, {});
        }"""
    )
    page.get_by_role("button", name="LLD-42", exact=True).first.click()
    expect(detail(page)).to_contain_text("pay[U+202E]elbon[U+2066]x[U+200F]")
    expect(detail(page).locator(".ar-finding").first).to_contain_text("c[U+061C]d")
    detail(page).locator("summary", has_text="Changes").first.click()
    expect(detail(page).locator(".ar-diff").first).to_contain_text("+a[U+202E]b")
    found = shown.evaluate(
        """() => [document.getElementById("agentos-run").textContent,
            ...[...document.querySelectorAll("[title], [aria-label]")].map((node) =>
                (node.getAttribute("title") || "") + (node.getAttribute("aria-label") || ""))].join(" ")"""
    )
    assert not set("\u202e\u2066\u200f\u061c") & set(found)
    calm_and_whole(shown)


def test_a_pause_is_told_with_its_reason_and_what_is_left(report: Report, page_at: PageAt) -> None:
    shown = page_at()
    page = shown.open(report())
    expect(page.locator(".ar-notice")).to_be_hidden()
    shown.evaluate(
        """() => {
            const data = document.getElementById("agentos-run-data").textContent;
            const run = AgentosRun.unpacked(JSON.parse(data));
            Object.assign(run.run, { live: true, pretended: true, compared: 0 });
            run.overlaps = [];
            run.run.paused = { reason: "every key is rate limited", seconds_left: 95 };
            Object.assign(run.items[0], { status: "running", output: null, error: null });
            run.items[0].waiting = { reason: "key-1 is rate limited", seconds_left: 95 };
            AgentosRun.mount(document.getElementById("agentos-run"), run, {});
        }"""
    )
    notice = page.locator(".ar-notice")
    expect(notice).to_have_text("Paused: every key is rate limited; resuming in about 1 min 35 s")
    expect(page.locator(".ar-items")).to_contain_text(
        "waiting for a key: key-1 is rate limited, about 1 min 35 s left"
    )
    expect(page.locator(".ar-stats")).to_contain_text("simulated (mock)")
    expect(page.get_by_text("Overlaps are listed when the run is finished.")).to_be_visible()
    shown.shoot("paused")
    calm_and_whole(shown)


def test_links_lead_to_the_files_beside_the_page(report: Report, page_at: PageAt) -> None:
    path = report()
    shown = page_at()
    page = shown.open(path, "#LLD-42")
    link = detail(page).get_by_role("link", name="LLD-42.log")
    assert link.get_attribute("href") == "LLD-42.log"
    link.click()
    page.wait_for_url("**/LLD-42.log")
    assert "a log" in page.content()
    page.go_back()
    expect(detail(page).get_by_role("heading", name="LLD-42")).to_be_visible()


def test_a_run_that_was_cut_off(report: Report, page_at: PageAt) -> None:
    shown = page_at()
    page = shown.open(report(cut_off=True))
    expect(page.locator(".ar-ended")).to_contain_text("cut off")
    expect(page.locator(".ar-chips")).to_contain_text("cut off")
    # It claims nothing that was not checked, and links to no missing file.
    expect(page.get_by_text("Overlaps were not checked")).to_be_visible()
    assert page.locator(".ar-foot a").all_inner_texts() == ["events.jsonl"]
    calm_and_whole(shown)


def test_a_real_run_leaves_its_report(project: Project, page_at: PageAt) -> None:
    project.issue(41, mock="latency=0.05")
    project.issue(42, text=f"# {HOSTILE}\n\nText.\n", mock="verdicts=REVISE,APPROVED latency=0.05")
    project.issue(43, mock="verdicts=DISCUSS latency=0.05")
    project.issue(45, mock='fail="the legacy schema is not described"')
    project.issue(47, mock="crash=SIGKILL")
    project.issue(48, mock="429=2 latency=0.05")
    assert project.lld("--all", "--parallel", "3").code == 1
    shown = page_at()
    page = shown.open(project.runs()[-1] / "report.html")
    words = [row["status"] for row in project.summary()["items"]]
    assert page.locator(".ar-items tbody .ar-badge").all_inner_texts() == words
    expect(page.get_by_role("heading", level=1)).to_have_text("3 of 6 items approved")
    expect(page.locator(".ar-crash").first).to_be_visible()
    page.get_by_role("button", name="LLD-42", exact=True).first.click()
    expect(detail(page).locator(".ar-part-draft")).to_have_count(2)
    expect(detail(page).locator(".ar-part-round").first).to_contain_text("resolved")
    expect(detail(page)).to_contain_text("<script>window.pwned = 1</script>")
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="By key").click()
    expect(page.locator(".ar-rows .ar-limited")).to_have_count(2)
    assert shown.evaluate("window.pwned") is None
    calm_and_whole(shown)


# Using it.


def test_filters_by_ending_and_by_text_hold_for_timeline_and_table(report: Report, page_at: PageAt) -> None:
    shown = page_at()
    page = shown.open(report())
    chips = page.locator(".ar-chips")
    chips.get_by_role("button", name="failed").click()
    assert shown_rows(page) == ["LLD-44", "LLD-47"]
    expect(page.locator(".ar-row")).to_have_count(2)
    chips.get_by_role("button", name="discuss").click()
    assert shown_rows(page) == ["LLD-43", "LLD-44", "LLD-47"]
    assert chips.get_by_role("button", name="discuss").get_attribute("aria-pressed") == "true"
    page.get_by_label("Find items by text").fill("SIGKILL")
    assert shown_rows(page) == ["LLD-44"]
    expect(page.locator(".ar-shown")).to_have_text("1 of 11 shown")
    page.get_by_label("Find items by text").fill("no such thing")
    expect(page.locator(".ar-rows")).to_contain_text("No items match the filter.")
    page.get_by_label("Find items by text").fill("")
    chips.get_by_role("button", name="show all").click()
    assert len(shown_rows(page)) == 11


def test_hovering_tells_what_when_how_long_and_with_what(report: Report, page_at: PageAt) -> None:
    shown = page_at()
    page = shown.open(report())
    tip = page.locator(".ar-tip")
    expect(tip).to_be_hidden()
    call = page.locator(".ar-row").nth(1).locator("rect.ar-call").first
    call.hover()
    expect(tip).to_be_visible()
    for word in ("draft call", "LLD-42", "when", "duration", "key-", "opus-5", "tokens", "cost"):
        expect(tip).to_contain_text(word)
    page.locator(".ar-row").nth(3).locator("rect.ar-cut").first.hover()
    expect(tip).to_contain_text("its worker ended before an answer came")
    shown.shoot("hover", whole=False)
    page.mouse.move(5, 5)
    expect(tip).to_be_hidden()


def test_by_key_shows_each_key_with_its_refusals_and_rests(report: Report, page_at: PageAt) -> None:
    shown = page_at()
    page = shown.open(report())
    page.get_by_role("button", name="By key").click()
    expect(page.locator(".ar-row")).to_have_count(4)
    expect(page.locator(".ar-row").first).to_contain_text("key-1")
    assert page.locator(".ar-rows .ar-limited").count() >= 4
    assert page.locator(".ar-rows .ar-rest").count() >= 4
    page.locator(".ar-rows .ar-limited").first.hover()
    expect(page.locator(".ar-tip")).to_contain_text("429")
    page.locator(".ar-row").first.locator("rect.ar-call").first.click()
    expect(detail(page)).to_be_visible()
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="By item").click()
    expect(page.locator(".ar-row")).to_have_count(11)


def test_calm_items_are_grouped_and_can_be_shown(report: Report, page_at: PageAt) -> None:
    shown = page_at()
    page = shown.open(report())
    page.get_by_label("Group items without problems").check()
    group = page.locator(".ar-row-group")
    count = page.locator(".ar-row").count()
    assert count < 11
    group.click()
    expect(page.locator(".ar-row")).to_have_count(12)
    group.click()
    expect(page.locator(".ar-row")).to_have_count(count)


def test_the_table_is_sorted_by_its_headers(report: Report, page_at: PageAt) -> None:
    shown = page_at()
    page = shown.open(report())
    for name in ("Status", "Cost", "Time", "Waited", "Reviews"):
        head = page.get_by_role("columnheader", name=name)
        head.get_by_role("button").click()
        assert head.get_attribute("aria-sort") in {"ascending", "descending"}
    # By reviews, most first.
    counts = page.locator(".ar-items .ar-verdicts").evaluate_all(
        "(all) => all.map((one) => parseInt(one.textContent) || 0)"
    )
    assert counts == sorted(counts, reverse=True)
    assert page.locator("th[aria-sort]").count() == 1


def test_an_item_tells_its_rounds_findings_and_changes(report: Report, page_at: PageAt) -> None:
    shown = page_at()
    page = shown.open(report())
    page.get_by_role("button", name="LLD-45", exact=True).first.click()
    panel = detail(page)
    expect(panel).to_contain_text("no progress: the same findings came back twice")
    assert panel.locator("h4").all_inner_texts()[1].startswith("Review 1")
    expect(panel.locator(".ar-part-round")).to_have_count(3)
    expect(panel.locator(".ar-part-round").first).to_contain_text("came back")
    expect(panel.locator(".ar-part-round").last.locator(".ar-finding").first).to_contain_text("open")
    page.get_by_role("button", name="Previous item").click()
    expect(panel).to_contain_text("its worker crashed 3 times")
    expect(panel.locator(".ar-lives li")).to_have_count(3)
    page.get_by_role("button", name="LLD-42", exact=True).first.click()
    expect(panel.locator(".ar-part-round").first).to_contain_text("resolved")
    expect(panel.locator(".ar-part-round").last).to_contain_text("accepted")
    panel.locator("summary", has_text="Changes").first.click()
    expect(panel.locator(".ar-diff .ar-d-add").first).to_be_visible()
    expect(panel.locator(".ar-diff .ar-d-del").first).to_be_visible()


def test_everything_can_be_done_with_the_keyboard(report: Report, page_at: PageAt) -> None:
    shown = page_at()
    page = shown.open(report())
    page.locator(".ar-rows").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    expect(page.locator(".ar-row.ar-active")).to_contain_text("LLD-42")
    expect(page.locator(".ar-tip")).to_contain_text("Worker, attempt 1")
    active = page.locator(".ar-rows").get_attribute("aria-activedescendant")
    assert page.locator(f"#{active}").get_attribute("aria-selected") == "true"
    page.keyboard.press("Enter")
    expect(detail(page)).to_be_focused()
    page.keyboard.press("Escape")
    expect(detail(page)).to_be_hidden()
    expect(page.locator(".ar-rows")).to_be_focused()
    page.keyboard.press("+")
    expect(page.get_by_role("button", name="Whole run")).to_be_enabled()
    page.keyboard.press("0")
    expect(page.get_by_role("button", name="Whole run")).to_be_disabled()
    # Everything clickable can be reached, and the focus is visible.
    reached = set()
    page.locator("body").evaluate("(body) => { document.activeElement.blur(); }")
    for _ in range(120):
        page.keyboard.press("Tab")
        reached.add(
            shown.evaluate(
                "document.activeElement.textContent.slice(0, 20) || document.activeElement.tagName"
            )
        )
        outline = shown.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none" or shown.evaluate("document.activeElement === document.body")
    assert {"By item", "By key", "Roomy", "Dense", "LLD-41", "LLD-51", "Status", "INPUT"} <= reached


def test_a_part_of_the_time_can_be_chosen(report: Report, page_at: PageAt) -> None:
    shown = page_at()
    page = shown.open(report())
    page.locator(".ar-plot-head svg.ar-plot").scroll_into_view_if_needed()
    chart = page.locator(".ar-plot-head svg.ar-plot").bounding_box()
    assert chart is not None
    before = page.locator(".ar-plot-head .ar-tick").all_text_contents()
    page.mouse.move(chart["x"] + 200, chart["y"] + 20)
    page.mouse.down()
    page.mouse.move(chart["x"] + 300, chart["y"] + 20)
    page.mouse.up()
    assert page.locator(".ar-plot-head .ar-tick").all_text_contents() != before
    expect(page.get_by_label("Move the time window")).to_be_visible()
    page.get_by_role("button", name="Whole run").click()
    assert page.locator(".ar-plot-head .ar-tick").all_text_contents() == before


def test_an_update_keeps_what_the_user_has_chosen(report: Report, page_at: PageAt) -> None:
    shown = page_at(height=700)
    page = shown.open(report(300, parallel=10, keys=6, every=False, earlier=9))
    shown.evaluate(
        """async () => {
            const data = await AgentosRun.embedded(document.getElementById("agentos-run-data"));
            window.run = AgentosRun.unpacked(data);
            const place = document.getElementById("agentos-run");
            window.live = AgentosRun.mount(place, window.run, { links: false });
        }"""
    )
    page.get_by_label("Group items without problems").uncheck()
    page.get_by_label("Find items by text").fill("approved")
    page.locator(".ar-chips").get_by_role("button", name="approved").click()
    page.get_by_role("columnheader", name="Cost").get_by_role("button").click()
    page.locator(".ar-rows").evaluate("(node) => { node.scrollTop = 400; }")
    page.locator(".ar-items").evaluate("(node) => { node.scrollTop = 300; }")
    page.locator(".ar-items tbody th button").nth(9).click()
    opened = detail(page).locator("h2").inner_text()
    detail(page).evaluate("(node) => { node.scrollTop = 120; }")
    page.get_by_role("button", name="Next item").focus()
    shown.evaluate(
        """() => {
            const next = structuredClone(window.run);
            next.run.wall_seconds += 1;
            for (const item of next.items) item.seconds += 1;
            window.live.update(next);
        }"""
    )
    assert detail(page).locator("h2").inner_text() == opened
    assert detail(page).evaluate("(node) => node.scrollTop") == 120
    assert page.locator(".ar-rows").evaluate("(node) => node.scrollTop") == 400
    assert page.locator(".ar-items").evaluate("(node) => node.scrollTop") == 300
    expect(page.get_by_label("Find items by text")).to_have_value("approved")
    expect(page.get_by_label("Group items without problems")).not_to_be_checked()
    expect(page.locator("th[aria-sort]")).to_contain_text("Cost")
    expect(page.get_by_role("button", name="Next item")).to_be_focused()
    assert page.locator(".ar-chips [aria-pressed=true]").count() == 1
    # Without links, nothing points to files.
    assert page.locator("a").count() == 0
    calm_and_whole(shown)


def test_the_colours_can_be_told_apart_from_their_ground(report: Report, page_at: PageAt) -> None:
    for scheme in ("light", "dark"):
        shown = page_at(1280, scheme)
        shown.open(report())
        assert shown.evaluate(CONTRAST) == [], scheme
