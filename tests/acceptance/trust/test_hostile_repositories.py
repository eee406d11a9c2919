"""Random hostile repositories: whatever lies in them, nothing outside is read or changed, and nothing hangs.

`make test` tries a few, `make chaos` two thousand.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, seed, settings
from hypothesis import strategies as st

from agentos.errors import Exit
from harness.places import make_socket
from harness.project import Project, new_project
from harness.warm import WarmServer

CANARY = "canary-outside-the-repository-0815"
ENDS = {Exit.OK, Exit.FAILED, Exit.USAGE, Exit.ATTENTION}
COMMANDS = (
    ("status",),
    ("clean", "--older-than", "1s"),
    ("report",),
    ("logs", "1"),
    ("lld", "--all", "--mock", "--dry-run"),
    ("lld", "--all", "--mock"),
)
RUN = "2026-01-01T00-00-00.000Z"
PLACES = [
    *("issues", "issues/active", "issues/active/1.md", "issues/active/2.md", "issues/active/3-x.md"),
    *("issues/active/\x1b[31m.md", "issues/active/a\nb.md", "issues/active/-rf.md", "issues/active/$(id).md"),
    *("docs", "docs/lld", "docs/lld/active", "docs/lld/active/LLD-1.md", "docs/lineage", "template.md"),
    *("docs/lineage/active", "docs/lineage/active/1-lld", "docs/lineage/active/1-lld/001-issue.md"),
    *("docs/lineage/done", "docs/lineage/done/1-lld", "docs/lineage/done/2-lld/003-final.md"),
    *("agentos.toml", "pyproject.toml", ".git", ".git/config", "ideas", "ideas/active", "sources"),
    *(".agentos", ".agentos/id", ".agentos/logs", ".agentos/logs/parallel", ".agentos/checkpoints"),
    *(f".agentos/logs/parallel/{RUN}", f".agentos/logs/parallel/{RUN}/summary.json", ".agentos/records.db"),
    *(f".agentos/logs/parallel/{RUN}/LLD-1.log", f".agentos/logs/parallel/{RUN}/events.jsonl"),
    *(".agentos/records.lock", ".agentos/records.db-wal", ".agentos/keys.json", ".agentos/keys.mock.lock"),
    *(
        ".agentos/checkpoints/lld_workflow_1.mock.db",
        ".agentos/logs/parallel/; touch x",
        ".agentos/.gitignore",
    ),
]
TARGETS = ["", "/secret.md", "/folder", "/folder/deep.md", "/run", "/home", "/nowhere", "/pipe"]
TEXTS = [
    "",
    "# A title\n\nSome text.\n",
    "\0\xff\xfe",
    'lld_folder = ".git/hooks"\nlineage_folder = ".agentos/x"\n',
    'issues_folder = "../outside"\nlld_template = "template.md"\ncontext = ["sources"]\n',
    '[tool.agentos]\nreviewer = "mock:x"\nmax_iterations = 1000000\n',
    "<!-- agentos: item=LLD-1 input=sha256:0 text=sha256:0 by=x -->\n",
    '{"items": [{"id": "1", "label": "LLD-1", "status": "approved", "log": "../../../outside/secret.md"}]}',
    "SQLite format 3\0" + "x" * 200,
    "0" * 32 + "\n",
]


@dataclass(frozen=True)
class Thing:
    """What is put into the repository."""

    place: str
    kind: str
    value: str


def things() -> st.SearchStrategy[Thing]:
    place = st.sampled_from(PLACES)
    link = st.builds(Thing, place, st.just("link"), st.sampled_from(TARGETS))
    relative = st.builds(
        Thing, place, st.just("inner link"), st.sampled_from([".git", ".env", ".", "issues"])
    )
    text = st.builds(Thing, place, st.just("text"), st.sampled_from(TEXTS))
    odd = st.builds(Thing, place, st.sampled_from(["pipe", "socket", "folder", "huge", "home"]), st.just(""))
    return st.one_of(link, link, relative, text, text, odd)


class World:
    """Folders of somebody else around a repository, and what must stay true of them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.outside = root / "outside"
        (self.outside / "folder").mkdir(parents=True)
        (self.outside / "secret.md").write_text(f"# {CANARY}\n")
        (self.outside / "folder" / "deep.md").write_text(f"# {CANARY}\n")
        run = self.outside / "run"
        run.mkdir()
        (run / "LLD-1.log").write_text(f"2026-01-01T00:00:00.000Z out {CANARY}\n")
        (run / "summary.json").write_text(f'{{"items": [], "run_id": "{CANARY}"}}')
        (self.outside / "home" / "logs" / "parallel" / RUN).mkdir(parents=True)
        (self.outside / "home" / "checkpoints").mkdir()
        (self.outside / "home" / "checkpoints" / "lld_workflow_1.mock.db").write_text(CANARY)
        os.mkfifo(self.outside / "pipe")
        for path in sorted(self.outside.rglob("*"), reverse=True):
            os.utime(path, (1, 2), follow_symlinks=False)
        os.utime(self.outside, (1, 2))
        self.before = self.state()

    def state(self) -> dict[str, tuple[float, ...]]:
        """Names, sizes and times; also the time of the last read, which is before all others here."""
        found: dict[str, tuple[float, ...]] = {}
        for path in [self.outside, *sorted(self._paths(self.outside))]:
            info = path.lstat()
            found[str(path)] = (info.st_mode, info.st_size, info.st_atime, info.st_mtime, info.st_nlink)
        return found

    def _paths(self, folder: Path) -> Iterator[Path]:
        with os.scandir(folder) as entries:
            children = list(entries)
        os.utime(folder, (1, folder.lstat().st_mtime))  # our own look does not count
        for entry in children:
            yield Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                yield from self._paths(Path(entry.path))

    def put(self, project: Project, thing: Thing) -> None:
        path = project.root / thing.place
        with contextlib.suppress(OSError):
            if any(above.is_symlink() for above in path.parents if above.is_relative_to(project.root)):
                return  # what is behind a link of ours is not ours to make
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            path.unlink(missing_ok=True)
            self._make(path, thing)

    def _make(self, path: Path, thing: Thing) -> None:
        match thing.kind:
            case "link":
                path.symlink_to(f"{self.outside}{thing.value}")
            case "inner link":
                above = "../" * (len(Path(thing.place).parts) - 1)
                path.symlink_to(f"{above}{thing.value}")
            case "text":
                path.write_bytes(thing.value.encode("latin-1"))
            case "pipe":
                os.mkfifo(path)
            case "socket":
                make_socket(path)
            case "huge":
                with path.open("wb") as file:
                    file.truncate(10**11)
            case "folder":
                path.mkdir()
            case "home":
                path.mkdir(mode=0o700)
                for name in ("logs", "checkpoints"):
                    (path / name).mkdir(mode=0o700)


def attack(warm: WarmServer | None, brought: list[Thing], *, used: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        world = World(Path(folder))
        with new_project(Path(folder), warm=warm) as project:
            project.issue(1)
            project.write(".env", f"PASSWORD={CANARY}\n")
            if used:
                assert project.lld("--all").code == Exit.OK
            for thing in brought:
                world.put(project, thing)
            for args in COMMANDS:
                result = project.run(*args, timeout=60)
                assert result.code in ENDS, result
                result.assert_no_traceback()
                assert CANARY not in result.text, result
            after = world.state()
            assert after == world.before, {
                name: (world.before.get(name), after.get(name))
                for name in world.before.keys() | after.keys()
                if world.before.get(name) != after.get(name)
            }
            assert not list(holding(project.root, CANARY.encode()))


def holding(root: Path, words: bytes) -> Iterator[Path]:
    """Files of the repository, not behind links, that have the words in them; apart from its own .env."""
    for place, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not (Path(place) / name).is_symlink()]
        for name in files:
            path = Path(place) / name
            if path == root / ".env" or not path.is_file() or path.is_symlink():
                continue
            if path.stat().st_size < 10**9 and words in path.read_bytes():
                yield path


@settings(
    max_examples=4,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(brought=st.lists(things(), min_size=1, max_size=6), used=st.booleans())
# Few are tried here, so those come first that earlier versions did not stand.
@example(brought=[Thing(".agentos/logs/parallel", "link", "")], used=True)
@example(brought=[Thing("issues/active/2.md", "inner link", ".env")], used=False)
@pytest.mark.slow
def test_a_hostile_repository_does_no_harm(warm: WarmServer | None, brought: list[Thing], used: bool) -> None:
    attack(warm, brought, used=used)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("number", range(20))
def test_two_thousand_hostile_repositories_do_no_harm(warm_server: WarmServer, number: int) -> None:
    @seed(number)
    @settings(
        max_examples=100,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(brought=st.lists(things(), min_size=1, max_size=8), used=st.booleans())
    def examples(brought: list[Thing], used: bool) -> None:
        attack(warm_server, brought, used=used)

    examples()
