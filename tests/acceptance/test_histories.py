"""Random histories of people and runs: no word of a person is lost, nothing is paid for twice.

Every text a person writes has a word of its own, so that it can be looked for.
"""

import random
import shutil
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from agentos.errors import Exit
from agentos.stamp import split
from harness.processes import kill, wait_until
from harness.project import ORPHAN_SECONDS, Command, Project, Result
from harness.provider import Asked, Bench
from harness.warm import WarmServer

MakeProject = Callable[[str], Project]
ITEMS = ("1", "2")
NAMES = {"1": "Item Aardvark", "2": "Item Buffalo"}  # in the title, so that every prompt tells its item
ENDS = {Exit.OK, Exit.FAILED, Exit.ATTENTION}
STEPS = 14


class History:
    """People and runs in one repository, and what must hold after each of their steps."""

    def __init__(self, bench: Bench, make_project: MakeProject, seed: int) -> None:
        self.bench = bench
        self.provider = bench.provider
        self.make_project = make_project
        self.chance = random.Random(seed)
        self.words: list[str] = []  # of every text that a person wrote into a file
        self.settled: set[str] = set()  # approved by real models, and not asked for anything since
        self.notes: dict[str, list[str]] = {item: [] for item in ITEMS}  # not heard yet, as far as we know
        self.told: list[str] = []
        self.done: Counter[str] = Counter()
        for item in ITEMS:
            word = self.word()
            bench.project.issue(item, f"# {NAMES[item]}\n\nWhat is wanted: {word}.\n")

    # What people write.

    def word(self, *, note: bool = False) -> str:
        word = f"zq{'n' if note else 'w'}{len(self.words) + len(self.told)}x{self.chance.randrange(10**9)}qz"
        if not note:
            self.words.append(word)
        return word

    def edit_document(self, item: str) -> None:
        path = self.bench.document(item)
        word = self.word()
        rewritten = path.exists() and self.chance.random() < 0.15 and not self.only_there(path)
        if rewritten or not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(
                f"# My own\n\n**Issue:** #{item}\n\n## Context\n\n{word}\n\n## Proposed Changes\n\n1.\n"
            )
            self.settled.discard(item)
            self.told.append(f"write LLD-{item} by hand: {word}")
            return
        lines = path.read_text().split("\n")
        place = self.chance.randrange(len(lines) + 1)  # also below the stamp, also in the review log
        lines.insert(place, f"A person wrote {word}.")
        path.write_text("\n".join(lines))
        self.told.append(f"edit LLD-{item} in line {place}: {word}")

    def edit_issue(self, item: str) -> None:
        word = self.word()
        self.bench.say_more(item, f"And also {word}.")
        self.settled.discard(item)
        self.told.append(f"edit issue {item}: {word}")

    def delete_document(self, item: str) -> None:
        path = self.bench.document(item)
        if path.exists() and not self.only_there(path):
            path.unlink()
            self.settled.discard(item)
            self.told.append(f"delete LLD-{item}")

    def only_there(self, path: Path) -> set[str]:
        """The words that would be lost with this file by the person's own hand."""
        text = path.read_text()
        return {word for word in self.words if word in text and len(self.bench.holding(word)) == 1}

    # What is run.

    def command(self, *args: str) -> Result:
        started = self.bench.start(*args)
        return self.bench.project.finish(started, 120)

    def real_run(self, *args: str, asked: frozenset[str] = frozenset()) -> Result:
        """Run with real models; an item that is settled, and not asked for again, costs nothing."""
        since = len(self.provider.asked)
        spared = self.settled - asked
        result = self.command(*args)
        self.told.append(f"{' '.join(args)}: exit {result.code}")
        assert result.code in ENDS, result
        for item in spared:
            assert not self.calls_for(item, since), f"{item} was settled"
        self.learn()
        return result

    def calls_for(self, item: str, since: int) -> list[str]:
        return [one.role for one in self.provider.asked[since:] if NAMES[item] in one.prompt]

    def learn(self) -> None:
        """Take from the latest run what is settled now."""
        for row in self.bench.project.summary()["items"]:
            item = row["id"]
            if row["status"] != "approved":
                continue
            self.settled.add(item)
            text = self.bench.document(item).read_text()
            assert split(text).stamp is not None
            for word in self.notes[item]:
                for role in ("drafter", "reviewer"):
                    assert any(word in one for one in self.provider.of(role)), f"{role} never heard {word}"
            self.notes[item] = []

    def run(self) -> None:
        self.real_run("lld", "--all", "-j2")

    def fresh(self, item: str) -> None:
        self.real_run("lld", item, "--fresh", asked=frozenset({item}))

    def mock(self) -> None:
        before = {item: self.bench.document(item).read_bytes() for item in ITEMS if self.is_a_persons(item)}
        calls = self.provider.calls()
        result = self.command("lld", "--all", "--mock", "-j2", *self.chance.choice([(), (), ("--fresh",)]))
        self.told.append(f"mock: exit {result.code}")
        assert result.code in ENDS, result
        assert self.provider.calls() == calls, "the mock made real calls"
        for item, text in before.items():
            assert self.bench.document(item).read_bytes() == text, f"the mock touched LLD-{item}"

    def is_a_persons(self, item: str) -> bool:
        """Or real models'; anything but an unchanged document of the mock."""
        path = self.bench.document(item)
        if not path.exists():
            return False
        taken = split(path.read_text())
        return not (taken.by_mock and taken.unchanged)

    def revise(self, item: str) -> None:
        if self.chance.random() < 0.6:
            word = self.word(note=True)
            result = self.command("revise", item, "--note", f"Think of {word}.")
            if result.code == Exit.OK and "--mock" not in result.out:
                self.notes[item].append(word)
                self.settled.discard(item)
        else:
            result = self.command("revise", item)
            if result.code == Exit.OK:
                self.settled.discard(item)
        self.told.append(f"revise {item}: exit {result.code}")
        assert result.code in {Exit.OK, Exit.USAGE}, result

    def decide(self, item: str) -> None:
        answer = self.chance.choice([("--approve",), ("--revise",), ("--note", "Go on.")])
        result = self.command("decide", item, *answer)
        self.told.append(f"decide {item} {answer}: exit {result.code}")
        assert result.code in {Exit.OK, Exit.USAGE}, result

    def kill_in_mid_run(self) -> None:
        started: list[Command] = []
        struck: list[str] = []
        number = self.chance.randint(1, 4)
        everything = self.chance.random() < 0.5
        since = len(self.provider.asked)

        def strike(one: Asked) -> None:
            if not struck and len(self.provider.asked) - since >= number:
                struck.append(one.role)
                wait_until(lambda: started, "the command")
                for process in self.bench.project.processes() if everything else ():
                    kill(process.pid)
                kill(started[0].pid)

        if self.chance.random() < 0.6:
            self.edit_issue(self.chance.choice(ITEMS))  # so that there is something to do
        self.provider.during = strike
        started.append(self.bench.start("lld", "--all", "-j2"))
        result = started[0].wait(120)
        self.provider.during = None
        self.told.append(f"killed at call {number}, everything={everything}: exit {result.code}, {struck}")
        result.assert_no_traceback()
        assert result.code == (-signal.SIGKILL if struck else result.code), result
        self.bench.project.assert_gone(ORPHAN_SECONDS)
        for item in self.settled:
            assert not self.calls_for(item, since), f"{item} was settled"
        if not struck:
            self.learn()

    def edit_in_mid_run(self) -> None:
        role = self.chance.choice(["drafter", "reviewer"])
        edited: list[str] = []

        def strike(one: Asked) -> None:
            if not edited and one.role == role:
                item = next(item for item in ITEMS if NAMES[item] in one.prompt)
                edited.append(item)
                self.edit_document(item)

        self.provider.during = strike
        self.real_run("lld", "--all", "-j1")
        self.provider.during = None

    # Where it goes on.

    def clone(self) -> None:
        self.bench.commit(f"step {len(self.told)}")
        number = self.done["clone"]
        self.bench = self.bench.clone_into(self.make_project(f"clone-{number}"))
        self.notes = {item: [] for item in ITEMS}
        self.told.append("clone")

    def delete_home(self) -> None:
        if self.bench.project.home.exists():
            shutil.rmtree(self.bench.project.home)
        self.notes = {item: [] for item in ITEMS}
        self.told.append("delete .agentos")

    # The walk.

    def step(self) -> None:
        item = self.chance.choice(ITEMS)
        acts: list[tuple[str, int, Callable[[], None]]] = [
            ("edit document", 4, lambda: self.edit_document(item)),
            ("edit issue", 3, lambda: self.edit_issue(item)),
            ("delete document", 1, lambda: self.delete_document(item)),
            ("run", 4, self.run),
            ("fresh", 1, lambda: self.fresh(item)),
            ("mock", 3, self.mock),
            ("revise", 3, lambda: self.revise(item)),
            ("decide", 2, lambda: self.decide(item)),
            ("kill", 2, self.kill_in_mid_run),
            ("edit in mid-run", 2, self.edit_in_mid_run),
            ("clone", 1, self.clone),
            ("delete home", 1, self.delete_home),
        ]
        for verdict in self.chance.choices(["APPROVED", "REVISE", "DISCUSS"], [4, 2, 1], k=2):
            self.provider.verdicts.append(verdict)
        self.provider.verdicts.extend(["APPROVED"] * 2)
        (act,) = self.chance.choices(acts, [weight for _, weight, _ in acts])
        act[2]()
        self.provider.verdicts.clear()
        self.done[act[0]] += 1
        self.assert_every_word_is_there()

    def assert_every_word_is_there(self) -> None:
        texts = [
            path.read_bytes()
            for path in self.bench.root.rglob("*")
            if path.relative_to(self.bench.root).parts[0] not in {".agentos", ".git"} and path.is_file()
        ]
        everything = b"\0".join(texts)
        lost = [word for word in self.words if word.encode() not in everything]
        assert not lost, f"lost: {lost}"

    def walk(self, steps: int) -> None:
        try:
            self.run()
            for _ in range(steps):
                self.step()
            self.finish()
        except AssertionError as exc:
            told = "\n".join(f"{number}. {line}" for number, line in enumerate(self.told, 1))
            raise AssertionError(f"{exc}\n--- the history ({self.bench.root})\n{told}") from exc

    def finish(self) -> None:
        """Whatever happened: a note and a run finish every item, and then nothing is left to pay for."""
        for item in ITEMS:
            self.command("revise", item, "--note", "Finish it.")
            self.settled.discard(item)
        self.run()
        for row in self.bench.project.summary()["items"]:
            assert row["status"] in {"approved", "skipped"}, row
            taken = split(self.bench.document(row["id"]).read_text())
            assert taken.stamp is not None, row
            assert not taken.by_mock, row
        self.assert_every_word_is_there()
        before = self.provider.calls()
        result = self.real_run("lld", "--all")
        assert (result.code, self.provider.calls()) == (Exit.OK, before), "an unchanged backlog was paid for"


@pytest.fixture
def warm(warm_server: WarmServer) -> WarmServer:
    """Forked from a warm process, also in `make chaos`: forty histories have thousands of commands."""
    return warm_server


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))])
@pytest.mark.slow
def test_a_short_history_loses_no_word_and_pays_for_nothing_twice(
    bench: Bench, make_project: MakeProject, seed: int
) -> None:
    History(bench, make_project, seed).walk(STEPS)


@pytest.mark.chaos
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(100, 140))
def test_a_long_history_loses_no_word_and_pays_for_nothing_twice(
    bench: Bench, make_project: MakeProject, seed: int
) -> None:
    History(bench, make_project, seed).walk(80)
