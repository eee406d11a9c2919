"""A full disk: said clearly, no process left, and the same command finishes once there is room."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from acceptance.conftest import USUAL_METHODS, StartedBy
from harness.project import ORPHAN_SECONDS, Project


@contextmanager
def _small_disk(folder: Path, size: str) -> Iterator[None]:
    folder.mkdir(mode=0o700, exist_ok=True)
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "none", str(folder)],
        capture_output=True,
        check=False,
    )
    if made.returncode != 0:
        pytest.skip("mount is refused here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def _enlarge(folder: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=100m", str(folder)], check=True)


def _assert_told(box: Project, *words: str) -> None:
    done = box.run("lld", *words, timeout=60)
    box.assert_gone(ORPHAN_SECONDS)
    assert done.code not in {0, 2, 3, 130}, done
    done.assert_no_traceback()
    told = (done.out + done.err).lower()
    assert "no space" in told or "disk is full" in told or "full" in told, done
    assert "--fresh" not in told, "a full disk is no reason to throw paid work away"


@pytest.mark.parametrize("method", USUAL_METHODS)
def test_full_in_mid_run(started_by: StartedBy, method: str) -> None:
    with started_by(method) as box, _small_disk(box.home, "600k"):
        box.issues(4, "latency=0.2")
        box.issue(5, mock="latency=0.5 sh=\"head -c 2000000 /dev/zero | tr '\\0' x | fold -w 100\"")
        _assert_told(box, "--all", "--mock", "-j3")
        _enlarge(box.home)
        done = box.run("lld", "--all", "--mock", "-j3")
        assert done.code == 0, done
        assert dict(box.outcomes()) == dict.fromkeys("12345", 1)
        assert box.checkpoints() == []


@pytest.mark.parametrize(
    "size", ["64k", *(pytest.param(size, marks=pytest.mark.slow) for size in ("16k", "120k", "200k"))]
)
def test_full_from_the_start(started_by: StartedBy, size: str) -> None:
    """Wherever the room ends: at the records, a run folder, a checkpoint."""
    with started_by("forkserver") as box, _small_disk(box.home, size):
        box.issues(3)
        _assert_told(box, "--all", "--mock", "-j3")
        _enlarge(box.home)
        done = box.run("lld", "--all", "--mock", "-j3")
        assert done.code == 0, done
        assert dict(box.outcomes()) == dict.fromkeys("123", 1)
        assert box.checkpoints() == []
