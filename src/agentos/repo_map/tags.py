"""What a parser finds in a source, and the languages it knows. Pure."""

from dataclasses import dataclass
from typing import Any

LENGTH_BYTES = 4  # before each message between us and the parser
MAX_REQUEST_BYTES = 2_000_000
MAX_ANSWER_BYTES = 2_000_000
MAX_DEFINITIONS = 400  # of one file
MAX_REFERENCES = 600


@dataclass(frozen=True)
class Grammar:
    """Where a language's parser is, and which folders next to it hold its queries."""

    module: str
    function: str
    folders: tuple[str, ...]


def _grammar(name: str, function: str = "language", *also: str) -> Grammar:
    folders = tuple(f"tree_sitter_{one}" for one in (*also, name))
    return Grammar(f"tree_sitter_{name.replace('-', '_')}", function, folders)


GRAMMARS = {
    "python": _grammar("python"),
    "javascript": _grammar("javascript"),
    "typescript": _grammar("typescript", "language_typescript", "javascript"),
    "tsx": _grammar("typescript", "language_tsx", "javascript"),
    "go": _grammar("go"),
    "rust": _grammar("rust"),
    "java": _grammar("java"),
    "c": _grammar("c"),
    "cpp": _grammar("cpp"),
    "ruby": _grammar("ruby"),
    "c-sharp": _grammar("c-sharp"),
    "php": _grammar("php", "language_php"),
}
_LANGUAGES = {
    "py": "python", "pyi": "python", "js": "javascript", "jsx": "javascript", "mjs": "javascript",
    "cjs": "javascript", "ts": "typescript", "mts": "typescript", "cts": "typescript", "tsx": "tsx",
    "go": "go", "rs": "rust", "java": "java", "c": "c", "h": "c", "cc": "cpp", "cpp": "cpp", "cxx": "cpp",
    "hh": "cpp", "hpp": "cpp", "rb": "ruby", "cs": "c-sharp", "php": "php",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Definition:
    """One definition: its first lines, without the body."""

    signature: str  # with its indent
    name: str
    doc: str  # the first line of what is said about it


@dataclass(frozen=True, kw_only=True)
class Tags:
    """What a file defines and refers to."""

    doc: str = ""  # the first line of what is said about the file
    definitions: tuple[Definition, ...] = ()
    references: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, value: Any) -> "Tags":
        """Check what a parser or a cache says. Raises ValueError."""
        try:
            doc, definitions, references = (value[key] for key in ("doc", "definitions", "references"))
            rows = [[_line(text) for text in row] for row in definitions[:MAX_DEFINITIONS]]
            return cls(
                doc=_line(doc),
                definitions=tuple(Definition(signature=row[0], name=row[1], doc=row[2]) for row in rows),
                references=tuple(_line(name) for name in references[:MAX_REFERENCES]),
            )
        except (KeyError, IndexError, TypeError) as exc:
            raise ValueError("not tags") from exc

    def to_json(self) -> dict[str, Any]:
        rows = [[one.signature, one.name, one.doc] for one in self.definitions]
        return {"doc": self.doc, "definitions": rows, "references": list(self.references)}


def language_of(path: str) -> str | None:
    """The language of a file, if there is a parser for it."""
    return _LANGUAGES.get(path.lower().rpartition(".")[2])


def _line(value: Any) -> str:
    if not isinstance(value, str) or len(value) > 1_000:
        raise TypeError("not a line")
    return value
