"""Feedback: which item a person means, what can be sent back, and the note that is left for the next run."""

from pathlib import Path

import pytest

from agentos.app.notes import Subject, find_subject, send_back
from agentos.decisions import Decision, Question
from agentos.end_matter import EndMatter, with_end
from agentos.errors import UsageError
from agentos.model import Item, Status
from agentos.settings import Settings
from agentos.stamp import seal
from agentos.store.documents import Author
from agentos.store.home import Home
from agentos.store.records import FilingState, Records
from harness.records import approve, begin, end, said

FOLDERS = Settings().folders
LLD = "docs/lld/active/LLD-42.md"
BRIEF = "issues/active/dark-mode.md"


class World:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = Home(path=root / ".agentos")

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def begin(
        self,
        one: str = "42",
        workflow: str = "lld",
        *,
        mock: bool = False,
        status: Status = Status.NEEDS_REVISION,
        error: str = "not approved",
    ) -> None:
        with Records(self.home.create().records, mock=mock) as records:
            begin(records, item(one, workflow))
            end(records, item(one, workflow), status, reviews=2, error=error)

    def find(self, wanted: str) -> Subject:
        return find_subject(self.home, self.root, FOLDERS, wanted)

    def said(self, *, mock: bool = False) -> tuple[Decision, ...]:
        with Records(self.home.records, write=False, mock=mock) as records:
            return said(records, item())


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def item(one: str = "42", workflow: str = "lld") -> Item:
    return Item(workflow=workflow, id=one, label=f"X-{one}", title="", text="text", source="")


def sealed(label: str = "LLD-42", by: str = "a+b") -> str:
    return seal("# A document\n", item=label, input_hash="0" * 64, by=by)


# Which item is meant.


@pytest.mark.parametrize("wanted", ["42", "#42", "LLD-42"])
def test_an_item_with_a_document_is_found_by_its_id_or_label(world: World, wanted: str) -> None:
    world.write(LLD, sealed())
    found = world.find(wanted)
    assert (found.workflow, found.item, found.label, found.mock) == ("lld", "42", "LLD-42", False)
    assert found.document is not None
    assert found.document.path == LLD
    assert found.progress is None
    assert found.command == "lld 42"
    assert not world.home.path.exists()


@pytest.mark.parametrize("mock", [False, True])
def test_an_item_that_was_begun_is_found_without_a_document(world: World, mock: bool) -> None:
    world.begin(mock=mock)
    found = world.find("42")
    assert (found.label, found.mock, found.document) == ("LLD-42", mock, None)
    assert found.progress is not None
    assert found.progress.reviews == 2
    assert found.command == "lld 42" + " --mock" * mock
    assert found.needs_note


def test_a_brief_is_found_by_the_issue_that_was_written_for_it(world: World) -> None:
    world.write(BRIEF, sealed("ISSUE-dark-mode"))
    for wanted in ("dark-mode", "ISSUE-dark-mode"):
        found = world.find(wanted)
        assert (found.workflow, found.item, found.command) == ("issue", "dark-mode", "issue dark-mode")


def test_an_issue_that_a_person_wrote_is_no_document_of_a_brief(world: World) -> None:
    world.write(BRIEF, "# Dark mode\n")
    with pytest.raises(UsageError, match="nothing to send back"):
        world.find("dark-mode")


def test_an_issue_of_a_person_beside_its_lld_is_not_in_doubt(world: World) -> None:
    world.write("issues/active/42.md", "# Mine\n")
    world.write(LLD, sealed())
    assert world.find("42").label == "LLD-42"


def test_what_may_be_two_items_must_be_named_in_full(world: World) -> None:
    world.write("docs/lld/active/LLD-dark-mode.md", sealed("LLD-dark-mode"))
    world.write(BRIEF, sealed("ISSUE-dark-mode"))
    with pytest.raises(
        UsageError, match=r"'dark-mode' could be (ISSUE|LLD)-dark-mode or .*Use the full label"
    ):
        world.find("dark-mode")
    assert world.find("LLD-dark-mode").workflow == "lld"
    assert world.find("ISSUE-dark-mode").workflow == "issue"


@pytest.mark.parametrize("wanted", ["42", "LLD-43", "ISSUE-42", "lld-42", "", "../x", "a b", "con", "x" * 99])
def test_what_is_not_there_is_refused(world: World, wanted: str) -> None:
    world.write("docs/lld/active/LLD-1.md", sealed("LLD-1"))
    world.begin("2")
    with pytest.raises(UsageError, match="nothing to send back"):
        world.find(wanted)


def test_what_was_filed_is_edited_where_it_is(world: World) -> None:
    url = "https://github.example/acme/widgets/issues/7"
    brief = item("dark-mode", "issue")
    with Records(world.home.create().records) as records:
        fence = approve(records, brief, output=BRIEF, filing=FilingState.WANTED)
        records.intend(brief, fence, repository="r", marker="m", at="2026-01-01T00:00:00Z")
        with pytest.raises(UsageError, match="nothing to send back"):
            world.find("dark-mode")
        records.filed(brief, fence, number=7, url=url)
    with pytest.raises(UsageError, match=f"was filed as {url}. Edit it there"):
        world.find("dark-mode")


# Whose document it is.


@pytest.mark.parametrize(
    ("text", "author", "mock", "needs_note"),
    [
        (sealed(), Author.OURS, False, True),
        (sealed() + "Mine.\n", Author.EDITED, False, False),
        ("# Mine\n", Author.FOREIGN, False, False),
        (sealed("LLD-43"), Author.FOREIGN, False, False),
        (sealed(by="mock"), Author.OURS, True, True),
        (sealed(by="mock") + "Mine.\n", Author.EDITED, False, False),
    ],
)
def test_without_a_note_only_what_a_person_wrote_is_reviewed(
    world: World, text: str, author: Author, mock: bool, needs_note: bool
) -> None:
    world.write(LLD, text)
    found = world.find("42")
    assert found.document is not None
    assert (found.document.author, found.mock, found.needs_note) == (author, mock, needs_note)


def test_a_real_item_under_way_comes_before_the_mocks(world: World) -> None:
    world.write(LLD, sealed(by="mock"))
    world.begin(mock=True)
    assert world.find("42").mock is True
    world.begin()
    found = world.find("42")
    assert (found.mock, found.document) == (False, None)
    assert found.progress is not None


def test_a_real_document_comes_before_what_the_mock_has_begun(world: World) -> None:
    world.write(LLD, sealed())
    world.begin(mock=True)
    found = world.find("42")
    assert (found.mock, found.progress) == (False, None)


# Sending back.


@pytest.mark.parametrize("mock", [False, True])
def test_a_note_is_left_in_the_world_of_the_item(world: World, mock: bool) -> None:
    world.write(LLD, sealed(by="mock" if mock else "a+b"))
    send_back(world.home, world.find("42"), "  Name it better.\n")
    (note,) = world.said(mock=mock)
    assert (note.question, note.text) == ("", "Name it better.")
    assert note.by
    assert note.at
    assert world.said(mock=not mock) == ()


@pytest.mark.parametrize("text", ["", "  \n"])
def test_a_document_of_a_person_is_sent_back_without_a_word(world: World, text: str) -> None:
    world.write(LLD, "# Mine\n")
    send_back(world.home, world.find("42"), text)
    (note,) = world.said()
    assert note.words == ""


@pytest.mark.parametrize("text", ["", "  \n"])
@pytest.mark.parametrize("begun", [False, True])
def test_what_is_as_agentos_wrote_it_is_not_sent_back_without_a_word(
    world: World, text: str, begun: bool
) -> None:
    if begun:
        world.begin()
    else:
        world.write(LLD, sealed())
    with pytest.raises(
        UsageError, match=r'LLD-42 is unchanged since agentos wrote it.*agentos revise 42 --note "'
    ):
        send_back(world.home, world.find("42"), text)
    assert not world.home.records.exists() or world.said() == ()


def test_each_word_is_kept(world: World) -> None:
    world.begin()
    for text in ("One.", "Two."):
        send_back(world.home, world.find("42"), text)
    assert [note.text for note in world.said()] == ["One.", "Two."]


ASKED = EndMatter(questions=(Question(number=3, text="How long?"), Question(number=4, text="Who?")))


@pytest.mark.parametrize(
    ("note", "kept"),
    [
        ("Name it better.", [("", "Name it better.")]),
        ("Q4: Ann.", [("Who?", "Ann.")]),
        ("Brief!\nQ3: Two\ndays.\nQ4: Ann.", [("", "Brief!"), ("How long?", "Two\ndays."), ("Who?", "Ann.")]),
        ("Q5: No such question.", [("", "Q5: No such question.")]),
    ],
)
@pytest.mark.parametrize("begun", [False, True])
def test_an_open_question_of_a_document_is_answered_by_its_number(
    world: World, begun: bool, note: str, kept: list[tuple[str, str]]
) -> None:
    world.write(LLD, seal(with_end("# A document\n", ASKED), item="LLD-42", input_hash="0" * 64, by="a+b"))
    if begun:
        world.begin()
    send_back(world.home, world.find("42"), note)
    assert [(one.question, one.text) for one in world.said()] == kept


@pytest.mark.parametrize(
    ("asked", "note", "kept"),
    [
        ("Q1: Wait? / Q2: Who?", "Stop.", [("Wait?\nWho?", "Stop.")]),
        ("Q1: Wait? / Q2: Who?", "Q2: Ann.", [("Who?", "Ann.")]),
        ("Wait? / Who?", "Stop.", [("Wait? / Who?", "Stop.")]),  # asked by an earlier version
    ],
)
def test_a_note_about_a_discussed_item_answers_its_questions(
    world: World, asked: str, note: str, kept: list[tuple[str, str]]
) -> None:
    world.begin(status=Status.DISCUSS, error=asked)
    send_back(world.home, world.find("42"), note)
    assert [(one.question, one.text, one.answer) for one in world.said()] == [(*one, "") for one in kept]
