"""A real git repository in a temporary folder."""

import os
import subprocess
from pathlib import Path

from agentos.model import Item
from agentos.repo_map.file_kinds import MapOptions
from agentos.repo_map.repository import TrackedRepository
from agentos.store.rooted_tree import Tree

ENVIRONMENT = {
    "PATH": "/usr/bin:/bin:/usr/local/bin",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
}
_AUTHOR = ("-c", "user.name=A", "-c", "user.email=a@example.invalid", "-c", "commit.gpgsign=false")


class GitProject:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q", "-b", "main")

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *_AUTHOR, *arguments], cwd=self.folder, env=ENVIRONMENT, check=True, capture_output=True
        )
        return done.stdout.decode()

    def put(self, name: str | bytes, content: str | bytes = "text\n") -> Path:
        path = self.folder / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def commit(self, message: str = "Change") -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)

    def open(
        self,
        options: MapOptions | None = None,
        *,
        cache: Path | None = None,
        write: bool = True,
        folder: Path | None = None,
    ) -> TrackedRepository:
        found = self.try_open(options, cache=cache, write=write, folder=folder)
        assert found is not None
        return found

    def try_open(
        self,
        options: MapOptions | None = None,
        *,
        cache: Path | None = None,
        write: bool = True,
        folder: Path | None = None,
    ) -> TrackedRepository | None:
        return TrackedRepository.at(
            folder or self.folder,
            ENVIRONMENT,
            options=options or MapOptions(),
            cache=None if cache is None else Tree(cache),
            write_cache=write,
        )


def item(title: str, text: str = "") -> Item:
    return Item(workflow="lld", id="42", label="LLD-42", title=title, text=text, source="test")
