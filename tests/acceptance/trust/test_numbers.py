"""Nonsense from servers, workers and journals ends its item, with a clear error, and never the run."""

import contextlib
import json
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentos.errors import Exit
from harness.github import Fault, running_fakegithub
from harness.odd_provider import OddAnswer, OddBench, running_odd_provider
from harness.project import Project, Result

HUGE = 10**19


@pytest.fixture
def bench(project: Project) -> Iterator[OddBench]:
    with running_odd_provider() as provider:
        yield OddBench(project=project, provider=provider)


Change = Callable[[OddAnswer], None]


def spoiled(bench: OddBench, *changes: Change) -> list[str]:
    """Have the server send nonsense for as many items, each its own; two more get honest answers."""
    ids = [str(number) for number in range(1, len(changes) + 3)]
    for number in ids:
        bench.project.issue(number, f"# Title\n\nWhat is wanted of (item-{number}).\n")

    def spoil(prompt: str, answer: OddAnswer) -> None:
        for number, change in zip(ids, changes, strict=False):
            if f"(item-{number})" in prompt:
                change(answer)

    bench.provider.spoil = spoil
    return ids[: len(changes)]


def assert_others_done(bench: OddBench, result: Result, odd: list[str]) -> None:
    assert result.code in {0, 1}, result
    statuses = bench.project.statuses()
    assert {status for item, status in statuses.items() if item not in odd} == {"approved"}, result
    assert "unexpected" not in result.text, result


def assert_rerun_works(bench: OddBench) -> None:
    bench.provider.spoil = None
    again = bench.run("lld", "--all", "--retry-failed", "-j", "4")
    assert again.code == 0, again
    assert {*bench.project.outcomes()} == {
        path.stem for path in (bench.project.root / "issues/active").iterdir()
    }
    for words in (["status"], ["report", "--json"], ["keys"], ["lld", "--all", "--dry-run"]):
        assert bench.run(*words).code == 0, words


def with_usage(**usage: Any) -> Change:
    return lambda answer: answer.body["usage"].update(usage)


# A server.


def test_usage_beyond_reason_ends_the_item_and_says_so(bench: OddBench) -> None:
    odd = spoiled(
        bench,
        with_usage(prompt_tokens=HUGE),
        with_usage(completion_tokens=10**30),
        with_usage(prompt_tokens=2**63, completion_tokens=10**10),
    )
    result = bench.run("lld", "--all", "-j", "4")
    assert_others_done(bench, result, odd)
    for item in odd:
        row = bench.project.row(item)
        assert row["status"] == "failed", row
        assert "tokens for the call, which is impossible" in row["error"]
    assert_rerun_works(bench)


def test_an_answer_whose_usage_cannot_be_read_counts_as_paid(bench: OddBench) -> None:
    with bench.config.open("a") as file:
        for model in ("drafter", "reviewer"):
            file.write(f'[prices."openai:{model}"]\ninput = 1000\noutput = 1000\n')
    odd = spoiled(bench, *[with_usage(prompt_tokens=HUGE)] * 6)
    result = bench.run("lld", *odd, "-j", "1", "--budget", "6")
    assert result.code == Exit.BUDGET, result
    assert 0 < bench.provider.calls < len(odd), "the estimate of each call counts"
    failed = [row for row in bench.project.summary()["items"] if row["status"] == "failed"]
    assert [row["cost_usd"] for row in failed] == [None] * bench.provider.calls
    assert "USD spent" in result.said, result
    (call,) = bench.project.audits(failed[0]["id"])
    assert (call["error"], call["cost_usd"]) == ("unreadable", None), call


NO_COUNTS = [-1, -HUGE, 1.5, 1e300, float("nan"), float("inf"), "12", "x" * 1000, True, [], {}, None]


@pytest.mark.slow
def test_usage_that_is_no_count_harms_nobody(bench: OddBench) -> None:
    """Nor does it lift a budget."""
    with bench.config.open("a") as file:
        for model in ("drafter", "reviewer"):
            file.write(f'[prices."openai:{model}"]\ninput = 1\noutput = 1\n')
    odd = spoiled(bench, *(with_usage(prompt_tokens=one, completion_tokens=one) for one in NO_COUNTS))
    result = bench.run("lld", "--all", "-j", "4", "--budget", "1")
    assert_others_done(bench, result, odd)
    for item in odd:
        row = bench.project.row(item)
        assert row["tokens_in"] == row["tokens_out"] == 0, row
        assert row["cost_usd"] is None, row
    assert_rerun_works(bench)


ODD_ANSWERS: list[Change] = [
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
]


@pytest.mark.slow
def test_odd_answers_harm_nobody_else(bench: OddBench) -> None:
    odd = spoiled(bench, *ODD_ANSWERS)
    result = bench.run("lld", "--all", "-j", "4", "--max-retries", "0")
    assert_others_done(bench, result, odd)
    assert_rerun_works(bench)


def with_length(length: int) -> Change:
    return lambda answer: answer.body["choices"][0]["message"].update(content="x " * (length // 2))


def test_an_answer_that_is_too_long_is_told_in_words(bench: OddBench) -> None:
    """Whichever of our own limits it would meet first."""
    odd = spoiled(bench, *map(with_length, (7_000_000, 9_000_000, 17_000_000)))
    result = bench.run("lld", "--all", "-j", "2", "--max-retries", "0")
    assert_others_done(bench, result, odd)
    for item in odd:
        assert "the reply is larger than" in bench.project.row(item)["error"]


# GitHub.


@pytest.mark.slow
@pytest.mark.parametrize("number", [10**30, 2**63], ids=repr)
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


CALL = {"kind": "call", "role": "drafter", "number": 1, "model": "openai:drafter", "life": "x", "key": "k"}
JOURNALS = [
    json.dumps(CALL | {"tokens_in": HUGE, "tokens_out": 1, "seconds": 0.1, "tries": 1, "served": "x"}),
    '{"kind": "call"}',
    "[1]",
    "not json",
    '{"kind": "verdict"}',
    "null",
    '{"a":' * 5000,
]


@pytest.mark.slow
def test_a_journal_of_nonsense_ends_its_item_and_fresh_helps(bench: OddBench) -> None:
    """The first is what an answer of 10**19 tokens left behind in an earlier version."""
    fail: Change = lambda answer: setattr(answer, "status", 400)  # noqa: E731
    odd = spoiled(bench, *(fail for _ in JOURNALS))
    for item in odd:  # one by one: a model that refuses two items in the same words stops the run
        assert bench.run("lld", item).code == 1
    for item, record in zip(odd, JOURNALS, strict=True):
        database = bench.project.home / "checkpoints" / f"lld_workflow_{item}.db"
        with contextlib.closing(sqlite3.connect(database)) as db, db:
            db.execute("INSERT INTO agentos_calls VALUES ('drafter', 1, '{}', ?)", (record,))
    bench.provider.spoil = None
    bench.project.issue(99)
    result = bench.run("lld", "99", *odd, "--retry-failed", "-j", "4")
    assert result.code == 1, result
    assert bench.project.statuses() == {"99": "approved"} | dict.fromkeys(odd, "failed")
    for item in odd:
        assert "contains an invalid call" in bench.project.row(item)["error"]
        assert "--fresh" in bench.project.row(item)["error"]
    again = bench.run("lld", *odd, "--fresh", "-j", "4")
    assert again.code == 0, again


ENTRIES: list[Any] = [
    {"resting": {"until": "x", "state": "\x1b[2J"}},
    {"resting": {"until": 10**30, "state": ["x"]}, "disabled": 5},
    {"resting": [1], "models": [1]},
    {"models": {"x": 1, "y": {"limits": [1]}, "z": {"limits": {"rpm": "x", "tpm": 10**400, "rpd": -1}}}},
    {"disabled": {"a": "\u202e"}},
    "nonsense",
    None,
]


def test_a_health_file_of_nonsense_is_read_as_far_as_it_makes_sense(project: Project) -> None:
    project.make_home()
    for entry in ENTRIES:
        project.write(".agentos/keys.json", json.dumps({"version": 1, "at": 1.0, "keys": {"openai": entry}}))
        for words in (["keys"], ["keys", "--json"]):
            result = project.run(*words, env={"OPENAI_API_KEY": "secret-of-mine"})
            assert result.code == 0, (entry, result)
            assert result.out.isascii()


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
    who: str


def control():
    """The socket to the coordinator, found as any code in this process can find it."""
    import gc
    from agentos.worker.link import Link
    return next(one for one in gc.get_objects() if isinstance(one, Link))._control


def raw(data, times=1):
    control().sendall((struct.pack(">I", len(data)) + data) * times)


def message(**fields):
    raw(json.dumps(fields).encode())


class Odd:
    name, prefix, filed = "odd", "ODD", False

    def discover(self, worktree, settings, wanted, *, github=None):
        names = wanted or ("first", *ATTACKS, *ENDINGS, "last")
        return tuple(
            Item(workflow="odd", id=n, label=f"ODD-{n}", title=n, text=n, source="here") for n in names
        )

    def prepare(self, worktree, settings):
        return {}

    def build(self, context, tools):
        def step(state):
            if not os.path.exists(os.path.join(context.worktree, "mended")):
                code = ATTACKS.get(context.item.id, "")
                exec(code, globals() | {"tools": tools})
            return {"done": True, "who": context.item.id}

        graph = StateGraph(State)
        graph.add_node("step", step)
        graph.add_edge(START, "step")
        graph.add_edge("step", END)
        return graph

    def start(self):
        return {"done": False}

    def ending(self, state, held):
        approved = Ended(status="approved", output="nothing", reviews=1)
        return eval(ENDINGS[state["who"]]) if state["who"] in ENDINGS else approved


WORKFLOW = Odd()
'''


RunOdd = Callable[..., Result]


@pytest.fixture
def run_odd(project: Project, tmp_path: Path) -> RunOdd:
    """Run a workflow of the user's own, whose graph does something odd for some of its items."""
    place = tmp_path / "installed"
    made = place / "odd-1.0.dist-info"
    made.mkdir(parents=True)
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n")
    (made / "entry_points.txt").write_text("[agentos.workflows]\nodd = odd_workflow:WORKFLOW\n")

    def run(attacks: dict[str, str], endings: dict[str, str], *args: str) -> Result:
        code = f"{GRAPH}\nATTACKS = {attacks!r}\nENDINGS = {endings!r}\n"
        (place / "odd_workflow.py").write_text(code)
        # A worker that is started from nothing looks for packages itself.
        env = {"PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1", "AGENTOS_START_METHOD": "spawn"}
        return project.run("run", "odd", *(args or ("--all",)), "--mock", "-j", "4", env=env, timeout=170)

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


ATTACKS = {
    "a call of ours": ("tools.audit('call', tokens_in=1)", "another name"),
    "a verdict of numbers": ("tools.audit('verdict', review=10**30, verdict='REVISE')", "is not valid"),
    "usage beyond reason": (
        "message(type='settled', lease=1, seconds=1.0, tokens_in=10**19)",
        "broke the protocol",
    ),
    "no number": ('raw(b\'{"type": "node_ended", "node": "x", "seconds": NaN}\')', "broke the protocol"),
    "an unknown message": ("message(type='shell', command='x')", "broke the protocol"),
    "nested": ("raw(b'{\"a\":' * 100_000)", "broke the protocol"),
    "a frame without end": (
        "control().sendall(b'\\xff\\xff\\xff\\xff' + b'x' * 100_000)",
        "broke the protocol",
    ),
    "a huge text": (
        "message(type='audit', record={'kind': 'x', 'fields': {'a': 'x' * 7_000_000}})",
        "broke the protocol",
    ),
    "a record over ours": ("message(type='audit', record={'kind': 'x', 'item': '9'})", "broke the protocol"),
    "a second greeting": ("message(type='hello', pid=1, resumed=False)", "broke the protocol"),
    "a model that is not the run's": (
        "message(type='lease_wanted', number=1, provider='zzz', model='y', tokens=1)",
        "broke the protocol",
    ),
    "too many messages": ('raw(b\'{"type": "beat"}\', times=100_001)', "broke the protocol"),
}


ENDINGS = {
    "an ending beyond reason": ("Ended(status='approved', reviews=10**30)", "invalid ending"),
    "no ending": ("None", "not an Ended"),
    "an ending without end": ("Ended(status='failed', error='x' * 10**6, verdict='v' * 10**6)", "xxx"),
}


def named(table: dict[str, tuple[str, str]], at: int) -> dict[str, str]:
    """One column of a table, by the ids of its items."""
    return {name.replace(" ", "-").replace("'", ""): row[at] for name, row in table.items()}


@pytest.mark.slow
def test_a_graph_of_the_users_own_cannot_end_the_run(project: Project, run_odd: RunOdd) -> None:
    attacks, endings = named(ATTACKS, 0), named(ENDINGS, 0)
    result = run_odd(attacks | {"last": OWN}, endings)
    assert result.code == 1, result
    bad = dict.fromkeys([*attacks, *endings], "failed")
    assert project.statuses() == bad | {"first": "approved", "last": "approved"}, result
    for name, told in (named(ATTACKS, 1) | named(ENDINGS, 1)).items():
        error = project.row(name)["error"]
        assert told in error, (name, error)
        assert len(error) <= 2000
    assert len(result.text) < 60_000
    _assert_own_records_are_bounded(project)
    (project.root / "mended").touch()
    again = run_odd({}, {}, *list(attacks)[:2], "--retry-failed")
    assert again.code == 0, again


def _assert_own_records_are_bounded(project: Project) -> None:
    """A graph may audit what it likes; it stands under one name, and over nothing of ours."""
    records = [one for one in project.audits("last") if one["kind"] == "mine"]
    assert records[0]["fields"]["item"] == "99"
    assert records[0]["item"] == "last"
    assert records[0]["run_id"] == project.runs()[-1].name
    [trail] = project.runs()[-1].glob("workflow-audit-last.jsonl")
    assert trail.stat().st_size < 500_000
    for words in (["status"], ["report"], ["report", "--json"]):
        assert project.run(*words).code == 0
