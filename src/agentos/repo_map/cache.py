"""What was read from texts, kept in the home by blob id, so that the next run need not read them again.

Coordinator process. The cache consists of packs: whole files that are written once and never changed. A pack
that is damaged, or cannot be read or written, is ignored: it only saves time.
"""

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path, PurePath
from typing import Any
from zlib import crc32

from agentos.errors import StorageError
from agentos.repo_map.word_index import WordIndex
from agentos.store.rooted_tree import PRIVATE_FILE, Tree

FOLDER = PurePath("context")  # in the home
# What is kept depends on these: a pack that was made by other rules is ignored.
_RULES = (
    "cache", "file_kinds", "history", "parsed", "ranking", "repository", "tag_parser", "tags", "texts",
    "word_index", "words",
)  # fmt: skip
MAX_PACK_BYTES = 80_000_000
MAX_BYTES = 200_000_000  # of all packs; the oldest are removed
MAX_FILES = 40
MAX_PACKS = 6  # of one kind in use; more are put together
_LENGTH = 4  # bytes of the length of a part
_LIVE_SHARE = 0.5  # of a pack's texts that must still be in use


@dataclass(frozen=True)
class WordPack:
    """The words of some texts, and the texts that are left out."""

    name: str
    index: WordIndex
    left_out: Mapping[str, str]  # why, by blob

    @property
    def blobs(self) -> frozenset[str]:
        return frozenset(self.index.names) | frozenset(self.left_out)


class MapCache:
    """Reads and writes packs; without a home it is always empty."""

    def __init__(self, home: Tree | None, *, write: bool) -> None:
        self._home = home
        self._tree = None if home is None else Tree(Path(home.root, FOLDER))
        self._write = write and home is not None

    def words(self, live: frozenset[str]) -> list[WordPack]:
        """The packs that hold words of texts in use; few and large ones, the others are made again."""
        found: list[WordPack] = []
        for name, data in self._packs("words"):
            with contextlib.suppress(ValueError, AttributeError):
                pack = _word_pack(name, data)
                if not pack.blobs.isdisjoint(live):
                    found.append(pack)
        found.sort(key=lambda pack: (-len(pack.blobs & live), pack.name))
        useful = [pack for pack in found if len(pack.blobs & live) >= _LIVE_SHARE * len(pack.blobs)]
        return useful if len(found) <= MAX_PACKS else useful[:1]

    def put_words(self, index: WordIndex, left_out: Mapping[str, str], used: Iterable[WordPack]) -> None:
        """Keep the words of new texts; packs that are not `used` any more make room."""
        head = json.dumps(dict(left_out)).encode()
        body = len(head).to_bytes(_LENGTH, "big") + head + index.to_bytes()
        if (name := self._put("words", body)) is not None:
            mine = frozenset(index.names) | frozenset(left_out)
            kept = {pack.name for pack in used} | {name}
            for other, data in self._packs("words"):
                if other not in kept and _all_in(data, mine):
                    self._remove(other)

    def index(self, about: str, state: str, build: Callable[[], WordIndex]) -> WordIndex:
        """The words about each file in this state: kept from before, or built and kept."""
        for name, data in self._packs(f"{about}-{state}-") if state else ():
            with contextlib.suppress(ValueError):
                return WordIndex.from_bytes(data)
            self._remove(name)
        built = build()
        if not state:
            return built
        kept = self._put(f"{about}-{state}", built.to_bytes())
        old = [name for name, _ in self._packs(f"{about}-") if name != kept]
        for name in old[3:] if kept is not None else ():
            self._remove(name)
        return built

    def tags(self) -> dict[str, Any]:
        """What was parsed, by blob."""
        found: dict[str, Any] = {}
        for _, data in self._packs("tags"):
            with contextlib.suppress(ValueError, TypeError):
                found.update(json.loads(bytes(data)))
        return found

    def put_tags(self, new: Mapping[str, Any]) -> None:
        """Keep what was parsed; small packs are put together."""
        old = [(name, data) for name, data in self._packs("tags") if len(data) < MAX_PACK_BYTES // 4]
        together: dict[str, Any] = {}
        if len(old) >= MAX_PACKS:
            for _, data in old:
                with contextlib.suppress(ValueError, TypeError):
                    together.update(json.loads(bytes(data)))
        kept = self._put("tags", json.dumps(together | dict(new)).encode())
        for name, _ in old if together and kept is not None else ():
            self._remove(name)

    def _packs(self, start: str) -> Iterator[tuple[str, memoryview]]:
        """Yield the intact packs whose name starts so, the newest first."""
        if self._tree is None:
            return
        try:
            entries = [one for one in self._tree.entries(PurePath()) if one.is_file]
        except OSError:
            return
        for entry in sorted(entries, key=lambda one: (-one.modified, one.name)):
            if entry.name.startswith(start) and not entry.name.endswith(".tmp"):
                with contextlib.suppress(OSError, ValueError):
                    yield entry.name, _opened(self._tree.read(PurePath(entry.name), MAX_PACK_BYTES))

    def _put(self, start: str, body: bytes) -> str | None:
        """Write a pack; None if it cannot be written."""
        if not self._write or self._home is None or self._tree is None or len(body) > MAX_PACK_BYTES - 200:
            return None
        name = f"{start}-{hashlib.sha256(body).hexdigest()[:16]}"
        try:
            self._home.make_private(FOLDER)
            with self._tree.alone():  # another run may write at the same moment
                if not self._tree.exists(PurePath(name)):
                    self._tree.write(PurePath(name), _head(crc32(body)) + body, mode=PRIVATE_FILE)
                self._make_room(name)
        except (OSError, StorageError):
            return None
        return name

    def _make_room(self, new: str) -> None:
        assert self._tree is not None
        room = MAX_BYTES
        entries = sorted(self._tree.entries(PurePath()), key=lambda one: (one.name != new, -one.modified))
        for number, entry in enumerate(entries):
            room -= entry.size
            if room < 0 or number >= MAX_FILES:
                self._remove(entry.name)

    def _remove(self, name: str) -> None:
        if self._write and self._tree is not None:
            with contextlib.suppress(OSError):
                self._tree.remove(PurePath(name))


def _word_pack(name: str, data: memoryview) -> WordPack:
    """Read a pack of words. Raises ValueError or AttributeError if it is something else."""
    size = int.from_bytes(data[:_LENGTH], "big")
    head, body = bytes(data[_LENGTH : _LENGTH + size]), data[_LENGTH + size :]
    left_out = {str(blob): str(why) for blob, why in json.loads(head).items()}
    return WordPack(name, WordIndex.from_bytes(body), left_out)


@cache
def rules_checksum() -> int:
    """A checksum of the code that decides what is kept: which files are left out, and what a word is."""
    found = 0
    for name in _RULES:
        found = crc32(files("agentos.repo_map").joinpath(f"{name}.py").read_bytes(), found)
    return found


def _head(checksum: int) -> bytes:
    return f"agentos context {rules_checksum():08x} {checksum:08x}\n".encode()


def _opened(data: bytes) -> memoryview:
    """The content of a pack. Raises ValueError if it is damaged or made by other rules."""
    body = memoryview(data)[len(_head(0)) :]
    if not data.startswith(_head(crc32(body))):
        raise ValueError("not an intact pack")
    return body


def _all_in(data: memoryview, blobs: frozenset[str]) -> bool:
    """Whether everything in a pack of words is in another one too."""
    with contextlib.suppress(ValueError, AttributeError):
        return blobs >= _word_pack("", data).blobs
    return True
