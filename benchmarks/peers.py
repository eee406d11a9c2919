"""Runs one peer against the simulated provider. goodput.py starts it in the environment with the peers."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

MESSAGES = [{"role": "user", "content": "Draft a low-level design, please. " * 20}]
RESUBMISSIONS = 50


async def run_all(call: Callable[[int], Awaitable[Any]], calls: int, workers: int) -> int:
    """Make all calls, one at a time per worker; return how many were given up."""
    numbers = iter(range(calls))
    lost = 0

    async def worker() -> None:
        nonlocal lost
        for number in numbers:
            try:
                await call(number)
            except Exception:  # noqa: BLE001 - whatever a peer raises, the call is lost
                lost += 1

    await asyncio.gather(*(worker() for _ in range(workers)))
    return lost


def litellm_router(job: dict[str, Any], *, resubmit: bool) -> Callable[[int], Awaitable[Any]]:
    import litellm  # noqa: PLC0415

    litellm.suppress_debug_info = True
    router = litellm.Router(
        model_list=[
            {
                "model_name": "model",
                "litellm_params": {
                    "model": "openai/model",
                    "api_key": key,
                    "api_base": job["url"],
                    "rpm": job["rpm"],
                },
            }
            for key in job["keys"]
        ]
    )

    async def call(_number: int) -> None:
        for attempt in range(RESUBMISSIONS):
            try:
                await router.acompletion(model="model", messages=MESSAGES)
            except Exception:
                if not resubmit or attempt == RESUBMISSIONS - 1:
                    raise
                await asyncio.sleep(0.5)
            else:
                return

    return call


def sdk_round_robin(job: dict[str, Any]) -> Callable[[int], Awaitable[Any]]:
    import openai  # noqa: PLC0415

    clients = [openai.AsyncOpenAI(api_key=key, base_url=job["url"], max_retries=10) for key in job["keys"]]

    async def call(number: int) -> None:
        client = clients[number % len(clients)]
        await client.chat.completions.create(model="model", messages=MESSAGES)  # type: ignore[arg-type]

    return call


def main() -> None:
    job = json.loads(sys.argv[1])
    if job["name"].startswith("LiteLLM"):
        call = litellm_router(job, resubmit="resubmitting" in job["name"])
    else:
        call = sdk_round_robin(job)
    lost = asyncio.run(run_all(call, job["calls"], job["workers"]))
    print(lost, flush=True)  # calls given up


if __name__ == "__main__":
    main()
