"""What a parser finds in a source, and the languages it knows. Pure."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

LENGTH_BYTES = 4  # before each message between us and the parser
MAX_REQUEST_BYTES = 2_000_000
MAX_ANSWER_BYTES = 2_000_000
MAX_DEFINITIONS = 2_000  # of one file
MAX_REFERENCES = 600
MAX_NAME = 1_000  # characters


@dataclass(frozen=True)
class Grammar:
    """Where a language's parser is, and which folders next to it hold its queries."""

    module: str
    function: str
    folders: tuple[str, ...]
    outer: str = ""  # a query for what wraps a definition, where that alone lacks its beginning or its body


def _grammar(name: str, function: str = "language", *also: str) -> Grammar:
    folders = tuple(f"tree_sitter_{one}" for one in (*also, name))
    return Grammar(f"tree_sitter_{name.replace('-', '_')}", function, folders)


_IN_C = """
    (function_definition declarator: (function_declarator) @inner) @outer
    (function_definition declarator: (pointer_declarator declarator: (function_declarator) @inner)) @outer
"""
_IN_CPP = f"""{_IN_C}
    (function_definition declarator: (reference_declarator (function_declarator) @inner)) @outer
"""
GRAMMARS = {
    "python": replace(_grammar("python"), outer="(decorated_definition definition: (_) @inner) @outer"),
    "javascript": _grammar("javascript"),
    "typescript": _grammar("typescript", "language_typescript", "javascript"),
    "tsx": _grammar("typescript", "language_tsx", "javascript"),
    "go": _grammar("go"),
    "rust": _grammar("rust"),
    "java": _grammar("java"),
    "c": replace(_grammar("c"), outer=_IN_C),
    "cpp": replace(_grammar("cpp"), outer=_IN_CPP),
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


class Definition(NamedTuple):
    """One definition with its lines, from 1; a class has others inside."""

    name: str
    kind: str  # "function", "method", "class" and what else the grammars have
    first: int  # with the comment and the decorators above it
    head: int  # the last line of its signature
    last: int


class Tags(NamedTuple):
    """What a file defines and refers to."""

    definitions: tuple[Definition, ...] = ()
    references: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, value: Any) -> "Tags":
        """Check what a parser or a cache says. Raises ValueError."""
        try:
            rows = [Definition(*row) for row in value["definitions"][:MAX_DEFINITIONS]]
            for name, kind, *lines in rows:
                if not _short(name) or not _short(kind) or not all(type(one) is int for one in lines):
                    raise ValueError("not tags")
                if not 0 < lines[0] <= lines[1] <= lines[2]:
                    raise ValueError("not lines")
            return cls(
                tuple(rows), tuple(name for name in value["references"][:MAX_REFERENCES] if _short(name))
            )
        except (KeyError, IndexError, TypeError) as exc:
            raise ValueError("not tags") from exc

    def to_json(self) -> dict[str, Any]:
        return {"definitions": list(self.definitions), "references": list(self.references)}


def language_of(path: str) -> str | None:
    """The language of a file, if there is a parser for it."""
    return _LANGUAGES.get(path.lower().rpartition(".")[2])


def _short(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MAX_NAME
