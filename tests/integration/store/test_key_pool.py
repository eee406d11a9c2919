"""The database with the state of the user's keys: private, checked, and never a reason to fail a run."""

import os
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing, nullcontext, suppress
from pathlib import Path

import pytest

from agentos.errors import StorageBusy, StorageError
from agentos.secret import Secret
from agentos.store.key_pool import (
    DATABASE,
    ActiveRun,
    PoolDatabase,
    StateRow,
    open_pool_database,
    read_pool_database,
)
from agentos.store.rooted_tree import Tree
from harness.places import mode, snapshot

VERSION = range(60, 64)  # bytes of the header; a newer version is left alone


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def database(tree: Tree, said: list[str]) -> Iterator[PoolDatabase]:
    with closing(open_pool_database(tree, said.append)) as opened:
        yield opened


def run(token: str = "a") -> ActiveRun:
    return ActiveRun(token=token, run_id="2026", place="/repo", pid=1, since="2026-01-01")


def test_everything_is_private(tree: Tree, database: PoolDatabase) -> None:
    database.add_run(run())
    with database.transaction():
        database.save("openai", StateRow(version=1, state="{}", written=1.0), last_lease=7)
    folder = tree.root / DATABASE.parent
    assert mode(folder) == 0o700
    assert {mode(path) for path in folder.iterdir()} == {0o600}


def test_fingerprints_are_salted(tmp_path: Path, said: list[str]) -> None:
    one, other, marks = Secret("key-1", "sk-one"), Secret("key-2", "sk-other"), set()
    for name in ("a", "a", "b"):
        (tmp_path / name).mkdir(exist_ok=True)
        with closing(open_pool_database(Tree(tmp_path / name), said.append)) as opened:
            assert one.fingerprint(opened.salt) != other.fingerprint(opened.salt)
            marks.add(one.fingerprint(opened.salt))
    assert len(marks) == 2


def test_a_state_is_returned_only_if_it_is_new(database: PoolDatabase) -> None:
    assert database.state("openai") == StateRow(version=0, state="", written=None)
    with database.transaction():
        database.save("openai", StateRow(version=3, state="{}", written=1.0), last_lease=7)
    assert database.state("openai", 3) is None
    assert database.state("openai", 2) == StateRow(version=3, state="{}", written=1.0)
    assert database.last_lease() == 7


def test_a_run_is_alive_while_its_process_holds_its_lock(tree: Tree, database: PoolDatabase) -> None:
    other = open_pool_database(tree, print)
    other.add_run(run())
    assert database.is_alive("a")
    other.close()
    assert not database.is_alive("a")
    with database.transaction():
        database.remove_run("a")
    assert database.runs() == ()
    assert not list(tree.root.rglob("*.lock"))


def test_a_transaction_of_another_run_makes_it_busy_for_a_moment_only(
    tree: Tree, database: PoolDatabase
) -> None:
    with closing(open_pool_database(tree, print)) as other:
        with other.transaction(), pytest.raises(StorageBusy):
            database.begin()
        with database.transaction():
            pass


@pytest.mark.parametrize("content", [b"not a database" * 100, b"SQLite format 3\0" + b"x" * 5000])
def test_a_damaged_database_is_set_aside(tree: Tree, said: list[str], content: bytes) -> None:
    tree.make_private(DATABASE.parent)
    (tree.root / DATABASE).write_bytes(content)
    with closing(open_pool_database(tree, said.append)) as opened:
        assert opened.states() == {}
    assert (tree.root / DATABASE).with_suffix(".damaged").read_bytes() == content
    assert len(said) == 1
    assert "damaged" in said[0]


def test_whatever_byte_is_damaged_the_database_is_usable_again(tree: Tree, said: list[str]) -> None:
    with closing(open_pool_database(tree, said.append)) as opened, opened.transaction():
        opened.save("openai", StateRow(version=1, state="x" * 3_000, written=1.0), last_lease=7)
    path = tree.root / DATABASE
    whole, chance = path.read_bytes(), random.Random(25)
    for at in (*range(100), *chance.sample(range(100, len(whole)), 100)):
        damaged = bytearray(whole)
        damaged[at] ^= chance.randrange(1, 256)
        path.write_bytes(damaged)
        said.clear()
        for opener in (read_pool_database, open_pool_database):
            opened_again = None
            with suppress(StorageError) if at in VERSION else nullcontext():
                opened_again = opener(tree, said.append)
            if opened_again is not None:
                with closing(opened_again):
                    opened_again.states(), opened_again.runs(), opened_again.users("openai")
        assert len(said) <= 1, (at, said)


def test_a_database_with_a_trigger_is_set_aside(tree: Tree, said: list[str]) -> None:
    open_pool_database(tree, said.append).close()
    with closing(sqlite3.connect(tree.root / DATABASE)) as db:
        db.execute("CREATE TRIGGER t AFTER INSERT ON run BEGIN DELETE FROM provider; END")
        db.commit()
    open_pool_database(tree, said.append).close()
    assert len(said) == 1
    assert "trigger" in said[0]


def test_a_database_of_a_newer_version_is_left_alone(tree: Tree, said: list[str]) -> None:
    open_pool_database(tree, said.append).close()
    with closing(sqlite3.connect(tree.root / DATABASE)) as db:
        db.execute("PRAGMA user_version=99")
    before = snapshot(tree.root)
    with pytest.raises(StorageError, match="newer version"):
        open_pool_database(tree, said.append)
    assert snapshot(tree.root) == before
    assert read_pool_database(tree, said.append) is None


def test_a_link_is_not_followed(tree: Tree, tmp_path: Path, said: list[str]) -> None:
    tree.make_private(DATABASE.parent)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"")
    (tree.root / DATABASE).symlink_to(elsewhere)
    with pytest.raises(StorageError, match="symbolic link"):
        open_pool_database(tree, said.append)
    assert elsewhere.read_bytes() == b""


def test_reading_writes_nothing(tree: Tree, said: list[str]) -> None:
    assert read_pool_database(tree, said.append) is None
    assert list(tree.root.iterdir()) == []
    with closing(open_pool_database(tree, said.append)) as opened, opened.transaction():
        opened.save("openai", StateRow(version=1, state="{}", written=1.0), last_lease=7)
    before = snapshot(tree.root)
    found = read_pool_database(tree, said.append)
    assert found is not None
    with closing(found):
        assert found.states() == {"openai": "{}"}
        with pytest.raises(StorageError):
            found.set_keys("a", "openai", "{}")
    assert snapshot(tree.root) == before


def test_a_killed_writer_damages_nothing(tree: Tree, said: list[str]) -> None:
    open_pool_database(tree, said.append).close()
    if (child := os.fork()) == 0:
        database = open_pool_database(tree, said.append)
        database.begin()
        database.save("openai", StateRow(version=1, state="x" * 100_000, written=1.0), last_lease=7)
        os._exit(9)
    os.waitpid(child, 0)
    with closing(open_pool_database(tree, said.append)) as opened:
        assert opened.states() == {}
    assert said == []


def test_times_of_another_start_of_the_machine_are_not_used(tree: Tree, said: list[str]) -> None:
    later = {"clock": lambda: 5000.0}
    with closing(open_pool_database(tree, said.append, **later)) as opened, opened.transaction():
        opened.save("openai", StateRow(version=1, state="{}", written=5000.0), last_lease=7)
    early = {"clock": lambda: 10.0}  # after a restart
    with closing(open_pool_database(tree, said.append, **early)) as opened:
        found = opened.state("openai")
    assert found is not None
    assert found.written is None
