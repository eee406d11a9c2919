"""Provider refusals as they come over the wire, and what they mean."""

import json
import math
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any
from zoneinfo import ZoneInfoNotFoundError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.llm import classify as module
from agentos.llm.classify import MAX_DELAY, MAX_MESSAGE, Classified, classify
from agentos.model import CallError
from agentos.model_access import Kind

RATE_LIMITED = CallError.RATE_LIMITED
QUOTA_EXHAUSTED = CallError.QUOTA_EXHAUSTED
CAPACITY = CallError.CAPACITY
KEY_REJECTED = CallError.KEY_REJECTED
BAD_REQUEST = CallError.BAD_REQUEST
DECLINED = CallError.DECLINED
TRANSIENT = CallError.TRANSIENT
NO_CREDIT = CallError.NO_CREDIT
NO_MODEL = CallError.NO_MODEL
WRONG_ENDPOINT = CallError.WRONG_ENDPOINT

NOW = datetime(2026, 11, 15, 20, 0, tzinfo=UTC).timestamp()  # noon in California


def ask(
    provider: Kind = "openai",
    status: int = 429,
    body: Any = b"",
    headers: dict[str, str] | None = None,
    now: float = NOW,
) -> Classified:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return classify(provider, status, headers or {}, raw, now_wall=now)


def openai(code: str | None, kind: str = "requests", message: str = "Rate limit reached.") -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def anthropic(kind: str, message: str = "Refused.", **details: Any) -> dict[str, Any]:
    error = {"type": kind, "message": message, **({"details": details} if details else {})}
    return {"type": "error", "error": error, "request_id": "req_018EeWyXxfu5pfWkrYcMdjWG"}


def google(*details: dict[str, Any], status: str = "RESOURCE_EXHAUSTED", message: str = "") -> dict[str, Any]:
    return {"error": {"code": 429, "message": message, "status": status, "details": list(details)}}


def quota(quota_id: str, value: str | None = None) -> dict[str, Any]:
    violation = {
        "quotaMetric": "generativelanguage.googleapis.com/generate_content_free_tier_requests",
        "quotaId": quota_id,
        "quotaDimensions": {"location": "global", "model": "gemini-3-pro"},
    }
    if value is not None:
        violation["quotaValue"] = value
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]}


def retry_info(delay: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}


PER_DAY = "GenerateRequestsPerDayPerProjectPerModel-FreeTier"
PER_MINUTE = "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini"])
@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (301, WRONG_ENDPOINT),
        (400, BAD_REQUEST),
        (401, KEY_REJECTED),
        (402, NO_CREDIT),
        (403, KEY_REJECTED),
        (404, WRONG_ENDPOINT),
        (405, WRONG_ENDPOINT),
        (407, CallError.PROXY_REFUSED),
        (408, TRANSIENT),
        (409, TRANSIENT),
        (413, DECLINED),
        (422, BAD_REQUEST),
        (429, RATE_LIMITED),
        (500, TRANSIENT),
        (502, CallError.DROPPED),
        (503, CAPACITY),
        (504, TRANSIENT),
        (529, CAPACITY),
    ],
)
def test_status_alone(provider: Kind, status: int, expected: CallError) -> None:
    found = ask(provider, status)
    assert found.error_class is expected
    assert found.retry_after is None
    assert found.quota_reset is None
    assert str(status) in found.message


class TestOpenAI:
    def test_rate_limit(self) -> None:
        text = (
            "Rate limit reached for gpt-x on tokens per min (TPM): Limit 30000, Used 29000, Requested 14290."
        )
        headers = {"Retry-After": "7", "x-ratelimit-reset-tokens": "6m0s"}
        found = ask(body=openai("rate_limit_exceeded", "tokens", text), headers=headers)
        assert found.error_class is RATE_LIMITED
        assert found.retry_after == 7
        assert found.message.startswith("HTTP 429 rate_limit_exceeded: Rate limit reached for gpt-x")

    @pytest.mark.parametrize(
        "code",
        [
            "insufficient_quota",
            "credit_balance_exhausted",
            "organization_spend_limit_exceeded",
            "project_spend_limit_exceeded",
            "organization_usage_limit_exceeded",
        ],
    )
    def test_money_is_final(self, code: str) -> None:
        found = ask(body=openai(code, "insufficient_quota"), headers={"retry-after": "3"})
        assert found.error_class is NO_CREDIT
        assert found.retry_after is None
        assert found.quota_reset is None

    def test_older_and_foreign_shapes_of_final(self) -> None:
        assert ask(body=openai(None, "insufficient_quota")).error_class is NO_CREDIT
        hard_limit = openai("billing_hard_limit_reached", "invalid_request_error")
        assert ask(status=400, body=hard_limit).error_class is NO_CREDIT
        gateway = {
            "error": {"message": "Budget has been exceeded!", "type": "budget_exceeded", "code": "429"}
        }
        assert ask(body=gateway).error_class is NO_CREDIT

    def test_words_in_free_text_decide_nothing(self) -> None:
        text = (
            "insufficient_quota billing 429 API_KEY_INVALID overloaded_error: 14290 tokens, PerDay limit: 0"
        )
        assert ask(status=400, body=openai("context_length_exceeded", message=text)).error_class is DECLINED
        assert ask(status=429, body=openai("rate_limit_exceeded", message=text)).error_class is RATE_LIMITED
        assert ask(status=500, body=openai(None, message=text)).error_class is TRANSIENT
        assert ask(status=500, body=text.encode()).error_class is TRANSIENT

    def test_overloaded_by_code(self) -> None:
        assert ask(status=500, body=openai("server_is_overloaded")).error_class is CAPACITY
        assert ask(status=429, body=openai("slow_down", "rate_limit_error")).error_class is RATE_LIMITED

    def test_rejected_key_is_never_quoted(self) -> None:
        text = "Incorrect API key provided: sk-proj-********abcd."
        found = ask(status=401, body=openai("invalid_api_key", "invalid_request_error", text))
        assert found.error_class is KEY_REJECTED
        assert found.message == "HTTP 401 invalid_api_key: the provider rejected this key."

    def test_other_servers_of_the_protocol(self) -> None:
        flat = {
            "object": "error",
            "message": "max_tokens is too large",
            "type": "BadRequestError",
            "code": 400,
        }
        assert ask(status=400, body=flat).message == "HTTP 400 BadRequestError: max_tokens is too large"
        assert ask(status=404, body={"error": "model not found"}).message == "HTTP 404: model not found"
        assert ask(status=404, body={"detail": "Not Found"}).message == "HTTP 404: Not Found"

    def test_google_behind_the_openai_protocol(self) -> None:
        found = ask(body=[google(quota(PER_MINUTE, "5"), retry_info("12s"))])
        assert found.error_class is RATE_LIMITED
        assert found.retry_after == 12


class TestAnthropic:
    def test_rate_limit(self) -> None:
        found = ask("anthropic", 429, anthropic("rate_limit_error"), {"retry-after": "23"})
        assert found.error_class is RATE_LIMITED
        assert found.retry_after == 23

    def test_overloaded(self) -> None:
        for status in (529, 503, 500):
            found = ask(
                "anthropic", status, anthropic("overloaded_error", "Overloaded"), {"retry-after": "4"}
            )
            assert found.error_class is CAPACITY
            assert found.retry_after == 4

    def test_spend_limit_of_the_tier(self) -> None:
        body = anthropic("rate_limit_error", error_code="enforced_spend_limit_reached")
        assert ask("anthropic", 429, body).error_class is NO_CREDIT
        passing = ask("anthropic", 429, body, {"retry-after": "60"})
        assert passing.error_class is RATE_LIMITED
        assert passing.retry_after == 60

    def test_a_limit_on_growth_is_passing(self) -> None:
        body = anthropic("rate_limit_error", error_code="ramp_limit_exceeded")
        assert ask("anthropic", 429, body).error_class is RATE_LIMITED

    def test_organization_on_hold(self) -> None:
        body = anthropic("invalid_request_error", error_code="organization_on_hold")
        assert ask("anthropic", 400, body).error_class is KEY_REJECTED

    def test_spend_limit_of_the_user(self) -> None:
        sentence = "You have reached your specified API usage limits. You will regain access on 2026-12-01."
        assert ask("anthropic", 400, anthropic("invalid_request_error", sentence)).error_class is NO_CREDIT
        quoted = anthropic("invalid_request_error", f"messages.0: not valid: '{sentence}'")
        assert ask("anthropic", 400, quoted).error_class is BAD_REQUEST
        assert ask("openai", 400, openai(None, message=sentence)).error_class is BAD_REQUEST
        coded = anthropic("invalid_request_error", error_code="workspace_spend_limit_reached")
        assert ask("anthropic", 400, coded).error_class is NO_CREDIT

    def test_billing(self) -> None:
        assert ask("anthropic", 402, anthropic("billing_error")).error_class is NO_CREDIT
        assert ask("anthropic", 400, anthropic("billing_error")).error_class is NO_CREDIT
        low = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing."
        assert ask("anthropic", 400, anthropic("invalid_request_error", low)).error_class is NO_CREDIT

    def test_reset_of_the_used_up_limit(self) -> None:
        headers = {
            "anthropic-ratelimit-requests-remaining": "12",
            "anthropic-ratelimit-requests-reset": "2026-11-15T20:30:00Z",
            "anthropic-ratelimit-input-tokens-remaining": "0",
            "anthropic-ratelimit-input-tokens-reset": "2026-11-15T20:00:41Z",
        }
        assert ask("anthropic", 429, anthropic("rate_limit_error"), headers).retry_after == pytest.approx(41)


class TestGemini:
    def test_minute(self) -> None:
        found = ask("gemini", 429, google(quota(PER_MINUTE, "5"), retry_info("36.5s")))
        assert found.error_class is RATE_LIMITED
        assert found.retry_after == 36.5
        assert found.quota_reset is None

    def test_day_that_comes_back_soon_is_passing(self) -> None:
        found = ask("gemini", 429, google(quota(PER_DAY, "20"), retry_info("36s")))
        assert found.error_class is RATE_LIMITED
        assert found.retry_after == 36

    def test_day(self) -> None:
        found = ask("gemini", 429, google(quota(PER_DAY, "20")))
        assert found.error_class is QUOTA_EXHAUSTED
        assert found.retry_after is None
        assert found.quota_reset == 12 * 3600

    def test_day_with_the_servers_own_reset(self) -> None:
        found = ask("gemini", 429, google(quota(PER_DAY, "20"), retry_info("30000s")))
        assert found.error_class is QUOTA_EXHAUSTED
        assert found.quota_reset == 30_000

    def test_no_quota_for_the_model(self) -> None:
        explicit = ask("gemini", 429, google(quota(PER_MINUTE, "0"), retry_info("9s")))
        lines = (
            "You exceeded your current quota, please check your plan and billing details.\n"
            "* Quota exceeded for metric: generativelanguage.googleapis.com/generate_content_free_tier_"
            "requests, limit: 0, model: gemini-3-pro\nPlease retry in 45.5s."
        )
        as_line = ask("gemini", 429, google(quota(PER_DAY), retry_info("45s"), message=lines))
        for found in (explicit, as_line):
            assert found.error_class is NO_MODEL
            assert (found.quota_reset, found.retry_after) == (None, None)
        twenty = lines.replace("limit: 0", "limit: 20")
        assert ask("gemini", 429, google(retry_info("45s"), message=twenty)).error_class is RATE_LIMITED
        loose = google(retry_info("45s"), message="your prompt says limit: 0")
        assert ask("gemini", 429, loose).error_class is RATE_LIMITED

    def test_without_details(self) -> None:
        bare = {
            "error": {"code": 429, "message": "Resource has been exhausted.", "status": "RESOURCE_EXHAUSTED"}
        }
        found = ask("gemini", 429, bare)
        assert found.error_class is RATE_LIMITED
        assert found.retry_after is None

    def test_wrong_key_is_a_400(self) -> None:
        info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
        found = ask("gemini", 400, google(info, status="INVALID_ARGUMENT", message="API key not valid."))
        assert found.error_class is KEY_REJECTED
        bad = google(status="INVALID_ARGUMENT", message="API key not valid.")
        assert ask("gemini", 400, bad).error_class is BAD_REQUEST

    def test_capacity(self) -> None:
        assert ask("gemini", 503, google(status="UNAVAILABLE", message="overloaded")).error_class is CAPACITY


class TestPacificMidnight:
    @pytest.mark.parametrize(
        ("moment", "hours"),
        [
            (datetime(2026, 7, 1, 6, 0, tzinfo=UTC), 1),  # summer: midnight is 07:00 UTC
            (datetime(2026, 12, 1, 7, 0, tzinfo=UTC), 1),  # winter: 08:00 UTC
            (datetime(2026, 12, 1, 8, 0, tzinfo=UTC), 24),
            (datetime(2026, 3, 8, 9, 0, tzinfo=UTC), 22),  # 01:00, clocks go forward that night
        ],
    )
    def test_with_zone_data(self, moment: datetime, hours: float) -> None:
        assert module.seconds_to_pacific_midnight(moment.timestamp()) == hours * 3600

    def test_without_zone_data(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def missing(name: str) -> None:
            raise ZoneInfoNotFoundError(name)

        monkeypatch.setattr(module, "ZoneInfo", missing)
        module._pacific.cache_clear()
        try:
            summer = datetime(2026, 7, 1, 6, 0, tzinfo=UTC).timestamp()
            assert module.seconds_to_pacific_midnight(summer) == 2 * 3600  # an hour late, never early
        finally:
            module._pacific.cache_clear()


class TestDelays:
    @pytest.mark.parametrize(
        ("headers", "expected"),
        [
            ({"Retry-After": "12"}, 12),
            ({"RETRY-AFTER": " 0.25 "}, 0.25),
            ({"retry-after": "1m30s"}, 90),
            ({"retry-after": format_datetime(datetime(2026, 11, 15, 20, 2, tzinfo=UTC), usegmt=True)}, 120),
            ({"retry-after": "2026-11-15T20:00:09.123456789Z"}, 9.123456),
            ({"retry-after": str(int(NOW) + 77)}, 77),
            ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
            ({"retry-after-ms": "-1", "retry-after": "2"}, 2),
            ({"x-ratelimit-reset-requests": "6m0s"}, 360),
            ({"x-ratelimit-reset-requests": "20ms"}, 0.02),
            ({"x-ratelimit-reset-tokens": "1h2m3.5s"}, 3723.5),
            ({"x-ratelimit-reset-requests": "59.701", "x-ratelimit-remaining-requests": "0"}, 59.701),
            ({"X-RateLimit-Reset": str(int(NOW + 60) * 1000), "X-RateLimit-Remaining": "0"}, 60),
            ({"retry-after": "200000"}, MAX_DELAY),
            ({"retry-after": "99999999"}, None),
            ({"retry-after": "0"}, None),
            ({"retry-after": "-1"}, None),
            ({"retry-after": "nan"}, None),
            ({"retry-after": "inf"}, None),
            ({"retry-after": "1e3"}, None),
            ({"retry-after": "1_000"}, None),
            ({"retry-after": "soon"}, None),
            ({"retry-after": "٣"}, None),
            ({"retry-after": "9" * 5000}, None),
            ({"retry-after": format_datetime(datetime(2020, 1, 1, tzinfo=UTC), usegmt=True)}, None),
            ({"x-ratelimit-reset-tokens": "0", "x-ratelimit-remaining-tokens": "-1"}, None),
        ],
    )
    def test_headers(self, headers: dict[str, str], expected: float | None) -> None:
        found = ask(body=openai("rate_limit_exceeded"), headers=headers).retry_after
        assert found == (None if expected is None else pytest.approx(expected))

    def test_a_limit_with_something_left_does_not_delay(self) -> None:
        headers = {
            "x-ratelimit-remaining-requests": "0",
            "x-ratelimit-reset-requests": "2s",
            "x-ratelimit-remaining-tokens": "9000",
            "x-ratelimit-reset-tokens": "40s",
        }
        assert ask(body=openai("rate_limit_exceeded"), headers=headers).retry_after == 2
        headers["x-ratelimit-remaining-requests"] = "3"
        assert ask(body=openai("rate_limit_exceeded", "tokens"), headers=headers).retry_after == 40
        assert ask(body=openai("rate_limit_exceeded", "other"), headers=headers).retry_after is None

    @pytest.mark.parametrize("delay", ["", "0s", "-5s", "36", "s", "1e3s", "nan", "1s" * 50_000])
    def test_nonsense_in_retry_info(self, delay: str) -> None:
        assert ask("gemini", 429, google(retry_info(delay))).retry_after is None

    def test_dates_are_measured_by_the_servers_clock(self) -> None:
        server = datetime(2026, 11, 15, 22, 0, tzinfo=UTC)  # ours is two hours behind
        headers = {
            "date": format_datetime(server, usegmt=True),
            "retry-after": format_datetime(server.replace(second=30), usegmt=True),
        }
        assert ask(headers=headers).retry_after == 30

    def test_only_where_waiting_helps(self) -> None:
        headers = {"retry-after": "5"}
        assert ask(status=503, headers=headers).retry_after == 5
        assert ask(status=502, headers=headers).retry_after == 5
        assert ask(status=400, headers=headers).retry_after is None
        assert ask(status=401, headers=headers).retry_after is None


class TestMessage:
    def test_is_safe_and_short(self) -> None:
        text = "a\x1b[31mred\r\nline\x00\u202e\u2028end\ud800 " + "long " * 5000
        shown = ask(status=400, body=openai(None, message=text)).message
        assert len(shown) <= MAX_MESSAGE
        assert shown.isprintable()
        assert shown.startswith("HTTP 400 requests: a [31mred line end long")

    def test_html(self) -> None:
        found = ask(status=502, body=b"<html><body>502 Bad Gateway 429 insufficient_quota</body></html>")
        assert found.error_class is CallError.DROPPED
        assert found.message == "HTTP 502: Bad Gateway (64 bytes that are not an error of this provider)"

    @pytest.mark.parametrize(
        ("provider", "status", "body"),
        [
            (
                "openai",
                404,
                openai("model_not_found", "invalid_request_error", "The model `x` does not exist"),
            ),
            ("openai", 404, openai("DeploymentNotFound", "", "The API deployment does not exist.")),
            (
                "openai",
                404,
                {"message": "The model `x` does not exist.", "type": "NotFoundError", "code": 404},
            ),
            ("openai", 404, {"error": {"message": 'model "x" not found, try pulling it first'}}),
            ("openai", 400, {"message": "Invalid model: x", "type": "invalid_model", "code": "1500"}),
            ("openai", 400, openai(None, "invalid_request_error", "Model Not Exist")),
            ("openai", 400, openai("400", "", "Invalid model name passed in model=x. Call `/v1/models`")),
            ("openai", 400, {"error": {"message": "some/x is not a valid model ID", "code": 400}}),
            (
                "openai",
                400,
                openai(None, "", "The model `some/x` does not exist or you have no access to it."),
            ),
            ("anthropic", 404, anthropic("not_found_error", "model: claude-x")),
            ("gemini", 404, google(status="NOT_FOUND", message="models/x is not found for API version v1")),
        ],
    )
    def test_a_model_that_does_not_exist(self, provider: Kind, status: int, body: Any) -> None:
        assert ask(provider, status, body).error_class is NO_MODEL

    @pytest.mark.parametrize(
        ("status", "body"),
        [
            (400, openai(None, "", "The provided model identifier is invalid.")),
            (400, openai(None, "", "Unknown model: foo")),
            (404, openai("404", "", "No endpoints found for some/foo.")),
            (400, openai("model_not_supported", "", "The requested model is not supported.")),
            (400, openai(None, "", "Unable to access model foo. Please visit the list of models.")),
            (401, openai("401", "key_model_access_denied", "key not allowed to access model.")),
            (403, openai("model_not_found", "", "Project `p` does not have access to model `gpt-5`")),
            (403, openai(None, "permission_error", "Your API key may not use the specified model.")),
            (403, openai("403", "", "You are not allowed to access this deployment.")),
        ],
    )
    def test_a_refusal_of_a_model_does_not_blame_the_key(self, status: int, body: Any) -> None:
        assert ask(status=status, body=body).error_class is NO_MODEL

    @pytest.mark.parametrize(
        ("status", "body"),
        [
            (
                403,
                openai("403", "", "Key limit exceeded (total limit). Manage it using https://x.example/keys"),
            ),
            (429, google(message="Your prepayment credits are depleted. Please go to AI Studio.")),
            (429, {"error": "Your team 1f has either used all available credits or reached its limit."}),
            (403, {"error": "Your newly created teams doesn't have any credits yet."}),
            (429, openai("1113", "", "Insufficient balance or no resource package. Please recharge.")),
            (429, openai(None, "exceeded_current_quota_error", "Your account is suspended.")),
            (400, openai("Arrearage", "Arrearage", "Access denied.")),
            (403, openai("insufficient_quota", "", "Add credit.")),
        ],
    )
    def test_an_account_without_credit_does_not_blame_the_key(self, status: int, body: Any) -> None:
        assert ask(status=status, body=body).error_class is NO_CREDIT

    def test_a_prompt_about_credit_is_not_a_sign(self) -> None:
        quoted = openai("", "", "The prompt 'insufficient balance' is odd.")
        assert ask(status=400, body=quoted).error_class is CallError.BAD_REQUEST

    def test_a_refusal_of_the_account_does_not_blame_the_key(self) -> None:
        info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "SERVICE_DISABLED"}
        disabled = google(info, status="PERMISSION_DENIED", message="The API has not been used in project 1.")
        assert ask("gemini", 403, disabled).error_class is CallError.FORBIDDEN
        place = google(
            status="FAILED_PRECONDITION", message="User location is not supported for the API use."
        )
        assert ask("gemini", 400, place).error_class is CallError.FORBIDDEN
        country = openai("unsupported_country_region_territory", "request_forbidden", "Country not supported")
        assert ask(status=403, body=country).error_class is CallError.FORBIDDEN

    @pytest.mark.parametrize(
        ("status", "body"),
        [
            (403, openai(None, "permission_error", "Your API key has no permission for this resource.")),
            (403, openai("invalid_api_key", "", "This key may not use any model.")),
            (401, openai(None, "", "No such key; see the models page.")),
            (401, b"<html>401 Unauthorized</html>"),
        ],
    )
    def test_a_refusal_of_the_key(self, status: int, body: Any) -> None:
        assert (
            ask(status=status, body=body, headers={"content-type": "text/html"}).error_class is KEY_REJECTED
        )

    @pytest.mark.parametrize("status", [400, 403, 404])
    def test_a_web_page_is_not_this_api(self, status: int) -> None:
        page = b"<html>The plain HTTP request was sent to HTTPS port</html>"
        found = ask(status=status, body=page, headers={"Content-Type": "text/html; charset=utf-8"})
        assert found.error_class is WRONG_ENDPOINT

    def test_a_sentence_in_the_middle_says_nothing_about_the_model(self) -> None:
        quoted = openai(None, "invalid_request_error", "messages.0: 'the model x does not exist' is too long")
        assert ask(status=400, body=quoted).error_class is DECLINED

    @pytest.mark.parametrize(
        ("status", "body"),
        [
            (404, b"<html><body>404 Not Found</body></html>"),
            (404, b"404 page not found"),
            (404, {"detail": "Not Found"}),
            (404, openai(None, "invalid_request_error", "Invalid URL (POST /v2/chat/completions)")),
            (405, {"detail": "Method Not Allowed"}),
            (400, openai("BadRequest", "", "Unsupported API version")),
            (307, b""),
        ],
    )
    def test_an_address_without_the_api(self, status: int, body: Any) -> None:
        assert ask(status=status, body=body).error_class is WRONG_ENDPOINT

    def test_redirect(self) -> None:
        assert (
            "redirects elsewhere"
            in ask(status=302, headers={"location": "https://elsewhere.example/"}).message
        )


@pytest.mark.parametrize(
    "body",
    [
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"error":' * 20_000,
        b'{"error":{"code":"insufficient_quota","code":"rate_limit_exceeded"}}',
        b'{"error":{"code":NaN}}',
        b'{"error":' + b"9" * 10_000 + b"}",
        b'{"error":{"code":"insufficient_quota"}}' + b" " * 2_000_000,
        b'{"error":{"details":[[],{},{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[1]}]}}',
        b'{"error":{"details":{"error_code":7}}}',
        b"null",
        b"[]",
        b'""',
    ],
)
@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini"])
def test_untrustworthy_bodies_leave_it_to_the_status(provider: Kind, body: bytes) -> None:
    assert ask(provider, 429, body).error_class is RATE_LIMITED
    assert ask(provider, 500, body).error_class is TRANSIENT


_NAMES = st.sampled_from(
    [
        "retry-after",
        "retry-after-ms",
        "date",
        "x-ratelimit-reset-requests",
        "x-ratelimit-remaining-requests",
        "anthropic-ratelimit-tokens-reset",
        "anthropic-ratelimit-tokens-remaining",
    ]
)


@pytest.mark.parametrize(
    ("quota_id", "value", "limits"),
    [
        (PER_MINUTE, "60", {"rpm": 60.0}),
        (PER_DAY, "250", {"rpd": 250.0}),
        ("GenerateContentPaidTierInputTokensPerModelPerMinute", "1000000", {"itpm": 1e6}),
        ("GenerateContentInputTokensPerModelPerDay-FreeTier", "1000000", {}),
        ("GenerateConcurrentRequestsPerProjectPerModel", "5", {}),
        (PER_MINUTE, "-3", {}),
        (PER_MINUTE, "lots", {}),
        (PER_MINUTE, "9" * 16, {}),
        (PER_MINUTE, None, {}),
    ],
)
def test_the_limit_that_refused_a_call_is_read(
    quota_id: str, value: str | None, limits: dict[str, float]
) -> None:
    body = json.dumps(google(quota(quota_id, value), retry_info("3.2s"))).encode()
    found = classify("gemini", 429, {}, body, now_wall=NOW)
    assert found.limits == limits
    assert found.error_class is RATE_LIMITED
    assert found.retry_after == 3.2


_KEYS = st.sampled_from(["error", "code", "type", "message", "status", "details", "@type", "violations"]) | (
    st.sampled_from(["quotaId", "quotaValue", "retryDelay", "error_code", "reason"])
)
_WORDS = st.sampled_from(
    [
        "insufficient_quota",
        "PerDay",
        "RESOURCE_EXHAUSTED",
        "36s",
        "0",
        "7",
        "RequestsPerMinute",
        "API_KEY_INVALID",
    ]
    + ["7", "RequestsPerMinute"]
    + [f"type.googleapis.com/google.rpc.{kind}" for kind in ("RetryInfo", "QuotaFailure", "ErrorInfo")]
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | _WORDS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(_KEYS | st.text(max_size=5), inner, max_size=5)
    ),
    max_leaves=20,
)


@given(
    provider=st.sampled_from(["openai", "anthropic", "gemini"]),
    status=st.integers(-1, 1000),
    headers=st.dictionaries(
        _NAMES | st.text(max_size=10), st.text(max_size=40) | st.dates().map(str), max_size=6
    ),
    body=st.binary(max_size=200) | _JSON.map(lambda value: json.dumps(value).encode()),
    now=st.floats() | st.floats(0, 4e9),
)
def test_never_raises(provider: Kind, status: int, headers: dict[str, str], body: bytes, now: float) -> None:
    found = classify(provider, status, headers, body, now_wall=now)
    assert found.message.isprintable()
    assert 0 < len(found.message) <= MAX_MESSAGE
    assert found.retry_after is None or 0 < found.retry_after <= MAX_DELAY
    assert all(1 <= value <= 1e12 for value in found.limits.values())
    assert found.quota_reset is None or (found.quota_reset > 0 and math.isfinite(found.quota_reset))


@given(seconds=st.floats(0.001, 40 * 86_400), provider=st.sampled_from(["openai", "anthropic", "gemini"]))
def test_any_real_delay_is_taken(seconds: float, provider: Kind) -> None:
    text = f"{seconds:.3f}"
    found = ask(provider, 429, b"", {"retry-after": text})
    assert found.retry_after == pytest.approx(min(float(text), MAX_DELAY))
