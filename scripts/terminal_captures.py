#!/usr/bin/env python3
"""Renews the captures in docs/terminal.md: the demo backlog in tmux, with the mock, at three sizes.

Needs tmux and an installed agentos (`make setup`). It writes only docs/terminal.md.
Each size has three captures: a wait for the budget, the middle of the run with rate limits and four kinds of
results, and the ending.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
PAGE = CHECKOUT / "docs" / "terminal.md"
SIZES = ((40, 20), (80, 24), (160, 50))
COMMAND = "agentos lld --all --mock --parallel 3 --timeout 5s --budget 5"
# Two keys, and every third call of a key is refused.
LIMITS = {"AGENTOS_CREDENTIAL_LIMIT": "2", "AGENTOS_SIMULATE_429": "3"}
KINDS = ("approved", "needs revision", "discuss", "failed")
TRIES = 5  # a moment may pass between two looks
LOOK_SECONDS = 0.05
PATIENCE = 90.0  # seconds for one run

Screen = list[str]


class Pane:
    """A pane of a tmux server of its own, in which one run happens."""

    def __init__(self, folder: Path, width: int, height: int) -> None:
        home = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")}
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("AGENTOS_", "TMUX"))
        }
        path = f"{CHECKOUT / '.venv' / 'bin'}:{os.environ['PATH']}"
        self._environment = (
            kept
            | home
            | LIMITS
            | {"PATH": path, "TMUX_TMPDIR": str(folder), "TERM": "xterm-256color", "HISTFILE": os.devnull}
        )
        self._environment.pop("CI", None)
        demo = folder / "demo"
        subprocess.run(
            ["agentos", "init", "--demo", demo], env=self._environment, check=True, stdout=subprocess.DEVNULL
        )
        size = ("-x", str(width), "-y", str(height))
        self._do("-f", "/dev/null", "new-session", "-d", *size, "-c", str(demo), "bash --norc --noprofile")
        self._do("send-keys", f"PS1='$ '; clear; {COMMAND}", "Enter")

    def _do(self, *words: str) -> str:
        command = ["tmux", "-L", "captures", *words]
        done = subprocess.run(command, env=self._environment, check=True, capture_output=True, text=True)
        return done.stdout

    def screen(self, *, history: bool = False) -> Screen:
        text = self._do("capture-pane", "-p", *(["-S", "-"] if history else []))
        return [line.rstrip() for line in text.rstrip("\n").split("\n")]

    def close(self) -> None:
        self._do("kill-server")


def footer_of(screen: Screen) -> Screen:
    at = [number for number, line in enumerate(screen) if re.match(r"\d+/\d+ done ", line)]
    return screen[at[-1] :] if at else []


def waits_for_the_budget(screen: Screen) -> bool:
    return sum("calls in" in line for line in footer_of(screen)) >= 1


def has_everything(screen: Screen) -> bool:
    shown = "\n".join(footer_of(screen))
    limited = re.search(r"rate limited|\d s: mock-\d", shown)
    return limited is not None and all(kind in shown for kind in KINDS)


def is_over(screen: Screen) -> bool:
    return screen[-1] == "$" and any(line.startswith("Exit ") for line in screen)


WANTED: dict[str, Callable[[Screen], bool]] = {
    "budget": waits_for_the_budget,
    "middle": has_everything,
    "ending": is_over,
}


def captures(width: int, height: int) -> dict[str, Screen]:
    """Run the demo once; return what was seen of the wanted moments."""
    seen: dict[str, Screen] = {}
    with tempfile.TemporaryDirectory(prefix="agentos-captures-", ignore_cleanup_errors=True) as folder:
        pane = Pane(Path(folder), width, height)
        try:
            end = time.monotonic() + PATIENCE
            while "ending" not in seen and time.monotonic() < end:
                screen = pane.screen()
                for name, wanted in WANTED.items():
                    if name not in seen and wanted(screen):
                        seen[name] = screen
                time.sleep(LOOK_SECONDS)
            if "ending" in seen:
                seen["ending"] = ending_of(pane.screen(history=True))
        finally:
            pane.close()
    return seen


def ending_of(lines: Screen) -> Screen:
    """The whole ending, also what has scrolled away."""
    return lines[max(number for number, line in enumerate(lines) if not line) + 1 :]


def replaced(page: str, name: str, screen: Screen) -> str:
    """The page with a new capture; its place is marked by a comment before the block."""
    pattern = re.compile(rf"(<!-- capture: {name} -->\n\n```text\n).*?(^```$)", re.MULTILINE | re.DOTALL)
    shown = "\n".join(screen) + "\n"
    page, count = pattern.subn(lambda found: found[1] + shown + found[2], page)
    if count != 1:
        raise SystemExit(f"{PAGE} has no place for the capture {name}")
    return page


def main() -> int:
    """Take every capture, then write the page."""
    page = PAGE.read_text("utf-8")
    for width, height in SIZES:
        seen: dict[str, Screen] = {}
        for _ in range(TRIES):
            seen = captures(width, height) | seen
            if seen.keys() == WANTED.keys():
                break
        else:
            missing = ", ".join(WANTED.keys() - seen.keys())
            raise SystemExit(f"{width}x{height}: not seen in {TRIES} runs: {missing}")
        for name, screen in seen.items():
            page = replaced(page, f"{name}-{width}x{height}", screen)
        print(f"{width}x{height}: done")
    PAGE.write_text(page, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
