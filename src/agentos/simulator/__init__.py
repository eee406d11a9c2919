"""The simulator: three wire formats, real limits, faults on demand. Runs in its own process."""

from agentos.simulator.config import HOST, KeyConfig, Responder, SimulatorConfig, parse_key
from agentos.simulator.faults import FaultKind, FaultRule, parse_fault
from agentos.simulator.limits import LimitConfig
from agentos.simulator.server import Simulator, run_simulator, running_simulator

__all__ = [
    "HOST",
    "FaultKind",
    "FaultRule",
    "KeyConfig",
    "LimitConfig",
    "Responder",
    "Simulator",
    "SimulatorConfig",
    "parse_fault",
    "parse_key",
    "run_simulator",
    "running_simulator",
]
