"""The name of a project in a shared database: the same in all clones, and no other repository's."""

import os
import subprocess
from pathlib import Path

import pytest

from agentos.app.project import shared_name
from harness.provider import GIT

ENVIRONMENT = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent"}


def git(folder: Path, *words: str) -> None:
    subprocess.run([*GIT, *words], cwd=folder, env=ENVIRONMENT, check=True, timeout=60, capture_output=True)


def repository(folder: Path, origin: str = "") -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    if origin:
        git(folder, "config", "remote.origin.url", origin)
    return folder


@pytest.mark.parametrize(
    ("origin", "name"),
    [
        ("https://github.com/acme/app.git", "github.com/acme/app"),
        ("https://github.com/Acme/App/", "github.com/acme/app"),
        ("git@github.com:acme/app.git", "github.com/acme/app"),
        ("ssh://git@github.com:22/acme/app", "github.com/acme/app"),
        ("https://user:p@ss:word@github.com/acme/app.git", "github.com/acme/app"),
        ("https://gitlab.example/acme/app.git", "gitlab.example/acme/app"),
        ("https://gitlab.example/group/acme/app.git", "gitlab.example/group/acme/app"),
        ("host:app", "host/app"),
    ],
)
def test_an_origin_is_named_by_host_and_path_without_its_user(tmp_path: Path, origin: str, name: str) -> None:
    assert shared_name(repository(tmp_path / "app", origin), ENVIRONMENT) == name


def test_without_an_origin_the_first_commit_tells_repositories_apart(tmp_path: Path) -> None:
    one = repository(tmp_path / "one" / "app")
    other = repository(tmp_path / "other" / "app", str(one))  # a path is the same on no other machine
    for folder in (one, other):
        git(folder, "commit", "-q", "--allow-empty", "-m", str(folder))
    clone = tmp_path / "elsewhere" / "another-name"
    git(tmp_path, "clone", "-q", str(one), str(clone))
    names = [shared_name(folder, ENVIRONMENT) for folder in (one, clone, other)]
    assert names[0] == names[1] != names[2]


@pytest.mark.parametrize("origin", ["../app", "./app", "~/app", "file:///srv/app", "/srv/app"])
def test_a_path_is_not_an_origin_that_machines_share(tmp_path: Path, origin: str) -> None:
    one, other = (repository(tmp_path / name / "app", origin) for name in ("one", "other"))
    assert shared_name(one, ENVIRONMENT) != shared_name(other, ENVIRONMENT)


def test_without_any_commit_it_is_the_folder_on_this_machine(tmp_path: Path) -> None:
    one, other = tmp_path / "one" / "app", tmp_path / "other" / "app"
    for folder in (one, other):
        folder.mkdir(parents=True)
    assert shared_name(one, ENVIRONMENT) == shared_name(one, ENVIRONMENT) != shared_name(other, ENVIRONMENT)
