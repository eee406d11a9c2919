"""A stable address: a browser that was logged in comes back after a restart; nobody else does."""

import re
import signal
import socket
from collections.abc import Callable
from typing import Any

from playwright.sync_api import expect

from browser.test_live import opened
from browser.test_view import ADDRESS, arrive

PageAt = Callable[..., Any]


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def test_a_bookmark_works_after_a_restart(project: Any, page_at: PageAt) -> None:
    project.issue(41)
    assert project.lld("41").code == 0
    port = free_port()

    def start() -> tuple[Any, str]:
        process = project.start("view", "--no-open", "--port", str(port))
        found = ADDRESS.search(process.line())
        assert found is not None
        return process, found[0]

    def end(process: Any) -> str:
        process.signal(signal.SIGINT)
        ended = project.finish(process, timeout=20)
        assert (ended.code, ended.err) == (0, "")
        return str(ended.out)

    process, address = start()
    shown, other = page_at(), page_at()
    page = arrive(shown, address)
    page.locator("#run").get_by_role("button", name="LLD-41", exact=True).click()
    bookmark = page.url
    assert "token" not in bookmark
    # The page cannot read the key that it keeps.
    read = (
        "new Promise((done) => { const opening = indexedDB.open('agentos', 1); opening.onsuccess = () => {"
        " const asked = opening.result.transaction('keys').objectStore('keys').get('login');"
        " asked.onsuccess = () => done(asked.result); }; })"
    )
    page.wait_for_function(f"{read}.then((key) => Boolean(key))")
    assert page.evaluate(f"{read}.then((key) => key.extractable)") is False
    kept = page.evaluate("localStorage.getItem('agentos-token')")
    page.goto("about:blank")
    assert f"can come back to http://127.0.0.1:{port}/" in end(process)

    process, again = start()
    assert again != address
    page.goto(bookmark)
    opened(page, "LLD-41")  # logged in by itself, at the same place
    expect(page.locator("#connection")).to_have_text("live")
    assert shown.errors == []
    # Another browser, and one with the token of before, are not let in.
    other.page.goto(bookmark)
    expect(other.page.locator("#login-note")).to_contain_text("Open the address that 'agentos view' printed")
    other.page.evaluate("kept => localStorage.setItem('agentos-token', kept)", kept)
    other.page.reload()
    other.page.wait_for_function("localStorage.getItem('agentos-token') === null")
    expect(other.page.locator("#login-note")).to_be_visible()
    # Another name may lead to another program: it is not used for the login.
    page.goto(re.sub(r"127\.0\.0\.1", "localhost", bookmark))
    expect(page.locator("#login-note")).to_be_visible()
    page.goto(bookmark)
    opened(page, "LLD-41")
    # An open page comes back by itself, too.
    end(process)
    expect(page.locator("#connection")).to_have_text("disconnected")
    process, _ = start()
    expect(page.locator("#connection")).to_have_text("live", timeout=60_000)
    for each in (page, other.page):
        each.goto("about:blank")
    end(process)
