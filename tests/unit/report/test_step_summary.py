"""A run in GitHub Actions: remarks beside documents, and a summary that starts with what needs a person."""

from typing import Any

from agentos.model import Status
from agentos.report.step_summary import MOST_ANNOTATIONS, Annotation, annotations, step_summary
from agentos.report.summary import ItemRow, KeyRow, Summary
from agentos.report.time_shares import TimeKind, TimeShares

TIME = TimeShares(seconds=dict.fromkeys(TimeKind, 0.0) | {TimeKind.CALLS: 3.0, TimeKind.REST: 1.0})
FINDING = {"tier": 1, "category": "Security", "title": "Tokens are logged", "text": "..."}


def row(number: int, status: Status, **more: Any) -> ItemRow:
    told: dict[str, Any] = {"id": str(number), "label": f"LLD-{number}", "attempts": 1}
    return ItemRow(status=status, **told | more)


def summary(*rows: ItemRow, provider: str = "mock", code: int = 1) -> Summary:
    key = KeyRow(
        id="k", provider=provider, group="k", state="", calls=1, rate_limited=0, tokens_in=1, tokens_out=1
    )
    return Summary(
        run_id="R",
        workflow="lld",
        parallel=1,
        started_at="",
        finished_at="",
        wall_seconds=9.4,
        exit_code=code,
        stopped=None,
        items=rows,
        keys=(key,),
        coordination_overhead_percent=None,
        folder="",
    )


ROWS = (
    row(1, Status.APPROVED, output="docs/lld/active/LLD-1.md", tokens_in=5, cost_usd=0.25),
    row(2, Status.FAILED, error="no schema"),
    row(3, Status.DISCUSS, error="Keep the data?\nAll of it?"),
    row(
        4, Status.NEEDS_REVISION, error="no progress", findings=(FINDING,), output="docs/lld/active/LLD-4.md"
    ),
    row(5, Status.SKIPPED, attempts=0),
)
FILES = {f"LLD-{number}": f"issues/active/{number}.md" for number in range(1, 6)}


def test_each_item_that_needs_a_person_is_marked_at_its_document() -> None:
    assert annotations(summary(*ROWS), FILES) == [
        Annotation(level="error", title="LLD-2: failed", text="no schema", file="issues/active/2.md"),
        Annotation(
            level="warning",
            title="LLD-3: discuss",
            text="Keep the data?\nAll of it?",
            file="issues/active/3.md",
        ),
        Annotation(
            level="warning",
            title="LLD-4: needs revision",
            text="no progress\nSecurity: Tokens are logged",
            file="docs/lld/active/LLD-4.md",
        ),
    ]


def test_an_item_from_github_has_no_file() -> None:
    unfiled = row(1, Status.APPROVED, filing="unknown", output="https://github.test/o/r/issues/1", error="?")
    assert [one.file for one in annotations(summary(unfiled, row(2, Status.FAILED)), {})] == [None, None]


def test_there_are_never_more_than_github_shows() -> None:
    rows = [row(number, status) for status in (Status.FAILED, Status.DISCUSS) for number in range(30)]
    made = annotations(summary(*rows), {})
    assert [one.level for one in made] == ["error"] * MOST_ANNOTATIONS + ["warning"] * MOST_ANNOTATIONS
    assert made[MOST_ANNOTATIONS - 1].title == "21 more items need you"


def test_the_summary_starts_with_what_needs_a_person() -> None:
    text = step_summary(summary(*ROWS), commands=["agentos lld 2 3", "agentos view"], time=TIME)
    assert text.startswith(
        "## agentos lld: 1 approved, 1 needs revision, 1 discuss, 1 failed; 1 skipped\n\n"
        "### Needs you: 1 question, 2 items not approved\n\n"
        "| item | status | why |\n| --- | --- | --- |\n"
        "| LLD-3 | discuss | Keep the data? All of it? |\n"
        "| LLD-2 | failed | no schema |\n"
        "| LLD-4 | needs revision | no progress |\n\n"
        "To continue with them, in a checkout on your machine:\n\n"
        "```sh\nagentos lld 2 3\nagentos view\n```\n\n"
        "**Exit 1**: an item failed or timed out. 9 s, cost 0.2500 USD (simulated by the mock).\n\n"
        "Where the time went: 75 % in calls, 25 % start-up and rest.\n"
    )
    assert "| LLD-1 | approved |" in text
    assert "(simulated" not in step_summary(summary(*ROWS, provider="openai"), commands=[], time=TIME)


def test_text_of_a_model_is_no_markup() -> None:
    evil = row(1, Status.DISCUSS, error="</details> <img src=x> | [a](http://b) ```\n# Heading")
    text = step_summary(summary(evil), commands=[], time=TIME)
    assert "<img" not in text
    assert "](" not in text
    assert text.count("```") == 0
    assert text.count("</details>") == 1


def test_a_calm_run_needs_nobody() -> None:
    text = step_summary(summary(ROWS[0], code=0), commands=[], time=TIME)
    assert "Needs you" not in text
    assert "**Exit 0**" in text


def test_ten_thousand_items_stay_below_the_limit_of_github() -> None:
    rows = [row(number, Status.FAILED, error="no " * 90) for number in range(10_000)]
    text = step_summary(summary(*rows), commands=[], time=TIME)
    assert len(text.encode()) < 1_000_000
    assert "and 9900 more" in text
