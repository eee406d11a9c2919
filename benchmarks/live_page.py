"""The live page of a run in progress: what it takes of a core, in the server and in the browser.

A made-up run of 300 items, 20 of them at a time, is written as if it happened now: the first half at once,
the rest at the speed of a real run. The page is open in a headless Chromium and shows every change.
"""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from playwright.sync_api import CDPSession, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from browser.made_runs import make_run

ITEMS, PARALLEL, SECONDS = 300, 20, 30.0
ALLOWED = 10.0  # per cent of a core
_TICKS = os.sysconf("SC_CLK_TCK")


def _moved(run: Path) -> list[dict[str, Any]]:
    """The events of the run, as if half of it were over now; those of the second half are still to come."""
    lines = (run / "events.jsonl").read_text("utf-8").splitlines()
    records: list[dict[str, Any]] = [json.loads(line) for line in lines if '"run_finished"' not in line]
    first, last = (datetime.fromisoformat(records[at]["time"]) for at in (0, -1))
    shift = datetime.now(UTC) - (first + (last - first) / 2)
    for record in records:
        moment = datetime.fromisoformat(record["time"]) + shift
        record["time"] = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return records


def _write_due(file: Path, records: list[dict[str, Any]]) -> None:
    """Append the events whose time has come."""
    now = (datetime.now(UTC) + timedelta(milliseconds=1)).isoformat()
    due = 0
    while due < len(records) and records[due]["time"] <= now:
        due += 1
    with file.open("a", encoding="utf-8") as out:
        out.write("".join(json.dumps(record) + "\n" for record in records[:due]))
    del records[:due]


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _busy_seconds(session: CDPSession) -> float:
    """How long the page's main thread was busy."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return next(float(one["value"]) for one in metrics if one["name"] == "TaskDuration")


def live_page() -> Iterator[str]:
    """What a live page takes of a core."""
    browser = next((found for name in ("chromium", "google-chrome") if (found := shutil.which(name))), None)
    if browser is None:
        yield "live page: no Chromium found; not measured"
        return
    with tempfile.TemporaryDirectory(prefix="agentos-bench-") as folder:
        project = Path(folder)
        run = make_run(project, ITEMS, parallel=PARALLEL, every=False, earlier=6)
        (run / "summary.json").unlink()
        records = _moved(run)
        (run / "events.jsonl").write_text("", "utf-8")
        _write_due(run / "events.jsonl", records)
        with (run / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield from _measured(project, browser, run / "events.jsonl", records)


def _measured(project: Path, browser: str, events: Path, records: list[dict[str, Any]]) -> Iterator[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(project)}
    agentos = [sys.executable, "-m", "agentos"]
    subprocess.run([*agentos, "home", "adopt"], cwd=project, env=environment, check=True, capture_output=True)
    command = [*agentos, "view", "--no-open"]
    server = subprocess.Popen(command, cwd=project, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = re.search(r"http://\S+", server.stdout.readline())
        assert address is not None
        with sync_playwright() as playwright:
            sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
            started = playwright.chromium.launch(executable_path=browser, args=["--disable-gpu", *sandbox])
            page = started.new_page(viewport={"width": 1280, "height": 900})
            page.goto(address[0])
            page.locator("#run .ar-row").first.wait_for()
            session = page.context.new_cdp_session(page)
            session.send(
                "Performance.enable", {"timeDomain": "threadTicks"}
            )  # not the time of other programs
            sizes: list[int] = []
            page.on("response", lambda answer: sizes.append(int(answer.headers.get("content-length", 0))))
            page.wait_for_timeout(3000)
            sizes.clear()
            before = (_cpu_seconds(server.pid), _busy_seconds(session), time.monotonic())
            while time.monotonic() - before[2] < SECONDS:
                _write_due(events, records)
                page.wait_for_timeout(100)
            took = time.monotonic() - before[2]
            in_server = (_cpu_seconds(server.pid) - before[0]) / took * 100
            in_page = (_busy_seconds(session) - before[1]) / took * 100
            started.close()
        for name, share in (("server", in_server), ("page", in_page)):
            result = "ok" if share < ALLOWED else "MISSED"
            yield (
                f"live page, {ITEMS} items, {PARALLEL} running, {name}: {share:.1f} % of a core"
                f" (at most {ALLOWED:.0f} %): {result}"
            )
        yield f"live page, {ITEMS} items: {sum(sizes) / took / 1000:.0f} kB per second"
    finally:
        server.terminate()
        server.wait()


MEASUREMENTS = (live_page,)
