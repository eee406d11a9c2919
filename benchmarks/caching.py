"""How much of what is sent comes from the provider's prompt cache, and what that saves.

The simulated provider caches as the real ones do: the start of a prompt, byte for byte, in blocks, for five
minutes, with tools and schemas before everything else. With Anthropic's format only what is marked is cached.
The items are about this project's own sources; the drafter of each asks once for what its item names.
"""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from agentos.model import Usage
from agentos.money import PriceTable
from agentos.simulator import KeyConfig, SimulatorConfig, running_simulator
from project import Project

SECRET = "bench-secret"
WORKERS = 4
ROUNDS = 3
REQUIRED = 0.80  # of the tokens that are sent
SOURCES = Path(__file__).parents[1] / "src"
TOPICS = {
    "Rest a key until its daily quota resets": "credentials/pool.py",
    "Show why an item waits in the progress bar": "console/screen.py",
    "Read the labels of an issue from its front matter": "discovery/labels.py",
    "Refuse a template without required sections": "workflows/gates.py",
    "Keep a verdict that was read before a crash": "review/schema.py",
    "Name the run that holds an item": "store/records/protocols.py",
    "Follow every page when issues are listed": "github/client.py",
    "Stop a worker that does not answer a drain": "coordinator/scheduler.py",
    "Price calls whose answer was cut off": "spending/spending.py",
    "List the files that an item may not see": "repo_map/file_kinds.py",
}
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
    _backlog(folder)
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
    each = run.summary["cost_usd"] / len(TOPICS)
    share = f"{cached / sent:.1%} of {sent:,} tokens, {each:.3f} USD per item, {saved:.0%} lower than without"
    return f"cached share of input, {name}, {len(TOPICS)} items of {ROUNDS} rounds: {share} ({need})"


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


def _backlog(folder: Path) -> None:
    """A repository for the models to know, and items about it."""
    shutil.copytree(SOURCES, folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    verdicts = "REVISE," * (ROUNDS - 1) + "APPROVED"
    for number, (title, path) in enumerate(TOPICS.items(), 1):
        script = f'<!-- mock: verdicts={verdicts} look="src/agentos/{path}" -->'
        text = f"# {title}\n\nToday this is not done. It belongs to src/agentos/{path}.\n\n{script}\n"
        (folder / f"issues/active/{number}.md").write_text(text)
    (folder / ".gitignore").write_text(".agentos/\nuser.toml\n")
    git = ["git", "-c", "user.name=bench", "-c", "user.email=bench@example.org", "-c", "commit.gpgsign=false"]
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "All there is"]):
        subprocess.run([*git, *arguments], cwd=folder, check=True)


MEASUREMENTS = (caching,)
