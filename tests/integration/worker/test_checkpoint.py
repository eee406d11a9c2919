"""The checkpoint: one worker at a time, for the owner alone, nothing paid twice, nothing executed."""

import json
import os
import pickle
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypedDict

import ormsgpack
import pytest
from langgraph.graph import END, START, StateGraph

from agentos.errors import ItemFailed, StorageError
from agentos.llm.provider import Reply
from agentos.secret import Secret
from agentos.store.home import checkpoint_files
from agentos.worker import checkpoint
from agentos.worker.checkpoint import Checkpoint, open_checkpoint
from harness.echo import leaked

CONFIG: Any = {"configurable": {"thread_id": "LLD-42"}}


def reply(text: str = "hello") -> Reply:
    return Reply(text=text, model="m", tokens_in=1, tokens_out=2, headers={"x": "y"})


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "lld_workflow_42.db"


class Counting(TypedDict):
    count: int


def count_to(target: int, saved: Checkpoint, seen: list[int]) -> int:
    """Run a graph that counts a step a node, noting each step it really takes."""

    def step(state: Counting) -> Counting:
        seen.append(state["count"] + 1)
        return {"count": state["count"] + 1}

    graph = StateGraph(Counting)
    graph.add_node("step", step)
    graph.add_edge(START, "step")
    graph.add_conditional_edges("step", lambda state: "step" if state["count"] < target else END)
    compiled = graph.compile(checkpointer=saved.saver)
    start: Any = None if saved.begun(CONFIG) else {"count": 0}
    compiled.invoke(start, CONFIG, durability="sync")
    found: int = compiled.get_state(CONFIG).values["count"]
    return found


# The journal.


def test_a_reply_that_was_paid_for_is_given_again_also_by_another_process(database: Path) -> None:
    with open_checkpoint(database, "LLD-42") as first:
        assert first.replayed("drafter", 1) is None
        first.record("drafter", 1, reply("täxt 😀 \ud83d"), {})
        assert first.replayed("drafter", 1) is not None
    with open_checkpoint(database, "LLD-42") as second:
        found = second.replayed("drafter", 1)
        assert found is not None
        assert (found.text, found.model, found.tokens_in, found.tokens_out) == ("täxt 😀 \ud83d", "m", 1, 2)
        assert second.replayed("drafter", 2) is None
        assert second.replayed("reviewer", 1) is None


def test_headers_of_a_reply_are_not_kept(database: Path) -> None:
    with open_checkpoint(database, "LLD-42") as saved:
        saved.record("drafter", 1, reply(), {})
        found = saved.replayed("drafter", 1)
    assert found is not None
    assert found.headers == {}


def test_what_was_paid_for_before_is_known_in_its_order(database: Path) -> None:
    with open_checkpoint(database, "LLD-42") as saved:
        assert saved.paid_before() == []
        saved.record("reviewer", 1, reply(), {"tokens_in": 10})
        saved.record("drafter", 2, reply(), {"tokens_in": 5, "text": "ä\ud83d"})
    with open_checkpoint(database, "LLD-42") as saved:
        assert saved.paid_before() == [{"tokens_in": 10}, {"tokens_in": 5, "text": "ä\ud83d"}]


def test_a_call_recorded_twice_was_paid_for_once(database: Path) -> None:
    with open_checkpoint(database, "LLD-42") as saved:
        for _ in range(2):
            saved.record("drafter", 1, reply(), {"tokens_in": 1})
        assert saved.paid_before() == [{"tokens_in": 1}]


def test_a_journal_keeps_its_name_for_life_and_the_next_one_has_another(database: Path) -> None:
    lives = []
    for _ in range(2):
        with open_checkpoint(database, "LLD-42") as saved:
            lives.append(saved.journal_id)
    assert lives[0] == lives[1]
    for path in checkpoint_files(database):
        path.unlink(missing_ok=True)
    with open_checkpoint(database, "LLD-42") as saved:
        assert saved.journal_id != lives[0]


RECORDER = """
import os, sys
from pathlib import Path
from agentos.llm.provider import Reply
from agentos.worker.checkpoint import open_checkpoint

with open_checkpoint(Path(sys.argv[1]), "LLD-42") as saved:
    saved.record("drafter", 1, Reply(text="paid", model="m", tokens_in=1, tokens_out=1), {"n": 1})
    os.kill(os.getpid(), 9)
"""


def test_a_reply_survives_a_kill_that_comes_right_after_it(database: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", RECORDER, str(database)], check=False)
    assert killed.returncode == -9
    with open_checkpoint(database, "LLD-42") as saved:
        found = saved.replayed("drafter", 1)
        assert saved.paid_before() == [{"n": 1}]
    assert found is not None
    assert found.text == "paid"


# The state.


def test_a_graph_that_was_never_begun_is_told_from_one_that_was(database: Path) -> None:
    seen: list[int] = []
    with open_checkpoint(database, "LLD-42") as saved:
        assert not saved.begun(CONFIG)
        assert count_to(3, saved, seen) == 3
    with open_checkpoint(database, "LLD-42") as saved:
        assert saved.begun(CONFIG)
        assert not saved.begun({"configurable": {"thread_id": "LLD-43"}})
        assert count_to(3, saved, seen) == 3
    assert seen == [1, 2, 3]


# The file.


def test_every_file_is_the_owners_alone_while_open_and_after(database: Path) -> None:
    before = os.umask(0)
    try:
        with open_checkpoint(database, "LLD-42") as saved:
            count_to(2, saved, [])
            saved.record("drafter", 1, reply(), {})
            during = {path.name: stat.S_IMODE(path.stat().st_mode) for path in database.parent.iterdir()}
    finally:
        os.umask(before)
    after = {path.name: stat.S_IMODE(path.stat().st_mode) for path in database.parent.iterdir()}
    assert set(during.values()) == set(after.values()) == {0o600}
    assert database.name in after
    assert {database.parent / name for name in during} <= set(checkpoint_files(database))


@pytest.mark.parametrize("name", ["", ".lock"])
def test_a_link_in_the_place_of_a_file_is_refused(database: Path, tmp_path: Path, name: str) -> None:
    database.with_name(database.name + name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError), open_checkpoint(database, "LLD-42"):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_a_file_that_is_no_database_is_a_storage_error_that_says_what_to_do(database: Path) -> None:
    database.write_bytes(b"not a database" * 1000)
    with pytest.raises(StorageError, match="--fresh"), open_checkpoint(database, "LLD-42"):
        pass


def test_a_checkpoint_that_was_removed_is_begun_anew(database: Path) -> None:
    with open_checkpoint(database, "LLD-42") as saved:
        saved.record("drafter", 1, reply(), {})
    for path in checkpoint_files(database):
        path.unlink(missing_ok=True)
    with open_checkpoint(database, "LLD-42") as saved:
        assert saved.replayed("drafter", 1) is None


# One worker at a time.

HOLDER = """
import sys
from pathlib import Path
from agentos.worker.checkpoint import open_checkpoint

with open_checkpoint(Path(sys.argv[1]), "LLD-42"):
    print("held", flush=True)
    sys.stdin.readline()
print("released", flush=True)
"""


@contextmanager
def another_worker(database: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(database)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as worker:
        try:
            yield worker
        finally:
            worker.kill()


def line(worker: subprocess.Popen[str]) -> str:
    assert worker.stdout is not None
    return worker.stdout.readline().strip()


def test_a_checkpoint_that_another_worker_holds_cannot_be_opened(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "LOCK_SECONDS", 0.0)
    with another_worker(database) as worker:
        assert line(worker) == "held"
        with pytest.raises(ItemFailed, match="another worker"), open_checkpoint(database, "LLD-42"):
            pytest.fail("two workers have one checkpoint")
        assert worker.stdin is not None
        worker.stdin.write("\n")
        worker.stdin.flush()
        assert line(worker) == "released"
        with open_checkpoint(database, "LLD-42"):
            pass


def test_the_checkpoint_of_a_killed_worker_is_free(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "LOCK_SECONDS", 0.0)
    with another_worker(database) as worker:
        assert line(worker) == "held"
        worker.kill()
        worker.wait()
        with open_checkpoint(database, "LLD-42"):
            pass


# Nothing is executed.


def extension(code: int, *call: Any) -> tuple[str, bytes]:
    return "msgpack", ormsgpack.packb(ormsgpack.Ext(code, ormsgpack.packb(call)))


class Evil:
    """What a pickle can do to the one who reads it."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (self.path,)


def constructor(path: str) -> tuple[str, bytes]:
    told = {"lc": 2, "type": "constructor", "id": ["os", "mkdir"], "args": [path], "kwargs": {}}
    return "json", json.dumps(told).encode()


ATTACKS: dict[str, Callable[[str], tuple[str, bytes]]] = {
    "one argument": lambda path: extension(0, "os", "mkdir", path),
    "positional arguments": lambda path: extension(1, "os", "mkdir", (path,)),
    "named arguments": lambda path: extension(2, "os", "mkdir", {"path": path}),
    "method": lambda path: extension(3, "pathlib", "Path", path, "mkdir"),
    "json": constructor,
    "pickle": lambda path: ("pickle", pickle.dumps(Evil(path))),
}


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("table", ["checkpoints", "writes"])
def test_an_edited_database_does_not_run_code(
    database: Path, tmp_path: Path, attack: str, table: str
) -> None:
    with open_checkpoint(database, "LLD-42") as saved:
        count_to(2, saved, [])
    made = tmp_path / "made-by-the-attacker"
    kind, blob = ATTACKS[attack](str(made))
    column = "checkpoint" if table == "checkpoints" else "value"
    edited = sqlite3.connect(database)
    with edited:
        changed = edited.execute(f"UPDATE {table} SET type = ?, {column} = ?", (kind, blob)).rowcount
    edited.close()
    assert changed > 0
    with open_checkpoint(database, "LLD-42") as saved:
        for read in (lambda: saved.begun(CONFIG), lambda: list(saved.saver.list(CONFIG))):
            with suppress(Exception):  # it may refuse as it likes, as long as nothing runs
                read()
    assert not made.exists()


# Secrets.

KEY = "sk-proj-Zq3vXw81LmNbTrQ-7hJkYpDs_Fg5cVaE"


class Holding(TypedDict):
    texts: list[str]


@pytest.mark.parametrize("fails", [False, True])
def test_neither_state_nor_error_brings_a_secret_into_the_database(database: Path, fails: bool) -> None:
    Secret("key-1", KEY)

    def step(state: Holding) -> Holding:
        if fails:
            raise UnicodeEncodeError("ascii", f"Bearer {KEY}", 0, 1, "odd")
        return {"texts": ["kept", f"it is {KEY}"]}

    graph = StateGraph(Holding)
    graph.add_node("step", step)
    graph.add_edge(START, "step")
    with open_checkpoint(database, "LLD-42") as saved:
        compiled = graph.compile(checkpointer=saved.saver)
        with suppress(UnicodeEncodeError):
            compiled.invoke({"texts": []}, CONFIG, durability="sync")
        if not fails:
            assert compiled.get_state(CONFIG).values["texts"] == ["kept", "it is [secret: key-1]"]
        held = b"".join(path.read_bytes() for path in checkpoint_files(database) if path.exists())
    assert b"[secret: key-1]" in held
    assert leaked(KEY, held) is None
