"""A browser that stays logged in: the key, its proof, and what the guard lets through for it."""

import hashlib
import hmac
import json
import re
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from agentos.view import lasting_login as module
from agentos.view.access import Door, Guard
from agentos.view.lasting_login import KEY_SECONDS, LastingLogin, login_key, login_routes

PORT = 8765
TOKEN = "t" * 43
OURS = f"http://127.0.0.1:{PORT}"
KEY = b"k" * 32


def proof(challenge: str, *, key: bytes = KEY, port: int = PORT) -> str:
    return hmac.new(key, f"agentos-view\n{port}\n{challenge}".encode(), hashlib.sha256).hexdigest()


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def client_of(login: LastingLogin | None) -> TestClient:
    door = Door(port=PORT, token=TOKEN)
    inside = Route("/{path:path}", lambda _request: PlainTextResponse("inside"), methods=["GET", "POST"])
    app = Starlette(routes=[*login_routes(door, login), inside])
    return TestClient(Guard(app, door), base_url=OURS, headers={"Origin": OURS})


def log_in_again(client: TestClient) -> dict[str, str]:
    """Log in with the key; return what the server gives for it."""
    challenge = client.get("/login/challenge").json()["challenge"]
    answer = client.post("/login", json={"challenge": challenge, "answer": proof(challenge)})
    assert answer.status_code == 200
    found: dict[str, str] = answer.json()
    client.headers["Authorization"] = f"Bearer {found['token']}"
    return found


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def login(clock: Clock) -> LastingLogin:
    return LastingLogin(KEY, port=PORT, clock=clock)


@pytest.fixture
def client(login: LastingLogin) -> TestClient:
    return client_of(login)


def test_a_browser_with_the_key_gets_a_token_but_never_the_key(client: TestClient) -> None:
    assert client.get("/api/runs").status_code == 403
    found = log_in_again(client)
    assert client.get("/api/runs").text == "inside"
    assert found.keys() == {"token"}
    assert TOKEN not in found["token"]
    # What it has opens no way to the key or to the token.
    for body in (found, {"challenge": "", "answer": ""}, {"token": ""}, {}):
        assert client.post("/login", json=body).status_code == 403
    assert client.post("/login/key", json={}).text == "inside"  # there is no such route


def test_a_proof_counts_once_for_this_port_and_for_a_minute(login: LastingLogin, clock: Clock) -> None:
    challenge = login.challenge()
    assert not login.answers(challenge, proof(challenge, port=PORT + 1))
    assert not login.answers(challenge, proof(challenge, key=b"x" * 32))
    assert login.answers(challenge, proof(challenge))
    assert not login.answers(challenge, proof(challenge))
    challenge = login.challenge()
    clock.now += module.ANSWER_SECONDS
    assert not login.answers(challenge, proof(challenge))
    other = LastingLogin(KEY, port=PORT, clock=clock).challenge()
    later = re.sub(r"\.\d+\.", ".999.", login.challenge())
    for invented in ("invented", "", "..", "a.60.b", "a.x.", other, later):
        assert not login.answers(invented, proof(invented))


def test_whoever_asks_for_challenges_takes_none_from_others(client: TestClient) -> None:
    first = client.get("/login/challenge").json()["challenge"]
    for _ in range(300):
        other = client.get("/login/challenge").json()["challenge"]
        client.post("/login", json={"challenge": other, "answer": "wrong"})
    answer = client.post("/login", json={"challenge": first, "answer": proof(first)})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"[]",
        b'{"challenge": 3}',
        b'{"challenge": "\\ud83d", "answer": "\\ud83d"}',
        b'{"token": "\\ud83d"}',
        b"x",
    ],
)
def test_a_broken_answer_is_refused(client: TestClient, body: bytes) -> None:
    refused = client.post("/login", content=body, headers={"Content-Type": "application/json"})
    assert refused.status_code in {400, 403}


@pytest.mark.parametrize("path", ["/api/start", "/api/stop"])
def test_a_login_with_the_key_starts_and_stops_nothing(client: TestClient, path: str) -> None:
    log_in_again(client)
    assert client.post("/api/inbox/LLD-1", json={}).text == "inside"
    refused = client.post(path, json={})
    assert (refused.status_code, "open the address" in refused.json()["error"]) == (403, True)
    client.headers["Authorization"] = f"Bearer {TOKEN}"
    assert client.post(path, json={}).text == "inside"


def test_the_printed_address_gets_the_key_and_clears_what_another_program_left(client: TestClient) -> None:
    entered = client.post("/login", json={"token": TOKEN})
    assert entered.json() == {"token": TOKEN, "key": KEY.hex()}
    assert entered.headers["Clear-Site-Data"] == '"storage"'
    for path in ("/", "/login/challenge"):  # the key is in the browser's storage
        assert "Clear-Site-Data" not in client.get(path).headers
    assert client.post("/login", json={"token": "wrong"}).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": f"evil.example:{PORT}"},  # DNS rebinding
        {"Origin": "http://evil.example"},
        {"Origin": f"http://127.0.0.1:{PORT + 1}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_the_guard_is_as_strict_for_the_login(client: TestClient, headers: dict[str, str]) -> None:
    assert client.get("/login/challenge", headers=headers).status_code == 403
    challenge = client.get("/login/challenge").json()["challenge"]
    body = {"challenge": challenge, "answer": proof(challenge)}
    assert client.post("/login", json=body, headers=headers).status_code == 403
    plain = client.post("/login", content=json.dumps(body), headers={"Content-Type": "text/plain"})
    assert plain.status_code == 403
    del client.headers["Origin"]
    assert client.post("/login", json=body).status_code == 403  # not from the page


def test_a_server_without_a_lasting_login_gives_no_key() -> None:
    client = client_of(None)
    assert client.get("/login/challenge").status_code == 404
    assert client.post("/login", json={"challenge": "", "answer": ""}).status_code == 403
    assert client.post("/login", json={"token": TOKEN}).json() == {"token": TOKEN}


def test_the_key_is_kept_for_thirty_days_and_is_private(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    key = login_key(folder, 1000.0)
    assert len(key) == 32
    assert login_key(folder, 1000.0 + KEY_SECONDS - 1) == key
    assert (folder / "view-login.json").stat().st_mode & 0o777 == 0o600
    assert login_key(folder, 1000.0 + KEY_SECONDS) != key
    for broken in ("", "[]", "{}", '{"made": 1, "key": "xx"}', '{"made": null, "key": null}'):
        (folder / "view-login.json").write_text(broken, "utf-8")
        assert len(login_key(folder, 5.0)) == 32
