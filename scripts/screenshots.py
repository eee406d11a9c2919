"""Takes the screenshots of the README, from runs of the demo backlog that anybody can repeat.

    .venv/bin/python scripts/screenshots.py [FOLDER]

It runs the demo offline in a temporary folder, opens the report and the live page in a headless Chromium, and
saves the pictures in FOLDER, by default docs/images. It needs Chromium and the packages of the tests.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

CHECKOUT = Path(__file__).resolve().parents[1]
AGENTOS = Path(sys.executable).with_name("agentos")
NAMES = ("chromium", "chromium-browser", "google-chrome")
RUN = ("lld", "--all", "--mock", "--parallel", "3", "--timeout", "5s", "--budget", "0.5")
WIDTH, HEIGHT = 1280, 860
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/\S*")


def main() -> None:
    images = Path(sys.argv[1]) if len(sys.argv) > 1 else CHECKOUT / "docs/images"
    images.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder, "demo")
        environment = _environment(Path(folder))
        _agentos(Path(folder), environment, "init", "--demo", str(project))
        subprocess.run([AGENTOS, *RUN], cwd=project, env=environment, check=False, capture_output=True)
        report = project / _agentos(project, environment, "report").strip()
        with _browser() as browser:
            page = _page(browser)
            page.goto(report.as_uri())
            expect(page.locator(".ar-row").first).to_be_attached()
            _save(page, images / "report.png")
            _timeline(page, images / "timeline.png")
            with _view(project, environment) as address:
                page = _page(browser)
                page.goto(address)
                expect(page.locator("#connection")).to_have_text("live")
                page.get_by_role("button", name="Answer LLD-43").click()
                expect(page.get_by_role("heading", level=1)).to_be_visible()
                page.set_viewport_size({"width": WIDTH, "height": 1040})
                _save(page, images / "inbox.png")


def _timeline(page: Page, path: Path) -> None:
    page.locator(".ar-timeline").screenshot(path=path)
    print(path)


def _save(page: Page, path: Path) -> None:
    page.screenshot(path=path)
    print(path)


def _page(browser: Browser) -> Page:
    context = browser.new_context(
        viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light", reduced_motion="reduce"
    )
    return context.new_page()


def _environment(folder: Path) -> dict[str, str]:
    """The environment without the user's own settings and keys."""
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "LC_ALL", "TZ"}}
    own = {"HOME": folder, "XDG_CONFIG_HOME": folder / "config", "XDG_STATE_HOME": folder / "state"}
    return kept | {name: str(value) for name, value in own.items()}


def _agentos(folder: Path, environment: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [AGENTOS, *arguments], cwd=folder, env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout


@contextmanager
def _browser() -> Iterator[Browser]:
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        sys.exit(f"There is no browser: none of {', '.join(NAMES)} is on the PATH.")
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium has no sandbox for root
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--disable-gpu", *sandbox])
        yield browser
        browser.close()


@contextmanager
def _view(project: Path, environment: dict[str, str]) -> Iterator[str]:
    """Start `agentos view` and return the address that it prints."""
    said = project.parent / "view.txt"
    with said.open("w") as out:
        process = subprocess.Popen([AGENTOS, "view", "--no-open"], cwd=project, env=environment, stdout=out)
    try:
        deadline = time.monotonic() + 30
        while not (found := ADDRESS.search(said.read_text())):
            if time.monotonic() > deadline:
                sys.exit("agentos view did not start.")
            time.sleep(0.1)
        yield found[0]
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


if __name__ == "__main__":
    main()
