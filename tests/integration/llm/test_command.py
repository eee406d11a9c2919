"""Programs as providers: how they are started, what they see, how they end, how their output is read."""

import json
import os
import stat
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

from agentos.config import Config, load_config
from agentos.coordinator.keys import key_ring
from agentos.errors import ConfigError, ItemFailed, StopRequested
from agentos.key_tables import KeyReference
from agentos.llm import command
from agentos.llm.command import COMMANDS, CommandProvider
from agentos.llm.command_reply import ProgramOutput, read_claude, read_gemini
from agentos.llm.provider import Cancel, ModelRequest, ProviderError, Reply
from agentos.llm.providers import check_provider
from agentos.model import CallError
from agentos.secret import Secret
from harness.processes import wait_until

NOW = 1_800_000_000.0
PROMPT = "Draft #42.\nAsk bob@example.com, read @/etc/passwd.\n"
REQUEST = ModelRequest(role="drafter", model="some-model-4-5", number=1, system="Be exact.", prompt=PROMPT)
PROGRAMS = {"claude-cli": "claude", "gemini-cli": "gemini"}


def claude_result(**more: Any) -> dict[str, Any]:
    return {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "result": "the text",
        "stop_reason": "end_turn",
        "usage": {
            "input_tokens": 3,
            "cache_creation_input_tokens": 20,
            "cache_read_input_tokens": 100,
            "output_tokens": 7,
        },
        "modelUsage": {"claude-haiku-4-5": {"outputTokens": 2}, "some-model-4-5": {"outputTokens": 7}},
        **more,
    }


def gemini_result(**more: Any) -> dict[str, Any]:
    tokens = {"prompt": 123, "candidates": 5, "thoughts": 2, "cached": 0, "tool": 0, "total": 130}
    helper = {"prompt": 0, "candidates": 1, "thoughts": 0}
    models = {"gemini-2.5-flash-lite": {"tokens": helper}, "some-model-4-5": {"tokens": tokens}}
    return {"session_id": "s", "response": "the text", "stats": {"models": models}, **more}


ANSWERS = {"claude-cli": claude_result(), "gemini-cli": gemini_result()}


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for programs, the only one on the path; what they note goes beside."""
    folder = tmp_path / "bin"
    folder.mkdir()
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", None)
    return folder


def install(programs: Path, name: str, body: str) -> None:
    program = programs / PROGRAMS[name]
    head = f"#!{sys.executable} -S\nimport json, os, signal, subprocess, sys, time\n"
    program.write_text(f"{head}NOTES = {str(programs.parent / 'notes.json')!r}\n{body}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


def ask(
    name: str, request: ModelRequest = REQUEST, cancel: Cancel | None = None, seconds: float = 30.0
) -> Reply:
    provider = CommandProvider(name, call_timeout=seconds, worktree=Path(tempfile.gettempdir()) / "project")
    return provider.call(request, secret=Secret(name, ""), cancel=cancel or Cancel())


def check(model: str) -> None:
    check_provider(model, None, os.environ)


def fails(name: str, seconds: float = 30.0) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        ask(name, seconds=seconds)
    return caught.value


RECORD = """
seen = {
    "argv": sys.argv[1:], "stdin": sys.stdin.read(), "cwd": os.getcwd(),
    "files": [os.path.join(a, f) for a, _, fs in os.walk(".") for f in fs],
    "mode": os.stat(os.path.dirname(os.getcwd())).st_mode & 0o777,
    "env": dict(os.environ), "pid": os.getpid(), "pgid": os.getpgrp(), "sid": os.getsid(0),
}
for name in ("system",):
    path = os.environ.get("GEMINI_SYSTEM_MD") or sys.argv[sys.argv.index("--system-prompt-file") + 1]
    seen[name] = open(path, encoding="utf-8").read()
open(NOTES, "w").write(json.dumps(seen))
"""


def record(programs: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    notes = programs.parent / "notes.json"
    install(programs, name, RECORD + f"print({json.dumps(json.dumps(ANSWERS[name]))})")
    return notes


# What a program is given.


@pytest.mark.parametrize("name", COMMANDS)
def test_the_prompt_comes_on_standard_input_and_never_on_the_command_line(
    programs: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    notes = record(programs, name, monkeypatch)
    reply = ask(name)
    assert (reply.text, reply.model) == ("the text", "some-model-4-5")
    assert reply.tokens_in == 123
    assert reply.tokens_out == (7 if name == "claude-cli" else 8)
    seen = json.loads(notes.read_text())
    assert seen["stdin"].replace("\\@", "@") == PROMPT
    assert seen["system"] == "Be exact."
    assert not any("Draft" in one or "exact" in one for one in seen["argv"])
    assert "some-model-4-5" in seen["argv"]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_program_works_in_an_empty_private_folder_that_is_gone_afterwards(
    programs: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    notes = record(programs, name, monkeypatch)
    ask(name)
    seen = json.loads(notes.read_text())
    assert Path(seen["cwd"]).is_relative_to(programs.parent / "tmp")
    assert seen["files"] == ([] if name == "claude-cli" else ["./.gemini/settings.json"])
    assert seen["mode"] == 0o700
    assert list((programs.parent / "tmp").iterdir()) == []


@pytest.mark.parametrize("name", COMMANDS)
def test_a_program_leads_a_process_group_of_its_own_in_the_session_of_the_worker(
    programs: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    notes = record(programs, name, monkeypatch)
    ask(name)
    seen = json.loads(notes.read_text())
    assert seen["pgid"] == seen["pid"] != os.getpgrp()
    assert seen["sid"] == os.getsid(0)


def test_claude_has_no_tools_settings_servers_commands_memory_files_or_session(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = record(programs, "claude-cli", monkeypatch)
    ask("claude-cli")
    seen = json.loads(notes.read_text())
    argv = seen["argv"]
    assert argv[0] == "-p"
    for flag, value in (("--tools", ""), ("--setting-sources", ""), ("--output-format", "json")):
        assert argv[argv.index(flag) + 1] == value
    assert {"--strict-mcp-config", "--disable-slash-commands", "--no-session-persistence"} < set(argv)
    assert seen["env"]["CLAUDE_CODE_DISABLE_ATTACHMENTS"] == "1"
    assert seen["env"]["CLAUDE_CODE_DISABLE_CLAUDE_MDS"] == "1"
    assert seen["env"]["CLAUDE_CODE_MAX_RETRIES"] == "0"


def test_gemini_has_no_tools_servers_extensions_or_memory_files_and_reads_no_file_named_in_a_text(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = record(programs, "gemini-cli", monkeypatch)
    ask("gemini-cli")
    seen = json.loads(notes.read_text())
    argv = seen["argv"]
    for flag, value in (("--approval-mode", "default"), ("--extensions", "none")):
        assert argv[argv.index(flag) + 1] == value
    assert seen["stdin"].count("\\@") == seen["stdin"].count("@") == 2
    assert seen["env"]["GEMINI_CLI_TRUST_WORKSPACE"] == "true"
    settings = json.loads(COMMANDS["gemini-cli"].files[".gemini/settings.json"])
    assert settings["tools"] == {"core": ["none"]}
    assert settings["mcp"] == {"allowed": ["none"]}
    assert settings["general"] == {"maxAttempts": 1}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_schema_is_asked_for_in_the_prompt(
    programs: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    notes = record(programs, name, monkeypatch)
    schema = {"type": "object", "properties": {"verdict": {"type": "string"}}}
    ask(name, ModelRequest(role="reviewer", model="m", number=1, system="s", prompt="Review.", schema=schema))
    seen = json.loads(notes.read_text())
    assert seen["stdin"].startswith("Review.\n\nReply with one JSON object")
    assert seen["stdin"].rstrip().endswith(json.dumps(schema))


# How it ends.


CHILD = """
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
open(NOTES + ".part", "w").write(json.dumps([os.getpid(), child.pid]))
os.rename(NOTES + ".part", NOTES)
"""


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="reads /proc")
@pytest.mark.parametrize(
    "ending", ["time.sleep(600)", "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"]
)
def test_a_program_that_takes_too_long_is_ended_with_all_it_started(
    programs: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setattr(command, "END_SECONDS", 0.1)
    notes = programs.parent / "notes.json"
    install(programs, "claude-cli", CHILD + ending)
    error = fails("claude-cli", seconds=2.0)
    assert (error.error_class, str(error)) == (CallError.TRANSIENT, "no reply within 2 s")
    pids = json.loads(notes.read_text())
    wait_until(lambda: not any(map(alive, pids)), "the end of the group", 20)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="reads /proc")
def test_a_stop_ends_the_group_at_once_and_leaves_no_folder(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = programs.parent / "notes.json"
    install(programs, "gemini-cli", CHILD + "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)")
    cancel, caught = Cancel(), []

    def run() -> None:
        try:
            ask("gemini-cli", cancel=cancel, seconds=600.0)
        except StopRequested as exc:
            caught.append(exc)

    caller = threading.Thread(target=run)
    caller.start()
    wait_until(notes.exists, "the start")
    assert len(list((programs.parent / "tmp").iterdir())) == 1
    cancel.set()
    # By then it is done: a worker does not wait for the thread of a call it gave up.
    assert list((programs.parent / "tmp").iterdir()) == []
    caller.join(20)
    assert len(caught) == 1
    wait_until(lambda: not any(map(alive, json.loads(notes.read_text()))), "the end of the group", 20)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="reads /proc")
def test_what_a_program_leaves_running_does_not_hold_up_its_answer(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = programs.parent / "notes.json"
    install(programs, "claude-cli", CHILD + f"print({json.dumps(json.dumps(claude_result()))})")
    assert ask("claude-cli").text == "the text"
    wait_until(lambda: not alive(json.loads(notes.read_text())[1]), "the end of what was left", 20)


def test_a_program_that_prints_without_end_is_ended(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "MAX_REPLY_BYTES", 1_000_000)
    install(programs, "claude-cli", "while True: sys.stdout.write('x' * 65536)")
    assert "larger than 1,000,000 bytes" in str(fails("claude-cli"))


def test_a_long_answer_and_much_noise_come_through_together(programs: Path) -> None:
    body = "sys.stderr.write('noise ' * 200_000)\n"
    body += f"answer = {claude_result()!r} | {{'result': 'y' * 3_000_000}}\nprint(json.dumps(answer))"
    install(programs, "claude-cli", body)
    assert len(ask("claude-cli").text) == 3_000_000


def test_a_program_that_vanished_fails_the_item_and_says_what_to_do(programs: Path) -> None:
    with pytest.raises(ItemFailed, match="Install Claude Code"):
        ask("claude-cli")


def test_a_program_that_cannot_be_started_fails_the_item(programs: Path) -> None:
    (programs / "claude").write_text("#!/no/such/interpreter\n")
    (programs / "claude").chmod(0o755)
    with pytest.raises(ItemFailed, match="cannot be started"):
        ask("claude-cli")


# Before any work.


@pytest.mark.parametrize("name", COMMANDS)
def test_a_program_that_is_not_installed_is_told_before_any_work(programs: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=f"{PROGRAMS[name]}' is not on your PATH. Install"):
        check(f"{name}:some-model")
    install(programs, name, "")
    check(f"{name}:some-model")


def test_a_program_in_the_current_folder_is_never_meant(
    programs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install(programs, "claude-cli", "")
    monkeypatch.chdir(programs)
    for path in (".", "", f".{os.pathsep}bin"):
        monkeypatch.setenv("PATH", path)
        with pytest.raises(ConfigError):
            check("claude-cli:some-model")


@pytest.mark.parametrize("model", ["--dangerously-skip-permissions", "-p", "a b", "a\nb", "a;b", "$(x)"])
def test_a_model_that_could_be_read_as_something_else_is_refused(programs: Path, model: str) -> None:
    install(programs, "claude-cli", "")
    with pytest.raises(ConfigError, match="is not a model name"):
        check(f"claude-cli:{model}")
    with pytest.raises(ItemFailed):
        ask("claude-cli", ModelRequest(role="drafter", model=model, number=1, system="", prompt=""))


def config(*keys: KeyReference) -> Config:
    made = load_config(flags={}, worktree=None, environment={"CLAUDE_LIMITS": "none", "OPENAI_API_KEY": "x"})
    return Config(settings=made.settings, sources={}, keys=keys, environment=made.environment)


def test_a_command_provider_needs_no_key_and_is_known_by_its_name() -> None:
    ring = key_ring(config(), ["claude-cli", "openai"])
    assert [spec.id for spec in ring.specs] == ["openai", "claude-cli"]
    assert ring.secrets["claude-cli"].reveal() == ""
    assert [spec.id for spec in key_ring(config(), ["openai"]).specs] == ["openai"]


def test_limits_of_a_command_provider_are_taken_from_its_keys_entry() -> None:
    mine = KeyReference(id="mine", provider="claude-cli", env="CLAUDE_LIMITS", max_in_flight=2)
    (spec,) = key_ring(config(mine), ["claude-cli"]).specs
    assert (spec.id, spec.max_in_flight) == ("mine", 2)


# What is made of what it prints.


def finished(out: Any = "", err: str = "", code: int = 0) -> ProgramOutput:
    text = out if isinstance(out, str) else json.dumps(out)
    return ProgramOutput(code=code, out=text.encode(), err=err.encode())


def claude_error(out: Any, code: int = 1, err: str = "") -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        read_claude(finished(out, err, code), NOW)
    return caught.value


def gemini_error(out: Any = "", code: int = 1, err: Any = "") -> ProviderError:
    text = err if isinstance(err, str) else json.dumps(err, indent=2)
    with pytest.raises(ProviderError) as caught:
        read_gemini(finished(out, text, code), NOW)
    return caught.value


def test_claude_tells_the_model_by_its_messages() -> None:
    said = {"type": "assistant", "message": {"model": "claude-sonnet-4-5-20250929"}}
    false = {"type": "assistant", "message": {"model": "<synthetic>"}}
    messages = [{"type": "system", "subtype": "init", "model": "asked"}, said, false, claude_result()]
    assert read_claude(finished(messages), NOW).model == "claude-sonnet-4-5-20250929"
    assert read_claude(finished(claude_result(modelUsage=None)), NOW).model == ""


def test_notices_before_the_answer_are_passed_over() -> None:
    assert read_gemini(finished(f"Loaded credentials.\n{json.dumps(gemini_result(), indent=2)}\n"), NOW).text
    assert read_claude(finished(f"[notice]\n{json.dumps(claude_result())}"), NOW).text == "the text"


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"api_error_status": 429}, CallError.RATE_LIMITED),
        ({"api_error_status": 401}, CallError.KEY_REJECTED),
        ({"api_error_status": 403}, CallError.KEY_REJECTED),
        ({"api_error_status": 404}, CallError.BAD_REQUEST),
        ({"api_error_status": 500}, CallError.TRANSIENT),
        ({"api_error_status": 529}, CallError.CAPACITY),
        ({"api_error_status": None, "error": "authentication_failed"}, CallError.KEY_REJECTED),
        ({"error": "rate_limit"}, CallError.RATE_LIMITED),
        ({"error": "overloaded"}, CallError.CAPACITY),
        ({"error": "something new"}, CallError.TRANSIENT),
        ({"api_error_status": True}, CallError.TRANSIENT),
        ({"subtype": "error_max_turns", "is_error": False}, CallError.TRANSIENT),
        ({"subtype": "error_during_execution", "errors": ["why"]}, CallError.TRANSIENT),
    ],
)
def test_claude_errors_are_told_apart_by_fields(more: dict[str, Any], expected: CallError) -> None:
    error = claude_error(claude_result(**{"is_error": True, "result": "429 401 rate limit"} | more))
    assert error.error_class is expected


def test_words_in_the_text_of_a_claude_error_decide_nothing() -> None:
    text = "API Error: 429 rate limit, 401 please run /login, usage limit reached"
    error = claude_error(claude_result(is_error=True, result=text))
    assert error.error_class is CallError.TRANSIENT
    assert "please run /login" in str(error)


def test_a_used_up_subscription_rests_until_the_time_the_program_tells() -> None:
    info = {"status": "rejected", "resetsAt": int(NOW) + 5000, "rateLimitType": "five_hour"}
    event = {"type": "rate_limit_event", "rate_limit_info": info}
    result = claude_result(is_error=True, api_error_status=429, result="You've hit your limit")
    error = claude_error([event, result])
    assert (error.error_class, error.quota_reset) == (CallError.QUOTA_EXHAUSTED, 5000.0)
    for wrong in (
        {"status": "allowed"},
        {"resetsAt": NOW - 5},
        {"resetsAt": NOW + 1e9},
        {"resetsAt": "soon"},
    ):
        error = claude_error([event | {"rate_limit_info": info | wrong}, result])
        assert (error.error_class, error.quota_reset) == (CallError.RATE_LIMITED, None)


def test_a_login_that_is_missing_shows_in_the_messages_of_claude() -> None:
    said = {"type": "assistant", "error": "authentication_failed", "message": {"model": "<synthetic>"}}
    result = claude_result(is_error=True, result="Not logged in, key sk-ant-secret")
    error = claude_error([said, result])
    assert error.error_class is CallError.KEY_REJECTED
    assert "log in" in str(error)
    assert "secret" not in str(error)


@pytest.mark.parametrize("reason", ["max_tokens", "refusal"])
def test_an_answer_of_claude_that_is_not_whole_is_no_answer(reason: str) -> None:
    error = claude_error(claude_result(stop_reason=reason), code=0)
    assert (error.usage.tokens_in, error.usage.tokens_out) == (123, 7), "it was paid for"
    assert error.error_class is (CallError.CUT_OFF if reason == "max_tokens" else CallError.DECLINED)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"type": "Error", "code": 41}, CallError.KEY_REJECTED),
        ({"type": "FatalAuthenticationError", "code": 1}, CallError.KEY_REJECTED),
        ({"type": "ApiError", "code": 403}, CallError.KEY_REJECTED),
        ({"type": "ApiError", "code": "401"}, CallError.KEY_REJECTED),
        ({"type": "TerminalQuotaError", "code": 1}, CallError.QUOTA_EXHAUSTED),
        ({"type": "TerminalQuotaError", "code": 429}, CallError.QUOTA_EXHAUSTED),
        ({"type": "RetryableQuotaError"}, CallError.RATE_LIMITED),
        ({"type": "ApiError", "code": 429}, CallError.RATE_LIMITED),
        ({"type": "ApiError", "code": 503}, CallError.CAPACITY),
        ({"type": "ModelNotFoundError", "code": 404}, CallError.BAD_REQUEST),
        ({"type": "FatalTurnLimitedError", "code": 53}, CallError.TRANSIENT),
        ({"type": "Error"}, CallError.TRANSIENT),
        ({"type": ["odd"], "code": {"odd": 1}}, CallError.TRANSIENT),
        ("all words", CallError.TRANSIENT),
    ],
)
def test_gemini_errors_are_told_apart_by_fields_on_either_stream(error: Any, expected: CallError) -> None:
    told = error | {"message": "429 quota exceeded, 401"} if isinstance(error, dict) else error
    assert gemini_error({"error": told}).error_class is expected
    assert gemini_error(err={"session_id": "s", "error": told}).error_class is expected


def test_exit_codes_of_gemini_count_where_there_is_no_json() -> None:
    assert gemini_error(err="Please set an Auth method", code=41).error_class is CallError.KEY_REJECTED
    assert gemini_error(err="no prompt", code=42).error_class is CallError.BAD_REQUEST
    assert gemini_error(err="boom", code=1).error_class is CallError.TRANSIENT


@pytest.mark.parametrize("name", COMMANDS)
def test_a_failure_is_told_by_the_last_line_tame_and_short(programs: Path, name: str) -> None:
    install(
        programs,
        name,
        "sys.stderr.write('first\\nlast \\x1b[31mline of sk-ant-123 429' + 'z' * 999+'\\n\\n')\nsys.exit(7)",
    )
    error = fails(name)
    assert error.error_class is CallError.TRANSIENT
    assert str(error).startswith(f"{PROGRAMS[name]}: exit code 7: last  [31mline of [key] 429z")
    assert len(str(error)) < 400


@pytest.mark.parametrize("name", COMMANDS)
def test_a_program_that_is_killed_is_a_passing_failure(programs: Path, name: str) -> None:
    install(programs, name, "os.kill(os.getpid(), signal.SIGKILL)")
    error = fails(name)
    assert (error.error_class, str(error)) == (CallError.TRANSIENT, f"{PROGRAMS[name]}: killed by signal 9")


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(
    "out",
    [
        "",
        "no JSON",
        json.dumps(claude_result())[:-9],
        json.dumps(gemini_result())[:-9],
        "[]",
        "[1]",
        '"x"',
        "null",
        "{}",
        '{"type": "result"}',
        '{"response": 5}',
        "[" * 100_000,
        "{\n" * 5_000,
    ],
)
def test_garbled_output_is_a_passing_failure(name: str, out: str) -> None:
    read = COMMANDS[name].read
    with pytest.raises(ProviderError) as caught:
        read(finished(out), NOW)
    assert caught.value.error_class is CallError.TRANSIENT
