"""The mock: its script, what it writes, and what it does to the worker it runs in."""

import signal
import subprocess
import sys

import pytest

from agentos.errors import ItemFailed
from harness.mock import call, mock


def test_only_the_first_draft_of_a_process_performs(capfd: pytest.CaptureFixture[str]) -> None:
    provider = mock("say=hello")
    call(provider, "reviewer")
    assert capfd.readouterr().out == ""
    call(provider, "drafter", 3)
    assert capfd.readouterr().out == "hello\n"
    call(provider, "drafter", 4)
    assert capfd.readouterr().out == ""


def test_say_writes_bytes_as_they_are(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    call(mock(r'say="a\xff\x00\e[2J\n\n"'), "drafter")
    assert capfdbinary.readouterr().out == b"a\xff\x00\x1b[2J\n\n"


CHILD = """
import sys
from agentos.llm.mock import REFUSED_SECRET, MockProvider, parse_script
from agentos.llm.provider import Cancel, ModelRequest
from agentos.secret import Secret
script = parse_script(sys.stdin.read())
provider = MockProvider(script, kind="lld", item_id="1", title="", shell_allowed=False)
request = ModelRequest(role="drafter", model="", number=1, system="", prompt="")
provider.call(request, secret=Secret("mock-1", ""), cancel=Cancel())
"""


def in_a_process(words: str) -> subprocess.CompletedProcess[bytes]:
    text = f"<!-- mock: {words} -->".encode()
    return subprocess.run(
        [sys.executable, "-c", CHILD], input=text, capture_output=True, check=False, timeout=60
    )


def test_say_writes_all_of_it_even_into_a_pipe_that_is_full() -> None:
    assert in_a_process("say=" + "x" * 1_000_000).stdout == b"x" * 1_000_000 + b"\n"


def test_a_shell_command_runs_as_a_child_where_allowed(capfd: pytest.CaptureFixture[str]) -> None:
    call(mock('sh="echo out; echo err >&2; exit 3"', shell_allowed=True), "drafter")
    assert capfd.readouterr() == ("out\n", "err\n")


def test_a_shell_command_is_refused_otherwise(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ItemFailed, match=r"local item.*AGENTOS_MOCK_SHELL=1"):
        call(mock('sh="echo out"'), "drafter")
    assert capfd.readouterr().out == ""


def test_a_crash_kills_the_process_after_it_spoke() -> None:
    done = in_a_process("crash=SIGKILL say=last fail=never")
    assert done.returncode == -signal.SIGKILL
    assert done.stdout == b"last\n"
