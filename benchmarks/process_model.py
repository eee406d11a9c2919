"""Why not ProcessPoolExecutor: both get the faults that the product must survive.

See docs/design/process-model.md. Both run 20 items, one of which kills its process or hangs. The pool is the
standard one with three workers; ours is the real command with `--parallel 3`.
"""

import os
import signal
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

from project import Project

ITEMS = 20
VICTIM = 7


def killed_item(number: int) -> int:
    time.sleep(0.05)
    if number == VICTIM:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def hanging_item(number: int) -> int:
    time.sleep(2.0 if number == VICTIM else 0.01)
    return number


def pool_with_a_killed_worker() -> list[str]:
    """One worker of the pool is killed: how many of the other items are lost?"""
    done = lost = 0
    with ProcessPoolExecutor(3, mp_context=get_context("forkserver")) as pool:
        for future in as_completed([pool.submit(killed_item, number) for number in range(ITEMS)]):
            try:
                future.result()
                done += 1
            except BrokenProcessPool:
                lost += 1
    ours = _ours("crash=SIGKILL")
    return [
        (
            f"one worker killed, {ITEMS} items: ProcessPoolExecutor loses {lost}; "
            f"ours loses {ITEMS - 1 - ours} besides the one"
        )
    ]


def pool_with_a_hanging_worker() -> list[str]:
    """One item hangs: a timeout on its future does not end its process."""
    with ProcessPoolExecutor(3, mp_context=get_context("forkserver")) as pool:
        futures = [pool.submit(hanging_item, number) for number in range(ITEMS)]
        alive = 0
        try:
            futures[VICTIM].result(timeout=0.5)
        except TimeoutError:
            alive = int(futures[VICTIM].running())
        cancelled = futures[VICTIM].cancel()
    ours = _ours("hang=60", "--timeout", "2s")
    return [
        (
            f"one item hangs: after its timeout ProcessPoolExecutor has {alive} item still running, "
            f"cancel() says {cancelled}; ours ended it, {ours} of {ITEMS - 1} others approved"
        )
    ]


def _ours(script: str, *flags: str) -> int:
    """Do the same with the real command; return how many of the good items were approved."""
    with tempfile.TemporaryDirectory() as folder:
        project = Project(Path(folder) / "project")
        project.issues(ITEMS, "latency=0.02")
        victim = project.folder / f"issues/active/{VICTIM}.md"
        victim.write_text(f"# Victim\n\nThis one fails.\n\n<!-- mock: {script} -->\n")
        run = project.run("lld", "--all", "--mock", "--parallel", "3", "-q", *flags)
        return int(run.summary["totals"]["approved"])


MEASUREMENTS = (pool_with_a_killed_worker, pool_with_a_hanging_worker)
