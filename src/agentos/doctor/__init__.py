"""What `agentos doctor` finds: every part of the set-up looked at, and what to type where it is not well.

Nothing here writes, and only `live` uses the network.
"""

from agentos.doctor.all_checks import run_checks
from agentos.doctor.check import Check, State, exit_code

__all__ = ["Check", "State", "exit_code", "run_checks"]
