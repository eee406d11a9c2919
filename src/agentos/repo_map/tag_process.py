"""Starts the parser process and asks it, one file at a time. Coordinator process.

The parser may crash, hang or answer nonsense. Then words must do for the file that did it, and the parser is
started again; after some failures there is no parser any more. All of it takes a few seconds at most, because
the loop of a run waits for it.
"""

import contextlib
import json
import os
import selectors
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentos import programs
from agentos.repo_map.tags import LENGTH_BYTES, MAX_ANSWER_BYTES, MAX_REQUEST_BYTES, Tags

if TYPE_CHECKING:
    import subprocess  # noqa: TID251 - for the type only; programs starts it

PARSER = (sys.executable, "-P", "-m", "agentos.repo_map.tag_parser")
START_SECONDS = 4.0  # until it answers for the first time
FILE_SECONDS = 1.0
MAX_FAILURES = 2
_CHUNK = 65_536


class TagProcess:
    """A parser that is started when it is first needed."""

    def __init__(
        self,
        command: Sequence[str] = PARSER,
        *,
        file_seconds: float = FILE_SECONDS,
        start_seconds: float = START_SECONDS,
    ) -> None:
        self._command = command
        self._file_seconds, self._start_seconds = file_seconds, start_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._failures = 0

    def parse(self, language: str, text: str) -> Tags | None:
        """What a source defines and refers to; None if that cannot be found out."""
        request = _request(language, text)
        if len(request) > MAX_REQUEST_BYTES or self._failures >= MAX_FAILURES:
            return None
        try:
            if self._process is None:
                self._process = programs.start_filter(self._command)
                # It has its own time to start, so that a hostile file cannot use it.
                _exchange(self._process, _request(language, ""), time.monotonic() + self._start_seconds)
            answer = _exchange(self._process, request, time.monotonic() + self._file_seconds)
            return Tags.from_json(json.loads(answer))
        except (OSError, ValueError, RecursionError):
            self._failures += 1
            self.stop()
            return None

    def __del__(self) -> None:
        self.stop()

    def stop(self) -> None:
        """End the parser; it has nothing to save."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with process:
                pass


def _request(language: str, text: str) -> bytes:
    body = json.dumps({"language": language, "text": text}).encode()
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def _exchange(process: "subprocess.Popen[bytes]", request: bytes, deadline: float) -> bytes:
    """Send a request and read the answer. Raises OSError or ValueError."""
    assert process.stdin is not None
    assert process.stdout is not None
    into, out = process.stdin.fileno(), process.stdout.fileno()
    os.set_blocking(into, False)
    left, answer, length = memoryview(request), bytearray(), None
    with selectors.DefaultSelector() as selector:
        selector.register(out, selectors.EVENT_READ)
        selector.register(into, selectors.EVENT_WRITE)
        while length is None or len(answer) < length + LENGTH_BYTES:
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError("the parser does not answer")
            for key, _ in ready:
                if key.fd == into:
                    with contextlib.suppress(BlockingIOError):
                        left = left[os.write(into, left[:_CHUNK]) :]
                    if not left:
                        selector.unregister(into)
                else:
                    data = os.read(out, _CHUNK)
                    if not data:
                        raise BrokenPipeError("the parser ended")
                    answer += data
            if length is None and len(answer) >= LENGTH_BYTES:
                length = int.from_bytes(answer[:LENGTH_BYTES], "big")
                if length > MAX_ANSWER_BYTES:
                    raise ValueError("the answer is too long")
    return bytes(answer[LENGTH_BYTES:])
