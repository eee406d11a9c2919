"""Shows a value as TOML writes it. Pure."""

import json
from typing import Any


def toml_value(value: Any) -> str:
    """A value as in a configuration file, on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {toml_value(one)}" for name, one in value.items()) + "}"
    text = str(value)
    return json.dumps(text, ensure_ascii=not text.isprintable())
