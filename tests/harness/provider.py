"""An HTTP provider that records its calls, answers as a test says, and lets the test act during a call."""

import json
import re
import subprocess
import urllib.request
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentos.llm.mock_documents import answers
from agentos.simulator import KeyConfig, SimulatorConfig, running_simulator
from agentos.simulator.responder import DefaultResponder, review
from harness.project import Command, Project, Result

SECRET = "provider-secret"
_GIT_SETTINGS = {
    "user.name": "Tester",
    "user.email": "tester@example.org",
    "init.defaultBranch": "main",
    "commit.gpgsign": "false",
    "core.autocrlf": "false",
}
GIT = ("git", *(word for name, value in _GIT_SETTINGS.items() for word in ("-c", f"{name}={value}")))


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One call as the server received it."""

    role: str
    prompt: str
    system: str


@dataclass(kw_only=True)
class Provider:
    """The recorded calls and the scripted answers; without a script, everything is approved."""

    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    verdicts: deque[str] = field(default_factory=deque)
    drafts: deque[str] = field(default_factory=deque)
    words: deque[str] = field(default_factory=deque)  # that reviews say about their finding
    looks: deque[str] = field(default_factory=deque)  # replies to looks
    stuck: bool = False  # every review has the same findings
    during: Callable[[Asked], None] | None = None  # called while the caller waits for the answer
    _default: DefaultResponder = field(default_factory=DefaultResponder)
    _reviews: int = 0

    def __call__(self, model: str, system: str, prompt: str, wanted: str) -> str:
        role = "look" if wanted == "look" else "reviewer" if wanted else "drafter"
        one = Asked(role=role, prompt=prompt, system=system)
        self.asked.append(one)
        if self.during is not None:
            self.during(one)
        if role == "drafter" and self.drafts:
            return self.drafts.popleft()
        if role == "look" and self.looks:
            return self.looks.popleft()
        if role != "reviewer":
            return self._default(model, system, prompt, wanted)
        self._reviews += 1
        verdict = self.verdicts.popleft() if self.verdicts else "APPROVED"
        said = review(model, verdict, 1 if self.stuck else self._reviews)
        said["earlier"] = answers(prompt, stuck=self.stuck and verdict != "APPROVED")
        if self.words:
            said["tier1"][0]["text"] = self.words.popleft()
        return json.dumps(said)

    def calls(self) -> int:
        """How many calls arrived, with any result."""
        with urllib.request.urlopen(f"{self.url}/__admin__/stats") as answer:
            totals = json.load(answer)["totals"]
        return int(totals["calls"] + totals["unauthorized"] + totals["invalid"])

    def of(self, role: str, since: int = 0) -> list[str]:
        return [one.prompt for one in self.asked[since:] if one.role == role]


@contextmanager
def running_provider(**more: Any) -> Iterator[Provider]:
    """Serve until the block ends."""
    provider = Provider()
    config = SimulatorConfig(keys=(KeyConfig(secret=SECRET),), responder=provider, **more)
    with running_simulator(config) as url:
        provider.url = url
        yield provider


@dataclass(kw_only=True)
class Bench:
    """A project with real models, served by the test's provider."""

    project: Project
    provider: Provider
    env: Mapping[str, str] = field(default_factory=dict)
    config: Path = field(init=False)

    def __post_init__(self) -> None:
        self.config = self.project.outside / "user.toml"
        self.config.write_text(
            'drafter = "openai:drafter"\nreviewer = "openai:reviewer"\n'
            f'[providers.openai]\nbase_url = "{self.provider.url}/v1"\n'
        )

    @property
    def root(self) -> Path:
        return self.project.root

    @property
    def environment(self) -> dict[str, str]:
        return {"OPENAI_API_KEY": SECRET} | dict(self.env)

    def start(self, *args: str | Path, **more: str) -> Command:
        return self.project.start("--config", self.config, *args, env=self.environment | more)

    def run(self, *args: str | Path, **more: str) -> Result:
        return self.project.finish(self.start(*args, **more), 90)

    def ok(self, *args: str | Path, **more: str) -> Result:
        result = self.run(*args, **more)
        assert result.code == 0, result
        return result

    def free(self, *args: str | Path, **more: str) -> Result:
        """Run a command that must not make a single call."""
        before = self.provider.calls()
        result = self.run(*args, **more)
        assert self.provider.calls() == before, result
        return result

    def paid(self, *args: str | Path, **more: str) -> tuple[int, Result]:
        before = self.provider.calls()
        result = self.run(*args, **more)
        return self.provider.calls() - before, result

    def plan(self, *args: str) -> dict[str, dict[str, Any]]:
        """What a run would do, by id; makes no calls."""
        result = self.free(*(args or ("lld", "--all")), "--dry-run", "--json")
        assert result.code in {0, 1, 3}, result
        return {row["id"]: row for row in result.json["items"]}

    def document(self, item: str | int) -> Path:
        return self.root / "docs" / "lld" / "active" / f"LLD-{item}.md"

    def edit(self, item: str | int, words: str) -> str:
        """Edit a design as a person would, rewriting the whole file; return the new text."""
        path = self.document(item)
        text = re.sub(
            r"^(## .*Context.*)\n", rf"\1\n\n{words}\n", path.read_text(), count=1, flags=re.MULTILINE
        )
        assert words in text, text
        path.write_text(text)
        return text

    def say_more(self, item: str | int, words: str) -> None:
        path = self.root / "issues" / "active" / f"{item}.md"
        path.write_text(f"{path.read_text()}\n{words}\n")

    def kept(self, text: str) -> list[str]:
        """The files of the lineage that have exactly this text."""
        files = (self.root / "docs" / "lineage").rglob("*.md")
        return sorted(path.name for path in files if path.read_bytes() == text.encode())

    def holding(self, words: str, below: str = "") -> list[str]:
        """Every file of the worktree, except the home, that contains these words."""
        found = []
        for path in (self.root / below).rglob("*"):
            parts = path.relative_to(self.root).parts
            if (
                path.is_file()
                and parts[0] not in {".agentos", ".git"}
                and words.encode() in path.read_bytes()
            ):
                found.append(str(path.relative_to(self.root)))
        return sorted(found)

    # The repository.

    def git(self, *args: str) -> str:
        done = subprocess.run(
            [*GIT, *args],
            cwd=self.root,
            env=self.project.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (args, done.stdout, done.stderr)
        return done.stdout

    def commit(self, message: str = "All there is") -> None:
        if not (self.root / ".git").exists():
            self.git("init", "-q")
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)

    def clone_into(self, project: Project) -> "Bench":
        """Clone the commits, and nothing else."""
        made = Bench(project=project, provider=self.provider, env=self.env)
        made.git("clone", "-q", str(self.root), ".")
        assert not made.project.home.exists()
        return made
