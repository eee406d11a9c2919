"""The report of a run as one self-contained HTML page: no network, works from disk.

The page's Content-Security-Policy allows only its own style and script. All other text is data, shown as
plain text. The data is packed, so that a page of hundreds of items stays small. What does not fit is left out
and counted.
"""

import base64
import gzip
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from agentos.events.fields import shortened
from agentos.model import Status
from agentos.report.spans import without_calls
from agentos.store.rooted_tree import PRIVATE_FILE
from agentos.store.run_folder import run_tree

REPORT = "report.html"
PARTS = (  # of run.js, in this order, each in assets/run
    "words",
    "elements",
    "parts",
    "unzip",
    "drawing",
    "needs",
    "time",
    "headline",
    "timeline",
    "table",
    "documents",
    "calls",
    "compare",
    "paper",
    "panel",
    "keys",
    "clock",
    "theme",
    "csv",
    "keyboard",
    "page",
)
MOST_BYTES = 2_700_000  # of the data in the page, before it is packed
PLAIN_BYTES = 250_000  # more data than this is packed with gzip
_CALM = frozenset({Status.APPROVED.value, Status.SKIPPED.value, Status.PENDING.value})
_PLACE = re.compile(r"\{\{(\w+)\}\}")
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_ESCAPED = re.compile("[<>&\u2028\u2029]")


@cache
def asset(name: str) -> str:
    """A file of the page: `run.js`, `run.css` or `report.html`."""
    if name == "run.js":
        parts = "\n".join(asset(f"run/{part}.js") for part in PARTS)
        return f'(function () {{\n"use strict";\n\n{parts}}})();\n'
    return resources.files("agentos.report").joinpath("assets", name).read_text("utf-8")


def content_hash(text: str) -> str:
    """The hash that names a script or a style in a Content-Security-Policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def embedded(data: Any) -> str:
    """JSON that is safe inside a script element."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _ESCAPED.sub(lambda match: _ESCAPES[match[0]], text)


def fitted(data: dict[str, Any]) -> str:
    """The packed data, small enough: shortens texts, then drops diffs, first of items without problems."""
    keys = without_calls(data["keys"])
    left_out = dict(data["left_out"])
    page = data | {"items": [_copied(item) for item in data["items"]], "keys": keys, "left_out": left_out}
    text = embedded(packed(page))
    if _bytes(text) <= MOST_BYTES:
        return text
    items = sorted(page["items"], key=calm)
    diffs = {id(draft): _bytes(embedded(draft["diff"])) for item in items for draft in _diffs(item)}
    rest = _bytes(text) - sum(diffs.values())
    for most in (600, 200, 60):
        for some in (filter(calm, items), items):
            if rest > MOST_BYTES:
                left_out["texts"] += sum(_shorten(item, most) for item in some)
                rest = _bytes(embedded(packed(page))) - sum(diffs.values())
    room = MOST_BYTES - rest
    for item in items:
        for draft in reversed(list(_diffs(item))):
            room -= diffs[id(draft)]
            if room < 0:
                draft["diff"], draft["left_out"] = "", True
                left_out["diffs"] += 1
    return embedded(packed(page))


def calm(item: dict[str, Any]) -> bool:
    """Whether the item had no problem: nothing that a person should look at."""
    return (
        item["status"] in _CALM
        and item["attempts"] <= 1
        and item["filing"] not in {"wanted", "unknown"}
        and not any(span.get("error") or span["kind"] == "retry" for span in item["spans"])
    )


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _copied(item: dict[str, Any]) -> dict[str, Any]:
    """A copy of an item, so that cutting texts and diffs leaves the caller's data alone."""
    rounds = [
        one | {"findings": [dict(finding) for finding in one.get("findings", ())]}
        for one in item.get("rounds", ())
    ]
    return item | {"rounds": rounds, "drafts": [dict(draft) for draft in item.get("drafts", ())]}


def _diffs(item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    return (draft for draft in item["drafts"] if draft.get("diff"))


def _shorten(item: dict[str, Any], most: int) -> int:
    cut = 0
    for one in item["rounds"]:
        for finding in one["findings"]:
            for name in ("text", "recommendation", "title"):
                if len(finding[name]) > most + 2:
                    finding[name] = shortened(finding[name], most)
                    cut += 1
    return cut


def packed(data: Any) -> dict[str, Any]:
    """The same data with each text and each set of keys written once; `unpacked` in run.js reverses it.

    A list becomes [0, ...values]. An object becomes [number of its shape, ...values]. A text that is used
    more than once becomes "~" and its number. Any other text that begins with "~" gets one more "~".
    """
    counts = Counter(_texts(data))
    shared = [text for text, number in counts.most_common() if number > 1 and len(text) > 1]
    numbers = {text: f"~{number}" for number, text in enumerate(shared)}
    shapes: dict[tuple[str, ...], int] = {}

    def pack(value: Any) -> Any:
        if isinstance(value, str):
            return numbers.get(value) or (f"~{value}" if value.startswith("~") else value)
        if isinstance(value, dict):
            shape = shapes.setdefault(tuple(value), len(shapes) + 1)
            return [shape, *map(pack, value.values())]
        if isinstance(value, list | tuple):
            return [0, *map(pack, value)]
        return value

    found = pack(data)
    return {"texts": shared, "shapes": [list(shape) for shape in shapes], "data": found}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        inner: Iterable[Any] = value.values() if isinstance(value, dict) else value
        for one in inner:
            yield from _texts(one)


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
    }
    text = fitted(data)
    large = _bytes(text) > PLAIN_BYTES
    places["packing"] = ' data-packed="gzip"' if large else ""
    places["data"] = _zipped(text) if large else text
    return _PLACE.sub(lambda match: places[match[1]], asset("report.html"))


def _zipped(text: str) -> str:
    # Without a time, so that the same data gives the same page.
    return base64.b64encode(gzip.compress(text.encode("utf-8", "replace"), mtime=0)).decode()


def write_report(run: Path, data: dict[str, Any]) -> None:
    """Write the page into the run's folder, readable only by the owner."""
    run_tree(run).write(run / REPORT, report_html(data), mode=PRIVATE_FILE)
