"""What goes wrong around one item on another machine: it costs that item at most."""

import json
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from harness.fleet import Fleet, Submitter
from harness.processes import wait_until
from harness.provider import GIT

pytestmark = pytest.mark.slow  # several processes of each kind, and real time limits

SLOW = "verdicts=REVISE,APPROVED latency=1"


def change_job(fleet: Fleet, item: str, change: Callable[[dict[str, Any]], object]) -> None:
    """As somebody with access to the database could, before a machine takes it."""
    with psycopg.connect(fleet.url, autocommit=True) as connection:
        query = "SELECT job FROM agentos_attempts WHERE item = %s AND state = 'queued'"
        found = connection.execute(query, (item,)).fetchone()
        assert found is not None
        job = json.loads(bytes(found[0]))
        change(job)
        connection.execute(
            "UPDATE agentos_attempts SET job = %s WHERE item = %s AND state = 'queued'",
            (json.dumps(job).encode(), item),
        )


def test_a_folder_in_the_way_of_a_document_fails_its_item_only(fleet: Fleet) -> None:
    fleet.machine()
    submitter = fleet.submitter("one", 3, script=SLOW)
    run = submitter.start("--parallel", "3")
    wait_until(lambda: "LLD-2] review 1" in run.text(), "a review")
    (submitter.project.root / "docs/lld/active/LLD-2.md").mkdir(parents=True)
    result = submitter.project.finish(run, 120)
    assert result.code == 1, result
    assert "LLD-2.md is a folder" in result.text
    assert {"LLD-1", "LLD-3"} < submitter.approved()
    (submitter.project.root / "docs/lld/active/LLD-2.md").rmdir()
    assert submitter.lld("--retry-failed").code == 0
    submitter.assert_all_once(3)


def test_a_job_cannot_choose_what_is_the_machines_own(fleet: Fleet) -> None:
    submitter = fleet.submitter("one", 2, script="verdicts=APPROVED sh=env")
    run = submitter.start("--parallel", "2")
    wait_until(lambda: len(fleet.rows("SELECT 1 FROM agentos_attempts")) == 2, "two attempts")
    evil = {"HOME": "/evil/home", "PATH": "/evil:/usr/bin:/bin"}
    change_job(fleet, "LLD-1", lambda job: job.update(environment=evil, mock_shell=True))
    change_job(fleet, "LLD-2", lambda job: job.update(files={"../../outside.md": "text"}))
    machine = fleet.machine(env={"AGENTOS_MOCK_SHELL": "1"})
    result = submitter.project.finish(run, 120)
    assert result.code == 1, result
    assert "LLD-2" in result.text
    assert "its job is invalid: a file outside its folder" in result.text
    assert "evil" not in result.text
    assert "PATH=" in result.text  # the script ran
    assert submitter.approved() == {"LLD-1"}
    assert machine.poll() is None


def test_a_machine_that_lacks_what_a_job_needs_gives_it_back(fleet: Fleet, tmp_path: Path) -> None:
    settings = tmp_path / "machine.toml"
    settings.write_text(
        '[providers.corp]\nkind = "openai"\nbase_url = "http://127.0.0.1:9/v1"\n'
        'headers = { X-Team = "env:TEAM_TOKEN" }\n'
        '[[keys]]\nid = "k"\nprovider = "corp"\nenv = "CORP_KEY"\n',
        "utf-8",
    )
    settings.chmod(0o600)
    submitter = fleet.submitter("one", 1)
    run = submitter.start()
    wait_until(lambda: fleet.rows("SELECT 1 FROM agentos_attempts"), "an attempt")
    change_job(fleet, "LLD-1", lambda job: job.update(drafter="corp:x"))
    machine = fleet.machine(config=settings, env={"CORP_KEY": "sk-abcdefghijklmnop1234"})
    result = submitter.project.finish(run, 120)  # the next attempt is as the submitter wants it
    assert result.code == 0, result
    assert "it could not be started on" in result.text
    assert machine.poll() is None
    submitter.assert_all_once(1)


def test_an_item_that_waits_on_a_machine_that_shuts_down_runs_elsewhere(fleet: Fleet) -> None:
    victim = fleet.machine(slots=2)
    shutil.rmtree(Path(f"/proc/{victim.pid}/cwd").readlink())  # it can start nothing now
    submitter = fleet.submitter("one", 1)
    run = submitter.start()
    wait_until(lambda: "could not be started" in run.text(), "the first try")
    handed_over = "SELECT 1 FROM procrastinate_jobs WHERE status = 'doing' AND task_name LIKE '%%run_attempt'"
    waiting = "SELECT 1 FROM agentos_attempts WHERE state = 'queued'"
    wait_until(lambda: fleet.rows(waiting) and fleet.rows(handed_over), "the next try to wait")
    victim.signal(signal.SIGTERM)
    ended = victim.wait(60)
    assert (ended.code, ended.err) == (0, ""), ended
    fleet.machine()
    result = submitter.project.finish(run, 120)
    assert result.code == 0, result
    submitter.assert_all_once(1)


def test_a_submitter_that_was_stopped_takes_nothing_from_the_one_that_replaced_it(fleet: Fleet) -> None:
    fleet.machine()
    first, second = (_clone(fleet, name) for name in ("clone-a", "clone-b"))
    stopped = first.start()
    wait_until(lambda: "draft 1" in stopped.text(), "a draft")
    stopped.signal(signal.SIGSTOP)
    run = second.start()  # it waits until the first one's claims are free
    wait_until(lambda: "review 1" in run.text(), "the second one to have the item", seconds=90)
    run.signal(signal.SIGSTOP)
    try:
        unplaced = "SELECT 1 FROM agentos_files WHERE NOT placed"
        wait_until(lambda: fleet.rows(unplaced), "files that the second one has not fetched")
        stopped.signal(signal.SIGCONT)
        told = stopped.wait(60)
        assert "clone-b" not in told.text
        assert told.code == 1, told
        assert fleet.rows(unplaced)
    finally:
        run.signal(signal.SIGCONT)
    result = second.project.finish(run, 120)
    assert result.code == 0, result
    second.assert_all_once(1)
    assert first.approved() == set()


def _clone(fleet: Fleet, name: str) -> Submitter:
    made = fleet.submitter(name, 1, script="verdicts=REVISE,APPROVED latency=2")
    for words in (("init", "-q"), ("config", "remote.origin.url", "https://git.example/acme/app.git")):
        subprocess.run(
            [*GIT, *words], cwd=made.project.root, env=made.project.environment, check=True, timeout=60
        )
    return made
