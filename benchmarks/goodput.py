"""Goodput against the true limit of the simulated provider: agentos with real workers, compared with peers.

All use the same provider and make the same number of calls, twenty at the same time. Goodput is the number of
served calls, as a share of the most that the buckets allowed in that time. Refused is the share of all calls
that got a 429. Run `python benchmarks/goodput.py NAME...` to measure only the settings with such a name.
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
WORKERS = 20
ROUNDS = 5  # drafts and reviews per item, so ten calls
PEERS = Path(__file__).with_name("peers.py")
PEERS_VENV = Path(__file__).parents[1] / ".venv" / "peers"
PEERS_NEED = ("litellm", "openai")


@dataclass(frozen=True, kw_only=True)
class Bar:
    """What must be reached: goodput and share of refused calls."""

    goodput: float
    refused: float


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A provider, and what is known about its limits."""

    name: str
    bar: Bar
    kind: str = "openai"  # the wire format
    headers: str = "own"
    configured: bool = False
    reviewer: str = "model"  # drafts are written by `model`; another name shares its limits
    per_second: int = 4
    burst: int = 4
    items: int = 48


CONFIGURED, LEARNT = Bar(goodput=0.98, refused=0.01), Bar(goodput=0.93, refused=0.02)
SETTINGS = (
    Setting(name="configured", configured=True, bar=CONFIGURED),
    Setting(name="learnt, OpenAI", bar=LEARNT),
    Setting(name="learnt, Anthropic", kind="anthropic", bar=LEARNT),
    Setting(name="learnt, Gemini", kind="gemini", bar=LEARNT),
    Setting(name="learnt, burst", headers="burst", bar=LEARNT),
    Setting(name="learnt, IETF", headers="ietf", bar=LEARNT),
    Setting(name="no hint", headers="none", bar=Bar(goodput=0.85, refused=0.05)),
    Setting(name="configured, two models", configured=True, reviewer="other", bar=CONFIGURED),
    Setting(name="learnt, two models", reviewer="other", bar=LEARNT),
)
SLOW_CONFIGURED, SLOW_LEARNT = Bar(goodput=0.97, refused=0.01), Bar(goodput=0.93, refused=0.03)
SLOW_SETTINGS = tuple(
    Setting(
        name=f"60 rpm, {name}, {label}", kind=kind, configured=known, per_second=1, burst=1, items=24, bar=bar
    )
    for name, known, bar in (("configured", True, SLOW_CONFIGURED), ("learnt", False, SLOW_LEARNT))
    for label, kind in (("OpenAI", "openai"), ("Gemini", "gemini"))
)
BASES = {"openai": "/v1", "anthropic": "", "gemini": ""}


@dataclass(frozen=True)
class Provider:
    """A running simulator."""

    url: str

    def stats(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.url}/__admin__/stats") as answer:
            found: dict[str, Any] = json.load(answer)
        return found


@contextlib.contextmanager
def provider(setting: Setting) -> Iterator[Provider]:
    keys = [f"--key=secret-{number}:{setting.per_second * 60}" for number in range(1, KEYS + 1)]
    flags = [
        "--latency=0.3",
        "--jitter=0.1",
        f"--burst={setting.burst}",
        f"--limit-headers={setting.headers}",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "agentos", "simulate", *keys, *flags], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield Provider(process.stdout.readline().split()[-1])
    finally:
        process.terminate()
        process.communicate()


def _line(name: str, stats: dict[str, Any], failed: int) -> str:
    totals = stats["totals"]
    goodput = totals["served"] / totals["max_calls_at_last_served"]
    refused = totals["refused"] / max(1, totals["calls"])
    return f"  {name:<34} goodput {goodput:.3f}, refused {refused:5.1%}, failed {failed}"


def ours(setting: Setting) -> str:
    """Run a backlog with the real command and its workers."""
    with provider(setting) as simulator, tempfile.TemporaryDirectory() as folder:
        project = Project(Path(folder) / "project")
        project.issues(setting.items, f"verdicts={'REVISE,' * (ROUNDS - 1)}APPROVED")
        lines = [
            f'drafter = "{setting.kind}:model"',
            f'reviewer = "{setting.kind}:{setting.reviewer}"',
            f"max_parallel = {WORKERS}",
            f"[providers.{setting.kind}]",
            f'base_url = "{simulator.url}{BASES[setting.kind]}"',
        ]
        secrets = {}
        for number in range(1, KEYS + 1):
            lines += ["[[keys]]", f'id = "key-{number}"', f'provider = "{setting.kind}"']
            lines += [f'env = "SECRET_{number}"']
            if setting.configured:
                lines += [f"rpm = {setting.per_second * 60}", f"burst = {setting.burst}"]
            secrets[f"SECRET_{number}"] = f"secret-{number}"
        config = project.folder / "user.toml"
        config.write_text("\n".join(lines) + "\n")
        flags = ("--all", "--parallel", str(WORKERS), "--max-iterations", str(ROUNDS + 1), "-q")
        run = project.run("--config", str(config), "lld", *flags, **secrets)
        failed = setting.items - run.summary["totals"].get("approved", 0)
        bar = f"   (required >= {setting.bar.goodput}, < {setting.bar.refused:.0%}, 0 failed)"
        return _line(f"agentos, {setting.name}", simulator.stats(), failed) + bar


def peer(name: str, setting: Setting) -> str:
    """Make the same number of calls with a peer, in its own environment."""
    python = PEERS_VENV / "bin" / "python"
    with provider(setting) as simulator:
        keys = [f"secret-{number}" for number in range(1, KEYS + 1)]
        calls = setting.items * ROUNDS * 2
        job = {"name": name, "url": f"{simulator.url}/v1", "keys": keys, "workers": WORKERS}
        job |= {"calls": calls, "rpm": setting.per_second * 60}
        environment = {"PATH": os.environ["PATH"], "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        done = subprocess.run(
            [python, PEERS, json.dumps(job)],
            env=environment,
            check=False,
            timeout=900,
            stdout=subprocess.PIPE,
            text=True,
        )
        if done.returncode != 0:
            return f"  {name:<34} did not finish"
        return _line(name, simulator.stats(), int(done.stdout.strip().splitlines()[-1]))


def _peers_installed() -> bool:
    if not (PEERS_VENV / "bin" / "python").exists():
        venv.create(PEERS_VENV, with_pip=True)
    install = [PEERS_VENV / "bin" / "python", "-m", "pip", "install", "--quiet", *PEERS_NEED]
    return subprocess.run(install, check=False).returncode == 0


def goodput(wanted: str = "") -> Iterator[str]:
    """Measure agentos in every setting, and the peers where the setting makes a difference to them."""
    peers = None
    for settings in (SETTINGS, SLOW_SETTINGS):
        chosen = [setting for setting in settings if wanted in setting.name]
        if not chosen:
            continue
        first = chosen[0]
        yield (
            f"{KEYS} keys x {first.per_second} calls/s, burst {first.burst}, {WORKERS} workers,"
            f" {first.items * ROUNDS * 2} calls"
        )
        yield from map(ours, chosen)
        peers = _peers_installed() if peers is None and not wanted else peers
        if not peers:
            yield "  peers: not measured" if wanted else "  peers: could not be installed"
            continue
        compared = [
            one
            for one in chosen
            if one.kind == "openai" and not one.configured and one.reviewer == Setting.reviewer
        ]
        for setting in compared:
            for name in ("LiteLLM Router", "LiteLLM Router, resubmitting", "openai SDK, round robin"):
                yield peer(name, setting) + f"   ({setting.name.removeprefix('learnt, ')})"


MEASUREMENTS = (goodput,)

if __name__ == "__main__":
    for name in sys.argv[1:] or [""]:
        for line in goodput(name):
            print(line, flush=True)
