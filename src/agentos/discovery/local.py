"""Items from Markdown files in the worktree. A file that cannot be used becomes an item that says why."""

import hashlib
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from agentos.errors import ListingError, UsageError
from agentos.model import Item, check_distinct, check_id
from agentos.stamp import split
from agentos.store.files import inside

MAX_ITEM_BYTES = 1_000_000
_HEADING = re.compile(r"#{1,6}\s")
_NUMBERED = re.compile(r"(\d+)(?:-.*)?")


def issue_id(stem: str) -> str:
    """`42` and `42-some-title` are item 42, anything else is its own id."""
    numbered = _NUMBERED.fullmatch(stem)
    return numbered[1] if numbered else stem


def brief_id(stem: str) -> str:
    """The slug of a brief: its file's name, with anything but letters, digits, `_` and `-` made a dash."""
    plain = unicodedata.normalize("NFKD", stem).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9_]+", "-", plain).strip("-") or stem


def list_files(
    worktree: Path, folder: str, *, workflow: str, prefix: str, id_of: Callable[[str], str]
) -> tuple[Item, ...]:
    """List every item of the folder in the order people count: 2 before 10, numbers before words."""
    root = inside(worktree, Path(folder) / "any").parent
    try:
        names = sorted(entry.name for entry in os.scandir(root) if entry.name.endswith(".md"))
    except FileNotFoundError:
        return ()
    except OSError as exc:
        raise ListingError(f"Cannot list {root}: {exc.strerror or exc}.") from exc
    found = [Path(folder) / name for name in names if not name.startswith(".")]
    return _items(worktree, found, workflow=workflow, prefix=prefix, id_of=id_of)


def pick(items: Sequence[Item], wanted: Iterable[str], *, folder: str, what: str) -> tuple[Item, ...]:
    """Choose items by id or label; an id that is not there is refused, with the ones that are."""
    chosen: dict[str, Item] = {}
    by_id = {item.id: item for item in items} | {item.label: item for item in items}
    for one in wanted:
        found = by_id.get(one)
        if found is None:
            check_id(one)
            known = ", ".join(item.id for item in items[:10]) + (", ..." if len(items) > 10 else "")
            raise UsageError(
                f"No {what} {one!r} in {folder}. " + (f"There are: {known}." if known else "It is empty.")
            )
        chosen[found.id] = found
    return tuple(chosen.values())


def _items(
    worktree: Path, files: Iterable[Path], *, workflow: str, prefix: str, id_of: Callable[[str], str]
) -> tuple[Item, ...]:
    items: dict[str, Item] = {}
    for path in files:
        item_id = id_of(path.stem)
        try:
            check_id(item_id)
        except UsageError as exc:
            raise UsageError(f"{path}: {exc} Rename the file.") from exc
        if item_id in items:
            raise UsageError(
                f"{items[item_id].source} and {path} are both item {item_id!r}; rename one of them."
            )
        items[item_id] = _read(
            worktree, path, workflow=workflow, label=f"{prefix}-{item_id}", item_id=item_id
        )
    check_distinct(items)
    return tuple(sorted(items.values(), key=_counting_order))


def _counting_order(item: Item) -> tuple[int, int, str]:
    return (0, int(item.id), "") if item.id.isdigit() else (1, 0, item.id)


def _read(worktree: Path, path: Path, *, workflow: str, label: str, item_id: str) -> Item:
    text, problem = "", None
    try:
        real = Path(os.path.realpath(inside(worktree, path)))
        if not real.is_relative_to(os.path.realpath(worktree)):
            problem = f"{path} is a link that leads outside the worktree"
        elif not real.is_file():
            problem = f"{path} is not a regular file"
        else:
            with real.open("rb") as file:
                data = file.read(MAX_ITEM_BYTES + 1)
            text, problem = _decode(data, path)
    except OSError as exc:
        problem = f"{path} cannot be read: {exc.strerror or exc}"
    taken = split(text)  # a stamp is no part of what is asked for
    return Item(
        workflow=workflow,
        id=item_id,
        label=label,
        title=_title(taken.body) or item_id,
        text=taken.body,
        source=os.fsencode(path).decode("utf-8", errors="backslashreplace"),
        problem=problem,
        by_mock=taken.by_mock and taken.unchanged is not False,
        old_hash="" if taken.stamp is None else hashlib.sha256(text.encode()).hexdigest(),
    )


def _decode(data: bytes, path: Path) -> tuple[str, str | None]:
    if len(data) > MAX_ITEM_BYTES:
        return "", f"{path} is larger than {MAX_ITEM_BYTES:,} bytes; split it into smaller items"
    if b"\0" in data:
        return "", f"{path} is a binary file, not text"
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        return "", f"{path} is not UTF-8 text (byte {exc.start}); save it as UTF-8"
    if not _without_comments(text).strip():
        return "", f"{path} is empty; describe what is wanted"
    return text.replace("\r\n", "\n"), None


def _without_comments(text: str) -> str:
    """Cut HTML comments out; one that is not closed goes on to the end."""
    first, *rest = text.split("<!--")
    return first + "".join(part.partition("-->")[2] for part in rest)


def _title(text: str) -> str:
    lines = [line.strip() for line in _without_comments(text).splitlines() if line.strip()]
    headings = (line.strip("#").strip() for line in lines if _HEADING.match(line))
    title = next((heading for heading in headings if heading), lines[0] if lines else "")
    return "".join(char for char in title if char.isprintable())[:120]
