"""Configuration: which layer wins, what a repo may say, and how a wrong file is told of."""

import contextlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from agentos.config import MAX_FILE_BYTES, Config, Origin, load_config
from agentos.coordinator.keys import KeyRing, key_ring, usual_keys
from agentos.errors import ConfigError, UsageError
from agentos.model_access import Network, ProviderSpec

Load = Callable[..., Config]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load the configuration of a worktree and a user's file given as text."""
    worktree = tmp_path / "repo"
    worktree.mkdir()

    def load_layers(
        *,
        repo: str | bytes | None = None,
        pyproject: str | bytes | None = None,
        user: str | bytes | None = None,
        environment: Mapping[str, str] | None = None,
        **flags: Any,
    ) -> Config:
        files = {"repo/agentos.toml": repo, "repo/pyproject.toml": pyproject, "user.toml": user}
        for name, content in files.items():
            if content is not None:
                data = content if isinstance(content, bytes) else content.encode()
                (tmp_path / name).write_bytes(data)
        return load_config(
            flags=flags,
            worktree=worktree,
            user_file=None if user is None else tmp_path / "user.toml",
            environment=environment or {},
        )

    return load_layers


LAYERS: dict[Origin, dict[str, Any]] = {
    Origin.FLAG: {"parallel": "6"},
    Origin.ENVIRONMENT: {"environment": {"AGENTOS_PARALLEL": "5"}},
    Origin.USER: {"user": "parallel = 4"},
    Origin.REPO: {"repo": "parallel = 3"},
}
VALUES = {Origin.FLAG: 6, Origin.ENVIRONMENT: 5, Origin.USER: 4, Origin.REPO: 3, Origin.DEFAULT: 1}


@pytest.mark.parametrize("strongest", list(Origin))
def test_the_strongest_layer_wins_and_is_named_as_the_origin(load: Load, strongest: Origin) -> None:
    weaker = list(Origin)[list(Origin).index(strongest) :]
    given: dict[str, Any] = {}
    for origin in weaker:
        given |= LAYERS.get(origin, {})
    config = load(**given)
    assert config.settings.parallel == VALUES[strongest]
    assert config.sources["parallel"].origin is strongest


def test_a_source_names_the_flag_the_variable_or_the_file(load: Load, tmp_path: Path) -> None:
    config = load(
        repo='issues_folder = "todo"', user="timeout = '2m'", environment={"AGENTOS_LIMIT": "7"}, budget="5"
    )
    named = {name: config.sources[name].name for name in ("issues_folder", "timeout", "limit", "budget")}
    assert named["budget"] == "--budget"
    assert named["limit"] == "AGENTOS_LIMIT"
    assert str(tmp_path / "user.toml") in named["timeout"]
    assert str(tmp_path / "repo" / "agentos.toml") in named["issues_folder"]
    assert (config.settings.timeout, config.settings.limit, config.settings.budget) == (120.0, 7, 5.0)


def test_layers_meet_setting_by_setting(load: Load) -> None:
    config = load(repo="parallel = 2\nmax_iterations = 7", user="parallel = 4")
    assert (config.settings.parallel, config.settings.max_iterations) == (4, 7)


def test_a_flag_that_was_not_given_sets_nothing(load: Load) -> None:
    config = load(repo="parallel = 2", parallel=None)
    assert config.sources["parallel"].origin is Origin.REPO


def test_a_flag_that_says_no_is_a_value(load: Load) -> None:
    config = load(user="file = true", file=False)
    assert config.settings.file is False
    assert config.sources["file"].origin is Origin.FLAG


def test_pyproject_is_read_and_agentos_toml_is_stronger(load: Load) -> None:
    pyproject = "[project]\nname = 'x'\n[tool.agentos]\nparallel = 2\nmax_iterations = 9\n"
    config = load(pyproject=pyproject, repo="parallel = 3")
    assert (config.settings.parallel, config.settings.max_iterations) == (3, 9)


def test_a_pyproject_without_our_table_says_nothing(load: Load) -> None:
    assert load(pyproject="[tool.ruff]\nline-length = 100\n").warnings == ()


def test_without_a_worktree_and_a_home_there_are_the_defaults() -> None:
    config = load_config(flags={}, worktree=None, environment={})
    assert {source.origin for source in config.sources.values()} == {Origin.DEFAULT}


# Where the user's file is.


@pytest.mark.parametrize("where", ["home", "xdg", "variable"])
def test_the_users_file_is_found_in_its_usual_places(tmp_path: Path, where: str) -> None:
    places = {
        "home": (".config/agentos/config.toml", {"HOME": str(tmp_path)}),
        "xdg": ("xdg/agentos/config.toml", {"HOME": "/nowhere", "XDG_CONFIG_HOME": str(tmp_path / "xdg")}),
        "variable": ("my.toml", {"AGENTOS_CONFIG": str(tmp_path / "my.toml")}),
    }
    name, environment = places[where]
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("max_retries = 2")
    config = load_config(flags={}, worktree=None, environment=environment)
    assert config.settings.max_retries == 2


def test_a_named_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    missing = tmp_path / "missing.toml"
    with pytest.raises(ConfigError, match=r"missing\.toml does not exist"):
        load_config(flags={}, worktree=None, user_file=missing, environment={})
    with pytest.raises(ConfigError, match=r"missing\.toml does not exist"):
        load_config(flags={}, worktree=None, environment={"AGENTOS_CONFIG": str(missing)})


def test_a_usual_file_that_is_not_there_is_no_error(tmp_path: Path) -> None:
    load_config(flags={}, worktree=None, environment={"HOME": str(tmp_path)})


# What a repo may say.

FORBIDDEN = {
    "providers": '[providers.openai]\nbase_url = "http://evil.example/v1"',
    "roles": "[roles.drafter]\nmax_output_tokens = 1000000",
    "network": '[network]\nproxy = "http://evil.example:3128"',
    "keys": '[[keys]]\nid = "k"\nprovider = "openai"\nenv = "SECRET"',
    "max_parallel": "max_parallel = 99",
    "timeout": "timeout = 1",
    "budget": "budget = 1000",
    "engine": 'engine = "postgres"',
    "yes": "yes = true",
    "mock": "mock = true",
    "file": "file = false",
    "max_retries": "max_retries = 0",
    "fresh": "fresh = true",
}


@pytest.mark.parametrize("name", FORBIDDEN)
@pytest.mark.parametrize("layer", ["repo", "pyproject"])
def test_what_a_repo_may_not_set_is_ignored_with_a_warning(load: Load, name: str, layer: str) -> None:
    line = FORBIDDEN[name]
    if layer == "pyproject":
        line = line.replace("[[", "[[tool.agentos.")
        line = re.sub(r"^\[(?=\w)", "[tool.agentos.", line)
        line = line if "[" in line else f"[tool.agentos]\n{line}"
    config = load(**{layer: line})
    assert config.settings == load_config(flags={}, worktree=None, environment={}).settings
    assert (config.keys, config.providers, config.roles) == ((), {}, {})
    assert config.network == Network()
    assert len(config.warnings) == 1
    assert repr(name) in config.warnings[0]
    assert "toml" in config.warnings[0]


def test_a_forbidden_value_is_not_even_read(load: Load) -> None:
    config = load(repo="timeout = 'nonsense'\nparallel = 2")
    assert config.settings.parallel == 2


def test_the_models_templates_and_folders_of_a_repo_are_taken(load: Load) -> None:
    config = load(repo='drafter = "openai:gpt-5"\nlld_template = "docs/t.md"\nissues_folder = "todo"')
    assert config.warnings == ()
    taken = config.settings
    assert (taken.drafter, taken.lld_template, taken.issues_folder) == ("openai:gpt-5", "docs/t.md", "todo")


@pytest.mark.parametrize(
    ("name", "outside"),
    [
        ("issues_folder", "/etc"),
        ("rules", "../rules.md"),
        ("lld_folder", "../other"),
        ("lld_template", "docs/../.."),
    ],
)
def test_a_path_of_a_repo_that_leads_outside_is_ignored_with_a_warning(
    load: Load, name: str, outside: str
) -> None:
    config = load(repo=f'{name} = "{outside}"')
    assert config.sources[name].origin is Origin.DEFAULT
    assert any(f'Ignoring {name} = "{outside}" in ' in warning for warning in config.warnings)


@pytest.mark.parametrize(("user", "taken"), [(None, 10), ("max_parallel = 50", 20), ("max_parallel = 2", 2)])
def test_the_parallelism_of_a_repo_is_capped_by_the_users_cap(
    load: Load, user: str | None, taken: int
) -> None:
    config = load(repo="parallel = 20", user=user)
    assert config.settings.parallel == taken
    assert len(config.warnings) == (taken != 20)


# What is wrong is told with its place.


@pytest.mark.parametrize("layer", ["user", "repo", "pyproject"])
def test_an_unknown_key_is_an_error_that_names_key_and_file(load: Load, layer: str) -> None:
    line = "[tool.agentos]\nparalel = 3" if layer == "pyproject" else "paralel = 3"
    name = {"user": "user.toml", "repo": "agentos.toml", "pyproject": "pyproject.toml"}[layer]
    with pytest.raises(ConfigError, match=rf"'paralel'.*{name}\. Did you mean 'parallel'\?$"):
        load(**{layer: line})
    with pytest.raises(ConfigError, match=rf"'colour'.*{name}\. Remove it\.$"):
        load(**{layer: line.replace("paralel", "colour")})


def test_a_misspelt_table_suggests_the_table(load: Load) -> None:
    with pytest.raises(ConfigError, match=r"Did you mean 'providers'\?$"):
        load(user="[provider.openai]\n")


@pytest.mark.parametrize(
    ("layers", "told"),
    [
        ({"parallel": "0"}, "^--parallel must be a whole number from 1 to 1,000,000, not '0'\\.$"),
        ({"parallel": "many"}, "--parallel must be .*, not 'many'"),
        (
            {"environment": {"AGENTOS_TIMEOUT": "soon"}},
            "AGENTOS_TIMEOUT must be a duration such as 90, 90s, 5m or 1h30m, not 'soon'",
        ),
        ({"user": "parallel = 2.5"}, "parallel in .*user.toml must be .*, not 2.5"),
        ({"repo": "max_iterations = 0"}, "max_iterations in .*agentos.toml must be .*, not 0"),
        (
            {"user": 'drafter = "gpt-5"'},
            "drafter in .*user.toml must be provider:model, such as openai:gpt-5, not 'gpt-5'",
        ),
        ({"source": "foo"}, "^--source must be auto, github or local, not 'foo'\\.$"),
        ({"environment": {"AGENTOS_MOCK": "maybe"}}, "^AGENTOS_MOCK must be true or false, not 'maybe'\\.$"),
        ({"budget": "x"}, "^--budget must be an amount in USD above 0, such as 5 or 0.50, not 'x'\\.$"),
        ({"context": ("a", "/etc/passwd")}, "^--context /etc/passwd: must be inside the repo\\.$"),
        ({"user": "context = ['/etc']"}, "context in .*user.toml: '/etc' must be inside the repo\\.$"),
        ({"user": "limit = []"}, "limit in .*user.toml"),
    ],
)
def test_a_wrong_value_is_an_error_that_says_where_it_stands(
    load: Load, layers: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        load(**layers)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"parallel = ", "not valid TOML"),
        (b"parallel = 1\nparallel = 2", "not valid TOML"),
        (b"# \xff\nparallel = 2", "not UTF-8"),
        ("parallel = 2".encode("utf-16"), "not UTF-8"),
        (b"x = " + b"[" * 100_000, "nested too deeply|not valid TOML"),
        (b"#" * (MAX_FILE_BYTES + 1), "larger than"),
        (b"parallel = " + b"1" * 5000, "TOML|parallel"),
    ],
    ids=["cut off", "twice", "latin", "utf-16", "nested", "too large", "endless number"],
)
@pytest.mark.parametrize("layer", ["user", "repo", "pyproject"])
def test_a_file_that_cannot_be_read_is_an_error_that_names_it(
    load: Load, layer: str, content: bytes, told: str
) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        load(**{layer: content})
    assert ".toml" in str(caught.value)


@pytest.mark.parametrize(
    "content", ['tool = "x"', 'tool = ["x"]', '[tool]\nagentos = "x"', "[tool]\nagentos = [1]"]
)
def test_a_pyproject_of_another_shape_is_an_error_or_ignored_but_no_crash(load: Load, content: str) -> None:
    with contextlib.suppress(ConfigError):
        config = load(pyproject=content)
        assert {source.origin for source in config.sources.values()} == {Origin.DEFAULT}


def test_a_byte_order_mark_is_no_part_of_a_file(load: Load) -> None:
    assert load(user=b"\xef\xbb\xbfparallel = 2").settings.parallel == 2


def test_a_config_error_is_a_usage_error_with_exit_code_2(load: Load) -> None:
    with pytest.raises(UsageError) as caught:
        load(parallel="0")
    assert caught.value.exit_code == 2


# Keys and endpoints of the user.

KEY = '[[keys]]\nid = "key-1"\nprovider = "openai"\n'


def test_a_key_is_a_reference_with_optional_limits(load: Load) -> None:
    (key,) = load(user=KEY + 'env = "A"\nquota_group = "g"\nrpm = 60\ntpm = 1e5\nmax_in_flight = 2').keys
    assert (key.id, key.provider, key.env, key.file, key.quota_group) == ("key-1", "openai", "A", None, "g")
    assert (key.rpm, key.tpm, key.rpd, key.burst, key.max_in_flight) == (60.0, 100_000.0, None, None, 2)


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("[keys]\nid = 'x'", r"\[\[keys\]\] tables"),
        ("keys = [1]", r"\[\[keys\]\] tables"),
        ("[[keys]]\nprovider = 'openai'\nenv = 'A'", "is missing 'id'"),
        ("[[keys]]\nid = 'x'\nenv = 'A'", "is missing 'provider'"),
        (KEY, "either env or file"),
        (KEY + "env = 'A'\nfile = 'b'", "either env or file"),
        (KEY + "env = ''", "env of"),
        (KEY + "env = 5", "env of"),
        (KEY + "env = 'A'\nrpm = 0", "rpm of"),
        (KEY + "env = 'A'\nrpm = true", "rpm of"),
        (KEY + "env = 'A'\nrpm = '60'", "rpm of"),
        (KEY + "env = 'A'\nrpm = nan", "rpm of"),
        (KEY + "env = 'A'\nburst = nan", "burst of"),
        (KEY + "env = 'A'\nburst = inf", "burst of"),
        (KEY + "env = 'A'\nmax_in_flight = 0.5", "max_in_flight of"),
        (KEY + "env = 'A'\nlimit = 5", "'limit'"),
        (KEY + "env = 'A'\n" + KEY + "env = 'B'", "key-1"),
    ],
)
def test_a_key_that_is_not_well_formed_is_an_error_that_says_which(load: Load, table: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        load(user=table)
    assert "user.toml" in str(caught.value)


def test_a_key_written_into_the_file_itself_is_refused_and_not_repeated(load: Load) -> None:
    with pytest.raises(ConfigError, match="Unknown setting 'secret'") as caught:
        load(user=KEY + "secret = 'sk-12345678'")
    assert "12345678" not in str(caught.value)


@pytest.mark.parametrize(
    "table",
    [
        "providers = 5",
        "[providers]\nopenai = 'x'",
        "[providers.openai]\nbase_url = 'ftp://x'",
        "[providers.openai]\nbase_url = 5",
        "[providers.openai]\nurl = 'http://x'",
        "[providers.openai]",
    ],
)
def test_an_endpoint_that_is_not_well_formed_is_an_error(load: Load, table: str) -> None:
    with pytest.raises(ConfigError, match="providers"):
        load(user=table)


def test_the_endpoints_of_the_user_are_taken(load: Load) -> None:
    url = "http://127.0.0.1:8000/v1"
    found = load(user=f'[providers.openai]\nbase_url = "{url}"').providers
    assert found == {"openai": ProviderSpec(name="openai", kind="openai", base_url=url)}


def test_the_environment_is_kept_but_never_shown(load: Load) -> None:
    config = load(environment={"OPENAI_API_KEY": "sk-12345678"})
    assert config.environment["OPENAI_API_KEY"] == "sk-12345678"
    assert "12345678" not in repr(config)


# The keys of a run.


def revealed(ring: KeyRing) -> dict[str, str]:
    return {name: secret.reveal() for name, secret in ring.secrets.items()}


def two_keys(tmp_path: Path) -> str:
    (tmp_path / "key.txt").write_text("file-secret\n")
    first = KEY + "env = 'A_KEY'\n"
    return first + f"[[keys]]\nid = 'key-2'\nprovider = 'gemini'\nfile = '{tmp_path / 'key.txt'}'\n"


def test_secrets_come_from_variable_and_file_and_are_never_shown(load: Load, tmp_path: Path) -> None:
    config = load(user=two_keys(tmp_path), environment={"A_KEY": " env-secret "})
    ring = key_ring(config, ["openai", "gemini"])
    assert revealed(ring) == {"key-1": "env-secret", "key-2": "file-secret"}
    assert "key-1" in repr(ring)
    assert "secret" not in repr(ring)


def test_only_keys_of_the_providers_in_use_are_looked_up(load: Load, tmp_path: Path) -> None:
    config = load(user=two_keys(tmp_path))
    assert [spec.id for spec in key_ring(config, ["gemini"]).specs] == ["key-2"]


def test_the_mock_has_three_keys_and_needs_no_configuration(load: Load) -> None:
    assert [spec.id for spec in key_ring(load(), ["mock"]).specs] == ["mock-1", "mock-2", "mock-3"]


def test_the_number_of_keys_can_be_limited_for_tests(load: Load) -> None:
    ring = key_ring(load(environment={"AGENTOS_CREDENTIAL_LIMIT": "1"}), ["mock"])
    assert [spec.id for spec in ring.specs] == list(ring.secrets) == ["mock-1"]
    for wrong in ("0", "-1", "x", ""):
        with pytest.raises(ConfigError, match="AGENTOS_CREDENTIAL_LIMIT"):
            key_ring(load(environment={"AGENTOS_CREDENTIAL_LIMIT": wrong}), ["mock"])


@pytest.mark.parametrize("content", [None, b"", b"\n", b"\xff"])
def test_a_key_file_that_gives_no_key_is_an_error_that_names_the_key(
    load: Load, tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "secret.txt"
    if content is not None:
        file.write_bytes(content)
    config = load(user=KEY + f"file = '{file}'")
    with pytest.raises(ConfigError, match="'key-1'"):
        key_ring(config, ["openai"])


def test_a_variable_that_is_not_set_is_an_error_that_names_the_key(load: Load) -> None:
    with pytest.raises(ConfigError, match=r"'key-1'.*OPENAI_ONE"):
        key_ring(load(user=KEY + "env = 'OPENAI_ONE'", environment={"OPENAI_ONE": "  "}), ["openai"])


def test_without_configured_keys_the_usual_variables_are_taken(load: Load) -> None:
    environment = {
        "OPENAI_API_KEY_10": "j",
        "OPENAI_API_KEY_2": "b",
        "OPENAI_API_KEY": "a",
        "GEMINI_API_KEY_1": "g",
        "ANTHROPIC_API_KEY": " ",
        "MY_OPENAI_API_KEY": "x",
        "OPENAI_API_KEY_X": "y",
    }
    ring = key_ring(load(environment=environment), ["openai", "gemini", "anthropic"])
    assert revealed(ring) == {"gemini-1": "g", "openai": "a", "openai-2": "b", "openai-10": "j"}
    assert [spec.id for spec in ring.specs] == ["gemini-1", "openai", "openai-2", "openai-10"]


def test_configured_keys_are_all_there_are(load: Load) -> None:
    config = load(user=KEY + "env = 'MINE'", environment={"MINE": "m", "OPENAI_API_KEY": "a"})
    assert revealed(key_ring(config, ["openai"])) == {"key-1": "m"}


def test_each_usual_variable_has_an_id_of_its_own() -> None:
    names = ["OPENAI_API_KEY", "OPENAI_API_KEY_0", "OPENAI_API_KEY_1", "OPENAI_API_KEY_01"]
    found = usual_keys(dict.fromkeys(names, "secret"))
    assert len({key.id for key in found}) == len(found)


@pytest.mark.parametrize("role", ["drafter", "reviewer"])
def test_a_repo_may_not_choose_a_model_that_is_a_command(tmp_path: Path, role: str) -> None:
    (tmp_path / "agentos.toml").write_text(f'{role} = "claude-cli:opus"\n')
    config = load_config(flags={}, worktree=tmp_path, environment={})
    assert getattr(config.settings, role) is None
    reason = "a repo may not choose a model that runs a command."
    assert (
        config.warnings[0] == f'Ignoring {role} = "claude-cli:opus" in {tmp_path / "agentos.toml"}: {reason}'
    )
    mine = load_config(flags={role: "claude-cli:opus"}, worktree=tmp_path, environment={})
    assert getattr(mine.settings, role) == "claude-cli:opus"
