"""Worker machines, a database and submitters, all real, with folders and environments of their own."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from agentos.store.postgres.connection import PostgresDatabase
from agentos.store.postgres.upgrade import upgrade
from harness.network import Namespace
from harness.processes import wait_until
from harness.project import Command, Project, Result

SLOW = "verdicts=REVISE,APPROVED latency=0.4"


@dataclass(kw_only=True)
class Fleet:
    """A database, machines with folders and environments of their own, and projects of submitters."""

    url: str
    make_project: Callable[[str], Project]
    machines: list[Command] = field(default_factory=list)

    def machine(
        self,
        *,
        slots: int = 3,
        env: dict[str, str] | None = None,
        config: Path | None = None,
        inside: Namespace | None = None,
    ) -> Command:
        """Start a worker machine, behind a link of its own if one is given; wait until it takes items."""
        place = self.make_project(f"machine-{len(self.machines) + 1}")
        url = self._put_inside(place, inside)
        flags = () if config is None else ("--config", config)
        found = place.start(
            *flags, "worker", "--slots", str(slots), env={"AGENTOS_DATABASE_URL": url} | (env or {})
        )
        self.machines.append(found)
        wait_until(lambda: "taking up to" in found.text() or found.poll() is not None, "the machine")
        query = "SELECT 1 FROM agentos_machines WHERE name = %s"
        wait_until(lambda: self.rows(query, machine_name(found)), "the machine to be known")
        return found

    def submitter(
        self, name: str, items: int, script: str = SLOW, *, inside: Namespace | None = None
    ) -> "Submitter":
        project = self.make_project(name).init()
        project.issues(items, mock=script)
        return Submitter(fleet=self, project=project, url=self._put_inside(project, inside))

    def _put_inside(self, project: Project, inside: Namespace | None) -> str:
        """Let the project's commands see only this network; return the database's address there."""
        if inside is None:
            return self.url
        project.warm = None
        project.command = (*inside.command, sys.executable, "-m", "agentos")
        return inside.reaches(self.url)

    def rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        with psycopg.connect(self.url, row_factory=dict_row) as connection:
            return connection.execute(query.encode(), values).fetchall()

    def running_on(self, machine: Command) -> int:
        query = "SELECT 1 FROM agentos_attempts WHERE machine = %s AND state = 'taken'"
        return len(self.rows(query, machine_name(machine)))


@dataclass(kw_only=True)
class Submitter:
    fleet: Fleet
    project: Project
    url: str  # of the database, as it is seen from where the commands run

    def start(self, *args: str) -> Command:
        env = {"AGENTOS_DATABASE_URL": self.url}
        return self.project.start("lld", "--all", "--mock", "--engine", "postgres", *args, env=env)

    def lld(self, *args: str) -> Result:
        return self.project.finish(self.start(*args), 180)

    def approved(self) -> set[str]:
        return {path.stem for path in (self.project.root / "docs/lld/active").glob("*.md")}

    def assert_all_once(self, items: int) -> None:
        """Every item is approved, has one outcome and one trail, and every call was paid for once."""
        labels = {f"LLD-{number}" for number in range(1, items + 1)}
        assert self.approved() == labels
        outcomes = self.fleet.rows("SELECT item FROM agentos_outcomes")
        assert sorted(row["item"] for row in outcomes) == sorted(label[4:] for label in labels)
        trails = list((self.project.root / "docs/lineage/done").iterdir())
        assert sorted(path.name for path in trails) == sorted(f"{label[4:]}-lld" for label in labels)
        for trail in trails:
            kinds = [path.stem.partition("-")[2] for path in sorted(trail.iterdir())]
            assert kinds == ["issue", "draft", "verdict", "draft", "verdict", "final"], trail
        assert not list((self.project.root / "docs/lineage/active").iterdir())


def machine_name(machine: Command) -> str:
    """The name of a machine, from the line that says what it does."""
    return next(line for line in machine.text().splitlines() if "taking up to" in line).partition(":")[0]


@contextmanager
def running_fleet(url: str, make_project: Callable[[str], Project]) -> Iterator[Fleet]:
    """Prepare an empty database; end all machines in the end."""
    with PostgresDatabase(url, application_name="tests") as database:
        upgrade(database)
    made = Fleet(url=url, make_project=make_project)
    try:
        yield made
    finally:
        for machine in made.machines:
            machine.close()
