"""The error boundary: what goes wrong is one line for people, and with --json one object for scripts."""

import json
from pathlib import Path

import click
import pytest

from agentos.cli.app import run
from agentos.errors import AgentosError, NoUsableKey, StorageError


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "agentos.toml").write_text("", "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AGENTOS_JSON", raising=False)
    return tmp_path


def broken(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Have `agentos status` end with an error."""

    def fail(_home: object) -> None:
        raise error

    monkeypatch.setattr("agentos.store.run_folder.list_runs", fail)


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (AgentosError("Of our own."), 1, "Of our own."),
        (StorageError("Disk f\u00fcll, \udcff."), 1, "Disk f\u00fcll, \udcff."),
        (NoUsableKey("No key."), 4, "No key."),
        (click.UsageError("Wrong."), 2, "Wrong."),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_an_error_is_one_json_object_and_the_line_for_people_stays(
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
    error: BaseException,
    code: int,
    message: str,
) -> None:
    broken(monkeypatch, error)
    assert run(["status"]) == code
    plain = capfdbinary.readouterr()
    assert plain.out == b""
    assert run(["status", "--json"]) == code
    asked = capfdbinary.readouterr()
    assert json.loads(asked.out.decode("utf-8")) == {"error": {"message": message, "exit_code": code}}
    assert asked.err == plain.err
    assert plain.err


def test_an_unexpected_error_is_json_too_and_names_where_its_details_are(
    project: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    broken(monkeypatch, RuntimeError("no such luck"))
    assert run(["status", "--json"]) == 1
    told = capfdbinary.readouterr()
    error = json.loads(told.out)["error"]
    [crash] = (project / ".agentos" / "logs").glob("crash-*.txt")
    assert error["exit_code"] == 1
    assert error["message"].startswith("Unexpected RuntimeError: no such luck.")
    assert str(crash) in error["message"]
    assert f"agentos: {error['message']}\n".encode() == told.err


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("arguments", "json_too"),
    [
        (["status", "--nonsense", "--json"], True),
        (["--json", "status"], True),
        (["lld", "--parallel", "x", "1", "--dry-run", "--json"], True),
        (["lld", "no such item", "--dry-run", "--json"], True),
        (["status", "--nonsense"], False),
        (["logs", "--", "--json"], False),
    ],
)
def test_the_flag_is_seen_also_where_the_words_cannot_be_parsed(
    capfdbinary: pytest.CaptureFixture[bytes], arguments: list[str], json_too: bool
) -> None:
    assert run(arguments) == 2
    told = capfdbinary.readouterr()
    assert told.err
    assert bool(told.out) is json_too
    if json_too:
        assert json.loads(told.out)["error"]["exit_code"] == 2


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("value", "command", "json_too"),
    [("1", "lld", True), ("0", "lld", False), ("maybe", "lld", False), ("1", "status", False)],
)
def test_the_variable_counts_for_the_commands_that_read_it(
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
    value: str,
    command: str,
    json_too: bool,
) -> None:
    monkeypatch.setenv("AGENTOS_JSON", value)
    assert run([command, "--nonsense"]) == 2
    assert bool(capfdbinary.readouterr().out) is json_too
