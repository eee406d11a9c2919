"""The commands beside the workflows: verdict, config, init, help; and the flags' usage errors."""

import json
import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.project import MODULE, SCRIPT, SCRIPTS, Project

REVIEWS = Path(__file__).parents[1] / "unit" / "review" / "documents"
SEEDS = [REVIEWS / f"seed-00{number}.md" for number in range(5)]
VERDICTS = ["APPROVED", "APPROVED", "REVISE", "REVISE", "REVISE"]
COUNTED = [
    [(2, "Quality")],
    [],
    [(2, "Quality"), (2, "Quality"), (2, "Architecture")],
    [(1, "Safety"), (2, "Observability"), (2, "Quality")],
    [(1, "Cost"), (2, "Architecture"), (2, "Quality")],
]

FLAGS = """
--all --label --limit --source --retry-failed --fresh --parallel --timeout --run-timeout --max-retries
--max-iterations --max-wait --no-wait --fail-fast --drafter --reviewer --mock --budget --item-budget --engine
--dry-run --file --no-file --yes --output --json --verbose --quiet AGENTOS_MAX_RETRIES
"""


def test_the_five_reviews_read_as_they_are(project: Project) -> None:
    several = project.run("verdict", *SEEDS, "--json")
    assert several.code == 0, several.text
    assert several.err == ""
    assert [one["verdict"] for one in several.json] == VERDICTS
    for reading, expected in zip(several.json, COUNTED, strict=True):
        assert set(reading) == {"verdict", "findings", "questions", "reason"}
        for finding in reading["findings"]:
            assert set(finding) == {"tier", "category", "title", "text", "recommendation"}
        found = [(finding["tier"], finding["category"]) for finding in reading["findings"]]
        assert [one for one in found if one[0] < 3] == expected
    one = project.run("verdict", SEEDS[3], "--json")
    assert one.json == several.json[3]
    shown = project.run("verdict", *SEEDS)
    assert shown.code == 0
    lines = [line for line in shown.out.splitlines() if not line.startswith(" ")]
    assert [line.split(": ")[-1] for line in lines] == VERDICTS
    assert project.run("verdict", SEEDS[0]).out.splitlines()[0] == "APPROVED"


def test_a_verdict_is_never_guessed(project: Project, make_project: Callable[[str], Project]) -> None:
    seed = SEEDS[0].read_text("utf-8")
    wrong: dict[str, str | bytes] = {
        "empty.md": "",
        "two.md": seed.replace("[ ] **REVISE**", "[x] **REVISE**"),
        "none.md": seed.replace("[x] **APPROVED**", "[ ] **APPROVED**"),
        "quoted.md": "# A draft\n\n> ## Verdict\n> [x] **APPROVED**\n",
        "fenced.md": f"```\n{seed}\n```\n",
        "latin.md": seed.encode("utf-8") + b"\xff\xfe",
        "binary.md": bytes(range(256)),
        "control.md": "# Review\n\n\x1b[31mred\x07\n",
    }
    names = list(wrong)
    for name, content in wrong.items():
        project.write(name, content)
    result = project.run("verdict", *names, "--json")
    assert result.code == 1
    for name, reading in zip(names, result.json, strict=True):
        assert reading["verdict"] == "UNREADABLE", name
        assert reading["reason"], name
    shown = project.run("verdict", *names, SEEDS[0])
    assert shown.code == 1
    assert shown.out.count("UNREADABLE") >= len(names)
    assert "\x1b" not in shown.out
    for arguments in (["missing.md"], [SEEDS[0], "missing.md"], ["issues"], []):
        missing = project.run("verdict", *arguments)
        assert missing.code == 2, missing.text
        assert missing.out == ""
    # It needs no project.
    elsewhere = make_project("elsewhere")
    assert elsewhere.run("verdict", SEEDS[0]).code == 0
    assert elsewhere.files() == set()


def test_every_setting_tells_its_value_and_who_set_it(project: Project) -> None:
    project.write(
        "agentos.toml",
        'max_iterations = 7\ntimeout = "5m"\nparallel = 50\nmax_parallel = 99\nlld_folder = "designs"\n'
        '[providers.openai]\nbase_url = "http://evil.example/v1"\n',
    )
    project.write("pyproject.toml", '[tool.agentos]\nmax_iterations = 6\nlineage_folder = "trail"\n')
    user = Path(project.environment["HOME"])
    (user / ".config/agentos").mkdir(parents=True)
    (user / ".config/agentos/config.toml").write_text(
        'max_retries = 9\nlld_folder = "mine"\n[[keys]]\nid = "key-1"\nprovider = "openai"\nenv = "MY_KEY"\n'
    )
    secret = "sk-0123456789abcdef"
    env = {"AGENTOS_MAX_WAIT": "2h", "AGENTOS_MAX_RETRIES": "3", "MY_KEY": secret}
    result = project.run("config", "--json", env=env)
    assert result.code == 0, result.text
    assert secret not in result.text
    found = {name: (one["value"], one["origin"]) for name, one in result.json.items()}
    assert found["max_iterations"] == (7, "repo")  # agentos.toml is stronger than pyproject.toml
    assert found["lineage_folder"] == ("trail", "repo")
    assert found["lld_folder"] == ("mine", "user")
    assert found["max_retries"] == (3, "environment")
    assert found["max_wait"] == (7200.0, "environment")
    assert found["timeout"] == (3600.0, "default")
    assert found["max_parallel"] == (10, "default")
    assert found["parallel"] == (10, "repo")
    assert found["output"] == ("stream", "default")
    for ignored in ("timeout", "max_parallel", "providers"):
        assert f"Ignoring '{ignored}' in" in result.err
    shown = project.run("config", env=env)
    assert shown.code == 0
    assert secret not in shown.text
    line = next(line for line in shown.out.splitlines() if line.startswith("max_retries "))
    assert "environment: AGENTOS_MAX_RETRIES" in line
    values = {line.split()[0]: line for line in shown.out.splitlines() if line}
    for name, value in {"timeout": "3600", "mock": "false", "label": "[]", "budget": "(not set)"}.items():
        assert values[name].split("  ", 1)[1].strip().startswith(f"{value}  "), values[name]
    assert "key-1" in shown.out
    assert str(project.home) in shown.out
    given = project.write("other.toml", "max_retries = 2\n")
    for how in ({"AGENTOS_CONFIG": str(given)}, {}):
        flag = [] if how else ["--config", str(given)]
        assert project.run(*flag, "config", "--json", env=how).json["max_retries"]["value"] == 2


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("agentos.toml", "max_iterations = \n", "agentos.toml"),
        ("agentos.toml", "max_iteration = 3\n", "max_iteration"),
        ("agentos.toml", 'max_iterations = "many"\n', "max_iterations"),
        ("agentos.toml", b"\xff\xfe\x00", "agentos.toml"),
        ("agentos.toml", "[[[[", "agentos.toml"),
        ("agentos.toml", 'lld_template = "template.md"\n', "template.md"),
        ("pyproject.toml", "tool = 3\n", "pyproject.toml"),
        ("pyproject.toml", "[tool]\nagentos = 3\n", "pyproject.toml"),
        ("pyproject.toml", "[tool.agentos]\nunknown = 3\n", "unknown"),
    ],
)
def test_a_wrong_setting_is_one_clear_line(
    project: Project, name: str, content: str | bytes, told: str
) -> None:
    project.issue(1)
    project.write(name, content)
    before = project.snapshot()
    result = project.lld("--all")
    assert result.code == 2, result.text
    assert result.out == ""
    assert len(result.err.splitlines()) == 1, result.err
    assert told in result.err
    assert project.snapshot() == before


def test_wrong_flags_variables_and_files_of_the_user(project: Project) -> None:
    project.issue(1)
    wrong_user = project.write("user.toml", "colour = 3\n")
    cases: list[tuple[list[str], dict[str, str], str]] = [
        ([], {}, "--all"),
        (["1", "--all"], {}, "--all"),
        (["--all", "--max-iterations", "0"], {}, "--max-iterations"),
        (["--all", "--timeout", "soon"], {}, "--timeout"),
        (["--all", "--parallel", "0"], {}, "--parallel"),
        (["1", "--parallel", "42"], {}, "42"),
        (["--all", "--output", "loud"], {}, "--output"),
        (["--all", "--no-such-flag"], {}, "--no-such-flag"),
        (["--all", "--limit", "0"], {}, "--limit"),
        (["--all"], {"AGENTOS_MAX_ITERATIONS": "x"}, "AGENTOS_MAX_ITERATIONS"),
        (["--all"], {"AGENTOS_CONFIG": str(wrong_user)}, "colour"),
        (["--all"], {"AGENTOS_CONFIG": "/no/such/file"}, "/no/such/file"),
        (["--all"], {"AGENTOS_CREDENTIAL_LIMIT": "none"}, "AGENTOS_CREDENTIAL_LIMIT"),
        (["--all"], {"AGENTOS_SIMULATE_429": "none"}, "AGENTOS_SIMULATE_429"),
        (["--all"], {"AGENTOS_START_METHOD": "fork"}, "AGENTOS_START_METHOD"),
    ]
    before = project.snapshot()
    for arguments, env, told in cases:
        result = project.lld(*arguments, env=env)
        assert result.code == 2, (arguments, env, result.text)
        assert result.out == ""
        assert told in result.err, (arguments, result.err)
        assert project.snapshot() == before, (arguments, env)
    no_model = project.run("lld", "--all")
    assert no_model.code == 2
    assert "--mock" in no_model.err
    assert project.run("lld", "--all", "--drafter", "openai:gpt", "--reviewer", "openai:gpt").code in {2, 4}
    assert project.snapshot() == before


def test_init_sets_up_and_never_overwrites(make_project: Callable[[str], Project]) -> None:
    project = make_project("new")
    assert project.run("init").code == 0
    assert {"agentos.toml", "issues/active", "ideas/active"} <= project.files()
    assert project.lld("--all", "--dry-run").code == 0
    project.write("agentos.toml", "max_iterations = 3\n")
    before = project.snapshot()
    assert project.run("init").code == 0
    assert project.snapshot() == before

    demo = make_project("demo")
    made = demo.run("init", "--demo", "backlog")
    assert made.code == 0, made.text
    assert list((demo.root / "backlog/issues/active").glob("*.md"))
    assert list((demo.root / "backlog/ideas/active").glob("*.md"))
    before = demo.snapshot()
    again = demo.run("init", "--demo", "backlog")
    assert again.code == 2
    assert "backlog" in again.err
    demo.write("file", "")
    assert demo.run("init", "--demo", "file").code == 2
    assert {name: state for name, state in demo.snapshot().items() if name not in {"file", "."}} == {
        name: state for name, state in before.items() if name != "."
    }


@pytest.mark.slow
def test_the_demo_shows_every_ending(make_project: Callable[[str], Project]) -> None:
    outer = make_project("demo")
    assert outer.run("init", "--demo", "backlog").code == 0
    demo = replace(outer, root=outer.root / "backlog")
    for path in (demo.root / "issues/active").glob("*.md"):  # no need to look at it work
        path.write_text(path.read_text("utf-8").replace("latency=0.4", "latency=0"), "utf-8")
    result = demo.lld("--all", "--parallel", "3", "--timeout", "10s")
    assert result.code == 1, result.text
    assert set(demo.statuses().values()) == {"approved", "needs_revision", "discuss", "failed", "timed_out"}
    assert any(row["reviews"] == 2 for row in demo.summary()["items"] if row["status"] == "approved")
    assert "Exit 1: an item failed or timed out" in result.out
    for row in demo.summary()["items"]:
        assert row["label"] in result.out
        assert (demo.root / f"docs/lld/active/{row['label']}.md").exists() == (row["status"] == "approved")
    [waiting] = [row["id"] for row in demo.summary()["items"] if row["status"] == "discuss"]
    assert demo.run("decide", waiting, "--approve").code == 0
    assert demo.lld(waiting).code == 0
    assert demo.briefs("--all", "-j").code == 0
    demo.close()


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["lld", "--help"], ["verdict", "--help"]])
def test_help_and_version_start_without_langgraph(project: Project, arguments: list[str]) -> None:
    command = (MODULE[0], "-X", "importtime", *MODULE[1:])
    result = project.run(*arguments, command=command)
    assert result.code == 0
    imported = {line.rpartition("|")[2].strip() for line in result.err.splitlines()}
    assert "agentos.cli.app" in imported
    for heavy in ("langgraph", "langchain_core", "pydantic", "rich", "sqlite3"):
        assert not {name for name in imported if name == heavy or name.startswith(f"{heavy}.")}, heavy
    assert project.files() == {"agentos.toml", "issues", "issues/active", "ideas", "ideas/active"}


def test_the_dry_run_starts_without_langgraph(project: Project) -> None:
    project.issue(1)
    result = project.lld("1", "--dry-run", command=(MODULE[0], "-X", "importtime", *MODULE[1:]))
    assert result.code == 0
    assert "langgraph" not in result.err
    assert "langchain" not in result.err


def test_three_scripts_are_one_command(project: Project) -> None:
    project.issue(1)
    project.brief("idea")
    version = project.run("--version", command=SCRIPT)
    assert version.code == 0
    assert version.out == project.run("--version").out
    for script, item in (("lld-workflow", "1"), ("issue-workflow", "idea")):
        result = project.run("--all", "--mock", "--dry-run", "--json", command=(str(SCRIPTS / script),))
        assert [one["id"] for one in result.json["items"]] == [item]
    help_page = project.run("lld", "--help").said
    for flag in FLAGS.split():
        assert flag in help_page, flag
    unknown = project.run("no-such-command")
    assert unknown.code == 2
    assert "no-such-command" in unknown.err


def test_home_is_private_and_can_be_elsewhere(project: Project, tmp_path: Path) -> None:
    project.issue(1, mock="verdicts=DISCUSS")
    secret = "sk-0123456789abcdef-not-to-be-kept"
    env = {"OPENAI_API_KEY": secret, "GITHUB_TOKEN": secret, "GEMINI_API_KEY": secret}
    old = os.umask(0)
    try:
        assert project.lld("1", env=env).code == 3
    finally:
        os.umask(old)
    assert (project.home / ".gitignore").read_text("utf-8").splitlines()[-1] == "*"
    for path in (project.home, *project.home.rglob("*")):
        mode = stat.S_IMODE(path.lstat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), (path, oct(mode))
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path
    inside = project.snapshot()
    project.home = tmp_path / "elsewhere"
    for how in (["--home", str(project.home)], []):
        env = {} if how else {"AGENTOS_HOME": str(project.home)}
        result = project.run(*how, "lld", "1", "--mock", env=env)
        assert result.code == 3, result.text
    assert len(project.runs()) == 2
    assert project.calls("1", run=-1) == []  # it waits for the decision there, too
    now = project.snapshot()
    assert {n: s for n, s in now.items() if n.startswith(".agentos")} == {
        n: s for n, s in inside.items() if n.startswith(".agentos")
    }
    assert json.loads((project.runs()[0] / "summary.json").read_text("utf-8"))["items"][0][
        "checkpoint"
    ] == str(project.home / "checkpoints" / "lld_workflow_1.mock.db")


@pytest.mark.parametrize("folder", ["../outside", "/etc"])
def test_a_repo_that_points_outside_is_ignored_with_a_warning(project: Project, folder: str) -> None:
    project.write("agentos.toml", f'lld_folder = "{folder}"\n')
    project.issue(1)
    result = project.lld("--all")
    assert result.code == 0, result.text
    assert "lld_folder" in result.err
    assert (project.root / "docs/lld/active/LLD-1.md").is_file()
