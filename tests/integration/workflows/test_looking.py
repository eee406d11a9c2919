"""Reading before writing: what the models ask for, how often, and that it is paid once."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentos.errors import StopRequested
from agentos.llm.provider import Reply, Role
from agentos.repo_map.parts import Part, PartKind, RepositoryMap
from harness.loop import APPROVED, Tools, World, lld, revise

KNOWN = Part(kind=PartKind.BODY, path="src/pool.py", text="def pool", why="", first=1, last=5)
MAPPED: dict[str, Any] = {
    "repository": RepositoryMap(shared=(KNOWN,)),
    "files": ("src/pool.py",),
    "look_rounds": 4,
    "look_tokens": 9_000,
}


def wishes(*texts: str) -> str:
    return json.dumps({"wishes": list(texts)})


@pytest.fixture
def world(tmp_path: Path) -> World:
    (tmp_path / "repo").mkdir()
    return World(tmp_path)


def approved(world: World, tools: Tools, **given: Any) -> None:
    ended = world.run(tools, **{**MAPPED, **given})
    assert ended.status == "approved", ended


def test_what_is_asked_for_is_in_the_next_prompts_of_both_models(world: World) -> None:
    tools = Tools([revise("a"), APPROVED], looks=[wishes("src/a.py#f", "../x"), wishes()])
    approved(world, tools)
    assert tools.calls[:5] == [
        *("drafter 1 looks", "drafter 2 looks", "drafter 3"),
        *("reviewer 1 looks", "reviewer 2"),
    ]
    for name in ("drafter 2 looks", "drafter 3", "reviewer 2", "drafter 4", "reviewer 3"):
        assert "text of src/a.py#f" in tools.prompts[name].text
        assert "- ../x: seen" in tools.prompts[name].text
    assert "text of src/a.py#f" not in tools.prompts["drafter 1 looks"].text
    (first, *_), *_ = ([one for one in tools.records if one["kind"] == "look"],)
    assert (first["wishes"], first["refused"]) == (["src/a.py#f", "../x"], ["../x: seen"])
    assert tools.said[0] == "look 1: read 1 definition in 1 file; refused: ../x: seen"


def test_what_is_shown_already_is_not_read_again(world: World) -> None:
    tools = Tools(looks=[wishes("src/a.py"), wishes()])
    approved(world, tools)
    assert tools.asked[0]["known"] == (("src/pool.py", 1, 5),)


def test_the_reviewer_looks_once_per_item(world: World) -> None:
    tools = Tools([revise("a"), revise("b"), APPROVED], looks=[wishes()], check=wishes("src/b.py"))
    approved(world, tools)
    assert [name for name in tools.calls if name.startswith("reviewer")] == [
        *("reviewer 1 looks", "reviewer 2", "reviewer 3", "reviewer 4")
    ]
    assert "text of src/b.py" in tools.prompts["reviewer 2"].text
    assert "text of src/b.py" in tools.prompts["drafter 3"].text


def test_rounds_and_tokens_have_a_limit(world: World) -> None:
    tools = Tools(looks=[wishes(f"src/{number}.py") for number in range(9)])
    approved(world, tools, look_rounds=3)
    assert [name for name in tools.calls if name.startswith("drafter")][-1] == "drafter 4"


def test_a_look_is_not_asked_for_when_few_tokens_are_left(world: World) -> None:
    tools = Tools(looks=[wishes(f"src/{number}.py") for number in range(9)])
    approved(world, tools, look_tokens=204)
    assert [name for name in tools.calls if "looks" in name] == ["drafter 1 looks"]


@pytest.mark.parametrize("off", [{"look_rounds": 0}, {"files": ()}, {"repository": RepositoryMap()}])
def test_nobody_looks_if_it_is_turned_off_or_nothing_is_tracked(world: World, off: dict[str, Any]) -> None:
    tools = Tools()
    approved(world, tools, **off)
    assert tools.calls == ["drafter 1", "reviewer 1"]


@pytest.mark.parametrize(
    "reply", ["", "Nothing.", '{"wishes": "src"}', "[[[[", '{"wish": []}', "{" * 9_000, "```json\n{\n```"]
)
def test_a_look_that_cannot_be_read_asks_for_nothing(world: World, reply: str) -> None:
    tools = Tools(looks=[reply], check=reply)
    approved(world, tools)
    assert tools.calls == ["drafter 1 looks", "drafter 2", "reviewer 1 looks", "reviewer 2"]
    assert tools.said[0] == "look 1: the reply could not be read, so nothing is read"


def test_before_a_revision_the_drafter_looks_only_if_an_open_finding_names_code(world: World) -> None:
    tools = Tools(
        [revise("See `src/c.py`"), revise("vague"), APPROVED], looks=[wishes(), wishes("src/c.py"), wishes()]
    )
    approved(world, tools)
    assert [name for name in tools.calls if name.startswith("drafter")] == [
        *("drafter 1 looks", "drafter 2", "drafter 3 looks", "drafter 4 looks", "drafter 5", "drafter 6")
    ]
    asked = tools.prompts["drafter 3 looks"].text
    assert "See `src/c.py`" in asked
    assert "previous draft" in asked


def test_names_of_the_draft_are_looked_up_for_both_models(world: World) -> None:
    draft = f"{lld(1)}\nIt calls `pool.wait` and `pool.wrong_name()`.\n"
    tools = Tools([revise("a"), APPROVED], drafts=[draft], looks=[wishes()])
    approved(world, tools)
    assert tools.asked[0]["names"][:2] == ["pool.wait", "pool.wrong_name"]
    assert "text of pool.wait" in tools.prompts["reviewer 2"].text
    for name in ("reviewer 1 looks", "reviewer 2", "drafter 3"):
        assert "- pool.wrong_name" in tools.prompts[name].text
    assert any("names what no tracked file contains: pool.wrong_name" in said for said in tools.said)


class Journalled(Tools):
    """A call that was paid for is not made again, as in a real worker."""

    def __init__(self, paid: dict[str, Reply], **given: Any) -> None:
        super().__init__([revise("a"), APPROVED], **given)
        self.paid = paid

    def call(self, role: Role, *, number: int, **asked: Any) -> Reply:
        name = f"{role} {number}"
        if name not in self.paid:
            self.paid[name] = super().call(role, number=number, **asked)
        return self.paid[name]


LOOKS = [wishes("src/a.py"), wishes("src/b.py"), wishes()]
USES = 27


def test_a_run_with_looks_uses_its_tools_so_often(world: World) -> None:
    whole = Journalled({}, looks=LOOKS, check=wishes("src/c.py"))
    approved(world, whole)
    assert whole.uses == USES


@pytest.mark.parametrize("cut_at", range(1, USES + 1))
def test_a_run_cut_off_while_looking_goes_on_there_and_pays_nothing_twice(world: World, cut_at: int) -> None:
    paid: dict[str, Reply] = {}
    first, second = (
        Journalled(paid, looks=LOOKS, check=wishes("src/c.py"), cut_at=at) for at in (cut_at, None)
    )
    with pytest.raises(StopRequested):
        world.run(first, **MAPPED)
    approved(world, second)
    made = [*first.calls, *second.calls]
    assert made == [
        *("drafter 1 looks", "drafter 2 looks", "drafter 3 looks", "drafter 4"),
        *("reviewer 1 looks", "reviewer 2", "drafter 5", "reviewer 3"),
    ]
    prompts = first.prompts | second.prompts
    for name, texts in (
        ("drafter 4", "ab"),
        ("reviewer 2", "abc"),
        ("drafter 5", "abc"),
        ("reviewer 3", "abc"),
    ):
        assert all(f"text of src/{one}.py\n" in prompts[name].text for one in texts)
