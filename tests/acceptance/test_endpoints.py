"""Named providers, options per role, proxy and CA: whole runs, seen from the servers and the proxy."""

import base64
import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trustme

from agentos.errors import Exit
from harness.echo import leaked
from harness.format_server import FormatServer, running_format_server
from harness.forward_proxy import ForwardProxy, running_proxy, running_tls
from harness.github import FakeGitHub, running_fakegithub
from harness.odd_provider import OddBench, running_odd_provider
from harness.project import Project, Result

HEADER = "header-canary-4Jq8TzVw_2LmXr6-Nb"
KEY = "key-canary-9Hs+DyJc3Ua7KpWfEo5Rt"
LOGIN = "login-canary-Zx5Yb2Qm8Gd1Lv4C"


@dataclass(kw_only=True)
class Desk:
    """A project with the user's file, two servers, and what the user's environment holds."""

    project: Project
    one: FormatServer
    two: FormatServer
    env: dict[str, str] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        return self.project.outside / "user.toml"

    def configure(self, text: str) -> None:
        self.file.write_text(text)

    def run(self, *args: str, **env: str) -> Result:
        return self.project.run("--config", self.file, *args, env=self.env | env)

    def assert_nowhere(self, *secrets: str, results: tuple[Result, ...]) -> None:
        """Look for the secrets in every byte of every file, and of the output."""
        places = {f"output {number}": result.text.encode() for number, result in enumerate(results)}
        for root in (self.project.outside, self.project.tmp):
            places |= {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        assert any(path.endswith("records.db") for path in places), "the home was looked at"
        found = {
            place: leak
            for place, data in places.items()
            for secret in secrets
            if (leak := leaked(secret, data)) is not None
        }
        assert not found


@pytest.fixture
def desk(project: Project) -> Iterator[Desk]:
    with running_format_server() as one, running_format_server() as two:
        yield Desk(project=project, one=one, two=two)


# Two providers at once.


def test_two_named_providers_serve_one_run_and_header_secrets_are_written_nowhere(desk: Desk) -> None:
    desk.configure(
        f'drafter = "azure:gpt-5"\nreviewer = "corp:claude-x"\n'
        f'[providers.azure]\nkind = "openai"\nbase_url = "{desk.one.url}/openai/v1?api-version=2025-01-01"\n'
        'headers = { api-key = "env:AZURE_KEY", X-Team = "blue team" }\n'
        f'[providers.corp]\nkind = "anthropic"\nbase_url = "{desk.two.url}"\n'
        'headers = { authorization = "Bearer env:CORP_LOGIN" }\n'
    )
    desk.env = {"AZURE_KEY": HEADER, "CORP_LOGIN": LOGIN, "CORP_API_KEY": KEY}
    desk.project.issues(3)
    result = desk.run("lld", "--all", "-j3", "-v")
    assert result.code == Exit.OK, result
    assert len(desk.one.arrived) == len(desk.two.arrived) == 3
    for arrived in desk.one.arrived:
        assert arrived.path == "/openai/v1/chat/completions?api-version=2025-01-01"
        assert (arrived.headers["api-key"], arrived.headers["x-team"]) == (HEADER, "blue team")
        assert "authorization" not in arrived.headers, "there is no key, so none is sent"
        assert arrived.body["model"] == "gpt-5"
    for arrived in desk.two.arrived:
        assert arrived.headers["authorization"] == f"Bearer {LOGIN}"
        assert arrived.headers["x-api-key"] == KEY
    assert {row["id"] for row in desk.project.summary()["keys"]} == {"azure", "corp"}
    shown = (desk.run("config"), desk.run("config", "--json"), desk.run("keys"), desk.run("doctor", "--live"))
    assert all(one.code == Exit.OK for one in shown), shown
    desk.assert_nowhere(HEADER, KEY, LOGIN, results=(result, *shown))


def test_an_answer_with_a_headers_secret_in_it_is_refused(desk: Desk) -> None:
    desk.configure(
        'drafter = "azure:gpt-5"\nreviewer = "azure:gpt-6"\n'
        f'[providers.azure]\nkind = "openai"\nbase_url = "{desk.one.url}/v1"\n'
        'headers = { api-key = "env:AZURE_KEY" }\n'
    )
    desk.project.issue(1, text=f"# Title of 1\n\nUse {HEADER}.\n")
    desk.one._default = lambda *_: f"Your key is {HEADER}."  # type: ignore[assignment]
    result = desk.run("lld", "1", AZURE_KEY=HEADER)
    assert result.code == Exit.FAILED, result
    assert "contains the key AZURE_KEY" in desk.project.row("1")["error"]
    (desk.project.root / "issues/active/1.md").unlink()
    desk.assert_nowhere(HEADER, results=(result,))


def test_a_variable_that_is_missing_is_told_before_any_work(desk: Desk) -> None:
    desk.configure(
        'drafter = "azure:gpt-5"\nreviewer = "azure:gpt-6"\n'
        f'[providers.azure]\nkind = "openai"\nbase_url = "{desk.one.url}/v1"\n'
        'headers = { api-key = "env:AZURE_KEY" }\n'
    )
    desk.project.issue(1)
    result = desk.run("lld", "1")
    assert result.code == Exit.USAGE
    assert "the variable AZURE_KEY is not set" in result.said
    assert 'export AZURE_KEY="..."' in desk.run("doctor").out
    broken = desk.run("lld", "1", AZURE_KEY=f"{HEADER}\nx: y")
    assert broken.code == Exit.USAGE
    assert "character 33 is" in broken.said
    assert HEADER not in broken.text
    assert desk.project.runs() == []
    assert not desk.one.arrived


@pytest.mark.parametrize(
    ("models", "told"),
    [
        ('drafter = "azrue:x"\nreviewer = "azure:y"', "no provider 'azrue'. Did you mean 'azure'?"),
        ('drafter = "azure:x"\nreviewer = "opneai:y"', "no provider 'opneai'. Did you mean 'openai'?"),
    ],
)
def test_a_mistyped_provider_is_an_error_with_the_nearest_name(desk: Desk, models: str, told: str) -> None:
    desk.configure(f'{models}\n[providers.azure]\nkind = "openai"\nbase_url = "{desk.one.url}/v1"\n')
    desk.project.issue(1)
    for command in (("lld", "1"), ("doctor",), ("config",), ("config", "--json")):
        result = desk.run(*command)
        assert result.code == Exit.USAGE
        assert told in re.sub(r"\s+", " ", result.text)
    assert told in json.loads(result.out)["error"]["message"]
    assert not desk.one.arrived


def test_a_local_server_needs_no_key_and_a_google_key_is_geminis(desk: Desk) -> None:
    desk.configure(
        'drafter = "ollama:qwen"\nreviewer = "gemini:gemini-x"\n'
        f'[providers.ollama]\nkind = "openai"\nbase_url = "{desk.one.url}/v1"\n'
        f'[providers.gemini]\nbase_url = "{desk.two.url}"\n'
    )
    desk.project.issue(1)
    result = desk.run("lld", "1", GOOGLE_API_KEY=KEY)
    assert result.code == Exit.OK, result
    assert "authorization" not in desk.one.arrived[0].headers
    assert desk.two.arrived[0].headers["x-goog-api-key"] == KEY
    desk.assert_nowhere(KEY, results=(result, desk.run("keys", GOOGLE_API_KEY=KEY)))


# Options of a role.

ROLES = """
[roles.drafter]
max_output_tokens = 32000
temperature = 0.2
[roles.reviewer]
max_output_tokens = 20000
reasoning_effort = "high"
temperature = 0.5
timeout = "1m30s"
"""


def bodies(desk: Desk, kind: str, model: str = "model-x") -> tuple[dict[str, Any], dict[str, Any]]:
    """Run one item with a format; return the bodies of draft and review."""
    path = "/v1" if kind == "openai" else ""
    desk.configure(
        f'drafter = "{kind}:{model}"\nreviewer = "{kind}:{model}"\n'
        f'[providers.{kind}]\nbase_url = "{desk.one.url}{path}"\n{ROLES}'
    )
    desk.project.issue(1)
    result = desk.run("lld", "1", **{f"{kind.upper()}_API_KEY": KEY})
    assert result.code == Exit.OK, result
    draft, review = (arrived.body for arrived in desk.one.arrived)
    return draft, review


def test_options_of_roles_arrive_in_openais_format(desk: Desk) -> None:
    draft, review = bodies(desk, "openai")
    limits = {"max_tokens", "max_completion_tokens"}
    assert [draft[name] for name in limits & draft.keys()] == [32000]
    assert [review[name] for name in limits & review.keys()] == [20000]
    assert (draft["temperature"], review["temperature"]) == (0.2, 0.5)
    assert "reasoning_effort" not in draft
    assert review["reasoning_effort"] == "high"


def test_options_of_roles_arrive_in_anthropics_format(desk: Desk) -> None:
    draft, review = bodies(desk, "anthropic")
    assert (draft["max_tokens"], review["max_tokens"]) == (32000, 20000)
    assert draft["temperature"] == 0.2
    assert "thinking" not in draft
    # With thinking, the API takes no temperature and no forced tool; and the answer needs room.
    assert review["thinking"] == {"type": "enabled", "budget_tokens": 10000}
    assert "temperature" not in review
    assert review["tool_choice"] == {"type": "auto"}


@pytest.mark.parametrize(
    ("model", "thinking"),
    [("gemini-2.5-pro", {"thinkingBudget": 10000}), ("gemini-3-pro", {"thinkingLevel": "high"})],
)
def test_options_of_roles_arrive_in_geminis_format(desk: Desk, model: str, thinking: dict[str, Any]) -> None:
    draft, review = (body["generationConfig"] for body in bodies(desk, "gemini", model))
    assert (draft["maxOutputTokens"], review["maxOutputTokens"]) == (32000, 20000)
    assert (draft["temperature"], review["temperature"]) == (0.2, 0.5)
    assert "thinkingConfig" not in draft
    assert review["thinkingConfig"] == thinking


def test_a_role_can_have_a_time_limit_of_its_own(desk: Desk) -> None:
    desk.configure(
        'drafter = "openai:writer"\nreviewer = "openai:judge"\n'
        f'[providers.openai]\nbase_url = "{desk.one.url}/v1"\n'
        '[roles.reviewer]\ntimeout = "1s"\n'
    )
    desk.one.silent = "judge"
    desk.project.issue(1)
    result = desk.run("lld", "1", "--max-retries", "0", OPENAI_API_KEY=KEY)
    assert result.code == Exit.FAILED, result
    error = desk.project.row("1")["error"]
    assert "timed out" in error or "within 1 s" in error
    assert [one.body["model"] for one in desk.one.arrived] == ["writer", "judge"]


# Live checks.


def test_doctor_live_tries_every_models_call_with_every_key(desk: Desk) -> None:
    desk.configure(
        'drafter = "corp:writer"\nreviewer = "corp:judge"\n'
        f'[providers.corp]\nkind = "openai"\nbase_url = "{desk.one.url}/v1"\n'
        'headers = { x-team = "blue" }\n'
        "[roles.reviewer]\nmax_output_tokens = 9000\ntemperature = 0.1\n"
        '[[keys]]\nid = "first"\nprovider = "corp"\nenv = "FIRST"\n'
        '[[keys]]\nid = "second"\nprovider = "corp"\nenv = "SECOND"\n'
    )
    desk.env = {"FIRST": KEY, "SECOND": HEADER}
    fine = desk.run("doctor", "--live", "--json")
    assert fine.code == Exit.OK, fine
    live = [check for check in fine.json["checks"] if check["section"] == "live"]
    assert [check["name"] for check in live] == ["first", "first", "second", "second"]
    for name, model in (("first", "writer"), ("first", "judge"), ("second", "writer"), ("second", "judge")):
        said = rf"corp:{model} answered in .* s, served by {model}"
        assert any(check["name"] == name and re.fullmatch(said, check["text"]) for check in live)
    made = {(one.body["model"], one.headers["authorization"].split()[1]) for one in desk.one.arrived}
    assert made == {(model, key) for model in ("writer", "judge") for key in (KEY, HEADER)}
    assert all(one.headers["x-team"] == "blue" for one in desk.one.arrived)
    judge = next(one.body for one in desk.one.arrived if one.body["model"] == "judge")
    assert judge["temperature"] == 0.1
    assert 9000 in judge.values()
    # A reviewer's model that does not exist is found before a draft is paid for.
    desk.one.refuse["judge"] = 404
    broken = desk.run("doctor", "--live")
    assert broken.code == Exit.USAGE, broken
    assert "corp:judge" in broken.out
    assert "HTTP 404" in broken.out
    assert "corp:writer answered" in broken.out


# Proxy and CA.


@dataclass(kw_only=True)
class Office:
    """A network where only the proxy leads outside, and every certificate is of the company's CA."""

    desk: Desk
    proxy: ForwardProxy
    github: FakeGitHub
    ca: trustme.CA
    stack: ExitStack

    def route(self, host: str, port: int) -> None:
        """Make a plain server available as https://HOST, but only through the proxy."""
        self.proxy.routes[f"{host}:443"] = self.stack.enter_context(running_tls(self.ca, host, port))

    def configure(self, *, proxy: str | None, ca: bool = True, scheme: str = "https") -> None:
        network = ["[network]"] + ([f'proxy = "{proxy}"'] if proxy else [])
        if ca:
            file = self.desk.project.outside / "corp.pem"
            self.ca.cert_pem.write_to_path(str(file))
            network.append(f'ca_file = "{file}"')
        self.desk.configure(
            'drafter = "one:writer"\nreviewer = "two:judge"\n'
            f'[providers.one]\nkind = "openai"\nbase_url = "{scheme}://one.test/v1"\n'
            f'[providers.two]\nkind = "anthropic"\nbase_url = "{scheme}://two.test"\n'
            + "\n".join(network)
            + "\n"
        )

    def assert_unseen(self, *secrets: str) -> None:
        seen = bytes(self.proxy.seen)
        assert seen
        assert not [secret for secret in secrets if leaked(secret, seen) is not None]


@pytest.fixture
def office(desk: Desk) -> Iterator[Office]:
    with ExitStack() as stack:
        proxy = stack.enter_context(running_proxy())
        github = stack.enter_context(running_fakegithub())
        made = Office(desk=desk, proxy=proxy, github=github, ca=trustme.CA(), stack=stack)
        made.route("one.test", desk.one.port)
        made.route("two.test", desk.two.port)
        desk.env = {"ONE_API_KEY": KEY, "TWO_API_KEY": HEADER}
        yield made


def test_a_whole_run_goes_through_the_proxy_and_no_key_is_visible_to_it(office: Office) -> None:
    desk = office.desk
    port = office.proxy.url.rpartition(":")[2]
    office.configure(proxy=f"http://me:{LOGIN}@127.0.0.1:{port}")
    office.proxy.login = "Basic " + base64.b64encode(f"me:{LOGIN}".encode()).decode()
    desk.project.issues(3)
    result = desk.run("lld", "--all", "-j3", "-v")
    assert result.code == Exit.OK, result
    assert set(office.proxy.tunnels) == {"one.test:443", "two.test:443"}
    assert office.proxy.requests == []
    assert office.proxy.refused == 0
    assert desk.one.arrived[0].headers["authorization"] == f"Bearer {KEY}"
    assert not any("proxy-authorization" in one.headers for one in (*desk.one.arrived, *desk.two.arrived))
    office.assert_unseen(KEY, HEADER, "What is wanted")
    shown = (desk.run("config"), desk.run("config", "--json"), desk.run("doctor", "--live"))
    assert all(one.code == Exit.OK for one in shown), shown
    assert f"http://127.0.0.1:{port} (with a login)" in shown[0].out
    office.desk.file.unlink()  # the user wrote the login into it
    desk.assert_nowhere(KEY, HEADER, LOGIN, results=(result, *shown))


def test_without_the_ca_or_the_proxy_the_run_fails_and_nothing_is_sent(office: Office) -> None:
    desk = office.desk
    desk.project.issue(1)
    for proxy, ca in ((office.proxy.url, False), (None, True)):
        office.configure(proxy=proxy, ca=ca)
        assert desk.run("lld", "1", "--no-wait").code in {Exit.USAGE, Exit.STOPPED}
        assert not desk.one.arrived


def test_the_usual_variables_count_only_if_the_user_says_so(office: Office) -> None:
    desk = office.desk
    variables = {"HTTPS_PROXY": office.proxy.url, "NO_PROXY": "elsewhere.test"}
    desk.project.issue(1)
    office.configure(proxy=None)
    assert desk.run("lld", "1", "--no-wait", **variables).code == Exit.STOPPED
    assert office.proxy.tunnels == []
    office.configure(proxy="env")
    assert desk.run("lld", "1", **variables).code == Exit.OK
    assert set(office.proxy.tunnels) == {"one.test:443", "two.test:443"}
    office.proxy.tunnels.clear()
    desk.project.issue(2)
    bypassed = variables | {"NO_PROXY": ".test"}
    assert desk.run("lld", "2", "--no-wait", **bypassed).code == Exit.STOPPED
    assert office.proxy.tunnels == []


def test_this_machine_is_never_reached_through_the_proxy(office: Office) -> None:
    desk = office.desk
    desk.configure(
        'drafter = "openai:writer"\nreviewer = "local:judge"\n'
        f'[providers.openai]\nbase_url = "{desk.one.url}/v1"\n'
        f'[providers.local]\nkind = "openai"\nbase_url = "http://localhost:{desk.two.port}/v1"\n'
        f'[network]\nproxy = "{office.proxy.url}"\n'
    )
    desk.project.issue(1)
    result = desk.run("lld", "1", OPENAI_API_KEY=KEY)
    assert result.code == Exit.OK, result
    assert not office.proxy.seen
    assert "unencrypted" not in result.text


def test_a_plain_endpoint_behind_the_proxy_is_warned_about(office: Office) -> None:
    desk = office.desk
    office.proxy.routes |= {"one.test:80": desk.one.port, "two.test:80": desk.two.port}
    office.configure(proxy=office.proxy.url, scheme="http")
    desk.project.issue(1)
    result = desk.run("lld", "1")
    assert result.code == Exit.OK, result
    told = f"http://one.test, through the proxy {office.proxy.url}: keys are sent unencrypted; use https://"
    assert told in result.said
    assert "unencrypted" in desk.run("doctor").said
    assert len(office.proxy.requests) == 2


def test_github_is_reached_through_the_proxy_with_the_ca(office: Office) -> None:
    desk, github = office.desk, office.github
    office.route("api.github.test", int(github.url.rpartition(":")[2]))
    office.configure(proxy=office.proxy.url)
    git = ["git", "-C", str(desk.project.root)]
    subprocess.run([*git, "init", "-q"], check=True)
    origin = f"https://github.test/{github.repository}.git"
    subprocess.run([*git, "remote", "add", "origin", origin], check=True)
    github.add("Wanted")
    desk.env |= {"GITHUB_API_URL": "https://api.github.test", "GH_TOKEN": github.token}
    live = desk.run("doctor", "--live")
    assert live.code == Exit.OK, live
    assert f"the token reads {github.repository}" in re.sub(r"\s+", " ", live.out)
    result = desk.run("lld", "1")
    assert result.code == Exit.OK, result
    desk.project.brief("an-idea")
    filed = desk.run("issue", "an-idea", "--yes")
    assert filed.code == Exit.OK, filed
    assert len(github.issues) == 2
    assert set(office.proxy.tunnels) == {"one.test:443", "two.test:443", "api.github.test:443"}
    office.assert_unseen(KEY, HEADER, github.token)


# What is shown.


def test_config_shows_every_table_with_its_origin_and_no_secret(desk: Desk) -> None:
    desk.configure(
        f'[providers.azure]\nkind = "openai"\nbase_url = "{desk.one.url}/v1"\n'
        'headers = { api-key = "env:AZURE_KEY", x-team = "not-shown" }\n'
        '[roles.drafter]\ntemperature = 0.2\ntimeout = "10m"\n'
        f'[network]\nproxy = "http://me:{LOGIN}@proxy.test:3128"\n'
        '[[keys]]\nid = "first"\nprovider = "azure"\nenv = "FIRST"\nquota_group = "team"\nrpm = 60\n'
        '[prices."azure:gpt-5"]\ninput = 1.5\noutput = 6\n'
    )
    desk.env = {"AZURE_KEY": HEADER, "FIRST": KEY}
    shown = desk.run("config", "--json")
    assert shown.json["providers"] == {
        "value": {
            "azure": {
                "kind": "openai",
                "base_url": f"{desk.one.url}/v1",
                "headers": ["api-key = env:AZURE_KEY", "x-team"],
            }
        },
        "origin": "user",
        "where": f"providers in {desk.file}",
    }
    assert shown.json["roles"]["value"] == {"drafter": {"temperature": 0.2, "timeout": 600.0}}
    assert shown.json["network"]["value"] == {"proxy": "http://proxy.test:3128 (with a login)"}
    key = {"id": "first", "provider": "azure", "env": "FIRST", "quota_group": "team", "rpm": 60.0}
    assert shown.json["keys"]["value"] == [key]
    assert shown.json["prices"]["value"] == {"azure:gpt-5": {"input": 1.5, "output": 6.0}}
    text = desk.run("config").out
    assert re.search(r"^providers +\(user: ", text, re.MULTILINE)
    assert "headers [api-key = env:AZURE_KEY, x-team]" in text
    assert "proxy.test:3128" in text
    for secret in (HEADER, KEY, LOGIN, "not-shown"):
        assert secret not in text
        assert secret not in json.dumps(shown.json)


def test_config_shows_keys_of_the_usual_variables(desk: Desk) -> None:
    desk.configure("")
    shown = desk.run("config", "--json", OPENAI_API_KEY_2=KEY).json
    assert shown["keys"]["origin"] == "environment"
    assert [key["env"] for key in shown["keys"]["value"]] == ["OPENAI_API_KEY_2"]
    assert shown["providers"] == {"value": {}, "origin": "default", "where": None}


def test_no_cookie_of_a_server_comes_back(project: Project) -> None:
    project.issue(1)
    with running_odd_provider() as provider:
        provider.spoil = lambda _prompt, answer: answer.headers.update({"set-cookie": "who=user-1; Path=/"})
        result = OddBench(project=project, provider=provider).run("lld", "--all")
    assert result.code == 0, result
    assert (provider.calls, provider.cookies) == (2, [])
