"""Makes folders of runs that never took place: any number of items, every ending, hostile texts.

A small simulation with a clock of its own writes the files that the coordinator writes, so that a page of five
hundred items can be tested without running them.
"""

import heapq
import json
import random
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

Steps = Generator[float, None, None]

ENDINGS = (
    "approved",
    "needs_revision",
    "discuss",
    "failed",
    "timed_out",
    "interrupted",
    "paused",
    "pending",
    "skipped",
)
HOSTILE = (
    "<script>window.pwned = 1</script><img src=x onerror=\"window.pwned = 2\">"
    "![p](http://127.0.0.1:9/p.png)</script><!-- {{script}} \u2028 & 'quoted'"
)
TITLES = (
    "Retry failed webhooks with a limit",
    "Export search results as CSV",
    "Keep deleted accounts for 30 days",
    "Single sign-on for teams",
    "Rewrite the billing ledger",
    "Import the legacy customer data",
    "A live dashboard for the warehouse",
    "Speed up parsing with a native module",
    "Sync calendars without hitting the quota",
    "Rotate signing keys without downtime",
    "Search that forgives typing errors",
    "Rate limits for the public API",
    "Audit log for every admin action",
    "Upload files in parts, and resume",
    "Send mail through a queue",
    "Roll out features by percentage",
)
FINDINGS = (
    (1, "Cost", "Unbounded retry", "a refused call is tried again with no limit in tries or time.", "State the largest number of tries and the longest time."),
    (1, "Safety", "No way back", "the migration drops the old column in the same step that fills the new one.", "Keep the old column for one release."),
    (1, "Security", "Token in the log", "the request is logged whole, with its authorisation header.", "Log the request id alone."),
    (2, "Architecture", "No time limit", "the caller waits for a part that may never answer.", "Give the wait a limit, and say what is done when it is reached."),
    (2, "Quality", "Test plan misses the failure path", "no scenario covers a refusal by the provider.", "Add one row for each way the call can fail."),
    (2, "Observability", "Nothing tells that it works", "neither a metric nor a log record shows the queue's length.", "Record the length once a minute."),
    (3, "Suggestion", "", "A diagram of the two queues would help the reader.", ""),
    (3, "Suggestion", "", "Name the constant instead of writing 86400 twice.", ""),
)  # fmt: skip


@dataclass(kw_only=True)
class World:
    """The simulated run: a clock, keys, slots, and everything written down."""

    chance: random.Random
    start: datetime
    keys: Sequence[str]
    parallel: int
    hostile: bool
    speed: float  # seconds a model call takes, about
    now: float = 0.0
    events: list[dict[str, Any]] = field(default_factory=list)
    audits: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    drafts: dict[str, list[str]] = field(default_factory=dict)
    resting: dict[str, float] = field(default_factory=dict)
    flying: Counter[str] = field(default_factory=Counter)
    strikes: list[tuple[float, str, float]] = field(default_factory=list)  # when, key, rest
    lease: int = 0
    stop_at: float | None = None

    def time(self) -> str:
        return (self.start + timedelta(seconds=self.now)).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def event(self, name: str, **fields: Any) -> None:
        self.events.append({"time": self.time(), "event": name, **fields})

    def audit(self, item: str, **fields: Any) -> None:
        self.audits.setdefault(item, []).append({"time": self.time(), "item": item, "attempt": 1, **fields})

    def text(self, text: str) -> str:
        return f"{text} {HOSTILE}" if self.hostile else text

    @property
    def stopping(self) -> bool:
        return self.stop_at is not None and self.now >= self.stop_at


def _simulate(world: World, scripts: Iterator[tuple[str, Steps]]) -> None:
    """Give the items their slots, one after another, and let time pass."""
    queue: list[tuple[float, int, Steps]] = []
    order = 0
    running = 0
    waiting = list(scripts)
    while waiting or queue:
        while waiting and running < world.parallel and not world.stopping:
            _, steps = waiting.pop(0)
            heapq.heappush(queue, (world.now + 0.004, order, steps))
            order, running = order + 1, running + 1
        if not queue:
            break
        world.now, _, steps = heapq.heappop(queue)
        try:
            heapq.heappush(queue, (world.now + next(steps), order, steps))
            order += 1
        except StopIteration:
            running -= 1


def _call(world: World, item: str, node: str, number: int) -> Generator[float, None, bool]:
    """One model call with as many tries as it needs; False when the run stops meanwhile."""
    began = world.now
    while True:
        free = [key for key in world.keys if world.resting.get(key, 0.0) <= world.now and world.flying[key] < 4]
        if free:
            key = min(free, key=lambda one: (world.flying[one], one))
            break
        if world.stopping:
            return False
        yield 0.2
    world.lease += 1
    lease = world.lease
    world.flying[key] += 1
    model = {"draft": "opus-5", "review": "gemini-4-pro"}[node]
    world.event(
        "leased", item=item, number=number, lease=lease, key=key, provider="openai", model=model, tokens=5000,
        waited=round(world.now - began, 3),
    )  # fmt: skip
    struck = next((one for one in world.strikes if one[0] <= world.now and one[1] == key), None)
    if struck is not None:
        world.strikes.remove(struck)
    refused = struck is not None or world.chance.random() < 0.004
    took = 0.3 if refused else world.speed * world.chance.uniform(0.6, 1.5) * (0.7 if node == "review" else 1.0)
    yield took
    world.flying[key] -= 1
    error = "rate_limited" if refused else None
    used = (0, 0) if refused else (world.chance.randint(1800, 7000), world.chance.randint(300, 2600))
    world.event(
        "settled", item=item, number=number, lease=lease, key=key, tokens_in=used[0], tokens_out=used[1],
        error=error, seconds=took,
    )  # fmt: skip
    row = world.rows[item]
    row["waited_seconds"] = round(row["waited_seconds"] + world.now - took - began, 3)
    if refused:
        rest = struck[2] if struck else world.speed
        world.resting[key] = world.now + rest
        world.event(
            "rate_limited", key=key, group=key, keys=[key], provider="openai", model=model, seconds=rest, told=True
        )
        return (yield from _call(world, item, node, number + 1))
    cost = round(used[0] * 2e-6 + used[1] * 9e-6, 6)
    row["tokens_in"] += used[0]
    row["tokens_out"] += used[1]
    row["cost_usd"] = round(row["cost_usd"] + cost, 6)
    world.audit(
        item, kind="call", node=node, role="drafter" if node == "draft" else "reviewer", number=number, model=model,
        served=model, key=key, tokens_in=used[0], tokens_out=used[1], seconds=took, cost_usd=cost,
        trace_id=f"{lease:032x}",
    )  # fmt: skip
    return True


def _lost_call(world: World, item: str, key: str, seconds: float) -> Steps:
    """A call whose worker is gone before it comes back."""
    world.lease += 1
    lease = world.lease
    world.flying[key] += 1
    world.event("leased", item=item, number=1, lease=lease, key=key, provider="openai", model="opus-5",
                tokens=5000, waited=0.0)  # fmt: skip
    yield seconds
    world.flying[key] -= 1
    world.event("returned", item=item, number=1, lease=lease, key=key)


def _document(world: World, item: str, draft: int) -> str:
    title = TITLES[int(item) % len(TITLES)]
    lines = [f"# LLD-{item}: {world.text(title)}", "", f"**Issue:** #{item}", "", "## 1. Context", ""]
    lines += [f"The issue asks for: {title.lower()}. Draft {draft}.", "", "## 2. Proposed changes", ""]
    chance = random.Random(f"{item}")
    for number in range(30):
        words = chance.choices(("queue", "limit", "record", "worker", "retry", "checks", "the", "a", "writes"), k=9)
        lines.append(f"{number + 1}. " + " ".join(words) + ("" if number % 7 else f" (draft {draft})"))
    for number in range(draft):
        lines += ["", f"Retries are bounded: at most {number + 3} tries and 60 seconds, then it is reported."]
    lines += ["", "### Files changed", "", f"- `src/part_{int(item) % 5}/service.py`: changed", world.text("")]
    return "\n".join(lines) + "\n"


def _findings(world: World, item: str, review: int, *, verdict: str, stuck: bool) -> list[dict[str, Any]]:
    if verdict == "APPROVED":
        picked = [FINDINGS[6 + review % 2]]
    else:
        first = int(item) if stuck else int(item) + review * 2
        picked = [FINDINGS[first % 3], FINDINGS[3 + first % 3], FINDINGS[6 + first % 2]]
    return [
        {"tier": tier, "category": category, "title": title and f"{title} (Section 2)",
         "text": world.text(f"Section 2: {text}"), "recommendation": advice}
        for tier, category, title, text, advice in picked
    ]  # fmt: skip


def _life(world: World, item: str, ending: str, verdicts: Sequence[str]) -> Steps:
    """What happens to one item."""
    label = f"LLD-{item}"
    row = world.rows[item]
    began = world.now
    error: str | None = None
    verdict: str | None = None

    def node(name: str) -> None:
        world.event("node", item=item, node=name, reviews=row["reviews"])

    def begin(attempt: int) -> Steps:
        row["attempts"] = attempt
        world.event("started", item=item, label=label, attempt=attempt, pid=1000 + attempt)
        yield 0.12
        world.event("ready", item=item, pid=1000 + attempt, resumed=attempt > 1, warm=True)

    yield from begin(1)
    node("load")
    yield 0.05
    if ending == "crashing":
        for attempt in (1, 2, 3):
            if attempt > 1:
                yield from begin(attempt)
            node("draft")
            yield from _lost_call(world, item, world.keys[attempt % len(world.keys)], world.speed * 0.4)
            if attempt < 3:
                world.event("crashed", item=item, attempt=attempt, error="killed by SIGKILL")
                yield 0.02
        ending, error = "failed", "its worker died 3 times; the last time: killed by SIGKILL"
    elif ending == "timed_out":
        node("draft")
        yield from _lost_call(world, item, world.keys[-1], world.speed * 5)
        error = f"no end after {world.speed * 5:g} s; killed, its stacks are in the log"
    elif ending == "failed":
        node("draft")
        yield from _call(world, item, "draft", 1)
        world.event("retrying", item=item, seconds=world.speed, reason="the connection was cut")
        yield world.speed
        error = world.text("the legacy schema is not described anywhere")
    else:
        number = 0
        for review, verdict in enumerate(verdicts, 1):
            node("draft")
            number += 1
            if not (yield from _call(world, item, "draft", number)):
                ending, verdict = "paused", None
                break
            node("gate")
            yield 0.03
            world.drafts.setdefault(item, []).append(_document(world, item, review))
            world.audit(item, kind="gate", node="gate", draft=review, missing=[], notes=[],
                        lineage=f"{item}-lld", file=f"{review * 2:03d}-draft.md")  # fmt: skip
            node("review")
            number += 1
            if not (yield from _call(world, item, "review", number)):
                ending, verdict = "paused", None
                break
            row["reviews"] = review
            node("judge")
            yield 0.03
            asked = [world.text("Is a wait of up to one hour acceptable to users?")] if verdict == "DISCUSS" else []
            findings = _findings(world, item, review, verdict=verdict, stuck=ending == "needs_revision")
            world.audit(item, kind="verdict", node="judge", review=review, verdict=verdict, reason="",
                        findings=findings, questions=asked, model="gemini-4-pro")  # fmt: skip
            if ending == "interrupted" and review == 1:
                break
        else:
            node("finalize" if ending == "approved" else "hold")
            yield 0.08
        error = {
            "needs_revision": "no progress: the same findings came back 2 times",
            "discuss": world.text("Is a wait of up to one hour acceptable to users?"),
            "paused": "every key rests",
        }.get(ending)
    row.update(status=ending, error=error, verdict=verdict, seconds=round(world.now - began, 3))
    row["output"] = f"docs/lld/active/{label}.md" if ending == "approved" else None
    _finish(world, item)


def _finish(world: World, item: str) -> None:
    row = world.rows[item]
    names = {"approved": "completed", "paused": "item_paused", "pending": "not_started"}
    told = {name: row[name] for name in ("label", "status", "verdict", "reviews", "error")}
    world.event(names.get(row["status"], row["status"]), item=item, **told)


def _plan(count: int, chance: random.Random, *, every: bool) -> list[tuple[str, list[str]]]:
    """How each item shall end."""
    plan: list[tuple[str, list[str]]] = []
    for number in range(count):
        roll = chance.random()
        if every and number < 9:
            ending = ("approved", "approved", "discuss", "needs_revision", "crashing", "timed_out", "failed",
                      "interrupted", "skipped")[number]  # fmt: skip
        else:
            ending = next(
                name
                for name, part in (
                    ("approved", 0.86), ("needs_revision", 0.9), ("discuss", 0.93), ("failed", 0.95),
                    ("crashing", 0.965), ("timed_out", 0.975), ("skipped", 1.01),
                )
                if roll < part
            )  # fmt: skip
        rounds = 1 + (number % 3 == 1) + (chance.random() < 0.15)
        verdicts = {"discuss": ["REVISE", "DISCUSS"], "needs_revision": ["REVISE"] * 3, "interrupted": ["REVISE"] * 2}
        plan.append((ending, verdicts.get(ending, ["REVISE"] * (rounds - 1) + ["APPROVED"])))
    return plan


def make_run(
    root: Path,
    count: int,
    *,
    parallel: int = 4,
    keys: int = 4,
    hostile: bool = False,
    every: bool = True,
    stop: bool = True,
    cut_off: bool = False,
    seed: int = 7,
    speed: float = 9.0,
    earlier: int = 0,
) -> Path:
    """Write a project with one run of so many items, and so many earlier runs; return the run's folder."""
    chance = random.Random(seed)
    start = datetime(2026, 11, 14, 9, 30, tzinfo=UTC)
    world = World(
        chance=chance,
        start=start,
        keys=[f"key-{number}" for number in range(1, keys + 1)],
        parallel=parallel,
        hostile=hostile,
        speed=speed,
    )
    plan = _plan(count, chance, every=every)
    ids = [str(number) for number in range(41, 41 + count)]
    world.event("run_started", run_id="made", items=count, parallel=parallel)
    world.rows = {
        item: {
            "id": item, "label": f"LLD-{item}", "status": "pending", "verdict": None, "reviews": 0, "attempts": 0,
            "seconds": 0.0, "waited_seconds": 0.0, "tokens_in": 0, "tokens_out": 0, "cost_usd": 0.0, "error": None,
            "reason": None, "output": None, "log": f"/elsewhere/LLD-{item}.log", "checkpoint": None,
        }
        for item in ids
    }  # fmt: skip
    work = speed * 3.2 * count / parallel
    world.strikes = [(work * part, key, speed * 2.5) for part, key in zip((0.2, 0.35, 0.38), world.keys, strict=False)]
    # Once all keys are refused together: the run pauses.
    world.strikes += [(work * 0.5, key, speed * 3) for key in world.keys]
    if stop:
        world.stop_at = work * 0.75
    for item, (ending, _) in zip(ids, plan, strict=True):
        if ending == "skipped":
            world.rows[item].update(status="skipped", reason="approved before, and unchanged since", log=None)
            _finish(world, item)
    world.now = 0.7
    scripts = (
        (item, _life(world, item, ending, verdicts))
        for item, (ending, verdicts) in zip(ids, plan, strict=True)
        if ending != "skipped"
    )
    _simulate(world, scripts)
    stopped = None
    pending = [row for row in world.rows.values() if row["status"] == "pending"]
    if stop and pending:
        stopped = "quota"
        world.event("stopping", reason=stopped)
    for row in pending:
        row["log"] = None
        _finish(world, row["id"])
    _write(root, world, stopped=stopped, cut_off=cut_off, earlier=earlier, hostile=hostile)
    return _runs(root) / _name(start)


def _runs(root: Path) -> Path:
    return root / ".agentos" / "logs" / "parallel"


def _name(start: datetime) -> str:
    return start.strftime("%Y-%m-%dT%H-%M-%S.000Z")


def _pauses(world: World) -> None:
    """Tell where every key rested at once."""
    rests: dict[str, list[tuple[float, float]]] = {key: [] for key in world.keys}
    for event in world.events:
        if event["event"] == "rate_limited":
            at = (datetime.fromisoformat(event["time"]) - world.start).total_seconds()
            rests[event["key"]].append((at, at + event["seconds"]))
    bounds = sorted({moment for some in rests.values() for one in some for moment in one})
    told: list[tuple[float, str, dict[str, Any]]] = []
    for begin, end in zip(bounds, bounds[1:], strict=False):
        middle = (begin + end) / 2
        if all(any(a <= middle < b for a, b in some) for some in rests.values()) and end - begin > 0.5:
            told += [(begin, "paused", {"reason": "every key is rate limited", "seconds": round(end - begin, 3)}),
                     (end, "resumed", {"seconds": round(end - begin, 3)})]  # fmt: skip
    for world.now, name, fields in told:
        world.event(name, **fields)
    world.events.sort(key=lambda event: event["time"])


def _write(
    root: Path, world: World, *, stopped: str | None, cut_off: bool, earlier: int, hostile: bool
) -> None:
    wall = world.now
    _pauses(world)
    world.now = wall
    totals = Counter(row["status"] for row in world.rows.values())
    summary = {
        "run_id": _name(world.start), "workflow": "lld", "parallel": world.parallel,
        "started_at": world.start.isoformat().replace("+00:00", "Z"), "finished_at": world.time(),
        "wall_seconds": round(wall, 3), "exit_code": 75 if stopped else 1, "stopped": stopped,
        "totals": dict(totals), "items": list(world.rows.values()),
        "keys": [{"id": key, "provider": "openai", "group": key, "state": "available", "calls": 0,
                  "rate_limited": 0, "tokens_in": 0, "tokens_out": 0} for key in world.keys],
        "coordination_overhead_percent": 4.2,
        "overlaps": [
            {"items": ["LLD-41", "LLD-46", "LLD-51"], "files": ["src/part_1/service.py", world.text("src/part_1/limits.py")]},
            {"items": ["LLD-42", "LLD-47"], "files": ["src/part_2/service.py"]},
        ] if len(world.rows) > 8 else [],
    }  # fmt: skip
    run = _runs(root) / _name(world.start)
    run.mkdir(parents=True)
    world.event("run_finished", exit_code=summary["exit_code"], totals=summary["totals"], stopped=stopped)
    events = world.events if not cut_off else world.events[: len(world.events) // 2]
    text = "".join(json.dumps(event) + "\n" for event in events)
    (run / "events.jsonl").write_text(text if not cut_off else text + '{"time": "20', "utf-8")
    (root / "agentos.toml").write_text("", "utf-8")
    for item, row in world.rows.items():
        if records := world.audits.get(item):
            lines = "".join(json.dumps(record) + "\n" for record in records)
            (run / f"workflow-audit-{item}.jsonl").write_text(lines, "utf-8")
        if row["log"]:
            (run / f"{row['label']}.log").write_text("a log\n", "utf-8")
        place = "done" if row["status"] == "approved" else "active"
        trail = root / "docs" / "lineage" / place / f"{item}-lld"
        if item in world.audits or hostile:
            trail.mkdir(parents=True)
            title = world.text(TITLES[int(item) % len(TITLES)])
            (trail / "001-issue.md").write_text(f"# {title}\n\nText.\n", "utf-8")
            for number, draft in enumerate(world.drafts.get(item, []), 1):
                (trail / f"{number * 2:03d}-draft.md").write_text(draft, "utf-8")
    if not cut_off:
        (run / "summary.json").write_text(json.dumps(summary), "utf-8")
    for number in range(earlier):
        _write_earlier(root, world, summary, number, earlier)


def _write_earlier(root: Path, world: World, summary: dict[str, Any], number: int, earlier: int) -> None:
    before = world.start - timedelta(hours=6 * (earlier - number))
    folder = _runs(root) / _name(before)
    folder.mkdir()
    part = 0.55 + 0.4 * world.chance.random()
    rows = [row | {"cost_usd": row["cost_usd"] * part} for row in summary["items"] if row["status"] != "pending"]
    overhead = round(11 - 0.8 * number + world.chance.random() * 2, 2)
    told = {"items": rows, "wall_seconds": summary["wall_seconds"] * part, "coordination_overhead_percent": overhead}
    (folder / "summary.json").write_text(json.dumps(summary | told), "utf-8")
