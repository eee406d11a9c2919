"""A full disk: said clearly, no process left, and the same command finishes once there is room."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from parallel_support import METHODS, ORPHAN_SECONDS, Sandbox, sandbox


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


def _assert_told(box: Sandbox, *words: str) -> None:
    done = box.run(*words, seconds=60)
    box.assert_gone(ORPHAN_SECONDS)
    assert done.code not in {0, 2, 3, 130}, done
    done.assert_no_traceback()
    told = (done.out + done.err).lower()
    assert "no space" in told or "disk is full" in told or "full" in told, done
    assert "--fresh" not in told, "a full disk is no reason to throw paid work away"


@pytest.mark.parametrize("method", METHODS)
def test_full_in_mid_run(tmp_path: Path, method: str) -> None:
    with sandbox(tmp_path, method) as box, _small_disk(box.home, "600k"):
        box.items(4, "latency=0.2")
        box.item(5, "latency=0.5 sh=\"head -c 2000000 /dev/zero | tr '\\0' x | fold -w 100\"")
        _assert_told(box, "--all", "--mock", "-j3")
        _enlarge(box.home)
        done = box.run("--all", "--mock", "-j3")
        assert done.code == 0, done
        assert dict(box.outcomes()) == dict.fromkeys("12345", 1)
        assert box.checkpoints() == []


@pytest.mark.parametrize("size", ["16k", "64k", "120k", "200k"])
def test_full_from_the_start(tmp_path: Path, size: str) -> None:
    """Wherever the room ends: at the records, a run folder, a checkpoint."""
    with sandbox(tmp_path) as box, _small_disk(box.home, size):
        box.items(3)
        _assert_told(box, "--all", "--mock", "-j3")
        _enlarge(box.home)
        done = box.run("--all", "--mock", "-j3")
        assert done.code == 0, done
        assert dict(box.outcomes()) == dict.fromkeys("123", 1)
        assert box.checkpoints() == []
