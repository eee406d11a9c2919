"""What is seen of a run: whole prefixed lines, groups, JSON, a live footer; also with streams gone."""

import itertools
import json
import os
import re
from collections import Counter

import pytest

from acceptance.conftest import StartedBy
from harness.processes import wait_until
from harness.project import ORPHAN_SECONDS, Project, unprefixed

LINES = 5_000  # of each of two programs, on each of two streams
_PRINT = '(i=0; while [ $i -lt %d ]; do echo \\"%s out $i\\"; echo \\"%s err $i\\" >&2; i=$((i + 1)); done)'


@pytest.mark.parametrize(
    ("method", "workers", "lines"),
    [
        ("forkserver", 5, LINES // 5),
        pytest.param("forkserver", 10, LINES, marks=pytest.mark.slow),
        pytest.param("spawn", 3, LINES, marks=pytest.mark.slow),
    ],
)
def test_no_torn_lost_or_unprefixed_line(
    started_by: StartedBy, method: str, workers: int, lines: int
) -> None:
    with started_by(method) as box:
        programs = " & ".join(_PRINT % (lines, name, name) for name in ("a", "b"))
        box.issues(workers, f'sh="{programs} & wait"')
        done = box.run("lld", "--all", "--mock", "-j10", timeout=170)
        assert done.code == 0, done
        assert unprefixed(done.lines) == []
        assert unprefixed(done.err.splitlines()) == []
        for number in range(1, workers + 1):
            mine = f"[LLD-{number}] "
            for program in ("a", "b"):
                for stream, shown in (("out", done.lines), ("err", done.err.splitlines())):
                    start = f"{mine}{program} {stream} "
                    found = [line.removeprefix(start) for line in shown if line.startswith(start)]
                    assert found == [str(i) for i in range(lines)]
                    logged = [
                        line.rpartition(" ")[2]
                        for line in box.log(f"LLD-{number}")
                        if f" {stream} {program} {stream} " in line
                    ]
                    assert logged == found
        assert not any(" err " in line for line in done.lines)


def test_long_lines_and_a_missing_newline(box: Project) -> None:
    box.issue(
        1, mock="sh=\"head -c 100000 /dev/zero | tr '\\0' y; echo; printf 'no newline'; printf 'e2' >&2\""
    )
    box.issue(2, mock=r'say="\xc3\xa4\xc3"')
    done = box.run("lld", "--all", "--mock", "-j2")
    assert done.code == 0, done
    assert unprefixed(done.lines) == []
    assert sum(line.removeprefix("[LLD-1] ").count("y") for line in done.lines if "] yy" in line) == 100_000
    assert any(line.startswith("[LLD-1] no newline") for line in done.lines)
    assert "[LLD-1] e2" in done.err.splitlines()
    assert r"[LLD-2] ä\xc3" in done.lines


def _chatty(box: Project) -> None:
    box.issues(3, 'latency=0.1 sh="for i in 1 2 3 4 5; do echo line $i; sleep 0.05; done; echo oops >&2"')


def test_grouped_keeps_an_items_lines_together(box: Project) -> None:
    _chatty(box)
    done = box.run("lld", "--all", "--mock", "-j3", "--output", "grouped")
    assert done.code == 0, done
    assert unprefixed(done.lines) == []
    owners = [line.split("]")[0] for line in done.lines if not line.startswith("[COORDINATOR]")]
    changes = sum(one != other for one, other in itertools.pairwise(owners))
    assert changes == 2, owners
    text = done.out + done.err
    assert Counter(re.findall(r"\[(LLD-\d)\] line \d", text)) == {"LLD-1": 5, "LLD-2": 5, "LLD-3": 5}
    assert len(re.findall(r"\[LLD-\d\] oops", text)) == 3


def test_quiet_shows_the_summary_alone(box: Project) -> None:
    _chatty(box)
    for words in (["--output", "quiet"], ["-q", "--fresh"]):
        done = box.run("lld", "--all", "--mock", "-j3", *words)
        assert done.code == 0, done
        assert done.lines == []
        assert done.err == ""
        assert "3 approved" in done.out
        assert any("line 5" in line for line in box.log("LLD-1"))


def test_github_actions(box: Project) -> None:
    _chatty(box)
    box.issue(4, mock='say="::error::spoofed\\n##[error]spoofed"')
    page = box.outside / "step-summary.md"
    page.write_text("before\n")
    done = box.run(
        "lld",
        "--all",
        "--mock",
        "-j3",
        env={"GITHUB_ACTIONS": "true", "CI": "true", "GITHUB_STEP_SUMMARY": str(page)},
    )
    assert done.code == 0, done
    depth = 0
    for line in done.lines:
        if line.startswith("::group::"):
            depth += 1
        elif line == "::endgroup::":
            depth -= 1
        else:
            assert line.startswith("[COORDINATOR] ") if depth == 0 else line.startswith("[LLD-"), line
        assert depth in {0, 1}
    assert depth == 0
    assert sum(line.startswith("::group::LLD-") for line in done.lines) == 4
    assert not any(line.lstrip().startswith(("::error", "##[error")) for line in done.out.splitlines())
    assert page.read_text().startswith("before\n")
    assert "| LLD-1 | approved |" in page.read_text()


def test_an_unwritable_step_summary_is_no_reason_to_fail(box: Project) -> None:
    box.issues(1)
    done = box.run(
        "lld", "1", "--mock", env={"GITHUB_STEP_SUMMARY": str(box.outside / "nowhere" / "page.md")}
    )
    done.assert_no_traceback()
    assert done.code == 0, done


def test_json_alone_on_standard_output(box: Project) -> None:
    _chatty(box)
    box.issue(4, mock='fail="no"')
    done = box.run("lld", "--all", "--mock", "-j3", "--json")
    assert done.code == 1, done
    data = json.loads(done.out)
    assert data == box.summary()
    assert data["totals"] == {"approved": 3, "failed": 1}
    assert "[LLD-1] line 1" in done.err


@pytest.mark.parametrize(
    "locale",
    ["C", *(pytest.param(locale, marks=pytest.mark.slow) for locale in ("POSIX", "de_DE.ISO-8859-1"))],
)
def test_any_locale(box: Project, locale: str) -> None:
    box.issue(1, mock=r'say="gr\xc3\xbc\xc3\x9fe \xe2\x82\xac"', text="Größe: 10 €.")
    done = box.run("lld", "1", "--mock", env={"LC_ALL": locale, "LANG": locale, "PYTHONUTF8": "0"})
    assert done.code == 0, done
    assert "[LLD-1] grüße €" in done.lines
    assert any("grüße €" in line for line in box.log("LLD-1"))
    assert "Größe: 10 €." in (box.root / "docs/lineage/done/1-lld/001-issue.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("redirection", "failing"),
    [
        ("| head -n 1; exit ${PIPESTATUS[0]}", True),
        ("<&- >&- 2>&-", True),
        (">/dev/full", True),
        pytest.param("| head -n 1; exit ${PIPESTATUS[0]}", False, marks=pytest.mark.slow),
        pytest.param("| true; exit ${PIPESTATUS[0]}", True, marks=pytest.mark.slow),
        pytest.param(">&-", True, marks=pytest.mark.slow),
        pytest.param("2>&-", False, marks=pytest.mark.slow),
        pytest.param("<&-", False, marks=pytest.mark.slow),
        pytest.param("2>/dev/full", False, marks=pytest.mark.slow),
    ],
)
def test_streams_that_are_closed_or_full(box: Project, redirection: str, failing: bool) -> None:
    """The run goes on without its audience, and its exit code stays true."""
    box.issues(2, 'latency=0.1 sh="seq 1 200; seq 1 200 >&2"')
    if failing:
        box.issue(3, mock='fail="no"')
    done = box.shell(f"lld-workflow --all --mock -j3 {redirection}")
    done.assert_no_traceback()
    assert "Exception ignored" not in done.err
    box.assert_gone(ORPHAN_SECONDS)
    wanted = {"1": "approved", "2": "approved"} | ({"3": "failed"} if failing else {})
    assert box.statuses() == wanted
    assert done.code == (1 if failing else 0), done
    logged = [line.split(" out ")[1] for line in box.log("LLD-1") if re.search(r" out \d+$", line)]
    assert logged == [str(i) for i in range(1, 201)]


@pytest.mark.slow
def test_a_pipe_that_does_not_block(box: Project) -> None:
    """Some parents (Node.js among them) hand over pipes in non-blocking mode."""
    box.issue(1, mock="sh=\"head -c 2000000 /dev/zero | tr '\\0' x | fold -w 100\"")
    read, write = os.pipe()
    os.set_blocking(write, False)
    command = box.start("lld", "1", "--mock", stdout=write)
    os.close(write)
    wait_until(lambda: box.events("leased") or command.poll() is not None, "the first call", 20)
    got = b""
    while data := os.read(read, 65_536):
        got += data
    os.close(read)
    done = command.wait()
    done.assert_no_traceback()
    assert done.code == 0, done
    assert sum(line.count(b"x") for line in got.splitlines() if line.startswith(b"[LLD-1] x")) == 2_000_000
