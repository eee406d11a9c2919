"""A hostile page on another port of this machine, in the browser that is logged in to the live page."""

import json
import signal
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from playwright.sync_api import expect

from browser.test_lasting_login import free_port
from browser.test_view import ADDRESS, arrive
from harness.processes import wait_until

PageAt = Callable[..., Any]

ATTACK = """
async ([ours, run]) => {
  const tried = { cookie: document.cookie, read: [] };
  for (const path of ["/", "/api/runs", "/api/inbox", "/api/started", "/events", "/login/challenge"]) {
    for (const mode of ["cors", "no-cors"]) {
      try {
        const answer = await fetch(ours + path, { credentials: "include", mode });
        if (answer.type !== "opaque") tried.read.push([path, answer.status, await answer.text()]);
      } catch { /* refused */ }
    }
  }
  await new Promise((done) => {
    const source = new EventSource(`${ours}/events`, { withCredentials: true });
    source.onmessage = source.onopen = () => tried.read.push("events");
    source.onerror = () => { source.close(); done(); };
  });
  const changes = [
    ["/api/inbox/LLD-43", { answer: "approve", note: "", reviews: 1 }],
    ["/api/start", { action: "retry", run, command: "agentos lld 45 --retry-failed --mock" }],
    ["/api/stop", { run }],
    ["/login", { token: "" }],
  ];
  for (const [path, body] of changes) {
    const post = { method: "POST", credentials: "include", body: JSON.stringify(body) };
    for (const kind of ["application/json", "text/plain"]) {
      for (const mode of ["cors", "no-cors"]) {
        await fetch(ours + path, { ...post, mode, headers: { "Content-Type": kind } }).catch(() => null);
      }
    }
    await new Promise((done) => { // a form that looks like JSON
      const frame = document.createElement("iframe");
      const form = document.createElement("form");
      const field = document.createElement("input");
      frame.name = `frame-${path}`;
      Object.assign(form, { method: "post", action: ours + path, enctype: "text/plain", target: frame.name });
      Object.assign(field, { name: JSON.stringify({ ...body, x: "" }).slice(0, -2), value: '"}' });
      form.append(field);
      document.body.append(frame, form);
      frame.onload = () => done();
      form.submit();
    });
  }
  const frame = document.createElement("iframe");
  frame.src = ours + "/";
  await new Promise((done) => { frame.onload = done; document.body.append(frame); });
  try {
    tried.read.push(frame.contentWindow.localStorage.getItem("agentos-token"));
  } catch { /* another origin */ }
  tried.opener = window.opener === null;
  return tried;
}
"""


class Hostile(ThreadingHTTPServer):
    """Serves an empty page on any free port and keeps what browsers send."""

    daemon_threads = True

    def __init__(self) -> None:
        self.arrived: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                arrived.append(f"{self.requestline}\n{self.headers}")
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(b"<!doctype html><title>other</title><body>")

            def log_message(self, *_args: Any) -> None: ...

        arrived = self.arrived
        super().__init__(("127.0.0.1", 0), Handler)


@pytest.fixture
def hostile() -> Iterator[Hostile]:
    with Hostile() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("flags", [(), ("--allow-run",)])
def test_a_page_on_another_port_gets_nothing_and_changes_nothing(
    project: Any, hostile: Hostile, page_at: PageAt, flags: tuple[str, ...]
) -> None:
    project.issue(43, mock="verdicts=DISCUSS")
    project.issue(45, mock='fail="no"')
    assert project.lld("43", "45").code != 0
    port = free_port()
    process = project.start("view", "--no-open", "--port", str(port), *flags)
    found = ADDRESS.search(process.line())
    assert found is not None
    ours, token = found[1], found[0].partition("=")[2]
    shown = page_at()
    page = arrive(shown, found[0], "#/inbox/LLD-43")
    context = page.context

    for name in ("127.0.0.1", "localhost"):
        place = f"http://{name}:{hostile.server_port}/"
        with context.expect_page() as opened:  # as a link in a document would
            page.evaluate("place => { window.open(place) }", place)
        other = opened.value
        other.wait_for_load_state()
        tried = other.evaluate(ATTACK, [ours, project.runs()[-1].name])
        assert any(f"host: {name}:" in sent.lower() for sent in hostile.arrived)
        for sent in hostile.arrived:
            assert token not in sent
            assert ours not in sent
            assert not {"cookie:", "authorization:"} & set(sent.lower().split())
        assert tried == {"cookie": "", "read": [], "opener": True}
        assert not any(frame.url.startswith(ours) for frame in other.frames)
        # A window that it opens shows the page to the person, but not to its opener.
        with context.expect_page() as opened:
            other.evaluate("ours => { window.ours = window.open(ours) }", f"{ours}/#/inbox/LLD-43")
        expect(opened.value.locator("#connection")).to_have_text("live")
        assert opened.value.evaluate("window.opener") is None
        assert other.evaluate("window.ours.closed") is True
        opened.value.close()
        other.close()

    # The person's page still works, and nothing happened.
    page.reload()
    expect(page.locator("#connection")).to_have_text("live")
    expect(page.get_by_role("button", name="Approve")).to_be_visible()
    assert shown.errors == []
    assert (len(project.runs()), context.cookies()) == (1, [])
    started = page.evaluate(
        "token => fetch('/api/started', { headers: { Authorization: `Bearer ${token}` } })"
        ".then((answer) => answer.json())",
        token,
    )
    assert started == {"allowed": bool(flags), "started": []}
    page.goto("about:blank")
    process.signal(signal.SIGINT)
    ended = project.finish(process, timeout=20)
    assert (ended.code, ended.err) == (0, "")


def test_a_reload_a_second_tab_and_a_link_in_a_new_tab_are_logged_in(project: Any, page_at: PageAt) -> None:
    project.issue(41)
    assert project.lld("41").code == 0
    process = project.start("view", "--no-open")
    found = ADDRESS.search(process.line())
    assert found is not None
    other = page_at()
    stranger = other.page
    stranger.goto(found[1])
    expect(stranger.locator("#login-note")).to_contain_text("Open the address that 'agentos view' printed")
    other.shoot("login", whole=False)

    page = page_at().page
    page.goto(found[1])
    expect(page.locator("#login-note")).to_be_visible()
    second = page.context.new_page()
    second.goto(found[0])
    expect(page.locator("#connection")).to_have_text("live")  # it noticed the login of the other tab
    second.reload()
    expect(second.locator("#connection")).to_have_text("live")
    expect(second.locator("#side-list a")).to_have_count(1)
    with page.context.expect_page() as opened:
        second.locator("#side-list a").click(modifiers=["Control"])
    expect(opened.value.locator("#run h1")).to_have_text("1 of 1 item approved")
    assert "token" not in json.dumps([one.url for one in page.context.pages])
    for each in (*page.context.pages, stranger):
        each.goto("about:blank")
    process.signal(signal.SIGINT)
    assert project.finish(process, timeout=20).code == 0


def test_the_file_that_the_command_opens_logs_the_browser_in(project: Any, page_at: PageAt) -> None:
    script = project.outside / "browser"
    script.write_text('#!/bin/sh\necho "$1" > "$0.part"; mv "$0.part" "$0.opened"\n', "utf-8")
    script.chmod(0o700)
    process = project.start("view", "--open", env={"BROWSER": str(script)})
    opened = project.outside / "browser.opened"
    wait_until(opened.exists, "the browser")
    shown = page_at()
    arrive(shown, opened.read_text("utf-8").strip()).reload()
    expect(shown.page.locator("#connection")).to_have_text("live")
    assert (shown.errors, shown.said) == ([], [])
    shown.page.goto("about:blank")
    process.signal(signal.SIGINT)
    assert project.finish(process, timeout=20).code == 0
