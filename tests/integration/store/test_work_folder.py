"""Temporary folders: private, and removed even if their process was killed."""

import os
import tempfile
import time
from pathlib import Path

import pytest

from agentos.store.work_folder import NEW_SECONDS, work_folder


@pytest.fixture(autouse=True)
def _temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def old(folder: Path) -> Path:
    then = time.time() - NEW_SECONDS - 1
    os.utime(folder, (then, then))
    return folder


def test_it_is_private_and_gone_afterwards() -> None:
    with work_folder("agentos-x-") as folder:
        (folder / "file").write_text("text")
        assert folder.stat().st_mode & 0o777 == 0o700
    assert not folder.exists()


def test_what_killed_processes_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    for name in ("agentos-x-left", "agentos-x-new", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("text")
    (tmp_path / "agentos-x-link").symlink_to(tmp_path / "other")
    for name in ("agentos-x-left", "other"):
        old(tmp_path / name)
    with work_folder("agentos-x-") as one:
        old(one)
        with work_folder("agentos-x-"):
            left = {path.name for path in tmp_path.iterdir()}
            assert left >= {one.name, "agentos-x-new", "agentos-x-link", "other"}
            assert "agentos-x-left" not in left
