"""Attacks by a home that a repository brings along, and homes that are the user's own all the same."""

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentos.errors import Exit
from harness.project import Project, new_project
from harness.provider import Bench, Provider

STRANGER = 54_321  # a user that no machine of ours has
COMMANDS = [
    ("lld", "--all"),
    ("lld", "--all", "--dry-run"),
    ("lld", "--all", "--mock"),
    ("status",),
    ("status", "--json"),
    ("logs", "1"),
    ("report",),
    ("keys",),
    ("keys", "enable", "openai"),
    ("doctor",),
    ("decide", "1", "--approve"),
    ("revise", "1", "--note", "More."),
    ("clean", "--older-than", "1s"),
]

MakeProject = Callable[[str], Project]


@pytest.fixture
def bench(bench: Bench) -> Bench:
    bench.project.issue(1)
    return bench


@pytest.fixture
def victim(tmp_path: Path, provider: Provider) -> Iterator[Bench]:
    """Another user's folder, on another machine as it were: with a state folder of its own."""
    (tmp_path / "elsewhere").mkdir()
    with new_project(tmp_path / "elsewhere") as project:
        yield Bench(project=project, provider=provider)


def snapshot(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
        if not path.name.endswith(("-shm", "-wal"))
    }


def test_a_home_that_was_committed_is_not_used(bench: Bench, victim: Bench) -> None:
    bench.provider.verdicts.append("DISCUSS")
    assert bench.run("lld", "--all").code == Exit.ATTENTION
    bench.commit()
    bench.git("add", "-f", ".agentos")
    bench.commit("The home, too")
    victim.git("clone", "-q", str(bench.root), ".")
    before = snapshot(victim.project.home)
    for args in COMMANDS:
        result = victim.free(*args)
        assert result.code == Exit.USAGE, (args, result)
        assert "agentos home adopt" in result.said, result
    for words in ("agentos decide ", "agentos logs ", "agentos logs --run "):
        env = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" ")), "_AGENTOS_COMPLETE": "bash_complete"}
        assert victim.project.run(env=env).out.strip() == "", "completion does not use it either"
    assert snapshot(victim.project.home) == before
    assert not (victim.project.outside / "user/.local").exists()


def pretend_repository(folder: Path) -> None:
    """Let a folder look like a bare repository, with settings and an index of its own, as a clone can."""
    for name in ("objects", "refs"):
        (folder / name).mkdir()
        (folder / name / "keep").touch()
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "config").write_text(
        "[core]\nrepositoryformatversion = 0\nbare = false\nworktree = .\n"
        '[remote "origin"]\nurl = https://github.com/somebody/else\n'
    )


def test_a_home_in_a_folder_that_only_looks_like_a_repository_is_not_used(bench: Bench) -> None:
    below = bench.root / "below"
    shutil.copytree(bench.root / "issues", below / "issues")
    (below / "agentos.toml").touch()
    bench.commit()
    assert bench.project.run("lld", "--all", "--mock", cwd=below).code == Exit.OK
    shutil.rmtree(bench.project.outside / "user/.local")
    (below / ".agentos/id").unlink()  # private and without an id: as an earlier version made it, or a umask
    pretend_repository(below)
    bench.git("add", "-f", "below")
    bench.commit("A home")
    result = bench.project.run("status", cwd=below)
    assert result.code == Exit.USAGE, result
    assert "agentos home adopt" in result.said
    assert "somebody/else" not in bench.project.run("doctor", cwd=below).said


@pytest.mark.parametrize("how", ["whole", "relative", "flag"])
def test_a_named_home_that_was_committed_is_not_used_either(bench: Bench, victim: Bench, how: str) -> None:
    bench.ok("lld", "--all")
    bench.commit()
    bench.git("add", "-f", ".agentos")
    bench.commit("The home, too")
    victim.git("clone", "-q", str(bench.root), ".")
    named = {"whole": str(victim.project.home), "relative": ".agentos"}.get(how)
    env = {} if named is None else {"AGENTOS_HOME": named}
    flags = ("--home", "./issues/../.agentos") if named is None else ()
    before = snapshot(victim.project.home)
    for args in (("status",), ("lld", "--all"), ("clean", "--older-than", "1s")):
        result = victim.free(*flags, *args, **env)
        assert result.code == Exit.USAGE, (args, result)
        assert "git tracks files in" in result.said
    assert snapshot(victim.project.home) == before


@pytest.mark.parametrize("place", [".agentos", "build/home", "build"])
def test_a_named_home_is_not_used_through_a_link_of_the_repository(bench: Bench, place: str) -> None:
    treasure = bench.project.outside / "treasure"
    (treasure / "home/logs/parallel/2026-01-01T00-00-00.000Z").mkdir(parents=True)
    (treasure / "logs/parallel/2026-01-01T00-00-00.000Z").mkdir(parents=True)
    for path in treasure.rglob("*Z"):
        os.utime(path, (1, 1))
    before = snapshot(treasure)
    (bench.root / place).parent.mkdir(exist_ok=True)
    (bench.root / place).symlink_to(treasure)
    named = bench.root / place / ("home" if place == "build" else "")
    for args in (("lld", "--all"), ("clean", "--older-than", "1s")):
        result = bench.free("--home", str(named), *args)
        assert result.code == Exit.USAGE, (args, result)
        assert "is a symbolic link" in result.said
    assert snapshot(treasure) == before


@pytest.mark.slow
def test_a_home_of_elsewhere_is_used_once_it_is_adopted(bench: Bench, victim: Bench) -> None:
    bench.ok("lld", "--all")
    shutil.copytree(bench.root, victim.root, dirs_exist_ok=True)
    for args in COMMANDS:
        result = victim.free(*args)
        assert result.code == Exit.USAGE, (args, result)
        assert "agentos home adopt" in result.said, result
    adopted = victim.ok("home", "adopt")
    assert "1 run" in adopted.out
    assert victim.free("lld", "--all").code == Exit.OK
    assert "approved" in victim.ok("status").out
    assert "already" in victim.ok("home", "adopt").out
    assert len((victim.project.outside / "user/.local/state/agentos/homes").read_text().splitlines()) == 1


def test_a_home_that_git_tracks_is_not_used_though_it_is_known(bench: Bench) -> None:
    bench.ok("lld", "--all")
    bench.commit()
    assert bench.free("lld", "--all").code == Exit.OK
    bench.git("add", "-f", ".agentos/records.db")
    for args in (("lld", "--all"), ("status",), ("home", "adopt")):
        result = bench.free(*args)
        assert result.code == Exit.USAGE, (args, result)
        assert "git rm -r --cached .agentos" in result.said
    bench.git("rm", "-r", "-q", "--cached", ".agentos")
    assert bench.free("lld", "--all").code == Exit.OK


def test_looking_and_dry_runs_leave_nothing_in_the_state_folder(bench: Bench) -> None:
    for args in (("status",), ("lld", "--all", "--dry-run"), ("config",), ("keys",), ("home",), ("doctor",)):
        bench.free(*args)
    assert not (bench.project.outside / "user").joinpath(".local").exists()
    assert not bench.project.home.exists()


def test_a_home_of_the_version_before_is_adopted_and_unfinished_items_resume(bench: Bench) -> None:
    bench.provider.verdicts.append("DISCUSS")
    assert bench.run("lld", "--all").code == Exit.ATTENTION
    state = bench.project.outside / "user/.local"
    (bench.project.home / "id").unlink()
    shutil.rmtree(state)
    assert "discuss" in bench.free("status").out
    assert not state.exists(), "status writes nothing"
    assert bench.free("decide", "1", "--approve").code == Exit.OK
    assert state.exists()
    assert bench.free("lld", "--all").code == Exit.OK
    assert bench.document(1).exists()


@pytest.mark.slow
@pytest.mark.parametrize("place", [".", "records.db", "logs"])
def test_a_home_without_an_id_that_others_can_read_is_no_earlier_one(bench: Bench, place: str) -> None:
    bench.ok("lld", "--all")
    (bench.project.home / "id").unlink()
    path = bench.project.home / place
    path.chmod(path.stat().st_mode | 0o044)
    result = bench.free("lld", "--all")
    assert result.code == Exit.USAGE, result
    assert "agentos home adopt" in result.said
    bench.ok("home", "adopt")
    assert bench.free("lld", "--all").code == Exit.OK
    assert not path.stat().st_mode & 0o077 or place == "records.db"


@pytest.mark.parametrize("mark", ["", "0" * 32, "../../x", "é" * 32, "\n"])
def test_an_id_that_is_not_known_here_is_refused(bench: Bench, mark: str) -> None:
    bench.ok("lld", "--all")
    (bench.project.home / "id").write_text(mark)
    assert bench.free("lld", "--all").code == Exit.USAGE


def test_an_id_that_is_a_link_is_refused(bench: Bench) -> None:
    bench.ok("lld", "--all")
    other = bench.project.outside / "id"
    shutil.move(bench.project.home / "id", other)
    (bench.project.home / "id").symlink_to(other)
    assert bench.free("lld", "--all").code == Exit.USAGE


@pytest.mark.slow
@pytest.mark.parametrize("how", ["flag", "variable"])
def test_a_home_that_the_user_names_needs_no_id(bench: Bench, victim: Bench, how: str) -> None:
    home = bench.project.outside / "named"
    flags = ("--home", home) if how == "flag" else ()
    env = {} if how == "flag" else {"AGENTOS_HOME": str(home)}
    assert bench.run(*flags, "lld", "--all", **env).code == Exit.OK
    # No home is noted there; the state of the user's keys is.
    assert [path.name for path in (bench.project.outside / "user/.local/state/agentos").iterdir()] == ["keys"]
    shutil.copytree(bench.root / "issues", victim.root / "issues")
    shutil.copytree(bench.root / "docs", victim.root / "docs")
    assert victim.free(*flags, "lld", "--all", **env).code == Exit.OK


@pytest.mark.slow
def test_without_a_state_folder_the_user_is_asked_to_name_a_home(bench: Bench) -> None:
    blocked = bench.project.outside / "blocked"
    blocked.write_text("a file where a folder should be")
    for env in ({"HOME": ""}, {"XDG_STATE_HOME": str(blocked)}):
        result = bench.free("lld", "--all", **env)
        assert result.code == Exit.USAGE, result
        assert "--home" in result.said
        assert "AGENTOS_HOME" in result.said
        shutil.rmtree(bench.project.home, ignore_errors=True)
        named = {"AGENTOS_HOME": str(bench.project.outside / "named")}
        assert bench.run("lld", "--all", **env, **named).code == Exit.OK


def forge(home: Path, *statements: str) -> None:
    with sqlite3.connect(home / "records.db") as db:
        for statement in statements:
            db.execute(statement)
    db.close()


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER evil AFTER INSERT ON progress BEGIN DELETE FROM outcome; END",
        "CREATE VIEW evil AS SELECT 1",
        "CREATE TABLE evil (a)",
        "DROP TABLE note",
        "ALTER TABLE outcome ADD COLUMN evil TEXT",
        "PRAGMA user_version = 3",
        "PRAGMA user_version = 1000",
        "PRAGMA user_version = -1",
    ],
)
def test_records_with_another_schema_are_refused(bench: Bench, statement: str) -> None:
    bench.ok("lld", "--all")
    bench.say_more(1, "And more.")
    forge(bench.project.home, statement)
    for args in (("lld", "--all"), ("status",), ("lld", "--all", "--dry-run"), ("clean",)):
        result = bench.free(*args)
        assert result.code in {Exit.FAILED, Exit.USAGE}, (args, result)
        assert "records.db" in result.text


@pytest.mark.slow
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE call SET tokens_in = -1000000000",
        "UPDATE call SET tokens_out = 9223372036854775807",
        "UPDATE outcome SET reviews = -5",
    ],
)
def test_nonsense_in_the_records_lifts_no_budget(bench: Bench, statement: str) -> None:
    bench.ok("lld", "--all")
    bench.say_more(1, "And more.")
    forge(bench.project.home, statement)
    for args in (("lld", "--all", "--dry-run"), ("lld", "--all", "--budget", "1")):
        result = bench.free(*args)
        assert result.code != Exit.OK, (args, result)


def test_a_checkpoint_with_a_trigger_ends_its_item_alone(bench: Bench) -> None:
    bench.project.issue(2)
    bench.provider.verdicts.extend(["DISCUSS", "DISCUSS"])
    assert bench.run("lld", "--all").code == Exit.ATTENTION
    with sqlite3.connect(bench.project.home / "checkpoints/lld_workflow_1.db") as db:
        db.execute("CREATE TRIGGER evil AFTER INSERT ON writes BEGIN DELETE FROM checkpoints; END")
    db.close()
    for item in ("1", "2"):
        assert bench.free("revise", item, "--note", "Go on.").code == Exit.OK
    assert bench.run("lld", "--all").code == Exit.FAILED
    assert bench.project.statuses() == {"1": "failed", "2": "approved"}
    assert "which agentos does not create" in bench.project.row("1")["error"]


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")


@pytest.mark.slow
@needs_root
@pytest.mark.parametrize("place", [".", ".git", "agentos.toml", "pyproject.toml"])
def test_what_belongs_to_another_user_is_not_worked_in(bench: Bench, place: str) -> None:
    bench.commit()
    bench.project.write("agentos.toml", "")
    bench.project.write("pyproject.toml", "")
    os.chown(bench.root / place, STRANGER, -1)
    for args in COMMANDS:
        result = bench.free(*args)
        assert result.code == Exit.USAGE, (args, result)
        assert "another user" in result.said
    with bench.config.open("r+") as file:
        text = file.read()
        file.seek(0)
        file.write(f'safe_directories = ["{bench.root}"]\n{text}')
    assert bench.run("lld", "--all").code == Exit.OK
    bench.project.write("agentos.toml", f'safe_directories = ["{bench.root}"]\n')
    assert "may not set" in bench.run("lld", "--all").said


@needs_root
def test_a_home_of_another_user_is_not_used(bench: Bench) -> None:
    bench.ok("lld", "--all")
    os.chown(bench.project.home, STRANGER, -1)
    result = bench.free("lld", "--all")
    assert result.code == Exit.USAGE, result
    assert "agentos home adopt" in result.said


@needs_root
def test_settings_planted_in_a_shared_folder_above_are_not_used(bench: Bench) -> None:
    shared = bench.project.outside / "shared"
    mine = shared / "mine"
    mine.mkdir(parents=True)
    planted = shared / "agentos.toml"
    planted.write_text('issues_folder = "bait"\n')
    os.chown(planted, STRANGER, -1)
    (shared / "bait").mkdir()
    (shared / "bait/1.md").write_text("# Spend the key on this\n")
    before = bench.provider.calls()
    started = bench.project.start("--config", bench.config, "lld", "--all", env=bench.environment, cwd=mine)
    result = bench.project.finish(started)
    assert result.code == Exit.USAGE, result
    assert bench.provider.calls() == before
    assert not (shared / ".agentos").exists()
