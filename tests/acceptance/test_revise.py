"""`agentos revise` at a terminal: the note is written in the user's editor."""

import os
import pty
import subprocess
import sys

import pytest

from harness.project import MODULE, Project


def at_a_terminal(project: Project, *arguments: str, editor: str) -> tuple[int, str]:
    """Run the command at a terminal of its own; give its exit code and what it showed."""
    ours, theirs = pty.openpty()
    script = project.outside / "editor"
    script.write_text(f"#!{sys.executable}\n{editor}\n", "utf-8")
    script.chmod(0o700)
    process = subprocess.Popen(
        [*MODULE, *arguments],
        cwd=project.root,
        env=project.environment | {"EDITOR": str(script), "TERM": "dumb"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            data = os.read(ours, 4096)
        except OSError:  # what Linux says when nobody is at the other end any more
            break
        if not data:
            break
        shown += data
    os.close(ours)
    return process.wait(60), shown.decode()


def note_of(project: Project) -> list[str]:
    return [one["note"] for one in project.run("status", "--json").json["notes"]]


def test_the_editor_is_opened_and_its_comments_are_left_out(project: Project) -> None:
    project.issue(42)
    assert project.lld("42").code == 0
    writes = "import sys; path = sys.argv[1]; open(path, 'a').write('\\n# a thought\\nUse the cache.\\n')"
    code, shown = at_a_terminal(project, "revise", "42", editor=writes)
    assert code == 0, shown
    assert note_of(project) == ["Use the cache."]


@pytest.mark.parametrize("editor", ["pass", "import sys; open(sys.argv[1], 'w').write('# nothing\\n')"])
def test_an_editor_that_is_left_without_a_note_changes_nothing(project: Project, editor: str) -> None:
    project.issue(42)
    assert project.lld("42").code == 0
    code, shown = at_a_terminal(project, "revise", "42", editor=editor)
    assert code == 2, shown
    assert "nothing new to review" in " ".join(shown.split())
    assert note_of(project) == []
