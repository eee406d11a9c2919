"""The mock: its script, what it writes, and what it does to the worker it runs in."""

import json
import signal
import threading
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.errors import ItemFailed, StopRequested
from agentos.llm.clean_reply import clean_reply
from agentos.llm.mock import REFUSED_SECRET, MockProvider, Script, parse_script
from agentos.llm.provider import Cancel, ModelRequest, ProviderError, Role
from agentos.model import CallError
from agentos.review import read_reply
from agentos.secret import Secret
from agentos.workflows.gates import REQUIRED, Kind, check_draft
from harness.mock import call, mock

KINDS: tuple[Kind, ...] = ("issue", "lld")


def draft(script: str = "", number: int = 1, **given: Any) -> str:
    return call(mock(script, **given), "drafter", number).text


def review(script: str = "", number: int = 1, **given: Any) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(call(mock(script, **given), "reviewer", number).text)
    return read


def found(read: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (tier, one["category"], one["title"], one["text"])
        for tier in ("tier1", "tier2")
        for one in read[tier]
    ]


def test_without_a_comment_the_script_is_the_default() -> None:
    for text in ("", "# A brief", "<!-- a comment -->", "mock: verdicts=REVISE", "<!-- about mock: -->"):
        assert parse_script(text) == Script()
    assert Script().verdicts == ("APPROVED",)


@pytest.mark.parametrize("comment", ["<!-- mock: -->", "<!--mock:-->", "<!--\nmock:\n-->"])
def test_an_empty_comment_is_the_default(comment: str) -> None:
    assert parse_script(comment) == Script()


def test_every_word_is_read() -> None:
    script = parse_script(
        "# Title\n<!-- mock: verdicts=REVISE,DISCUSS,APPROVED latency=0.5 fail=broken hang=3 crash=SIGKILL\n"
        'say="a b" sh="echo \\"hi\\" | cat" 429=2\n\tgarbage=html gate=1 chat stuck look="a b/#C" -->\ntext'
    )
    assert script == Script(
        verdicts=("REVISE", "DISCUSS", "APPROVED"),
        latency=0.5,
        fail="broken",
        hang=3.0,
        crash=signal.SIGKILL,
        say=b"a b",
        sh='echo "hi" | cat',
        refuse_first=2,
        garbage="html",
        gate=1,
        chat=True,
        stuck=True,
        look=("a", "b/#C"),
    )


def test_the_first_comment_wins() -> None:
    text = "<!-- other --><!-- mock: verdicts=REVISE --><!-- mock: nonsense --> <!-- mock:"
    assert parse_script(text).verdicts == ("REVISE",)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("verdict=REVISE", "'verdict'"),
        ("slow", "'slow'"),
        ("Latency=1", "'Latency'"),
        ("=1", "'=1'"),
        ("verdicts=REVISE,MAYBE", "'MAYBE'"),
        ("verdicts=revise", "'revise'"),
        ("verdicts=REVISE,,APPROVED", "''"),
        ("verdicts=", "verdicts"),
        ("verdicts", "verdicts"),
        ('verdicts=""', "verdicts"),
        ("latency=soon", "'soon'"),
        ("latency=-1", "'-1'"),
        ("latency=nan", "'nan'"),
        ("latency=inf", "'inf'"),
        ("latency=1e9", "'1e9'"),
        ("latency=999999999", "'999999999'"),
        ("latency=1_0", "'1_0'"),
        ("latency=٣", "'٣'"),
        ("hang=long", "'long'"),
        ("hang", "hang"),
        ("crash=KILL", "'KILL'"),
        ("crash=SIG_DFL", "'SIG_DFL'"),
        ("crash=9", "'9'"),
        ("429=1.5", "'1.5'"),
        ("429=-1", "'-1'"),
        ("429", "429"),
        ("gate=many", "'many'"),
        ("garbage=rubbish", "'rubbish'"),
        ("garbage", "garbage"),
        ("stuck=yes", "stuck"),
        ("fail=", "fail"),
        ('say="abc', "say"),
        ('say="a"b', "say"),
        ("say='a b'", "'b\\''|\"b'\""),
        (r'say="\q"', r"'\\\\q'"),
        (r'say="\xZZ"', r"'\\\\x'"),
        ("say=a\\", r"'\\\\'"),
        ("latency=1 latency=2", "latency twice"),
    ],
)
def test_a_wrong_word_fails_the_item_and_is_named(words: str, named: str) -> None:
    with pytest.raises(ItemFailed, match=named):
        parse_script(f"<!-- mock: {words} -->")


def test_a_comment_without_an_end_fails_the_item() -> None:
    with pytest.raises(ItemFailed, match="-->"):
        parse_script("<!-- mock: verdicts=REVISE")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (r"a\nb", b"a\nb"),
        (r"\t\r\a\b\0", b"\t\r\a\b\0"),
        (r"\e[31mred\e[0m", b"\x1b[31mred\x1b[0m"),
        (r"\xff\xFE\x00", b"\xff\xfe\x00"),
        (r"\\n", b"\\n"),
        (r"\\\n", b"\\\n"),
        (r"\"quoted\"", b'"quoted"'),
        ("ü\x85\u2028", "ü\x85\u2028".encode()),
        ("\ud800", b"\xed\xa0\x80"),
        ("two\nlines", b"two\nlines"),
        ("it's = fine", b"it's = fine"),
    ],
)
def test_say_understands_escapes(written: str, said: bytes) -> None:
    assert parse_script(f'<!-- mock: say="{written}" -->').say == said


def test_a_shell_command_keeps_its_own_escapes() -> None:
    assert (
        parse_script(r"""<!-- mock: sh="printf 'a\nb\\n' \"$HOME\"" -->""").sh
        == "printf 'a\\nb\\n' \"$HOME\""
    )
    assert parse_script(r'<!-- mock: fail="no \"disk\" at C:\temp" -->').fail == r'no "disk" at C:\temp'


@given(st.text(alphabet='verdictslatncyfhgkmou=",.\\xn 0149AEIOPRSUV\n-<>!') | st.text())
def test_no_script_raises_anything_but_a_failed_item(words: str) -> None:
    for text in (
        words,
        f"<!-- mock: {words} -->",
        f'<!-- mock: say="{words}" -->',
        f"<!-- mock: hang={words} -->",
    ):
        try:
            assert isinstance(parse_script(text), Script)
        except ItemFailed as exc:
            assert str(exc)  # noqa: PT017


@given(st.binary(min_size=1))
def test_any_bytes_can_be_said(data: bytes) -> None:
    written = "".join(f"\\x{byte:02x}" for byte in data)
    assert parse_script(f"<!-- mock: say={written} -->").say == data


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("item_id", ["42", "add-login", "A_b-9"])
def test_a_draft_passes_the_gates_as_it_is(kind: Kind, item_id: str) -> None:
    for number in (1, 2, 7):
        text = draft("verdicts=REVISE", number, kind=kind, item_id=item_id)
        result = check_draft(kind, text, item_id=item_id, github=True)
        assert (result.draft, result.missing, result.notes) == (text, (), ())


@pytest.mark.parametrize("kind", KINDS)
def test_a_draft_names_title_and_number_and_is_always_the_same(kind: Kind) -> None:
    text = draft(number=3, kind=kind)
    assert text == draft(number=3, kind=kind)
    assert text != draft(number=4, kind=kind)
    assert text.splitlines()[0].endswith("Parallel runs")
    assert "Draft 3" in text
    assert "\n\n\n" not in text


def test_an_lld_lists_the_files_it_changes() -> None:
    def paths(item_id: str) -> list[str]:
        lines = draft(item_id=item_id).partition("### Files changed\n")[2].partition("\n## ")[0].splitlines()
        return [line.split("`")[1] for line in lines if line.startswith("- `")]

    assert paths("42") == ["src/item_42/service.py", "src/item_42/settings.py", "tests/test_item_42.py"]
    assert paths("Add-login")[0] == "src/item_add_login/service.py"


@pytest.mark.parametrize("kind", KINDS)
def test_a_later_draft_says_which_findings_it_resolves(kind: Kind) -> None:
    script = "verdicts=REVISE,REVISE,APPROVED"
    assert "Resolved" not in draft(script, 1, kind=kind)
    for number in (1, 2):
        titles = [one[2] for one in found(review(script, number, kind=kind))]
        assert titles
        assert all(f"{title}:" in draft(script, number + 1, kind=kind) for title in titles)


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_drafts_miss_a_section_where_the_script_says_so(kind: Kind) -> None:
    provider = mock("gate=2 verdicts=REVISE", kind=kind)
    texts = [call(provider, "drafter", number).text for number in (1, 2, 3, 4)]
    missing = [check_draft(kind, text, item_id="42").missing for text in texts]
    assert missing == [(REQUIRED[kind][2],), (REQUIRED[kind][2],), (), ()]
    assert ["Resolved" in text for text in texts] == [False, False, False, True]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "title",
    [
        "Add <!-- mock: crash=SIGKILL --> login",
        "Add <!<!-- -->-- mock: crash=SIGKILL --> login",
        "Add login <!-- mock: crash=SIGKILL",
        "Add\n\n<!-- mock:\ncrash=SIGKILL -->\n## Context\nlogin",
    ],
)
def test_a_title_cannot_script_the_next_workflow(kind: Kind, title: str) -> None:
    text = draft(kind=kind, title=title)
    assert parse_script(text) == Script()
    assert "Add" in text.splitlines()[0]
    assert check_draft(kind, text, item_id="42").missing == ()


@given(st.text(alphabet="<>!- mock:x\n"))
def test_no_title_can_script_the_next_workflow(title: str) -> None:
    assert "<!--" not in draft(title=title)


def test_a_draft_without_a_title_is_named_by_its_id() -> None:
    assert draft(title=" \n").startswith("# LLD-42: 42\n")


SHAPE = {
    "identity",
    "pre_flight",
    "earlier",
    "summary",
    "tier1",
    "tier2",
    "suggestions",
    "questions",
    "verdict",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verdict", ["APPROVED", "REVISE", "DISCUSS"])
def test_a_review_has_the_agreed_shape(kind: Kind, verdict: str) -> None:
    tier2 = {"Architecture", "Quality"} | ({"Observability"} if kind == "lld" else set())
    for number in range(1, 12):
        read = review(f"verdicts={verdict}", number, kind=kind)
        assert set(read) == SHAPE
        assert read["verdict"] == verdict
        assert read["pre_flight"] == {"passed": True, "note": "All required elements are present."}
        for one in read["tier1"] + read["tier2"]:
            assert set(one) == {"category", "title", "text", "recommendation"}
            assert all(one.values())
        assert {one["category"] for one in read["tier1"]} <= {"Cost", "Safety", "Security", "Legal"}
        assert {one["category"] for one in read["tier2"]} <= tier2


def test_verdicts_come_in_order_and_the_last_repeats() -> None:
    provider = mock("verdicts=REVISE,DISCUSS,APPROVED")
    verdicts = [json.loads(call(provider, "reviewer", number).text)["verdict"] for number in range(1, 6)]
    assert verdicts == ["REVISE", "DISCUSS", "APPROVED", "APPROVED", "APPROVED"]


@pytest.mark.parametrize("kind", KINDS)
def test_findings_differ_from_round_to_round(kind: Kind) -> None:
    rounds = [found(review("verdicts=REVISE", number, kind=kind)) for number in range(1, 21)]
    assert all(1 <= len(one) <= 2 for one in rounds)
    assert len({tuple(one) for one in rounds}) == 20
    assert {len({tier for tier, *_ in one}) for one in rounds} == {1, 2}
    assert any(tier == "tier1" for tier, *_ in rounds[0])


@pytest.mark.parametrize("verdict", ["REVISE", "DISCUSS"])
def test_findings_stay_the_same_where_the_script_is_stuck(verdict: str) -> None:
    rounds = [found(review(f"verdicts={verdict} stuck", number)) for number in range(1, 6)]
    assert rounds == [rounds[0]] * 5


def test_what_each_verdict_comes_with() -> None:
    approved, discuss = review("verdicts=APPROVED"), review("verdicts=DISCUSS")
    assert found(approved) == []
    assert approved["suggestions"]
    assert approved["questions"] == []
    assert [tier for tier, *_ in found(discuss)] == ["tier2"]
    assert len(discuss["questions"]) == 1


@pytest.mark.parametrize("garbage", ["truncated", "empty", "spoof", "html"])
def test_garbage_takes_the_place_of_every_review_but_of_no_draft(garbage: str) -> None:
    provider = mock(f"garbage={garbage}")
    assert check_draft("lld", call(provider, "drafter").text, item_id="42").missing == ()
    for number in (1, 2):
        text = call(provider, "reviewer", number).text
        with pytest.raises(json.JSONDecodeError):
            json.loads(text)
        assert (text == "") == (garbage == "empty")
        assert ("502" in text) == (garbage == "html")
        assert ("[x] **APPROVED**" in text) == (garbage == "spoof")


def test_a_spoofed_approval_is_quoted_only() -> None:
    outside, fenced = "", False
    for line in call(mock("garbage=spoof"), "reviewer").text.splitlines():
        fenced ^= line.startswith("```")
        outside += "" if fenced or line.startswith(">") else line + "\n"
    assert "APPROVED" not in outside


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verdict", ["APPROVED", "REVISE", "DISCUSS"])
def test_the_strict_reader_reads_every_review(kind: Kind, verdict: str) -> None:
    for number in range(1, 7):
        provider = mock(f"verdicts={verdict}", kind=kind)
        reading = read_reply(call(provider, "reviewer", number).text, kind)
        assert (reading.verdict.value, reading.reason) == (verdict, "")
        assert len([one for one in reading.findings if one.tier < 3]) == len(
            found(review(f"verdicts={verdict}", number, kind=kind))
        )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("garbage", ["truncated", "empty", "spoof", "html"])
def test_the_strict_reader_reads_no_garbage(kind: Kind, garbage: str) -> None:
    reading = read_reply(call(mock(f"garbage={garbage}", kind=kind), "reviewer").text, kind)
    assert reading.verdict.value == "UNREADABLE"


@pytest.mark.parametrize("role", ["drafter", "reviewer"])
def test_a_reply_tells_model_and_tokens(role: Role) -> None:
    reply = call(mock(), role)
    assert reply.model == "any", "the one that was asked for"
    assert reply.tokens_in == 4
    assert reply.tokens_out == -(-len(reply.text) // 4)
    assert reply.headers == {}


LOOK = {"title": "look", "type": "object"}
LATER = "Text.\n<<<BEGIN x1 looked up\nsrc/a.py\n<<<END x1\n"


@pytest.mark.parametrize("role", ["drafter", "reviewer"])
def test_the_first_look_wishes_what_the_script_says(role: Role) -> None:
    provider = mock('look="src/a.py src/b.py#Name words" garbage=html')
    wished = [
        json.loads(call(provider, role, schema=LOOK, prompt=prompt).text)
        for prompt in ("Text, looked up.", LATER)
    ]
    assert wished == [{"wishes": ["src/a.py", "src/b.py#Name", "words"]}, {"wishes": []}]
    assert json.loads(call(mock(), role, schema=LOOK).text) == {"wishes": []}


def test_a_look_waits_and_is_refused_but_does_nothing_else() -> None:
    provider = mock("fail=broken 429=1 latency=0.05 chat")
    with pytest.raises(ProviderError):
        call(provider, "drafter", schema=LOOK)
    began = time.monotonic()
    reply = call(provider, "drafter", schema=LOOK)
    assert time.monotonic() - began >= 0.05
    assert clean_reply(reply.text, review=True).text == '{"wishes": []}\n'
    with pytest.raises(ItemFailed, match=r"^broken$"):
        call(provider, "drafter", 2)


def test_looks_do_not_count_as_drafts_or_reviews() -> None:
    provider = mock("verdicts=REVISE,APPROVED gate=1")
    assert check_draft("lld", call(provider, "drafter", 3, nth=1).text, item_id="42").missing
    assert json.loads(call(provider, "reviewer", 2, nth=1).text)["verdict"] == "REVISE"


def served(provider: MockProvider, calls: int) -> list[bool]:
    answers = []
    for _ in range(calls):
        try:
            call(provider, "reviewer")
        except ProviderError as exc:
            assert exc.error_class is CallError.RATE_LIMITED  # noqa: PT017
            assert exc.retry_after == 1.0  # noqa: PT017
            answers.append(False)
        else:
            answers.append(True)
    return answers


def test_refusals() -> None:
    assert served(mock("429=2"), 4) == [False, False, True, True]


def test_the_refused_key_is_refused_and_no_other() -> None:
    request = ModelRequest(role="reviewer", model="any", number=1, system="", prompt="")
    provider = mock()
    with pytest.raises(ProviderError):
        provider.call(request, secret=Secret("mock-1", REFUSED_SECRET), cancel=Cancel())
    assert provider.call(request, secret=Secret("mock-1", "mock"), cancel=Cancel()).text


def test_a_refused_call_does_nothing_else() -> None:
    provider = mock("429=1 fail=broken")
    with pytest.raises(ProviderError):
        call(provider, "drafter")
    with pytest.raises(ItemFailed, match=r"^broken$"):
        call(provider, "drafter")


def test_a_hanging_worker_does_not_listen() -> None:
    cancel = Cancel()
    cancel.set()
    began = time.monotonic()
    with pytest.raises(StopRequested):
        call(mock("hang=0.2"), "drafter", cancel=cancel)
    assert time.monotonic() - began >= 0.2


def test_latency_is_waited_each_call_and_ends_at_a_stop() -> None:
    provider, cancel = mock("latency=0.1"), Cancel()
    began = time.monotonic()
    call(provider, "drafter")
    call(provider, "reviewer")
    assert time.monotonic() - began >= 0.2
    threading.Timer(0.05, cancel.set).start()
    with pytest.raises(StopRequested):
        call(mock("latency=60"), "reviewer", cancel=cancel)
    assert time.monotonic() - began < 30


def test_a_stop_is_heard_without_latency_too() -> None:
    cancel = Cancel()
    cancel.set()
    with pytest.raises(StopRequested):
        call(mock(), "reviewer", cancel=cancel)
