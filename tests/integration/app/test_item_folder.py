"""The files of items on other machines: only the run that has an item gets them, and no trail has a gap."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentos.app.item_folder import SubmittersFolder
from agentos.errors import ItemFailed
from agentos.model import Item
from agentos.store.postgres.attempts import Attempts
from agentos.store.postgres.checkpoints import PostgresCheckpoints
from agentos.store.postgres.connection import PostgresDatabase
from agentos.wire import ItemData, Job
from agentos.workflows.registry import workflow
from harness.records import hold, open_postgres_records

ITEM = Item(workflow="lld", id="7", label="LLD-7", title="T", text="text", source="7.md")
FOLDERS = {"lineage": "docs/lineage", "lld": "docs/lld/active", "issues": "issues/active"}
TRAIL = "docs/lineage/active/7-lld"


def job(run_id: str) -> Job:
    return Job(
        run_id=run_id,
        attempt=1,
        item=ItemData(workflow="lld", id="7", label="LLD-7", title="T", text="text", source="7.md"),
        worktree="",
        database="",
        drafter="mock:a",
        reviewer="mock:b",
        max_iterations=5,
        max_retries=5,
        call_timeout=600.0,
    )


class Clone:
    """A worktree of a submitter."""

    def __init__(self, database: PostgresDatabase, root: Path, run_id: str) -> None:
        root.mkdir()
        self.root, self._job = root, job(run_id)
        self._folder = SubmittersFolder(
            attempts=Attempts(database),
            patiently=database.patiently,
            project="project",
            flow=workflow("lld"),
            worktree=root,
            folders=FOLDERS,
        )

    def fetch(self) -> None:
        self._folder.fetch(self._job)

    def send(self) -> dict[str, str]:
        return self._folder.send(self._job)

    def files(self) -> dict[str, str]:
        return {
            str(path.relative_to(self.root)): path.read_text("utf-8")
            for path in sorted(self.root.rglob("*"))
            if path.is_file()
        }


@pytest.fixture
def database(prepared_postgres: str) -> Iterator[PostgresDatabase]:
    with PostgresDatabase(prepared_postgres, application_name="test") as opened:
        yield opened


def write(database: PostgresDatabase, **files: str) -> None:
    """As a worker does; `draft_1` is a file of the trail, `document` is the document."""
    with database.transaction() as cursor:
        for name, text in files.items():
            kind, _, number = name.partition("_")
            path = f"{TRAIL}/{int(number):03d}-{kind}.md" if number else "docs/lld/active/LLD-7.md"
            cursor.execute(
                "INSERT INTO agentos_files (project, workflow, item, path, body)"
                " VALUES ('project', 'lld', '7', %s, %s) ON CONFLICT (project, workflow, item, path)"
                " DO UPDATE SET body = EXCLUDED.body, placed = false",
                (path, text.encode()),
            )


def test_only_the_run_that_has_the_item_gets_its_files(
    database: PostgresDatabase, prepared_postgres: str, tmp_path: Path
) -> None:
    stale, current = Clone(database, tmp_path / "a", "run-1"), Clone(database, tmp_path / "b", "run-2")
    write(database, draft_2="draft", document="document")
    with open_postgres_records(prepared_postgres) as records:
        hold(records, ITEM, "run-1")
        hold(records, ITEM, "run-2")
        for ask in (stale.fetch, stale.send):
            with pytest.raises(ItemFailed, match="another run has taken this item over"):
                ask()
        assert stale.files() == {}
        current.fetch()
    assert set(current.files()) == {f"{TRAIL}/002-draft.md", "docs/lld/active/LLD-7.md"}


def test_another_clone_gets_the_whole_trail_and_a_persons_file_stays(
    database: PostgresDatabase, prepared_postgres: str, tmp_path: Path
) -> None:
    first, second = Clone(database, tmp_path / "a", "run-1"), Clone(database, tmp_path / "b", "run-2")
    with open_postgres_records(prepared_postgres) as records:
        hold(records, ITEM, "run-1")
        write(database, issue_1="issue", draft_2="draft")
        first.fetch()
        (first.root / TRAIL / "002-draft.md").write_text("a person's", "utf-8")
        first.send()
        assert first.files()[f"{TRAIL}/002-draft.md"] == "a person's"
        write(database, draft_2="written again")
        first.fetch()
        assert first.files()[f"{TRAIL}/002-draft.md"] == "written again"
        hold(records, ITEM, "run-2")
        write(database, verdict_3="verdict")
        assert set(second.send()) == {f"{TRAIL}/00{name}.md" for name in ("1-issue", "2-draft", "3-verdict")}
        assert second.files()[f"{TRAIL}/002-draft.md"] == "written again"
        checkpoints = PostgresCheckpoints(database=database, project="project", mock=False)
        checkpoints.drop(ITEM)
    assert database.rows("SELECT path FROM agentos_files", {}) == []


def test_files_that_nobody_has_put_in_place_outlive_the_state(
    database: PostgresDatabase, prepared_postgres: str, tmp_path: Path
) -> None:
    clone = Clone(database, tmp_path / "a", "run-1")
    write(database, draft_2="draft")
    PostgresCheckpoints(database=database, project="project", mock=False).drop(ITEM)
    with open_postgres_records(prepared_postgres) as records:
        hold(records, ITEM, "run-1")
        clone.fetch()
    assert clone.files() == {f"{TRAIL}/002-draft.md": "draft"}
