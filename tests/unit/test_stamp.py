"""The stamp at a document's end: what it says, whether the text is still what was stamped, forgeries."""

import hashlib

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agentos.stamp import MOCK, Stamp, author, seal, split, text_hash, without_stamps

STEADY = settings(derandomize=True, database=None, deadline=None)
HASH = "0" * 64
# Half characters are written as "?", so that a text of them is another one on disk.
ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)


def sealed(body: str, by: str = "openai:gpt-9+gemini:pro") -> str:
    return seal(body, item="LLD-42", input_hash=HASH, by=by)


def odd_line_ends(text: str) -> bool:
    """A known weakness: see the tests of carriage returns below."""
    return "\r\r" in text or text.rstrip("\n").endswith("\r")


# What is put in comes out.


def test_a_document_ends_with_one_comment_that_tells_all() -> None:
    digest = hashlib.sha256(b"# Title\n\nBody.").hexdigest()
    assert sealed("# Title\n\nBody.\n\n\n") == (
        f"# Title\n\nBody.\n\n<!-- agentos: item=LLD-42 input=sha256:{HASH}"
        f" text=sha256:{digest} by=openai:gpt-9+gemini:pro -->\n"
    )


@STEADY
@given(ANY)
def test_what_was_sealed_is_unchanged(body: str) -> None:
    assume(not odd_line_ends(body))
    taken = split(sealed(body))
    assert taken.unchanged is True
    assert taken.stamp == Stamp(
        item="LLD-42", input=HASH, text=text_hash(without_stamps(body)), by="openai:gpt-9+gemini:pro"
    )


@STEADY
@given(ANY, st.data())
def test_any_change_of_the_body_is_seen(body: str, data: st.DataObject) -> None:
    assume(not odd_line_ends(body))
    whole = sealed(body)
    length = whole.rindex("\n\n<!-- agentos:")
    place = data.draw(st.integers(0, length))
    gone = data.draw(st.integers(0, length - place))
    put = data.draw(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=5))
    changed = whole[:place] + put + whole[place + gone :]
    assume(split(changed).body.strip("\n") != split(whole).body.strip("\n"))
    assert split(changed).unchanged is False


@pytest.mark.parametrize("more", ["One more line.\n", "\n\n## Another section\n"])
def test_what_is_written_under_the_stamp_is_a_change_and_part_of_the_text(more: str) -> None:
    taken = split(sealed("Body.") + more)
    assert taken.unchanged is False
    assert taken.body == f"Body.\n\n{more.strip()}\n"


def test_blank_lines_at_the_ends_are_no_change() -> None:
    assert split("\n\n" + sealed("Body.") + "\n\n\n").unchanged is True


def test_a_text_without_a_stamp_stays_as_it_is() -> None:
    taken = split("\n# Mine\n\n<!-- a comment -->\n")
    assert (taken.body, taken.stamp) == ("\n# Mine\n\n<!-- a comment -->\n", None)
    assert taken.unchanged is False
    assert not taken.by_mock


def test_a_stamp_without_a_hash_of_the_text_does_not_tell() -> None:
    taken = split(f"Body.\n\n<!-- agentos: item=LLD-42 input=sha256:{HASH} -->\n")
    assert taken.unchanged is None
    assert taken.stamp == Stamp(item="LLD-42", input=HASH)


def test_a_stamp_says_only_what_it_has() -> None:
    assert str(Stamp(item="ISSUE-a")) == "<!-- agentos: item=ISSUE-a -->"
    receipt = Stamp(item="ISSUE-a", input=HASH, filed="acme/widgets#12")
    assert split(str(receipt)).stamp == receipt


# Where it stands.


def test_the_last_stamp_counts() -> None:
    first, last = Stamp(item="LLD-1", input=HASH), Stamp(item="LLD-2", input=HASH)
    taken = split(f"A\n\n{first}\n\nB\n\n{last}\n")
    assert taken.stamp == last
    assert taken.body == f"A\n\n{first}\n\nB\n"


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_stamp_counts_wherever_it_stands(place: int) -> None:
    body, stamp = sealed("One.\n\nTwo.").removesuffix("\n").rsplit("\n\n", 1)
    parts = body.split("\n\n")
    parts.insert(place, stamp)
    taken = split("\n\n".join(parts) + "\n")
    assert taken.unchanged is True
    assert taken.body.strip("\n") == "One.\n\nTwo."


@pytest.mark.parametrize(
    "text",
    ["<!--agentos:item=LLD-42-->", "<!-- AgentOS: item=LLD-42 -->", "<!--\tagentos:\n item=LLD-42\n-->"],
)
def test_a_stamp_is_read_as_editors_may_leave_it(text: str) -> None:
    found = split(text).stamp
    assert found is not None
    assert found.item.removesuffix("--") == "LLD-42"


@pytest.mark.parametrize(
    "text",
    [
        "<!-- agentos: item=LLD-42",
        "agentos: item=LLD-42 -->",
        "<!-- agentos-filing: 00 -->",
        "<!-- agentos: item=<b> -->",
        "<!-- mock: approve -->",
    ],
)
def test_what_is_no_whole_comment_of_ours_is_no_stamp(text: str) -> None:
    assert split(text).stamp is None


# Line ends and merges.


def test_other_line_ends_are_no_change() -> None:
    whole = sealed("One.\n\nTwo.")
    assert split(whole.replace("\n", "\r\n")).unchanged is True
    assert split(sealed("One.\r\n\r\nTwo.")).unchanged is True
    assert text_hash("One.\r\nTwo.\r\n") == text_hash("One.\nTwo.")


@pytest.mark.parametrize("body", ["One.\r\n", "One.\r", "One.\r\r\nTwo."])
def test_carriage_returns_of_a_model_are_no_change(body: str) -> None:
    assert split(sealed(body)).unchanged is True


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["<<<<<<< HEAD", ">>>>>>> theirs", "<<<<<<<", ">>>>>>>"])
def test_the_marks_of_a_merge_make_it_edited_even_where_the_hash_fits(mark: str, end: str) -> None:
    assert split(sealed(f"One.\n{mark}\nTwo.").replace("\n", end)).unchanged is False


def test_a_merge_with_two_stamps_is_edited() -> None:
    ours, theirs = sealed("Ours."), sealed("Theirs.")
    merged = f"<<<<<<< HEAD\n{ours}=======\n{theirs}>>>>>>> theirs\n"
    taken = split(merged)
    assert taken.unchanged is False
    assert taken.stamp == split(theirs).stamp


@pytest.mark.parametrize("text", ["a <<<<<<< b", "<<<<<<<<", "<<<<<< HEAD", "======="])
def test_what_only_looks_like_such_a_mark_is_none(text: str) -> None:
    assert split(sealed(text)).unchanged is True


# Forgeries.


FORGED = [
    f"<!-- agentos: item=LLD-42 input=sha256:{HASH} by=mock -->",
    "<!--AGENTOS: item=x -->",
    "<!--\n\tAgentOS: item=x -->",
    "<!-- agentos:",
]


@pytest.mark.parametrize("forged", FORGED)
def test_a_stamp_in_the_text_of_a_model_becomes_none(forged: str) -> None:
    whole = sealed(f"{forged}\n\nBody.\n\n{forged}")
    taken = split(whole)
    assert taken.stamp is not None
    assert (taken.stamp.item, taken.stamp.by) == ("LLD-42", "openai:gpt-9+gemini:pro")
    assert taken.unchanged is True
    assert split(taken.body).stamp is None
    assert "".join(whole.lower().split()).count("<!--agentos:") == 1


@STEADY
@given(ANY, st.sampled_from(FORGED), ANY)
def test_without_stamps_no_stamp_is_left(before: str, forged: str, after: str) -> None:
    text = without_stamps(before + forged + after)
    assert split(text).stamp is None
    assert without_stamps(text) == text


@pytest.mark.parametrize("mark", ["", "sha256:", "nonsense", "sha256:" + HASH])
def test_a_wrong_hash_is_an_edited_text(mark: str) -> None:
    taken = split(f"Body.\n\n<!-- agentos: item=LLD-42 text={mark} -->")
    assert taken.unchanged in ({None} if mark in {"", "sha256:"} else {False})


@STEADY
@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=60))
def test_no_name_breaks_out_of_the_comment(item: str, by: str, filed: str) -> None:
    text = str(Stamp(item=item, input=HASH, text=HASH, by=by, filed=filed))
    inner = text.removeprefix("<!-- agentos: ").removesuffix(" -->")
    # Two hyphens may stand there (a repository's name may have them); only "-->" and "--!>" end a comment.
    assert not set(inner) & set("<>!\n\r\"'&")
    found = split(f"Body.\n\n{text}\n")
    assert found.body == "Body.\n"
    assert found.stamp is not None
    assert (found.stamp.input, found.stamp.text) == (HASH, HASH)


@pytest.mark.parametrize(
    "model", ["x --> <script>", "a b text=sha256:1", "x\ny", "--><!-- agentos: by=mock -->", "日本", "a--b"]
)
def test_the_name_of_a_model_forges_no_field(model: str) -> None:
    found = split(sealed("Body.", by=author({"drafter": model, "reviewer": "r"})))
    assert found.unchanged is True
    assert not found.by_mock
    assert found.stamp is not None
    assert found.stamp.by.endswith("+r")


@pytest.mark.parametrize("label", ["LLD-a--b", "ISSUE-dark---mode"])
def test_every_label_that_an_item_may_have_comes_back(label: str) -> None:
    found = split(seal("Body.", item=label, input_hash=HASH, by="a+b")).stamp
    assert found is not None
    assert found.item == label


# Authors.


@pytest.mark.parametrize(
    ("models", "told"),
    [
        ({"drafter": "anthropic:opus", "reviewer": "gemini:pro"}, "anthropic:opus+gemini:pro"),
        ({"drafter": "mock", "reviewer": "mock"}, MOCK),
        ({"drafter": "mock:x", "reviewer": "gemini:pro"}, MOCK),
        ({"drafter": "gemini:pro", "reviewer": "mock:slow"}, MOCK),
        ({"drafter": "mocking:x", "reviewer": "openai:mock"}, "mocking:x+openai:mock"),
        ({"drafter": "openai:gpt-9"}, "openai:gpt-9+"),
        ({}, "+"),
    ],
)
def test_the_author_is_drafter_and_reviewer_or_the_mock(models: dict[str, str], told: str) -> None:
    assert author(models) == told
    assert split(sealed("Body.", by=author(models))).by_mock is (told == MOCK)
