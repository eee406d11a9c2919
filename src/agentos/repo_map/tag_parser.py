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
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import IO, Any

from tree_sitter import Language, Node, Parser, Query, QueryCursor

from agentos.repo_map.tags import GRAMMARS, LENGTH_BYTES, MAX_DEFINITIONS, MAX_REFERENCES, MAX_REQUEST_BYTES

MEMORY_BYTES = 2_000_000_000
CPU_SECONDS = 60  # for all files together
_MAX_SIGNATURE = 200  # characters
_MAX_DOC = 120
_MAX_LINES = 8  # of a signature
_MAX_COMMENT = 4_000  # bytes
_BLANKS = re.compile(r"\s+")
_COMMENT = re.compile(r"\s*(?:///?|#(?!!|include|define|if|end)|\*|/\*|--|#\[|@)")
_LEGAL = re.compile(r"copyright|licen[cs]e|spdx|all rights reserved|coding[:=]|^\W*@", re.IGNORECASE)
_DECORATION = re.compile(r"^[\s/*#!;\"'-]+|[\s*/\"'-]+$")
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
    grammar, query = _grammar(language)
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
                references.setdefault(_text(source, names[0])[:_MAX_SIGNATURE])
    rows = list(_rows(source, [definitions[at] for at in sorted(definitions)]))
    return {"doc": _file_doc(source, tree.root_node), "definitions": rows, "references": list(references)}


def _rows(source: bytes, found: list[tuple[Node, Node, str]]) -> Iterator[list[str]]:
    """Yield indent with signature, name and doc of each definition that is not inside a function."""
    inside = -1  # the end of the function that was entered last
    given = 0
    for node, name, what in found:
        if name.start_byte < inside or given >= MAX_DEFINITIONS:
            continue
        body = _body(node)
        if what in _FUNCTIONS:
            inside = node.end_byte
        yield [_signature(source, node, body, name), _text(source, name)[:_MAX_SIGNATURE], _doc(source, node)]
        given += 1


def _body(node: Node) -> Node | None:
    """The body of a definition; of a variable with a function in it, that function's."""
    # Only downwards: tree-sitter 0.26.0 crashes on the parents and siblings of a captured node.
    for label in ("body", "value", "right"):
        found = node.child_by_field_name(label)
        if found is not None:
            return found.child_by_field_name("body") or found
    return None


def _signature(source: bytes, node: Node, body: Node | None, name: Node) -> str:
    """The definition up to its body, on one line."""
    start = source.rfind(b"\n", 0, node.start_byte) + 1
    end = name.end_byte
    for _ in range(_MAX_LINES):  # until the list of parameters is closed
        line_end = source.find(b"\n", end + 1)
        end = line_end if line_end >= 0 else len(source)
        head = source[start:end]
        if line_end < 0 or head.count(b"(") + head.count(b"[") <= head.count(b")") + head.count(b"]"):
            break
    opening = source.find(b"{", name.end_byte, end) if body is None else body.start_byte
    if source[opening : opening + 1] == b"{":
        end = min(end, opening)
    text = source[start:end].decode("utf-8", errors="replace").expandtabs(4)
    indent = len(text) - len(text.lstrip())
    return " " * min(indent, 40) + _BLANKS.sub(" ", text).strip(" {")[:_MAX_SIGNATURE]


def _doc(source: bytes, node: Node) -> str:
    """The first line of what the author says about a definition: in its body, or above it."""
    first = _string_in(node.child_by_field_name("body"))
    if first is not None:
        return _first_line(_text(source, first))
    before = source[: source.rfind(b"\n", 0, node.start_byte) + 1][-_MAX_COMMENT:]
    lines: list[str] = []
    for line in reversed(before.decode("utf-8", errors="replace").splitlines()):
        if not _COMMENT.match(line):
            break
        lines.append(line)
    return _first_line("\n".join(reversed(lines)))


def _string_in(node: Node | None) -> Node | None:
    """The string that a body starts with, as in Python."""
    first = node.named_child(0) if node is not None and node.named_child_count else None
    if first is not None and first.type == "expression_statement" and first.named_child_count:
        first = first.named_child(0)
    return first if first is not None and first.type == "string" else None


def _file_doc(source: bytes, root: Node) -> str:
    """The first line of what the author says about the file."""
    first = root.named_child(0) if root.named_child_count else None
    said = _string_in(root) or (first if first is not None and "comment" in first.type else None)
    return "" if said is None else _first_line(_text(source, said))


def _first_line(text: str) -> str:
    lines = (_DECORATION.sub("", line) for line in text.splitlines())
    said = (line for line in lines if any(map(str.isalpha, line)) and not _LEGAL.search(line))
    return next(said, "")[:_MAX_DOC]


def _text(source: bytes, node: Node) -> str:
    return source[node.start_byte : node.end_byte].decode("utf-8", errors="replace")


@cache
def _grammar(language: str) -> tuple[Language, Query]:
    where = GRAMMARS[language]
    grammar = Language(getattr(importlib.import_module(where.module), where.function)())
    tags = (files(where.module).joinpath(f"../{folder}/queries/tags.scm") for folder in where.folders)
    return grammar, Query(grammar, "\n".join(entry.read_text("utf-8") for entry in tags))


def _read(stream: IO[bytes]) -> dict[str, Any] | None:
    head = stream.read(LENGTH_BYTES)
    length = int.from_bytes(head, "big")
    if len(head) < LENGTH_BYTES or length > MAX_REQUEST_BYTES:
        return None
    request: dict[str, Any] = json.loads(stream.read(length))
    return request


if __name__ == "__main__":
    main()
