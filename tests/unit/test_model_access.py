"""Which proxy a target gets, what needs a key, and how addresses of proxies are read."""

import pytest

from agentos import redact
from agentos.model_access import (
    Header,
    Network,
    NotAProxy,
    ProviderSpec,
    known_providers,
    nearest,
    no_provider,
    proxy_for,
    read_proxy,
    usual_variable,
)

PROXY = read_proxy("http://proxy.test:3128")


def network(*bypassed: str) -> Network:
    return Network(proxies={"https": PROXY}, bypassed=bypassed, from_environment=True)


@pytest.mark.parametrize(
    "url", ["https://127.0.0.1/v1", "https://127.8.8.8", "https://localhost:8443", "https://[::1]:8443/v1"]
)
def test_this_machine_never_gets_a_proxy(url: str) -> None:
    assert proxy_for(url, network()) is None


def test_a_proxy_is_for_the_scheme_of_the_target() -> None:
    assert proxy_for("https://models.test/v1", network()) is PROXY
    assert proxy_for("http://models.test/v1", network()) is None


@pytest.mark.parametrize(
    ("entry", "url", "bypasses"),
    [
        ("*", "https://models.test", True),
        ("models.test", "https://models.test", True),
        ("MODELS.test", "https://models.test.", True),
        ("models.test", "https://eu.models.test", True),
        (".models.test", "https://eu.models.test", True),
        ("*.models.test", "https://eu.models.test", True),
        ("models.test", "https://othermodels.test", False),
        ("models.test:443", "https://models.test", True),
        ("models.test:8443", "https://models.test", False),
        ("models.test:8443", "https://models.test:8443/v1", True),
        ("10.0.0.0/8", "https://10.1.2.3", True),
        ("10.1.2.3", "https://10.1.2.3", True),
        ("10.1.2.4", "https://10.1.2.3", False),
        ("10.0.0.0/8", "https://models.test", False),
        ("[fd00::1]:443", "https://[fd00::1]", True),
        ("fd00::/8", "https://[fd00::1]", True),
        ("", "https://models.test", False),
        (".", "https://models.test", False),
    ],
)
def test_no_proxy_is_read_as_other_programs_do(entry: str, url: str, bypasses: bool) -> None:
    assert (proxy_for(url, network(entry)) is None) is bypasses


def test_an_address_is_kept_without_its_login() -> None:
    proxy = read_proxy("http://me%40corp:s3cret%2Fpassword@[fd00::2]:3128/")
    assert (proxy.url, proxy.user) == ("http://[fd00::2]:3128", "me@corp")
    assert proxy.password is not None
    assert proxy.password.reveal() == "s3cret/password"
    assert redact.redact("a s3cret/password b") == "a [secret: proxy-login] b"
    assert redact.redact("a s3cret%2Fpassword b") == "a [secret: proxy-login] b"
    assert "s3cret" not in repr(proxy)
    assert "me@corp" not in repr(proxy)


def test_an_address_may_be_short() -> None:
    assert read_proxy(" proxy.test:3128 ").url == "http://proxy.test:3128"
    assert read_proxy("http://proxy.test").url == "http://proxy.test:80"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "https://p:1",
        "socks5://p:1",
        "http://",
        "http://p:x",
        "http://p:1/path",
        "http://p?q",
        "http://[::1",
    ],
)
def test_anything_else_is_not_a_proxy(text: str) -> None:
    with pytest.raises(NotAProxy, match="HOST:PORT"):
        read_proxy(text)


@pytest.mark.parametrize(
    ("spec", "needed"),
    [
        (ProviderSpec(name="openai", kind="openai"), True),
        (ProviderSpec(name="openai", kind="openai", base_url="http://127.0.0.1:8000/v1"), True),
        (ProviderSpec(name="mine", kind="openai", base_url="http://127.0.0.1:8000/v1"), False),
        (ProviderSpec(name="mine", kind="openai", base_url="https://models.test/v1"), True),
        (
            ProviderSpec(
                name="mine", kind="openai", base_url="https://m.test", headers=(Header(name="a", value="b"),)
            ),
            True,
        ),
        (ProviderSpec(name="openai", kind="openai", headers=(Header(name="api-key", env="A"),)), False),
    ],
)
def test_a_secret_header_or_a_local_server_makes_a_key_unnecessary(spec: ProviderSpec, needed: bool) -> None:
    assert spec.needs_key is needed


def test_a_header_shows_its_reference_and_never_its_value() -> None:
    assert str(Header(name="a", value="Bearer ", env="TOKEN")) == "a = Bearer env:TOKEN"
    plain = Header(name="a", value="private")
    assert "private" not in f"{plain} {plain!r}"


def test_names() -> None:
    assert usual_variable("my-azure") == "MY_AZURE_API_KEY"
    assert known_providers(["azure", "openai"])[-1] == "azure"
    assert nearest("opneai", known_providers([])) == "openai"
    assert nearest("x", known_providers([])) is None
    assert no_provider("azrue", ["azure"]) == "there is no provider 'azrue'. Did you mean 'azure'?"
    assert "Choose one of openai, anthropic" in no_provider("x", ["azure"])
