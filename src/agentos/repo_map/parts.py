"""A repository map and its parts: each text with its size and the reason why it is sent. Pure."""

from dataclasses import dataclass
from enum import StrEnum

LETTERS_A_TOKEN = 4  # a rough estimate, the same as before a call


class PartKind(StrEnum):
    """What a part shows."""

    TREE = "tree"  # the names of all tracked files, folded if there are many
    GUIDE = "guide"  # about the repository: README, rules for contributors, designs, how tests are laid out
    OUTLINE = "outline"  # the definitions in one file, without their bodies
    FILE = "file"  # one whole file, or its beginning


@dataclass(frozen=True, kw_only=True)
class Part:
    """One text about the repository."""

    kind: PartKind
    path: str  # of the file or folder it is about, from the root of the repository; "." is the root
    text: str
    why: str  # a short phrase: why a model gets it

    @property
    def tokens(self) -> int:
        return tokens_in(self.text)


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """A tracked file that no model gets to see."""

    path: str
    why: str


@dataclass(frozen=True, kw_only=True)
class RepositoryMap:
    """What both models get to know about the repository for one item."""

    shared: tuple[Part, ...] = ()  # the same bytes for every item of a run
    own: tuple[Part, ...] = ()  # chosen for this item, in order of rank
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


def tokens_in(text: str) -> int:
    """Estimate the tokens of a text."""
    return -(-len(text) // LETTERS_A_TOKEN)
