"""Which repository and which token: forms of a remote, other servers, and nothing secret shown."""

import subprocess
from pathlib import Path

import pytest

from agentos.errors import ConfigError
from agentos.github import repository
from agentos.github.repository import GITHUB_API, Repository, find_repository, find_token
from agentos.secret import Secret

GIT = {
    "PATH": "/usr/bin:/bin:/usr/local/bin",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
}


def worktree(folder: Path, url: str | None) -> Path:
    folder.mkdir(exist_ok=True)
    subprocess.run(["git", "init", "-q", str(folder)], check=True, env=GIT)
    if url is not None:
        subprocess.run(["git", "-C", str(folder), "remote", "add", "origin", url], check=True, env=GIT)
    return folder


def program(folder: Path, name: str, script: str) -> str:
    """Put a program on a path of its own."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    path.chmod(0o755)
    return str(folder)


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/acme/widgets",
        "https://github.com/acme/widgets.git",
        "https://github.com/acme/widgets/",
        "https://www.github.com/acme/widgets.git",
        "https://GitHub.com/acme/widgets.git",
        "https://user:hunter2@github.com/acme/widgets.git",
        "ssh://git@github.com/acme/widgets.git",
        "ssh://git@ssh.github.com:443/acme/widgets.git",
        "git@github.com:acme/widgets.git",
        "github.com:acme/widgets",
        "git://github.com/acme/widgets.git",
    ],
)
def test_every_form_of_a_remote_on_github_is_read(tmp_path: Path, url: str) -> None:
    found = find_repository(worktree(tmp_path, url), GIT)

    assert found == Repository(full_name="acme/widgets", api_url=GITHUB_API)
    assert "hunter2" not in repr(found)
    assert str(found) == "acme/widgets"


@pytest.mark.parametrize(
    "url",
    [
        "https://gitlab.com/acme/widgets.git",
        "git@example.com:acme/widgets.git",
        "https://github.com.example.com/acme/widgets",
        "https://example.com/github.com/acme/widgets",
        "https://github.com/acme",
        "https://github.com/acme/widgets/more",
        "https://github.com/acme/..",
        "https://github.com/acme/.git",
        "https://github.com/ac me/widgets",
        "/srv/git/github.com/acme/widgets.git",
        "../acme/widgets",
        "file:///github.com/acme/widgets",
        "C:/acme/widgets",
        "https://[github.com/acme/widgets",
    ],
)
def test_anything_else_is_not_github(tmp_path: Path, url: str) -> None:
    assert find_repository(worktree(tmp_path, url), GIT) is None


def test_no_remote_no_repository_no_git(tmp_path: Path) -> None:
    assert find_repository(worktree(tmp_path / "a", None), GIT) is None
    assert find_repository(tmp_path / "missing", GIT) is None
    assert find_repository(worktree(tmp_path / "b", "git@github.com:a/b.git"), {"PATH": "/nowhere"}) is None


def test_a_hanging_git_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repository, "TOOL_SECONDS", 0.1)
    path = program(tmp_path / "bin", "git", "exec sleep 60")

    assert find_repository(tmp_path, {"PATH": f"{path}:/usr/bin:/bin"}) is None


def test_a_hook_of_another_repository_does_not_lead_astray(tmp_path: Path) -> None:
    here = worktree(tmp_path / "here", "git@github.com:acme/here.git")
    there = worktree(tmp_path / "there", "git@github.com:acme/there.git")

    found = find_repository(here, GIT | {"GIT_DIR": str(there / ".git")})

    assert found is not None
    assert found.full_name == "acme/here"


@pytest.mark.parametrize(
    "api",
    [
        *("http://127.0.0.1:8000", "http://localhost:8000/api/v3", "http://[::1]:8000"),
        *(
            "https://ghe.example.com/api/v3/",
            "https://api.ghe.example.com",
            "https://GHE.example.com./api/v3",
        ),
    ],
)
def test_the_server_is_on_this_machine_or_that_of_the_remote(tmp_path: Path, api: str) -> None:
    environment = GIT | {"GITHUB_API_URL": api}

    found = find_repository(worktree(tmp_path / "a", "git@ghe.example.com:acme/widgets.git"), environment)

    assert found == Repository(full_name="acme/widgets", api_url=api.rstrip("/"))
    for number, local in enumerate(("/srv/acme/widgets", "file:///acme/widgets", "../acme/widgets")):
        assert find_repository(worktree(tmp_path / str(number), local), environment) is None


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://github.com/acme/widgets", "github.com"),
        ("git@gitlab.com:acme/widgets.git", "gitlab.com"),
        ("https://ghe.example.com.evil.test/acme/widgets", "ghe.example.com.evil.test"),
        ("https://ghe.example.com@evil.test/acme/widgets", "evil.test"),
        ("https://evilghe.example.com/acme/widgets", "evilghe.example.com"),
        ("https://api.ssh.ghe.example.com/acme/widgets", "api.ssh.ghe.example.com"),
    ],
)
def test_a_remote_on_another_server_is_an_error_that_names_both(tmp_path: Path, url: str, host: str) -> None:
    environment = GIT | {"GITHUB_API_URL": "https://ghe.example.com/api/v3"}

    with pytest.raises(ConfigError) as raised:
        find_repository(worktree(tmp_path, url), environment)

    assert f"origin is on {host}, but GITHUB_API_URL is on ghe.example.com:" in str(raised.value)


@pytest.mark.parametrize("api", ["", "https://api.github.com", "https://api.github.com/"])
def test_the_usual_server_named_is_the_usual_server(tmp_path: Path, api: str) -> None:
    environment = GIT | {"GITHUB_API_URL": api}

    assert find_repository(worktree(tmp_path / "a", "https://example.com/a/b"), environment) is None
    found = find_repository(worktree(tmp_path / "b", "https://github.com/a/b"), environment)
    assert found == Repository(full_name="a/b", api_url=GITHUB_API)


@pytest.mark.parametrize(
    "api",
    [
        "http://ghe.example.com/api/v3",
        "http://127.0.0.1.example.com",
        "ftp://ghe.example.com",
        "ghe.example.com",
        "https://",
        "https://user:hunter2@ghe.example.com",
        "https://ghe.example.com/?token=hunter2",
        "https://[::1",
        "https://x:port/",
    ],
)
def test_a_server_that_must_not_get_a_token_is_a_configuration_error(tmp_path: Path, api: str) -> None:
    with pytest.raises(ConfigError, match="GITHUB_API_URL") as raised:
        find_repository(tmp_path, {"GITHUB_API_URL": api})
    assert "hunter2" not in str(raised.value)


def test_two_names_that_differ_in_case_are_one_repository() -> None:
    assert Repository(full_name="Acme/Widgets").address == Repository(full_name="acme/widgets").address
    assert Repository(full_name="a/b").address != Repository(full_name="a/b", api_url="https://x/v3").address


# The token.


def revealed(token: Secret | None) -> str:
    assert token is not None
    return token.reveal()


def test_the_token_of_the_environment_comes_first(tmp_path: Path) -> None:
    path = program(tmp_path / "bin", "gh", "echo from-gh")

    both = {"PATH": path, "GH_TOKEN": " one\n", "GITHUB_TOKEN": "two"}
    assert revealed(find_token(both, None)) == "one"
    assert revealed(find_token({"PATH": path, "GH_TOKEN": "", "GITHUB_TOKEN": "two"}, None)) == "two"
    assert revealed(find_token({"PATH": path}, None)) == "from-gh"


def test_a_token_does_not_show_itself() -> None:
    token = find_token({"GH_TOKEN": "ghp_secret"}, None)

    assert revealed(token) == "ghp_secret"
    assert "secret" not in repr(token)
    assert "secret" not in repr({"token": token})


def test_a_token_that_cannot_be_one_is_named_but_not_shown() -> None:
    with pytest.raises(ConfigError, match="GITHUB_TOKEN") as raised:
        find_token({"GITHUB_TOKEN": "two secrets"}, None)
    assert "secrets" not in str(raised.value)


@pytest.mark.parametrize("script", ["exit 1", "echo", "echo two words", "exec sleep 60"])
def test_a_gh_that_has_no_token_is_no_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    monkeypatch.setattr(repository, "TOOL_SECONDS", 0.2)
    path = program(tmp_path / "bin", "gh", script)

    assert find_token({"PATH": f"{path}:/usr/bin:/bin"}, None) is None
    assert find_token({"PATH": "/nowhere"}, None) is None


def test_gh_is_asked_for_the_token_of_that_server_only(tmp_path: Path) -> None:
    path = program(tmp_path / "bin", "gh", 'echo "$HOME$*" | tr " " "_"')

    assert revealed(find_token({"PATH": f"{path}:/usr/bin:/bin", "HOME": "me"}, None)) == "meauth_token"
    other = {
        "PATH": f"{path}:/usr/bin:/bin",
        "HOME": "me",
        "GITHUB_API_URL": "https://ghe.example.com/api/v3",
    }
    assert revealed(find_token(other, None)) == "meauth_token_--hostname_ghe.example.com"
