"""One HTTP call to a provider: limited in time and size, no redirect, no retry. Worker process.

Keys are sent only in headers.
"""

import json
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import formatdate
from http.cookiejar import CookieJar
from typing import Any

import httpx2

from agentos import redact
from agentos.cookies import NO_COOKIES
from agentos.llm.classify import classify, error_status
from agentos.llm.connection import host_of, never_connected, read_failure
from agentos.llm.correction import fitted, understand
from agentos.llm.provider import ProviderError, RefusedReply
from agentos.model import REFUSED_REQUEST, SAME_FOR_ALL, CallError, Usage
from agentos.model_access import Kind
from agentos.model_facts import ModelFacts
from agentos.secret import Secret
from agentos.wire import ProviderAccess, ProxyAccess

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
_ANSWERS = frozenset({"choices", "content", "candidates"})  # what a reply has, in each format
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
    """Posts JSON to one provider's server, as `via` says: with extra headers, through a proxy, with a CA."""

    def __init__(
        self, provider: Kind, base_url: str, *, call_timeout: float, via: ProviderAccess | None = None
    ) -> None:
        access = via or ProviderAccess(kind=provider)
        self._provider = provider
        base, mark, query = base_url.partition("?")
        self._base, self._query = base.rstrip("/"), mark + query
        self._host = host_of(base_url)
        self._proxy = "" if access.proxy is None else f"the proxy {host_of(access.proxy.url)}"
        self._call_timeout = call_timeout
        self._headers = access.headers
        # No proxies or netrc from the environment: nothing leaves the machine that the user did not ask for.
        # A redirect would carry the key's header to another server.
        self._client = httpx2.Client(
            trust_env=False,
            follow_redirects=False,
            cookies=CookieJar(NO_COOKIES),
            proxy=None if access.proxy is None else _proxy(access.proxy),
            verify=_trusting(access.ca) if access.ca else True,
            timeout=httpx2.Timeout(call_timeout, connect=min(CONNECT_SECONDS, call_timeout)),
        )

    def post(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        facts: ModelFacts,
        key: KeyHeader,
        headers: Mapping[str, str] | None = None,
    ) -> HttpAnswer:
        """Make the call; anything but a complete JSON object with a 2xx status is a ProviderError."""
        body = fitted(body, facts)
        deadline = time.monotonic() + self._call_timeout
        sent = {**(headers or {}), **{one.header: one.value + _revealed(one.secret) for one in self._headers}}
        if secret := _revealed(key.secret):  # empty if a header of the user's identifies the user
            sent[key.name] = key.scheme + secret
        response = None
        try:
            url = self._base + path + self._query
            with self._client.stream("POST", url, json=body, headers=sent) as response:
                content = self._read(response, deadline)
        except (httpx2.HTTPError, httpx2.InvalidURL) as exc:
            failure = read_failure(exc, answering=response is not None)
            where = self._proxy if self._proxy and never_connected(failure) else self._host
            raise ProviderError(failure.error_class, f"{where}: {failure.words}") from None
        limits = {
            name.lower(): value
            for name, value in response.headers.items()
            if name.lower().startswith(_LIMIT_HEADERS)
            and len(value) <= MAX_HEADER
            and redact.find(f"{name}{value}") is None
        }
        if limits:
            limits["date"] = _date(response)
        if not response.is_success:
            raise self._refused(response.status_code, response, content, body, limits)
        # Before anything is cut out of it: a piece of a secret would not be recognized.
        if (echoed := _echoed(response, content)) is not None:
            # Paid for anyway. The server's token counts are not trusted either, so they are estimated.
            estimated = Usage(tokens_in=len(json.dumps(body)) // 4, tokens_out=len(content) // 4)
            raise RefusedReply(echoed, usage=estimated)
        if response.headers.get("content-type", "").lower().startswith("text/html"):
            raise ProviderError(
                CallError.WRONG_ENDPOINT, f"{self._host}: HTTP {response.status_code}: a web page, not JSON"
            )
        data = _object(content)
        if data.get("error") and not data.keys() & _ANSWERS:
            raise self._refused(error_status(content), response, content, body, limits)
        return HttpAnswer(data=data, headers=limits)

    def _refused(
        self,
        status: int,
        response: httpx2.Response,
        content: bytes,
        body: Mapping[str, Any],
        limits: dict[str, str],
    ) -> ProviderError:
        """Make the error for an answer that is not a reply."""
        found = classify(self._provider, status, response.headers, content, now_wall=time.time())
        message = found.message
        if found.error_class in SAME_FOR_ALL | {CallError.DROPPED}:
            message = f"{self._host}: {message}"
        # The class of the error stays: a rejected key must be disabled, whatever else the answer says.
        if found.error_class is not CallError.KEY_REJECTED and (echoed := _echoed(response, content)):
            message = f"HTTP {status}: the server's reply contains the key {echoed}; not shown"
        understood = found.error_class in REFUSED_REQUEST
        return ProviderError(
            found.error_class,
            message,
            retry_after=found.retry_after,
            quota_reset=found.quota_reset,
            headers=limits,
            correction=understand(status, content, body) if understood else None,
            limits=found.limits,
        )

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


def _revealed(secret: Secret | None) -> str:
    return "" if secret is None else secret.reveal()


def _proxy(access: ProxyAccess) -> httpx2.Proxy:
    login = (access.user, _revealed(access.password)) if access.user or access.password else None
    return httpx2.Proxy(access.url, auth=login)


def _trusting(ca: str) -> ssl.SSLContext:
    """The usual trust, and one more CA."""
    context = httpx2.create_ssl_context(trust_env=False)
    context.load_verify_locations(cadata=ca)
    return context


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


def incomplete(why: str, usage: Usage | None = None) -> ProviderError:
    """Make the error for an answer that is not complete."""
    return ProviderError(CallError.TRANSIENT, f"the reply is incomplete: {why}", usage=usage)


def declined(why: str, usage: Usage | None = None) -> ProviderError:
    """Make the error for a model that will not answer this request, however often it is asked."""
    return ProviderError(CallError.DECLINED, f"the model declined: {why}", usage=usage)


def count(value: Any) -> int:
    """Read a token count from the server; what is not a count is 0, an absurd one cannot be read."""
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        return 0
    if value > TOKENS_MOST:
        raise ProviderError(
            CallError.UNREADABLE,
            f"the server reports about 2**{value.bit_length()} tokens for the call, which is impossible;"
            " its cost is unknown. Check the base_url, then run the item again with --retry-failed",
        )
    return value
