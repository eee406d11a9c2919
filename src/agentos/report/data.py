"""All data of a run's page as plain JSON: read from its folder, whole, live or cut off. Any process.

Every file may be missing or torn, or a link, which is never followed; what cannot be read is not there.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentos.errors import Exit
from agentos.model import Status
from agentos.report.drafts import Trail, find_trail, read_drafts, title_of
from agentos.report.overlaps import overlaps
from agentos.report.rounds import add_costs, mark_findings, read_rounds
from agentos.report.timeline import (
    CUT_OFF,
    RUNNING,
    STATUSES,
    ItemLine,
    Record,
    Timeline,
    count_of,
    mean_level,
    number_of,
    read_timeline,
    steps,
    text_of,
    web_address,
)
from agentos.store.runfolder import is_live, read_lines, read_summary, run_tree, runs_before

TREND_RUNS = 20
_DOCUMENT_BYTES = 1_000_000
_FILES = ("summary.md", "summary.json", "events.jsonl", "coordinator.log", "trace.jsonl")
_REFUSALS = frozenset({"rate_limited", "quota_exhausted"})
_MOCK = "mock"
_CALM = frozenset({Status.APPROVED.value, Status.SKIPPED.value, Status.PENDING.value})
_ORDER = [status.value for status in Status]
_MEANINGS = {
    Exit.OK: "all approved, or nothing pending",
    Exit.FAILED: "an item failed or timed out",
    Exit.USAGE: "usage or configuration",
    Exit.ATTENTION: "some items need revision or a decision",
    Exit.NO_KEY: "no usable key",
    Exit.BUDGET: "the budget is reached",
    Exit.STOPPED: "stopped early; the same command goes on",
    Exit.INTERRUPTED: "interrupted; the same command goes on",
    Exit.TERMINATED: "terminated; the same command goes on",
}


def history_of(run: Path) -> tuple[Path, ...]:
    """The runs before this one on the same home, the oldest first."""
    return tuple(runs_before(run))


def run_data(
    run: Path,
    *,
    worktree: Path,
    lineage_folder: str = "docs/lineage",
    history: Sequence[Path] = (),
    drafts: bool = True,
) -> dict[str, Any]:
    """Read one run folder."""
    live = is_live(run)
    summary = read_summary(run)
    # A run whose summary is written only has its lock left to give up.
    line = read_timeline(read_lines(run / "events.jsonl"), ends=time.time() if live and not summary else None)
    rows = _rows(summary, line)
    if not summary and not live:
        for row in rows:
            row["log"] = row["log"] if row["log"] and run_tree(run).is_file(run / row["log"]) else None
    workflow = text_of(summary, "workflow", 80) or line.workflow or _workflow_of(rows)
    older = [path for path in sorted(history, reverse=True) if path.name < run.name]
    items = [
        _item(
            row,
            line,
            run=run,
            older=older,
            worktree=worktree,
            lineage_folder=lineage_folder,
            workflow=workflow,
            drafts=drafts,
        )
        for row in rows
    ]
    keys = _keys(summary, line, items)
    designs = {} if summary else _designs(items, worktree)
    told = _run(run, summary, line, items, keys, workflow=workflow, live=live)
    return {
        "run": told | {"compared": None if summary else len(designs)},
        "items": items,
        "keys": keys,
        "marks": line.marks,
        "parallelism": _parallelism(line, items),
        "overlaps": _overlaps(summary) if summary else _overlaps_now(designs),
        "trend": _trend([*history, run]),
        "left_out": {"diffs": 0, "texts": 0},  # by the page, which must stay small
    }


def _dicts(record: Record, name: str) -> list[dict[str, Any]]:
    value = record.get(name)
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


# Items.


def _rows(summary: Record, line: Timeline) -> list[dict[str, Any]]:
    """A row an item, from the summary, else from what the events say."""
    rows = []
    for told in _dicts(summary, "items"):
        name, label = text_of(told, "id", 80), text_of(told, "label", 100)
        if name is None or text_of(told, "status", 40) not in STATUSES:
            continue
        rows.append(
            {
                "id": name,
                "label": label or name,
                "status": told["status"],
                "verdict": text_of(told, "verdict", 40),
                "reviews": count_of(told, "reviews"),
                "attempts": count_of(told, "attempts"),
                "seconds": number_of(told, "seconds") or 0.0,
                "waited_seconds": number_of(told, "waited_seconds") or 0.0,
                "tokens_in": count_of(told, "tokens_in"),
                "tokens_out": count_of(told, "tokens_out"),
                "cost_usd": number_of(told, "cost_usd"),
                "error": text_of(told, "error"),
                "reason": text_of(told, "reason"),
                "output": text_of(told, "output", 500),
                "filing": text_of(told, "filing", 40),
                "log": _file_name(text_of(told, "log")),
                "checkpoint": _file_name(text_of(told, "checkpoint")),
            }
        )
    return rows or [_row(item) for item in line.items.values()]


def _row(item: ItemLine) -> dict[str, Any]:
    lives, calls = item.of("life"), item.of("call")
    seconds = lives[-1]["end"] - lives[0]["start"] if lives else 0.0
    return {
        "id": item.id,
        "label": item.label,
        "status": item.status,
        "verdict": item.verdict,
        "reviews": item.reviews,
        "attempts": item.attempts,
        "seconds": round(seconds, 3),
        "waited_seconds": round(sum(span["end"] - span["start"] for span in item.of("wait")), 3),
        "tokens_in": sum(call.get("tokens_in", 0) for call in calls),
        "tokens_out": sum(call.get("tokens_out", 0) for call in calls),
        "cost_usd": None,  # from its calls, below
        "error": item.error if item.status != Status.SKIPPED else None,
        "reason": None,
        "output": item.output,
        "filing": None,
        "log": f"{item.label}.log" if lives else None,
        "checkpoint": None,
    }


def _file_name(path: str | None) -> str | None:
    """The page lies beside the logs, wherever the folder was when the summary was written."""
    return None if path is None else path.replace("\\", "/").rsplit("/", 1)[-1]


def _workflow_of(rows: Sequence[dict[str, Any]]) -> str:
    return rows[0]["label"].removesuffix(f"-{rows[0]['id']}").lower() if rows else "?"


def _item(
    row: dict[str, Any],
    line: Timeline,
    *,
    run: Path,
    older: Sequence[Path],
    worktree: Path,
    lineage_folder: str,
    workflow: str,
    drafts: bool,
) -> dict[str, Any]:
    timed = line.items.get(row["id"]) or ItemLine(id=row["id"], label=row["label"])
    started = line.started or 0.0
    trail_file = f"workflow-audit-{row['id']}.jsonl"
    records = list(read_lines(run / trail_file)) if "/" not in row["id"] else []
    calls = timed.of("call")
    add_costs(calls, records)
    if row["status"] in {RUNNING, CUT_OFF} or row["cost_usd"] is None:
        row["cost_usd"] = _cost(calls, row)
    known = round(sum(call.get("cost_usd", 0.0) for call in calls), 6)
    if row["output"] is None and row["status"] == Status.APPROVED:
        row["output"] = _document(row["label"], workflow, worktree)
    approved = row["status"] in {Status.APPROVED, Status.SKIPPED}
    rounds = read_rounds(records, started=started)
    rounds = _with_earlier(rounds, row["reviews"], older, trail_file)
    mark_findings(rounds, approved=approved)
    gates = [_gate(record) for record in records if record.get("kind") == "gate"]
    trail = find_trail(
        worktree,
        lineage_folder,
        item=row["id"],
        workflow=workflow,
        lineage=next((gate["lineage"] for gate in reversed(gates) if gate["lineage"]), None),
        approved=approved,
    )
    return row | {
        "title": None if trail is None else title_of(trail),
        "node": timed.node if row["status"] == RUNNING else None,
        "waiting": _waiting(timed.wait, line.last) if row["status"] == RUNNING else None,
        "cost_known_usd": known if row["cost_usd"] is None else row["cost_usd"],
        "filed": timed.filed or _filed(row),
        "spans": sorted(timed.spans, key=lambda span: float(span["start"])),
        "rounds": rounds,
        "gates": gates,
        "trail": None if trail is None else trail.folder.as_posix(),
        "drafts": []
        if trail is None or not drafts
        else [draft.as_dict() for draft in read_drafts(trail, gates)],
    }


def _waiting(span: Record | None, now: float) -> dict[str, Any] | None:
    """What is waited for, and how much longer as far as one knows."""
    if span is None:
        return None
    until = span.get("until")
    left = None if until is None else round(max(0.0, until - now), 3)
    return {"reason": span.get("reason") or span.get("text"), "seconds_left": left}


def _document(label: str, workflow: str, worktree: Path) -> str | None:
    """Where the document of an approved item lies; the events do not say it."""
    trail = Trail(worktree=worktree, folder=Path("docs", workflow, "active"))
    name = f"{label}.md"
    if "/" in label or workflow != "lld" or trail.read(name, 1) is None:
        return None
    return (trail.folder / name).as_posix()


def _filed(row: Record) -> dict[str, Any] | None:
    if row["filing"] != "filed" or (url := web_address(row, "output")) is None:
        return None
    number = url.rsplit("/", 1)[-1]
    return {"number": int(number) if number.isdecimal() and len(number) < 12 else None, "url": url}


def _cost(calls: Sequence[dict[str, Any]], row: Record) -> float | None:
    """What the calls cost together; None where the price of one is not known."""
    paid = [call for call in calls if call.get("tokens_in") or call.get("tokens_out")]
    if not paid:
        return None if row["tokens_in"] or row["tokens_out"] else 0.0
    costs = [call["cost_usd"] for call in paid if "cost_usd" in call]
    return round(sum(costs), 6) if len(costs) == len(paid) else None


def _with_earlier(
    rounds: Sequence[dict[str, Any]], reviews: int, older: Sequence[Path], trail_file: str
) -> list[dict[str, Any]]:
    """The rounds of an item with those that an earlier run had begun, the latest word on each."""
    own = {one["review"]: one for one in rounds}
    last = max([reviews, *own])
    first = min((number for number, one in own.items() if "verdict" in one), default=last + 1)
    found: dict[int, dict[str, Any]] = {}
    for run in older if first > 1 else ():
        for one in read_rounds(list(read_lines(run / trail_file)), started=0.0):
            number, known = one["review"], found.get(one["review"], {})
            if 0 < number < first and "verdict" not in known:
                found[number] = one | {"run_id": run.name, "at": None}
                found[number]["decision"] = known.get("decision") or one.get("decision")
        if "verdict" in found.get(1, {}):
            break
    for number, one in own.items():
        # A decision of this run is on the verdict of the run before it.
        whole = "verdict" in one or number not in found
        found[number] = one if whole else found[number] | {"decision": one["decision"]}
    return [found[number] for number in sorted(found)]


def _gate(record: Record) -> dict[str, Any]:
    missing, notes = record.get("missing"), record.get("notes")
    return {
        "draft": count_of(record, "draft"),
        "file": text_of(record, "file", 80),
        "lineage": text_of(record, "lineage", 120),
        "missing": [str(one)[:200] for one in missing] if isinstance(missing, list) else [],
        "notes": [str(one)[:500] for one in notes] if isinstance(notes, list) else [],
    }


# The run.


def _run(
    run: Path,
    summary: Record,
    line: Timeline,
    items: Sequence[dict[str, Any]],
    keys: Sequence[dict[str, Any]],
    *,
    workflow: str,
    live: bool,
) -> dict[str, Any]:
    counts = Counter(item["status"] for item in items)
    unseen = line.expected - len(items)
    if not summary and unseen > 0:
        counts[Status.PENDING.value] += unseen
    order = {status: number for number, status in enumerate([RUNNING, CUT_OFF, *_ORDER])}
    costs = [item["cost_usd"] for item in items]
    known = [cost for cost in costs if cost is not None]
    code = number_of(summary, "exit_code")
    exit_code = line.exit_code if code is None else int(code)
    wall = number_of(summary, "wall_seconds")
    overhead = number_of(summary, "coordination_overhead_percent")
    return {
        "run_id": run.name,
        "workflow": workflow,
        "parallel": count_of(summary, "parallel") or line.parallel,
        "started_at": text_of(summary, "started_at", 40) or _iso(line.started),
        "finished_at": text_of(summary, "finished_at", 40),
        "live": live and not summary,
        "cut_off": not live and not summary and line.finished is None,
        "wall_seconds": line.last if wall is None else wall,
        "exit_code": exit_code,
        "meaning": _MEANINGS.get(Exit(exit_code)) if exit_code in set(Exit) else None,
        "stopped": text_of(summary, "stopped", 80) or line.stopped,
        "expected": max(line.expected, len(items)),
        "totals": {status: counts[status] for status in sorted(counts, key=lambda one: order.get(one, 99))},
        "tokens_in": sum(item["tokens_in"] for item in items),
        "tokens_out": sum(item["tokens_out"] for item in items),
        "waited_seconds": round(sum(item["waited_seconds"] for item in items), 3),
        "cost_usd": None if len(known) < len(costs) else round(sum(known), 6),
        "cost_known_usd": round(sum(item["cost_known_usd"] for item in items), 6),
        "pretended": _pretended(keys),  # no money was spent
        "coordination_overhead_percent": overhead,
        "trace_id": text_of(summary, "trace_id", 80),
        "paused": _waiting(line.pause, line.last) if live and not summary else None,
        "files": [name for name in _FILES if run_tree(run).is_file(run / name)],
    }


def _pretended(keys: Sequence[Record]) -> bool:
    return bool(keys) and all(key.get("provider") == _MOCK for key in keys)


def _iso(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds * 1000) % 1000:03d}Z"


def _keys(summary: Record, line: Timeline, items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    made: dict[str, list[dict[str, Any]]] = {}
    for item in items:
        for span in item["spans"]:
            if span["kind"] == "call":
                told = {name: value for name, value in span.items() if name != "key"}
                made.setdefault(span["key"], []).append(told | {"item": item["label"]})
    rows = {name: row for row in _dicts(summary, "keys") if (name := text_of(row, "id", 80)) is not None}
    keys = []
    for name in dict.fromkeys([*rows, *sorted({*line.keys, *made})]):
        row, timed = rows.get(name, {}), line.key(name)
        calls = made.get(name, [])
        errors = [span for span in calls if span.get("error") and span["error"] not in _REFUSALS]
        keys.append(
            {
                "id": name,
                "provider": text_of(row, "provider", 80) or timed.provider,
                "group": text_of(row, "group", 80) or timed.group,
                "state": text_of(row, "state", 40) or timed.state,
                "calls": max(count_of(row, "calls"), len(calls)),
                "errors": len(errors),
                "rate_limited": count_of(row, "rate_limited")
                or sum(span["kind"] == "limited" for span in timed.spans),
                "tokens_in": sum(span.get("tokens_in", 0) for span in calls),
                "tokens_out": sum(span.get("tokens_out", 0) for span in calls),
                "busy_seconds": round(sum(span["end"] - span["start"] for span in calls), 3),
                "rested_seconds": round(
                    sum(span["end"] - span["start"] for span in timed.spans if span["kind"] == "rest"), 3
                ),
                "spans": sorted([*timed.spans, *calls], key=lambda span: float(span["start"])),
            }
        )
    return keys


def _parallelism(line: Timeline, items: Sequence[dict[str, Any]]) -> dict[str, Any]:
    spans = [span for item in items for span in item["spans"]]
    lives = [span for span in spans if span["kind"] == "life"]
    calls = [span for span in spans if span["kind"] == "call"]
    allowed = [[mark["start"], mark["allowed"]] for mark in line.marks if mark["kind"] == "parallel"]
    return {
        "items": steps(lives),
        "calls": steps(calls),
        "allowed": allowed[:400],
        "mean_items": mean_level(lives, line.last),
        "mean_calls": mean_level(calls, line.last),
    }


def _overlaps(summary: Record) -> list[dict[str, Any]]:
    told = []
    for one in _dicts(summary, "overlaps"):
        labels, files = one.get("items"), one.get("files")
        if isinstance(labels, list) and isinstance(files, list):
            told.append(
                {
                    "items": [str(label)[:100] for label in labels],
                    "files": [str(name)[:300] for name in files],
                }
            )
    return told


def _designs(items: Sequence[dict[str, Any]], worktree: Path) -> dict[str, str]:
    """The documents of the approved items, by label."""
    documents: dict[str, str] = {}
    for item in items:
        path = Path(item["output"] or "")
        if item["status"] == Status.APPROVED and path.name and "://" not in item["output"]:
            text = Trail(worktree=worktree, folder=path.parent).read(path.name, _DOCUMENT_BYTES)
            if text is not None:
                documents[item["label"]] = text
    return documents


def _overlaps_now(designs: Mapping[str, str]) -> list[dict[str, Any]]:
    """What a run whose end is not written would tell."""
    return [{"items": list(one.items), "files": list(one.files)} for one in overlaps(designs)]


def _trend(runs: Sequence[Path]) -> list[dict[str, Any]]:
    """One entry a finished run, the oldest first."""
    told: dict[str, dict[str, Any]] = {}
    for run in sorted(set(runs), reverse=True):
        if len(told) >= TREND_RUNS:
            break
        if summary := read_summary(run):
            rows = _dicts(summary, "items")
            costs = [number_of(row, "cost_usd") for row in rows]
            told[run.name] = {
                "run_id": run.name,
                "workflow": text_of(summary, "workflow", 80),
                "items": len(rows),
                "cost_usd": None if None in costs else round(sum(cost or 0.0 for cost in costs), 6),
                "overhead": number_of(summary, "coordination_overhead_percent"),
                "wall_seconds": number_of(summary, "wall_seconds"),
                "exit_code": number_of(summary, "exit_code"),
                "approved": sum(row.get("status") == Status.APPROVED for row in rows),
                "pretended": _pretended(_dicts(summary, "keys")),
            }
    return [told[name] for name in sorted(told)]


# What a page need not show at first.


def calm(item: Record) -> bool:
    """Tell whether nothing happened to an item that somebody should look at."""
    return (
        item["status"] in _CALM
        and item["attempts"] <= 1
        and item["filing"] not in {"wanted", "unknown"}
        and not any(span.get("error") or span["kind"] == "retry" for span in item["spans"])
    )
