"""Prints how two runs differ: totals in columns, then one line per item that changed."""

from agentos.console.colours import STATUS_COLOURS
from agentos.console.screen import Line, Paint
from agentos.console.visible import one_line
from agentos.duration import words
from agentos.model import counted
from agentos.money import amount
from agentos.report.compare import ChangeKind, Comparison, ItemChange, ItemResult

SHOWN_ROWS = 60
_NONE = "-"


def comparison_lines(found: Comparison) -> list[Line]:
    """All lines, for people."""
    before, after = found.before, found.after
    lines: list[Line] = [
        (f"Before: run {before.run_id}{_note(before.pretended, before.live)}",),
        (f"After:  run {after.run_id}{_note(after.pretended, after.live)}",),
        ("",),
        *_totals(found),
        ("",),
    ]
    shown = found.of(ChangeKind.CHANGED, ChangeKind.ADDED, ChangeKind.GONE)
    lines += _rows(shown[:SHOWN_ROWS])
    if len(shown) > SHOWN_ROWS:
        lines.append((f"  and {len(shown) - SHOWN_ROWS} more; --json has all",))
    if same := len(found.of(ChangeKind.SAME)):
        lines.append((f"  {counted(same, 'item')} unchanged",))
    if settled := len(found.of(ChangeKind.SETTLED)):
        lines.append((f"  {counted(settled, 'item')} approved before and skipped after",))
    return lines


def _note(pretended: bool, live: bool) -> str:  # noqa: FBT001 - two facts of one run
    notes = [text for text, holds in (("mock", pretended), ("still running", live)) if holds]
    return f" ({', '.join(notes)})" if notes else ""


def _totals(found: Comparison) -> list[Line]:
    before, after, more = found.before, found.after, found.difference
    table: list[tuple[str, str, str, str]] = [("", "before", "after", "change")]
    for name in found.statuses:
        old, new = before.totals.get(name, 0), after.totals.get(name, 0)
        table.append((name.replace("_", " "), str(old), str(new), _signed(new - old)))
    for title, name in (("reviews", "reviews"), ("tokens in", "tokens_in"), ("cached", "tokens_cached")):
        table.append(_row(title, getattr(before, name), getattr(after, name)))
    table.append(_row("tokens out", before.tokens_out, after.tokens_out))
    table.append(
        ("cost (USD)", amount(before.cost_usd), amount(after.cost_usd), _usd(more["cost_usd"]) or _NONE)
    )
    took = (before.wall_seconds, after.wall_seconds)
    table.append(("wall time", words(took[0]), words(took[1]), _seconds(took[1] - took[0])))
    rooms = [max(len(row[at]) for row in table) for at in range(4)]
    lines = ([row[0].ljust(rooms[0]), *map(str.rjust, row[1:], rooms[1:])] for row in table)
    return [(f"  {'  '.join(cells)}".rstrip(),) for cells in lines]


def _row(title: str, old: int, new: int) -> tuple[str, str, str, str]:
    return title, f"{old:,}", f"{new:,}", _signed(new - old)


def _signed(number: int) -> str:
    return f"{number:+,}" if number else "0"


def _seconds(difference: float) -> str:
    return f"{'-' if difference < 0 else '+'}{words(abs(difference))}" if abs(difference) >= 0.5 else "0 s"


def _rows(changes: list[ItemChange]) -> list[Line]:
    room = max((len(one.label) for one in changes), default=0)
    results = [(_result(one.before), _result(one.after)) for one in changes]
    rooms = [max((len(pair[at]) for pair in results), default=0) for at in range(2)]
    lines: list[Line] = []
    for one, (old, new) in zip(changes, results, strict=True):
        colour = None if one.after is None else STATUS_COLOURS.get(one.after.status)
        new_side = Paint(f"{new:<{rooms[1]}}", fg=colour)
        lines.append((f"  {one_line(one.label):<{room}}  {old:<{rooms[0]}}  ->  ", new_side, _figures(one)))
    return lines


def _result(side: ItemResult | None) -> str:
    if side is None:
        return "not in it"
    reviews = f", {counted(side.reviews, 'review')}" if side.reviews else ""
    return f"{side.status.replace('_', ' ')}{reviews}"


def _figures(one: ItemChange) -> str:
    more = one.difference
    if one.before is None or one.after is None:
        return ""
    tokens = int((more["tokens_in"] or 0) + (more["tokens_out"] or 0))
    spent = _usd(more["cost_usd"])
    cost = "cost unknown" if spent is None else f"{spent} USD"
    return f"  {_seconds(more['seconds'] or 0.0)}, {_signed(tokens)} tokens, {cost}"


def _usd(difference: float | None) -> str | None:
    if not difference:
        return None if difference is None else "0"
    return f"{'-' if difference < 0 else '+'}{amount(abs(difference))}"
