"""The report of a large run: its size, and when its page can be used, also on a slow machine.

Made-up runs of 500 and 2,000 items are opened from disk in a headless Chromium, at full speed and with the
processor throttled to a quarter. The page sets a mark once everything is drawn and answers to clicks.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, expect, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from agentos.report.data import run_data
from agentos.report.page import write_report
from browser.made_runs import make_run

ALLOWED = {500: " (at most 1000 kB)", 2000: ""}  # by the number of items
ROUNDS = 3  # the best counts: the rest is noise of the machine
READY = "performance.getEntriesByName('agentos-run-ready')[0].startTime"


def large_report() -> Iterator[str]:
    program = next((found for name in ("chromium", "google-chrome") if (found := shutil.which(name))), None)
    if program is None:
        yield "large report: not measured, because there is no Chromium"
        return
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium has no sandbox for root
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--disable-gpu", *sandbox])
        for count, allowed in ALLOWED.items():
            root = Path(folder, str(count))
            run = make_run(root, count, parallel=10, keys=6, every=False)
            write_report(run, run_data(run, worktree=root))
            report = run / "report.html"
            full, slow = (_ready(browser, report, rate) for rate in (1, 4))
            size = report.stat().st_size / 1000
            yield f"report of {count} items: {size:.0f} kB{allowed}"
            yield f"report of {count} items can be used after {full:.0f} ms (at most 1000 ms)"
            yield f"the same at a quarter of the speed: {slow:.0f} ms (at most 3000 ms)"
        browser.close()


def _ready(browser: Browser, report: Path, rate: int) -> float:
    """Milliseconds until the page can be used."""
    found = []
    for _ in range(ROUNDS):
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        session = page.context.new_cdp_session(page)
        session.send("Emulation.setCPUThrottlingRate", {"rate": rate})
        page.goto(report.as_uri())
        expect(page.locator(".ar-items tbody tr").first).to_be_attached(timeout=60_000)
        found.append(float(page.evaluate(READY)))
        page.close()
    return min(found)


MEASUREMENTS = (large_report,)
