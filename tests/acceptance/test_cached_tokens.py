"""What came from a provider's cache, from the server's answer to the summary, the trail and the report."""

from collections.abc import Iterator

import pytest

from harness.odd_provider import OddAnswer, OddBench, running_odd_provider
from harness.project import Project

PRICES = "".join(
    f'[prices."openai:{model}"]\ninput = 10.0\noutput = 20.0\ncached_input = 1.0\n'
    for model in ("drafter", "reviewer")
)
FULL = (1_000 * 10.0 + 50 * 20.0) / 1e6  # USD of one call without a cache
CACHED = (100 * 10.0 + 900 * 1.0 + 50 * 20.0) / 1e6


@pytest.fixture
def bench(project: Project) -> Iterator[OddBench]:
    with running_odd_provider() as provider:

        def spoil(_: str, answer: OddAnswer) -> None:
            answer.body["usage"] = {
                "prompt_tokens": 1_000,
                "completion_tokens": 50,
                "prompt_tokens_details": {"cached_tokens": 900},
                "completion_tokens_details": {"reasoning_tokens": 20},
            }

        provider.spoil = spoil
        yield OddBench(project=project, provider=provider, more=PRICES)


def test_cached_tokens_are_shown_and_priced_by_their_own_price(bench: OddBench) -> None:
    bench.project.issue(1)
    assert bench.run("lld", "1").code == 0
    row = bench.project.row("1")
    assert (row["tokens_in"], row["tokens_out"], row["tokens_cached"]) == (2_000, 100, 1_800)
    assert row["cost_usd"] == pytest.approx(2 * CACHED)
    (key,) = bench.project.summary()["keys"]
    assert (key["tokens_in"], key["tokens_cached"]) == (2_000, 1_800)
    calls = [one for one in bench.project.audits("1") if one["kind"] == "call"]
    assert {(one["tokens_cached"], one["tokens_reasoning"], one["tokens_out"]) for one in calls} == {
        (900, 20, 50)
    }
    settled = [event for event in bench.project.events() if event["event"] == "settled"]
    assert {event["tokens_cached"] for event in settled} == {900}
    report = bench.run("report", "--json").json
    (item,) = report["items"]
    assert (report["run"]["tokens_cached"], item["tokens_cached"]) == (1_800, 1_800)
    spans = [span for span in item["spans"] if span["kind"] == "call"]
    assert {span["tokens_cached"] for span in spans} == {900}


def test_a_budget_counts_the_real_cost(bench: OddBench) -> None:
    for number in range(1, 5):
        bench.project.issue(number)
    # Without the price of what is cached, eight calls would cost more than this.
    assert 8 * CACHED < (budget := 8 * CACHED + 3 * FULL) < 8 * FULL
    assert bench.run("lld", "--all", "--budget", f"{budget:.6f}").code == 0
    assert bench.provider.calls == 8


def test_the_next_estimate_counts_what_came_from_a_cache(bench: OddBench) -> None:
    for number in range(1, 5):
        bench.project.issue(number)
    assert bench.run("lld", "1", "2", "3").code == 0
    preview = bench.run("lld", "--all", "--dry-run", "--json").json
    low, high = preview["cost_usd"]["low"], preview["cost_usd"]["high"]
    assert (low, high) == (pytest.approx(2 * CACHED, rel=0.01), pytest.approx(2 * CACHED, rel=0.01))
