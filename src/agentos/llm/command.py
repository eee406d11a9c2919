"""Command line programs as providers: `claude -p` and `gemini -p`. Worker process.

A program gets the prompt on standard input, never on its command line, and an empty private folder to work
in. Its tools, settings and memory files are switched off, and so is reading files that a prompt names: it
sees only the prompt. It runs in its own process group inside the worker's session and carries the worker's
token, so it ends with the call and with the worker.
"""

import contextlib
import json
import os
import re
import selectors
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from agentos import environment as environ
from agentos import programs
from agentos.errors import ConfigError, ItemFailed, StopRequested
from agentos.llm.command_reply import ProgramOutput, Reader, read_claude, read_gemini
from agentos.llm.http import MAX_REPLY_BYTES
from agentos.llm.provider import Cancel, ModelRequest, ProviderError, Reply
from agentos.model import CallError
from agentos.secret import Secret

END_SECONDS = 2.0  # between asking a program to end and killing it
MAX_ERROR_BYTES = 65_536  # of standard error; its end is kept
_POLL_SECONDS = 0.05
_CHUNK = 65_536

# A name that cannot be taken for a flag.
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+\[\]-]*", re.ASCII)
_AS_JSON = "Reply with one JSON object that follows this JSON schema, and with nothing before or after it:"


@dataclass(frozen=True, kw_only=True)
class CommandLine:
    """How one program is called, and how its reply is read."""

    program: str
    install: str  # what to do if it is missing
    arguments: Callable[[str, Path], Sequence[str]]  # of model and the file with the system prompt
    environment: Callable[[Path], Mapping[str, str]]  # in addition to the worker's own
    read: Reader
    files: Mapping[str, str] = field(default_factory=dict)  # put into its folder
    quote: Callable[[str], str] = str  # keeps the program from interpreting a text


def _claude_arguments(model: str, system: Path) -> Sequence[str]:
    return [
        "-p",
        *("--model", model),
        *("--output-format", "json"),
        "--verbose",  # all messages, not only the last: they name the served model and when a limit resets
        *("--system-prompt-file", str(system)),
        *("--tools", ""),
        *("--setting-sources", ""),
        "--strict-mcp-config",
        "--disable-slash-commands",
        "--no-session-persistence",
    ]


def _claude_environment(_system: Path) -> Mapping[str, str]:
    return {
        "CLAUDE_CODE_DISABLE_ATTACHMENTS": "1",  # a text with @/some/file must stay text
        "CLAUDE_CODE_MAX_RETRIES": "0",  # retries under retries multiply
        "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
        "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "ENABLE_CLAUDEAI_MCP_SERVERS": "false",
    }


def _gemini_arguments(model: str, _system: Path) -> Sequence[str]:
    return [
        *("--model", model),
        *("--output-format", "json"),
        *("--approval-mode", "default"),  # with nobody to ask, anything that needs approval is refused
        *("--extensions", "none"),
        *("--allowed-mcp-server-names", "none"),
        *(
            "--prompt",
            r"Answer the request above. An at sign in it is written \@; write it without the backslash.",
        ),
    ]


def _gemini_environment(system: Path) -> Mapping[str, str]:
    return {"GEMINI_SYSTEM_MD": str(system), "GEMINI_CLI_TRUST_WORKSPACE": "true"}


def _without_at(text: str) -> str:
    """Keep the program from reading files: in a prompt it replaces @path with the file's content."""
    return text.replace("@", r"\@")


# Only names that do not exist are allowed, so nothing is.
_GEMINI_SETTINGS = {
    "tools": {"core": ["none"]},
    "mcp": {"allowed": ["none"]},
    "context": {"fileName": ["none.md"]},
    "general": {"maxAttempts": 1},  # retries under retries multiply
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
}

COMMANDS: Mapping[str, CommandLine] = {
    "claude-cli": CommandLine(
        program="claude",
        install="Install Claude Code, run 'claude' once and log in",
        arguments=_claude_arguments,
        environment=_claude_environment,
        read=read_claude,
    ),
    "gemini-cli": CommandLine(
        program="gemini",
        install="Install Gemini CLI, run 'gemini' once and log in",
        arguments=_gemini_arguments,
        environment=_gemini_environment,
        read=read_gemini,
        files={".gemini/settings.json": json.dumps(_GEMINI_SETTINGS)},
        quote=_without_at,
    ),
}


def check_command(name: str, model: str, worktree: Path | None, environment: Mapping[str, str]) -> None:
    """Refuse a command provider that cannot work, before any work."""
    command = COMMANDS[name]
    if not _MODEL.fullmatch(model):
        raise ConfigError(f"Model '{name}:{model}': {model!r} is not a model name.")
    if programs.find_program(command.program, environment, worktree) is None:
        here = programs.find_program(command.program, environment, None)
        where = (
            "is not on your PATH"
            if here is None
            else f"is only in the project ({here}), and programs from the project are not run"
        )
        raise ConfigError(
            f"Model '{name}:{model}': the program {command.program!r} {where}. "
            f"{command.install}, or choose another model."
        )


class CommandProvider:
    """Starts the program once per call."""

    def __init__(self, name: str, *, call_timeout: float, worktree: Path) -> None:
        self._command = COMMANDS[name]
        self._worktree = worktree
        self._call_timeout = call_timeout

    def call(self, request: ModelRequest, *, secret: Secret, cancel: Cancel) -> Reply:  # noqa: ARG002 - it has its own login
        program = programs.find_program(self._command.program, environ.read(), self._worktree)
        if program is None or not _MODEL.fullmatch(request.model):
            raise ItemFailed(
                f"the program {self._command.program!r} cannot be used for {request.model!r}. "
                f"{self._command.install}"
            )
        with contextlib.ExitStack() as stack:
            folder = programs.work_folder(environ.read(), self._worktree)
            stack.enter_context(folder)
            work, system = self._furnish(Path(folder.name), request)
            prompt = stack.enter_context(tempfile.TemporaryFile())
            prompt.write(self._text(request).encode("utf-8", errors="replace"))
            prompt.seek(0)
            arguments = [program, *self._command.arguments(request.model, system)]
            environment = programs.model_environment(environ.read(), self._worktree)
            environment |= self._command.environment(system)
            running = _RunningProgram(arguments, prompt, work, environment)

            def stop() -> None:
                # The worker does not wait for this thread, so everything happens here and now.
                running.stop()
                folder.cleanup()

            cancel.on_set(stop)
            finished = running.finish(self._call_timeout)
        return self._command.read(finished, time.time())

    def _furnish(self, folder: Path, request: ModelRequest) -> tuple[Path, Path]:
        work, system = folder / "work", folder / "system.md"
        work.mkdir()
        system.write_text(self._command.quote(request.system), "utf-8", errors="replace")
        for name, content in self._command.files.items():
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            (work / name).write_text(content, "utf-8")
        return work, system

    def _text(self, request: ModelRequest) -> str:
        text = request.prompt
        if request.schema is not None:
            text += f"\n\n{_AS_JSON}\n\n{json.dumps(request.schema, ensure_ascii=False)}\n"
        return self._command.quote(text)


class _RunningProgram:
    """A running program with its whole process group."""

    def __init__(
        self, arguments: Sequence[str], prompt: IO[bytes], folder: Path, environment: Mapping[str, str]
    ) -> None:
        self._lock = threading.Lock()
        self._gone = self._stopped = False
        try:
            self._process = programs.start(arguments, environment, folder=folder, stdin=prompt)
        except OSError as exc:
            raise ItemFailed(
                f"{arguments[0]} cannot be started: {exc.strerror or exc}. Try to start it by hand"
            ) from exc

    def stop(self) -> None:
        """Kill the whole group immediately; there is no state worth saving."""
        self._stopped = True
        self._signal(signal.SIGKILL)

    def finish(self, seconds: float) -> ProgramOutput:
        """Read what it prints until it ends; end it when time is up or it prints too much."""
        out, err = bytearray(), bytearray()
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        with self._process.stdout as stdout, self._process.stderr as stderr:
            late = self._watch({stdout.fileno(): out, stderr.fileno(): err}, seconds)
        if self._stopped:
            raise StopRequested
        if len(out) > MAX_REPLY_BYTES:
            raise ProviderError(CallError.TRANSIENT, f"the reply is larger than {MAX_REPLY_BYTES:,} bytes")
        if late:
            raise ProviderError(CallError.TRANSIENT, f"no reply within {seconds:.0f} s")
        return ProgramOutput(code=self._process.returncode, out=bytes(out), err=bytes(err[-MAX_ERROR_BYTES:]))

    def _watch(self, streams: Mapping[int, bytearray], seconds: float) -> bool:
        """Read until the program has ended; return whether it had to be ended because time was up."""
        deadline, kill_at = time.monotonic() + seconds, None
        out, err = streams.values()
        with selectors.DefaultSelector() as selector:
            for descriptor in streams:
                os.set_blocking(descriptor, False)
                selector.register(descriptor, selectors.EVENT_READ)
            while not self._ended():
                for key, _ in selector.select(_POLL_SECONDS):
                    if _take(key.fd, streams[key.fd]) is False:
                        selector.unregister(key.fd)
                del err[:-MAX_ERROR_BYTES]
                now = time.monotonic()
                if len(out) > MAX_REPLY_BYTES or (kill_at is not None and now >= kill_at):
                    self._signal(signal.SIGKILL)
                elif kill_at is None and now >= deadline:
                    kill_at = now + END_SECONDS
                    self._signal(signal.SIGTERM)
        for descriptor, content in streams.items():
            while len(content) <= MAX_REPLY_BYTES and _take(descriptor, content):
                pass
        return kill_at is not None

    def _ended(self) -> bool:
        with self._lock:
            if self._process.poll() is not None and not self._gone:
                # Whatever it started and left behind is killed too.
                self._kill_group(signal.SIGKILL)
                self._gone = True
        return self._gone

    def _signal(self, number: int) -> None:
        with self._lock:
            if not self._gone:
                self._kill_group(number)

    def _kill_group(self, number: int) -> None:
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, number)


def _take(descriptor: int, content: bytearray) -> bool | None:
    """Read some of what is there; False at the end, None if nothing is there yet."""
    try:
        data = os.read(descriptor, _CHUNK)
    except BlockingIOError:
        return None
    content += data
    return bool(data)
