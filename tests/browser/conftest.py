"""A real browser for the pages: headless Chromium that records every request."""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

ARGUMENTS = (
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
NAMES = ("chromium", "chromium-browser", "google-chrome")


@dataclass(kw_only=True)
class Shown:
    """One page in the browser: its requests, its console messages, its errors."""

    page: Page
    folder: Path
    requests: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def open(self, path: Path, anchor: str = "") -> Page:
        """Open a page from disk."""
        self.page.goto(path.as_uri() + anchor)
        return self.page

    def outside(self) -> list[str]:
        """The requests that leave the machine: not for a local file or data in the page itself."""
        return [url for url in self.requests if not url.startswith(("file:", "data:", "blob:"))]

    def evaluate(self, script: str, argument: Any = None) -> Any:
        return self.page.evaluate(script, argument)

    def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        found: int = self.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        return max(0, found)

    def shoot(self, name: str, *, whole: bool = True) -> Path:
        """Take a screenshot; also save it in the folder AGENTOS_SCREENSHOTS, if set."""
        path = self.folder / f"{name}.png"
        self.page.screenshot(path=path, full_page=whole)
        if kept := os.environ.get("AGENTOS_SCREENSHOTS"):
            Path(kept).mkdir(parents=True, exist_ok=True)
            shutil.copy(path, Path(kept) / path.name)
        return path


PageAt = Callable[..., Shown]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is on the PATH")
    # Chromium has no sandbox for root.
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=[*ARGUMENTS, *sandbox])
        yield started
        started.close()


@pytest.fixture
def page_at(browser: Browser, tmp_path: Path) -> Iterator[PageAt]:
    """Make pages: page_at(width, scheme, height=..., offline=...)."""
    contexts = []

    def make(width: int = 1280, scheme: str = "light", *, height: int = 900, offline: bool = False) -> Shown:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if scheme == "dark" else "light",
            offline=offline,
            reduced_motion="reduce",
            service_workers="block",
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        shown = Shown(page=page, folder=tmp_path)
        page.on("request", lambda request: shown.requests.append(request.url))
        page.on("console", lambda message: shown.said.append(message.text))
        page.on("pageerror", lambda error: shown.errors.append(str(error)))
        return shown

    yield make
    for context in contexts:
        context.close()
