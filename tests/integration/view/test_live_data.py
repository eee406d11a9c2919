"""The data of a run in progress: only what changed is read again, and only that is sent."""

import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from agentos.report.items import ItemReader
from agentos.settings import Settings
from agentos.store.home import Home
from agentos.view import kept_items, run_index
from agentos.view.access import Door, Guard
from agentos.view.server import make_view

RUN = "2026-11-16T00-37-24.647Z"
TOKEN = "t" * 43
BEGUN = {
    "time": "2026-11-16T00:37:24.655Z",
    "event": "run_started",
    "items": 3,
    "parallel": 2,
    "workflow": "lld",
}


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    """The folder of a run in progress."""
    folder = tmp_path / ".agentos" / "logs" / "parallel" / RUN
    folder.mkdir(parents=True)
    descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    yield folder
    os.close(descriptor)


@pytest.fixture
def client(run: Path, tmp_path: Path) -> TestClient:
    assert run.is_dir()
    home = Home(path=tmp_path / ".agentos")
    view = make_view(home=home, worktree=tmp_path, folders=Settings().folders, failed=lambda *_: None)
    return TestClient(
        Guard(view.app(), Door(port=8765, token=TOKEN)),
        base_url="http://127.0.0.1:8765",
        headers={"Authorization": f"Bearer {TOKEN}"},
    )


def happened(run: Path, *records: dict[str, Any]) -> None:
    with (run / "events.jsonl").open("a", encoding="utf-8") as file:
        file.write("".join(json.dumps(BEGUN | {"event": ""} | record) + "\n" for record in records))


def started(item: str) -> dict[str, Any]:
    return {"event": "started", "item": item, "label": f"LLD-{item}", "attempt": 1}


def test_a_run_without_events_is_starting(client: TestClient) -> None:
    data = client.get(f"/api/runs/{RUN}").json()
    assert data["run"]["workflow"] == "starting …"
    [row] = client.get("/api/runs").json()["runs"]
    assert (row["live"], row["workflow"], row["items"]) == (True, None, 0)


def test_only_what_changed_is_sent(client: TestClient, run: Path) -> None:
    happened(run, BEGUN, started("41"), started("42"))
    first = client.get(f"/api/runs/{RUN}", params={"since": ""}).json()
    assert [item["label"] for item in first["data"]["items"]] == ["LLD-41", "LLD-42"]
    happened(run, {"event": "node", "item": "42", "node": "draft", "reviews": 0})
    more = client.get(f"/api/runs/{RUN}", params={"since": first["version"]}).json()
    assert more["since"] == first["version"]
    items = more["changes"][1]["items"][2]
    assert items["1"][1]["node"] == [0, "draft"]
    # Of the other item, only the time went on.
    assert items.get("0", [1, {}])[1].keys() <= {"seconds", "waited_seconds", "spans"}
    again = client.get(f"/api/runs/{RUN}", params={"since": more["version"]}).json()
    assert "data" not in again
    rows = client.get("/api/runs", params={"since": ""}).json()
    same = client.get("/api/runs", params={"since": rows["version"]}).json()
    assert (same["version"], same["changes"]) == (rows["version"], None)


def test_an_item_is_read_again_only_if_it_changed(
    client: TestClient, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    fresh = ItemReader.item

    def counted(self: ItemReader, row: Any, *rest: Any, **more: Any) -> Any:
        read.append(row.id)
        return fresh(self, row, *rest, **more)

    monkeypatch.setattr(ItemReader, "item", counted)

    def look() -> list[dict[str, Any]]:
        read.clear()
        found: list[dict[str, Any]] = client.get(f"/api/runs/{RUN}").json()["items"]
        return found

    happened(run, BEGUN, started("41"), started("42"))
    look()
    assert read == ["41", "42"]
    happened(run, {"event": "node", "item": "42", "node": "draft", "reviews": 0})
    assert [item["node"] for item in look()] == [None, "draft"]
    assert read == ["42"]
    verdict = {"kind": "verdict", "review": 1, "verdict": "REVISE", "findings": [], "questions": []}
    (run / "workflow-audit-41.jsonl").write_text(json.dumps(verdict) + "\n", "utf-8")
    assert look()[0]["rounds"][0]["verdict"] == "REVISE"
    assert read == ["41"]
    happened(run, {"event": "completed", "item": "41", "label": "LLD-41", "status": "failed", "error": "no"})
    assert [item["status"] for item in look()] == ["failed", "running"]
    assert read == ["41"]
    # What changed without an event is seen after a while.
    monkeypatch.setattr(kept_items, "REREAD_SECONDS", 0.0)
    monkeypatch.setattr(run_index, "_clock_tick", lambda: -1)
    look()
    assert read == ["41", "42"]
