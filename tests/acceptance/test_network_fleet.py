"""Sixty items on machines with addresses, folders and environments of their own, and one pool of keys."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentos.simulator import KeyConfig, LimitConfig, SimulatorConfig, running_simulator
from harness.fleet import Fleet
from harness.network import Namespace, reachable
from harness.project import Project
from harness.simulator import stats

pytestmark = pytest.mark.slow

ITEMS = 60
PARALLEL = 16  # on all machines together
KEYS = {f"KEY_{number}": f"sk-{number}-0123456789abcdef" for number in (1, 2)}
# Of each key; the server allows a larger burst, because calls of a busy computer arrive in bursts.
LIMITS, ALLOWED = LimitConfig(rpm=180, burst=2), LimitConfig(rpm=180, burst=4)
# What two runs of the same backlog may differ in: times, names, and which call came first.
OF_THE_RUN = {"time", "run_id", "trace_id", "life", "lineage", "seconds", "key", "tries", "tokens_cached"}
NAME_OF_THE_RUN = re.compile(r"(?<=-lld)-[0-9a-f]+(?=[/`])")  # at the end of a trail's name


@pytest.mark.parametrize(("links", "machines"), [(2, 2), (4, 4)], indirect=["links"])
def test_machines_share_a_backlog_and_a_pool(
    linked_fleet: Fleet,
    links: list[Namespace],
    machines: int,
    make_project: Callable[[str], Project],
    tmp_path: Path,
) -> None:
    keys = tuple(KeyConfig(secret=secret, limits=ALLOWED) for secret in KEYS.values())
    with running_simulator(SimulatorConfig(keys=keys)) as url, reachable(url, links):
        fleet = [
            linked_fleet.machine(
                slots=PARALLEL // machines,
                env=KEYS,
                config=_config(tmp_path / f"{number}.toml", link.reaches(url) if link else url),
                inside=link,
            )
            for number, link in enumerate(links or [None] * machines)
        ]
        submitter = linked_fleet.submitter("far", ITEMS, script="")
        config = _config(tmp_path / "user.toml", url)
        flags = ("--config", config, "lld", "--all", "--parallel", str(PARALLEL))
        env = {**KEYS, "AGENTOS_DATABASE_URL": linked_fleet.url}
        result = submitter.project.run(*flags, "--engine", "postgres", env=env, timeout=180)
        assert result.code == 0, result
        totals = stats(url)["totals"]
    assert totals["served"] == 2 * ITEMS
    assert any(lease["waited"] for lease in submitter.project.events("leased"))  # for the limits
    assert totals["refused"] < 0.02 * totals["calls"], totals
    began = [[line for line in machine.text().splitlines() if "started" in line] for machine in fleet]
    assert all(began)
    assert sum(map(len, began)) == ITEMS
    near = make_project("near").init()
    near.issues(ITEMS)
    with running_simulator(
        SimulatorConfig(keys=tuple(KeyConfig(secret=one) for one in KEYS.values()))
    ) as url:
        flags = ("--config", _config(tmp_path / "near.toml", url, None), *flags[2:])
        assert near.run(*flags, env=KEYS, timeout=180).code == 0
    assert _documents(submitter.project) == _documents(near)
    far, local = _audits(submitter.project), _audits(near)
    for number in range(1, ITEMS + 1):
        assert far[number] == local[number], number


def _config(path: Path, url: str, limits: LimitConfig | None = LIMITS) -> Path:
    lines = ['drafter = "openai:model"', 'reviewer = "openai:model"']
    lines += ["[providers.openai]", f'base_url = "{url}/v1"']
    for variable in KEYS:
        lines += ["[[keys]]", f'id = "{variable.lower()}"', 'provider = "openai"', f'env = "{variable}"']
        if limits is not None:
            lines += [f"rpm = {limits.rpm}", f"burst = {limits.burst}"]
    path.write_text("\n".join(lines) + "\n")
    return path


def _documents(project: Project) -> dict[str, str]:
    docs = project.root / "docs"
    found = {str(path.relative_to(docs)): path.read_text() for path in docs.rglob("*.md")}
    assert len(found) == 5 * ITEMS  # a document, and the issue, a draft, a verdict and the final text
    # The review log names the trail, and the stamp has a hash of it.
    return {
        NAME_OF_THE_RUN.sub("", name): re.sub(r" text=sha256:\w{64}", "", NAME_OF_THE_RUN.sub("", body))
        for name, body in found.items()
    }


def _audits(project: Project) -> dict[int, list[dict[str, Any]]]:
    return {
        number: [
            {name: value for name, value in line.items() if name not in OF_THE_RUN}
            for line in project.audits(str(number))
            if line["kind"] != "failed_call"  # refused, and made again
        ]
        for number in range(1, ITEMS + 1)
    }
