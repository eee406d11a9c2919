"""What the messages of earlier commits said about each file. Pure."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable

from agentos.repo_map.git_state import Commit
from agentos.repo_map.word_index import Counted, WordIndex
from agentos.repo_map.words import MARK, Words

MAX_PATHS = 6  # a commit that changes more says little about each file
MAX_MESSAGE = 4_000  # characters
LATELY = MARK * 2  # a word that no text contains: how much a file changed lately
_HALF = 50  # commits, after which a change counts half
_SCALE = 30  # a count of the index is a whole number up to 255; it holds the root of what decays
_TRAILER = re.compile(r"^[A-Z][A-Za-z-]{2,30}-by: .*$", re.MULTILINE)


def index_messages(commits: Iterable[Commit], words: Words) -> WordIndex:
    """The words of all messages about a file, as one document per path; newest commit first."""
    about: dict[str, Counter[str]] = defaultdict(Counter)
    lately: dict[str, float] = defaultdict(float)
    for age, commit in enumerate(commits):
        if 0 < len(commit.paths) <= MAX_PATHS:
            said = words.in_prose(without_trailers(commit.message[:MAX_MESSAGE]))
            for path in commit.paths:
                if "\n" in path:
                    continue  # the index has one name per line
                about[path].update(said)
                lately[path] += 0.5 ** (age / _HALF)
    return WordIndex.build(
        Counted(path, counts | {LATELY: max(1, round(_SCALE * lately[path] ** 0.5))}, counts.total())
        for path, counts in sorted(about.items())
    )


def without_trailers(message: str) -> str:
    """A message without the names of those who signed it."""
    return _TRAILER.sub("", message)
