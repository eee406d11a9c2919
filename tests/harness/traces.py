"""Sequences of trace calls for a run, and a trace that keeps all its output."""

import json
import threading
from collections.abc import Mapping
from typing import Any

from agentos.tracing.run import RunTrace

THEIRS = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
KEYS = ["trace_id", "span_id", "parent_span_id", "name", "kind", "start", "end", "attributes", "events"]
KEYS += ["links", "status"]
Step = tuple[str, str, dict[str, Any]]  # method, label, arguments


def call(label: str, lease: int, *, error: str | None = None, **more: Any) -> list[Step]:
    asked = {"lease": lease, "provider": "gemini", "model": "gem-2", "key": "key-1", "waited": 0.25}
    told = {"lease": lease, "tokens_in": 30, "tokens_out": 7, "error": error, **more}
    return [("call_started", label, asked), ("call_ended", label, told)]


def node(label: str, name: str, *within: Step, reviews: int = 0) -> list[Step]:
    return [
        ("node_started", label, {"node": name, "reviews": reviews}),
        *within,
        ("node_ended", label, {"node": name, "seconds": 1.5}),
    ]


def begin(label: str, attempt: int = 1) -> Step:
    return ("item_started", label, {"item_id": label.partition("-")[2], "attempt": attempt})


def finish(label: str, status: str = "approved", verdict: str | None = "APPROVED", **more: Any) -> Step:
    return ("item_ended", label, {"status": status, "verdict": verdict, "reviews": 1, "error": None, **more})


def judged(label: str, verdict: str = "APPROVED", review: int = 1) -> Step:
    return ("verdict", label, {"review": review, "verdict": verdict, "findings": 2})


def approved(label: str, lease: int) -> list[Step]:
    return [
        begin(label),
        *node(label, "draft", *call(label, lease)),
        *node(label, "review", *call(label, lease + 1, served="gem-2-0626", cost_usd=0.0125), judged(label)),
        finish(label),
    ]


class Kept:
    """A trace and all its output."""

    def __init__(self, *, off: bool = False, **environment: str) -> None:
        self.lines: list[bytes] = []
        self.complaints: list[str] = []
        self.environments: list[dict[str, str]] = []
        self.writers: set[str] = set()
        self.trace = RunTrace(
            run_id="run-7",
            workflow="lld",
            parallel=3,
            items=2,
            write=None if off else self._write,
            environment=environment,
            complain=self.complaints.append,
        )

    def _write(self, line: bytes) -> None:
        self.writers.add(threading.current_thread().name)
        self.lines.append(line)

    def play(self, *steps: Step) -> "Kept":
        for method, label, given_ in steps:
            told = dict(given_)
            words = (label, told.pop("node")) if "node" in told else (label,)
            answer = getattr(self.trace, method)(*words, **told)
            if method == "item_started":
                self.environments.append(answer)
        return self

    def close(self, exit_code: int = 0, totals: Mapping[str, int] | None = None, **more: Any) -> "Kept":
        self.trace.close(exit_code=exit_code, totals=totals or {}, **more)
        return self

    @property
    def spans(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]

    def named(self, name: str) -> dict[str, Any]:
        (found,) = [span for span in self.spans if span["name"] == name]
        return found

    def tree(self) -> list[str]:
        """Every span as the path from the run to it, in the order in which they ended."""
        known = {span["span_id"]: span for span in self.spans}

        def path(span: dict[str, Any]) -> str:
            above = span["parent_span_id"]
            return span["name"] if above is None else f"{path(known[above])} > {span['name']}"

        return [path(span) for span in self.spans]
