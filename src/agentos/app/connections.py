"""How the providers of a run are reached: their servers, headers with the secrets in them, proxy and CA."""

from collections.abc import Iterable

from agentos.config import Config
from agentos.errors import ConfigError
from agentos.model_access import Header, ProviderSpec, Proxy, proxy_for
from agentos.secret import read_secret
from agentos.wire import HeaderAccess, ProviderAccess, ProxyAccess


def connections(config: Config, providers: Iterable[str]) -> dict[str, ProviderAccess]:
    """How to reach each provider; programs and the mock have no server."""
    specs = {name: config.provider(name) for name in providers}
    return {name: connection(spec, config) for name, spec in specs.items() if spec is not None}


def connection(spec: ProviderSpec, config: Config) -> ProviderAccess:
    """How to reach one provider; a variable that is missing is an error that names it."""
    return ProviderAccess(
        kind=spec.kind,
        base_url=spec.base_url,
        headers=tuple(_header(spec, header, config) for header in spec.headers),
        proxy=_proxy(proxy_for(spec.server, config.network)),
        ca=config.network.ca,
    )


def _header(spec: ProviderSpec, header: Header, config: Config) -> HeaderAccess:
    if header.env is None:
        return HeaderAccess(header=header.name, value=header.value)
    where = f"Header {header.name!r} of [providers.{spec.name}]: the variable {header.env}"
    value = config.environment.get(header.env, "")
    if not value.strip():
        raise ConfigError(f"{where} is not set.")
    secret = read_secret(header.env, value, where=where)
    return HeaderAccess(header=header.name, value=header.value, name=secret.name, secret=secret)


def _proxy(proxy: Proxy | None) -> ProxyAccess | None:
    return None if proxy is None else ProxyAccess(url=proxy.url, user=proxy.user, password=proxy.password)
