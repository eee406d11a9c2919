"""The tree of tracked files as text, folded until it fits. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from agentos.model import counted
from agentos.repo_map.file_kinds import shown
from agentos.repo_map.path_kinds import FileKind, kind_of

MAX_FILES = 60  # listed in one folder; the rest is counted
_INDENT = "  "


@dataclass
class _Folder:
    path: str  # "" is the root
    folders: dict[str, "_Folder"] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    size: int = 0  # files in it and below
    sources: int = 0

    def lines(self, depth: int, opened: Mapping[str, object]) -> Iterable[str]:
        """One line per entry; a folder that is not open is one line."""
        for name, folder in sorted(self.folders.items()):
            yield f"{_INDENT * depth}{_closed_line(name, folder, is_open=folder.path in opened)}"
            if folder.path in opened:
                yield from folder.lines(depth + 1, opened)
        yield from (_INDENT * depth + line for line in self.file_lines())

    def file_lines(self) -> list[str]:
        names = sorted(self.files)
        rest = len(names) - MAX_FILES
        return names if rest <= 0 else [*names[:MAX_FILES], f"... and {counted(rest, 'more file')}"]


def draw_tree(paths: Iterable[str], *, most: int) -> str:
    """Draw the tree in at most so many characters; folders near the root and with sources open first."""
    root = _grown(paths)
    opened: dict[str, None] = {}
    used = _entries_size(root, 0)
    if used > most:
        whole = f"{counted(root.size, 'file')} in {counted(len(root.folders), 'folder')}\n"
        return whole if len(whole) <= most else ""
    waiting = [(1, -folder.sources, folder.path, folder) for folder in root.folders.values()]
    heapify(waiting)
    while waiting:
        depth, _, _, folder = heappop(waiting)
        cost = _entries_size(folder, depth)  # at most: its own line becomes shorter
        if used + cost <= most:
            opened[folder.path] = None
            used += cost
            for one in folder.folders.values():
                heappush(waiting, (depth + 1, -one.sources, one.path, one))
    return "".join(f"{line}\n" for line in root.lines(0, opened))


def _grown(paths: Iterable[str]) -> _Folder:
    root = _Folder("")
    for path in paths:
        *above, name = path.split("/")
        source = kind_of(path) is FileKind.SOURCE
        folder = root
        folder.size += 1
        folder.sources += source
        for part in above:
            inner = f"{folder.path}/{part}" if folder.path else part
            folder = folder.folders.setdefault(part, _Folder(inner))
            folder.size += 1
            folder.sources += source
        folder.files.append(shown(name))
    return root


def _entries_size(folder: _Folder, depth: int) -> int:
    """The characters of the lines that an open folder adds."""
    lines = [_closed_line(name, inner, is_open=False) for name, inner in folder.folders.items()]
    return sum(len(_INDENT) * depth + len(line) + 1 for line in (*lines, *folder.file_lines()))


def _closed_line(name: str, folder: _Folder, *, is_open: bool) -> str:
    return f"{shown(name)}/" if is_open else f"{shown(name)}/ ({counted(folder.size, 'file')})"
