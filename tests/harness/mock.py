"""The mock as a provider, built from a script and called without a worker."""

from typing import Any

from agentos.llm.mock import MockProvider, Script, parse_script
from agentos.llm.provider import Cancel, ModelRequest, Provider, Reply, Role
from agentos.secret import Secret
from agentos.workflows.gates import Kind


def mock(script: str | Script = "", *, kind: Kind = "lld", **given: Any) -> MockProvider:
    about: dict[str, Any] = {"item_id": "42", "title": "Parallel runs", "shell_allowed": False}
    read = script if isinstance(script, Script) else parse_script(f"<!-- mock: {script} -->")
    return MockProvider(read, kind=kind, **{**about, **given})


def call(provider: Provider, role: Role, number: int = 1, cancel: Cancel | None = None) -> Reply:
    request = ModelRequest(role=role, model="any", number=number, system="12345678", prompt="1234567")
    return provider.call(request, secret=Secret("mock-1", ""), cancel=cancel or Cancel())
