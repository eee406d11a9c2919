"""Jobs for tests of the engines."""

from typing import Any

from agentos.wire import ItemData, Job


def make_job(item: str = "1", *, text: str = "text", **more: Any) -> Job:
    data = ItemData(workflow="lld", id=item, label=f"LLD-{item}", title="T", text=text, source="1.md")
    values: dict[str, Any] = {
        "run_id": "run-1",
        "attempt": 1,
        "item": data,
        "worktree": "/repo",
        "database": "thread",
        "drafter": "one:model",
        "reviewer": "two:model",
        "max_iterations": 5,
        "max_retries": 5,
        "call_timeout": 600.0,
    }
    return Job(**(values | more))
