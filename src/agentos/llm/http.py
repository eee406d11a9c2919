"""One HTTP call to a provider: limited in time and size, no redirect, no retry. Worker process.

Keys are sent only in headers.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any

import httpx2

from agentos import redact
from agentos.errors import ItemFailed
from agentos.llm.classify import ProviderName, classify
from agentos.llm.provider import ProviderError, RefusedReply
from agentos.model import CallError
from agentos.secret import Secret

CONNECT_SECONDS = 15.0
MAX_REPLY_BYTES = 6_000_000  # fits into one message to the coordinator, which checks it for secrets
TOKENS_MOST = 10**9  # of one call, as a server reports it
_LIMIT_HEADERS = (
    "x-ratelimit-",
    "x-ratelimitbysize-",
    "x-rate-limit-",
    "anthropic-ratelimit-",
    "ratelimit",  # the IETF's, and one of Mistral's
    "retry-after",
)
MAX_HEADER = 200  # characters; a longer one is left out, because half a number is another number


@dataclass(frozen=True, kw_only=True)
class HttpAnswer:
    """A 2xx answer: its JSON object and its rate limit headers."""

    data: dict[str, Any]
    headers: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class KeyHeader:
    """The header that carries the key."""

    name: str
    secret: Secret
    scheme: str = ""


class Endpoint:
    """Posts JSON to one provider's server."""

    def __init__(self, provider: ProviderName, base_url: str, *, call_timeout: float) -> None:
        self._provider = provider
        self._base = base_url.rstrip("/")
        self._call_timeout = call_timeout
        # No proxies or netrc from the environment: nothing leaves the machine that the user did not ask for.
        # A redirect would carry the key's header to another server.
        self._client = httpx2.Client(
            trust_env=False,
            follow_redirects=False,
            timeout=httpx2.Timeout(call_timeout, connect=min(CONNECT_SECONDS, call_timeout)),
        )

    def post(
        self, path: str, body: Mapping[str, Any], *, key: KeyHeader, headers: Mapping[str, str] | None = None
    ) -> HttpAnswer:
        """Make the call; anything but a complete JSON object with a 2xx status is a ProviderError."""
        deadline = time.monotonic() + self._call_timeout
        sent = {**(headers or {}), key.name: key.scheme + key.secret.reveal()}
        # Errors show only their class: the library's errors contain the request, and so the key.
        try:
            with self._client.stream("POST", self._base + path, json=dict(body), headers=sent) as response:
                content = self._read(response, deadline)
        except httpx2.TimeoutException:
            raise ProviderError(CallError.TRANSIENT, "timed out waiting for a reply") from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as exc:
            raise ProviderError(CallError.TRANSIENT, f"the connection failed: {type(exc).__name__}") from None
        limits = {
            name.lower(): value
            for name, value in response.headers.items()
            if name.lower().startswith(_LIMIT_HEADERS)
            and len(value) <= MAX_HEADER
            and redact.find(f"{name}{value}") is None
        }
        if limits:
            limits["date"] = _date(response)
        # Before anything is cut out of it: a piece of a secret would not be recognized.
        echoed = _echoed(response, content)
        if not response.is_success:
            found = classify(
                self._provider, response.status_code, response.headers, content, now_wall=time.time()
            )
            # The class of the error stays: a rejected key must be disabled, whatever else the answer says.
            rejected = found.error_class is CallError.KEY_REJECTED
            refused = f"HTTP {response.status_code}: the server's reply contains the key {echoed}; not shown"
            raise ProviderError(
                found.error_class,
                found.message if echoed is None or rejected else refused,
                retry_after=found.retry_after,
                quota_reset=found.quota_reset,
                headers=limits,
                limits=found.limits,
            )
        if echoed is not None:
            # Paid for anyway. The server's token counts are not trusted either, so they are estimated.
            raise RefusedReply(echoed, tokens=(len(json.dumps(body)) // 4, len(content) // 4))
        return HttpAnswer(data=_object(content), headers=limits)

    def _read(self, response: httpx2.Response, deadline: float) -> bytes:
        # The client's timeout applies between bytes: a server that sends one at a time would never reach it.
        content = bytearray()
        for part in response.iter_bytes():
            content += part
            if len(content) > MAX_REPLY_BYTES:
                raise ProviderError(
                    CallError.TRANSIENT, f"the reply is larger than {MAX_REPLY_BYTES:,} bytes"
                )
            if time.monotonic() > deadline:
                raise ProviderError(
                    CallError.TRANSIENT, f"no complete reply within {self._call_timeout:.0f} s"
                )
        return bytes(content)


def _date(response: httpx2.Response) -> str:
    """Return the server's time, from which its dates count; ours if it does not say."""
    text: str = response.headers.get("date", "")
    known = len(text) <= MAX_HEADER and redact.find(text) is None
    return text if text and known else formatdate(usegmt=True)


def _echoed(response: httpx2.Response, content: bytes) -> str | None:
    """Name the secret that an answer contains, in its text or in a header."""
    texts = (content.decode("utf-8", errors="replace"), *(" ".join(one) for one in response.headers.items()))
    return next((found for text in texts if (found := redact.find(text)) is not None), None)


def _object(content: bytes) -> dict[str, Any]:
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        raise ProviderError(CallError.TRANSIENT, "the reply is not JSON") from None
    if not isinstance(data, dict):
        raise ProviderError(CallError.TRANSIENT, "the reply is not a JSON object")
    return data


def incomplete(why: str, tokens: tuple[int, int] = (0, 0)) -> ProviderError:
    """Make the error for an answer that is not complete."""
    return ProviderError(CallError.TRANSIENT, f"the reply is incomplete: {why}", tokens=tokens)


def declined(why: str, tokens: tuple[int, int] = (0, 0)) -> ProviderError:
    """Make the error for a model that will not answer this request, however often it is asked."""
    return ProviderError(CallError.BAD_REQUEST, f"the model declined: {why}", tokens=tokens)


def count(value: Any) -> int:
    """Read a token count from the server; what is not a count is 0, an absurd one fails the item."""
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        return 0
    if value > TOKENS_MOST:
        raise ItemFailed(
            f"the server reports about 2**{value.bit_length()} tokens for the call, which is impossible;"
            " its cost is unknown. Check the base_url, then run the item again with --retry-failed"
        )
    return value
