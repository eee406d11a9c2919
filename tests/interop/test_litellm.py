"""A LiteLLM proxy as the OpenAI-compatible server: a whole backlog through it. Set up by `make interop`."""

import http.client
import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentos.llm import mock_documents
from agentos.review.parsed_review import Verdict
from agentos.review.reader import read_reply
from harness.processes import wait_until
from harness.project import Project

PROXY = Path(__file__).parents[2] / ".venv-interop" / "bin" / "litellm"
START_SECONDS = 120.0  # it imports for ten seconds on an idle machine
MASTER_KEY = "sk-interop-master"

pytestmark = [
    pytest.mark.skipif(not PROXY.is_file(), reason="LiteLLM is not installed; `make interop` installs it"),
    pytest.mark.timeout(300),
]


@dataclass(frozen=True, kw_only=True)
class Gateway:
    port: int
    log: Path

    def is_up(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/health/liveliness")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def answered(self, path: str = "/v1/chat/completions") -> int:
        return self.log.read_text("utf-8", errors="replace").count(f'"POST {path} HTTP/1.1" 200')


def gateway_config() -> str:
    """Both models answer from the gateway itself; JSON is YAML."""
    draft = mock_documents.draft("lld", "TBD", "A title", 1, complete=True, resolved=())
    review = mock_documents.review("lld", 1, "APPROVED", ())
    assert read_reply(review, "lld").verdict is Verdict.APPROVED
    answers = {"design-drafter": draft, "design-reviewer": review}
    models = [
        {
            "model_name": name,
            "litellm_params": {"model": f"openai/{name}", "api_key": "none", "mock_response": text},
        }
        for name, text in answers.items()
    ]
    return json.dumps({"model_list": models, "general_settings": {"master_key": MASTER_KEY}})


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    """Run the proxy from its own environment, on loopback, without a call to anywhere."""
    config, log = tmp_path / "litellm.yaml", tmp_path / "litellm.log"
    config.write_text(gateway_config(), "utf-8")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {
        "PATH": f"{PROXY.parent}{os.pathsep}{os.defpath}",
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path),
        "LANG": "C.UTF-8",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it fetches a price list
        "LITELLM_TELEMETRY": "False",
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [PROXY, "--config", config, "--host", "127.0.0.1", "--port", str(port)],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        made = Gateway(port=port, log=log)
        wait_until(lambda: made.is_up() or process.poll() is not None, "the proxy", START_SECONDS)
        assert process.poll() is None, log.read_text("utf-8", errors="replace")
        yield made
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def configure(project: Project, gateway: Gateway, reviewer: str = "design-reviewer") -> None:
    project.write(
        "user.toml",
        f"""
drafter = "openai:design-drafter"
reviewer = "openai:{reviewer}"

[providers.openai]
base_url = "http://127.0.0.1:{gateway.port}/v1"

[[keys]]
id = "gateway"
provider = "openai"
env = "LITELLM_KEY"
""",
    )


def test_a_backlog_of_ten_goes_through_the_gateway(project: Project, gateway: Gateway) -> None:
    configure(project, gateway)
    for number in range(1, 11):
        project.issue(number)
    result = project.run(
        "--config", "user.toml", "lld", "--all", "-j5", env={"LITELLM_KEY": MASTER_KEY}, timeout=120
    )
    assert result.code == 0, result.text
    assert project.statuses() == {str(number): "approved" for number in range(1, 11)}
    for number in range(1, 11):
        assert project.calls(str(number)) == [("drafter", 1), ("reviewer", 1)]
        served = [one["served"] for one in project.audits(str(number)) if one["kind"] == "call"]
        assert served == ["design-drafter", "design-reviewer"]
        assert f"#{number}" in project.read(f"docs/lld/active/LLD-{number}.md")
    assert gateway.answered() == 20
    # And its refusals are understood: a model it does not have stops the run at once.
    project.issue(11)
    configure(project, gateway, reviewer="no-such-model")
    missing = project.run("--config", "user.toml", "lld", "11", env={"LITELLM_KEY": MASTER_KEY})
    assert missing.code == 2, missing.text
    assert "openai:no-such-model is not available" in project.row("11")["error"]


def test_two_named_providers_speak_two_formats_with_one_gateway(project: Project, gateway: Gateway) -> None:
    project.write(
        "user.toml",
        f"""
drafter = "chat:design-drafter"
reviewer = "messages:design-reviewer"

[providers.chat]
kind = "openai"
base_url = "http://127.0.0.1:{gateway.port}/v1"

[providers.messages]
kind = "anthropic"
base_url = "http://127.0.0.1:{gateway.port}"
headers = {{ authorization = "Bearer env:GATEWAY_TOKEN" }}
""",
    )
    project.issues(4)
    env = {"CHAT_API_KEY": MASTER_KEY, "GATEWAY_TOKEN": MASTER_KEY}
    live = project.run("--config", "user.toml", "doctor", "--live", "--json", env=env, timeout=120)
    assert live.code == 0, live.text
    told = [check["text"] for check in live.json["checks"] if check["section"] == "live"]
    assert [text.rpartition(" ")[2] for text in told] == ["design-drafter", "design-reviewer"]
    result = project.run("--config", "user.toml", "lld", "--all", "-j4", env=env, timeout=120)
    assert result.code == 0, result.text
    for number in range(1, 5):
        assert project.calls(str(number)) == [("drafter", 1), ("reviewer", 1)]
    assert gateway.answered() == 4 + 1
    assert gateway.answered("/v1/messages") == 4 + 1
    assert {row["id"] for row in project.summary()["keys"]} == {"chat", "messages"}
    assert MASTER_KEY not in f"{live.text}{result.text}"
