"""Writes folders of made-up runs: any number of items, every status, hostile texts.

A small simulation with its own clock writes the files that the coordinator would write, so that a page of
five hundred items can be tested without running them.
"""

import heapq
import json
import random
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from agentos.model import Status
from agentos.report.summary import exit_code

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
    """<script>window.pwned = 1</script><img src=x onerror="window.pwned = 2">"""
    """![p](http://127.0.0.1:9/p.png)</script><!-- {{script}} \u2028 & 'quoted'"""
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
FINDINGS = (  # tier, category, title, text, recommendation
    (1, "Cost", "Unbounded retry", "a refused call is tried again with no limit.", "State the most tries."),
    (1, "Safety", "No way back", "the old column is dropped in the same step.", "Keep it for one release."),
    (1, "Security", "Token in the log", "the request is logged whole, with its headers.", "Log its id."),
    (2, "Architecture", "No time limit", "the caller waits for what may never answer.", "Limit the wait."),
    (2, "Quality", "Failure path untested", "no scenario covers a refusal.", "Add a row for each failure."),
    (2, "Observability", "Silent queue", "nothing shows how long the queue is.", "Record its length."),
    (3, "Suggestion", "", "A diagram of the two queues would help the reader.", ""),
    (3, "Suggestion", "", "Name the constant instead of writing 86400 twice.", ""),
)


@dataclass(kw_only=True)
class World:
    """The simulated run: a clock, keys, slots, and everything recorded."""

    chance: random.Random
    start: datetime
    keys: Sequence[str]
    parallel: int
    hostile: bool
    speed: float  # about how many seconds a model call takes
    now: float = 0.0
    events: list[dict[str, Any]] = field(default_factory=list)
    audits: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    drafts: dict[str, list[str]] = field(default_factory=dict)
    limited_until: dict[str, float] = field(default_factory=dict)
    flying: Counter[str] = field(default_factory=Counter)
    strikes: list[tuple[float, str, float]] = field(default_factory=list)  # when, key, seconds
    lease: int = 0

    def time(self) -> str:
        moment = self.start + timedelta(seconds=self.now)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def event(self, name: str, **fields: Any) -> None:
        self.events.append({"time": self.time(), "event": name, **fields})

    def audit(self, item: str, **fields: Any) -> None:
        self.audits.setdefault(item, []).append({"time": self.time(), "item": item, "attempt": 1, **fields})

    def node(self, item: str, name: str) -> None:
        self.event("node", item=item, node=name, reviews=self.rows[item]["reviews"])

    def text(self, text: str) -> str:
        return f"{text} {HOSTILE}" if self.hostile else text


def _simulate(world: World, scripts: Iterator[tuple[str, Steps]]) -> None:
    """Give the items their slots, one after another, and advance the clock."""
    queue: list[tuple[float, int, Steps]] = []
    order = 0
    running = 0
    waiting = list(scripts)
    while waiting or queue:
        while waiting and running < world.parallel:
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


def _call(world: World, item: str, node: str, number: int) -> Steps:
    """One model call, retried as often as needed."""
    began = world.now
    while True:
        usable = (key for key in world.keys if world.limited_until.get(key, 0.0) <= world.now)
        free = [key for key in usable if world.flying[key] < 4]
        if free:
            key = min(free, key=lambda one: (world.flying[one], one))
            break
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
    usual = world.speed * (0.7 if node == "review" else 1.0)
    took = 0.3 if refused else usual * world.chance.uniform(0.6, 1.5)
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
        seconds = struck[2] if struck else world.speed
        world.limited_until[key] = world.now + seconds
        fields = {"key": key, "group": key, "keys": [key], "provider": "openai", "model": model}
        world.event("rate_limited", **fields, seconds=seconds, told=True)
        yield from _call(world, item, node, number)
        return
    cost = round(used[0] * 2e-6 + used[1] * 9e-6, 6)
    row["tokens_in"] += used[0]
    row["tokens_out"] += used[1]
    row["cost_usd"] = round(row["cost_usd"] + cost, 6)
    role = "drafter" if node == "draft" else "reviewer"
    world.audit(
        item, kind="call", node=node, role=role, number=(number + 1) // 2, model=model, served=model, key=key,
        tokens_in=used[0], tokens_out=used[1], seconds=took, cost_usd=cost,
    )  # fmt: skip


def _lost_call(world: World, item: str, key: str, seconds: float) -> Steps:
    """A call whose worker dies before the answer arrives."""
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
        words = chance.choices(("queue", "limit", "record", "worker", "retry", "the", "a", "writes"), k=9)
        lines.append(f"{number + 1}. " + " ".join(words) + ("" if number % 7 else f" (draft {draft})"))
    for number in range(draft):
        lines += ["", f"Retries are bounded: at most {number + 3} tries and 60 seconds."]
    lines += ["", "### Files changed", "", f"- `src/part_{int(item) % 5}/service.py`", world.text("")]
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
    row = world.rows[item]
    began = world.now
    yield from _begin(world, item, 1)
    world.node(item, "load")
    yield 0.05
    if ending == "crashing":
        yield from _crash(world, item)
        ending, error = "failed", "its worker crashed 3 times (last: killed by SIGKILL)"
    elif ending == "timed_out":
        world.node(item, "draft")
        yield from _lost_call(world, item, world.keys[-1], world.speed * 3)
        error = f"timed out after {world.speed * 3:g} s; stack trace in the log"
    elif ending == "failed":
        world.node(item, "draft")
        yield from _call(world, item, "draft", 1)
        world.event("retrying", item=item, seconds=world.speed, reason="the connection was cut")
        yield world.speed
        error = world.text("the legacy schema is not described anywhere")
    else:
        yield from _rounds(world, item, ending, verdicts)
        error = {
            "needs_revision": "no progress: the same findings came back twice",
            "discuss": world.text("Is a wait of up to one hour acceptable to users?"),
            "paused": "every key is rate limited",
        }.get(ending, "")
    row.update(status=ending, error=error or None, seconds=round(world.now - began, 3))
    row["output"] = f"docs/lld/active/{row['label']}.md" if ending == "approved" else None
    _finish(world, item)


def _begin(world: World, item: str, attempt: int) -> Steps:
    world.rows[item]["attempts"] = attempt
    world.event("started", item=item, label=f"LLD-{item}", attempt=attempt, pid=1000 + attempt)
    yield 0.12
    world.event("ready", item=item, pid=1000 + attempt, resumed=attempt > 1, warm=True)


def _crash(world: World, item: str) -> Steps:
    for attempt in (1, 2, 3):
        if attempt > 1:
            world.event("crashed", item=item, attempt=attempt - 1, error="killed by SIGKILL")
            yield 0.02
            yield from _begin(world, item, attempt)
        world.node(item, "draft")
        yield from _lost_call(world, item, world.keys[attempt % len(world.keys)], world.speed * 0.4)


def _rounds(world: World, item: str, ending: str, verdicts: Sequence[str]) -> Steps:
    """Draft and review until the last verdict, or until the run stops."""
    row = world.rows[item]
    for review, verdict in enumerate(verdicts, 1):
        world.node(item, "draft")
        yield from _call(world, item, "draft", review * 2 - 1)
        if ending == "paused":
            world.node(item, "review")
            yield world.speed
            return
        world.node(item, "gate")
        yield 0.03
        world.drafts.setdefault(item, []).append(_document(world, item, review))
        file = f"{review * 2:03d}-draft.md"
        world.audit(
            item, kind="gate", draft=review, missing=[], notes=[], lineage=f"{item}-lld", file=file
        )  # fmt: skip
        world.node(item, "review")
        yield from _call(world, item, "review", review * 2)
        row.update(reviews=review, verdict=verdict)
        world.node(item, "judge")
        yield 0.03
        asked = ["Is a wait of up to one hour acceptable to users?"] if verdict == "DISCUSS" else []
        world.audit(
            item,
            kind="verdict",
            review=review,
            verdict=verdict,
            reason="",
            findings=_findings(world, item, review, verdict=verdict, stuck=ending == "needs_revision"),
            questions=[world.text(one) for one in asked],
            model="gemini-4-pro",
        )
        if ending == "interrupted":
            return
    world.node(item, "finalize" if ending == "approved" else "hold")
    yield 0.08


def _finish(world: World, item: str) -> None:
    row = world.rows[item]
    names = {"approved": "completed", "paused": "item_paused", "pending": "not_started"}
    fields = {name: row[name] for name in ("label", "status", "verdict", "reviews", "error")}
    world.event(names.get(row["status"], row["status"]), item=item, **fields)


def _plan(count: int, chance: random.Random, *, every: bool) -> list[tuple[str, list[str]]]:
    """The ending and the verdicts of each item."""
    plan: list[tuple[str, list[str]]] = []
    for number in range(count):
        roll = chance.random()
        if every and number < 11:
            ending = ("approved", "approved", "discuss", "crashing", "needs_revision", "timed_out", "failed",
                      "skipped", "interrupted", "paused", "pending")[number]  # fmt: skip
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
        verdicts = {
            "discuss": ["REVISE", "DISCUSS"],
            "needs_revision": ["REVISE"] * 3,
            "interrupted": ["REVISE"],
        }
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
    cut_off: bool = False,
    seed: int = 7,
    speed: float = 9.0,
    earlier: int = 0,
    rounds: int | None = None,
) -> Path:
    """Write a project with one run of `count` items and `earlier` earlier runs; return the run's folder.

    With `rounds`, every item is approved after that many reviews.
    """
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
    if rounds is not None:
        plan = [("approved", ["REVISE"] * (rounds - 1) + ["APPROVED"])] * count
    ids = [str(number) for number in range(41, 41 + count)]
    world.event("run_started", run_id="made", items=count, parallel=parallel)
    world.rows = {
        item: {
            "id": item, "label": f"LLD-{item}", "status": "pending", "verdict": None, "reviews": 0,
            "attempts": 0, "seconds": 0.0, "waited_seconds": 0.0, "tokens_in": 0, "tokens_out": 0,
            "cost_usd": 0.0, "error": None, "reason": None, "output": None, "filing": None,
            "log": f"/elsewhere/LLD-{item}.log", "checkpoint": None,
        }
        for item in ids
    }  # fmt: skip
    work = speed * 3.2 * count / parallel
    struck = zip((0.2, 0.35, 0.38), world.keys, strict=False)
    world.strikes = [(work * part, key, speed * 2.5) for part, key in struck]
    # Once, all keys are refused at the same time: the run pauses.
    world.strikes += [(work * 0.55, key, speed * 3) for key in world.keys]
    for item, (ending, _) in zip(ids, plan, strict=True):
        if ending == "skipped":
            world.rows[item].update(status="skipped", reason="approved before, and unchanged since", log=None)
            _finish(world, item)
    world.now = 0.7
    scripts = (
        (item, _life(world, item, ending, verdicts))
        for item, (ending, verdicts) in zip(ids, plan, strict=True)
        if ending not in {"skipped", "pending"}
    )
    _simulate(world, scripts)
    pending = [row for row in world.rows.values() if row["status"] == "pending"]
    stopped = "quota" if pending else None
    if stopped:
        world.event("stopping", reason=stopped)
    for row in pending:
        row["log"] = None
        _finish(world, row["id"])
    _write(root, world, stopped=stopped, cut_off=cut_off, earlier=earlier)
    return _runs(root) / _name(start)


def _runs(root: Path) -> Path:
    return root / ".agentos" / "logs" / "parallel"


def _name(start: datetime) -> str:
    return start.strftime("%Y-%m-%dT%H-%M-%S.000Z")


def _pauses(world: World) -> None:
    """Add a pause wherever every key was rate limited and no call was in flight."""
    limited: dict[str, list[tuple[float, float]]] = {key: [] for key in world.keys}
    for event in world.events:
        if event["event"] == "rate_limited":
            at = (datetime.fromisoformat(event["time"]) - world.start).total_seconds()
            limited[event["key"]].append((at, at + event["seconds"]))
    calls: dict[int, list[float]] = {}
    for event in world.events:
        if "lease" in event:
            at = (datetime.fromisoformat(event["time"]) - world.start).total_seconds()
            calls.setdefault(event["lease"], []).append(at)
    flights = [(some[0], some[-1]) for some in calls.values()]
    bounds = sorted({at for some in [*limited.values(), flights] for one in some for at in one})
    changes: list[tuple[float, str, dict[str, Any]]] = []
    for begin, end in pairwise(bounds):
        middle = (begin + end) / 2
        if all(any(a <= middle < b for a, b in some) for some in limited.values()) and not any(
            a <= middle < b for a, b in flights
        ):
            seconds = round(end - begin, 3)
            changes.append((begin, "paused", {"reason": "every key is rate limited", "seconds": seconds}))
            changes.append((end, "resumed", {"seconds": seconds}))
    for world.now, name, fields in changes:
        world.event(name, **fields)
    world.events.sort(key=lambda event: event["time"])


def _write(root: Path, world: World, *, stopped: str | None, cut_off: bool, earlier: int) -> None:
    wall = world.now
    _pauses(world)
    world.now = wall
    totals = Counter(row["status"] for row in world.rows.values())
    summary = {
        "run_id": _name(world.start), "workflow": "lld", "parallel": world.parallel,
        "started_at": world.start.isoformat().replace("+00:00", "Z"), "finished_at": world.time(),
        "wall_seconds": round(wall, 3), "stopped": stopped,
        "exit_code": int(exit_code(map(Status, totals), stopped)),
        "totals": dict(totals), "items": list(world.rows.values()),
        "keys": [{"id": key, "provider": "openai", "group": key, "state": "available", "calls": 0,
                  "rate_limited": 0, "tokens_in": 0, "tokens_out": 0} for key in world.keys],
        "coordination_overhead_percent": 4.2,
        "overlaps": [
            {"items": ["LLD-41", "LLD-46", "LLD-51"],
             "files": ["src/part_1/service.py", world.text("src/part_1/limits.py")]},
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
        place = "done" if row["status"] in {"approved", "skipped"} else "active"
        trail = root / "docs" / "lineage" / place / f"{item}-lld"
        if row["status"] != "pending":
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
    begun = [row for row in summary["items"] if row["status"] != "pending"]
    rows = [row | {"cost_usd": row["cost_usd"] * part} for row in begun]
    overhead = round(11 - 0.8 * number + world.chance.random() * 2, 2)
    changed = {"items": rows, "wall_seconds": summary["wall_seconds"] * part}
    changed["coordination_overhead_percent"] = overhead
    (folder / "summary.json").write_text(json.dumps(summary | changed), "utf-8")
