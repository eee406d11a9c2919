"""A terminal of any size, in tmux."""

import contextlib
import subprocess

from harness.project import Project


class TmuxTerminal:
    """A pane of a tmux server of its own."""

    def __init__(self, box: Project, width: int, height: int) -> None:
        self._environment = box.environment | {"TERM": "xterm-256color", "TMUX_TMPDIR": str(box.tmp)}
        self._environment.pop("TMUX", None)
        self._do("-f", "/dev/null", "new-session", "-d", "-x", str(width), "-y", str(height), "bash --norc")
        self._do("set-option", "-g", "history-limit", "10000")
        self._project = box.root

    def _do(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-L", "agentos", *words],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        return done.stdout

    def type(self, line: str) -> None:
        self._do("send-keys", f"cd {self._project}; clear; {line}; echo rc=$?", "Enter")

    def press(self, key: str) -> None:
        self._do("send-keys", key)

    def resize(self, width: int, height: int) -> None:
        self._do("resize-window", "-x", str(width), "-y", str(height))

    def screen(self, *, history: bool = False, joined: bool = False) -> list[str]:
        """What the pane shows; `joined` puts lines together again that it had to wrap."""
        text = self._do("capture-pane", "-p", *["-J"] * joined, *(["-S", "-"] if history else []))
        return [line.rstrip() for line in text.rstrip("\n").split("\n")]

    def close(self) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            self._do("kill-server")
