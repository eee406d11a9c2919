"""Documents in the worktree: whose is the one that is there, and replacing it without losing a word."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path, PurePath

import pytest

from agentos.decisions import Decision
from agentos.end_matter import NO_END, EndMatter, take_end, with_end
from agentos.errors import ItemFailed, StorageError, UsageError
from agentos.stamp import Stamp, seal
from agentos.store import documents
from agentos.store.documents import MAX_DOCUMENT_BYTES, Author, find_document, put_in_place
from agentos.store.lineage import Lineage
from agentos.store.rooted_tree import Tree as Files

NAME = Path("docs/lld/active/LLD-42.md")
HASH = hashlib.sha256(b"the issue").hexdigest()
END = EndMatter(
    decisions=(Decision(question="Which?", text="Less.", by="ann", at="2026-01-01", used=True),),
    log=("- 2 reviews by a:b, 1 Jan 2026; details in `docs/lineage/done/42-lld`",),
)
LOG = "\n## Review Log\n\n| review |\n| --- |\n| 1 |\n"


def sealed(body: str = "# Ours\n", by: str = "a+b", item: str = "LLD-42") -> str:
    return seal(body, item=item, input_hash=HASH, by=by)


OURS = sealed()
NEW = sealed("# The new one\n")
EDITED = OURS.replace("# Ours", "# Ours and mine")
FIRST_VERSION = f"<!-- agentos: item=LLD-42 input=sha256:{HASH} -->\n"


class Tree:
    """A worktree with a document's place and the trail of its item, which has begun."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lineage = Lineage(worktree=root, folder="docs/lineage", name="42-lld")
        self.lineage.begin("issue", "the issue", "run-1")
        self.target = root / NAME
        self.target.parent.mkdir(parents=True)

    def find(self) -> documents.Found | None:
        return find_document(self.root, NAME, "LLD-42", self.lineage)

    def put(self, text: str = NEW) -> list[str]:
        return put_in_place(self.root, NAME, text, label="LLD-42", lineage=self.lineage)

    def trail(self) -> dict[str, bytes]:
        """What is kept beside the issue."""
        return {path.name: path.read_bytes() for path in self.active.iterdir() if path.name[:3] != "001"}

    @property
    def active(self) -> Path:
        return self.root / self.lineage.active

    def beside(self) -> list[str]:
        return sorted(path.name for path in self.target.parent.iterdir())


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    root = tmp_path / "repo"
    root.mkdir()
    return Tree(root)


def author_of(tree: Tree) -> Author:
    found = tree.find()
    assert found is not None
    return found.author


# Whose it is.


def test_where_nothing_is_nothing_is_found(tree: Tree) -> None:
    assert tree.find() is None
    tree.target.parent.rmdir()
    assert tree.find() is None
    tree.target.parent.write_text("a file where a folder is needed")
    assert tree.find() is None


@pytest.mark.parametrize(
    ("text", "author"),
    [
        (OURS, Author.OURS),
        (OURS.replace("\n", "\r\n"), Author.OURS),
        (sealed(by="mock"), Author.OURS),
        (EDITED, Author.EDITED),
        (OURS + "More.\n", Author.EDITED),
        (f"<<<<<<< HEAD\n{OURS}=======\n{NEW}>>>>>>> x\n", Author.EDITED),
        ("# Mine\n", Author.FOREIGN),
        ("", Author.FOREIGN),
        (sealed(item="LLD-43"), Author.FOREIGN),
        (sealed(item="LLD-421"), Author.FOREIGN),
        (sealed(item="ISSUE-42"), Author.FOREIGN),
    ],
)
def test_the_stamp_tells_whose_a_document_is(tree: Tree, text: str, author: Author) -> None:
    tree.target.write_bytes(text.encode())
    found = tree.find()
    assert found is not None
    assert (found.author, found.path) == (author, str(NAME))
    assert (found.stamp is None) == (author is Author.FOREIGN)
    assert found.by_mock == ("by=mock" in text)
    assert found.text == text


def test_a_document_tells_which_text_it_was_written_for(tree: Tree) -> None:
    tree.target.write_text(OURS)
    found = tree.find()
    assert found is not None
    assert found.stamp is not None
    assert (found.stamp.input, found.stamp.by) == (HASH, "a+b")


def make_link(path: Path) -> None:
    other = path.parents[3].parent / "other.md"
    other.write_text(OURS)
    path.symlink_to(other)


def make_big(path: Path) -> None:
    path.write_text("x" * MAX_DOCUMENT_BYTES + OURS)


def make_binary(path: Path) -> None:
    path.write_bytes(b"\xff\x00" + OURS.encode())


UNREADABLE: list[Callable[[Path], object]] = [
    make_link,
    make_big,
    make_binary,
    os.mkfifo,
    Path.mkdir,
    lambda path: path.symlink_to("gone.md"),
]


@pytest.mark.parametrize("make", UNREADABLE, ids=["link", "big", "binary", "fifo", "folder", "dangling link"])
def test_what_cannot_be_read_as_text_is_not_ours(tree: Tree, make: Callable[[Path], object]) -> None:
    make(tree.target)
    found = tree.find()
    assert found is not None
    assert (found.author, found.stamp, found.text, found.basis) == (Author.FOREIGN, None, None, "")


def test_nothing_is_read_outside_the_worktree(tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / NAME.name).write_text(OURS)
    tree.target.parent.rmdir()
    tree.target.parent.symlink_to(tmp_path / "outside")
    with pytest.raises(UsageError, match="active is a symbolic link, and links are not followed"):
        tree.find()
    with pytest.raises(StorageError, match="active is a symbolic link, and links are not followed"):
        tree.put()
    assert (tmp_path / "outside" / NAME.name).read_text() == OURS
    assert [path.name for path in (tmp_path / "outside").iterdir()] == [NAME.name]


# Documents of the first version, whose stamp has no hash: the trail has what was approved.


@pytest.mark.parametrize("folder", ["42-lld", "42-lld-2", "42-lld-abc123"])
@pytest.mark.parametrize(
    ("text", "author"),
    [
        (f"# Approved\n{LOG}\n{FIRST_VERSION}", Author.OURS),
        (f"# Approved\n{LOG}\n{FIRST_VERSION}".replace("\n", "\r\n"), Author.OURS),
        (f"# Approved, and more\n{LOG}\n{FIRST_VERSION}", Author.EDITED),
        (f"# Approved\n{LOG}\n## Mine\n\nMore.\n{FIRST_VERSION}", Author.EDITED),
    ],
)
def test_the_trail_tells_whose_a_document_of_the_first_version_is(
    tree: Tree, folder: str, text: str, author: Author
) -> None:
    done = tree.root / "docs/lineage/done" / folder
    done.mkdir(parents=True)
    (done / "004-final.md").write_text("# Approved\n")
    tree.target.write_bytes(text.encode())
    assert author_of(tree) is author


@pytest.mark.parametrize("folder", [None, "43-lld", "42-issue"])
def test_without_its_trail_a_document_of_the_first_version_counts_as_edited(
    tree: Tree, folder: str | None
) -> None:
    if folder:
        done = tree.root / "docs/lineage/done" / folder
        done.mkdir(parents=True)
        (done / "004-final.md").write_text("# Approved\n")
    tree.target.write_text(f"# Approved\n{LOG}\n{FIRST_VERSION}")
    assert author_of(tree) is Author.EDITED


# What a drafter revises.


@pytest.mark.parametrize(
    ("body", "basis"),
    [
        (f"# T\n\nText.\n{LOG}", "# T\n\nText.\n"),
        (f"# T\n{LOG}\n### Follow-ups\n\n- Tier 2 x\n\n## Mine\n\nMore.\n", "# T\n\n## Mine\n\nMore.\n"),
        (f"# T\n{LOG}\nBy hand.\n", "# T\n\nBy hand.\n"),
        ("# T\n\nAbout our ## Review Log\n", "# T\n\nAbout our ## Review Log\n"),
        ("# T\n\n### Review Log\n\nx\n", "# T\n\n### Review Log\n\nx\n"),
        ("", ""),
    ],
)
def test_the_review_log_is_ours_and_what_stands_after_it_is_not(body: str, basis: str) -> None:
    assert take_end(body)[0] == basis


@pytest.mark.parametrize("theirs", ["## Mine", "Mine."])
@pytest.mark.parametrize("body", [f"# Ours\n{LOG}", with_end("# Ours\n", END)])
def test_the_basis_has_neither_stamp_nor_end_and_what_a_person_wrote_below(
    tree: Tree, body: str, theirs: str
) -> None:
    tree.target.write_text(sealed(body) + f"\n{theirs}\n")
    found = tree.find()
    assert found is not None
    assert found.basis == f"# Ours\n\n{theirs}\n"
    assert found.end == (END if "agentos-end" in body else NO_END)


# Putting one in its place.


def test_a_document_is_put_where_nothing_is(tree: Tree) -> None:
    tree.target.parent.rmdir()
    assert tree.put() == []
    assert tree.target.read_text() == NEW
    assert tree.trail() == {}
    assert tree.beside() == [NAME.name]


@pytest.mark.parametrize(
    ("before", "kept"),
    [
        ("# Mine\n", "002-edited.md"),
        (EDITED, "002-edited.md"),
        (sealed(by="mock") + "Mine.\n", "002-edited.md"),
        (sealed(item="LLD-43"), "002-edited.md"),
        (OURS, "002-replaced.md"),
    ],
    ids=["foreign", "edited", "edited mock", "of another item", "ours"],
)
def test_what_is_there_is_kept_whole_before_it_is_replaced(tree: Tree, before: str, kept: str) -> None:
    tree.target.write_text(before)
    assert tree.put() == [kept]
    assert tree.target.read_text() == NEW
    assert tree.trail() == {kept: before.encode()}
    assert tree.beside() == [NAME.name]


def test_the_mocks_own_document_is_nobodys_work(tree: Tree) -> None:
    tree.target.write_text(sealed(by="mock"))
    assert tree.put() == []
    assert tree.target.read_text() == NEW
    assert tree.trail() == {}


def test_what_was_kept_when_the_run_began_is_not_kept_again(tree: Tree) -> None:
    tree.target.write_text(EDITED)
    tree.lineage.keep("edited", EDITED)
    assert tree.put() == []
    assert tree.target.read_text() == NEW
    assert tree.trail() == {"002-edited.md": EDITED.encode()}


def test_a_draft_with_the_same_words_is_no_copy(tree: Tree) -> None:
    tree.target.write_text("# Mine\n")
    tree.lineage.write(2, "draft", "# Mine\n")
    assert tree.put() == ["003-edited.md"]


@pytest.mark.parametrize("make", [make_big, make_binary], ids=["big", "binary"])
def test_what_is_no_text_of_ours_is_kept_to_the_byte(tree: Tree, make: Callable[[Path], object]) -> None:
    make(tree.target)
    before = tree.target.read_bytes()
    assert tree.put() == ["002-edited.md"]
    assert tree.trail() == {"002-edited.md": before}
    assert tree.target.read_text() == NEW


def test_a_link_is_kept_as_a_link_and_never_written_through(tree: Tree, tmp_path: Path) -> None:
    make_link(tree.target)
    assert tree.put() == ["002-edited.md"]
    assert (tmp_path / "other.md").read_text() == OURS
    assert (tree.active / "002-edited.md").is_symlink()
    assert not tree.target.is_symlink()
    assert tree.target.read_text() == NEW


def test_a_dangling_link_makes_no_file_elsewhere(tree: Tree, tmp_path: Path) -> None:
    tree.target.symlink_to(tmp_path / "gone.md")
    assert tree.put() == ["002-edited.md"]
    assert not (tmp_path / "gone.md").exists()
    assert tree.target.read_text() == NEW


def test_a_folder_in_its_place_fails_the_item_and_stays(tree: Tree) -> None:
    tree.target.mkdir()
    (tree.target / "mine.md").write_text("mine")
    with pytest.raises(ItemFailed, match=r"LLD-42\.md is a folder. Move it"):
        tree.put()
    assert (tree.target / "mine.md").read_text() == "mine"
    assert tree.trail() == {}


def test_a_trail_that_cannot_be_written_leaves_the_document_where_it_is(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_self: Lineage, _path: Path, _kind: str) -> Path:
        raise OSError(28, "No space left on device")

    tree.target.write_text("# Mine\n")
    monkeypatch.setattr(Lineage, "take", full)
    with pytest.raises(StorageError, match=r"Cannot keep .*LLD-42\.md.*No space left"):
        tree.put()
    assert tree.target.read_text() == "# Mine\n"


# In the last moment.


def at_take(monkeypatch: pytest.MonkeyPatch, act: Callable[[Path], object]) -> None:
    """Do something right before the document is moved away, after it was looked at."""
    real = Lineage.take

    def take(self: Lineage, path: Path, kind: str) -> Path:
        act(self.worktree / path)
        return real(self, path, kind)

    monkeypatch.setattr(Lineage, "take", take)


@pytest.mark.parametrize("before", [OURS, "# Mine\n", sealed(by="mock")], ids=["ours", "foreign", "mock"])
def test_a_version_written_in_the_last_moment_is_kept(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    tree.target.write_text(before)
    at_take(monkeypatch, lambda path: path.write_text("# In the last moment\n"))
    kept = tree.put()
    assert len(kept) == 1
    assert tree.trail() == {kept[0]: b"# In the last moment\n"}
    assert tree.target.read_text() == NEW


def test_a_version_written_after_it_was_kept_at_the_beginning_is_kept_too(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.target.write_text(EDITED)
    tree.lineage.keep("edited", EDITED)
    at_take(monkeypatch, lambda path: path.write_text("# In the last moment\n"))
    assert tree.put() == ["003-edited.md"]
    assert tree.trail() == {"002-edited.md": EDITED.encode(), "003-edited.md": b"# In the last moment\n"}


def test_the_mocks_document_that_becomes_binary_in_the_last_moment_is_kept(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.target.write_text(sealed(by="mock"))
    at_take(monkeypatch, lambda path: path.write_bytes(b"\xff"))
    assert tree.put() == ["003-edited.md"]


@pytest.mark.parametrize("times", [1, 3])
def test_a_file_that_comes_while_the_place_is_free_is_kept_too(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    versions = [f"# Mine {number}\n" for number in range(times)]
    left = list(versions)

    def create(self: Files, path: PurePath, text: str | bytes) -> None:
        if left:
            (self.root / path).write_text(left.pop(0))
        real(self, path, text)

    real = Files.create
    monkeypatch.setattr(Files, "create", create)
    assert len(tree.put()) == times
    assert [text.decode() for _, text in sorted(tree.trail().items())] == versions
    assert tree.target.read_text() == NEW


def test_one_who_never_stops_writing_fails_the_item_and_loses_nothing(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []

    def create(self: Files, path: PurePath, text: str | bytes) -> None:
        written.append(f"# Mine {len(written)}\n")
        (self.root / path).write_text(written[-1])
        real(self, path, text)

    real = Files.create
    monkeypatch.setattr(Files, "create", create)
    with pytest.raises(ItemFailed, match="keeps changing while agentos writes it"):
        tree.put()
    left = [*(text.decode() for _, text in sorted(tree.trail().items())), tree.target.read_text()]
    assert left == written


# Killed, and done again.


@pytest.mark.parametrize("before", [None, OURS, EDITED, "# Mine\n", sealed(by="mock")])
def test_done_twice_is_as_done_once(tree: Tree, before: str | None) -> None:
    if before is not None:
        tree.target.write_text(before)
    tree.put()
    trail = tree.trail()
    assert tree.put() == []
    assert tree.trail() == trail
    assert tree.target.read_text() == NEW


def test_killed_after_the_old_one_was_moved_away(tree: Tree) -> None:
    tree.target.write_text(EDITED)
    tree.lineage.take(NAME, "edited")
    assert tree.put() == []
    assert tree.trail() == {"002-edited.md": EDITED.encode()}
    assert tree.target.read_text() == NEW


def test_killed_while_the_new_one_was_written(tree: Tree) -> None:
    (tree.target.parent / f".{NAME.name}.new").write_text(NEW[:20])
    assert tree.put() == []
    assert tree.target.read_text() == NEW
    assert tree.beside() == [NAME.name]


def test_killed_before_the_hidden_file_was_taken_away(tree: Tree) -> None:
    hidden = tree.target.with_name(f".{NAME.name}.new")
    hidden.write_text(NEW)
    tree.target.hardlink_to(hidden)
    assert tree.put() == []
    assert tree.beside() == [NAME.name]


def test_killed_and_then_edited_by_a_person(tree: Tree) -> None:
    tree.put()
    tree.target.write_text(NEW + "Mine.\n")
    assert tree.put() == ["002-edited.md"]
    assert tree.trail() == {"002-edited.md": (NEW + "Mine.\n").encode()}


def test_a_stamp_is_no_proof_where_the_item_is_another(tree: Tree) -> None:
    tree.target.write_text(f"# Mine\n\n{Stamp(item='LLD-4', input=HASH)}\n")
    assert author_of(tree) is Author.FOREIGN
