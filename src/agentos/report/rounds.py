"""The audit trail of an item: the verdict of each round, its findings and what became of them. Pure."""

from collections.abc import Iterable, Sequence
from typing import Any

from agentos.finding import identity
from agentos.report.timeline import Record, count_of, moment, number_of, text_of

_MOST_FINDINGS = 100  # of one round
_UNREADABLE = "UNREADABLE"


def read_rounds(records: Iterable[Record], *, started: float) -> list[dict[str, Any]]:
    """The rounds of an item, in order; `started` is the run's start in seconds since 1970."""
    rounds: dict[int, dict[str, Any]] = {}
    draft: int | None = None
    calls: dict[int, Record] = {}
    for record in records:
        match record.get("kind"):
            case "gate":
                draft = count_of(record, "draft") or draft
            case "call" if record.get("role") == "reviewer":
                calls[count_of(record, "number")] = record
            case "verdict":
                number = count_of(record, "review")
                # A worker that died after its verdict gives the same one again: the last word counts.
                decision = rounds.get(number, {}).get("decision")
                rounds[number] = _round(record, number, draft, calls.get(number, {}), started)
                rounds[number]["decision"] = decision
            case "decision":
                number = count_of(record, "reviews")
                if number in rounds:
                    rounds[number]["decision"] = _decision(record)
                else:
                    # On a verdict of an earlier run.
                    rounds[number] = {"review": number, "draft": draft, "decision": _decision(record)}
            case _:
                pass
    return [rounds[number] for number in sorted(rounds)]


def _round(record: Record, number: int, draft: int | None, call: Record, started: float) -> dict[str, Any]:
    told = moment(record.get("time"))
    findings = record.get("findings")
    questions = record.get("questions")
    return {
        "review": number,
        "draft": draft,
        "at": None if told is None else round(max(0.0, told - started), 3),
        "verdict": text_of(record, "verdict", 40) or _UNREADABLE,
        "reason": text_of(record, "reason"),
        "model": text_of(record, "model", 100),
        "key": text_of(call, "key", 80),
        "seconds": number_of(call, "seconds"),
        "tokens_in": count_of(call, "tokens_in"),
        "tokens_out": count_of(call, "tokens_out"),
        "cost_usd": number_of(call, "cost_usd"),
        "findings": [_finding(one) for one in _dicts(findings)[:_MOST_FINDINGS]],
        "questions": [one[:2000] for one in questions if isinstance(one, str)]
        if isinstance(questions, list)
        else [],
    }


def _finding(record: Record) -> dict[str, Any]:
    return {
        "tier": count_of(record, "tier") or 3,
        "category": text_of(record, "category", 100) or "",
        "title": text_of(record, "title", 300) or "",
        "text": text_of(record, "text") or "",
        "recommendation": text_of(record, "recommendation") or "",
    }


def _decision(record: Record) -> dict[str, Any]:
    return {name: text_of(record, name) for name in ("answer", "by", "at", "note")}


def _dicts(value: object) -> list[Record]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def mark_findings(rounds: Sequence[dict[str, Any]], *, approved: bool) -> None:
    """Say of each finding whether it was resolved, is open, or was accepted with the approval."""
    whole = [one for one in rounds if one.get("verdict") not in {None, _UNREADABLE}]
    for number, one in enumerate(whole):
        after = whole[number + 1] if number + 1 < len(whole) else None
        again = set() if after is None else {identity(finding) for finding in after["findings"]}
        for finding in one["findings"]:
            if after is None:
                finding["state"] = "accepted" if approved else "open"
            else:
                finding["state"] = "open" if identity(finding) in again else "resolved"


def add_costs(calls: Sequence[dict[str, Any]], records: Iterable[Record]) -> None:
    """Give the calls of the timeline what only the audit trail knows: cost, and the model that served."""
    free = [call for call in calls if not call.get("error")]
    for record in records:
        if record.get("kind") != "call":
            continue
        wanted = (record.get("key"), count_of(record, "tokens_in"), count_of(record, "tokens_out"))
        for call in free:
            if (call["key"], call.get("tokens_in", 0), call.get("tokens_out", 0)) == wanted:
                call.update(_told(record))
                free.remove(call)
                break


def _told(record: Record) -> dict[str, Any]:
    told = {"cost_usd": number_of(record, "cost_usd"), "served": text_of(record, "served", 100)}
    return {name: value for name, value in told.items() if value is not None}
