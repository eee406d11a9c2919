"""Reads items from Markdown files in the worktree. An unusable file becomes an item with a problem."""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agentos.discovery.frontmatter import read_front_matter
from agentos.errors import ListingError, UsageError
from agentos.model import Item, available, check_id
from agentos.naming import IdOf, check_name, ids_named, is_id, is_path, proposal, safe_name
from agentos.stamp import split
from agentos.store.rooted_tree import PathRefused, TooLarge, why_unreadable, worktree_tree

MAX_ITEM_BYTES = 1_000_000
_HEADING = re.compile(r"#{1,6}\s")


@dataclass(frozen=True, kw_only=True)
class Folder:
    """Where the items of one workflow are, and how a file's name becomes an id."""

    worktree: Path
    path: str
    workflow: str
    prefix: str
    id_of: IdOf

    def files(self) -> tuple[Path, ...]:
        """List every file that is an item, usable or not."""
        try:
            entries = worktree_tree(self.worktree).entries(Path(self.path))
        except FileNotFoundError:
            return ()
        except PathRefused as exc:
            raise UsageError(f"Cannot list {self.path}: {exc.strerror}.") from exc
        except OSError as exc:
            raise ListingError(f"Cannot list {self.path}: {exc.strerror or exc}.") from exc
        names = (one.name for one in entries if one.name.endswith(".md"))
        return tuple(Path(self.path) / name for name in names if not name.startswith("."))

    def read(self, path: Path, item_id: str) -> Item:
        label = f"{self.prefix}-{item_id}"
        return _read(self.worktree, path, workflow=self.workflow, label=label, item_id=item_id)


def list_files(place: Folder) -> tuple[Item, ...]:
    """List every item in natural order: 2 before 10, numbers before words, unusable names last."""
    id_of = place.id_of
    files = place.files()
    sharing: dict[str, list[Path]] = {}  # ids that differ only in case would be the same on some disks
    for path in files:
        if is_id(id_of(path.stem)):
            sharing.setdefault(id_of(path.stem).lower(), []).append(path)
    good: list[Item] = []
    bad: list[tuple[Path, str]] = []
    for path in files:
        if problem := _name_problem(path, sharing, id_of):
            bad.append((path, problem))
        else:
            good.append(place.read(path, id_of(path.stem)))
    return (*sorted(good, key=_counting_order), *_refused(place, files, bad))


def _name_problem(path: Path, sharing: Mapping[str, Sequence[Path]], id_of: IdOf) -> str | None:
    """Say why a file's name cannot be used; `sharing` has the files of every usable id, in lower case."""
    item_id = id_of(path.stem)
    try:
        check_id(item_id)
    except UsageError as exc:
        return str(exc)
    others = [other for other in sharing[item_id.lower()] if other != path]
    same = [other for other in others if id_of(other.stem) == item_id]
    if same:
        return f"Item {item_id!r} is also in {_listed(same)}."
    return f"Its id differs from the id of {_listed(others)} only in case." if others else None


def _refused(place: Folder, files: Sequence[Path], bad: Iterable[tuple[Path, str]]) -> Iterator[Item]:
    """Make items for files whose names cannot be used, each with a name that the file could have."""
    taken = _taken(place, files)
    shown: set[str] = set()
    for path, problem in bad:
        name = safe_name(path.name, shown)
        shown.add(name)
        item = place.read(path, name)
        better = proposal(path.stem, title=item.title, id_of=place.id_of, taken=taken)
        taken |= {place.id_of(better).lower(), f"{better}.md".lower()}
        yield replace(item, problem=f"{item.source}: rename it to {better}.md. {problem}")


def _taken(place: Folder, files: Iterable[Path]) -> set[str]:
    """Return the ids and names that are taken, in lower case."""
    return {name.lower() for path in files for name in (place.id_of(path.stem), path.name)}


def pick_files(place: Folder, wanted: Iterable[str], *, what: str) -> tuple[Item, ...]:
    """Read the items named by id, label, stem or file, whatever else is in the folder."""
    files = place.files()
    chosen: dict[str, Path] = {}
    for one in wanted:
        path = _file_named(place, files, one) if is_path(one) else _file_meant(place, files, one, what)
        item_id = place.id_of(path.stem)
        other = chosen.setdefault(item_id, path)
        if other != path:
            raise UsageError(f"{_listed([other, path])} are both item {item_id!r}; name one of them.")
    return tuple(place.read(path, item_id) for item_id, path in chosen.items())


def _file_meant(place: Folder, files: Sequence[Path], name: str, what: str) -> Path:
    by_id: dict[str, list[Path]] = {}
    for path in files:
        if is_id(place.id_of(path.stem)):
            by_id.setdefault(place.id_of(path.stem), []).append(path)
    item_id = next((one for one in ids_named(name, place.prefix, place.id_of) if one in by_id), None)
    if item_id is None:
        check_name(name)
        ids = sorted(by_id, key=_counted)
        there = available(ids, none="The folder is empty.")
        raise UsageError(f"No {what} {name!r} in {place.path}. {there}")
    first, *others = sorted(by_id[item_id], key=lambda path: len(path.name))
    if others:
        better = proposal(others[0].stem, title="", id_of=place.id_of, taken=_taken(place, files))
        raise UsageError(
            f"{_listed([first, *others])} are item {item_id!r}. Rename {_shown(others[0])} to {better}.md, "
            f"or name one by its path."
        )
    return first


def _file_named(place: Folder, files: Sequence[Path], name: str) -> Path:
    """Find a file by its path from here, from the worktree's root, or in the folder of items."""
    given = Path(name)
    folder = Path(os.path.realpath(place.worktree / place.path))
    starts = (Path(), place.worktree, *((folder,) if given.name == name else ()))
    path = Path(place.path) / given.name
    if path not in files or all(Path(os.path.realpath((start / given).parent)) != folder for start in starts):
        raise UsageError(
            f"{_shown(given)} is not a file in {place.path}. Put it there, or name a file that is."
        )
    try:
        check_id(place.id_of(path.stem))
    except UsageError as exc:
        better = proposal(path.stem, title="", id_of=place.id_of, taken=_taken(place, files))
        raise UsageError(f"{_shown(path)}: rename it to {better}.md. {exc}") from exc
    return path


def _shown(path: Path) -> str:
    """Return a path that can be printed and sent, whatever bytes its name has."""
    text = os.fsencode(path).decode("utf-8", errors="backslashreplace")
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _listed(paths: Iterable[Path]) -> str:
    return " and ".join(map(_shown, paths))


def _counting_order(item: Item) -> tuple[int, int, str]:
    return _counted(item.id)


def _counted(item_id: str) -> tuple[int, int, str]:
    return (0, int(item_id), "") if item_id.isdecimal() else (1, 0, item_id)


def _read(worktree: Path, path: Path, *, workflow: str, label: str, item_id: str) -> Item:
    text, problem = "", None
    shown = _shown(path)
    try:
        text, problem = _decode(worktree_tree(worktree).read(path, MAX_ITEM_BYTES), shown)
    except OSError as exc:
        problem = f"{shown} {why_unreadable(exc)}"
        problem += "; split it into smaller items" if isinstance(exc, TooLarge) else ""
    taken = split(text)  # a stamp is not part of the request
    about = read_front_matter(taken.body)
    return Item(
        workflow=workflow,
        id=item_id,
        label=label,
        title=_one_line(about.title) or _title(about.body) or item_id,
        text=taken.body,
        source=shown,
        problem=problem,
        labels=about.labels,
        context=about.context,
        by_mock=taken.by_mock and taken.unchanged is not False,
        old_hash="" if taken.stamp is None else hashlib.sha256(text.encode()).hexdigest(),
    )


def _decode(data: bytes, shown: str) -> tuple[str, str | None]:
    if b"\0" in data:
        return "", f"{shown} is a binary file, not text"
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        return "", f"{shown} {why_unreadable(exc)}; save it as UTF-8"
    text = text.replace("\r\n", "\n")
    about = read_front_matter(text)
    if not about.title and not _without_comments(about.body).strip():
        return "", f"{shown} is empty; describe what you want"
    return text, None


def _without_comments(text: str) -> str:
    """Remove HTML comments; one that is not closed extends to the end."""
    first, *rest = text.split("<!--")
    return first + "".join(part.partition("-->")[2] for part in rest)


def _title(text: str) -> str:
    lines = [line.strip() for line in _without_comments(text).splitlines() if line.strip()]
    headings = (line.strip("#").strip() for line in lines if _HEADING.match(line))
    title = next((heading for heading in headings if heading), lines[0] if lines else "")
    return _one_line(title)


def _one_line(title: str) -> str:
    return "".join(char for char in title if char.isprintable())[:120]
