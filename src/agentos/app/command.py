"""A workflow command as it was typed, before any file is read."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentos.app.invocation import Invocation
from agentos.parse_value import Rejected, yes_no
from agentos.settings import variable_of


@dataclass(frozen=True, kw_only=True)
class WorkflowCommand:
    """`agentos lld`, `agentos issue` or `agentos run`, with its ids and flags."""

    invocation: Invocation
    workflow: str
    ids: tuple[str, ...]
    flags: Mapping[str, Any]

    def says(self, name: str) -> bool:
        """Whether a flag or its variable turns a setting on; no file is read for this."""
        given = self.flags.get(name)
        if given is None:
            given = self.invocation.environment.get(variable_of(name), "")
        with contextlib.suppress(Rejected):
            return yes_no(given)
        return False
