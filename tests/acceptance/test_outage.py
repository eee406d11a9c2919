"""Errors seen once: what every item would get stops the run, and a provider that is down is waited for."""

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from agentos.simulator import KeyConfig, SimulatorConfig, running_simulator
from harness.certificate import make_certificate
from harness.odd_provider import SECRET, OddAnswer, OddBench, OddProvider, running_odd_provider
from harness.processes import wait_until
from harness.project import Project, Result


@pytest.fixture
def odd(project: Project) -> Iterator[OddBench]:
    with running_odd_provider() as provider:
        yield OddBench(project=project, provider=provider)


def without_model(name: str) -> OddAnswer:
    error = {"message": f"The model `{name}` does not exist", "code": "model_not_found", "type": "invalid"}
    return OddAnswer(status=404, body={"error": error})


def refuse(provider: OddProvider, answer: OddAnswer, *, role: str | None = None) -> None:
    """Answer every call like this, or every call of one role."""

    def spoil(_prompt: str, made: OddAnswer) -> None:
        if role is None or made.body["model"] == role:
            made.status, made.headers, made.body = answer.status, answer.headers, answer.body

    provider.spoil = spoil


def told(result: Result, words: str) -> list[str]:
    return [line for line in result.text.splitlines() if words in line]


@pytest.mark.slow
def test_a_model_that_does_not_exist_costs_as_many_calls_as_items_run_at_once(
    odd: OddBench, project: Project
) -> None:
    project.issues(30)
    refuse(odd.provider, without_model("drafter"))
    result = odd.run("lld", "--all", "-j4")
    assert result.code == 2, result.text
    assert 1 <= odd.provider.calls <= 4
    statuses = list(project.statuses().values())
    assert statuses.count("paused") <= 4
    assert set(statuses) == {"paused", "pending"}
    host = odd.provider.url.removeprefix("http://")
    (line,) = told(result, "is not available at")
    assert f"openai:drafter is not available at {host}: HTTP 404 model_not_found" in line
    assert f"Check drafter in {odd.config}; 'agentos doctor --live' tests it." in line
    assert told(result, "doctor --live    # test the models and their servers")
    # The configuration is repaired: the same command goes on.
    odd.provider.spoil, odd.provider.calls = None, 0
    result = odd.run("lld", "--all", "-j4")
    assert result.code == 0, result.text
    assert set(project.statuses().values()) == {"approved"}
    assert odd.provider.calls == 60


@pytest.mark.parametrize("at_once", [1, 3])
def test_the_same_refusal_of_every_item_costs_as_many_calls_as_items_run_at_once(
    odd: OddBench, project: Project, at_once: int
) -> None:
    project.issues(12)
    odd_text = {"error": {"message": "Something is odd.", "type": "invalid_request_error"}}
    refuse(odd.provider, OddAnswer(status=400, body=odd_text))
    result = odd.run("lld", "--all", f"-j{at_once}")
    assert result.code == 2, result.text
    assert 2 <= odd.provider.calls <= max(2, at_once), "the second item shows that it is not the first one's"
    assert set(project.statuses().values()) == {"paused", "pending"}
    (line,) = told(result, "Something is odd")
    assert "openai:drafter refuses every request: HTTP 400 invalid_request_error: Something is odd." in line


def test_drafts_that_were_paid_for_are_not_paid_again_once_the_reviewer_is_right(
    odd: OddBench, project: Project
) -> None:
    project.issues(8)
    refuse(odd.provider, without_model("reviewer"), role="reviewer")
    result = odd.run("lld", "--all", "-j4")
    assert result.code == 2, result.text
    assert "openai:reviewer is not available" in result.text
    drafts = sum(project.calls(item) == [("drafter", 1)] for item in project.statuses())
    assert 1 <= drafts <= 4
    assert odd.provider.calls - drafts <= 4
    odd.provider.spoil, odd.provider.calls = None, 0
    assert odd.run("lld", "--all", "-j4").code == 0
    assert odd.provider.calls == 16 - drafts


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (OddAnswer(status=404, headers={"content-type": "text/html"}, body=b"<html>no</html>"), "HTTP 404"),
        (OddAnswer(status=200, headers={"content-type": "text/html"}, body=b"<html>hi</html>"), "a web page"),
        (OddAnswer(status=307, headers={"location": "https://elsewhere.invalid/"}, body=b""), "redirects"),
    ],
    ids=["404", "page", "redirect"],
)
def test_an_address_without_the_api_stops_the_run(
    odd: OddBench, project: Project, answer: OddAnswer, words: str
) -> None:
    project.issues(5)
    refuse(odd.provider, answer)
    result = odd.run("lld", "--all", "-j2", "--max-retries", "0")
    assert result.code == 2, result.text
    assert odd.provider.calls <= 2
    (line,) = told(result, "no such API at")
    assert words in line
    assert f"Check base_url of openai in your configuration file ({odd.config});" in line
    assert "failed" not in project.statuses().values()


def test_out_of_credit_on_every_key_is_exit_4_and_said_once(odd: OddBench, project: Project) -> None:
    project.issues(6)
    error = {"message": "You exceeded your current quota.", "code": "insufficient_quota", "type": "x"}
    refuse(odd.provider, OddAnswer(status=429, body={"error": error}))
    keys = {"OPENAI_API_KEY_1": "second-odd-secret", "OPENAI_API_KEY_2": "third-odd-secret"}
    result = odd.run("lld", "--all", "-j3", **keys)
    assert result.code == 4, result.text
    assert len(told(result, "every key is out of credit")) == 1
    assert odd.provider.calls <= 3 + 2
    assert set(project.statuses().values()) == {"paused", "pending"}


KEYS = {"OPENAI_API_KEY_1": "second-odd-secret", "OPENAI_API_KEY_2": "third-odd-secret"}
CREDIT = {
    "402": OddAnswer(status=402, body={"error": {"message": "Payment required.", "code": 402}}),
    "429": OddAnswer(
        status=429, body={"error": {"message": "You exceeded your quota.", "code": "insufficient_quota"}}
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", CREDIT)
def test_a_new_run_tries_a_key_without_credit_once_at_once(
    odd: OddBench, project: Project, kind: str
) -> None:
    project.issues(6)

    def slowly(_key: str, _model: str) -> OddAnswer:
        time.sleep(1.5)  # longer than other calls would wait for a slow start
        return CREDIT[kind]

    odd.provider.deny = slowly
    assert odd.run("lld", "--all", "-j3").code == 4
    for _ in range(2):
        odd.provider.calls = 0
        began = time.monotonic()
        result = odd.run("lld", "--all", "-j3")
        assert result.code == 4, result.text
        assert time.monotonic() - began < 20
        assert odd.provider.calls == 1
        assert len(told(result, "every key is out of credit")) == 1
        assert set(project.statuses().values()) == {"paused", "pending"}
    # The user adds credit.
    odd.provider.deny, odd.provider.calls = None, 0
    began = time.monotonic()
    result = odd.run("lld", "--all", "-j3")
    assert result.code == 0, result.text
    assert time.monotonic() - began < 20
    assert not told(result, "resuming in")
    assert odd.provider.calls == 12


@pytest.mark.slow
def test_a_new_run_tries_a_server_that_was_overloaded_at_once(odd: OddBench, project: Project) -> None:
    project.issues(2)
    odd.provider.deny = lambda _key, _model: OddAnswer(status=503, body={"error": {"message": "Loading."}})
    assert odd.run("lld", "--all", "--no-wait", "--max-retries", "0", "-j2").code == 1
    odd.provider.deny, odd.provider.calls = None, 0
    began = time.monotonic()
    result = odd.run("lld", "--all", "--retry-failed", "-j2")
    assert result.code == 0, result.text
    assert time.monotonic() - began < 8
    assert odd.provider.calls == 4


def test_a_rest_that_the_server_told_holds_for_the_next_run(odd: OddBench, project: Project) -> None:
    project.issues(2)
    error = {"message": "Slow down.", "code": "rate_limit_exceeded"}
    refused = OddAnswer(status=429, headers={"retry-after": "900"}, body={"error": error})
    odd.provider.deny = lambda _key, _model: refused
    assert odd.run("lld", "--all", "--no-wait", "-j1").code == 75
    odd.provider.deny, odd.provider.calls = None, 0
    result = odd.run("lld", "--all", "--no-wait", "-j1")
    assert result.code == 75, result.text
    assert odd.provider.calls == 0


NO_ACCESS = {
    "OpenAI": (
        403,
        {"message": "Project `p` does not have access to model `drafter`", "code": "model_not_found"},
    ),
    "OpenAI 404": (404, {"message": "The model `drafter` does not exist or you do not have access to it."}),
    "LiteLLM": (401, {"message": "key not allowed to access model.", "type": "key_model_access_denied"}),
    "Google": (403, {"message": "The API is off.", "code": "SERVICE_DISABLED"}),
}


@pytest.mark.parametrize("words", NO_ACCESS)
def test_a_key_without_access_to_a_model_is_not_used_for_it_and_the_others_go_on(
    odd: OddBench, project: Project, words: str
) -> None:
    project.issues(6)
    status, error = NO_ACCESS[words]
    bad = {SECRET, KEYS["OPENAI_API_KEY_1"]}

    def deny(key: str, model: str) -> OddAnswer | None:
        return OddAnswer(status=status, body={"error": error}) if key in bad and model == "drafter" else None

    odd.provider.deny = deny
    result = odd.run("lld", "--all", "-j2", "--max-retries", "0", **KEYS)
    assert result.code == 0, result.text
    assert set(project.statuses().values()) == {"approved"}
    refused = [key for key, model in odd.provider.used if model == "drafter" and key in bad]
    assert len(refused) <= 3
    assert odd.provider.calls == 12 + len(refused)
    reviews = {key for key, model in odd.provider.used if model == "reviewer"}
    assert reviews & bad, "only the drafter's model is denied"
    assert len(told(result, "is not used for openai:drafter, because it has no access")) == len(set(refused))
    # Nobody has access: the run stops, says it once, and nothing has failed.
    bad.add(KEYS["OPENAI_API_KEY_2"])
    project.issues(20)
    odd.provider.used.clear()
    result = odd.run("lld", "--all", "-j2", "--max-retries", "0", **KEYS)
    assert result.code == 2, result.text
    assert len(odd.provider.used) <= 2 + 2
    assert "failed" not in project.statuses().values()
    assert len(told(result, str(error["message"]).rstrip("."))) == 1


def test_a_certificate_that_is_not_trusted_stops_the_run(project: Project, tmp_path: Path) -> None:
    project.issues(5)
    with tls_server(make_certificate(tmp_path)) as port:
        odd = OddBench(project=project, provider=OddProvider(url=f"https://127.0.0.1:{port}"))
        result = odd.run("lld", "--all", "-j2")
    assert result.code == 2, result.text
    line = f"openai: 127.0.0.1:{port}: the certificate is not trusted: it is self-signed."
    assert len(told(result, line)) == 1
    assert "failed" not in project.statuses().values()


@contextmanager
def tls_server(context: ssl.SSLContext) -> Iterator[int]:
    """A server that nobody should get to talk to."""
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


# A provider that is down.


def closed_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port: int = server.getsockname()[1]
    return port


def waiting_for(project: Project, port: int) -> OddBench:
    return OddBench(project=project, provider=OddProvider(url=f"http://127.0.0.1:{port}"))


def test_a_server_that_starts_later_gets_all_the_items(project: Project) -> None:
    project.issues(12)
    port = closed_port()
    odd = waiting_for(project, port)
    run = project.start("--config", odd.config, "lld", "--all", "-j4", env={"OPENAI_API_KEY": SECRET})
    wait_until(lambda: project.runs() and project.events("provider_down"), "the outage", 30)
    settled = [event for event in project.events("settled") if event["error"] == "unreachable"]
    assert len(settled) <= 4 + 2
    keys = (KeyConfig(secret=SECRET),)
    with running_simulator(SimulatorConfig(keys=keys, latency=0.01, port=port)):
        result = project.finish(run, 90)
    assert result.code == 0, result.text
    assert set(project.statuses().values()) == {"approved"}
    (down,) = told(result, "is down")
    assert f"openai is down: 127.0.0.1:{port}: connection refused" in down
    assert len(told(result, "openai is back after")) == 1
    failed = [event for event in project.events("settled") if event["error"] == "unreachable"]
    assert len(failed) <= 4 + 8, "one call at a time tried it"
    audits = [one for item in project.statuses() for one in project.audits(item)]
    assert {one["tries"] for one in audits if one["kind"] == "call"} == {1}, "an outage is not a try"
    assert {event["kind"] for event in project.events("waiting")} >= {"outage"}


@pytest.mark.slow
def test_a_server_behind_a_gateway_that_is_down_is_waited_for(odd: OddBench, project: Project) -> None:
    project.issues(8)
    page = OddAnswer(status=502, headers={"content-type": "text/html"}, body=b"<html>Bad Gateway</html>")
    began = time.monotonic()
    odd.provider.deny = lambda _key, _model: page if time.monotonic() - began < 8 else None
    result = odd.run("lld", "--all", "-j4")
    assert result.code == 0, result.text
    assert set(project.statuses().values()) == {"approved"}
    host = odd.provider.url.removeprefix("http://")
    (down,) = told(result, "is down")
    assert f"openai is down: {host}: HTTP 502: Bad Gateway" in down
    assert len(told(result, "openai is back after")) == 1
    assert odd.provider.calls <= 16 + 4 + 5, "one call at a time tried it"


@pytest.mark.slow
def test_a_server_that_goes_away_in_the_middle_costs_no_item_anything(project: Project) -> None:
    project.issues(12)
    port = closed_port()
    odd = waiting_for(project, port)
    config = SimulatorConfig(keys=(KeyConfig(secret=SECRET),), latency=0.05, port=port)
    with running_simulator(config):
        run = project.start("--config", odd.config, "lld", "--all", "-j4", env={"OPENAI_API_KEY": SECRET})
        wait_until(lambda: project.runs() and project.events("completed"), "an approval", 30)
    wait_until(lambda: project.events("provider_down"), "the outage", 30)
    with running_simulator(config):
        result = project.finish(run, 90)
    assert result.code == 0, result.text
    assert set(project.statuses().values()) == {"approved"}
    assert set(project.outcomes().values()) == {1}
    calls = [one for item in project.statuses() for one in project.calls(item)]
    assert sorted(calls) == [("drafter", 1)] * 12 + [("reviewer", 1)] * 12


@pytest.mark.slow
def test_a_run_that_may_not_wait_longer_is_resumed_without_paying_twice(project: Project) -> None:
    project.issues(4)
    with running_odd_provider() as up:
        odd = OddBench(project=project, provider=up)
        port = int(up.url.rpartition(":")[2])
        refuse(up, without_model("reviewer"), role="reviewer")
        assert odd.run("lld", "--all", "-j4").code == 2
        paid = sum(len(project.calls(item)) for item in project.statuses())
    assert paid >= 1
    result = odd.run("lld", "--all", "-j4", "--max-wait", "2s")
    assert result.code == 75, result.text
    assert f"openai is still down after 2 s: 127.0.0.1:{port}: connection refused" in result.text
    assert set(project.statuses().values()) == {"paused"}
    keys = (KeyConfig(secret=SECRET),)
    with running_simulator(SimulatorConfig(keys=keys, latency=0.01, port=port)):
        result = odd.run("lld", "--all", "-j4", "--max-wait", "2s")
    assert result.code == 0, result.text
    calls = [one for item in project.statuses() for one in project.calls(item)]
    assert sorted(calls) == [("drafter", 1)] * 4 + [("reviewer", 1)] * 4


def test_a_host_that_does_not_exist_is_named(project: Project) -> None:
    project.issues(3)
    odd = OddBench(project=project, provider=OddProvider(url="http://models.invalid"))
    result = odd.run("lld", "--all", "-j3", "--no-wait")
    assert result.code == 75, result.text
    assert len(told(result, "openai is down: models.invalid: host name not found (DNS)")) == 1
    assert set(project.statuses().values()) == {"paused"}
