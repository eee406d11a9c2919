"""Items on other machines, through one real PostgreSQL: the same results, whatever is killed or stopped."""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agentos.config import load_config
from agentos.coordinator.keys import key_ring
from agentos.coordinator.shared_pools import open_shared_pools
from agentos.simulator import KeyConfig, LimitConfig, SimulatorConfig, parse_fault, running_simulator
from agentos.store.key_pool.postgres import PostgresPool
from harness.fleet import SLOW, Fleet
from harness.postgres import Cluster
from harness.processes import children_of, wait_until
from harness.project import Project
from harness.provider import GIT
from harness.simulator import stats

REAL = ("lld", "--all", "--engine", "postgres")
LLD = ("lld", "--all", "--mock", "--engine", "postgres")
RERUN = timedelta(seconds=15)  # the product's promise: from the death of a machine to the next attempt


def test_results_are_those_of_local_mode(fleet: Fleet, make_project: Callable[[str], Project]) -> None:
    fleet.machine()
    fleet.machine()
    submitter = fleet.submitter("far", 6)
    result = submitter.lld("--parallel", "6")
    assert result.code == 0, result
    submitter.assert_all_once(6)
    near = make_project("near").init()
    near.issues(6, mock=SLOW)
    assert near.run("lld", "--all", "--mock", "--parallel", "6").code == 0
    assert _documents(submitter.project) == _documents(near)


def test_a_worker_reads_what_its_submitter_has(fleet: Fleet) -> None:
    fleet.machine()
    submitter = fleet.submitter("far", 1, 'look="src/far.py:2801-2802"')
    project = submitter.project
    body = f"    return '{'x' * 300}'\n"
    project.write("src/far.py", "".join(f"def far_{number}():\n{body}\n\n" for number in range(900)))
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "All there is"]):
        subprocess.run([*GIT, *arguments], cwd=project.root, env=project.environment, check=True)
    result = submitter.lld()
    assert result.code == 0, result
    looks = [one for one in project.audits("1") if one["kind"] == "look"]
    assert [one["read"] for one in looks] == [["src/far.py:2801-2802"], [], []]


def test_nothing_of_a_run_is_done_twice(fleet: Fleet) -> None:
    fleet.machine()
    submitter = fleet.submitter("one", 2)
    assert submitter.lld().code == 0
    again = submitter.lld()
    assert again.code == 0
    assert "2 skipped" in again.text, again
    assert fleet.rows("SELECT 1 FROM agentos_mail") == [], "what was read, or is over"


def test_an_item_with_a_secret_in_its_text_is_done_once(fleet: Fleet) -> None:
    """The secret does not reach the database; the item is still the same."""
    env = {"OPENAI_API_KEY": "sk-SECRETINTEXT123456789"}
    fleet.machine()
    submitter = fleet.submitter("one", 0)
    submitter.project.issue(1, text="# Title\n\nUse sk-SECRETINTEXT123456789 here.\n")
    for skipped in (False, True):
        result = submitter.project.run(*LLD, env=env | {"AGENTOS_DATABASE_URL": fleet.url})
        assert result.code == 0, result
        assert ("1 skipped" in result.text) is skipped, result
    assert len(submitter.project.trails("1-lld")) == 1


@pytest.mark.slow
def test_without_a_machine_items_wait_and_were_never_started(fleet: Fleet) -> None:
    submitter = fleet.submitter("one", 2)
    run = submitter.start("--parallel", "2")
    wait_until(lambda: "No machine takes items." in run.text(), "the word about machines")
    status = submitter.project.run("status", env={"AGENTOS_DATABASE_URL": fleet.url})
    assert "LLD-1            starting" in status.out, status
    run.signal_group(signal.SIGINT)
    result = run.wait(10)
    assert result.code == 130, result
    assert submitter.project.summary()["totals"] == {"pending": 2}, result
    assert "killed" not in result.text, result


@pytest.mark.slow
def test_a_second_submitter_is_told_who_has_the_items(fleet: Fleet) -> None:
    fleet.machine()
    first = fleet.submitter("one", 1, script="latency=60")
    run = first.start()
    wait_until(lambda: first.project.events("leased"), "a call")
    second = first.start()
    wait_until(lambda: second.poll() is not None, "the second to give up")
    refused = second.wait()
    assert refused.code == 2, refused
    assert "1 is held by run" in refused.text, refused
    assert run.poll() is None
    run.signal_group(signal.SIGINT)
    assert run.wait(20).code == 130


def test_the_other_engine_says_what_it_leaves_in_the_database(fleet: Fleet) -> None:
    fleet.machine()
    submitter = fleet.submitter("one", 1, script="verdicts=DISCUSS")
    assert submitter.lld().code == 3
    local = submitter.project.run("lld", "1", "--mock", "--dry-run", env={"AGENTOS_DATABASE_URL": fleet.url})
    assert "the latest run here was with --engine postgres" in local.text, local
    assert "add --engine postgres" in local.text, local


def test_every_provider_of_a_database_works(fleet: Fleet, tmp_path: Path) -> None:
    env = {"KEY_ONE": "sk-good-key-123456789", "AGENTOS_DATABASE_URL": fleet.url}
    with running_simulator(SimulatorConfig(keys=(KeyConfig(secret=env["KEY_ONE"]),))) as url:
        config = tmp_path / "user.toml"
        lines = ['drafter = "openai:drafter"', 'reviewer = "anthropic:reviewer"']
        for name, base in {"openai": f"{url}/v1", "anthropic": url}.items():
            lines += [f"[providers.{name}]", f'base_url = "{base}"']
            lines += ["[[keys]]", f'id = "{name}"', f'provider = "{name}"', 'env = "KEY_ONE"']
        config.write_text("\n".join(lines))
        fleet.machine(config=config, env=env)
        project = fleet.make_project("one").init()
        project.issue(1)
        result = project.run("--config", config, *REAL, env=env)
        assert result.code == 0, result
        assert stats(url)["totals"]["served"] == len(project.events("settled")) == 2


def test_a_machine_with_another_key_under_an_id_cannot_disable_it(fleet: Fleet, tmp_path: Path) -> None:
    good, bad = {"KEY_ONE": "sk-good-key-123456789"}, {"KEY_ONE": "sk-bad-key-1234567890"}
    with running_simulator(SimulatorConfig(keys=(KeyConfig(secret=good["KEY_ONE"]),))) as url:
        config = _config(tmp_path, url, "KEY_ONE")
        fleet.machine(config=config, env=bad)
        project = fleet.make_project("one").init()
        project.issue(1)
        env = good | {"AGENTOS_DATABASE_URL": fleet.url}
        run = project.start("--config", config, *REAL, env=env)
        wait_until(lambda: "another key under this id" in run.text(), "the word about the key")
        fleet.machine(config=config, env=good)
        result = project.finish(run, 120)
        assert result.code == 0, result
        keys = project.run("--config", config, "keys", "--json", env=env)
        assert [key["state"] for key in keys.json] == ["available"], keys


@pytest.mark.slow
def test_other_commands_follow_the_latest_run(fleet: Fleet) -> None:
    fleet.machine()
    submitter = fleet.submitter("one", 1, script="verdicts=DISCUSS")
    asked = submitter.lld()
    assert asked.code == 3, asked
    assert 'agentos decide LLD-1 --note "Q1: ..."' in asked.text
    env = {"AGENTOS_DATABASE_URL": fleet.url}
    status = submitter.project.run("status", env=env)
    assert "LLD-1            discuss" in status.out, status
    decided = submitter.project.run("decide", "LLD-1", "--approve", env=env)
    assert decided.code == 0, decided
    assert "agentos lld 1 --mock" in decided.out
    assert "--engine postgres" in decided.out
    finished = submitter.project.run("lld", "1", "--mock", env=env | {"AGENTOS_ENGINE": "postgres"})
    assert finished.code == 0, finished
    assert submitter.approved() == {"LLD-1"}
    local = submitter.project.run("status", env={"AGENTOS_DATABASE_URL": ""})
    assert local.code == 0, local


@pytest.mark.slow
def test_a_killed_machine_loses_nothing(fleet: Fleet) -> None:
    victim, other = fleet.machine(), fleet.machine()
    submitter = fleet.submitter("one", 6)
    run = submitter.start("--parallel", "6")
    wait_until(lambda: fleet.running_on(victim), "an item on the victim")
    killed = datetime.now(UTC)
    victim.signal(signal.SIGKILL)
    result = submitter.project.finish(run, 180)
    assert result.code == 0, result
    assert "is gone" in result.text
    retried = {one["item"] for one in submitter.project.events("started") if one["attempt"] == 2}
    began = {one["item"]: datetime.fromisoformat(one["time"]) for one in submitter.project.events("ready")}
    assert retried
    assert max(began[item] for item in retried) - killed < RERUN
    assert other.poll() is None
    submitter.assert_all_once(6)


@pytest.mark.slow
def test_a_stopped_machine_that_comes_back_changes_nothing(fleet: Fleet) -> None:
    victim = fleet.machine()
    submitter = fleet.submitter("one", 3, script="verdicts=REVISE,APPROVED latency=2")
    run = submitter.start("--parallel", "3")
    wait_until(lambda: fleet.running_on(victim) == 3, "all items on the victim")
    victim.signal(signal.SIGSTOP)
    fleet.machine()
    wait_until(lambda: "is gone" in run.text(), "the machine to be given up")
    victim.signal(signal.SIGCONT)
    result = submitter.project.finish(run, 180)
    assert result.code == 0, result
    wait_until(lambda: not fleet.running_on(victim), "the victim to give up")
    submitter.assert_all_once(3)


@pytest.mark.slow
def test_a_machine_that_shuts_down_gives_its_items_back(fleet: Fleet) -> None:
    victim = fleet.machine()
    submitter = fleet.submitter("one", 3)
    run = submitter.start("--parallel", "3")
    wait_until(lambda: fleet.running_on(victim), "an item on the victim")
    fleet.machine()
    victim.signal(signal.SIGTERM)
    ended = victim.wait(60)
    assert (ended.code, ended.err) == (0, ""), ended
    result = submitter.project.finish(run, 180)
    assert result.code == 0, result
    assert "another machine continues it" in result.text
    submitter.assert_all_once(3)


@pytest.mark.slow
def test_a_worker_that_hangs_does_not_hold_up_a_drain(fleet: Fleet) -> None:
    """A drain ends long before its machine seems dead: the worker is killed if it does not stop."""
    victim = fleet.machine()
    submitter = fleet.submitter("one", 3, script="verdicts=REVISE,APPROVED latency=2")
    run = submitter.start("--parallel", "3")
    wait_until(lambda: len(submitter.project.events("leased")) == 3, "all items in a call")
    workers = [worker for server in children_of(victim.pid) for worker in children_of(server)]
    assert len(workers) >= 3
    for worker in workers:
        os.kill(worker, signal.SIGSTOP)
    fleet.machine()
    victim.signal(signal.SIGTERM)
    assert victim.wait(60).code == 0
    result = submitter.project.finish(run, 180)
    assert result.code == 0, result
    assert result.text.count("is shutting down; another machine continues it") == 3
    assert "is gone" not in result.text
    submitter.assert_all_once(3)


@pytest.mark.slow
def test_a_killed_submitter_is_taken_over_by_the_same_command(fleet: Fleet) -> None:
    machine = fleet.machine()
    submitter = fleet.submitter("one", 4)
    run = submitter.start("--parallel", "4")
    wait_until(lambda: fleet.running_on(machine), "an item on the machine")
    run.signal(signal.SIGKILL)
    run.wait()
    result = submitter.lld("--parallel", "4")
    assert result.code == 0, result
    submitter.assert_all_once(4)


@pytest.mark.slow
def test_ctrl_c_stops_the_items_and_the_same_command_resumes(fleet: Fleet) -> None:
    machine = fleet.machine()
    submitter = fleet.submitter("one", 3, script="verdicts=REVISE,APPROVED latency=2")
    run = submitter.start("--parallel", "3")
    wait_until(lambda: fleet.running_on(machine) == 3, "all items on the machine")
    run.signal(signal.SIGINT)
    stopped = submitter.project.finish(run, 60)
    assert stopped.code == 130, stopped
    wait_until(lambda: not fleet.running_on(machine), "the machine to be idle")
    assert submitter.lld("--parallel", "3").code == 0
    submitter.assert_all_once(3)


@pytest.mark.slow
def test_a_restarted_database_interrupts_nothing(fleet: Fleet, postgres_cluster: Cluster) -> None:
    machine = fleet.machine()
    submitter = fleet.submitter("one", 4)
    run = submitter.start("--parallel", "4")
    wait_until(lambda: fleet.running_on(machine), "an item on the machine")
    postgres_cluster.stop("immediate")
    postgres_cluster.start()
    result = submitter.project.finish(run, 180)
    assert result.code == 0, result
    submitter.assert_all_once(4)
    assert machine.poll() is None


def test_a_person_who_edits_meanwhile_keeps_their_words(fleet: Fleet) -> None:
    fleet.machine()
    submitter = fleet.submitter("one", 1, script="latency=1")
    document = submitter.project.root / "docs/lld/active/LLD-1.md"
    run = submitter.start()
    wait_until(
        lambda: fleet.rows("SELECT 1 FROM agentos_attempts WHERE state = 'taken'"), "the item to start"
    )
    document.parent.mkdir(parents=True, exist_ok=True)
    document.write_text("# My own words\n")
    assert submitter.project.finish(run, 120).code == 0
    kept = [path.read_text() for path in (submitter.project.root / "docs/lineage").rglob("*-edited.md")]
    assert kept == ["# My own words\n"]


@pytest.mark.parametrize("allowed", [True, False])
def test_a_submitter_runs_no_shell_on_a_machine_that_does_not_allow_it(
    fleet: Fleet, tmp_path: Path, *, allowed: bool
) -> None:
    trace = tmp_path / "trace"
    fleet.machine(env={"AGENTOS_MOCK_SHELL": "1"} if allowed else None)
    project = fleet.submitter("one", 1, script=f'sh="touch {trace}"').project
    env = {"AGENTOS_DATABASE_URL": fleet.url, "AGENTOS_MOCK_SHELL": "1"}
    project.run("lld", "--all", "--mock", "--engine", "postgres", env=env, timeout=120)
    assert trace.exists() == allowed


@pytest.mark.slow
def test_an_item_that_kills_its_worker_ends_after_three_attempts(fleet: Fleet) -> None:
    fleet.machine()
    submitter = fleet.submitter("one", 1, script="crash=SIGKILL")
    result = submitter.lld()
    assert result.code == 1
    assert "crashed 3 times" in result.text, result


def test_keys_stay_with_their_machines_and_limits_hold_for_all(fleet: Fleet, tmp_path: Path) -> None:
    """Two machines with one key each: no key enters the database, no call leaves its machine's key."""
    secrets = {"KEY_ONE": "sk-one-0123456789abcdef", "KEY_TWO": "sk-two-0123456789abcdef"}
    keys = tuple(
        KeyConfig(secret=secret, limits=LimitConfig(rpm=1200, burst=10)) for secret in secrets.values()
    )
    with running_simulator(SimulatorConfig(keys=keys)) as url:
        config = _config(tmp_path, url, *secrets, more="rpm = 1200\n")
        for variable, value in secrets.items():
            fleet.machine(slots=2, env={variable: value}, config=config)
        project = fleet.make_project("one").init()
        project.issues(6)
        env = secrets | {"AGENTOS_DATABASE_URL": fleet.url}
        run = project.start(
            "--config", config, "lld", "--all", "--engine", "postgres", "--parallel", "4", env=env
        )
        result = project.finish(run, 180)
        assert result.code == 0, result
        used = stats(url)["keys"]
        assert all(key["calls"] for key in (used.values() if isinstance(used, dict) else used)), used
    for table in fleet.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"):
        content = str(fleet.rows(f'SELECT one::text FROM "{table["tablename"]}" AS one'))
        assert not any(
            secret in content or secret.encode().hex() in content for secret in secrets.values()
        ), table


@pytest.mark.slow
@pytest.mark.parametrize(
    ("configured", "fix"), [(False, "set OPENAI_API_KEY and"), (True, "check [[keys]] for openai in")]
)
def test_a_machine_without_a_key_takes_nothing_and_the_others_do_it_all(
    fleet: Fleet, tmp_path: Path, *, configured: bool, fix: str
) -> None:
    key = {"KEY_ONE": "sk-one-0123456789abcdef"}
    with running_simulator(SimulatorConfig(keys=(KeyConfig(secret=key["KEY_ONE"]),), latency=0.5)) as url:
        config = _config(tmp_path, url, "KEY_ONE")
        poor = fleet.machine(slots=4, config=config if configured else None)
        fleet.machine(slots=1, env=key, config=config)
        project = fleet.make_project("one").init()
        project.issues(3)
        env = key | {"AGENTOS_DATABASE_URL": fleet.url}
        result = project.run("--config", config, *REAL, "--parallel", "3", env=env, timeout=120)
    assert result.code == 0, result
    assert [event["attempt"] for event in project.events("started")] == [1, 1, 1]
    assert poor.text().count("No key for openai on this machine") == 1
    assert fix in poor.text()
    assert poor.poll() is None


def test_a_key_with_two_ids_is_used_by_whichever_its_machine_has(fleet: Fleet, tmp_path: Path) -> None:
    """The submitter knows one key by two ids, the machine only by the second."""
    key = "sk-one-0123456789abcdef"
    with running_simulator(SimulatorConfig(keys=(KeyConfig(secret=key),))) as url:
        config = _config(tmp_path, url, "KEY_ONE", "KEY_TWO")
        fleet.machine(env={"KEY_TWO": key}, config=config)
        project = fleet.make_project("one").init()
        project.issues(1)
        env = {"KEY_ONE": key, "KEY_TWO": key, "AGENTOS_DATABASE_URL": fleet.url}
        result = project.run("--config", config, *REAL, env=env, timeout=120)
    assert result.code == 0, result


@pytest.mark.slow
def test_a_run_stops_if_no_machine_has_a_key(fleet: Fleet, tmp_path: Path) -> None:
    key = {"KEY_ONE": "sk-one-0123456789abcdef"}
    config = _config(tmp_path, "http://127.0.0.1:1", "KEY_ONE")
    fleet.machine()
    project = fleet.make_project("one").init()
    project.issues(2)
    env = key | {"AGENTOS_DATABASE_URL": fleet.url}
    result = project.run("--config", config, *REAL, env=env, timeout=120)
    assert result.code == 4, result
    assert "No machine that is running has a usable key for openai. Give one" in result.text
    assert set(project.statuses().values()) <= {"paused", "pending"}


def test_a_machine_whose_key_is_rejected_gives_its_items_back(fleet: Fleet, tmp_path: Path) -> None:
    secrets = {"KEY_ONE": "sk-one-0123456789abcdef", "KEY_TWO": "sk-two-0123456789abcdef"}
    with running_simulator(SimulatorConfig(keys=(KeyConfig(secret=secrets["KEY_TWO"]),))) as url:
        config = _config(tmp_path, url, *secrets)
        poor = fleet.machine(env={"KEY_ONE": secrets["KEY_ONE"]}, config=config)
        project = fleet.make_project("one").init()
        project.issues(2)
        env = secrets | {"AGENTOS_DATABASE_URL": fleet.url}
        run = project.start("--config", config, *REAL, "--parallel", "2", env=env)
        wait_until(lambda: "No usable key for openai" in poor.text(), "the machine to give its items back")
        fleet.machine(env={"KEY_TWO": secrets["KEY_TWO"]}, config=config)
        result = project.finish(run, 120)
    assert result.code == 0, result
    assert "another machine continues it" in result.text
    assert "crashed" not in result.text
    assert poor.text().count("No usable key for openai") == 1


def test_the_keys_of_the_shared_state_are_shown_and_enabled(fleet: Fleet, tmp_path: Path) -> None:
    """A key that is rate limited in the database, whatever this user's own state says."""
    key = {"KEY_ONE": "sk-one-0123456789abcdef"}
    faults = (parse_fault("429,seconds=3600"),)
    with running_simulator(SimulatorConfig(keys=(KeyConfig(secret=key["KEY_ONE"]),), faults=faults)) as url:
        config = _config(tmp_path, url, "KEY_ONE")
        config.write_text(f'engine = "postgres"\n{config.read_text()}')
        fleet.machine(slots=1, env=key, config=config)
        project = fleet.make_project("one").init()
        project.issues(1)
        env = key | {"AGENTOS_DATABASE_URL": fleet.url}
        stopped = project.run("--config", config, "lld", "--all", "--no-wait", env=env, timeout=120)
        assert stopped.code == 75, stopped

        def state(*args: str) -> str:
            shown = project.run("--config", config, "keys", *args, "--json", env=env)
            (row,) = json.loads(shown.out)
            return str(row["state"])

        assert state() == "rate_limited"
        with _using(fleet, config, env):
            shown = project.run("--config", config, "keys", env=env).out
        assert f"0 calls in flight: run 2026 on {socket.gethostname()} in /elsewhere" in shown
        assert state("--engine", "local") == "available"
        assert "rate limited" in project.run("--config", config, "doctor", env=env).out
        local = project.run("--config", config, "keys", "--engine", "local", "enable", "key-1", env=env)
        assert "already enabled" in local.out
        assert state() == "rate_limited"
        enabled = project.run("--config", config, "keys", "enable", "key-1", env=env)
        assert enabled.out == "key-1: enabled; the next run uses it again\n"
        assert state() == "available"


@pytest.mark.slow
@pytest.mark.cold
@pytest.mark.parametrize("where", ["flag", "variable", "file"])
def test_a_submitter_starts_no_process_for_local_workers(fleet: Fleet, where: str) -> None:
    project = fleet.submitter("one", 1).project
    config = project.outside / "user.toml"
    config.write_text('engine = "postgres"\n' if where == "file" else "")
    flags = ("--engine", "postgres") if where == "flag" else ()
    env = {"AGENTOS_DATABASE_URL": fleet.url} | (
        {"AGENTOS_ENGINE": "postgres"} if where == "variable" else {}
    )
    run = project.start("--config", config, "lld", "--all", "--mock", *flags, env=env)
    wait_until(lambda: fleet.rows("SELECT 1 FROM agentos_attempts"), "the item to be in the queue")
    assert project.server(run) is None
    run.signal(signal.SIGINT)
    assert project.finish(run, 60).code == 130


def test_nothing_of_it_is_imported_in_local_mode(fleet: Fleet) -> None:
    project = fleet.submitter("one", 1).project
    for command in (("lld", "--all", "--mock"), ("keys",)):
        result = project.run(*command, env={"PYTHONPROFILEIMPORTTIME": "1"})
        assert result.code == 0
        assert "psycopg" not in result.err
        assert "procrastinate" not in result.err


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "AGENTOS_DATABASE_URL is not set"),
        ("mysql://x", "postgresql://"),
        ("postgresql://agentos@127.0.0.1:1/none", "127.0.0.1:1/none"),
    ],
)
def test_a_database_that_cannot_be_used_is_a_clear_error(
    make_project: Callable[[str], Project], url: str, said: str
) -> None:
    project = make_project("one").init()
    project.issues(1)
    keys = ("keys", "--engine", "postgres")
    env = {"AGENTOS_DATABASE_URL": url, "AGENTOS_ENGINE": "postgres", "OPENAI_API_KEY": "sk-1"}
    for command in (LLD, keys, (*keys, "enable", "openai"), ("worker",), ("db", "upgrade"), ("doctor",)):
        result = project.run(*command, env=env)
        assert result.code == 2, result
        assert said in result.text, result
        result.assert_no_traceback()


def test_a_database_without_tables_says_what_to_type(
    postgres_url: str, make_project: Callable[[str], Project]
) -> None:
    project = make_project("one").init()
    project.issues(1)
    for command in (LLD, ("keys", "--engine", "postgres"), ("worker",)):
        result = project.run(*command, env={"AGENTOS_DATABASE_URL": postgres_url})
        assert result.code == 2, result
        assert "agentos db upgrade" in result.said


def _config(folder: Path, url: str, *variables: str, more: str = "") -> Path:
    """A user's file for the simulated provider, with a key in each variable."""
    text = f'drafter = "openai:model"\nreviewer = "openai:model"\n[providers.openai]\nbase_url = "{url}/v1"\n'
    for number, variable in enumerate(variables, start=1):
        text += f'[[keys]]\nid = "key-{number}"\nprovider = "openai"\nenv = "{variable}"\n{more}'
    config = folder / "user.toml"
    config.write_text(text)
    return config


@contextmanager
def _using(fleet: Fleet, config: Path, environment: dict[str, str]) -> Iterator[None]:
    """A run of another repository that uses the keys."""
    settings = load_config(flags={}, worktree=None, user_file=config, environment=environment)
    ring = key_ring(settings, ["openai"])
    pools = open_shared_pools(
        None,
        ring.specs,
        ring.secrets,
        base_urls=settings.base_urls,
        run_id="2026",
        place=Path("/elsewhere"),
        lease_seconds=60.0,
        say=print,
        rows=lambda: PostgresPool(fleet.url),
    )
    assert pools is not None
    yield
    pools.leave()


def _documents(project: Project) -> dict[str, bytes]:
    docs = project.root / "docs"
    return {str(path.relative_to(docs)): path.read_bytes() for path in sorted(docs.rglob("*.md"))}
