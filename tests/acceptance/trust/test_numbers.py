"""Nonsense from servers, workers and journals ends its item, with a clear error, and never the run."""

import contextlib
import json
import sqlite3
import subprocess
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.github import Fault, running_fakegithub
from harness.odd_provider import OddAnswer, OddBench, running_odd_provider
from harness.project import Project, Result

HUGE = 10**19


@pytest.fixture
def bench(project: Project) -> Iterator[OddBench]:
    with running_odd_provider() as provider:
        yield OddBench(project=project, provider=provider)


def spoiled(bench: OddBench, change: Callable[[OddAnswer], None]) -> None:
    """Have the server send nonsense for item 2 only."""
    for number in (1, 2, 3):
        bench.project.issue(number, f"# Title\n\nWhat is wanted of item-number-{number}.\n")

    def spoil(prompt: str, answer: OddAnswer) -> None:
        if "item-number-2" in prompt:
            change(answer)

    bench.provider.spoil = spoil


def assert_others_done(bench: OddBench, result: Result) -> None:
    assert result.code in {0, 1}, result
    statuses = bench.project.statuses()
    assert statuses.pop("1") == statuses.pop("3") == "approved", result
    assert "unexpected" not in result.text, result


def assert_rerun_works(bench: OddBench) -> None:
    bench.provider.spoil = None
    again = bench.run("lld", "--all", "--retry-failed")
    assert again.code == 0, again
    assert set(bench.project.outcomes()) == {"1", "2", "3"}
    for words in (["status"], ["report"], ["report", "--json"], ["keys"], ["lld", "--all", "--dry-run"]):
        assert bench.run(*words).code == 0, words


# A server.


@pytest.mark.parametrize("amount", [HUGE, 10**30, 2**63, 10**10], ids=str)
@pytest.mark.parametrize("name", ["prompt_tokens", "completion_tokens"])
def test_usage_beyond_reason_ends_the_item_and_says_so(bench: OddBench, name: str, amount: int) -> None:
    spoiled(bench, lambda answer: answer.body["usage"].update({name: amount}))
    result = bench.run("lld", "--all", "-j", "3")
    assert_others_done(bench, result)
    row = bench.project.row("2")
    assert row["status"] == "failed"
    assert "tokens, which makes no sense" in row["error"]
    assert_rerun_works(bench)


@pytest.mark.parametrize(
    "amount",
    [-1, -HUGE, 1.5, 1e300, float("nan"), float("inf"), "12", "x" * 1000, True, [], {}, None],
    ids=repr,
)
def test_usage_that_is_no_count_harms_nobody(bench: OddBench, amount: Any) -> None:
    usage = {"prompt_tokens": amount, "completion_tokens": amount}
    spoiled(bench, lambda answer: answer.body.update(usage=usage))
    result = bench.run("lld", "--all", "-j", "3")
    assert_others_done(bench, result)
    assert bench.project.row("2")["tokens_in"] == 0
    assert_rerun_works(bench)


@pytest.mark.parametrize("amount", [HUGE, -HUGE, float("nan"), 1.5, "12"], ids=repr)
def test_usage_of_nonsense_does_not_lift_a_budget(bench: OddBench, amount: Any) -> None:
    with bench.config.open("a") as file:
        file.write('[prices."openai:drafter"]\ninput = 1\noutput = 1\n')
        file.write('[prices."openai:reviewer"]\ninput = 1\noutput = 1\n')
    spoiled(bench, lambda answer: answer.body["usage"].update(prompt_tokens=amount, completion_tokens=amount))
    result = bench.run("lld", "--all", "--budget", "1")
    assert_others_done(bench, result)
    costs = [row["cost_usd"] for row in bench.project.summary()["items"]]
    assert all(cost is None or 0 <= cost < 1 for cost in costs), costs


@pytest.mark.parametrize(
    "change",
    [
        lambda answer: answer.body.update(model="m" * 5_000_000),
        lambda answer: answer.body.update(model={"a": [1] * 1000}),
        lambda answer: answer.body.update(usage="none"),
        lambda answer: answer.body.update(usage=[1, 2]),
        lambda answer: answer.body["choices"][0].update(finish_reason={"a": "x" * 100_000}),
        lambda answer: answer.headers.update({f"x-ratelimit-odd-{n}": "9" * 900 for n in range(50)}),
        lambda answer: answer.headers.update(
            {"x-ratelimit-limit-requests": "1e400", "x-ratelimit-remaining-tokens": "-5"}
        ),
        lambda answer: setattr(answer, "body", b'{"a":' * 100_000),
        lambda answer: setattr(answer, "body", b'{"usage": {"prompt_tokens": ' + b"9" * 5000 + b"}}"),
    ],
    ids=range(9),
)
def test_odd_answers_harm_nobody_else(bench: OddBench, change: Callable[[OddAnswer], None]) -> None:
    spoiled(bench, change)
    result = bench.run("lld", "--all", "-j", "3", "--max-retries", "0")
    assert_others_done(bench, result)
    assert_rerun_works(bench)


@pytest.mark.parametrize("after", ["9" * 30, "-1", "1e30", "nan", "99999-01-01T00:00:00Z", "x" * 5000])
def test_a_delay_of_nonsense_is_not_waited_for(bench: OddBench, after: str) -> None:
    seen: list[int] = []

    def change(answer: OddAnswer) -> None:
        seen.append(1)
        if len(seen) == 1:
            answer.status, answer.body = 503, {"error": {"message": "later"}}
            answer.headers.update({"retry-after": after})

    spoiled(bench, change)
    result = bench.run("lld", "--all", "-j", "3", "--max-retries", "0")
    assert_others_done(bench, result)


# GitHub.


@pytest.mark.parametrize("number", [10**30, 2**63, -1, 1.5, "7", True, None], ids=repr)
def test_a_created_issue_of_an_impossible_number_is_looked_up_again(bench: OddBench, number: Any) -> None:
    with running_fakegithub() as github:
        git = ["git", "-C", str(bench.project.root)]
        subprocess.run([*git, "init", "-q"], check=True)
        origin = f"https://github.com/{github.repository}.git"
        subprocess.run([*git, "remote", "add", "origin", origin], check=True)
        bench.project.brief("one")
        bench.project.brief("two")
        body = json.dumps({"number": number, "title": "x", "html_url": "https://github.test/x"})
        github.next_posts(Fault(creates=True, status=201, body=body))
        env = {"GITHUB_API_URL": github.url, "GH_TOKEN": github.token}
        first = bench.run("issue", "--all", "--yes", **env)
        assert first.code in {0, 3}, first
        again = bench.run("issue", "--all", "--yes", **env)
        assert again.code == 0, again
        assert len(github.issues) == 2
        assert bench.run("status", **env).code == 0


# A journal.


def test_a_journal_of_nonsense_ends_its_item_and_fresh_helps(bench: OddBench) -> None:
    for record in (
        '{"kind": "call", "tokens_in": 10000000000000000000}',
        "[1]",
        "not json",
        '{"kind": "verdict"}',
        "{}",
        "null",
        '{"a":' * 5000,
    ):
        spoiled(bench, lambda answer: setattr(answer, "status", 500))
        bench.run("lld", "--all", "--fresh", "--max-retries", "0")
        [database] = (bench.project.home / "checkpoints").glob("lld_workflow_2.db")
        with contextlib.closing(sqlite3.connect(database)) as db, db:
            db.execute("INSERT INTO agentos_calls VALUES ('drafter', 1, '{}', ?)", (record,))
        bench.provider.spoil = None
        result = bench.run("lld", "1", "2", "3", "--retry-failed")
        assert result.code == 1, (record, result)
        assert "makes no sense" in bench.project.row("2")["error"]
        assert "--fresh" in bench.project.row("2")["error"]
        assert bench.run("lld", "2", "--fresh").code == 0


def test_a_journal_that_an_earlier_version_poisoned_does_not_stop_the_run(bench: OddBench) -> None:
    spoiled(bench, lambda answer: setattr(answer, "status", 500))
    bench.run("lld", "--all", "--max-retries", "0")
    [database] = (bench.project.home / "checkpoints").glob("lld_workflow_2.db")
    call = {
        "kind": "call",
        "role": "drafter",
        "number": 1,
        "model": "openai:drafter",
        "life": "x",
        "key": "k",
    }
    record = json.dumps(
        call | {"tokens_in": HUGE, "tokens_out": 1, "seconds": 0.1, "tries": 1, "served": "x"}
    )
    with contextlib.closing(sqlite3.connect(database)) as db, db:
        db.execute("INSERT INTO agentos_calls VALUES ('drafter', 1, '{}', ?)", (record,))
    bench.provider.spoil = None
    bench.project.issue(4)
    result = bench.run("lld", "1", "2", "4", "--retry-failed")
    assert result.code == 1, result
    assert bench.project.statuses()["4"] == "approved"
    assert "makes no sense" in bench.project.row("2")["error"]


# A worker, which runs anybody's graph.

GRAPH = '''
import json, os, socket, struct, sys, threading
from langgraph.graph import END, START, StateGraph
from typing import TypedDict
from agentos.model import Item
from agentos.wire import Ended
from agentos.workflows.prompts import Prompt


class State(TypedDict, total=False):
    reviews: object
    done: bool


def control():
    """The socket to the coordinator, found as any code in this process can find it."""
    import gc
    from agentos.worker.link import Link
    return next(one for one in gc.get_objects() if isinstance(one, Link))._control


def raw(data, times=1):
    for _ in range(times):
        control().sendall(struct.pack(">I", len(data)) + data)


def message(**fields):
    raw(json.dumps(fields).encode())


class Odd:
    name, prefix, filed = "odd", "ODD", False

    def discover(self, worktree, settings, wanted, *, github=None):
        names = wanted or ("good", "bad", "other")
        return tuple(
            Item(workflow="odd", id=n, label=f"ODD-{n}", title=n, text=n, source="here") for n in names
        )

    def prepare(self, worktree, settings):
        return {}

    def build(self, context, tools):
        def step(state):
            if context.item.id == "bad" and not os.path.exists(os.path.join(context.worktree, "mended")):
                BAD(context, tools)
            return {"done": True}

        graph = StateGraph(State)
        graph.add_node("step", step)
        graph.add_edge(START, "step")
        graph.add_edge("step", END)
        return graph

    def start(self):
        return {"done": False}

    def ending(self, state, held):
        return ENDING()


def ENDING():
    return Ended(status="approved", output="nothing", reviews=1)


def BAD(context, tools):
    ATTACK


WORKFLOW = Odd()
'''


@pytest.fixture
def odd_workflow(project: Project, tmp_path: Path) -> Callable[[str], Result]:
    """Run a workflow of the user's own, whose graph does something odd for one of its items."""
    place = tmp_path / "installed"
    made = place / "odd-1.0.dist-info"
    made.mkdir(parents=True)
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n")
    (made / "entry_points.txt").write_text("[agentos.workflows]\nodd = odd_workflow:WORKFLOW\n")

    def run(attack: str, *args: str, extra: str = "") -> Result:
        code = GRAPH.replace("    ATTACK", textwrap.indent(textwrap.dedent(attack).strip() or "pass", "    "))
        (place / "odd_workflow.py").write_text(code + textwrap.dedent(extra))
        env = {"PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1"}
        return project.run("run", "odd", *(args or ("--all",)), "--mock", "-j", "3", env=env)

    return run


OWN = """
class Strange:
    def __repr__(self):
        raise RuntimeError("no")
endless = []
endless.append(endless)
tools.audit("mine", a=10**30, b=float("nan"), c=Strange(), d=endless, e=b"x", f={1: {2}}, g="x" * 10**7,
            h="\\ud800", i=object, run_id="forged", item="99", time="never", attempt=-1, trace_id="x")
tools.audit("k" * 10**6, **{"x" * 10**5: 1})
tools.audit("mine")
"""


def test_a_graph_may_audit_what_it_likes(project: Project, odd_workflow: Callable[[str], Result]) -> None:
    result = odd_workflow(OWN)
    assert result.code == 0, result
    assert set(project.statuses().values()) == {"approved"}
    records = [one for one in project.audits("bad") if one["kind"] == "mine"]
    assert records[0]["fields"]["item"] == "99"
    assert records[0]["item"] == "bad"
    assert records[0]["run_id"] == project.runs()[-1].name
    [trail] = project.runs()[-1].glob("workflow-audit-bad.jsonl")
    assert trail.stat().st_size < 500_000
    for words in (["status"], ["report"], ["report", "--json"]):
        assert project.run(*words).code == 0


ATTACKS = {
    "a call of ours": ("tools.audit('call', tokens_in=1)", "another name"),
    "a failed call of ours": ("tools.audit('failed_call')", "another name"),
    "a verdict without its fields": ("tools.audit('verdict', review='x')", "does not fit"),
    "a verdict of numbers": ("tools.audit('verdict', review=10**30, verdict='REVISE')", "does not fit"),
    "a gate of nonsense": ("tools.audit('gate', draft=-1)", "does not fit"),
    "usage beyond reason": (
        "message(type='settled', lease=1, seconds=1.0, tokens_in=10**19)",
        "makes no sense",
    ),
    "usage below nothing": ("message(type='settled', lease=1, seconds=1.0, tokens_in=-5)", "makes no sense"),
    "no number": ('raw(b\'{"type": "node_ended", "node": "x", "seconds": NaN}\')', "makes no sense"),
    "endless": ('raw(b\'{"type": "waiting", "reason": "x", "seconds": 1e400}\')', "makes no sense"),
    "an unknown message": ("message(type='shell', command='x')", "makes no sense"),
    "an unknown field": ("message(type='beat', more=1)", "makes no sense"),
    "a type that is none": ("message(type=['beat'])", "makes no sense"),
    "no JSON": ("raw(b'\\xff' * 1000)", "makes no sense"),
    "nested": ("raw(b'{\"a\":' * 100_000)", "makes no sense"),
    "nothing": ("raw(b'')", "makes no sense"),
    "a frame without end": ("control().sendall(b'\\xff\\xff\\xff\\xff' + b'x' * 100_000)", "makes no sense"),
    "a huge text": (
        "message(type='audit', record={'kind': 'x', 'fields': {'a': 'x' * 7_000_000}})",
        "makes no sense",
    ),
    "a forged call": (
        "message(type='paid_before', record={'kind': 'call', 'tokens_in': 10**19})",
        "makes no sense",
    ),
    "a record over ours": ("message(type='audit', record={'kind': 'x', 'item': '9'})", "makes no sense"),
    "a second greeting": ("message(type='hello', pid=1, resumed=False)", "makes no sense"),
    "a model that is not the run's": (
        "message(type='lease_wanted', number=1, provider='zzz', model='y', tokens=1)",
        "makes no sense",
    ),
    "too many messages": ('raw(b\'{"type": "beat"}\', times=100_001)', "makes no sense"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_worker_that_sends_nonsense_ends_its_item_alone(
    project: Project, odd_workflow: Callable[..., Result], name: str
) -> None:
    attack, told = ATTACKS[name]
    result = odd_workflow(attack)
    assert result.code == 1, result
    statuses = project.statuses()
    assert statuses == {"good": "approved", "other": "approved", "bad": "failed"}, result
    error = project.row("bad")["error"]
    assert told in error, error
    assert len(error) < 600
    (project.root / "mended").touch()
    again = odd_workflow("", "bad", "--retry-failed")
    assert again.code == 0, again
    assert project.run("report").code == 0


@pytest.mark.parametrize("lease", [0, 1, 7, 10**9])
def test_a_lease_that_is_not_the_items_own_is_not_settled(
    project: Project, odd_workflow: Callable[..., Result], lease: int
) -> None:
    result = odd_workflow(f"message(type='settled', lease={lease}, seconds=1.0, tokens_in=5)")
    assert result.code == 0, result


@pytest.mark.parametrize(
    ("ending", "told"),
    [
        ("Ended(status='approved', reviews=10**30)", "does not fit"),
        ("Ended(status='great')", "does not fit"),
        ("None", "not an Ended"),
        ("Ended(status='failed', error='x' * 10**6, verdict='v' * 10**6)", "xxx"),
    ],
)
def test_an_ending_of_nonsense_is_a_clear_error(
    project: Project, odd_workflow: Callable[..., Result], ending: str, told: str
) -> None:
    result = odd_workflow("", "bad", extra=f"\ndef ENDING():\n    return {ending}\n")
    assert result.code == 1, result
    error = project.row("bad")["error"]
    assert told in error
    assert len(error) <= 2000
    assert len(result.text) < 20_000
