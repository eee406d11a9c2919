"""Which addresses are surely on this machine, and which get a key in clear text."""

import pytest

from agentos.loopback import in_clear_text, on_this_machine


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "localhost", "LocalHost", "::1", "[::1]"])
def test_these_are_this_machine(host: str) -> None:
    assert on_this_machine(host)
    assert in_clear_text(f"http://{f'[{host}]' if host == '::1' else host}:8000/v1") is None


@pytest.mark.parametrize(
    "host",
    ["", "127.evil.test", "localhost.evil.test", "0.0.0.0", "127.1", "10.0.0.1", "[fe80::1]", "example.com"],
)
def test_these_are_not(host: str) -> None:
    assert not on_this_machine(host)
    assert in_clear_text(f"http://user:password@{host}:8000/v1?key=secret") == f"http://{host}:8000"
    assert in_clear_text(f"https://{host}/v1") is None


def test_what_is_no_url_gets_nothing() -> None:
    assert in_clear_text("http://[x/") is None
    assert in_clear_text("http://x:port/") is None
    assert in_clear_text("http://example.com/v1") == "http://example.com"
