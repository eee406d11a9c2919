"""How much of what is sent comes from the provider's prompt cache, and what that saves.

The simulated provider caches as the real ones do: the start of a prompt, byte for byte, in blocks, for five
minutes. With Anthropic's format only what is marked is cached.
"""

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from agentos.model import Usage
from agentos.money import PriceTable
from agentos.simulator import KeyConfig, SimulatorConfig, running_simulator
from project import Project

SECRET = "bench-secret"
ITEMS = 10
WORKERS = 4
ROUNDS = 3
REQUIRED = 0.60  # of the tokens that are sent
FORMATS = {
    "anthropic": ("claude-sonnet-4-5", "claude-opus-4-5"),
    "openai": ("gpt-5", "gpt-5-mini"),
    "gemini": ("gemini-2.5-flash", "gemini-2.5-pro"),
}


def caching() -> Iterator[str]:
    """Measure the cached share in each format."""
    for name, (drafter, reviewer) in FORMATS.items():
        simulator = SimulatorConfig(keys=(KeyConfig(secret=SECRET),), latency=0.1)
        with running_simulator(simulator) as url, tempfile.TemporaryDirectory() as folder:
            yield _measured(name, drafter, reviewer, url, Path(folder) / "project")


def _measured(name: str, drafter: str, reviewer: str, url: str, folder: Path) -> str:
    project = Project(folder)
    project.issues(ITEMS, f"verdicts={'REVISE,' * (ROUNDS - 1)}APPROVED")
    _sources(folder)
    base_url = f"{url}/v1" if name == "openai" else url
    lines = [f'drafter = "{name}:{drafter}"', f'reviewer = "{name}:{reviewer}"']
    lines += [f'[providers.{name}]\nbase_url = "{base_url}"']
    lines += [f'[[keys]]\nid = "key-1"\nprovider = "{name}"\nenv = "SECRET_1"']
    config = folder / "user.toml"
    config.write_text("\n".join(lines))
    run = project.run("--config", str(config), "lld", "--all", f"-j{WORKERS}", SECRET_1=SECRET)
    assert run.code == 0, run.summary
    sent, cached = (sum(row[key] for row in run.summary["items"]) for key in ("tokens_in", "tokens_cached"))
    saved = 1 - run.summary["cost_usd"] / _full_price(project)
    need = f"at least {REQUIRED:.0%} required" if name != "gemini" else "no requirement"
    share = f"{cached / sent:.0%} of {sent:,} tokens, cost {saved:.0%} lower"
    return f"cached share of input, {name}, {ITEMS} items of {ROUNDS} rounds: {share} ({need})"


def _full_price(project: Project) -> float:
    """What the same calls would cost without a cache."""
    prices, total = PriceTable(), 0.0
    for trail in project.latest().glob("workflow-audit-*.jsonl"):
        for line in trail.read_text().splitlines():
            record = json.loads(line)
            if record["kind"] == "call":
                provider_name, _, model = record["model"].partition(":")
                used = Usage(tokens_in=record["tokens_in"], tokens_out=record["tokens_out"])
                total += prices.cost(provider_name, model, used) or 0.0
    return total


def _sources(folder: Path) -> None:
    """A repository for the models to know."""
    for number in range(40):
        steps = (
            f"def step_{number}_{one}(value: int) -> int:\n    return value + {one}\n" for one in range(12)
        )
        body = "\n".join(steps)
        path = folder / "src" / "measured" / f"part_{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'"""Part {number} of the measured project."""\n\n\n{body}')
    (folder / ".gitignore").write_text(".agentos/\nuser.toml\n")
    git = ["git", "-c", "user.name=bench", "-c", "user.email=bench@example.org", "-c", "commit.gpgsign=false"]
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "All there is"]):
        subprocess.run([*git, *arguments], cwd=folder, check=True)


MEASUREMENTS = (caching,)
