"""The texts of tracked files: the commit's, or the worktree's where it differs. Coordinator process."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from agentos.git_tracked import decrypted_by
from agentos.repo_map.file_kinds import MAX_FILE_BYTES, decoded
from agentos.repo_map.git_state import Git, blob_id, read_worktree
from agentos.store.rooted_tree import TooLarge, Tree

BATCH_BYTES = 24_000_000  # read at once
KEPT_CHARACTERS = 40_000_000  # of texts that stay in memory

TOO_LARGE = f"larger than {MAX_FILE_BYTES:,} bytes"
NOT_TEXT = "not text"
NOT_HERE = "its text is not in this clone"
# How an encrypted file begins that git keeps as text: openssl (transcrypt), age, PGP, Ansible.
_CIPHERTEXT = ("U2FsdGVkX1", "-----BEGIN AGE ENCRYPTED", "-----BEGIN PGP MESSAGE", "$ANSIBLE_VAULT;")
_IN_WORKTREE = "worktree:"  # instead of a blob id, for a file that could not be read


@dataclass(frozen=True)
class Unusable:
    """A text that cannot be had."""

    why: str


class Texts:
    """Reads texts by their blob id, many at a time, and keeps them as long as there is room."""

    def __init__(self, git: Git) -> None:
        self._git = git
        self._kept: dict[str, str | Unusable] = {}
        self._room = KEPT_CHARACTERS
        self.known_small: AbstractSet[str] = (
            frozenset()
        )  # texts that were read before: their size need not be asked

    def read_changed(self, tree: Tree, path: str, like: str) -> str:
        """Read the worktree's version of a file; return the blob id that git would give it."""
        try:
            data = read_worktree(tree, path, MAX_FILE_BYTES)
        except TooLarge:
            return self._unusable(_IN_WORKTREE + path, TOO_LARGE)
        except OSError as exc:
            return self._unusable(_IN_WORKTREE + path, f"cannot be read: {exc.strerror or exc}")
        blob = blob_id(data, like)
        text = decoded(data)
        self._kept[blob] = Unusable(NOT_TEXT) if text is None else text
        return blob

    def decrypted(self, versions: Mapping[str, Collection[str]]) -> dict[str, str]:
        """Why the worktree's text of a file must not be sent, by path: it may be decrypted.

        What the commit has decides, whatever .gitattributes says: a pull request can change that file. Git's
        filter decides too, because it may encrypt into any text. Pointers of Git LFS are texts.
        """
        read = dict(self.each(blob for blobs in versions.values() for blob in blobs))
        found: dict[str, str] = {}
        for path, name in self._git.filters(versions.keys()).items():
            if why := decrypted_by(name):
                found[path] = why
        for path, blobs in versions.items():
            for text in (read[blob] for blob in blobs):
                if isinstance(text, Unusable) or text.startswith(_CIPHERTEXT):
                    what = text.why if isinstance(text, Unusable) else "encrypted"
                    found.setdefault(path, f"its text in the worktree may be decrypted (in git: {what})")
        return found

    def get(self, blob: str) -> str | None:
        """One text; None if it cannot be had."""
        found = dict(self.each([blob])).get(blob)
        return found if isinstance(found, str) else None

    def each(self, blobs: Iterable[str]) -> Iterator[tuple[str, str | Unusable]]:
        """Yield every text, or why it cannot be had; texts come in batches of bounded size."""
        wanted: list[str] = []
        for blob in dict.fromkeys(blobs):
            if blob in self._kept:
                yield blob, self._kept[blob]
            else:
                wanted.append(blob)
        # A few texts fit into one batch, however large they are; of more, every size must be known.
        few = len(wanted) * MAX_FILE_BYTES <= BATCH_BYTES
        unknown = [blob for blob in wanted if blob not in self.known_small] if few else wanted
        sizes = self._git.sizes(unknown) if unknown else {}
        for batch in _batches([blob for blob in wanted if sizes.get(blob, 0) <= MAX_FILE_BYTES], sizes):
            texts = self._git.texts(batch)
            for blob in batch:
                yield blob, self._keep(blob, texts.get(blob))
        for blob in wanted:
            if sizes.get(blob, 0) > MAX_FILE_BYTES:
                self._kept[blob] = Unusable(TOO_LARGE)
                yield blob, self._kept[blob]

    def _keep(self, blob: str, data: bytes | None) -> str | Unusable:
        text = None if data is None else decoded(data)
        if text is None:
            found: str | Unusable = Unusable(NOT_HERE if data is None else NOT_TEXT)
        else:
            found = text
            self._room -= len(text)
        if self._room > 0 or text is None:
            self._kept[blob] = found
        return found

    def _unusable(self, blob: str, why: str) -> str:
        self._kept[blob] = Unusable(why)
        return blob


def is_lasting(blob: str, why: str) -> bool:
    """Whether a text will always be unusable, not only now and here."""
    return not blob.startswith(_IN_WORKTREE) and why != NOT_HERE


def _batches(blobs: Sequence[str], sizes: Mapping[str, int]) -> Iterator[list[str]]:
    batch: list[str] = []
    room = BATCH_BYTES
    for blob in blobs:
        batch.append(blob)
        room -= sizes.get(blob, MAX_FILE_BYTES)
        if room <= 0:
            yield batch
            batch, room = [], BATCH_BYTES
    if batch:
        yield batch
