"""Programs that a repository brings along never run, and those that run get no key."""

import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentos.simulator import KeyConfig, SimulatorConfig, running_simulator
from harness.github import FakeGitHub, running_fakegithub
from harness.processes import wait_until
from harness.project import Project
from harness.terminal import at_a_terminal

NAMES = (
    *("git", "gh", "claude", "gemini", "sh", "bash", "env"),
    *("xdg-open", "gio", "x-www-browser", "firefox", "chromium", "my-browser"),
    *("sensible-editor", "vim", "nano", "vi", "my-editor"),
)
CANARY = "canary-7d1f"
KEYS = {
    "OPENAI_API_KEY": f"{CANARY}-openai",
    "ANTHROPIC_API_KEY_1": f"{CANARY}-anthropic",
    "GEMINI_API_KEY": f"{CANARY}-gemini",
    "AN_ODD_NAME": f"{CANARY}-odd",  # which [[keys]] names
    "AGENTOS_DATABASE_URL": f"postgres://me:{CANARY}-postgres@db/agentos",
    "LANGSMITH_API_KEY": f"{CANARY}-langsmith",
    "OTEL_EXPORTER_OTLP_HEADERS": f"authorization={CANARY}-otlp",
    "GH_ENTERPRISE_TOKEN": f"{CANARY}-enterprise",
}
TOKENS = {"GH_TOKEN": f"{CANARY}-gh", "GITHUB_TOKEN": f"{CANARY}-github"}


def put(folder: Path, name: str, body: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{body}\n", "utf-8")
    program.chmod(0o755)
    return program


class Planted:
    """A repository full of programs, and a PATH that leads to them in every way before the user's own."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.notes = project.outside / "ran"
        for folder in (".", "bin", "tools", "issues"):
            for name in NAMES:
                put(project.root / folder, name, f'echo "$0 $*" >> {self.notes}')
        linked, lured = project.outside / "linked", project.outside / "lured"
        linked.symlink_to(project.root / "tools")
        lured.mkdir()
        for name in NAMES:
            (lured / name).symlink_to(project.root / "tools" / name)
        entries = (
            *(".", "bin", "", "./tools", "../project/bin"),
            *(project.root / "tools", f"{project.outside}/user/../project/tools", linked, lured),
        )
        self.env = {"PATH": ":".join(map(str, (*entries, project.environment["PATH"], "")))}
        self.env |= KEYS
        self.alone = self.env | {"PATH": ":".join(map(str, entries))}  # and nothing of the machine's

    def assert_nothing_ran(self) -> None:
        assert not self.notes.exists(), self.notes.read_text("utf-8")


@pytest.fixture
def planted(project: Project) -> Planted:
    git = ["git", "-C", str(project.root)]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "remote", "add", "origin", "https://github.com/acme/widgets.git"], check=True)
    return Planted(project)


@pytest.mark.slow
def test_no_command_starts_a_program_of_the_repository(planted: Planted) -> None:
    project = planted.project
    project.issue(42)
    project.brief("dark-mode")
    assert project.lld("42", env=planted.env).code == 0
    for command in (
        ["doctor"],
        ["init"],
        ["lld", "--all", "--source", "github", "--dry-run"],
        ["issue", "--all", "--yes"],
    ):
        project.run(*command, env=planted.env)
    project.run("doctor", env=planted.env, cwd=project.root / "issues")
    project.run("report", "--open", env=planted.alone | {"DISPLAY": ":0"})
    planted.assert_nothing_ran()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["claude", "gemini"])
def test_a_command_model_is_none_of_the_repository(planted: Planted, name: str) -> None:
    planted.project.issue(42)
    model = f"{name}-cli:some-model"
    for command in (["lld", "42"], ["doctor", "--live"]):
        chosen = {"AGENTOS_DRAFTER": model, "AGENTOS_REVIEWER": model, "AGENTOS_MAX_RETRIES": "0"}
        refused = planted.project.run(*command, env=planted.env | chosen)
        assert refused.code == 2
        assert f"'{name}' is only in the project" in refused.said
    planted.assert_nothing_ran()


@pytest.mark.slow
def test_a_browser_is_none_of_the_repository(planted: Planted) -> None:
    project = planted.project
    project.issue(42)
    assert project.lld("42").code == 0
    for named in ("my-browser", "./tools/my-browser %s", "bin/my-browser", f"{project.root}/my-browser"):
        opened = project.run("report", "--open", env=planted.env | {"BROWSER": named})
        assert (opened.code, "Could not open a browser" in opened.err) == (0, True)
    served = project.start("view", "--open", env=planted.alone | {"BROWSER": named, "DISPLAY": ":0"})
    wait_until(lambda: "Could not open a browser" in served.text(1), "word that there is none", 20)
    served.signal(signal.SIGINT)
    assert project.finish(served).code == 0
    planted.assert_nothing_ran()


@pytest.mark.slow
def test_an_editor_is_none_of_the_repository(planted: Planted) -> None:
    project = planted.project
    project.issue(42)
    assert project.lld("42").code == 0
    for named in ("my-editor --wait", "./tools/my-editor", "bin/my-editor", f"{project.root}/my-editor"):
        code, shown = at_a_terminal(project, "revise", "42", env=planted.env | {"EDITOR": named})
        assert code == 2, shown
        assert "no such program outside the project" in " ".join(shown.split())
    planted.assert_nothing_ran()


def test_the_usual_editors_are_looked_for_outside_the_repository(planted: Planted) -> None:
    project = planted.project
    project.issue(42)
    assert project.lld("42").code == 0
    mine = put(project.outside / "mine", "nano", 'echo "Use the cache." >> "$1"')
    env = planted.alone | {"PATH": f"{planted.alone['PATH']}:{mine.parent}"}
    code, shown = at_a_terminal(project, "revise", "42", env=env)
    assert code == 0, shown
    assert [one["note"] for one in project.run("status", "--json").json["notes"]] == ["Use the cache."]
    planted.assert_nothing_ran()


def test_a_project_below_a_repository_does_not_make_its_programs_the_users(planted: Planted) -> None:
    below = planted.project.root / "part"
    below.mkdir()
    (below / "agentos.toml").touch()
    planted.project.run("doctor", env=planted.env, cwd=below)
    planted.assert_nothing_ran()


@pytest.mark.slow
def test_what_a_repository_configures_for_git_does_not_run(planted: Planted) -> None:
    project, tool = planted.project, planted.project.root / "tools" / "git"
    git = ["git", "-C", str(project.root), "config"]
    for name, value in {
        "core.fsmonitor": str(tool),
        "core.hooksPath": str(tool.parent),
        "core.pager": str(tool),
        "core.sshCommand": str(tool),
        "core.askPass": str(tool),
        "alias.remote": f"!{tool}",
        "alias.rev-parse": f"!{tool}",
        "diff.external": str(tool),
        "credential.helper": f"!{tool}",
        "uploadpack.packObjectsHook": str(tool),
    }.items():
        subprocess.run([*git, name, value], check=True)
    project.run("doctor", env=planted.env)
    project.run("lld", "--all", "--source", "github", "--dry-run", env=planted.env)
    planted.assert_nothing_ran()


# Programs of the user's own.


class Own:
    """The user's own programs, which note what they get."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.seen = project.outside / "seen"
        self.seen.mkdir()
        self.folder = project.outside / "own"
        real = f"PATH={project.environment['PATH']}; export PATH"
        note = f'/usr/bin/env > {self.seen}/"${{0##*/}}"; pwd >> {self.seen}/"${{0##*/}}".cwd'
        put(self.folder, "git", f'{note}; {real}; exec git "$@"')
        put(self.folder, "gh", f"{note}; echo {CANARY}-from-gh")
        put(self.folder, "claude", f"{note}; exit 1")
        put(self.folder, "my-browser", note)
        put(self.folder, "my-editor", f'{note}; echo "Use the cache." >> "$1"')
        self.config = project.outside / "user.toml"
        self.config.write_text('[[keys]]\nid = "key-1"\nprovider = "openai"\nenv = "AN_ODD_NAME"\n', "utf-8")
        self.env = KEYS | TOKENS | {"AGENTOS_CONFIG": str(self.config), "AGENTOS_LANGSMITH": "1"}
        self.env |= {"PATH": f".:{self.folder}:{project.root}/bin:{project.environment['PATH']}"}

    def assert_knows_nothing(self, name: str) -> None:
        dumped = (self.seen / name).read_text("utf-8")
        assert f"HOME={self.project.outside}/user\n" in dumped
        assert CANARY not in dumped, dumped
        [path] = re.findall(r"^PATH=(.*)$", dumped, re.MULTILINE)
        assert path.split(":")[0] == str(self.folder)
        assert not any(one in {"", "."} or one.startswith(str(self.project.root)) for one in path.split(":"))


@pytest.fixture
def own(project: Project) -> Own:
    return Own(project)


def without(env: dict[str, str], *names: str) -> dict[str, str]:
    return {name: text for name, text in env.items() if name not in names}


def test_git_gets_no_key_and_no_token(own: Own) -> None:
    own.project.run("doctor", env=own.env)
    own.assert_knows_nothing("git")


def test_gh_gets_no_key_and_the_token_it_has_is_used(own: Own) -> None:
    doctor = own.project.run("doctor", env=without(own.env, *TOKENS))
    own.assert_knows_nothing("gh")
    assert CANARY not in doctor.text


@pytest.mark.slow
def test_a_command_model_gets_no_key(own: Own) -> None:
    model = {"AGENTOS_DRAFTER": "claude-cli:some-model", "AGENTOS_REVIEWER": "claude-cli:some-model"}
    own.project.run("doctor", "--live", env=own.env | model)
    own.assert_knows_nothing("claude")
    (own.seen / "claude").unlink()
    own.project.issue(42)
    failed = own.project.run("lld", "42", "--max-retries", "0", env=own.env | model)
    assert failed.code == 1, failed
    own.assert_knows_nothing("claude")


def test_a_command_model_works_where_nobody_else_can_put_its_settings(own: Own) -> None:
    """Such programs read settings from every folder above, and everybody may write to /tmp."""
    shared = own.project.outside / "s"
    (shared / "t").mkdir(parents=True)
    shared.chmod(0o1777)
    model = {"AGENTOS_DRAFTER": "claude-cli:some-model", "AGENTOS_REVIEWER": "claude-cli:some-model"}
    own.project.run("doctor", "--live", env=own.env | model | {"TMPDIR": str(shared / "t")})
    worked = Path((own.seen / "claude.cwd").read_text("utf-8").splitlines()[0])
    assert not worked.is_relative_to(shared)
    assert not worked.is_relative_to(own.project.root)
    assert worked.is_relative_to(own.project.outside / "user")
    assert not worked.exists()
    assert not worked.parent.exists()


@pytest.mark.slow
def test_the_browser_gets_no_key(own: Own) -> None:
    own.project.issue(42)
    assert own.project.lld("42").code == 0
    assert own.project.run("report", "--open", env=own.env | {"BROWSER": "my-browser"}).err == ""
    own.assert_knows_nothing("my-browser")
    assert (own.seen / "my-browser.cwd").read_text("utf-8") == "/\n"
    (own.seen / "my-browser").unlink()
    served = own.project.start("view", "--open", env=own.env | {"BROWSER": "my-browser %s"})
    wait_until(lambda: (own.seen / "my-browser.cwd").read_text("utf-8") == "/\n/\n", "the browser")
    served.signal(signal.SIGINT)
    assert own.project.finish(served).code == 0
    own.assert_knows_nothing("my-browser")


def test_the_editor_gets_no_key(own: Own) -> None:
    own.project.issue(42)
    assert own.project.lld("42").code == 0
    code, shown = at_a_terminal(own.project, "revise", "42", env=own.env | {"EDITOR": "my-editor"})
    assert code == 0, shown
    own.assert_knows_nothing("my-editor")


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    with running_fakegithub() as fake:
        yield fake


@pytest.mark.slow
def test_an_issue_is_filed_with_the_users_gh_and_none_of_the_repository(
    project: Project, github: FakeGitHub
) -> None:
    git = ["git", "-C", str(project.root)]
    subprocess.run([*git, "init", "-q"], check=True)
    origin = f"https://github.com/{github.repository}.git"
    subprocess.run([*git, "remote", "add", "origin", origin], check=True)
    planted = Planted(project)
    own = Own(project)
    put(own.folder, "gh", f"/usr/bin/env > {own.seen}/gh; echo {github.token}")
    project.brief("dark-mode")
    with running_simulator(SimulatorConfig(keys=(KeyConfig(secret=KEYS["AN_ODD_NAME"]),))) as url:
        own.config.write_text(
            own.config.read_text("utf-8") + f'[providers.openai]\nbase_url = "{url}/v1"\n', "utf-8"
        )
        env = without(own.env, *TOKENS) | {"GITHUB_API_URL": github.url}
        env["PATH"] = planted.env["PATH"].replace(project.environment["PATH"], env["PATH"])
        models = ("--drafter", "openai:drafter", "--reviewer", "openai:reviewer")
        filed = project.run("issue", "--all", "--yes", *models, env=env)
    assert filed.code == 0, filed
    assert len(github.issues) == 1
    planted.assert_nothing_ran()
    dumped = (own.seen / "gh").read_text("utf-8").replace(KEYS["GH_ENTERPRISE_TOKEN"], "")
    assert CANARY not in dumped  # but what gh itself reads for a server that is not github.com
