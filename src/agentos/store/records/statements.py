"""The SQL statements of the records, by name, from the `.sql` files next to the migrations."""

import re
from collections.abc import Mapping
from importlib.resources import files as resources

_PARAMETER = re.compile(r"(?<![:\w]):(\w+)")  # :name, but not ::type
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def read_script(name: str) -> list[str]:
    """Read the statements of a migration, in order."""
    script = resources("agentos.store").joinpath("sql", name).read_text("utf-8")
    return [statement for statement in script.split(";\n") if statement.strip()]


def read_queries(*names: str) -> Mapping[str, str]:
    """Read the statements of these files, each by the name in the line `-- name: NAME` above it."""
    found: dict[str, str] = {}
    for name in names:
        text = resources("agentos.store").joinpath("sql", "queries", f"{name}.sql").read_text("utf-8")
        _head, *parts = _NAME.split(text)
        for statement, sql in zip(parts[::2], parts[1::2], strict=True):
            assert statement not in found, statement
            found[statement] = sql.strip()
    return found


def read_postgres_queries(*names: str) -> Mapping[str, str]:
    """Read statements as psycopg takes them: %(name)s for :name."""
    found = read_queries(*(f"postgres-{name}" for name in names))
    return {name: _PARAMETER.sub(r"%(\1)s", sql.replace("%", "%%")) for name, sql in found.items()}
