"""The tables [providers], [roles] and [network]: what is taken, and how mistakes are told."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme

from agentos.app.connections import connection
from agentos.config import Config, load_config
from agentos.coordinator.keys import key_ring, login_keys, usual_keys
from agentos.errors import ConfigError
from agentos.model_access import RoleOptions
from agentos.secret import Secret

Load = Callable[..., Config]
SECRET = "secret-of-a-header-1234"


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load the configuration with a user's file given as text."""

    def make(text: str, **environment: str) -> Config:
        file = tmp_path / "user.toml"
        file.write_text(text)
        return load_config(flags={}, worktree=None, user_file=file, environment=environment)

    return make


def provider(lines: str, name: str = "mine") -> str:
    return f'[providers.{name}]\nkind = "openai"\nbase_url = "https://models.test/v1"\n{lines}\n'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[providers.opneai]\nbase_url = 'https://x'", r"mean \[providers.openai\]\?.* set kind to openai"),
        ("[providers.corp]\nbase_url = 'https://x'", r"has no kind. Set kind to openai, anthropic or gemini"),
        ("[providers.corp]\nkind = 'opanai'", r"must be openai, anthropic or .* Did you mean 'openai'"),
        ("[providers.corp]\nkind = 5", "kind of .* must be openai"),
        ("[providers.corp]\nkind = 'openai'", "is missing base_url"),
        ("[providers.openai]\nkind = 'gemini'\nbase_url = 'https://x'", "is always openai"),
        ("[providers.openai]", "is empty"),
        ("[providers.mock]\nkind = 'openai'\nbase_url = 'https://x'", "cannot be changed"),
        ("[providers.claude-cli]\nbase_url = 'https://x'", "cannot be changed"),
        ("[providers.my-cli]\nkind = 'openai'\nbase_url = 'https://x'", "does not end in -cli"),
        ("[providers.Azure]\nkind = 'openai'\nbase_url = 'https://x'", "lower case letters"),
        ("[providers.a_b]\nkind = 'openai'\nbase_url = 'https://x'", "lower case letters"),
        (provider("base_ulr = 'x'"), "Unknown setting 'base_ulr' in .* Did you mean 'base_url'"),
        (provider("", "x").replace("https://models.test/v1", "https://me:pass-word@x"), "contains a login"),
        (provider("", "x").replace("https://models.test/v1", "https://x?key=1"), "no query but api-version"),
        (provider("", "x").replace("https://models.test/v1", "https://x:port"), "is not a URL"),
        (provider("", "x").replace("https://models.test/v1", "https:// x"), "is not a URL"),
        (provider("headers = 5"), "headers of .* must be a table"),
        (provider("headers = { 'a b' = 'x' }"), "is not the name of a header"),
        (provider("headers = { 'a\\nb' = 'x' }".replace("'", '"')), "is not the name of a header"),
        (provider("headers = { a = 'x', A = 'y' }"), "is twice"),
        (provider("headers = { Host = 'x' }"), "is set by agentos itself"),
        (provider("headers = { Transfer-Encoding = 'chunked' }"), "is set by agentos itself"),
        (provider("headers = { Proxy-Authorization = 'env:X' }"), "is set by agentos itself"),
        (provider("headers = { a = 5 }"), "a in headers of .* printable ASCII"),
        (provider('headers = { a = "x\\r\\nb: c" }'), "printable ASCII"),
        (provider("headers = { a = 'ä' }"), "printable ASCII"),
        (provider("headers = { a = ' x' }"), "printable ASCII"),
        (provider("headers = { a = '' }"), "printable ASCII"),
        (provider("headers = { a = 'env:' }"), 'write "env:NAME"'),
        (provider("headers = { a = 'ENV:X' }"), 'write "env:NAME"'),
        (provider("headers = { a = 'x env: Y' }"), 'write "env:NAME"'),
        (provider("headers = { Authorization = 'Bearer env:X' }"), r'Use \[\[keys\]\].*env = "X"'),
        ("[roles.judge]\ntemperature = 1", "Unknown role 'judge' .* Choose from drafter, reviewer"),
        ("[roles.reviewr]\ntemperature = 1", "Unknown role 'reviewr' .* Did you mean 'reviewer'"),
        ("[roles.drafter]\nmax_tokens = 1", "Unknown setting 'max_tokens' .* 'max_output_tokens'"),
        ("[roles.drafter]\nmax_output_tokens = 0", "must be a whole number from 1"),
        ("[roles.drafter]\nmax_output_tokens = 1.5", "must be a whole number from 1"),
        ("[roles.drafter]\ntemperature = 3", "must be a number from 0 to 2"),
        ("[roles.drafter]\ntemperature = 'hot'", "must be a number from 0 to 2"),
        ("[roles.drafter]\ntemperature = nan", "must be a number from 0 to 2"),
        ("[roles.drafter]\nreasoning_effort = 'extreme'", "must be minimal, low, medium or high"),
        ("[roles.drafter]\ntimeout = 'soon'", "must be a duration"),
        ("roles = 5", r"must be tables such as \[roles.drafter\]"),
        ("[roles]\ndrafter = 5", "must be a table"),
        ("network = 5", r"must be the table \[network\]"),
        ("[network]\nproxi = 'x'", "Unknown setting 'proxi' .* Did you mean 'proxy'"),
        ("[network]\nproxy = 5", "proxy of .* must be"),
        ("[network]\nproxy = 'socks5://x:1'", "proxy of .* must be http://HOST:PORT"),
        ("[network]\nca_file = 'corp.pem'", "must be the absolute path"),
        ("[network]\nca_file = 5", "must be the absolute path"),
        ("[network]\nca_file = '/nowhere/corp.pem'", "corp.pem cannot be read: No such file"),
        ("[[keys]]\nid = 'a'\nprovider = 'opneai'\nenv = 'A'", "no provider 'opneai'. Did you mean 'openai'"),
        ("[[keys]]\nid = 'a'\nprovider = 'openai'\nenvv = 'A'", "Unknown setting 'envv' .* mean 'env'"),
        ("[[keys]]\nid = 'gemini'\nprovider = 'openai'\nenv = 'A'", "the name of another provider as its id"),
        ('[prices."opneai:x"]\ninput = 1\noutput = 1', "no provider 'opneai'. Did you mean 'openai'"),
    ],
)  # fmt: skip
def test_a_mistake_is_an_error_that_names_the_fix(load: Load, text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        load(text)
    assert "user.toml" in str(caught.value)
    assert "pass-word" not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["api-key", "x-api-key", "Helicone-Auth", "X-Access-Token", "cookie", "x-secret"]
)
def test_a_secret_written_into_the_file_is_refused_and_not_repeated(load: Load, name: str) -> None:
    with pytest.raises(ConfigError, match="looks like a secret") as caught:
        load(provider(f"headers = {{ {name} = '{SECRET}' }}"))
    assert SECRET not in str(caught.value)


def test_headers_refer_to_variables_and_literal_ones_stay_as_they_are(load: Load) -> None:
    text = provider("headers = { Api-Key = 'env:MINE', x-auth = 'Bearer env:OTHER', x-team = 'blue team' }")
    config = load(text, MINE=f" {SECRET} ", OTHER="other-secret")
    spec = config.provider("mine")
    assert spec is not None
    access = connection(spec, config)
    sent = {one.header: (one.value, one.secret) for one in access.headers}
    assert sent == {
        "api-key": ("", Secret("MINE", SECRET)),
        "x-auth": ("Bearer ", Secret("OTHER", "other-secret")),
        "x-team": ("blue team", None),
    }
    assert {"MINE", "OTHER"} <= config.key_variables
    assert SECRET not in f"{config!r} {access!r}"


def test_roles_and_durations_in_parts(load: Load) -> None:
    config = load("[roles.reviewer]\ntimeout = '1h30m'\nreasoning_effort = 'low'\ntemperature = 1")
    assert config.options("reviewer") == RoleOptions(timeout=5400.0, reasoning_effort="low", temperature=1.0)
    assert config.options("drafter") == RoleOptions()


# The network.


def test_proxy_env_takes_the_usual_variables_in_lower_case_first(load: Load) -> None:
    text = "[network]\nproxy = 'env'"
    both = load(text, https_proxy="http://lower:1", HTTPS_PROXY="http://upper:1", ALL_PROXY="all:2").network
    assert {scheme: proxy.url for scheme, proxy in both.proxies.items()} == {
        "http": "http://all:2",
        "https": "http://lower:1",
    }
    assert load(text, NO_PROXY="a.test, .b.test ,").network.bypassed == ("a.test", ".b.test")
    assert load(text).network.proxies == {}
    with pytest.raises(ConfigError, match="The variable ALL_PROXY must be http://HOST:PORT") as caught:
        load(text, ALL_PROXY=f"socks5://me:{SECRET}@proxy:1")
    assert SECRET not in str(caught.value)
    explicit = load("[network]\nproxy = 'http://mine:1'", HTTPS_PROXY="http://upper:1", NO_PROXY="*").network
    assert {proxy.url for proxy in explicit.proxies.values()} == {"http://mine:1"}
    assert explicit.bypassed == ()
    assert load("", HTTPS_PROXY="http://upper:1").network.proxies == {}


def test_a_ca_is_read_and_checked_at_the_start(load: Load, tmp_path: Path) -> None:
    file = tmp_path / "corp.pem"
    pem = trustme.CA().cert_pem.bytes().decode()
    file.write_text(f"# Unsere Zertifikate für alle\n{pem}", "utf-8")
    assert pem in load(f"[network]\nca_file = '{file}'").network.ca
    for wrong in ("", "no certificate", pem[: len(pem) // 2]):
        file.write_text(wrong)
        with pytest.raises(ConfigError, match="contains no readable certificate"):
            load(f"[network]\nca_file = '{file}'")


DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["configuration.md", "how-to/endpoints.md", "how-to/litellm.md"])
def test_what_the_documentation_shows_can_be_copied(load: Load, tmp_path: Path, page: str) -> None:
    ca = tmp_path / "corp.pem"
    trustme.CA().cert_pem.write_to_path(str(ca))
    blocks = re.findall(r"^```toml\n(.*?)^```", (DOCS / page).read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        text = re.sub(r'ca_file = "[^"]*"', f'ca_file = "{ca}"', block)
        assert load(text) != load(""), text


# Keys of named providers.


def test_a_named_provider_has_usual_variables_of_its_own(load: Load) -> None:
    text = provider("", "azure") + provider("", "azure-2")
    environment = {"AZURE_API_KEY": "a", "AZURE_API_KEY_2": "b", "AZURE_2_API_KEY": "c", "CORP_API_KEY": "d"}
    config = load(text, **environment)
    ring = key_ring(config, ["azure", "azure-2"])
    found = {spec.id: (spec.provider, ring.secrets[spec.id].reveal()) for spec in ring.specs}
    assert found == {"azure": ("azure", "a"), "azure-2": ("azure", "b"), "azure_2_api_key": ("azure-2", "c")}
    assert "CORP_API_KEY" not in config.key_variables
    assert {"AZURE_API_KEY_2", "AZURE_2_API_KEY"} <= config.key_variables


def test_a_google_key_counts_only_without_a_gemini_key() -> None:
    assert [key.env for key in usual_keys({"GOOGLE_API_KEY": "g"})] == ["GOOGLE_API_KEY"]
    both = usual_keys({"GOOGLE_API_KEY": "g", "GEMINI_API_KEY_1": "m"})
    assert [(key.id, key.env) for key in both] == [("gemini-1", "GEMINI_API_KEY_1")]
    assert [key.env for key in usual_keys({"GOOGLE_API_KEY": "g", "GEMINI_API_KEY": " "})] == [
        "GOOGLE_API_KEY"
    ]


def test_a_provider_that_needs_no_key_counts_as_one_key_without_a_secret(load: Load) -> None:
    headers = "headers = { api-key = 'env:MINE' }\n"
    other = "[[keys]]\nid = 'k'\nprovider = 'gemini'\nenv = 'G'\n"
    config = load(f"drafter = 'mine:x'\n{provider(headers)}{other}", MINE=SECRET)
    ring = key_ring(config, ["mine"])
    assert [(spec.id, ring.secrets[spec.id].reveal()) for spec in ring.specs] == [("mine", "")]
    assert [key.id for key in login_keys(config, known=())] == ["mine"]
    own = load(f"{provider(headers)}[[keys]]\nid = 'k'\nprovider = 'mine'\nenv = 'K'\n", MINE=SECRET, K="key")
    assert [spec.id for spec in key_ring(own, ["mine"]).specs] == ["k"]
    assert login_keys(own, known=()) == ()
