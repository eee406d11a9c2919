"""The shipped mock: a drafter and a reviewer without a network, scripted by the item. Worker process."""

import os
import sys
import time
from pathlib import Path

from agentos import environment, programs
from agentos.errors import ItemFailed
from agentos.llm import mock_documents
from agentos.llm.mock_documents import Kind, MockFinding
from agentos.llm.mock_script import Script, Verdict, parse_script
from agentos.llm.provider import Cancel, ModelRequest, ProviderError, Reply, schema_name
from agentos.model import CallError
from agentos.secret import Secret

__all__ = ["MockProvider", "Script", "parse_script"]

RETRY_AFTER_SECONDS = 1.0
REFUSED_SECRET = "refused"  # noqa: S105 - the key that the mock refuses, for AGENTOS_SIMULATE_429
_STDOUT = 1


class MockProvider:
    """Serves the calls of one item; one object per worker process."""

    def __init__(
        self,
        script: Script,
        *,
        kind: Kind,
        item_id: str,
        title: str,
        shell_allowed: bool,
        worktree: Path | None = None,
    ) -> None:
        self._script = script
        self._kind = kind
        self._item_id = item_id
        self._title = title
        self._shell_allowed = shell_allowed
        self._worktree = worktree
        self._calls = 0
        self._staged = False

    def call(self, request: ModelRequest, *, secret: Secret, cancel: Cancel) -> Reply:
        """Answer as the item's script says."""
        self._refuse(secret)
        is_look = request.schema is not None and schema_name(request.schema) == "look"
        if request.role == "drafter" and not is_look and not self._staged:
            self._staged = True
            self._perform()
        cancel.sleep(self._script.latency)
        if is_look:
            text = mock_documents.look(request.prompt, self._script.look)
        else:
            text = self._draft(request) if request.role == "drafter" else self._review(request)
        if self._script.chat:
            text = mock_documents.wrapped(text)
        return Reply(
            text=text,
            model=request.model,
            tokens_in=_tokens(request.system) + _tokens(request.prompt),
            tokens_out=_tokens(text),
        )

    def _refuse(self, secret: Secret) -> None:
        self._calls += 1
        if self._calls <= self._script.refuse_first or secret == Secret(secret.name, REFUSED_SECRET):
            raise ProviderError(
                CallError.RATE_LIMITED,
                "The mock refuses this call, as scripted.",
                retry_after=RETRY_AFTER_SECONDS,
            )

    def _perform(self) -> None:
        """Do what the script asks for besides writing, once per process."""
        script = self._script
        if script.say is not None:
            _print(script.say)
        if script.sh is not None:
            self._run(script.sh)
        if script.crash is not None:
            os.kill(os.getpid(), script.crash)
        if script.hang is not None:
            time.sleep(script.hang)  # not cancel.sleep: a worker that hangs ignores the stop
        if script.fail is not None:
            raise ItemFailed(script.fail)

    def _run(self, command: str) -> None:
        if not self._shell_allowed:
            raise ItemFailed("the mock runs sh=... only for a local item and with AGENTOS_MOCK_SHELL=1")
        sys.stdout.flush()
        programs.shell(command, environment.read(), self._worktree)

    def _draft(self, request: ModelRequest) -> str:
        number = request.nth or request.number
        # The first draft that passes the gate answers no review; each later one answers the review before it.
        answered = number - 1 - self._script.gate
        text = mock_documents.draft(
            self._kind,
            self._item_id,
            self._title,
            number,
            complete=number > self._script.gate,
            resolved=self._findings(answered) if answered > 0 else (),
            files=self._script.files,
        )
        if number <= self._script.gate:
            return text
        return mock_documents.with_sections(text, mock_documents.required_in(request.prompt))

    def _review(self, request: ModelRequest) -> str:
        number, script = request.nth or request.number, self._script
        text = mock_documents.review(
            self._kind,
            number,
            self._verdict(number),
            self._findings(number),
            earlier=mock_documents.answers(
                request.prompt, stuck=script.stuck, regress=number == script.regress
            ),
            question=script.question or "",
        )
        return mock_documents.spoil(self._script.garbage, text) if self._script.garbage else text

    def _verdict(self, number: int) -> Verdict:
        verdicts = self._script.verdicts
        return verdicts[min(number, len(verdicts)) - 1]

    def _findings(self, number: int) -> tuple[MockFinding, ...]:
        variant = 1 if self._script.stuck else number
        return mock_documents.findings(self._kind, variant, self._verdict(number))


def _print(data: bytes) -> None:
    sys.stdout.flush()
    left = memoryview(data if data.endswith(b"\n") else data + b"\n")
    while left:
        left = left[os.write(_STDOUT, left) :]


def _tokens(text: str) -> int:
    return -(-len(text) // 4)
