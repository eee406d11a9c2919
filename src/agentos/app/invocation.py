"""How a command was called: folder, environment, global flags, arguments. Pure.

Imports little, because a run must start its worker server before it imports anything heavy.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Invocation:
    """Where a command was called, and with which global flags."""

    folder: Path
    environment: Mapping[str, str]
    home: Path | None = None  # --home
    config_file: Path | None = None  # --config
    arguments: tuple[str, ...] = ()  # the command line as typed, without the program

    @property
    def program(self) -> str:
        """The start of every suggested command: it must find the same home and settings as this one."""
        words = ["agentos"]
        for flag, given in (("--home", self.home), ("--config", self.config_file)):
            if given is not None:
                words += [flag, str(given)]
        return shlex.join(words)

    @property
    def typed(self) -> str:
        return shlex.join(["agentos", *self.arguments])
