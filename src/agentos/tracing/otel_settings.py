"""Whether and where spans are sent, from the user's OTEL_* variables. Coordinator process."""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from agentos import __version__
from agentos.tracing.span import Span, fitting

if TYPE_CHECKING:
    from agentos.tracing.otlp_exporter import Sender

SERVICE = "agentos"
PROTOCOL = "http/protobuf"


class Export:
    """Sends ended spans to the user's endpoint, if there is one. Reports a problem once."""

    def __init__(
        self, environment: Mapping[str, str], resource: Mapping[str, str], complain: Callable[[str], None]
    ) -> None:
        self._complain = complain
        self._complained = False
        self._sender: Sender | None = self._open(environment, resource)

    def send(self, span: Span) -> None:
        if self._sender is not None:
            self._sender.send(span)

    def report_problem(self) -> None:
        """Say why spans did not arrive, if any did not."""
        if self._sender is not None and (problem := self._sender.problem) is not None:
            self._complain_once(problem)

    def close(self, seconds: float) -> None:
        """Give the sender this long to send the last spans."""
        if self._sender is not None:
            self._sender.close(seconds)
            self.report_problem()

    def _open(self, environment: Mapping[str, str], resource: Mapping[str, str]) -> "Sender | None":
        endpoint = otlp_endpoint(environment)
        if endpoint is None:
            return None
        protocol = exporter_option(environment, "PROTOCOL") or PROTOCOL
        if protocol != PROTOCOL:
            self._complain_once(
                f"OTEL_EXPORTER_OTLP_PROTOCOL must be {PROTOCOL}, the only supported protocol"
            )
            return None
        try:
            parts = urlsplit(endpoint)
            usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable:
            self._complain_once("the OTLP endpoint is not an http:// or https:// address")
            return None
        try:
            # Only when needed: it takes longer to import than the coordinator.
            from agentos.tracing.otlp_exporter import Sender  # noqa: PLC0415

            return Sender(endpoint, resource, environment)
        except Exception as exc:  # noqa: BLE001 - a trace problem must not fail a run
            self._complain_once(f"the OTLP exporter cannot be set up ({type(exc).__name__})")
            return None

    def _complain_once(self, problem: str) -> None:
        if not self._complained:
            self._complained = True
            self._complain(f"Tracing: {problem}; the full trace is in trace.jsonl.")


def otlp_endpoint(environment: Mapping[str, str]) -> str | None:
    """The address for spans, if the user set one and did not turn the export off."""
    chosen = environment.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    off = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if off or (chosen and "otlp" not in re.split(r"\s*,\s*", chosen)):
        return None
    whole = environment.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "").strip()
    base = environment.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip()
    return whole or (f"{base.rstrip('/')}/v1/traces" if base else None)


def resource_of(environment: Mapping[str, str]) -> dict[str, str]:
    """What the spans say about their sender. No detectors are used, because some run programs."""
    resource = {"service.name": SERVICE, "service.version": __version__}
    for pair in environment.get("OTEL_RESOURCE_ATTRIBUTES", "").split(","):
        name, given, value = pair.partition("=")
        if given and name.strip():
            resource[str(fitting(name.strip()))] = str(fitting(unquote(value.strip())))
    if name := environment.get("OTEL_SERVICE_NAME", "").strip():
        resource["service.name"] = str(fitting(name))
    return resource


def exporter_option(environment: Mapping[str, str], name: str) -> str:
    """A setting of the exporter: the one for traces, otherwise the general one."""
    own = environment.get(f"OTEL_EXPORTER_OTLP_TRACES_{name}", "").strip()
    return own or environment.get(f"OTEL_EXPORTER_OTLP_{name}", "").strip()
