"""The tables of the user's file as `agentos config` shows them; never a secret, nor any header's value."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from agentos.config import Config, Origin
from agentos.coordinator.keys import key_references
from agentos.model_access import Network, ProviderSpec


def table_values(config: Config) -> dict[str, Any]:
    """Every table by its name, as plain values."""
    return {
        "providers": {name: _provider(spec) for name, spec in config.providers.items()},
        "roles": {role: _given(options) for role, options in config.roles.items()},
        "network": _network(config.network),
        "keys": [_given(key) for key in key_references(config)],
        "prices": {model: _given(price) for model, price in config.prices.items()},
    }


def table_origin(config: Config, table: str) -> tuple[Origin, str]:
    """Who set a table, and where; only the user can."""
    given = getattr(config, table)
    if table == "network":
        given = given != Network()
    if given:
        return Origin.USER, f"{table} in {config.user_file}"
    usual = table == "keys" and key_references(config)
    return (Origin.ENVIRONMENT, "the usual variables") if usual else (Origin.DEFAULT, "")


def table_lines(config: Config) -> list[str]:
    """Every table that is not empty: its origin, then one line per entry."""
    lines: list[str] = []
    for table, values in table_values(config).items():
        if not values:
            continue
        origin, where = table_origin(config, table)
        lines += ["", f"{table}  ({origin.value}: {where})"]
        rows = {row.pop("id"): row for row in values} if isinstance(values, list) else values
        width = max(map(len, rows))
        lines += [f"  {name:<{width}}  {_row(row)}" for name, row in rows.items()]
    return lines


def _row(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_row(one)}" for name, one in value.items())
    if isinstance(value, list):
        return f"[{', '.join(map(_row, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _provider(spec: ProviderSpec) -> dict[str, Any]:
    headers = [str(header) for header in spec.headers]
    return {"kind": spec.kind, "base_url": spec.server} | ({"headers": headers} if headers else {})


def _network(network: Network) -> dict[str, Any]:
    shown: dict[str, Any] = {"proxy": "env"} if network.from_environment else {}
    for scheme, proxy in network.proxies.items():
        name = f"{scheme}_proxy" if network.from_environment else "proxy"
        login = " (with a login)" if proxy.user or proxy.password is not None else ""
        shown[name] = f"{proxy.url}{login}"
    if network.bypassed:
        shown["no_proxy"] = ",".join(network.bypassed)
    if network.ca_file is not None:
        shown["ca_file"] = network.ca_file
    return shown


def _given(value: Any) -> dict[str, Any]:
    """The fields of a value that are set."""
    pairs = ((one.name, getattr(value, one.name)) for one in dataclasses.fields(value))
    return {name: field for name, field in pairs if field is not None}
