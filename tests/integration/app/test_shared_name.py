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


def names_of(tmp_path: Path, origins: list[str]) -> list[str]:
    return [
        shared_name(repository(tmp_path / str(number) / "app", origin), ENVIRONMENT)
        for number, origin in enumerate(origins)
    ]


def test_all_ways_to_reach_a_repository_give_the_same_name(tmp_path: Path) -> None:
    origins = [
        "https://github.com/acme/app.git",
        "https://github.com/Acme/App/",
        "git@github.com:acme/app.git",
        "ssh://git@github.com:22/acme/app",
        "https://user:p@ss:word@github.com/acme/app.git",
        "https://github.com/acme/app?private_token=glpat-SECRET",
    ]
    assert len(set(names := names_of(tmp_path, origins))) == 1, names
    assert names[0].startswith("app-")


def test_other_repositories_have_other_names(tmp_path: Path) -> None:
    origins = [
        "https://github.com/acme/app.git",
        "https://gitlab.example/acme/app.git",
        "https://gitlab.example/group/acme/app.git",
        "host:app",
        "other:app",
    ]
    assert len(set(names_of(tmp_path, origins))) == len(origins)


@pytest.mark.parametrize(
    "origin",
    [
        "https://oauth2:glpat-SECRET@git.example.org/",
        "ssh://user:glpat-SECRET@git.example.org/",
        "hg::https://user:glpat-SECRET@git.example.org/repo",
        "https://git.example.org/?private_token=glpat-SECRET",
        "https://user:glpat/SECRET@git.example.org/acme/app.git",
        "https://user:glpat-SECRET@git.example.org/acme/app.git",
        "glpat-SECRET@git.example.org:acme/app.git",
        "https://git.example.org:glpat-SECRET/acme/app.git",
    ],
)
def test_no_part_of_a_login_is_in_a_name(tmp_path: Path, origin: str) -> None:
    name = shared_name(repository(tmp_path / "app", origin), ENVIRONMENT).lower()
    assert not [word for word in ("secret", "glpat", "oauth2", "user") if word in name], name


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
