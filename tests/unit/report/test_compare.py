"""Two runs side by side: what changed for each item, and in total."""

from typing import Any

import pytest

from agentos.cli.comparison import SHOWN_ROWS, comparison_lines
from agentos.report.compare import ChangeKind, compare


def item(
    label: str, status: str = "approved", verdict: str | None = "APPROVED", **more: Any
) -> dict[str, Any]:
    facts = {"label": label, "title": f"Title of {label}", "status": status, "verdict": verdict, "reviews": 1}
    figures = {"attempts": 1, "seconds": 10.0, "waited_seconds": 0.0, "cost_usd": 0.01}
    made = facts | figures | {"tokens_in": 100, "tokens_out": 10, "tokens_cached": 0} | more
    earlier = {"run_id": "a"} if status == "skipped" else {}
    rounds = [{"review": n, "verdict": "REVISE"} | earlier for n in range(1, made["reviews"] + 1)]
    return {"rounds": rounds} | made


def run(name: str, *items: dict[str, Any], **more: Any) -> dict[str, Any]:
    statuses = [one["status"] for one in items]
    costs = [one["cost_usd"] for one in items]
    facts: dict[str, Any] = {
        "run_id": name,
        "workflow": "lld",
        "started_at": "2026-11-17T10:00:00Z",
        "live": False,
        "exit_code": 0,
        "wall_seconds": 60.0,
        "waited_seconds": 0.0,
        "totals": {status: statuses.count(status) for status in statuses},
        "cost_usd": None if None in costs else sum(costs),
        "pretended": False,
    }
    facts |= {name: sum(one[name] for one in items) for name in ("tokens_in", "tokens_out", "tokens_cached")}
    return {"run": facts | more, "items": list(items)}


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (item("A"), item("A", cost_usd=9.0), "same"),
        (item("A", "discuss", "DISCUSS"), item("A"), "changed"),
        (item("A", "failed", None), item("A", "failed", "REVISE"), "changed"),
        (item("A"), item("A", "skipped"), "settled"),
        (item("A", "skipped"), item("A", "skipped"), "settled"),
        (item("A", "failed"), item("A", "skipped"), "changed"),
        (None, item("A"), "added"),
        (item("A"), None, "gone"),
    ],
)
def test_what_became_of_an_item(before: Any, after: Any, kind: str) -> None:
    old, new = ([] if one is None else [one] for one in (before, after))
    (change,) = compare(run("a", *old), run("b", *new)).items
    assert change.kind is ChangeKind(kind)


def test_figures_are_second_minus_first_and_unknown_stays_unknown() -> None:
    before = run("a", item("A"), item("B", cost_usd=None), wall_seconds=50.0)
    after = run("b", item("A", seconds=4.0, tokens_in=40, tokens_cached=30, cost_usd=0.004), item("B"))
    found = compare(before, after).as_dict()
    first, second = found["items"]
    assert first["difference"] == {
        "reviews": 0,
        "attempts": 0,
        "seconds": -6.0,
        "waited_seconds": 0.0,
        "tokens_in": -60,
        "tokens_out": 0,
        "tokens_cached": 30,
        "cost_usd": -0.006,
    }
    assert second["difference"]["cost_usd"] is None
    assert (found["difference"]["wall_seconds"], found["difference"]["cost_usd"]) == (10.0, None)
    assert found["difference"]["totals"] == {"approved": 0}
    assert found["counts"] == {"changed": 0, "same": 2, "settled": 0, "added": 0, "gone": 0}
    assert set(found) == {"before", "after", "difference", "counts", "items"}


def test_changes_come_first() -> None:
    before = run("a", item("A"), item("B", "failed", None), item("C"), item("D"))
    after = run("b", item("A"), item("B"), item("C", "skipped"), item("E"))
    assert [one.label for one in compare(before, after).items] == ["B", "E", "D", "A", "C"]


def test_the_lines_for_people() -> None:
    before = run("a", item("A", "discuss", "DISCUSS"), item("B"), item("C"), pretended=True)
    after = run("b", item("A", reviews=2, cost_usd=0.5), item("B", "skipped"), item("D"), live=True)
    lines = ["".join(map(str, line)) for line in comparison_lines(compare(before, after))]
    text = "\n".join(lines)
    assert "Before: run a (mock)" in text
    assert "After:  run b (still running)" in text
    assert "A  discuss, 1 review   ->  approved, 2 reviews  0 s, 0 tokens, +0.4900 USD" in text
    assert "C  approved, 1 review  ->  not in it" in text
    assert "1 item approved before and skipped after" in text
    approved = next(line for line in lines if line.startswith("  approved"))
    assert approved.split() == ["approved", "2", "2", "0"]
    assert not any(line.endswith(" ") for line in lines[:12])


def test_a_long_list_is_cut() -> None:
    many = [item(f"A{number}") for number in range(SHOWN_ROWS + 5)]
    lines = comparison_lines(
        compare(run("a", *many), run("b", *(one | {"status": "failed"} for one in many)))
    )
    assert lines[-1] == ("  and 5 more; --json has all",)


def test_items_that_did_not_change_are_only_counted() -> None:
    many = [item(f"A{number}") for number in range(200)]
    changed = item("B", "failed", None), item("B")
    found = compare(run("a", *many, changed[0]), run("b", *many, changed[1]))
    lines = ["".join(map(str, line)) for line in comparison_lines(found)]
    assert lines[-1] == "  200 items unchanged"
    assert [line.split()[0] for line in lines[-2:-1]] == ["B"]
    assert not any("A1" in line for line in lines)


def test_reviews_of_earlier_runs_do_not_count() -> None:
    resumed = item("B", reviews=2)
    resumed["rounds"][0]["run_id"] = "a"
    unread = {"review": 3, "draft": 3, "decision": None}  # a round whose verdict was deleted
    resumed["rounds"].append(unread)
    found = compare(run("a", item("A"), item("B")), run("b", item("A", "skipped"), resumed))
    assert (found.before.reviews, found.after.reviews) == (2, 1)
