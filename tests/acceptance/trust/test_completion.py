"""Tab in a shell never puts a word of the repository's into the line that means anything to the shell."""

import shutil
from pathlib import Path

import pytest

from harness.project import Project
from harness.terminal import at_a_terminal

GOOD = "2026-11-16T00-37-24.647Z"
EVIL = (
    "$(touch pwned)",
    "`touch pwned`",
    "x;touch pwned;",
    "x&touch${IFS}pwned",
    "a\nplain,$(touch pwned)",
    "*",
    "a b",
    "a,b",
    "--open",
    "-v",
    "~",
    "{a,b}",
    "a'",
    'a"',
    "a\\",
    "a:b",
    "\x1b[31mred",
    "ünïcode",
    "x" * 201,
)


def make_run(home: Path, name: str, label: str) -> None:
    run = home / "logs" / "parallel" / name
    run.mkdir(parents=True)
    (run / f"{label}.log").touch()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("line", ["agentos logs --run ", "agentos logs "])
def test_tab_and_return_run_nothing_of_the_repository(project: Project, line: str) -> None:
    typed = ['eval "$(agentos completion bash)"']
    for number, evil in enumerate(name for name in EVIL if "touch" in name):
        home = project.outside / f"home-{number}"
        make_run(home, evil, f"LLD-{evil}")
        typed += [f"export AGENTOS_HOME={home}", f"{line}\t"]
    typed += ["echo at the end > reached", "exit", ""]
    bash = ("bash", "--norc", "--noprofile", "-i")
    _, shown = at_a_terminal(project, command=bash, typed="\n".join(typed))
    assert (project.root / "reached").exists(), shown
    assert not (project.root / "pwned").exists(), shown


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_is_offered_plain_words_alone(project: Project, shell: str) -> None:
    home = project.outside / "home"
    for name in (GOOD, *EVIL):
        make_run(home, name, "LLD-42" if name == GOOD or name.startswith("-") else f"LLD-{name[:200]}")
    shown = {"bash": "plain,{}\n", "zsh": "plain\n{}\n_\n", "fish": "plain,{}\n"}[shell]
    for words, offered in (
        ("agentos logs --run ", GOOD),
        ("agentos logs ", "42"),
        ("agentos logs LLD", "LLD-42"),
    ):
        typed = words if shell == "fish" else words.strip()
        at = {"fish": words.rpartition(" ")[2]}.get(shell, str(len(words.split(" ")) - 1))
        asked = project.run(
            env={
                "AGENTOS_HOME": str(home),
                "_AGENTOS_COMPLETE": f"{shell}_complete",
                "COMP_WORDS": typed,
                "COMP_CWORD": at,
            }
        )
        assert asked.out == shown.format(offered)
