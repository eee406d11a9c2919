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


def call(
    provider: Provider, role: Role, number: int = 1, cancel: Cancel | None = None, **given: Any
) -> Reply:
    about: dict[str, Any] = {"model": "any", "system": "12345678", "prompt": "1234567"}
    request = ModelRequest(role=role, number=number, **{**about, **given})
    return provider.call(request, secret=Secret("mock-1", ""), cancel=cancel or Cancel())
