"""`agentos config price`: a person's file keeps everything but the numbers."""

import tomllib
from pathlib import Path

import pytest

from harness.project import Project

FILE = '# mine\ndrafter = "openai:home-made"  # good\n'


@pytest.fixture
def config(project: Project) -> Path:
    path = project.outside / "user.toml"
    path.write_text(FILE)
    path.chmod(0o640)
    return path


def test_a_price_is_set_and_then_changed(project: Project, config: Path) -> None:
    command = ("--config", config, "config", "price", "openai:home-made")
    first = project.run(*command, "--input", "1.25", "--output", "10", "--cached", "0.1")
    assert first.code == 0, first
    assert f"price set in {config}" in first.out
    assert config.read_text().startswith(FILE)
    assert config.stat().st_mode & 0o777 == 0o640
    assert project.run(*command, "--input", "2", "--output", "11").code == 0
    expected = {"input": 2.0, "output": 11.0, "cached_input": 0.1}
    assert tomllib.loads(config.read_text())["prices"] == {"openai:home-made": expected}
    checked = project.run("--config", config, "doctor")
    assert "openai:home-made, price known" in checked.text


def test_a_price_for_a_provider_that_does_not_exist_is_not_written(project: Project, config: Path) -> None:
    config.write_text(f'{FILE}[providers.mine]\nkind = "openai"\nbase_url = "http://127.0.0.1:1/v1"\n')
    before = config.read_text()
    wrong = project.run("--config", config, "config", "price", "opnai:a", "--input", "1", "--output", "2")
    assert wrong.code == 2, wrong
    assert "there is no provider 'opnai'. Did you mean 'openai'?" in wrong.err
    assert config.read_text() == before
    own = project.run("--config", config, "config", "price", "mine:a", "--input", "1", "--output", "2")
    assert own.code == 0, own
    assert project.run("--config", config, "config").code == 0


def test_a_file_that_is_a_link_stays_one(project: Project, config: Path) -> None:
    link = project.outside / "link.toml"
    link.symlink_to(config)
    done = project.run("--config", link, "config", "price", "openai:a", "--input", "1", "--output", "2")
    assert done.code == 0, done
    assert link.is_symlink()
    assert "openai:a" in config.read_text()


def test_a_file_that_is_missing_is_created_for_its_owner_alone(project: Project) -> None:
    path = project.outside / "new" / "user.toml"
    done = project.run("--config", path, "config", "price", "openai:a", "--input", "1", "--output", "2")
    assert done.code == 0, done
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("nonsense", "--input", "1", "--output", "2"), "is not a model"),
        (("openai:a", "--input", "-1", "--output", "2"), "--input"),
        (("openai:a", "--input", "nan", "--output", "2"), "must be a number"),
        (("openai:a", "--input", "1"), "--output"),
    ],
)
def test_a_wrong_price_changes_nothing(
    project: Project, config: Path, args: tuple[str, ...], said: str
) -> None:
    done = project.run("--config", config, "config", "price", *args)
    assert done.code == 2
    assert said in done.text
    assert config.read_text() == FILE


def test_a_file_that_cannot_be_edited_safely_is_left_alone(project: Project, config: Path) -> None:
    config.write_text('prices = { "openai:a" = { input = 1, output = 2 } }\n')
    before = config.read_bytes(), config.stat().st_mtime_ns
    done = project.run("--config", config, "config", "price", "openai:a", "--input", "3", "--output", "4")
    assert done.code == 2
    assert '[prices."openai:a"]' in done.text
    assert (config.read_bytes(), config.stat().st_mtime_ns) == before
