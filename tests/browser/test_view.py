"""The live page in a real browser: a run in progress, an answer that counts, hostile text, any screen."""

import json
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from browser.made_runs import HOSTILE, make_run
from harness.processes import wait_until

ADDRESS = re.compile(r"(http://127\.0\.0\.1:\d+)/\?token=\S+")
FOREIGN = (
    "# <script>window.pwned = 1</script><img src=x onerror='window.pwned = 2'> ![p](http://127.0.0.1:9/p.png)"
)
PATIENCE = 60_000  # milliseconds; a run has to start and the machine may be busy

View = Callable[[Any], str]


@pytest.fixture
def view() -> Iterator[View]:
    """Start the command in a project and return the address it prints. It must exit cleanly."""
    started: list[tuple[Any, Any]] = []

    def start(project: Any) -> str:
        process = project.start("view", "--no-open")
        started.append((project, process))
        found = ADDRESS.search(process.line())
        assert found is not None
        return found[0]

    yield start
    for project, process in started:
        if process.poll() is None:
            process.signal(signal.SIGINT)
        result = project.finish(process, timeout=20)
        assert (result.code, result.err) == (0, "")


def arrive(shown: Any, address: str, place: str = "") -> Page:
    page: Page = shown.page
    page.goto(address)
    expect(page.locator("#connection")).to_have_text("live")
    assert "token" not in page.url
    if place:
        page.evaluate("place => { location.hash = place }", place)
    return page


def clean(shown: Any, address: str) -> None:
    """No errors, and nothing foreign was run, requested or created."""
    assert shown.errors == []
    assert [text for text in shown.said if "disconnected" not in text] == []
    ours = address.partition("?")[0]
    assert [url for url in shown.requests if not url.startswith((ours, "data:"))] == []
    assert shown.evaluate("window.pwned") is None
    made = shown.evaluate(
        "[...document.querySelectorAll('script, img, iframe, object, embed, link, style, form')]"
        ".map((one) => one.outerHTML)"
    )
    assert sorted(made) == [
        '<link rel="icon" href="data:,">',
        '<link rel="stylesheet" href="/assets/run.css">',
        '<link rel="stylesheet" href="/assets/view.css">',
        '<script src="/assets/run.js" defer=""></script>',
        '<script src="/assets/view.js" defer=""></script>',
    ]


def test_a_run_shows_up_and_moves_on_by_itself(project: Any, view: View, page_at: Callable[..., Any]) -> None:
    for number in (1, 2):
        project.issue(number, mock="latency=1 verdicts=REVISE,APPROVED")
    address = view(project)
    shown = page_at()
    page = arrive(shown, address)
    expect(page.get_by_role("heading", level=1)).to_have_text("No runs yet")
    running = project.start("lld", "--all", "--mock", "-j2")
    row = page.locator("#side-list a")
    expect(row).to_contain_text("2 running", timeout=PATIENCE)
    expect(row.locator(".v-tag")).to_have_text(["mock", "live"])
    expect(page.locator("#run h1")).to_have_text("0 of 2 items approved")
    assert running.poll() is None  # it was visible while it ran
    page.locator("#run input[type=search]").fill("LLD-1")  # the user's input is kept
    expect(row).to_contain_text("2 approved", timeout=PATIENCE)
    expect(page.locator("#run h1")).to_have_text("2 of 2 items approved")
    expect(page.locator("#run input[type=search]")).to_have_value("LLD-1")
    assert project.finish(running).code == 0
    expect(page.locator("#news")).to_contain_text("Run finished: 2 approved", timeout=PATIENCE)
    clean(shown, address)


def test_an_answer_given_by_keyboard_makes_the_next_run_go_on(
    project: Any, view: View, page_at: Callable[..., Any]
) -> None:
    project.issue(43, mock="verdicts=DISCUSS,APPROVED")
    project.issue(44, mock="verdicts=DISCUSS")
    address = view(project)
    shown = page_at()
    page = arrive(shown, address)
    assert project.lld("--all").code == 3
    expect(page.locator("#inbox-count")).to_have_text("2", timeout=PATIENCE)  # by itself

    def tab_to(name: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            focused = page.evaluate(
                "(document.activeElement.labels?.[0] || document.activeElement).textContent.trim()"
            )
            if focused.startswith(name):
                return
        pytest.fail(f"the keyboard does not get to {name!r}")

    tab_to("Skip to content")
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    page.locator("#tab-inbox").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Title of 43")
    expect(page.locator(".v-pane-findings")).to_contain_text("Waiting or stopping is undecided")
    expect(page.locator(".v-pane-draft h3")).to_contain_text(["LLD-43: Title of 43"])
    expect(page.locator(".v-pane-draft")).to_contain_text("Draft 1, written by the mock drafter.")
    beside = page.evaluate(
        "[...document.querySelectorAll('.v-pane')].map((one) => one.getBoundingClientRect().left)"
    )
    assert beside[0] < beside[1]
    tab_to("Note")
    page.keyboard.type("Stop at once.")
    tab_to("Send back")
    page.keyboard.press("Enter")
    decided = page.locator("#decided-title")
    expect(decided).to_have_text("Decided: revise; the next run resumes")
    expect(decided).to_be_focused()
    expect(page.locator("#inbox-count")).to_have_text("1")
    expect(page.locator(".v-decided code")).to_have_text("agentos lld 43 --mock")
    expect(page.locator("#news")).to_contain_text("LLD-43: decided, revise")

    # A wrong answer can be changed until the next run, and the other item is one key away.
    tab_to("Change answer")
    page.keyboard.press("Enter")
    expect(page.locator("#note")).to_be_focused()
    expect(page.locator("#note")).to_have_value("Stop at once.")
    page.get_by_role("button", name="Approve").press("Enter")
    expect(decided).to_have_text("Decided: approve; the next run resumes")
    tab_to("Next: LLD-44")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Title of 44")

    assert project.run("lld", "43", "--mock").code == 0
    assert project.statuses() == {"43": "approved"}
    assert "Stop at once." in project.read("docs/lld/active/LLD-43.md")
    expect(page.locator("#side-list li")).to_have_count(1, timeout=PATIENCE)
    clean(shown, address)


def test_an_answer_that_comes_second_is_refused_and_the_page_says_so(
    project: Any, view: View, page_at: Callable[..., Any]
) -> None:
    project.issue(43, mock="verdicts=DISCUSS")
    assert project.lld("43").code == 3
    address = view(project)
    shown = page_at()
    page = arrive(shown, address, "#/inbox/LLD-43")
    page.locator("#note").fill("My own words.")

    def somebody_is_first(route: Any) -> None:
        assert project.run("decide", "43", "--revise", "--note", "Stop at once.").code == 0
        route.continue_()

    page.route("**/api/inbox/LLD-43", somebody_is_first, times=1)
    page.get_by_role("button", name="Approve").click()
    expect(page.locator("#problem")).to_contain_text("LLD-43 is already answered: revise")
    expect(page.locator("#problem")).to_contain_text("so yours was not recorded")
    expect(page.locator("#decided-title")).to_have_text("Decided: revise; the next run resumes")
    expect(page.locator(".v-decided blockquote")).to_have_text("Stop at once.")
    # Now that the page shows it, it can be changed.
    page.get_by_role("button", name="Change answer").click()
    page.get_by_role("button", name="Approve").click()
    expect(page.locator("#decided-title")).to_have_text("Decided: approve; the next run resumes")


def test_the_page_that_the_browser_is_started_with_leads_in(
    project: Any, page_at: Callable[..., Any]
) -> None:
    script = project.outside / "browser"
    script.write_text(
        '#!/bin/sh\nprintf %s "$1" > "${0%/*}/part"\nmv "${0%/*}/part" "${0%/*}/opened"\n', "utf-8"
    )
    script.chmod(0o700)
    process = project.start("view", "--open", env={"BROWSER": str(script)})
    opened = project.outside / "opened"
    wait_until(opened.exists, "the browser")
    page = page_at().page
    page.goto(opened.read_text("utf-8"))
    expect(page.locator("#connection")).to_have_text("live")
    assert "token" not in page.url
    assert list(project.tmp.glob("agentos-view-*")) == []
    page.goto("about:blank")
    process.signal(signal.SIGINT)
    result = project.finish(process, timeout=20)
    assert (result.code, result.err) == (0, "")


def test_hostile_text_is_text_everywhere(project: Any, view: View, page_at: Callable[..., Any]) -> None:
    issue = f"{FOREIGN}\n\n{HOSTILE}\n"
    project.issue(43, text=issue, mock='verdicts=DISCUSS say="<img src=x onerror=alert(1)>"')
    assert project.lld("43").code == 3
    run = project.runs()[-1]
    audit = run / "workflow-audit-43.jsonl"
    records = [json.loads(line) for line in audit.read_text("utf-8").splitlines()]
    for record in records:
        if record["kind"] == "verdict":
            for finding in (*record["findings"], *record["ledger"]):
                finding |= {"title": HOSTILE, "text": HOSTILE, "recommendation": HOSTILE, "category": HOSTILE}
            record["questions"] = [HOSTILE]
    audit.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    trail = project.root / "docs/lineage/active/43-lld"
    for name in ("002-draft.md", "003-verdict.md"):
        (trail / name).write_text((trail / name).read_text("utf-8") + FOREIGN + HOSTILE, "utf-8")
    address = view(project)
    shown = page_at()
    dialogs: list[str] = []

    def refuse(dialog: Any) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    shown.page.on("dialog", refuse)
    page = arrive(shown, address, "#/inbox/LLD-43")
    expect(page.get_by_role("heading", level=1)).to_contain_text("<script>window.pwned = 1</script>")
    page.locator(".v-verdict summary").click()
    for pane in (".v-asked", ".v-finding >> nth=0", ".v-pane-draft", ".v-verdict", "#side-list"):
        expect(page.locator(pane)).to_contain_text("<img src=x onerror=")
    clean(shown, address)
    page.get_by_role("link", name="view log").click()
    expect(page.locator("#log-text")).to_contain_text("<img src=x onerror=alert(1)>")
    expect(page.locator("#run")).to_contain_text("<script>window.pwned = 1</script>")
    page.locator("#run").get_by_role("button", name="LLD-43").first.click()
    expect(page.locator(".ar-detail")).to_contain_text("<script>window.pwned = 1</script>")
    clean(shown, address)
    assert dialogs == []


def test_marks_that_turn_the_writing_and_runs_that_are_not_there(
    project: Any, view: View, page_at: Callable[..., Any]
) -> None:
    project.issue(43, text="# Pay \u202eelbon\u2066\n\nText \u200f.\n", mock="verdicts=DISCUSS")
    assert project.lld("--all").code == 3
    run = project.runs()[-1]
    with (run / "LLD-43.log").open("a", encoding="utf-8") as log:
        log.write("a line \u202etxet\n")
    (run / "linked.log").symlink_to(project.root / "agentos.toml")  # hides only itself
    address = view(project)
    shown = page_at()
    page = arrive(shown, address, "#/inbox/LLD-43")
    expect(page.locator("#side-list")).to_contain_text("Pay")
    expect(page.locator("#inbox-view .v-pane-draft")).to_be_visible()
    page.evaluate("place => { location.hash = place }", f"#/runs/{run.name}/log/LLD-43")
    expect(page.locator("#log-text")).to_contain_text("a line [U+202E]txet")
    expect(page.locator("#run .ar-row").first).to_contain_text("Pay [U+202E]elbon[U+2066]")
    assert not set("\u202e\u2066\u200f") & set(page.locator("body").inner_text())
    page.evaluate("place => { location.hash = place }", "#/runs/2020-no-such-run")
    expect(page.locator("#problem")).to_contain_text("no-such-run")
    expect(page.locator("#run .ar")).to_have_count(0)  # the data of the other run is gone
    page.evaluate("place => { location.hash = place }", f"#/runs/{run.name}")
    expect(page.locator("#run h1")).to_have_text("0 of 1 item approved")
    expect(page.locator("#problem")).to_be_hidden()


def test_the_log_of_an_item_is_followed(project: Any, view: View, page_at: Callable[..., Any]) -> None:
    project.issue(7, mock="latency=1.5 verdicts=REVISE,APPROVED")
    running = project.start("lld", "7", "--mock")
    address = view(project)
    shown = page_at()
    page = arrive(shown, address)
    expect(page.locator("#side-list a")).to_contain_text("1 running", timeout=PATIENCE)
    name = page.locator("#side-list li").get_attribute("data-key")
    page.evaluate("place => { location.hash = place }", f"#/runs/{name}/log/LLD-7")
    expect(page.locator("#log-title")).to_be_focused()
    expect(page.locator("#log-text")).to_contain_text("review 1: REVISE", timeout=PATIENCE)
    expect(page.locator("#log-note")).to_contain_text("run in progress")
    expect(page.locator("#log-text")).to_contain_text("run approved", timeout=PATIENCE)
    expect(page.locator("#log-note")).to_contain_text("run finished", timeout=PATIENCE)
    assert project.finish(running).code == 0
    text = (project.runs()[-1] / "LLD-7.log").read_text("utf-8")
    assert page.locator("#log-text").text_content() == text  # nothing twice, nothing lost
    page.locator("#log-text").press("Escape")
    expect(page.locator("#log-pane")).to_be_hidden()
    clean(shown, address)


def test_a_server_that_ended_is_told(project: Any, view: View, page_at: Callable[..., Any]) -> None:
    address = view(project)
    shown = page_at()
    page = arrive(shown, address)
    [process] = project._started
    process.signal(signal.SIGINT)
    expect(page.locator("#connection")).to_have_text("disconnected")
    expect(page.locator("#connection")).to_have_attribute("role", "status")
    assert shown.errors == []


def endings(project: Any) -> None:
    """A real run of the demo's items: every status a run can reach by itself."""
    project.issue(41, text="# Export search results as CSV\n\nText.\n")
    project.issue(42, text="# Retry failed webhooks\n\nText.\n", mock="verdicts=REVISE,APPROVED")
    project.issue(43, text="# Keep deleted accounts for 30 days\n\nText.\n", mock="verdicts=DISCUSS")
    project.issue(44, text="# Rewrite billing\n\nText.\n", mock="verdicts=REVISE stuck")
    project.issue(45, text="# Import the legacy data\n\nText.\n", mock='fail="no such table: customers"')
    project.issue(46, text="# A live dashboard\n\nText.\n", mock="hang=60")
    project.issue(47, text="# Speed up parsing\n\nText.\n", mock="crash=SIGKILL")
    project.issue(48, text="# Sync calendars\n\nText.\n", mock="429=1")
    assert project.lld("--all", "-j4", "--timeout", "4").code == 1


@pytest.fixture
def many(tmp_path: Path, make_project: Callable[[str], Any]) -> Any:
    """A project with a made-up run of 300 items, and some earlier runs."""
    made = make_project("many")
    made.write("agentos.toml", "")
    run = make_run(tmp_path / "made", 300, parallel=10, hostile=True, earlier=6)
    made.make_home().joinpath("logs", "parallel").rmdir()
    run.parent.rename(made.home / "logs" / "parallel")
    return made


def check_looks(
    project: Any, address: str, page_at: Callable[..., Any], name: str, places: dict[str, str]
) -> None:
    for width in (1280, 390):
        for scheme in ("light", "dark"):
            shown = page_at(width, scheme, height=900 if width == 1280 else 844)
            page = arrive(shown, address)
            for what, place in places.items():
                page.evaluate("place => { location.hash = place }", place)
                title = page.locator("main h1:visible, #log-title:visible").first
                expect(title).to_be_visible(timeout=PATIENCE)
                if "/log/" in place:
                    expect(page.locator("#log-text")).not_to_be_empty()
                assert shown.overflow() == 0, (what, width)
                shown.shoot(f"view-{name}-{what}-{width}-{scheme}", whole="/log/" not in place)
                assert shown.evaluate(_TOO_SMALL) == [] or width == 1280
            clean(shown, address)


_TOO_SMALL = (
    "[...document.querySelectorAll('.v-top a, .v-side button, .v-item button, .v-log button')]"
    ".filter((one) => one.checkVisibility() && one.getBoundingClientRect().height < 40)"
    ".map((one) => one.textContent)"
)


def test_eight_items_with_every_ending_on_every_screen(
    project: Any, view: View, page_at: Callable[..., Any]
) -> None:
    endings(project)
    address = view(project)
    name = project.runs()[-1].name
    places = {"run": "#/runs", "inbox": "#/inbox", "log": f"#/runs/{name}/log/LLD-45"}
    check_looks(project, address, page_at, "8", places)


def test_three_hundred_items_on_every_screen_and_found_by_search(
    many: Any, view: View, page_at: Callable[..., Any]
) -> None:
    address = view(many)
    check_looks(many, address, page_at, "300", {"run": "#/runs"})
    shown = page_at()
    page = arrive(shown, address)
    rows = page.locator("#side-list > li > a")
    expect(rows).to_have_count(7)
    first, last = ({row["label"] for row in many.summary(run)["items"]} for run in (0, -1))
    page.locator("#search").fill(min(last - first))
    expect(rows).to_have_count(1, timeout=PATIENCE)
    page.locator("#search").fill("no such thing")
    expect(page.locator("#side-note")).to_have_text("No results.", timeout=PATIENCE)
    page.locator("#search").fill("")
    expect(rows).to_have_count(7)
    rows.nth(6).click()
    expect(rows.nth(6)).to_have_attribute("aria-current", "true")
    expect(page.locator("#run .ar-over")).to_contain_text(many.runs()[0].name)
    page.go_back()
    expect(page.locator("#run .ar-over")).to_contain_text(many.runs()[-1].name)
    clean(shown, address)


def test_a_long_draft_says_that_its_rest_is_left_out(
    project: Any, view: View, page_at: Callable[..., Any]
) -> None:
    project.issue(43, mock="verdicts=DISCUSS")
    assert project.lld("43").code == 3
    draft = "docs/lineage/active/43-lld/002-draft.md"
    (project.root / draft).write_text("# Long\n\n" + "a line\n" * 10_000, "utf-8")
    address = view(project)
    shown = page_at()
    page = arrive(shown, address, "#/inbox/LLD-43")
    note = page.locator(".v-pane-draft .v-rendered .v-note")
    expect(note).to_have_text(f"The rest is left out: see {draft}.")
    note.scroll_into_view_if_needed()
    shown.shoot("inbox-long", whole=False)
    clean(shown, address)
