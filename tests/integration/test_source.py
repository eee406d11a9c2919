"""The source as a whole: one class per name, and a walk for readers that leads somewhere."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import agentos

SOURCE = Path(agentos.__file__).parent
DESIGN = SOURCE.parents[1] / "docs" / "design" / "README.md"
# What `pathlib` can do to files is checked in test_doors.py.
IMPURE = frozenset(
    {
        "time",
        "os",
        "socket",
        "sqlite3",
        "random",
        "secrets",
        "subprocess",
        "threading",
        "multiprocessing",
        "uuid",
    }
)
NOT_OURS = {"status", "make check"}  # commands


def names_in(path: Path) -> Iterator[tuple[str, ast.AST]]:
    """Everything that a module defines or that is a member of an enum in it."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node


def test_a_module_that_says_pure_uses_no_clock_file_network_or_randomness() -> None:
    used = {}
    for path in SOURCE.rglob("*.py"):
        module = ast.parse(path.read_text("utf-8"))
        if "Pure." not in (ast.get_docstring(module) or ""):
            continue
        imported = {
            name.partition(".")[0]
            for node in ast.walk(module)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in (
                [node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names]
            )
        }
        if impure := imported & IMPURE:
            used[str(path.relative_to(SOURCE))] = impure
    assert used == {"simulator/faults.py": {"random"}}, "only with a seed"


def test_no_two_classes_have_the_same_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in SOURCE.rglob("*.py"):
        for name, node in names_in(path):
            if isinstance(node, ast.ClassDef):
                places[name].append(str(path.relative_to(SOURCE)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_the_walk_for_readers_names_only_what_exists() -> None:
    text = DESIGN.read_text("utf-8").partition("## The packages")[2]
    everything = {name for path in SOURCE.rglob("*.py") for name, _ in names_in(path)}
    packages = {path.name for path in SOURCE.iterdir() if path.is_dir()}
    missing = []
    for paragraph in re.split(r"\n(?=\d+\. )|\n\n|\n(?=\|)", text):
        path: Path | None = None
        for token in re.findall(r"`([^`]+)`(?=(?::)?)", paragraph):
            if token.endswith(".py") or "/" in token:
                path = SOURCE / token
                found = path.exists() or any(SOURCE.glob(f"*/{token}"))
            elif token.startswith("--") or token in NOT_OURS or token in packages:
                found = True
            elif path is not None and path.is_file() and f"{path.name}`: `{token}`" in paragraph:
                found = token in {name for name, _ in names_in(path)}
            else:
                found = token in everything
            if not found:
                missing.append((token, paragraph.strip()[:60]))
    assert missing == []


def test_each_walk_has_at_most_fifteen_stops() -> None:
    walks = DESIGN.read_text("utf-8").partition("## A walk for readers")[2].split("\n### ")[1:]
    stops = {walk.partition("\n")[0]: len(re.findall(r"^\d+\. ", walk, re.MULTILINE)) for walk in walks}
    assert list(stops) == ["One item", "One call", "One 429"]
    assert all(1 <= count <= 15 for count in stops.values()), stops
