"""`agentos report`: which run, where the page goes, what is printed."""

import fcntl
import json
import shutil
from pathlib import Path

import pytest

from harness.project import Project


@pytest.fixture
def ran(project: Project) -> Project:
    """A project with two finished runs."""
    project.make_home()
    for number, status in ((1, "failed"), (2, "approved")):
        run = project.home / "logs" / "parallel" / f"2026-11-1{number}T10-00-00.000Z"
        run.mkdir(parents=True)
        item = {"id": "42", "label": "LLD-42", "status": status, "cost_usd": 0.0}
        summary = {
            "run_id": run.name,
            "workflow": "lld",
            "exit_code": 0,
            "wall_seconds": 2.5,
            "items": [item],
        }
        (run / "summary.json").write_text(json.dumps(summary), "utf-8")
    return project


def page(project: Project, number: int) -> Path:
    return project.home / "logs" / "parallel" / f"2026-11-1{number}T10-00-00.000Z" / "report.html"


def test_the_latest_run_is_written_and_its_place_printed(ran: Project) -> None:
    result = ran.run("report")
    assert (result.code, result.err) == (0, "")
    assert result.out.strip() == str(page(ran, 2).relative_to(ran.root))
    assert page(ran, 2).read_text("utf-8").startswith("<!doctype html>")
    assert not page(ran, 1).exists()


def test_a_run_can_be_named_from_a_folder_below(ran: Project) -> None:
    result = ran.run("report", "2026-11-11T10-00-00.000Z", cwd=ran.root / "issues")
    assert result.out.strip() == str(page(ran, 1))
    assert page(ran, 1).exists()


def test_json_prints_the_data_and_writes_nothing(ran: Project) -> None:
    before = ran.snapshot()
    data = ran.run("report", "--json").json
    assert data["run"]["run_id"] == "2026-11-12T10-00-00.000Z"
    assert [one["run_id"] for one in data["trend"]] == [
        "2026-11-11T10-00-00.000Z",
        "2026-11-12T10-00-00.000Z",
    ]
    assert ran.snapshot() == before


def test_a_run_at_work_is_written_as_it_stands(ran: Project) -> None:
    run = ran.home / "logs" / "parallel" / "2026-11-13T10-00-00.000Z"
    run.mkdir()
    with (run / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = ran.run("report")
    assert result.code == 0
    assert result.out.strip().endswith("2026-11-13T10-00-00.000Z/report.html")
    assert "is still running" in result.err


def test_an_unknown_run_is_refused_with_those_there_are(ran: Project) -> None:
    result = ran.run("report", "yesterday")
    assert result.code == 2
    assert "No run 'yesterday'" in result.said
    assert "2026-11-12T10-00-00.000Z, 2026-11-11T10-00-00.000Z" in result.said


@pytest.mark.parametrize("name", ["../..", "..", "/etc", ""])
def test_a_path_is_no_run(ran: Project, name: str) -> None:
    result = ran.run("report", name)
    assert result.code == 2


def test_without_any_run_it_says_so(project: Project) -> None:
    result = project.run("report")
    assert result.code == 2
    assert "No runs here yet" in result.said


def test_a_link_among_the_runs_is_no_run(ran: Project, tmp_path: Path) -> None:
    (ran.home / "logs" / "parallel" / "2099").symlink_to(tmp_path)
    assert "2026-11-12" in ran.run("report").out
    assert not (tmp_path / "report.html").exists()


def test_a_machine_without_a_browser_is_no_error(ran: Project) -> None:
    result = ran.run("report", "--open", env={"BROWSER": "no-such-browser-anywhere", "PATH": "/nonexistent"})
    assert result.code == 0
    assert str(page(ran, 2)) in result.err


def test_the_browser_is_given_the_page(ran: Project, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    browser = tmp_path / "browser"
    browser.write_text(f'#!{shutil.which("sh")}\necho "$1" > {seen}\n', "utf-8")
    browser.chmod(0o755)
    result = ran.run("report", "--open", env={"BROWSER": f"{browser} %s"})
    assert (result.code, result.err) == (0, "")
    assert seen.read_text("utf-8").strip() == page(ran, 2).as_uri()
