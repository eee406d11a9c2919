"""`agentos db upgrade` and what `agentos doctor` says of the database, with the real command and server."""

import sys
from pathlib import Path

import pytest

from harness.postgres import Cluster
from harness.project import Project

VARIABLE = "AGENTOS_DATABASE_URL"
PASSWORD = "correct-horse-battery"


def test_an_upgrade_prepares_the_database_once(project: Project, postgres_url: str) -> None:
    env = {VARIABLE: postgres_url}
    name = postgres_url.rpartition("@")[2]
    first = project.run("db", "upgrade", env=env)
    assert first.code == 0, first.text
    applied = [line.split()[1] for line in first.out.splitlines() if line.startswith("applied ")]
    assert list(dict.fromkeys(applied)) == ["agentos", "procrastinate", "checkpoints"]
    assert first.out.splitlines()[-1] == f"The database {name} is ready."
    again = project.run("db", "upgrade", env=env)
    assert (again.code, again.out) == (0, f"The database {name} is up to date.\n")


def test_an_upgrade_needs_no_project(project: Project, postgres_url: str, tmp_path: Path) -> None:
    done = project.run("db", "upgrade", env={VARIABLE: postgres_url}, cwd=tmp_path)
    assert done.code == 0, done.text


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "AGENTOS_DATABASE_URL is not set"),
        (f"mysql://u:{PASSWORD}@127.0.0.1/db", "must start with postgresql://"),
        (f"postgresql://u:{PASSWORD}@x@127.0.0.1/db", "is not an address like"),
        (f"postgresql://u:{PASSWORD}@127.0.0.1:1/db", "127.0.0.1:1/db: Connection refused"),
        (f"postgresql://u:{PASSWORD}@no-such-host.invalid/db", "no-such-host.invalid:5432/db: "),
        (f"postgresql://locked:{PASSWORD}@CLUSTER/postgres", "password authentication failed"),
        ("postgresql://agentos@CLUSTER/nothing", 'database "nothing" does not exist'),
    ],
)
def test_a_database_that_cannot_be_used_is_one_line_without_the_password(
    project: Project, locked: str, url: str, message: str
) -> None:
    env = {VARIABLE: url.replace("CLUSTER", locked)}
    done = project.run("db", "upgrade", env=env)
    assert done.code == 2, done.text
    assert message in done.err
    assert len(done.err.splitlines()) == 1
    assert PASSWORD not in done.text
    checked = project.run("doctor", env=env)
    assert PASSWORD not in checked.text
    assert ("database" in checked.out.splitlines()) == bool(url)


def test_a_role_without_the_right_to_make_tables_is_told(
    project: Project, postgres_cluster: Cluster, postgres_url: str
) -> None:
    postgres_cluster.make_role("nobody")
    done = project.run("db", "upgrade", env={VARIABLE: postgres_url.replace("agentos@", "nobody@")})
    assert done.code == 2
    assert "permission denied for schema public" in done.err


@pytest.mark.cold
def test_without_the_extra_the_command_says_what_to_install(project: Project) -> None:
    project.write("shadow/psycopg.py", "raise ModuleNotFoundError(\"No module named 'psycopg'\")\n")
    env = {VARIABLE: "postgresql://u@127.0.0.1/db", "PYTHONPATH": str(project.root / "shadow")}
    done = project.run("db", "upgrade", env=env)
    assert done.code == 2
    assert "pip install 'agentos-workflows[postgres]'" in done.err
    assert "pip install 'agentos-workflows[postgres]'" in project.run("doctor", env=env).out


@pytest.mark.cold
def test_local_mode_imports_nothing_of_it(project: Project) -> None:
    project.issue(1)
    libraries = {"psycopg", "psycopg_pool", "procrastinate", "langgraph"}
    commands = [["--help"], ["lld", "--all", "--mock", "--dry-run"], ["lld", "--all", "--mock"], ["status"]]
    code = (
        "import sys; from agentos.cli.app import run\n"
        f"for words in {commands}:\n"
        "    assert run(words) == 0, words\n"
        f"    found = {libraries} & set(sys.modules)\n"
        "    assert not found, (words, found)\n"
    )
    env = {VARIABLE: "postgresql://u@127.0.0.1:1/db"}
    done = project.run(env=env, command=[sys.executable, "-c", code])
    assert done.code == 0, done.text


def test_the_doctor_checks_the_database(project: Project, postgres_url: str) -> None:
    env = {VARIABLE: postgres_url}
    missing = project.run("doctor", "--json", env=env)
    states = {one["name"]: one for one in missing.json["checks"] if one["section"] == "database"}
    assert (states["PostgreSQL"]["state"], states["tables"]["state"]) == ("ok", "problem")
    assert states["tables"]["fix"] == "agentos db upgrade"
    assert missing.code == 2
    assert project.run("db", "upgrade", env=env).code == 0
    ready = project.run("doctor", "--json", env=env)
    states = {one["name"]: one["state"] for one in ready.json["checks"] if one["section"] == "database"}
    # The role of the tests is a superuser.
    assert states == {"PostgreSQL": "ok", "tables": "ok", "rights": "warning", "clock": "ok"}


def test_the_doctor_knows_what_a_role_may_do(
    project: Project, postgres_cluster: Cluster, prepared_postgres: str
) -> None:
    def rights(role: str) -> tuple[str, str]:
        env = {VARIABLE: prepared_postgres.replace("agentos@", f"{role}@")}
        checks = project.run("doctor", "--json", env=env).json["checks"]
        (found,) = [one for one in checks if (one["section"], one["name"]) == ("database", "rights")]
        return found["state"], found["text"]

    postgres_cluster.make_role("nobody")
    state, text = rights("nobody")
    assert state == "problem"
    assert "permission denied for table agentos_schema" in text
    postgres_cluster.grant(prepared_postgres)
    assert rights("agentos_submitter") == ("ok", "agentos_submitter may submit and run items.")
    assert rights("agentos_worker") == ("ok", "agentos_worker may run 'agentos worker', but not submit runs.")


@pytest.fixture(scope="module")
def locked(postgres_cluster: Cluster) -> str:
    """The host and port of a server on which the role `locked` needs a password."""
    postgres_cluster.require_password("locked", "something else entirely")
    return f"127.0.0.1:{postgres_cluster.port}"


WITHOUT_THE_EXTRA = (
    "import runpy, sys; sys.argv[0] = 'agentos'; sys.modules['psycopg'] = None; "
    "runpy.run_module('agentos', run_name='__main__')"
)


@pytest.mark.parametrize(
    "command",
    [
        ("db", "upgrade"),
        ("worker",),
        ("lld", "--all", "--mock", "--engine", "postgres"),
        ("keys", "--engine", "postgres"),
    ],
    ids=lambda words: words[0],
)
def test_without_the_extra_every_command_says_what_to_install(
    project: Project, command: tuple[str, ...]
) -> None:
    project.issues(1)
    project.warm = None
    project.command = (sys.executable, "-c", WITHOUT_THE_EXTRA)
    result = project.run(*command, env={VARIABLE: "postgresql://nobody@127.0.0.1:9/none"})
    assert result.code == 2, result
    assert (
        "Support for PostgreSQL is not installed; run: pip install 'agentos-workflows[postgres]'"
        in result.err
    )
