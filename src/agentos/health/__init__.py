"""What `agentos doctor` finds: every part of the set-up looked at, and what to type where it is not well.

Nothing here writes, and only `live` uses the network.
"""

from agentos.health.check import Check, State, exit_code
from agentos.health.examine import examine

__all__ = ["Check", "State", "examine", "exit_code"]
