"""A machine behind a link that is cut, and heals: nothing is lost, and nothing is done twice."""

import pytest

from harness import network
from harness.fleet import Fleet
from harness.network import Namespace
from harness.processes import wait_until

pytestmark = pytest.mark.slow  # what is cut off must be silent for as long as the product waits

WAITING = "verdicts=REVISE,APPROVED latency=2"


@pytest.fixture(autouse=True)
def _links_can_be_cut() -> None:
    if not network.possible():
        pytest.skip(network.MISSING)


def test_a_machine_that_is_cut_off_is_replaced_and_may_come_back(
    linked_fleet: Fleet, links: list[Namespace]
) -> None:
    fleet, link = linked_fleet, links[0]
    victim = fleet.machine(inside=link)
    submitter = fleet.submitter("one", 3, script=WAITING)
    run = submitter.start("--parallel", "3")
    wait_until(lambda: fleet.running_on(victim) == 3, "all items on the victim")
    other = fleet.machine()
    link.cut()
    wait_until(lambda: "is gone" in run.text(), "the machine to be given up")
    result = submitter.project.finish(run, 180)
    assert result.code == 0, result
    submitter.assert_all_once(3)
    link.heal()
    # It knows by itself that its items are over, and takes new ones.
    other.signal(15)
    assert other.wait(60).code == 0
    again = fleet.submitter("two", 2, script="verdicts=REVISE,APPROVED")
    assert again.lld("--parallel", "2").code == 0
    assert again.approved() == {"LLD-1", "LLD-2"}
    assert victim.poll() is None
    assert submitter.approved() == {"LLD-1", "LLD-2", "LLD-3"}


def test_a_machine_that_shuts_down_while_it_is_cut_off_ends_and_loses_nothing(
    linked_fleet: Fleet, links: list[Namespace]
) -> None:
    """A drain that is longer than the time after which a machine is dead: it cannot say a word meanwhile."""
    victim = linked_fleet.machine(inside=links[0])
    submitter = linked_fleet.submitter("one", 3, script=WAITING)
    run = submitter.start("--parallel", "3")
    wait_until(lambda: linked_fleet.running_on(victim) == 3, "all items on the victim")
    linked_fleet.machine()
    links[0].cut()
    victim.signal(15)
    wait_until(lambda: "is gone" in run.text(), "the machine to be given up")
    links[0].heal()
    ended = victim.wait(60)
    assert ended.code == 0, ended
    assert ended.err == ""
    result = submitter.project.finish(run, 180)
    assert result.code == 0, result
    submitter.assert_all_once(3)
    assert sorted(event["attempt"] for event in submitter.project.events("started")) == [1, 1, 1, 2, 2, 2]


def test_a_submitter_that_is_cut_off_continues_when_it_is_back(
    linked_fleet: Fleet, links: list[Namespace]
) -> None:
    machine = linked_fleet.machine()
    submitter = linked_fleet.submitter("one", 3, script=WAITING, inside=links[0])
    run = submitter.start("--parallel", "3")
    wait_until(lambda: linked_fleet.running_on(machine) == 3, "all items on the machine")
    links[0].cut()
    wait_until(lambda: "Cannot use the database" in run.text(), "a word about the database")
    links[0].heal()
    result = submitter.project.finish(run, 180)
    assert result.code == 0, result
    assert "The database is back" in result.text
    submitter.assert_all_once(3)
    assert [event["attempt"] for event in submitter.project.events("started")] == [1, 1, 1]
    assert machine.text(1) == ""


@pytest.mark.parametrize("past", ["Cannot use the database", "ending 3 running items"])
def test_a_database_that_nobody_can_reach_interrupts_nothing(
    linked_fleet: Fleet, links: list[Namespace], past: str
) -> None:
    """Both for a moment, and for longer than a machine keeps its items without the database."""
    machine = linked_fleet.machine(inside=links[0])
    submitter = linked_fleet.submitter("one", 3, script=WAITING, inside=links[1])
    run = submitter.start("--parallel", "3")
    wait_until(lambda: linked_fleet.running_on(machine) == 3, "all items on the machine")
    for link in links:
        link.cut()
    wait_until(lambda: "Cannot use the database" in run.text(), "a word of the submitter")
    wait_until(lambda: past in machine.text(), "a word of the machine")
    links[0].heal()
    # The machine is alive again before its submitter looks; so it has to say itself what became of the items.
    wait_until(lambda: "The database is back" in machine.text(), "the machine to be back")
    links[1].heal()
    result = submitter.project.finish(run, 180)
    assert result.code == 0, result
    assert "The database is back" in result.text
    submitter.assert_all_once(3)
    assert machine.text(1) == ""
    assert machine.poll() is None


def test_a_submitter_that_is_away_for_long_loses_nothing(linked_fleet: Fleet, links: list[Namespace]) -> None:
    """Its machine has given the items up by then. It may be waiting still, or have ended with an error."""
    machine = linked_fleet.machine()
    submitter = linked_fleet.submitter("one", 3, script=WAITING, inside=links[0])
    run = submitter.start("--parallel", "3")
    wait_until(lambda: linked_fleet.running_on(machine) == 3, "all items on the machine")
    links[0].cut()
    wait_until(lambda: "Ending 3 running items" in machine.text(), "the machine to give the items up")
    links[0].heal()
    result = submitter.project.finish(run, 180)
    if result.code != 0:
        assert "Cannot use the database" in result.text
        assert submitter.lld("--parallel", "3").code == 0
    submitter.assert_all_once(3)
    assert machine.text(1) == ""
