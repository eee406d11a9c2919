"""A repository map and its parts: each text with its size and the reason why it is sent. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

LETTERS_A_TOKEN = 4  # a rough estimate, the same as before a call
MAX_WISHES = 20  # that a model may have at a time


class PartKind(StrEnum):
    """What a part shows."""

    TREE = "tree"  # the names of tracked files, folded if there are many
    GUIDE = "guide"  # about the repository: README, rules for contributors, designs, how tests are laid out
    FILE = "file"  # one whole file, or its beginning
    BODY = "body"  # some lines of a file: definitions or sections, whole
    SIGNATURE = "signature"  # definitions of a file without their bodies, one per line
    FOUND = "found"  # what a search found, or what is in a folder


@dataclass(frozen=True, kw_only=True)
class Part:
    """One text about the repository."""

    kind: PartKind
    path: str  # of the file or folder it is about, from the root of the repository; "." is the root
    text: str
    why: str  # a short phrase: why a model gets it
    name: str = ""  # the definitions in it
    first: int = 0  # its lines in the file, from 1; 0 if it is not about lines
    last: int = 0

    @property
    def tokens(self) -> int:
        return tokens_in(self.text)

    @property
    def place(self) -> str:
        return f"{self.path}:{self.first}-{self.last}" if self.first else self.path

    @property
    def is_cut(self) -> bool:
        """Whether more of it exists than is shown."""
        return self.text.endswith(" more lines]\n")


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """A tracked file that no model gets to see."""

    path: str
    why: str


@dataclass(frozen=True, kw_only=True)
class RepositoryMap:
    """What both models get to know about the repository for one item."""

    shared: tuple[Part, ...] = ()  # the same bytes for every item of a run
    own: tuple[Part, ...] = ()  # chosen for this item, the best files first
    ranked: tuple[str, ...] = ()  # the most relevant paths, whether they fit or not
    left_out: tuple[LeftOut, ...] = ()
    files: tuple[str, ...] = ()  # every tracked file, which a design is checked against; empty: unknown

    @property
    def parts(self) -> tuple[Part, ...]:
        return self.shared + self.own

    @property
    def tokens(self) -> int:
        return sum(part.tokens for part in self.parts)


NO_MAP = RepositoryMap()


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What became of a wish, in words for the model."""

    wish: str
    said: str
    refused: bool = False

    def __str__(self) -> str:
        return f"{self.wish}: {self.said}"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The texts that were wished for, and an answer to each wish."""

    parts: tuple[Part, ...] = ()
    answers: tuple[Answer, ...] = ()
    absent: tuple[str, ...] = ()  # names that occur nowhere in the repository


Range = tuple[str, int, int]  # a path with its first and last line


def ranges_of(parts: Iterable[Part]) -> tuple[Range, ...]:
    """The lines that some parts show whole."""
    return tuple(
        (part.path, part.first, part.last)
        for part in parts
        if part.kind in {PartKind.BODY, PartKind.FILE} and part.first
    )


class Budget:
    """Some tokens, and the parts that were taken from them."""

    def __init__(self, tokens: int) -> None:
        self.left = max(0, tokens)
        self.parts: list[Part] = []

    @property
    def letters(self) -> int:
        """How many characters still fit."""
        return self.left * LETTERS_A_TOKEN

    def take(self, part: Part) -> bool:
        """Add a part if it has a text and fits."""
        if not part.text.strip() or part.tokens > self.left:
            return False
        self.left -= part.tokens
        self.parts.append(part)
        return True


def tokens_in(text: str) -> int:
    """Estimate the tokens of a text."""
    return -(-len(text) // LETTERS_A_TOKEN)
