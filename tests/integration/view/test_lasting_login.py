"""A browser that stays logged in: the key, its proof, and what the guard lets through for it."""

import hashlib
import hmac
import json
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
    app = Starlette(routes=[*login_routes(login, door.log_in_again), inside])
    return TestClient(
        Guard(app, door, login), base_url=OURS, follow_redirects=False, headers={"Origin": OURS}
    )


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def login(clock: Clock) -> LastingLogin:
    return LastingLogin(KEY, port=PORT, clock=clock)


@pytest.fixture
def client(login: LastingLogin) -> TestClient:
    return client_of(login)


def test_a_browser_with_the_key_gets_the_cookie(client: TestClient) -> None:
    assert client.get("/api/runs").status_code == 403
    challenge = client.get("/login/challenge").json()["challenge"]
    answer = client.post("/login", json={"challenge": challenge, "answer": proof(challenge)})
    assert answer.status_code == 200
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"agentos-{PORT}=")
    assert TOKEN not in cookie
    for part in ("HttpOnly", "SameSite=strict", "Path=/"):
        assert part in cookie
    assert "Max-Age" not in cookie  # it ends with the browser; only the key lasts
    assert client.get("/api/runs").text == "inside"


def test_a_proof_counts_once_for_this_port_and_for_a_minute(login: LastingLogin, clock: Clock) -> None:
    challenge = login.challenge()
    assert not login.answers(challenge, proof(challenge, port=PORT + 1))
    assert not login.answers(challenge, proof(challenge))  # it was used up by the wrong answer
    challenge = login.challenge()
    assert login.answers(challenge, proof(challenge))
    assert not login.answers(challenge, proof(challenge))
    challenge = login.challenge()
    clock.now += module.ANSWER_SECONDS
    assert not login.answers(challenge, proof(challenge))
    assert not login.answers("invented", proof("invented"))
    challenge = login.challenge()
    assert not login.answers(challenge, proof(challenge, key=b"x" * 32))


def test_open_challenges_are_few(login: LastingLogin) -> None:
    first = login.challenge()
    for _ in range(module.MOST_CHALLENGES):
        login.challenge()
    assert not login.answers(first, proof(first))


@pytest.mark.parametrize(
    "body", [b"{}", b"[]", b'{"challenge": 3}', b'{"challenge": "\\ud83d", "answer": "\\ud83d"}', b"x"]
)
def test_a_broken_answer_is_refused(client: TestClient, body: bytes) -> None:
    refused = client.post("/login", content=body, headers={"Content-Type": "application/json"})
    assert refused.status_code in {400, 403}
    assert "set-cookie" not in refused.headers


@pytest.mark.parametrize("path", ["/api/start", "/api/stop"])
def test_a_login_with_the_key_starts_and_stops_nothing(client: TestClient, path: str) -> None:
    challenge = client.get("/login/challenge").json()["challenge"]
    client.post("/login", json={"challenge": challenge, "answer": proof(challenge)})
    assert client.post("/api/inbox/LLD-1", json={}).text == "inside"
    refused = client.post(path, json={})
    assert (refused.status_code, "open the address" in refused.json()["error"]) == (403, True)
    client.get("/", params={"token": TOKEN})
    assert client.post(path, json={}).text == "inside"


def test_what_another_program_left_is_cleared_before_the_key_is_given(client: TestClient) -> None:
    entered = client.get("/", params={"token": TOKEN})
    assert entered.headers["Clear-Site-Data"] == '"storage"'
    for path in ("/", "/login/challenge"):  # the key is in the browser's storage
        assert "Clear-Site-Data" not in client.get(path).headers


def test_the_key_is_given_once_after_the_token(client: TestClient) -> None:
    assert client.post("/login/key", json={}).status_code == 403
    assert client.get("/", params={"token": TOKEN}).status_code == 303
    assert client.post("/login/key", json={}).json() == {"key": KEY.hex()}
    assert client.post("/login/key", json={}).json() == {"key": None}
    # Who logs in with the key does not get it again.
    challenge = client.get("/login/challenge").json()["challenge"]
    client.post("/login", json={"challenge": challenge, "answer": proof(challenge)})
    assert client.post("/login/key", json={}).json() == {"key": None}


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
    assert client.get("/assets/login.js", headers=headers).status_code == 403
    challenge = client.get("/login/challenge").json()["challenge"]
    body = {"challenge": challenge, "answer": proof(challenge)}
    assert client.post("/login", json=body, headers=headers).status_code == 403
    plain = client.post("/login", content=json.dumps(body), headers={"Content-Type": "text/plain"})
    assert plain.status_code == 403
    del client.headers["Origin"]
    assert client.post("/login", json=body).status_code == 403  # not from the page


def test_only_a_visit_of_the_user_gets_the_page_that_logs_in(client: TestClient) -> None:
    shown = client.get("/", headers={"Sec-Fetch-Site": "none"})
    assert (shown.status_code, "/assets/login.js" in shown.text) == (403, True)
    for site in ("cross-site", "same-site"):
        other = client.get("/", headers={"Sec-Fetch-Site": site})
        assert (other.status_code, other.headers["content-type"][:10]) == (403, "text/plain")
    for path in ("/api/runs", "/events", "/assets/view.js", "/login/key"):
        assert client.get(path).status_code == 403


def test_without_a_key_nothing_changes() -> None:
    client = client_of(None)
    for path in ("/", "/login/challenge", "/assets/login.js"):
        refused = client.get(path)
        assert (refused.status_code, refused.headers["content-type"][:10]) == (403, "text/plain")
    assert client.post("/login", json={"challenge": "", "answer": ""}).status_code == 403
    client.get("/", params={"token": TOKEN})
    assert client.post("/login/key", json={}).json() == {"key": None}


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
