"""`kill -9` at any moment: the same command finishes; nothing is lost, done twice or left running."""

import random
import sqlite3
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from harness.processes import kill, wait_until
from harness.project import Command, Project

SCRIPTS = (
    "verdicts=REVISE,APPROVED latency=0.05",
    "latency=0.15",
    "gate=1 latency=0.1",
    "verdicts=REVISE,REVISE,APPROVED latency=0.05",
)

Process = tuple[int, str]  # pid and start time, so that a number used again is not taken for the old one


def _table() -> dict[int, tuple[int, Process]]:
    """Parent and identity of every process that is not a zombie."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text("utf-8", errors="replace").rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                found[int(entry.name)] = (int(fields[1]), (int(entry.name), fields[19]))
    return found


def _below(pid: int) -> set[Process]:
    """Every descendant of a process."""
    table = _table()
    found: set[Process] = set()
    wanted = {pid}
    while wanted:
        children = {child for child, (parent, _) in table.items() if parent in wanted}
        wanted = children - {one for one, _ in found}
        found |= {table[child][1] for child in wanted}
    return found


class Storm:
    """Runs one command again and again and kills a part of it each time."""

    def __init__(self, project: Project, seed: int) -> None:
        self.project = project
        self.random = random.Random(seed)
        self.items = 0
        self.kills: Counter[str] = Counter()
        self.seen: set[Process] = set()

    def add_items(self) -> None:
        for _ in range(3):
            self.items += 1
            self.project.issue(self.items, mock=SCRIPTS[self.items % len(SCRIPTS)])

    def run(self, kills: int) -> None:
        self.add_items()
        while self.kills.total() < kills:
            if self._one_run() == 0:
                self.add_items()
        for _ in range(10):
            if self.project.lld("--all", "-j", "3").code == 0:
                break
        else:
            pytest.fail("the same command does not finish the job")
        wait_until(lambda: not self.seen & {one for _, one in _table().values()}, "the end of every process")

    def _one_run(self) -> int:
        known = set(self.project.runs())
        command = self.project.start("lld", "--all", "--mock", "-j", "3")
        moment = self.random.randint(0, 15 * min(3, self.items))
        while True:
            self._wait_for(command, known, moment)
            if command.poll() is not None:
                return self.project.finish(command).code
            time.sleep(self.random.uniform(0, 0.03))
            below = _below(command.pid)
            self.seen |= below
            if self.random.random() < 0.6:
                self.kills["coordinator"] += kill(command.pid)
                self.project.finish(command)
                return -9
            started = [one for one in self.project.events(run=-1) if one["event"] == "started"]
            workers = {one["pid"] for one in started} & {pid for pid, _ in below}
            if workers:
                self.kills["worker"] += kill(self.random.choice(sorted(workers)))
            moment += self.random.randint(5, 30)

    def _wait_for(self, command: Command, known: set[Path], moment: int) -> None:
        wait_until(lambda: command.poll() is not None or self._events_of(known) >= moment, f"event {moment}")

    def _events_of(self, known: set[Path]) -> int:
        new = [run / "events.jsonl" for run in self.project.runs() if run not in known]
        return sum(path.read_bytes().count(b"\n") for path in new if path.exists())


def check_everything(project: Project, items: int) -> None:
    """Nothing is lost and nothing was done twice, by every record there is."""
    names = [str(number) for number in range(1, items + 1)]
    wrong = []
    with closing(sqlite3.connect(project.home / "records.db")) as records:
        outcomes = Counter(row[0] for row in records.execute("SELECT item FROM outcome"))
        unfinished = records.execute("SELECT item FROM progress").fetchall()
    if outcomes != Counter(names) or unfinished:
        wrong.append(f"outcomes {outcomes}, unfinished {unfinished}")
    completed = Counter(event["item"] for event in project.events() if event["event"] == "completed")
    wrong += [f"{name}: {completed[name]} completed events" for name in names if completed[name] != 1]
    for name in names:
        trail = project.lineage(f"{name}-lld")
        kinds = [entry.removesuffix(".md").split("-", 1) for entry in trail]
        if [number for number, _ in kinds] != [f"{n:03d}" for n in range(1, len(trail) + 1)]:
            wrong.append(f"{name}: lineage {trail}")
        if (kinds[0][1], kinds[-1][1]) != ("issue", "final"):
            wrong.append(f"{name}: lineage {trail}")
        counted = Counter(kind for _, kind in kinds)
        paid = Counter(project.calls(name))
        expected = [("drafter", number) for number in range(1, counted["draft"] + 1)]
        expected += [("reviewer", number) for number in range(1, counted["verdict"] + 1)]
        wrong += [
            f"{name}: {call} is in the audit {paid[call]} times" for call in expected if paid[call] != 1
        ]
        wrong += [f"{name}: {call} was not needed" for call in paid.keys() - set(expected)]
        if "## Review log" not in project.read(f"docs/lld/active/LLD-{name}.md"):
            wrong.append(f"{name}: no review log")
    done = sorted(path.name for path in (project.root / "docs/lineage/done").iterdir())
    if done != sorted(f"{name}-lld" for name in names):
        wrong.append(f"lineage of {done}")
    left = [*(project.root / "docs/lineage/active").iterdir(), *(project.home / "checkpoints").iterdir()]
    left += [path for path in project.root.rglob(".*") if path.name.endswith(".tmp")]
    wrong += [f"left behind: {path.relative_to(project.root)}" for path in left]
    assert not wrong, "\n".join(wrong)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_killed_at_random_moments(project: Project, seed: int) -> None:
    storm = Storm(project, seed)
    storm.run(kills=5)
    assert storm.kills.total() >= 5
    check_everything(project, storm.items)


@pytest.mark.chaos
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("seed", range(10, 30))
def test_killed_at_two_hundred_random_moments(project: Project, seed: int) -> None:
    storm = Storm(project, seed)
    storm.run(kills=10)
    assert storm.kills.total() >= 10
    check_everything(project, storm.items)


# The command, with the coordinator killing itself right before one of its own writes.
KILLED_BEFORE = """
import os, signal, sys
from agentos.store import records, run_folder

def die_before(owner, name, when):
    real = getattr(owner, name)
    def dying(self, *args, **kwargs):
        if when(*args, **kwargs):
            os.kill(os.getpid(), signal.SIGKILL)
        return real(self, *args, **kwargs)
    setattr(owner, name, dying)

{deadly}
from agentos.cli import main
main(sys.argv[1:])
"""
ANY = "lambda *a, **k: True"
POINTS = {
    "claim": f"die_before(records.Records, 'claim', {ANY})",
    "started": "die_before(run_folder.RunFolder, 'event', lambda one: one['event'] == 'started')",
    "drafter": "die_before(run_folder.RunFolder, 'audit', lambda _, r: r.get('role') == 'drafter')",
    "reviewer": "die_before(run_folder.RunFolder, 'audit', lambda _, r: r.get('role') == 'reviewer')",
    "settled": "die_before(run_folder.RunFolder, 'event', lambda one: one['event'] == 'settled')",
    "outcome": f"die_before(records.Records, 'end', {ANY})",
    "completed": "die_before(run_folder.RunFolder, 'event', lambda one: one['event'] == 'completed')",
    "run_finished": "die_before(run_folder.RunFolder, 'event', lambda one: one['event'] == 'run_finished')",
    "summary": f"die_before(run_folder.RunFolder, 'write', {ANY})",
}


OFTEN = ("settled", "outcome")


@pytest.mark.parametrize(
    "point", [*OFTEN, *(pytest.param(one, marks=pytest.mark.slow) for one in POINTS if one not in OFTEN)]
)
def test_killed_right_before_a_record_is_written(project: Project, point: str) -> None:
    project.issue(1, mock="verdicts=REVISE,APPROVED")
    command = (sys.executable, "-c", KILLED_BEFORE.format(deadly=POINTS[point]))
    killed = project.lld("--all", command=command)
    assert killed.code == -9, killed.text
    assert project.lld("--all").code == 0
    check_everything(project, 1)
