"""Goodput against the true limit of the simulated provider: agentos with real workers, compared with peers.

All use the same provider and make the same number of calls, twenty at the same time. Goodput is the number of
served calls, as a share of the most that the buckets allowed in that time. Refused is the share of all calls
that got a 429.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from project import Project

KEYS = 4
CALLS_A_SECOND = 4
WORKERS = 20
ITEMS = 48
ROUNDS = 5  # drafts and reviews per item, so ten calls
PEERS = Path(__file__).with_name("peers.py")
PEERS_VENV = Path(__file__).parents[1] / ".venv" / "peers"
PEERS_NEED = ("litellm", "openai")


@dataclass(frozen=True)
class Provider:
    """A running simulator."""

    url: str

    def stats(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.url}/__admin__/stats") as answer:
            found: dict[str, Any] = json.load(answer)
        return found


@contextlib.contextmanager
def provider() -> Iterator[Provider]:
    keys = [f"--key=secret-{number}:{CALLS_A_SECOND * 60}" for number in range(1, KEYS + 1)]
    flags = ["--latency=0.3", "--jitter=0.1", f"--burst={CALLS_A_SECOND}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "agentos", "simulate", *keys, *flags], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield Provider(process.stdout.readline().split()[-1])
    finally:
        process.terminate()
        process.communicate()


def _line(name: str, stats: dict[str, Any]) -> str:
    totals = stats["totals"]
    goodput = totals["served"] / totals["max_calls_at_last_served"]
    refused = totals["refused"] / max(1, totals["calls"])
    return f"  {name:<34} goodput {goodput:.3f}, refused {refused:.1%}, served {totals['served']}"


def ours(*, configured: bool) -> dict[str, Any]:
    """Run a backlog with the real command and its workers."""
    with provider() as simulator, tempfile.TemporaryDirectory() as folder:
        project = Project(Path(folder) / "project")
        project.issues(ITEMS, f"verdicts={'REVISE,' * (ROUNDS - 1)}APPROVED")
        lines = [
            'drafter = "openai:model"',
            'reviewer = "openai:model"',
            f"max_parallel = {WORKERS}",
            "[providers.openai]",
            f'base_url = "{simulator.url}/v1"',
        ]
        secrets = {}
        for number in range(1, KEYS + 1):
            lines += ["[[keys]]", f'id = "key-{number}"', 'provider = "openai"', f'env = "SECRET_{number}"']
            lines += [f"rpm = {CALLS_A_SECOND * 60}", f"burst = {CALLS_A_SECOND}"] if configured else []
            secrets[f"SECRET_{number}"] = f"secret-{number}"
        config = project.folder / "user.toml"
        config.write_text("\n".join(lines) + "\n")
        flags = ("--all", "--parallel", str(WORKERS), "--max-iterations", str(ROUNDS + 1), "-q")
        run = project.run("--config", str(config), "lld", *flags, **secrets)
        assert run.code == 0, run.summary["totals"]
        return simulator.stats()


def peer(name: str) -> dict[str, Any] | None:
    """Make the same number of calls with a peer, in its own environment."""
    python = PEERS_VENV / "bin" / "python"
    with provider() as simulator:
        keys = [f"secret-{number}" for number in range(1, KEYS + 1)]
        job = {"name": name, "url": f"{simulator.url}/v1", "keys": keys, "workers": WORKERS}
        job |= {"calls": ITEMS * ROUNDS * 2, "rpm": CALLS_A_SECOND * 60}
        environment = {"PATH": os.environ["PATH"], "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        done = subprocess.run([python, PEERS, json.dumps(job)], env=environment, check=False, timeout=900)
        return simulator.stats() if done.returncode == 0 else None


def _peers_installed() -> bool:
    if not (PEERS_VENV / "bin" / "python").exists():
        venv.create(PEERS_VENV, with_pip=True)
    install = [PEERS_VENV / "bin" / "python", "-m", "pip", "install", "--quiet", *PEERS_NEED]
    return subprocess.run(install, check=False).returncode == 0


def goodput() -> list[str]:
    """Measure agentos with limits configured and learned, then the peers."""
    lines = [
        f"{KEYS} keys x {CALLS_A_SECOND} calls/s, {WORKERS} workers, {ITEMS * ROUNDS * 2} calls",
        _line("agentos, limits configured", ours(configured=True)) + "   (required >= 0.97, < 1 %)",
        _line("agentos, limits learnt", ours(configured=False)) + "   (required >= 0.90, < 5 %)",
    ]
    if not _peers_installed():
        return [*lines, "  peers: could not be installed"]
    for name in ("LiteLLM Router", "LiteLLM Router, resubmitting", "openai SDK, round robin"):
        stats = peer(name)
        lines.append(f"  {name:<34} did not finish" if stats is None else _line(name, stats))
    return lines


MEASUREMENTS = (goodput,)
