"""Access to the page's server: token, host, origin, and the headers of every response."""

import pytest
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

from agentos.view.access import HEADERS, Door, Guard

PORT = 8765
TOKEN = "t" * 43
OURS = f"http://127.0.0.1:{PORT}"


@pytest.fixture
def client() -> TestClient:
    return TestClient(Guard(PlainTextResponse("inside"), Door(port=PORT, token=TOKEN)), base_url=OURS)


def bearer(token: str = TOKEN, **more: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} | {
        name.replace("_", "-"): text for name, text in more.items()
    }


@pytest.mark.parametrize("path", ["/", "/assets/view.js"])
def test_the_page_itself_holds_nothing_private_and_needs_no_token(client: TestClient, path: str) -> None:
    for site in ("none", "same-origin", "cross-site"):  # a link elsewhere may lead here
        assert client.get(path, headers={"Sec-Fetch-Site": site}).text == "inside"
    assert client.post(path, json={}, headers={"Origin": OURS}).status_code == 403


@pytest.mark.parametrize("path", ["/api/runs", "/events", "/nothing", "/assets", "/login", "/login/key"])
def test_nothing_is_given_without_the_token(client: TestClient, path: str) -> None:
    cookie = {"Cookie": f"agentos-{PORT}={TOKEN}; token={TOKEN}"}
    for headers in ({}, bearer("wrong"), bearer(""), bearer(TOKEN[:-1]), bearer(TOKEN + "t"), cookie):
        answer = client.get(path, headers=headers, params={"token": TOKEN})
        assert answer.status_code == 403, headers
        assert answer.headers["content-type"].startswith("text/plain")
        assert answer.headers["www-authenticate"] == "Bearer"  # the page logs in again
        assert "inside" not in answer.text
        assert TOKEN not in answer.text
    assert client.get(path, headers=bearer()).text == "inside"


def test_a_ticket_counts_once() -> None:
    used: list[bool] = []
    door = Door(port=PORT, token=TOKEN, ticket="once", entered=lambda: used.append(True))
    assert not door.opens("once")
    assert [door.enters(given) for given in ("no", "wröng", None, "once", "once")] == [False] * 3 + [
        True,
        False,
    ]
    assert used == [True]
    assert door.enters(TOKEN)
    assert not door.enters(door.again)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        f"evil.example:{PORT}",
        "127.0.0.1",
        f"127.0.0.1:{PORT + 1}",
        f"127.0.0.1.evil.example:{PORT}",
        "",
    ],
)
def test_another_name_for_our_address_is_refused(client: TestClient, host: str) -> None:
    assert client.get("/api/runs", headers=bearer(Host=host)).status_code == 403
    assert client.get("/", headers={"Host": host}).status_code == 403


def test_localhost_is_a_name_of_ours(client: TestClient) -> None:
    assert client.get("/api/runs", headers=bearer(Host=f"localhost:{PORT}")).text == "inside"


def test_a_host_named_twice_is_refused(client: TestClient) -> None:
    headers = [("Authorization", f"Bearer {TOKEN}"), ("Host", f"127.0.0.1:{PORT}"), ("Host", "evil.example")]
    assert client.get("/api/runs", headers=headers).status_code == 403


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", f"https://127.0.0.1:{PORT}", f"http://127.0.0.1:{PORT + 1}", ""]
)
def test_another_origin_is_refused(client: TestClient, origin: str) -> None:
    assert client.get("/api/runs", headers=bearer(Origin=origin)).status_code == 403
    changed = client.post("/api/inbox/LLD-1", json={}, headers=bearer(Origin=origin))
    assert changed.status_code == 403


def test_another_site_may_not_ask(client: TestClient) -> None:
    for site in ("cross-site", "same-site"):
        assert client.get("/api/runs", headers=bearer(Sec_Fetch_Site=site)).status_code == 403
    for site in ("same-origin", "none"):
        assert client.get("/api/runs", headers=bearer(Sec_Fetch_Site=site)).text == "inside"


def test_a_change_comes_from_the_page_itself_and_as_json(client: TestClient) -> None:
    path = "/api/inbox/LLD-1"
    assert client.post(path, json={}, headers=bearer()).status_code == 403
    assert client.post(path, json={}, headers=bearer(Sec_Fetch_Site="none")).status_code == 403
    assert client.post(path, json={}, headers=bearer(Origin=OURS)).text == "inside"
    assert client.post(path, json={}, headers=bearer(Sec_Fetch_Site="same-origin")).text == "inside"
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/jsonp"):
        headers = bearer(Origin=OURS, Content_Type=kind)
        assert client.post(path, content="{}", headers=headers).status_code == 403
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
        assert client.request(method, path, headers=bearer()).status_code == 403
    assert client.post(path, json={}, headers={"Origin": OURS}).status_code == 403


def test_every_answer_carries_the_headers(client: TestClient) -> None:
    answers = [
        client.get("/"),
        client.get("/", headers={"Host": "evil.example"}),
        client.get("/api/runs"),
        client.get("/api/runs", headers=bearer()),
    ]
    assert [answer.status_code for answer in answers] == [200, 403, 403, 200]
    for answer in answers:
        assert "set-cookie" not in answer.headers
        for name, value in HEADERS.items():
            assert answer.headers[name] == value
    policy = HEADERS["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_port_80_has_no_number_in_its_name() -> None:
    assert Door(port=80, token=TOKEN).hosts >= {"127.0.0.1", "localhost", "127.0.0.1:80"}
    assert "127.0.0.1" not in Door(port=PORT, token=TOKEN).hosts
