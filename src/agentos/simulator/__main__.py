"""`python -m agentos.simulator`: the simulated provider as a program."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace

from agentos.errors import AgentosError
from agentos.simulator.config import SimulatorConfig, parse_key
from agentos.simulator.faults import parse_fault
from agentos.simulator.server import run_simulator


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="agentos.simulator", description="Serve a simulated LLM provider.")
    parser.add_argument("--port", type=int, default=0, help="listen on this port of 127.0.0.1 (default: any)")
    parser.add_argument(
        "--keys",
        action="append",
        default=[],
        metavar="SECRET[:RPM[:TPM[:RPD]]][@GROUP]",
        help="accept this key; repeat for more (default: sim-key without limits)",
    )
    parser.add_argument("--latency", type=float, default=0.0, help="seconds a call takes (default: 0)")
    parser.add_argument("--jitter", type=float, default=0.0, help="seconds it may vary (default: 0)")
    parser.add_argument("--burst", type=float, help="calls a key takes at once (default: a minute's worth)")
    parser.add_argument("--refused-count", action="store_true", help="count refused calls against the limit")
    parser.add_argument("--per-model", action="store_true", help="hold limits for each model apart")
    parser.add_argument("--model", action="append", default=[], help="let only these models exist")
    parser.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="KIND[,NAME=VALUE...]",
        help="order a fault, such as 429,key=key-1,first=2,seconds=3; repeat for more",
    )
    parser.add_argument("--seed", type=int, default=0, help="make chance repeatable (default: 0)")
    args = parser.parse_args(argv)
    try:
        config = SimulatorConfig(
            port=args.port,
            latency=args.latency,
            jitter=args.jitter,
            models=tuple(args.model),
            per_model=args.per_model,
            refused_count=args.refused_count,
            faults=tuple(parse_fault(spec) for spec in args.fault),
            seed=args.seed,
        )
        if args.keys:
            keys = tuple(parse_key(spec, burst=args.burst) for spec in args.keys)
            config = replace(config, keys=keys)
        run_simulator(config)
    except AgentosError as exc:
        parser.error(str(exc))
    return 0


if __name__ == "__main__":
    sys.exit(main())
