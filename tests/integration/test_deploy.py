"""The files in deploy/: they fit the repository and each other, and contain no secret.

No container is built here: that needs a container engine.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
import yaml  # type: ignore[import-untyped]
from packaging.requirements import Requirement

from agentos import __version__
from agentos.app.machine import LAST_SECONDS
from agentos.cli.db import db
from agentos.cli.worker import worker
from agentos.engine.machine import AGAIN_SECONDS, DRAIN_SECONDS
from agentos.model_access import KINDS, usual_variable
from agentos.secret import DATABASE_VARIABLE

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CONTAINERFILE = (DEPLOY / "Containerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
KUBERNETES = (DEPLOY / "kubernetes.yaml").read_text()
MANIFESTS: list[dict[str, Any]] = list(yaml.safe_load_all(KUBERNETES))
PODS = {one["metadata"]["name"]: one["spec"]["template"]["spec"] for one in MANIFESTS}


def test_the_image_is_built_from_files_that_are_there_and_not_ignored() -> None:
    copied = re.findall(r"^COPY (?!--)(.+) \S+$", CONTAINERFILE, re.MULTILINE)
    names = {name for line in copied for name in line.split()}
    assert {"pyproject.toml", "requirements", "src"} <= names
    ignore = (ROOT / ".dockerignore").read_text().splitlines()
    assert ignore[1] == "*"
    for name in names:
        assert (ROOT / name).exists()
        assert f"!{name}" in ignore
    assert {line[1:] for line in ignore if line.startswith("!")} == names


def test_the_image_has_what_several_machines_need_and_is_not_run_by_root() -> None:
    assert "--requirement requirements/user.txt --requirement requirements/postgres.txt" in CONTAINERFILE
    assert re.findall(r"^USER (\d+)", CONTAINERFILE, re.MULTILINE) == ["10001"]
    assert re.findall(r"useradd --uid (\d+)", CONTAINERFILE) == ["10001"]
    for pod in PODS.values():
        assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["runAsGroup"] == 10001


def test_whatever_is_installed_has_a_hash() -> None:
    installs = re.findall(r"pip install (.*?)(?:&&|$)", CONTAINERFILE.replace("\\\n", ""), re.MULTILINE)
    assert len(installs) == 3
    assert all("--require-hashes" in one or "--no-deps" in one for one in installs)
    for path in sorted((ROOT / "requirements").glob("*.txt")):
        entries = re.split(r"\n(?=[a-z])", path.read_text())[1:]
        assert len(entries) > 3, path
        for entry in entries:
            assert re.match(r"[a-z0-9.-]+==\S+ ", entry), (path, entry)
            assert "--hash=sha256:" in entry, (path, entry)


def test_the_locked_versions_are_those_that_the_project_asks_for() -> None:
    texts = [path.read_text() for path in (ROOT / "requirements").glob("*.txt") if path.stem != "interop"]
    locked = dict(re.findall(r"^([a-z0-9.-]+)==(\S+)", "\n".join(texts), re.MULTILINE))
    with (ROOT / "pyproject.toml").open("rb") as file:
        wanted = tomllib.load(file)
    project = wanted["project"]
    asked = [*wanted["build-system"]["requires"], *project["dependencies"]]
    asked += [one for extra in project["optional-dependencies"].values() for one in extra]
    for one in map(Requirement, asked):
        if one.name != project["name"]:
            assert one.specifier.contains(locked[one.name]), f"{one}: run make lock"


def test_a_base_image_can_be_named_by_its_digest() -> None:
    (usual,) = re.findall(r"^ARG PYTHON_IMAGE=(.+)$", CONTAINERFILE, re.MULTILINE)
    bases = re.findall(r"^FROM (\S+)", CONTAINERFILE, re.MULTILINE)
    assert bases == ["${PYTHON_IMAGE}"] * 2
    arguments = COMPOSE["services"]["worker"]["build"]["args"]
    assert arguments == {"PYTHON_IMAGE": f"${{PYTHON_IMAGE:-{usual}}}"}
    assert COMPOSE["services"]["database"]["image"].startswith("${POSTGRES_IMAGE:-")


def test_compose_makes_the_tables_before_a_worker_starts() -> None:
    services = COMPOSE["services"]
    assert services["upgrade"]["command"] == ["db", "upgrade"]
    assert services["upgrade"]["depends_on"] == {"database": {"condition": "service_healthy"}}
    worker = services["worker"]
    assert worker["command"][0] == "worker"
    assert worker["depends_on"] == {"upgrade": {"condition": "service_completed_successfully"}}
    assert worker["restart"] == "always"
    assert worker["build"] == services["upgrade"]["build"]
    context = DEPLOY / worker["build"]["context"]
    assert (context / worker["build"]["dockerfile"]).resolve() == DEPLOY / "Containerfile"
    assert set(COMPOSE["volumes"]) == {"database"}


def test_compose_publishes_the_database_on_this_machine_only() -> None:
    ports = [port for one in COMPOSE["services"].values() for port in one.get("ports", ())]
    assert ports == ["127.0.0.1:5432:5432"]


def test_compose_contains_no_secret() -> None:
    environments = [one["environment"] for one in COMPOSE["services"].values()]
    values = {name: value for found in environments for name, value in found.items()}
    for name, value in values.items():
        if name.endswith("_API_KEY"):
            assert value == f"${{{name}:-}}"
        elif "PASSWORD" in name or "URL" in name:
            assert "${POSTGRES_PASSWORD:?" in value
    assert values["AGENTOS_DATABASE_URL"].startswith("postgresql://agentos:${")


def test_kubernetes_takes_every_secret_by_reference() -> None:
    assert [one["kind"] for one in MANIFESTS] == ["Job", "Deployment"]
    for pod in PODS.values():
        (container,) = pod["containers"]
        assert all(set(one) == {"name", "valueFrom"} for one in container["env"])
        assert all(set(one["valueFrom"]) == {"secretKeyRef"} for one in container["env"])
        assert all(set(one) == {"secretRef"} for one in container.get("envFrom", ()))
    (upgrade,), (worker,) = (PODS[name]["containers"] for name in ("agentos-db-upgrade", "agentos-worker"))
    assert (upgrade["args"], worker["args"][0]) == (["db", "upgrade"], "worker")
    assert upgrade["env"][0]["valueFrom"] != worker["env"][0]["valueFrom"]


@pytest.mark.parametrize("name", PODS)
def test_a_pod_may_do_no_more_than_it_needs(name: str) -> None:
    pod = PODS[name]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert re.fullmatch(r"\S+:\d\S*", container["image"])
        mounted = {one["name"] for one in container.get("volumeMounts", ())}
        assert mounted == {one["name"] for one in pod.get("volumes", ())}


def test_the_command_line_takes_the_arguments() -> None:
    containers = [container for pod in PODS.values() for container in pod["containers"]]
    ours = [one["command"] for one in COMPOSE["services"].values() if one["image"] == "agentos"]
    assert re.findall(r"^ENTRYPOINT (.*)$", CONTAINERFILE, re.MULTILINE) == ['["agentos"]']
    commands = click.Group(commands={"db": db, "worker": worker})
    for args in [*ours, *(one["args"] for one in containers)]:
        name, command, rest = commands.resolve_command(click.Context(commands), args)
        assert command is not None
        command.make_context(name, rest)  # raises if it does not


def test_variables_are_those_that_agentos_reads() -> None:
    keys = {usual_variable(kind) for kind in KINDS}
    assert set(COMPOSE["services"]["worker"]["environment"]) == {DATABASE_VARIABLE, *keys}
    assert set(COMPOSE["services"]["upgrade"]["environment"]) == {DATABASE_VARIABLE}
    for pod in PODS.values():
        assert [one["name"] for one in pod["containers"][0]["env"]] == [DATABASE_VARIABLE]


def test_the_comments_make_every_secret_that_a_pod_needs() -> None:
    made = set(re.findall(r"secret generic (\S+) --from-literal=(\w+)=", KUBERNETES))
    needed = set()
    for pod in PODS.values():
        (container,) = pod["containers"]
        references = [one["valueFrom"]["secretKeyRef"] for one in container["env"]]
        needed |= {(one["name"], one["key"]) for one in references}
        needed |= {(one["secretRef"]["name"], "OPENAI_API_KEY") for one in container.get("envFrom", ())}
    assert made == needed


def test_the_image_is_of_this_version() -> None:
    images = {container["image"] for pod in PODS.values() for container in pod["containers"]}
    assert images == {f"registry.example/agentos:{__version__}"}
    assert f"Replace {images.pop()} with" in KUBERNETES


def test_a_worker_can_write_where_it_must() -> None:
    (home,) = re.findall(r"^WORKDIR (/home/\S+)$", CONTAINERFILE, re.MULTILINE)
    (container,) = PODS["agentos-worker"]["containers"]
    assert {one["mountPath"] for one in container["volumeMounts"]} == {home, "/tmp"}
    compose = COMPOSE["services"]["worker"]
    assert compose["read_only"] is True
    assert {one.partition(":")[0] for one in compose["tmpfs"]} == {home, "/tmp"}


def test_a_worker_has_the_same_time_to_stop_everywhere_and_more_than_it_needs() -> None:
    seconds = PODS["agentos-worker"]["terminationGracePeriodSeconds"]
    assert COMPOSE["services"]["worker"]["stop_grace_period"] == f"{seconds}s"
    assert seconds >= 2 * (DRAIN_SECONDS + AGAIN_SECONDS + LAST_SECONDS)


def test_the_deployment_finds_its_pods_and_not_those_of_the_job() -> None:
    job, deployment = MANIFESTS
    wanted = deployment["spec"]["selector"]["matchLabels"]
    assert wanted == deployment["spec"]["template"]["metadata"]["labels"]
    assert not wanted.items() <= job["spec"]["template"]["metadata"]["labels"].items()
    # A worker that hangs is noticed by the others. A probe would only kill one that waits for the database.
    assert not [key for key in PODS["agentos-worker"]["containers"][0] if key.endswith("Probe")]
