"""The files of the live page; its script is kept in parts. Server process."""

from functools import cache
from importlib.resources import files

from agentos.report.page import asset as report_file

PARTS = (  # of view.js, in this order, each in assets/view
    "basics",
    "patch",
    "place",
    "search",
    "list",
    "frame",
    "keyboard",
    "run",
    "actions",
    "question",
    "send_back",
    "inbox",
    "log",
    "login",
    "updates",
)
KINDS = {
    "view.js": "text/javascript",
    "view.css": "text/css",
    "run.js": "text/javascript",
    "run.css": "text/css",
}


@cache
def page_file(name: str) -> str:
    """A file of the page: one of KINDS or `view.html`. Nothing in it is private."""
    if name in {"run.js", "run.css"}:
        return report_file(name)
    if name == "view.js":
        parts = "\n".join(page_file(f"view/{part}.js") for part in PARTS)
        return f'(() => {{\n"use strict";\n\n{parts}}})();\n'
    return files("agentos.view").joinpath("assets", name).read_text("utf-8")
