"""Reading before writing, through the real command: what is asked for arrives, by the rules of the map."""

import json
import os
import signal

import pytest

from harness.processes import wait_until
from harness.provider import Asked, Bench

TOKEN = "ghp_" + "a1B2" * 9
POOL = "class Pool:\n    def lease(self) -> int:\n        return 1\n\n    def _wake(self) -> None: ...\n"


def wishes(*texts: str) -> str:
    return json.dumps({"wishes": list(texts)})


def design(item: int, words: str) -> str:
    return (
        f"# LLD-{item}: T\n\n**Issue:** #{item}\n\n## Context\n\nWhy.\n\n## Proposed Changes\n\n{words}\n"
        "\n### Files changed\n\n- `src/pool.py`: changed\n"
    )


@pytest.fixture
def repo(bench: Bench) -> Bench:
    write = bench.project.write
    write("src/pool.py", POOL)
    write("src/far.py", "".join(f"def far_{number}(value):\n    return value\n\n\n" for number in range(900)))
    write("src/settings.py", f'API = "{TOKEN}"\n')
    write("logo.png", b"\x89PNG\0\0")
    write(".gitignore", "private.txt\n.agentos/\n")
    write("private.txt", "hidden words\n")
    (bench.root / "link.py").symlink_to("/etc/hostname")
    bench.config.write_text(f"context_tokens = 3000\ncontext_exclude = ['old/*']\n{bench.config.read_text()}")
    write("old/plan.py", "def old_plan(): ...\n")
    bench.project.issue(1, "# Lease fairly\n\nThe pool must be fair.\n")
    bench.commit()
    return bench


def audits(bench: Bench, kind: str) -> list[dict[str, object]]:
    return [one for one in bench.project.audits("1") if one["kind"] == kind]


def test_what_the_drafter_asks_for_reaches_both_models_and_the_report(repo: Bench) -> None:
    repo.provider.looks.extend(
        [wishes("src/far.py#far_700", "far_701"), wishes(), wishes("src/far.py:2801-2802")]
    )
    repo.provider.verdicts.extend(["REVISE", "APPROVED"])
    done = repo.ok("lld", "1")
    assert [one.role for one in repo.provider.asked] == [
        *("look", "look", "drafter", "look", "reviewer", "drafter", "reviewer")
    ]
    assert "far_700" not in repo.provider.asked[0].prompt
    for one in repo.provider.asked[1:3] + repo.provider.asked[4:]:
        assert "[lines 2801-2802: far_700]\ndef far_700(value):\n    return value\n" in one.prompt
        assert "far_701: 1 definition" in one.prompt
    assert "[LLD-1] look 1: read 2 definitions in 1 file and 1 search result\n" in done.out
    first, second, check = audits(repo, "look")
    assert (first["role"], first["wishes"]) == ("drafter", ["src/far.py#far_700", "far_701"])
    assert first["read"][:2] == ["src/far.py:2801-2802", "src/far.py:2805-2806"]  # type: ignore[index]
    assert (second["wishes"], check["role"], check["answers"]) == (
        *([], "reviewer"),
        ["src/far.py:2801-2802: already shown"],
    )
    numbers = [(one["role"], one["number"]) for one in audits(repo, "call")]
    assert numbers == [
        *(("drafter", 1), ("drafter", 2), ("drafter", 3), ("reviewer", 1), ("reviewer", 2)),
        *(("drafter", 4), ("reviewer", 3)),
    ]
    page = (repo.project.runs()[-1] / "report.html").read_text()
    assert "Read from the repository" in page


def test_wishes_for_what_must_not_be_sent_are_refused_and_said(repo: Bench) -> None:
    asked = {
        "src/settings.py": "not sent: ",
        ".env": "no tracked file has this path",
        "private.txt": "no tracked file has this path",
        "../outside.txt": "only paths inside the repository",
        "/etc/passwd": "only paths inside the repository",
        "link.py": "not sent: a link",
        "logo.png": "not sent: not text",
        "old/plan.py": "not sent: context_exclude names it",
        "hidden words": "nothing in the tracked files that may be sent contains this",
        TOKEN[:24]: "nothing in the tracked files that may be sent contains this",
        "src/pool.py#Nothing": "src/pool.py defines no Nothing",
        "x" * 350: "longer than 300 characters",
    }
    repo.provider.looks.extend(
        [wishes(*asked), wishes(*(f"src/pool.py:{n}" for n in range(1, 1_001))), wishes()]
    )
    repo.ok("lld", "1")
    told = repo.provider.asked[2].prompt
    for wish, why in asked.items():
        assert f"- {wish[:60]}: {why}" in told, wish
    assert "- 980 more: not looked at: only the first 20 wishes count\n" in told
    refused = audits(repo, "look")[0]["refused"]
    assert isinstance(refused, list)
    assert len(refused) == len(asked)
    everything = "".join(one.prompt for one in repo.provider.asked)
    assert TOKEN not in everything
    assert "hidden words\n" not in everything.replace("- hidden words", "")


def test_killed_while_it_looks_nothing_is_paid_again(repo: Bench) -> None:
    far = [wishes("src/far.py#far_700"), *[wishes("src/far.py#far_701")] * 2, wishes()]
    repo.provider.looks.extend(far)  # one answer is lost with the worker
    kills = iter([True])

    def during(one: Asked) -> None:
        if one.role == "look" and "looked up" in one.prompt and next(kills, False):
            workers = {row["pid"] for row in repo.project.events("started")}
            os.kill(max(workers), signal.SIGKILL)

    repo.provider.during = during
    done = repo.ok("lld", "1")
    assert "worker crashed" in done.said
    looks = [one.prompt for one in repo.provider.asked if one.role == "look"]
    # The call in flight is asked again; the one before it, which was answered, is not.
    assert sum("looked up" not in prompt for prompt in looks) == 2  # the first, and the reviewer's
    for text in ("[lines 2801-2802: far_700]", "[lines 2805-2806: far_701]"):
        assert text in repo.provider.of("drafter")[-1]
    numbers = [(one["role"], one["number"]) for one in audits(repo, "call")]
    assert len(numbers) == len(set(numbers))


def test_the_whole_run_killed_while_it_looks_goes_on_there(repo: Bench) -> None:
    repo.provider.looks.extend([wishes("src/far.py#far_700"), wishes("src/far.py#far_701"), wishes()])
    hold = [True]

    def during(one: Asked) -> None:
        if "looked up" in one.prompt and hold:
            hold.clear()
            os.kill(command.pid, signal.SIGKILL)

    repo.provider.during = during
    command = repo.start("lld", "1")
    wait_until(lambda: command.poll() is not None, "the command to die")
    paid, done = repo.paid("lld", "1")
    assert (done.code, paid) == (0, 4), done  # the last look, the draft, the reviewer's look and the review
    assert "[lines 2801-2802: far_700]" in repo.provider.of("reviewer")[-1]


def test_both_models_are_told_about_a_function_that_does_not_exist(repo: Bench) -> None:
    repo.provider.drafts.extend([design(1, "It calls `Pool.lease` and `Pool.leese_now()`.")] * 2)
    repo.provider.verdicts.extend(["REVISE", "APPROVED"])
    done = repo.ok("lld", "1")
    assert "draft 1 names what no tracked file contains: Pool.leese_now" in done.out
    for one in repo.provider.asked[2:]:
        assert "unknown names\n- Pool.leese_now\n" in one.prompt
    assert [one["absent"] for one in audits(repo, "gate")] == [["Pool.leese_now"]] * 2


def test_a_repo_may_lower_the_rounds_and_never_raise_them(repo: Bench) -> None:
    repo.project.write("agentos.toml", "look_rounds = 0\n")
    repo.commit()
    repo.ok("lld", "1")
    assert [one.role for one in repo.provider.asked] == ["drafter", "reviewer"]
    repo.project.write("agentos.toml", "look_rounds = 50\n")
    repo.commit()
    repo.provider.looks.extend([wishes(f"far_{number}") for number in range(20)])
    done = repo.ok("lld", "1", "--fresh")
    assert "a repo may set at most 4" in done.err
    assert len(repo.provider.of("look")) == 5  # four of the drafter, one of the reviewer


def test_the_dry_run_counts_looks(repo: Bench) -> None:
    (row,) = repo.plan("lld", "1").values()
    assert row["calls"] == {"low": 4, "high": 15}
