"""The lineage of an item: a numbered paper trail in the worktree, one folder a run. Worker process.

Every operation can be repeated after a crash with the same result.
"""

import shutil
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from agentos.store.files import inside, sync_folder, write_atomic


@dataclass(frozen=True, kw_only=True)
class Lineage:
    """The trail of one item; `name` is such as `42-lld`."""

    worktree: Path
    folder: str  # such as docs/lineage
    name: str

    @property
    def active(self) -> Path:
        # Asked for a file in it, so that the folder itself may not be a link that leads outside.
        return inside(self.worktree, Path(self.folder) / "active" / self.name / "any").parent

    def _done(self, name: str) -> Path:
        return inside(self.worktree, Path(self.folder) / "done" / name / "any").parent

    def begin(self, kind: str, text: str) -> str:
        """Start the trail with the item's text; return the name it will have when done."""
        first = self.active / file_name(1, kind)
        if self.active.exists():
            just_begun = {entry.name for entry in self.active.iterdir() if entry.suffix == ".md"} <= {
                first.name
            }
            if not just_begun:
                # An earlier run of this item was given up; its trail is kept, apart from the new one.
                self._move(self._free_name())
        write_atomic(first, text)
        return self._free_name()

    def write(self, number: int, kind: str, text: str) -> None:
        write_atomic(self.active / file_name(number, kind), text)

    def finish(self, done_name: str, number: int, text: str) -> Path:
        """Write the final document and move the trail to done; harmless when that has happened already."""
        done = self._done(done_name)
        if not done.exists():
            self.write(number, "final", text)
            self._move(done_name)
        return done

    def _free_name(self) -> str:
        names = (self.name if number == 1 else f"{self.name}-{number}" for number in count(1))
        return next(name for name in names if not self._done(name).exists())

    def _move(self, done_name: str) -> None:
        done = self._done(done_name)
        done.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(self.active, done)
        sync_folder(done.parent)


def file_name(number: int, kind: str) -> str:
    return f"{number:03d}-{kind}.md"
