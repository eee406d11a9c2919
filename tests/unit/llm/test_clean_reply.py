"""What is taken off a reply, and what never is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.llm.clean_reply import clean_reply
from agentos.review import Verdict, read_reply

DOCUMENT = "# LLD-42: Login\n\n## Context\n\nText.\n"
CODE = "# Title\n\n```python\nx = 1\n```\n\nEnd.\n"
JSON = '{"verdict": "APPROVED"}\n'
THINKING, FENCE, BEFORE, UNSEEN = (
    "the model's thinking",
    "the code fence around the reply",
    "the text before the title",
    "invisible characters",
)
BARE = "# Title\n\n```\nx = 1\n```\n\nEnd.\n"
UNDERLINED = "LLD-42: Login\n=============\n\nText.\n\n# Part\n\nMore.\n"


@pytest.mark.parametrize(
    ("reply", "text", "removed"),
    [
        (DOCUMENT, DOCUMENT, ()),
        (f"<think>Hm.\n# No title\n</think>\n\n{DOCUMENT}", DOCUMENT, (THINKING,)),
        (f"<THINK>a</THINK><think>b</think>\n{DOCUMENT}", DOCUMENT, (THINKING,)),
        (f"Let me see. The login ...\n</think>\n\n{DOCUMENT}", DOCUMENT, (THINKING,)),
        ("<think>It was cut off", "", (THINKING,)),
        ("<thinking>\nIt was cut off before\n\n# LLD-42", "", (THINKING,)),
        (f"<thinking>a</thinking>\n\n{DOCUMENT}", DOCUMENT, (THINKING,)),
        (f'<think duration="3">a</think>{DOCUMENT}', DOCUMENT, (THINKING,)),
        (f"<think>a <think>b</think> c</think>\n{DOCUMENT}", DOCUMENT, (THINKING,)),
        (f"So I write:</think>{DOCUMENT}", DOCUMENT, (THINKING,)),
        (f"Okay.\n<think>a</think>\n{DOCUMENT}", DOCUMENT, (THINKING,)),
        (f"[THINK]a\n# b[/THINK]\n\n{DOCUMENT}", DOCUMENT, (THINKING,)),
        ("[THINK]It was cut off", "", (THINKING,)),
        (f"\u25c1think\u25b7a\u25c1/think\u25b7{DOCUMENT}", DOCUMENT, (THINKING,)),
        (
            f"<|channel|>analysis<|message|># a<|end|><|channel|>final<|message|>{DOCUMENT}<|return|>",
            DOCUMENT,
            (THINKING,),
        ),
        (f"<|channel|>final<|message|>{DOCUMENT}", DOCUMENT, (THINKING,)),
        ("<|channel|>analysis<|message|>It was cut off", "", (THINKING,)),
        (f"\ufeff{DOCUMENT}", DOCUMENT, (UNSEEN,)),
        (f"\ufeff\u200bSure:\n\n{DOCUMENT}", DOCUMENT, (UNSEEN, BEFORE)),
        (f"\ufeff<think>a</think>{DOCUMENT}", DOCUMENT, (UNSEEN, THINKING)),
        ("Sure! Here is the design:", "", (BEFORE,)),
        ("```markdown\n```", "", (FENCE,)),
        ("Here it is:\n```\n\n```\n", "", (FENCE,)),
        (f"Sure! Here is the design:\n\n#{DOCUMENT}", f"#{DOCUMENT}", (BEFORE,)),
        (f"Some remarks first.\n\n{UNDERLINED}", UNDERLINED, (BEFORE,)),
        (f"```markdown\n{DOCUMENT}", DOCUMENT, (FENCE,)),
        (f"```markdown\n{CODE}", CODE, (FENCE,)),
        (f"```markdown\n{BARE}```", BARE, (FENCE,)),
        (f"```markdown\n{BARE}", BARE, (FENCE,)),
        (f"```markdown\n{DOCUMENT}```\n\nI hope this helps. Shall I go on?\n", DOCUMENT, (FENCE,)),
        ("<think>a</think>\n", "", (THINKING,)),
        (f"Sure! Here is the design:\n\n{DOCUMENT}", DOCUMENT, (BEFORE,)),
        (f"I looked at the code first.\nThen I wrote this.\n\n{DOCUMENT}", DOCUMENT, (BEFORE,)),
        (f"```markdown\n{DOCUMENT}```", DOCUMENT, (FENCE,)),
        (f"~~~\n{DOCUMENT}~~~\n", DOCUMENT, (FENCE,)),
        (f"```md\n{CODE}```", CODE, (FENCE,)),
        (f"````markdown\n{CODE}````", CODE, (FENCE,)),
        (f"Here you go:\n\n```markdown\n{CODE}```\n\nLet me know what you think!", CODE, (FENCE,)),
        (
            f"<think>a</think>\nSure:\n```markdown\nHere is the document.\n\n{DOCUMENT}```",
            f"<think>a</think>\nSure:\n```markdown\nHere is the document.\n\n{DOCUMENT}```".partition(
                "</think>\n"
            )[2]
            + "\n",
            (THINKING,),
        ),
    ],
)
def test_a_draft_loses_its_wrapping(reply: str, text: str, removed: tuple[str, ...]) -> None:
    cleaned = clean_reply(reply, review=False)
    assert (cleaned.text, cleaned.removed) == (text, removed)


@pytest.mark.parametrize(
    "reply",
    [
        "## Context\n\nNo title here.\n",
        "Just text, no heading.\n",
        "---\ntitle: a\n---\n\n# Title\n",
        "<!-- a comment -->\n\n# Title\n",
        "![badge](a.png)\n\n# Title\n",
        "```python\nprint(1)\n```\n\n# Title\n",
        "```\n$ run\n```\n\nText.\n\n```\n$ stop\n```\n",
        "# Title\n\nThe tag </think> ends thinking.\n",
        "# Title\n\n```html\n<think>\n</think>\n```\n",
        "# Title\n\n```markdown\n# An example\n```\n",
        "## Before\n\nText.\n\n# Title\n",
        "**Issue:** #42\n\n# LLD-42: Login\n",
        "**Issue**: #42\n\n# LLD-42: Login\n",
        UNDERLINED,
        "```\n```\n\nText that is short.\n",
        "```\n# A comment of a shell script\nls\n```\n\n" + "Text. " * 120 + "\n",
        "```markdown\n# An example\n```\n\n" + "Text. " * 120 + "\n",
        "Sure is a word. Here is a text without a heading.\n",
        "## Context\n\nIt ends with\n</think>\n",
        "[Thinking](a.md) is a link.\n",
        "# Title\n\n[THINK]is a tag[/THINK]\n",
        "# Title\n\nThe mark <|channel|>final<|message|> and <|im_end|>\n",
    ],
)
def test_content_is_not_touched(reply: str) -> None:
    assert clean_reply(reply, review=False).text == reply
    assert clean_reply(reply, review=True).text == reply


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (f"<think>I approve? No.</think>{JSON}", JSON),
        (f"```json\n{JSON}```", JSON),
        (f"Here is the review:\n```json\n{JSON}```", JSON),
        (f"Sure! Here is the review:\n\n{JSON}", JSON),
        (f"Certainly.\n\n{DOCUMENT}", DOCUMENT),
        (f"\ufeff{JSON}", JSON),
        (f"I should approve?</think>{JSON}", JSON),
        (f"<thinking>No.</thinking>\n```json\n{JSON}```", JSON),
        ("<think>It was cut off", ""),
    ],
)
def test_a_review_loses_thinking_fence_and_greeting(reply: str, text: str) -> None:
    assert clean_reply(reply, review=True).text == text


@pytest.mark.parametrize(
    "reply",
    [
        f"I would not approve this.\n\n{JSON}",
        f"Here is the review.\nBut do not approve it.\n\n{JSON}",
        f"{JSON}\nOn second thought, revise it.",
        f"```json\n{JSON}```\nPlease do not build this yet.",
        f"This must be revised first.\n\n{DOCUMENT}",
        f"Okay, but do not approve it.\n\n{JSON}",
        f"Here is why it fails:\n\n{JSON}",
        f"Sure, revise it!\n\n{JSON}",
        f"Here is an approved version:\n\n{JSON}",
        '{"summary": "the tag </think>{is} not closed"}\n',
        f"```markdown\n{DOCUMENT}",
        "Do not approve it.\n\nTitle\n=====\n",
    ],
)
def test_words_that_may_speak_against_a_verdict_stay(reply: str) -> None:
    assert clean_reply(reply, review=True).text == reply


_PARTS = st.lists(
    st.sampled_from(
        [
            "# T",
            "## S",
            "",
            "text",
            "```",
            "```python",
            "```markdown",
            "<think>",
            "</think>",
            "{",
            "}",
            "Sure:",
            "---",
            "====",
            "\ufeff",
            "**Issue:** #4",
        ]
    ),
    max_size=9,
)


@given(_PARTS, st.booleans())
def test_cleaning_only_takes_away_and_ends(parts: list[str], review: bool) -> None:
    reply = "\n".join(parts)
    cleaned = clean_reply(reply, review=review)
    assert cleaned.text.strip() in reply
    assert bool(cleaned.removed) == (cleaned.text != reply)
    if reply.startswith("# T"):
        assert cleaned.text == reply


# Chat around a review, in any language


_OBJECT = '{"verdict": "APPROVED", "findings": []}'


@pytest.mark.parametrize(
    "before",
    [
        "Sure!\n\nHere is my review of the design:\n\n",
        "Gerne! Hier ist das Review:\n\n",
        "Bien sûr ! Voici la revue :\n\n",
        "I've carefully reviewed the design. Here is what I found:\n\n",
        "Thank you for the design.\nMy review follows.\n\n",
        "Sure!\n<think>\n# Plan\nAPPROVED\n</think>\n",
    ],
)
@pytest.mark.parametrize(
    "around", ["{}", "```json\n{}\n```", "```json\n{}\n```\n\nLet me know if you need more!"]
)
def test_the_one_object_of_a_review_is_found_in_any_chat(before: str, around: str) -> None:
    found = clean_reply(before + around.replace("{}", _OBJECT), review=True)
    assert found.text.strip() == _OBJECT
    assert found.removed


@pytest.mark.parametrize(
    "reply",
    [
        f"Here is my review. It must not be merged.\n\n{_OBJECT}",
        f"Das Design ist nicht gut.\n\n{_OBJECT}",
        f"{_OBJECT}\n\nOn second thought: REVISE",
        f"# Review\n\n{_OBJECT}",
        f"Two reviews:\n\n{_OBJECT}\n\n{_OBJECT}",
        f"Look:\n\n```json\n{_OBJECT}\n```\n\n```\ncode\n```",
    ],
)
def test_chat_around_an_object_that_may_judge_stays(reply: str) -> None:
    assert clean_reply(reply, review=True).text == reply


@pytest.mark.parametrize(
    "reply",
    [
        "{}",
        "```json\n{}\n```",
        "<think>\nNot enough.\n</think>\n\n{}",
        "I must not guess, but this is missing:\n\n```json\n{}\n```\n\nOnly these.",
    ],
)
def test_the_wishes_of_a_look_are_found_whatever_is_said_around_them(reply: str) -> None:
    wishes = '{"wishes": ["src/a.py"]}'
    assert clean_reply(reply.replace("{}", wishes), review=True).text.strip() == wishes


def test_a_draft_keeps_nothing_of_a_greeting_and_the_thinking_after_it() -> None:
    draft = "# LLD-42: Title\n\nText.\n"
    assert clean_reply(f"Sure!\n<think>\n# Plan\nx\n</think>\n{draft}", review=False).text == draft
    kept = f"{draft}\n<think>\nis a tag\n</think>\n"
    assert clean_reply(kept, review=False).text == kept


@pytest.mark.parametrize("review", [True, False])
def test_a_greeting_alone_is_nothing(*, review: bool) -> None:
    assert clean_reply("Sure!", review=review).text == ""
    assert clean_reply("<think>x</think>\n\nOf course.", review=review).text == ""


def test_thousands_of_thoughts_are_removed_at_once() -> None:
    assert clean_reply("<think></think>" * 60_000 + "# Title", review=False).text == "# Title\n"


# A review in Markdown, in a fence and with chat around it


_SHAPE = """# Governance Review

## Pre-Flight Gate
PASSED

## Tier 1: BLOCKING
### Cost
- [ ] No issues found.

## Tier 2: HIGH PRIORITY
### Quality
- [ ] No issues found.

## Verdict
[{}] **APPROVED** - Ready
[{}] **REVISE** - Fix it first
[ ] **DISCUSS** - A person decides
"""
_APPROVED, _REVISE = _SHAPE.format("x", " "), _SHAPE.format(" ", "x")
_GREETINGS = (
    "Sure!\n\nThank you for the design.\nHere is my review of it:",
    "Gerne!\n\nHier ist mein Review:",
    "I've looked at the design and at the code.\nThere are no blocking issues. My review is below.",
    "I approve this design. Here is my review:",
    "**Verdict:** APPROVED",
)
_AGAINST = (
    "I would not approve this.",
    "This must be revised first.\nHere is my review:",
    "Verdict: REVISE\n\nDetails:",
    "The verdict is REVISE.\n\nHere is my review:",
    "[x] REVISE\n[ ] APPROVED",
    "The draft contains this review of itself:",
    "Here is my review. I disagree with it.",
    "Das kann ich nicht freigeben.",
)


@pytest.mark.parametrize("after", ["", "\n\nLet me know if you need more!"])
@pytest.mark.parametrize("before", _GREETINGS)
def test_an_approval_is_read_in_a_fence_after_some_lines(before: str, after: str) -> None:
    reply = f"{before}\n\n```markdown\n{_APPROVED}```{after}"
    cleaned = clean_reply(reply, review=True)
    assert (cleaned.text, cleaned.removed) == (_APPROVED, (FENCE,))
    assert read_reply(cleaned.text, "lld").verdict is Verdict.APPROVED


@pytest.mark.parametrize(
    "where", ["{chat}\n\n```markdown\n{review}```", "```markdown\n{review}```\n\n{chat}"]
)
@pytest.mark.parametrize("chat", _AGAINST)
def test_an_approval_beside_words_against_it_is_unreadable(chat: str, where: str) -> None:
    reply = where.format(chat=chat, review=_APPROVED)
    assert clean_reply(reply, review=True).text == reply
    assert read_reply(reply, "lld").verdict is Verdict.UNREADABLE


@pytest.mark.parametrize("chat", [*_GREETINGS[:3], *_AGAINST[:4], "I cannot approve this yet. My review:"])
def test_words_before_a_review_cannot_weaken_it(chat: str) -> None:
    """What asks for a revision is read, whatever the chat says, unless that states another verdict."""
    reply = f"{chat}\n\n```markdown\n{_REVISE}```"
    assert read_reply(clean_reply(reply, review=True).text, "lld").verdict is Verdict.REVISE
    as_json = f"{chat}\n\n```json\n{_OBJECT.replace('APPROVED', 'REVISE')}\n```"
    assert clean_reply(as_json, review=True).text.strip() == _OBJECT.replace("APPROVED", "REVISE")


@pytest.mark.parametrize("chat", ["Verdict: APPROVED", "I approve this design.", "The verdict is APPROVED."])
def test_two_verdicts_that_contradict_each_other_are_unreadable(chat: str) -> None:
    reply = f"{chat}\n\n```markdown\n{_REVISE}```"
    assert read_reply(clean_reply(reply, review=True).text, "lld").verdict is Verdict.UNREADABLE
