"""Parses sources with tree-sitter: what a file defines, and whom it refers to. Parser process.

A source is not trusted, and a grammar is a large C program: it may crash, hang or eat all memory. So this
runs in a process of its own, with limits, and reads nothing but what it is given on standard input. Each
request and each answer is JSON with its length in front (`tag_process.py`).
"""

import importlib
import json
import re
import resource
import sys
from bisect import bisect_left
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import IO, Any

from tree_sitter import Language, Node, Parser, Query, QueryCursor

from agentos.repo_map.tags import GRAMMARS, LENGTH_BYTES, MAX_REFERENCES, MAX_REQUEST_BYTES

MEMORY_BYTES = 2_000_000_000
CPU_SECONDS = 60  # for all files together
_MAX_NAME = 200  # characters
_MAX_LINES = 40  # of a signature
_LINE_END = ord("\n")
_COMMENT = re.compile(rb"[ \t]{0,40}(?:///?|#(?!include|define|if|end|!)|\*[ /]|\*$|/\*|--|@)")
_FUNCTIONS = frozenset({"function", "method"})


def main() -> None:
    """Answer requests until there are no more."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while (request := _read(sys.stdin.buffer)) is not None:
        answer = json.dumps(parse(str(request["language"]), str(request["text"]))).encode()
        sys.stdout.buffer.write(len(answer).to_bytes(LENGTH_BYTES, "big") + answer)
        sys.stdout.buffer.flush()


def parse(language: str, text: str) -> dict[str, Any]:
    """The definitions of a source in order, and the names it refers to."""
    source = text.encode("utf-8", errors="replace")
    grammar, query, outer = _grammar(language)
    tree = Parser(grammar).parse(source)
    definitions: dict[int, tuple[Node, Node, str]] = {}
    references: dict[str, None] = {}
    for _, captures in QueryCursor(query).matches(tree.root_node):
        names = captures.get("name", [])
        for role, nodes in captures.items():
            kind, _, what = role.partition(".")
            if not names or kind not in {"definition", "reference"}:
                continue
            if kind == "definition":
                definitions.setdefault(names[0].start_byte, (nodes[0], names[0], what))
            elif len(references) < MAX_REFERENCES:
                references.setdefault(_text(source, names[0]))
    wrapped = _wrapped(tree.root_node, outer)
    found = [definitions[at] for at in sorted(definitions)]
    return {"definitions": list(_rows(source, found, wrapped)), "references": list(references)}


def _wrapped(root: Node, outer: Query | None) -> dict[int, Node]:
    """What is around a definition, such as its decorators or its body, by where the definition starts."""
    matches = QueryCursor(outer).matches(root) if outer is not None else []
    return {found["inner"][0].start_byte: found["outer"][0] for _, found in matches}


def _rows(
    source: bytes, found: list[tuple[Node, Node, str]], wrapped: dict[int, Node]
) -> Iterator[list[str | int]]:
    """Yield name, kind, and lines (first, last of the signature, last) of what is not inside a function."""
    inside = -1  # the end of the function that was entered last
    lines = Lines(source)
    for node, name, what in found:
        if name.start_byte < inside:
            continue
        whole = wrapped.get(node.start_byte, node)
        if what in _FUNCTIONS:
            inside = whole.end_byte
        first = lines.at(whole.start_byte)
        last = max(lines.at(max(whole.start_byte, whole.end_byte - 1)), first)
        end = _signature_end(source, node, name, _body(node) or _body(whole))
        head = min(max(lines.at(end), first), last)
        yield [_text(source, name), what, lines.above(first), head, last]


class Lines:
    """Which line of a source, from 1, a byte is in."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        self._ends = [at for at, byte in enumerate(source) if byte == _LINE_END]

    def at(self, byte: int) -> int:
        return bisect_left(self._ends, byte) + 1

    def above(self, line: int) -> int:
        """The line where the comment above a definition starts; the line itself if there is none."""
        while line > 1 and _COMMENT.match(self._line(line - 1)):
            line -= 1
        return line

    def _line(self, number: int) -> bytes:
        start = self._ends[number - 2] + 1 if number > 1 else 0
        return self._source[start : self._ends[number - 1]] if number <= len(self._ends) else b""


def _signature_end(source: bytes, node: Node, name: Node, body: Node | None) -> int:
    """Where the definition's first lines end: before its body, or when its parameters are closed."""
    if body is not None and body.start_byte > name.end_byte:
        opens = source[body.start_byte : body.start_byte + 1] == b"{"
        return body.start_byte if opens else len(source[: body.start_byte].rstrip()) - 1
    end = name.end_byte
    for _ in range(_MAX_LINES):
        line_end = source.find(b"\n", end + 1)
        end = line_end if line_end >= 0 else len(source)
        head = source[node.start_byte : end]
        if line_end < 0 or head.count(b"(") + head.count(b"[") <= head.count(b")") + head.count(b"]"):
            break
    return max(node.start_byte, end - 1)


def _body(node: Node) -> Node | None:
    """The body of a definition; of a variable with a function in it, that function's."""
    # Only downwards: tree-sitter 0.26.0 crashes on the parents and siblings of a captured node.
    for label in ("body", "value", "right"):
        found = node.child_by_field_name(label)
        if found is not None:
            return found.child_by_field_name("body") or found
    return None


def _text(source: bytes, node: Node) -> str:
    return source[node.start_byte : node.end_byte].decode("utf-8", errors="replace")[:_MAX_NAME]


@cache
def _grammar(language: str) -> tuple[Language, Query, Query | None]:
    where = GRAMMARS[language]
    grammar = Language(getattr(importlib.import_module(where.module), where.function)())
    tags = (files(where.module).joinpath(f"../{folder}/queries/tags.scm") for folder in where.folders)
    query = Query(grammar, "\n".join(entry.read_text("utf-8") for entry in tags))
    return grammar, query, Query(grammar, where.outer) if where.outer else None


def _read(stream: IO[bytes]) -> dict[str, Any] | None:
    head = stream.read(LENGTH_BYTES)
    length = int.from_bytes(head, "big")
    if len(head) < LENGTH_BYTES or length > MAX_REQUEST_BYTES:
        return None
    request: dict[str, Any] = json.loads(stream.read(length))
    return request


if __name__ == "__main__":
    main()
