"""`agentos simulate`: the simulated provider, for tests, demos and benchmarks."""

from dataclasses import replace

import click


@click.command("simulate")
@click.option(
    "--port", default=0, metavar="N", help="Listen on this port of 127.0.0.1. [default: any free port]"
)
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="SECRET[:RPM[:TPM[:RPD]]][@GROUP]",
    help="Accept this key, with these limits; repeatable. [default: sim-key without limits]",
)
@click.option("--latency", default=0.0, metavar="SECONDS", help="Make each call take this long. [default: 0]")
@click.option(
    "--jitter", default=0.0, metavar="SECONDS", help="Vary the latency by up to this much. [default: 0]"
)
@click.option(
    "--burst",
    type=float,
    metavar="N",
    help="Allow this many calls of a key in a burst. [default: a minute's worth]",
)
@click.option(
    "--limit-headers",
    type=click.Choice(["own", "openai", "burst", "ietf", "none"]),
    default="own",
    help="Name the limits in this way; none also leaves out when to retry. [default: as the format does]",
)
@click.option("--refused-count", is_flag=True, help="Count refused calls against the limit as well.")
@click.option("--per-model", is_flag=True, help="Apply the limits to each model separately.")
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="NAME",
    help="Serve only this model; repeatable. [default: every name]",
)
@click.option(
    "--max-output",
    type=click.IntRange(1),
    metavar="N",
    help="Refuse calls that ask for more output tokens, in each format's words. [default: no limit]",
)
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="KIND[,NAME=VALUE...]",
    help="Inject a fault, such as 429,key=key-1,first=2,seconds=3; repeatable.",
)
@click.option("--seed", default=0, metavar="N", help="Seed the random numbers. [default: 0]")
def simulate(  # noqa: PLR0917 - one argument per flag
    port: int,
    keys: tuple[str, ...],
    latency: float,
    jitter: float,
    burst: float | None,
    limit_headers: str,
    refused_count: bool,  # noqa: FBT001
    per_model: bool,  # noqa: FBT001
    models: tuple[str, ...],
    max_output: int | None,
    faults: tuple[str, ...],
    seed: int,
) -> None:
    """Serve a simulated LLM provider on 127.0.0.1: OpenAI, Anthropic and Gemini formats, limits, faults."""
    from agentos.simulator.config import SimulatorConfig, parse_key  # noqa: PLC0415
    from agentos.simulator.faults import parse_fault  # noqa: PLC0415
    from agentos.simulator.limit_headers import LimitStyle  # noqa: PLC0415
    from agentos.simulator.server import run_simulator  # noqa: PLC0415

    config = SimulatorConfig(
        port=port,
        latency=latency,
        jitter=jitter,
        models=models,
        max_output=max_output,
        per_model=per_model,
        refused_count=refused_count,
        limit_style=LimitStyle(limit_headers),
        faults=tuple(parse_fault(spec) for spec in faults),
        seed=seed,
    )
    if keys:
        config = replace(config, keys=tuple(parse_key(spec, burst=burst) for spec in keys))
    run_simulator(config)
