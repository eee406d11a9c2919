"""The report of a run as one self-contained HTML page: no network, works from disk. Any process.

The policy in the page allows exactly our style and our script; all text is data, shown as text alone.
"""

import base64
import hashlib
import json
import re
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from agentos.store.files import PRIVATE_FILE, write_atomic

REPORT = "report.html"
_PLACE = re.compile(r"\{\{(\w+)\}\}")
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_ESCAPED = re.compile("[<>&\u2028\u2029]")


@cache
def asset(name: str) -> str:
    """A file of the page: `run.js`, `run.css` or `report.html`."""
    return resources.files("agentos.report").joinpath("assets", name).read_text("utf-8")


def content_hash(text: str) -> str:
    """What a Content-Security-Policy calls a script or a style by."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def embedded(data: Any) -> str:
    """JSON that can stand inside a script element."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _ESCAPED.sub(lambda match: _ESCAPES[match[0]], text)


def report_html(data: dict[str, Any]) -> str:
    """The whole page."""
    style, script = asset("run.css"), asset("run.js")
    places = {
        "policy": "; ".join(
            (
                "default-src 'none'",
                f"script-src {content_hash(script)}",
                f"style-src {content_hash(style)}",
                "base-uri 'none'",
                "form-action 'none'",
                "require-trusted-types-for 'script'",
                "trusted-types 'none'",
            )
        ),
        "title": re.sub(r"[^\w.:-]", "_", str(data["run"]["run_id"])),
        "style": style,
        "script": script,
        "data": embedded(data),
    }
    return _PLACE.sub(lambda match: places[match[1]], asset("report.html"))


def write_report(run: Path, data: dict[str, Any]) -> None:
    """Write the page into the run's folder, for the owner alone."""
    write_atomic(run / REPORT, report_html(data), mode=PRIVATE_FILE)
