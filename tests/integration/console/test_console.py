"""Output: whatever bytes a worker prints become whole, harmless lines behind its name."""

import os
import sys
from pathlib import Path

import pytest

from agentos.console.console import Console, FooterView
from agentos.events.progress import progress_of
from agentos.events.state import RunState


def streaming() -> Console:
    return Console(how="stream", json=False, environment={})


def test_every_line_of_an_item_stands_behind_its_label(capfd: pytest.CaptureFixture[str]) -> None:
    console = streaming()
    console.item_lines("LLD-42", ["one", "two"], error=False)
    console.item_lines("LLD-43", ["three"], error=True)
    console.item_lines("LLD-44", [], error=False)
    said = capfd.readouterr()
    assert said.out == "[LLD-42] one\n[LLD-42] two\n"
    assert said.err == "[LLD-43] three\n"


@pytest.mark.parametrize("line", ["plain", "two\nlines", "a\r\nb", "bell\x07 \x1b[2J \u202e"])
@pytest.mark.parametrize("way", ["say", "complain"])
def test_every_line_of_the_coordinator_stands_behind_its_name(
    capfd: pytest.CaptureFixture[str], line: str, way: str
) -> None:
    getattr(streaming(), way)(line)
    said = capfd.readouterr()
    lines = (said.out + said.err).split("\n")
    assert lines.pop() == ""
    assert all(one.startswith("[COORDINATOR] ") for one in lines), lines
    assert "".join(lines).isprintable()


def test_with_json_standard_output_carries_nothing_else(capfd: pytest.CaptureFixture[str]) -> None:
    console = Console(how="stream", json=True, environment={})
    console.say("hello")
    console.item_lines("LLD-42", ["one"], error=False)
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err == "[COORDINATOR] hello\n[LLD-42] one\n"


def test_quiet_says_only_what_must_be_seen(capfd: pytest.CaptureFixture[str]) -> None:
    console = Console(how="quiet", json=False, environment={})
    console.say("hello")
    console.item_lines("LLD-42", ["one"], error=True)
    console.complain("the disk is full")
    said = capfd.readouterr()
    assert (said.out, said.err) == ("", "[COORDINATOR] the disk is full\n")


@pytest.mark.parametrize("actions", [False, True])
def test_grouped_output_comes_in_one_piece_when_the_item_is_done(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], actions: bool
) -> None:
    log = tmp_path / "LLD-42.log"
    log.write_text("2026-01-01T00:00:00.000Z out one two  three\n2026-01-01T00:00:00.000Z err \n")
    console = Console(how="grouped", json=False, environment={"GITHUB_ACTIONS": "true"} if actions else {})
    console.item_lines("LLD-42", ["one two  three"], error=False)
    assert capfd.readouterr().out == ""
    console.item_done("LLD-42", log)
    console.item_done("LLD-43", tmp_path / "missing.log")
    said = capfd.readouterr().out.splitlines()
    body = ["[LLD-42] one two  three", "[LLD-42] "]
    assert said == (["::group::LLD-42", *body, "::endgroup::"] if actions else body)


@pytest.mark.parametrize("actions", [False, True])
def test_a_remark_beside_a_document_is_one_harmless_command(
    capfd: pytest.CaptureFixture[str], actions: bool
) -> None:
    console = Console(how="quiet", json=False, environment={"GITHUB_ACTIONS": "true"} if actions else {})
    evil = "100 %\n::warning::two\x1b[2J ##[error]x"
    console.annotate("error", evil, title="LLD-1: a,b", file="docs/a:b,c\n::x.md")
    console.annotate("warning", "no file", title="T", file=None)
    said = capfd.readouterr().out.splitlines()
    assert said == (
        [
            (
                "::error file=docs/a%3Ab%2Cc\\n%3A%3Ax.md,title=LLD-1%3A a%2Cb"
                "::100 %25%0A::warning::two\\x1b[2J ##\\[error]x"
            ),
            "::warning title=T::no file",
        ]
        if actions
        else []
    )


def test_without_a_terminal_there_is_no_footer(capfd: pytest.CaptureFixture[str]) -> None:
    console = streaming()
    assert not console.live
    console.show(FooterView(progress=progress_of(RunState(), now=0.0), seconds=0.0, running=()))
    console.close()
    assert capfd.readouterr().out == ""


def test_when_the_reader_of_the_output_goes_the_run_goes_on_and_can_still_complain(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        console = streaming()
        console.say("hello")
        console.say("again")
        console.complain("the disk is full")
    assert capfd.readouterr().err == "[COORDINATOR] the disk is full\n"
