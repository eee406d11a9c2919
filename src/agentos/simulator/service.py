"""How the simulator handles a request: read it, admit or refuse it, respond or break the response."""

import hashlib
import json
import random
from collections import OrderedDict
from dataclasses import replace
from typing import Any

from agentos.errors import UsageError
from agentos.simulator import gemini
from agentos.simulator.accounts import Account, Accounts
from agentos.simulator.anthropic import AnthropicDialect
from agentos.simulator.config import SimulatorConfig
from agentos.simulator.dialect import (
    Dialect,
    Headers,
    Problem,
    ProblemKind,
    RefusedCall,
    SimulatedCall,
    SimulatedReply,
    count_tokens,
    dump,
)
from agentos.simulator.faults import SERVED, FaultKind, FaultPlan, FaultRule, fault_from, parse_fault
from agentos.simulator.http import ClientLeft, HttpConnection, HttpRequest
from agentos.simulator.limit_headers import LimitStyle, limit_headers
from agentos.simulator.limits import LimitName, Refusal
from agentos.simulator.openai import OpenAIDialect
from agentos.simulator.prefix_cache import PrefixCache
from agentos.simulator.responder import DefaultResponder, plain

ADMIN = "/__admin__/"
DEFAULT_RETRY_AFTER = 1.0  # seconds, for a 429 fault
DEFAULT_DRIP = 0.05  # seconds per byte
_HUGE_PART = b"x" * 65_536
_MAX_KEPT = 1_000
_HTML = b"<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"
_WHOLE = frozenset({None, FaultKind.SLOW, FaultKind.DRIP})  # with these, the client gets the whole text
_PROBLEMS = {
    FaultKind.RATE_LIMIT: ProblemKind.RATE_LIMITED,
    FaultKind.RATE_LIMIT_BARE: ProblemKind.RATE_LIMITED,
    FaultKind.QUOTA: ProblemKind.QUOTA,
    FaultKind.BAD_REQUEST: ProblemKind.INVALID,
    FaultKind.KEY_REJECTED: ProblemKind.BAD_KEY,
    FaultKind.PAYMENT: ProblemKind.PAYMENT,
    FaultKind.FORBIDDEN: ProblemKind.FORBIDDEN,
    FaultKind.INTERNAL: ProblemKind.INTERNAL,
    FaultKind.UNAVAILABLE: ProblemKind.UNAVAILABLE,
    FaultKind.OVERLOADED: ProblemKind.OVERLOADED,
}


class Service:
    def __init__(self, config: SimulatorConfig) -> None:
        self._config = config
        self._accounts = Accounts(config)
        self._responder = config.responder or DefaultResponder()
        self._kept: OrderedDict[bytes, list[str]] = OrderedDict()
        self._random = random.Random(config.seed)  # noqa: S311 - reproducible, not secret
        self._faults = FaultPlan(config.faults, seed=config.seed)
        self._cache = PrefixCache()
        self._openai = OpenAIDialect()
        self._anthropic = AnthropicDialect()
        self._gemini = gemini.GeminiDialect()

    def stats(self) -> dict[str, Any]:
        return self._accounts.stats() | {"faults": len(self._faults)}

    async def handle(self, connection: HttpConnection, request: HttpRequest) -> None:
        """Handle one request; raise ClientLeft if the connection is finished."""
        if request.path.startswith(ADMIN):
            await self._administer(connection, request)
            return
        dialect = self._dialect(request)
        if request.method == "POST" and _is_call(request.path):
            await self._call(connection, request, dialect)
        elif request.method == "GET" and request.path in {"/v1/models", "/v1beta/models"}:
            names = self._config.models or ("simulated",)
            if self._accounts.find(dialect.secret(request.headers, request.query)) is None:
                await self._reject(connection, request, dialect)
            else:
                await connection.send(200, self._headers(dialect), dump(dialect.models(names)))
        else:
            await self._send_problem(connection, dialect, Problem(kind=ProblemKind.NOT_FOUND))

    def _dialect(self, request: HttpRequest) -> Dialect:
        if (
            request.path.startswith("/v1beta/")
            or gemini.is_call(request.path)
            or "x-goog-api-key" in request.headers
        ):
            return self._gemini
        if request.path.startswith("/v1/messages") or "anthropic-version" in request.headers:
            return self._anthropic
        return self._openai

    async def _call(self, connection: HttpConnection, request: HttpRequest, dialect: Dialect) -> None:
        account = self._accounts.find(dialect.secret(request.headers, request.query))
        if account is None:
            await self._reject(connection, request, dialect)
            return
        self._accounts.keys_in_urls += "key" in request.query
        try:
            call = dialect.read(request.path, request.headers, _object(request.body))
            if self._config.models and call.model not in self._config.models:
                raise RefusedCall(ProblemKind.NO_MODEL, "")  # noqa: TRY301 - answered like the others
            most = self._config.max_output
            if most is not None and (call.max_tokens or 0) > most:
                raise RefusedCall(ProblemKind.INVALID, dialect.too_long(call, most))  # noqa: TRY301
        except RefusedCall as exc:
            self._accounts.invalid += 1
            model = call.model if exc.kind is ProblemKind.NO_MODEL else ""
            await self._send_problem(
                connection, dialect, Problem(kind=exc.kind, message=str(exc), param=exc.param, model=model)
            )
            return
        self._accounts.count_call(account)
        fault = self._faults.pick(key=account.id, model=call.model, path=request.path)
        if fault:
            account.counts.faulted += 1
        if fault and fault.kind not in SERVED:
            await self._refuse(connection, dialect, call, account, fault)
        else:
            await self._serve(connection, dialect, call, account, fault)

    async def _serve(
        self,
        connection: HttpConnection,
        dialect: Dialect,
        call: SimulatedCall,
        account: Account,
        fault: FaultRule | None,
    ) -> None:
        since = self._config.clock()
        text = self._text(call)
        delivered = False
        try:
            reply = self._reply(call, text, fault)
            refusal = self._accounts.admit(account, call.model, reply.limited_tokens)
            if refusal:
                problem = Problem(kind=ProblemKind.RATE_LIMITED, model=call.model, refusal=refusal)
                await self._send_problem(connection, dialect, problem, account)
                return
            headers = self._headers(dialect, account, call.model)
            with self._accounts.serving(account):
                await self._send(connection, dialect, reply, headers, fault)
            self._cache.store(call.model, call.text, call.marks, self._config.clock())
            self._accounts.count_served(
                account,
                tokens_in=reply.tokens_in,
                tokens_out=reply.tokens_out,
                tokens_cached=reply.cache.read,
                since=since,
            )
            delivered = reply.finish == "stop" and (fault.kind if fault else None) in _WHOLE
        except ClientLeft:
            account.counts.abandoned += not (fault and fault.kind is FaultKind.CUT)
            raise
        finally:
            if not delivered:
                self._keep(call, text)

    async def _send(
        self,
        connection: HttpConnection,
        dialect: Dialect,
        reply: SimulatedReply,
        headers: Headers,
        fault: FaultRule | None,
    ) -> None:
        seconds = self._config.latency + self._random.uniform(-self._config.jitter, self._config.jitter)
        if fault and fault.kind is FaultKind.SLOW:
            seconds += fault.seconds or 0.0
        frames = list(dialect.stream(reply)) if reply.call.stream else []
        if seconds > 0:
            await connection.pause(seconds)
        if fault and fault.kind is FaultKind.GARBAGE_BODY:
            await connection.send(200, headers, self._random.randbytes(400))
        elif fault and fault.kind is FaultKind.HUGE:
            await connection.start(200, [("content-type", "application/json"), *headers])
            for _ in range(max(1, fault.size // len(_HUGE_PART))):
                await connection.part(_HUGE_PART)
            await connection.end()
        elif frames:
            await self._send_parts(
                connection, [("content-type", "text/event-stream"), *headers], frames, fault
            )
        elif fault and fault.kind in {FaultKind.CUT, FaultKind.DRIP}:
            body = dump(dialect.body(reply))
            length = ("content-length", str(len(body)))
            await self._send_parts(
                connection, [("content-type", "application/json"), length, *headers], [body], fault
            )
        else:
            await connection.send(200, headers, dump(dialect.body(reply)))

    async def _send_parts(
        self, connection: HttpConnection, headers: Headers, parts: list[bytes], fault: FaultRule | None
    ) -> None:
        await connection.start(200, headers)
        if fault and fault.kind is FaultKind.CUT:
            body = b"".join(parts)
            await connection.part(body[: len(body) // 2])
            raise ClientLeft
        if fault and fault.kind is FaultKind.DRIP:
            for byte in b"".join(parts):
                await connection.pause(DEFAULT_DRIP if fault.seconds is None else fault.seconds)
                await connection.part(bytes([byte]))
        else:
            for part in parts:
                await connection.part(part)
        await connection.end()

    async def _refuse(
        self,
        connection: HttpConnection,
        dialect: Dialect,
        call: SimulatedCall,
        account: Account,
        fault: FaultRule,
    ) -> None:
        if fault.kind in _PROBLEMS:
            wait = DEFAULT_RETRY_AFTER if fault.seconds is None else fault.seconds
            limit = self._config.group_limits(account.config).rpm or 60
            problem = Problem(
                kind=_PROBLEMS[fault.kind],
                model=call.model,
                secret=account.config.secret,
                refusal=Refusal(limit=LimitName.REQUESTS, value=limit, wait=wait),
                hints=fault.kind is not FaultKind.RATE_LIMIT_BARE,
            )
            await self._send_problem(connection, dialect, problem, account)
        elif fault.kind is FaultKind.HTML:
            await connection.send(502, [], _HTML, content_type="text/html")
        elif fault.kind is FaultKind.REDIRECT:
            await connection.send(307, [("location", fault.to)], b"")
        elif fault.kind is FaultKind.RESET:
            connection.reset()
            raise ClientLeft
        elif fault.kind is FaultKind.GARBAGE:
            await connection.raw(b"\x16\x03" + self._random.randbytes(500))
            raise ClientLeft
        else:
            await connection.pause(fault.seconds)
            raise ClientLeft

    async def _reject(self, connection: HttpConnection, request: HttpRequest, dialect: Dialect) -> None:
        self._accounts.unauthorized += 1
        secret = dialect.secret(request.headers, request.query)
        kind = ProblemKind.BAD_KEY if secret else ProblemKind.NO_KEY
        await self._send_problem(connection, dialect, Problem(kind=kind, secret=secret or ""))

    async def _send_problem(
        self, connection: HttpConnection, dialect: Dialect, problem: Problem, account: Account | None = None
    ) -> None:
        if self._config.limit_style is LimitStyle.NONE:
            problem = replace(problem, hints=False)
        headers = self._headers(dialect, account if problem.hints else None, problem.model)
        answer = dialect.answer(problem, dict(headers).get("request-id", ""))
        await connection.send(answer.status, [*headers, *answer.headers], dump(answer.body))

    def _headers(self, dialect: Dialect, account: Account | None = None, model: str = "") -> Headers:
        levels = self._accounts.levels(account, model) if account else {}
        style = self._config.limit_style
        own = levels if style is LimitStyle.OWN else {}
        headers = dialect.headers(own, f"req_{self._random.getrandbits(96):024x}", self._config.wall())
        return [*headers, *limit_headers(style, levels)]

    def _text(self, call: SimulatedCall) -> str:
        """Return the model's text; a text that no client received is repeated for the same prompt."""
        if self._kept:
            question = _question(call)
            if texts := self._kept.pop(question, None):
                if texts[1:]:
                    self._kept[question] = texts[1:]
                return texts[0]
        return self._responder(call.model, call.system, call.prompt, call.wanted)

    def _keep(self, call: SimulatedCall, text: str) -> None:
        question = _question(call)
        self._kept.setdefault(question, []).append(text)
        self._kept.move_to_end(question)
        while len(self._kept) > _MAX_KEPT:
            self._kept.popitem(last=False)

    def _reply(self, call: SimulatedCall, text: str, fault: FaultRule | None) -> SimulatedReply:
        reply = SimulatedReply(
            call=call,
            text=text,
            finish="stop",
            model=call.model,
            tokens_in=count_tokens(call.text),
            tokens_out=count_tokens(text),
            cache=self._cache.use(call.model, call.text, call.marks, self._config.clock()),
            id=f"{self._random.getrandbits(128):032x}",
            created=int(self._config.wall()),
        )
        if call.max_tokens is not None and reply.tokens_out > call.max_tokens:
            reply = replace(
                reply, text=text[: 4 * call.max_tokens], tokens_out=call.max_tokens, finish="length"
            )
        kind = fault.kind if fault else None
        if kind is FaultKind.EMPTY:
            return replace(reply, text="", tokens_out=1)
        if kind in {FaultKind.LENGTH, FaultKind.FILTERED}:
            half = reply.text[: len(reply.text) // 2]
            return replace(reply, text=half, finish="length" if kind is FaultKind.LENGTH else "filtered")
        return replace(reply, model=f"{call.model}-mini") if kind is FaultKind.OTHER_MODEL else reply

    async def _administer(self, connection: HttpConnection, request: HttpRequest) -> None:
        action = (request.method, request.path.removeprefix(ADMIN))
        status = 200
        body: dict[str, Any] = {"ok": True}
        if "origin" in request.headers:  # web pages must not control the simulator
            status, body = 403, {"error": "not from a browser"}
        elif action == ("GET", "stats"):
            body = self.stats()
        elif action == ("POST", "faults"):
            try:
                self._set_faults(json.loads(request.body))
            except (UsageError, ValueError, RecursionError) as exc:
                status, body = 400, {"error": str(exc)}
        elif action == ("POST", "reset"):
            self._accounts.reset()
            self._kept.clear()
            self._cache = PrefixCache()
            self._faults = FaultPlan(self._config.faults, seed=self._config.seed)
            if isinstance(self._responder, DefaultResponder):
                self._responder.reset()
        else:
            status, body = 404, {"error": "GET stats, POST faults, POST reset"}
        await connection.send(status, [], dump(body))

    def _set_faults(self, posted: Any) -> None:
        """Accept a list of rules, or an object with `rules` and `append`; `append` keeps the active rules."""
        wanted = posted if isinstance(posted, dict) else {"rules": posted}
        listed = wanted.get("rules")
        if not isinstance(listed, list) or set(wanted) - {"rules", "append"}:
            raise UsageError('Post a list of rules, or {"rules": [...], "append": true}.')
        rules = [parse_fault(one) if isinstance(one, str) else fault_from(_as_rule(one)) for one in listed]
        if wanted.get("append") is not True:
            self._faults = FaultPlan(seed=self._config.seed)
        self._faults.add(rules)


def _is_call(path: str) -> bool:
    return path in {"/v1/chat/completions", "/v1/messages"} or gemini.is_call(path)


def _object(body: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise RefusedCall(ProblemKind.INVALID, "The body could not be read as a JSON object.")
    return parsed


def _as_rule(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError("A rule must be an object or text such as '429,first=2'.")
    return value


def _question(call: SimulatedCall) -> bytes:
    text = json.dumps([call.model, call.system, plain(call.prompt), call.wanted])
    return hashlib.sha256(text.encode()).digest()
