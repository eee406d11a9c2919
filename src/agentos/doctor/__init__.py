"""The checks of `agentos doctor`: every part of the setup, and what to type if something is wrong.

Nothing here writes, and only `live` uses the network.
"""

from agentos.doctor.all_checks import run_checks
from agentos.doctor.check import Check, State, exit_code

__all__ = ["Check", "State", "exit_code", "run_checks"]
