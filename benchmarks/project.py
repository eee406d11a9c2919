"""A temporary project for measurements, and the real command run in it."""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Run:
    """One finished command."""

    code: int
    seconds: float
    summary: dict[str, Any]
    events: list[dict[str, Any]]


class Project:
    """A project folder with scripted issues."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.command: tuple[str, ...] = (sys.executable, "-m", "agentos")
        (folder / "issues/active").mkdir(parents=True)
        (folder / "agentos.toml").write_text("")

    def issues(self, count: int, script: str) -> None:
        for number in range(1, count + 1):
            text = f"# Measured item {number}\n\nWork of a known length.\n\n<!-- mock: {script} -->\n"
            (self.folder / f"issues/active/{number}.md").write_text(text)

    def environment(self, **extra: str) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder), **extra}

    def start(self, *arguments: str, **extra: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*self.command, *arguments],
            cwd=self.folder,
            env=self.environment(**extra),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def run(self, *arguments: str, **extra: str) -> Run:
        began = time.perf_counter()
        code = self.start(*arguments, **extra).wait()
        seconds = time.perf_counter() - began
        latest = self.latest()
        events = [json.loads(line) for line in (latest / "events.jsonl").read_text().splitlines()]
        return Run(code, seconds, json.loads((latest / "summary.json").read_text()), events)

    def latest(self) -> Path:
        return max((self.folder / ".agentos/logs/parallel").iterdir())


def seconds_between(first: dict[str, Any], second: dict[str, Any]) -> float:
    """The time from one event to another."""
    return (datetime.fromisoformat(second["time"]) - datetime.fromisoformat(first["time"])).total_seconds()
