"""`agentos simulate`: the simulated provider, for tests, demos and benchmarks."""

from dataclasses import replace

import click


@click.command("simulate")
@click.option(
    "--port", default=0, metavar="N", help="Listen on this port of 127.0.0.1. [default: any free one]"
)
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="SECRET[:RPM[:TPM[:RPD]]][@GROUP]",
    help="Accept this key, with these limits; repeat for more. [default: sim-key without limits]",
)
@click.option("--latency", default=0.0, metavar="SECONDS", help="Take this long for a call. [default: 0]")
@click.option("--jitter", default=0.0, metavar="SECONDS", help="Take this much more or less. [default: 0]")
@click.option(
    "--burst", type=float, metavar="N", help="Let a key make so many calls at once. [default: a minute's]"
)
@click.option("--refused-count", is_flag=True, help="Count refused calls against the limit, too.")
@click.option("--per-model", is_flag=True, help="Hold the limits for each model apart.")
@click.option("--model", "models", multiple=True, metavar="NAME", help="Let only these models exist.")
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="KIND[,NAME=VALUE...]",
    help="Order a fault, such as 429,key=key-1,first=2,seconds=3; repeat for more.",
)
@click.option("--seed", default=0, metavar="N", help="Make chance repeatable. [default: 0]")
def simulate(  # noqa: PLR0917 - one argument a flag
    port: int,
    keys: tuple[str, ...],
    latency: float,
    jitter: float,
    burst: float | None,
    refused_count: bool,  # noqa: FBT001
    per_model: bool,  # noqa: FBT001
    models: tuple[str, ...],
    faults: tuple[str, ...],
    seed: int,
) -> None:
    """Serve a simulated LLM provider on loopback: OpenAI, Anthropic and Gemini formats, limits, faults."""
    from agentos.simulator.config import SimulatorConfig, parse_key  # noqa: PLC0415
    from agentos.simulator.faults import parse_fault  # noqa: PLC0415
    from agentos.simulator.server import run_simulator  # noqa: PLC0415

    config = SimulatorConfig(
        port=port,
        latency=latency,
        jitter=jitter,
        models=models,
        per_model=per_model,
        refused_count=refused_count,
        faults=tuple(parse_fault(spec) for spec in faults),
        seed=seed,
    )
    if keys:
        config = replace(config, keys=tuple(parse_key(spec, burst=burst) for spec in keys))
    run_simulator(config)
