"""Recognizes this machine, for what must not leave it unencrypted or through a proxy. Pure."""

import ipaddress
from contextlib import suppress
from urllib.parse import urlsplit


def on_this_machine(host: str) -> bool:
    """Whether a host is this machine, judged by its name; nothing is looked up."""
    with suppress(ValueError):
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    return host.lower() == "localhost"


def in_clear_text(url: str) -> str | None:
    """The server (`http://HOST[:PORT]`) if a URL sends keys and texts unencrypted to another machine."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return None
    if parts.scheme != "http" or on_this_machine(host):
        return None
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}" + ("" if port is None else f":{port}")
