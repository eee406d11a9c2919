"""A job in a worker: what it says about the repository reaches the models and the gate."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agentos.coordinator.job import ParallelRunConfig, make_job
from agentos.coordinator.plan import PlanAction, PlannedItem
from agentos.errors import StorageBusy
from agentos.frames import encode, read_for_worker
from agentos.llm.mock import MockProvider
from agentos.llm.provider import Cancel, ModelRequest, Reply
from agentos.model import Item
from agentos.repo_map.parts import Part, PartKind, Reading, RepositoryMap
from agentos.secret import Secret
from agentos.wire import Audit, Job, LeaseGranted, Message, RemoteItem
from agentos.worker.run_workflow import run_job
from agentos.workflows.prompts import shipped_template

SECRET = "0123456789abcdef"


class FakeLink:
    """A coordinator that grants every lease and keeps every message."""

    def __init__(self) -> None:
        self.sent: list[Message] = []

    def send(self, message: Message) -> None:
        self.sent.append(message)

    def lease(self, _ask: Any) -> LeaseGranted:
        return LeaseGranted(number=1, lease=1, key="key-1", secret=Secret("key-1", "mock-secret-1"))

    def vet(self, _texts: Sequence[str]) -> str | None:
        return None

    def look_up(self, **_asked: Any) -> Reading:
        return Reading()

    def settle(self, settled: Message) -> None:
        self.sent.append(settled)


def job(root: Path, text: str = "Please.", files: tuple[str, ...] = ()) -> Job:
    tree = Part(kind=PartKind.TREE, path=".", text="src/pool.py", why="the tree")
    own = Part(kind=PartKind.BODY, path="src/pool.py", text="def pool", why="named")
    config = ParallelRunConfig(
        base_dir=root,
        worktree=root,
        workflow="lld",
        drafter="mock:d",
        reviewer="mock:r",
        templates={"lld": shipped_template("lld")},
        folders={"issues": "issues", "lld": "docs/lld", "lineage": "docs/lineage"},
        rules="R1: name the owner.",
        language="German",
        fence_secret=SECRET,
    )
    item = Item(workflow="lld", id="42", label="LLD-42", title="T", text=text, source="42.md")
    entry = PlannedItem(item=item, step=PlanAction.START)
    repository = RepositoryMap(shared=(tree,), own=(own,), files=files)
    made = make_job(
        config, entry, run_id="r", attempt=1, database=str(root / "a.db"), trace={}, repository=repository
    )
    assert SECRET not in repr(config) + repr(made) + str(made)
    sent = read_for_worker(encode(made)[4:])
    assert isinstance(sent, Job)
    return sent


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[ModelRequest]:
    asked: list[ModelRequest] = []
    call = MockProvider.call

    def note(self: MockProvider, request: ModelRequest, *, secret: Secret, cancel: Cancel) -> Reply:
        asked.append(request)
        return call(self, request, secret=secret, cancel=cancel)

    monkeypatch.setattr(MockProvider, "call", note)
    return asked


def run(job: Job) -> list[Message]:
    link: Any = FakeLink()
    ended = run_job(job, link, Cancel())
    assert ended.status == "approved", ended
    sent: list[Message] = link.sent
    return sent


def test_the_map_the_rules_and_the_breaks_reach_both_models(
    tmp_path: Path, requests: list[ModelRequest]
) -> None:
    run(job(tmp_path))
    assert [request.role for request in requests] == ["drafter", "reviewer"]
    for request in requests:
        shared, item = request.breaks
        assert "tree .\nsrc/pool.py\n" in request.prompt[:shared]
        assert "R1: name the owner." in request.prompt[:shared]
        assert "German" in request.prompt[:shared]
        assert request.prompt[shared:].startswith("## The item\n")
        assert "code src/pool.py\ndef pool\n" in request.prompt[shared:item]
        assert SECRET not in request.prompt


def test_the_tracked_files_reach_gate_and_reviewer(tmp_path: Path, requests: list[ModelRequest]) -> None:
    sent = run(job(tmp_path, "<!-- mock: files=src/pol.py -->", files=("src/pool.py",)))
    assert [request.role for request in requests] == ["drafter", "reviewer"]
    assert "src/pol.py (nearest: src/pool.py)" in requests[-1].prompt
    gates = [
        message.record for message in sent if isinstance(message, Audit) and message.record.kind == "gate"
    ]
    assert [gate.model_dump()["paths"] for gate in gates] == [["src/pol.py (nearest: src/pool.py)"]]


@pytest.mark.parametrize("elsewhere", [True, False])
def test_only_a_worker_of_another_machine_gives_its_item_back_if_the_database_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    def away(*_: object) -> None:
        raise StorageBusy("The database is away.")

    monkeypatch.setattr("agentos.worker.run_workflow.open_checkpoint", away)
    monkeypatch.setattr("agentos.worker.postgres_checkpoint.open_postgres_checkpoint", away)
    remote = RemoteItem(id=1, project="p", workflow="lld", item="42", thread="t") if elsewhere else None
    ended = run_job(job(tmp_path).model_copy(update={"remote": remote}), FakeLink(), Cancel())  # type: ignore[arg-type]
    assert ended.status == ("interrupted" if elsewhere else "failed")
    assert (ended.given_back, ended.error) == (elsewhere, "The database is away.")
