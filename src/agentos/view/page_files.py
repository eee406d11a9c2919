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
    "login_key",
    "updates",
)
LOGIN_PARTS = ("view/login_key.js", "login_page.js")  # of login.js
KINDS = {
    "view.js": "text/javascript",
    "view.css": "text/css",
    "run.js": "text/javascript",
    "run.css": "text/css",
    "login.js": "text/javascript",
}


@cache
def page_file(name: str) -> str:
    """A file of the page: one of KINDS, `view.html` or `login.html`."""
    if name in {"run.js", "run.css"}:
        return report_file(name)
    if name in {"view.js", "login.js"}:
        named = [f"view/{part}.js" for part in PARTS] if name == "view.js" else LOGIN_PARTS
        parts = "\n".join(map(page_file, named))
        return f'(() => {{\n"use strict";\n\n{parts}}})();\n'
    return files("agentos.view").joinpath("assets", name).read_text("utf-8")
