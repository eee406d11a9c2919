"""`agentos revise` at a terminal: the note is written in the user's editor."""

import sys

import pytest

from harness.project import Project
from harness.terminal import at_a_terminal


def edited(project: Project, editor: str) -> tuple[int, str]:
    """Have an editor do this to the file it is given."""
    script = project.outside / "editor"
    script.write_text(f"#!{sys.executable}\n{editor}\n", "utf-8")
    script.chmod(0o700)
    return at_a_terminal(project, "revise", "42", env={"EDITOR": str(script)})


def note_of(project: Project) -> list[str]:
    return [one["note"] for one in project.run("status", "--json").json["notes"]]


def test_the_editor_is_opened_and_its_comments_are_left_out(project: Project) -> None:
    project.issue(42)
    assert project.lld("42").code == 0
    writes = "import sys; path = sys.argv[1]; open(path, 'a').write('\\n# a thought\\nUse the cache.\\n')"
    code, shown = edited(project, writes)
    assert code == 0, shown
    assert note_of(project) == ["Use the cache."]


@pytest.mark.parametrize("editor", ["pass", "import sys; open(sys.argv[1], 'w').write('# nothing\\n')"])
def test_an_editor_that_is_left_without_a_note_changes_nothing(project: Project, editor: str) -> None:
    project.issue(42)
    assert project.lld("42").code == 0
    code, shown = edited(project, editor)
    assert code == 2, shown
    assert "nothing new to review" in " ".join(shown.split())
    assert note_of(project) == []


@pytest.mark.parametrize(
    "editor",
    [
        "raise SystemExit(3)",
        "import os, sys; os.unlink(sys.argv[1])",
        "open(__import__('sys').argv[1], 'wb').write(b'\\xff')",
    ],
)
def test_an_editor_that_fails_changes_nothing_and_is_told_in_one_line(project: Project, editor: str) -> None:
    project.issue(42)
    assert project.lld("42").code == 0
    code, shown = edited(project, editor)
    assert code == 2, shown
    assert len(shown.strip().splitlines()) == 1, shown
    assert note_of(project) == []


def test_an_editor_may_have_arguments(project: Project) -> None:
    project.issue(42)
    assert project.lld("42").code == 0
    script = project.outside / "an editor"
    script.write_text('#!/bin/sh\necho "$1" >> "$2"\n', "utf-8")
    script.chmod(0o700)
    chosen = {"VISUAL": f"'{script}' 'Use the cache.'", "EDITOR": "false"}
    code, shown = at_a_terminal(project, "revise", "42", env=chosen)
    assert code == 0, shown
    assert note_of(project) == ["Use the cache."]
