"""Speed-up, overhead, start-up, memory, stopping and scale of parallel runs (SPEC section 9)."""

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from project import Project, seconds_between


@contextlib.contextmanager
def project() -> Iterator[Project]:
    with tempfile.TemporaryDirectory() as folder:
        yield Project(Path(folder) / "project")


def speed_up() -> list[str]:
    """6 items of equal length: three at a time, compared with one after the other in the same minute."""
    with project() as one:
        one.issues(6, "latency=1.0")
        sequential = one.run("lld", "--all", "--mock")
    with project() as three:
        three.issues(6, "latency=1.0")
        parallel = three.run("lld", "--all", "--mock", "--parallel", "3")
    ratio = parallel.seconds / sequential.seconds
    return [f"6 items, --parallel 3 / sequential: {ratio:.3f}   (required < 0.50, aim <= 0.345, ideal 0.333)"]


def overhead() -> list[str]:
    """60 items of 2 s on 10 workers."""
    with project() as ten:
        ten.issues(60, "latency=1.0")
        run = ten.run("lld", "--all", "--mock", "--parallel", "10", "--output", "quiet")
    percent = run.summary["coordination_overhead_percent"]
    return [f"coordination overhead, 60 items x 2 s, 10 workers: {percent:.1f} %   (required < 15, aim < 3)"]


def start_up() -> list[str]:
    """The time from the start of a worker to its first call, and the memory of a busy worker."""
    with project() as some:
        some.issues(30, "latency=0.5")
        process = some.start("lld", "--all", "--mock", "--parallel", "5", "--output", "quiet")
        sizes = _watch_memory(process, some)
        process.wait()
        events = [json.loads(line) for line in (some.latest() / "events.jsonl").read_text().splitlines()]
    started = {event["item"]: event for event in events if event["event"] == "started"}
    first: dict[str, float] = {}
    for event in events:
        if event["event"] == "leased" and event["item"] not in first:
            first[event["item"]] = seconds_between(started[event["item"]], event)
    begun = next(event for event in events if event["event"] == "run_started")
    leased = next(event for event in events if event["event"] == "leased")
    later = [first[item] * 1000 for item in list(started)[5:]]
    lines = [
        (
            f"start of a worker to its first call: {statistics.median(later):.0f} ms median after the first"
            "   (required < 100)"
        ),
        f"start of the run to its first call: {seconds_between(begun, leased):.2f} s   (required < 1.5)",
    ]
    if sizes:
        lines.append(
            f"memory of a worker (PSS): {statistics.median(sizes):.1f} MB median, {max(sizes):.1f} MB most"
            "   (required < 40, aim < 30)"
        )
    return lines


def _watch_memory(process: subprocess.Popen[bytes], run: Project) -> list[float]:
    """The PSS of busy workers, if the kernel lets us read it."""
    sizes: list[float] = []
    while process.poll() is None:
        time.sleep(0.2)
        for pid in _worker_pids(run):
            with contextlib.suppress(OSError, StopIteration):
                lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
                sizes.append(int(next(line for line in lines if line.startswith("Pss:")).split()[1]) / 1024)
    return sizes


def _worker_pids(run: Project) -> list[int]:
    with contextlib.suppress(OSError, ValueError):
        lines = (run.latest() / "events.jsonl").read_text().splitlines()
        return [event["pid"] for event in map(json.loads, lines) if event["event"] == "ready"]
    return []


def stopping() -> list[str]:
    """The time from Ctrl+C until no process of the run is left, with ten workers in slow calls."""
    with project() as ten:
        ten.issues(10, "latency=30")
        process = ten.start("lld", "--all", "--mock", "--parallel", "10")
        while len(_worker_pids(ten)) < 10:
            time.sleep(0.05)
        pids = [*_worker_pids(ten), process.pid]
        began = time.perf_counter()
        process.send_signal(signal.SIGINT)
        process.wait()
        while any(_alive(pid) for pid in pids):
            time.sleep(0.005)
        seconds = time.perf_counter() - began
    return [f"Ctrl+C to an empty process table, 10 workers: {seconds:.2f} s   (required < 5, aim < 1.5)"]


def _alive(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").exists()


def scale() -> list[str]:
    """Short items on fifty workers: the cost per item must not depend on the number of items."""
    costs: dict[int, float] = {}
    peak = 0.0
    for count in (10, 100, 1000):
        with project() as many:
            many.issues(count, "latency=0")
            config = many.folder / "user.toml"
            config.write_text("max_parallel = 50\n")
            process = many.start("--config", str(config), "lld", "--all", "--mock", "--parallel", "50", "-q")
            _, status, usage = os.wait4(process.pid, 0)
            assert os.waitstatus_to_exitcode(status) == 0
            process.returncode = 0
            peak = max(peak, usage.ru_maxrss / 1024)
            events = [json.loads(line) for line in (many.latest() / "events.jsonl").read_text().splitlines()]
        times = [event for event in events if event["event"] in {"started", "completed"}]
        costs[count] = seconds_between(times[0], times[-1]) / count * 1000
    listed = ", ".join(f"{cost:.1f} ms with {count}" for count, cost in costs.items())
    return [
        (
            f"cost of a short item, 50 workers: {listed}; 1,000 / 100: {costs[1000] / costs[100]:.2f}"
            "   (required within 20 %)"
        ),
        f"coordinator's peak memory with 1,000 items: {peak:.0f} MB   (required < 200)",
    ]


def commands() -> list[str]:
    """The commands that people expect to be instant."""
    lines = []
    with project() as some:
        some.issues(20, "latency=0")
        for arguments in (("--help",), ("lld", "--dry-run")):
            times = []
            for _ in range(7):
                began = time.perf_counter()
                subprocess.run(
                    [sys.executable, "-m", "agentos", *arguments],
                    cwd=some.folder,
                    env=some.environment(),
                    check=True,
                    stdout=subprocess.DEVNULL,
                )
                times.append(time.perf_counter() - began)
            lines.append(
                f"agentos {' '.join(arguments)}: {statistics.median(times):.2f} s   (required < 0.3)"
            )
    return lines


MEASUREMENTS = (commands, speed_up, overhead, start_up, stopping, scale)
