"""Files an item in a process of its own, which kills itself where it is told to. Started by test_filing.

One line of JSON in, one out. Each is carried out by a fresh fork, so that imports are paid for once.
"""

import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from agentos.coordinator.file_issue import FiledIssue, Filer
from agentos.events.catalogue import Event
from agentos.github.client import GitHub
from agentos.github.repository import Repository
from agentos.model import Item
from agentos.secret import Secret
from agentos.store.records import Fence, Records

ITEM = Item(
    workflow="issue",
    id="dark-mode",
    label="ISSUE-dark-mode",
    title="Dark mode",
    text="A brief",
    source="x.md",
)
DOCUMENT = "# Dark mode\n\n## User Story\n\nAs a reader, I want less light.\n\n## Labels\n\nui, small\n"


def unheard(_event: Event) -> None:
    """Nobody listens to the events here."""


def file_once(order: dict[str, Any]) -> dict[str, Any]:
    def at(step: str) -> None:
        if step == order["kill"]:
            os.kill(os.getpid(), signal.SIGKILL)

    repository = Repository(full_name=order["repository"], api_url=order["url"])
    github = GitHub(repository, Secret("github-token", order["token"]), limit=order["timeout"])
    run = f"run-{os.getpid()}"
    with Records(Path(order["records"])) as records:
        records.claim([ITEM], run)
        filer = Filer(
            github,
            records,
            fence=lambda _one: Fence(run_id=run, attempt=0),
            say=lambda _line: None,
            record=unheard,
            pause=0.02,
            settle=order["settle"],
            poll=0.05,
            at=at,
        )
        result = filer.file(ITEM, DOCUMENT)
    if isinstance(result, FiledIssue):
        return {"filed": result.number}
    return {"filed": None, "reason": result.reason, "unknown": result.unknown}


def main() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        done = Path(order["done"])
        with suppress(FileNotFoundError):
            done.unlink()
        child = os.fork()
        if child == 0:
            done.write_text(json.dumps(file_once(order)), "utf-8")
            os._exit(0)
        print(json.dumps({"started": child}), flush=True)
        _pid, status = os.waitpid(child, 0)
        said = json.loads(done.read_text("utf-8")) if done.exists() else {}
        print(json.dumps({"killed": os.WIFSIGNALED(status), **said}), flush=True)


if __name__ == "__main__":
    main()
