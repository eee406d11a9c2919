"""Secrets are found by their value in every form, and nothing else is touched."""

import json
import pickle
import string
from copy import copy, deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos import redact
from agentos.errors import ConfigError
from agentos.frames import encode, read_for_coordinator, read_for_worker
from agentos.llm.provider import ProviderError
from agentos.model import CallError
from agentos.model_access import RoleOptions
from agentos.redact import SHORTEST, WINDOW, Redactor
from agentos.secret import Secret, know, read_secret
from agentos.wire import Ended, HeaderAccess, Job, LeaseGranted, ProviderAccess, ProxyAccess
from harness.echo import FORMS, pieces

KEY = "sk-proj-Zq3vXw81LmNbTrQ-7hJkYpDs_Fg5cVaE"
ALPHABET = string.ascii_letters + string.digits + "-_.+/=~:@!$"  # what keys are made of


def knowing(**secrets: str) -> Redactor:
    redactor = Redactor()
    for name, value in secrets.items():
        redactor.learn(name, value)
    return redactor


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_taken_out_in_every_form(form: str) -> None:
    redactor = knowing(k1=KEY)
    text = f"before: {FORMS[form](KEY)} :after"
    assert redactor.find(text) == "k1"
    shown = redactor.redact(text)
    assert "[secret: k1]" in shown
    assert shown.startswith("before: ")
    assert shown.endswith(" :after")
    assert redactor.find(shown) is None
    assert not [piece for piece in pieces(KEY) if piece in shown.encode()]


@pytest.mark.parametrize("form", FORMS)
def test_a_json_line_stays_one(form: str) -> None:
    redactor = knowing(k1=KEY)
    for how in (True, False):
        line = json.dumps({"time": 1, "text": f"it is {FORMS[form](KEY)}", "n": [KEY]}, ensure_ascii=how)
        read = json.loads(redactor.redact(line))
        assert read["n"] == ["[secret: k1]"]
        assert redactor.find(read["text"]) is None


@given(
    st.text(ALPHABET, min_size=SHORTEST, max_size=60), st.text(max_size=40), st.text(max_size=40), st.data()
)
def test_any_secret_anywhere_in_any_form(secret: str, before: str, after: str, data: st.DataObject) -> None:
    redactor = knowing(k1=secret)
    form = data.draw(st.sampled_from(sorted(set(FORMS) - {"piece"})))
    text = f"{before} {FORMS[form](secret)} {after}"
    if redactor.find(secret) is not None:  # of a signed token the first part is no secret
        shown = redactor.redact(text)
        assert "[secret: k1]" in shown
        assert secret not in shown or secret in "[secret: k1]"


@given(st.text(ALPHABET, min_size=WINDOW, max_size=60), st.data())
def test_any_sixteen_characters_in_a_row_are_too_many(secret: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(secret) - WINDOW))
    redactor = knowing(k1=secret)
    if redactor.find(secret) is not None and not secret.startswith("eyJ"):
        assert redactor.find(f"abc{secret[at : at + WINDOW]}abc") == "k1"


@given(st.text())
def test_other_text_comes_back_as_it_is(text: str) -> None:
    assert knowing(k1=KEY).redact(text) == text


@given(st.binary())
def test_other_bytes_come_back_as_they_are(data: bytes) -> None:
    assert knowing(k1=KEY).redact_bytes(data) == data


def test_what_all_keys_begin_with_is_no_secret() -> None:
    redactor = knowing(k1=KEY)
    for text in ("sk-proj-", KEY[: WINDOW - 1], KEY[-WINDOW + 1 :], "sk-proj-abcdefghijklmnop"):
        assert redactor.redact(text) == text


def test_a_short_secret_counts_as_a_whole_and_a_very_short_one_not_at_all() -> None:
    redactor = knowing(short="hunter-22", tiny="mock")
    assert redactor.redact("a mock, hunter-2 and hunter-22!") == "a mock, hunter-2 and [secret: short]!"


def test_the_first_part_of_a_signed_token_is_the_same_in_all() -> None:
    redactor = knowing(k1="eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiI0Nzk1MTYyIn0.kN8vRq2LwX5tPz7m")
    assert redactor.find("eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbm90aGVyIn0.x") is None
    assert redactor.find("kN8vRq2LwX5tPz7m") == "k1"


def test_several_secrets_are_told_apart() -> None:
    other = KEY[::-1]
    redactor = knowing(k1=KEY, k2=other)
    assert redactor.redact(f"{KEY},{other};{KEY}") == "[secret: k1],[secret: k2];[secret: k1]"


def test_a_value_is_cleaned_inside() -> None:
    cleaned = knowing(k1=KEY).clean({KEY: [1, None, (KEY, 2.5)], "b": KEY.encode()})
    assert cleaned == {"[secret: k1]": [1, None, ["[secret: k1]", 2.5]], "b": b"[secret: k1]"}


# The type.


@pytest.mark.parametrize(
    "leak",
    [str, "{}".format, "%s".__mod__, json.dumps, pickle.dumps, copy, deepcopy, lambda one: f"{one:>9}"],
)
def test_a_secret_cannot_be_made_text_of_copied_or_stored(leak: Any) -> None:
    with pytest.raises(TypeError) as raised:
        leak(Secret("key-1", KEY))
    assert KEY not in str(raised.value)


def test_a_secret_shows_its_name_alone() -> None:
    secret = Secret("key-1", KEY)
    assert repr(secret) == repr([secret])[1:-1] == "Secret(key-1)"
    assert not hasattr(secret, "__dict__")
    assert secret == Secret("other", KEY)
    assert secret != Secret("key-1", KEY + "x")
    assert secret != KEY
    assert secret.reveal() == KEY


def test_making_a_secret_lets_the_process_know_it() -> None:
    assert redact.redact(KEY) == KEY
    Secret("key-1", KEY)
    assert redact.redact(KEY) == "[secret: key-1]"


@pytest.mark.parametrize(
    "form", ["\u200b", "\u2028", "\u00a0", " ", "\n", "\t", "\x00", "\x7f", "é", "\udc80"]
)
@pytest.mark.parametrize("at", [1, 5, len(KEY) - 1])
def test_a_key_with_anything_but_printable_ascii_is_refused_by_position(form: str, at: int) -> None:
    with pytest.raises(ConfigError) as raised:
        read_secret("key-1", f"  {KEY[:at]}{form}{KEY[at:]}\n", where="Key 'key-1': the variable K")
    told = str(raised.value)
    assert told.startswith(f"Key 'key-1': the variable K cannot be used: character {at + 3} is")
    assert not any(KEY[start : start + 4] in told for start in range(len(KEY) - 3))
    assert redact.find(KEY) == "key-1", "and it is known, so that nothing else shows it"


def test_quotation_marks_around_a_key_are_refused() -> None:
    with pytest.raises(ConfigError, match="character 1 is"):
        read_secret("key-1", f"\u201c{KEY}\u201d", where="K")


def test_what_variables_hold_is_known_whether_it_is_used_or_not() -> None:
    know({"GH_TOKEN": KEY, "MINE": KEY[::-1], "PATH": "/usr/local/sbin:/usr/local/bin"}, frozenset({"MINE"}))
    assert redact.find(KEY) == "GH_TOKEN"
    assert redact.find(KEY[::-1]) == "MINE"
    assert redact.find("/usr/local/sbin:/usr/local/bin") is None


# The wire.


def test_a_lease_is_the_only_message_with_a_secret_in_it() -> None:
    leased = LeaseGranted(number=1, lease=2, key="key-1", secret=Secret("key-1", KEY))
    assert KEY.encode() in encode(leased)
    ended = Ended(status="failed", error=f"the server said {KEY}")
    assert KEY.encode() not in encode(ended)
    frame = json.dumps({"type": "ended", "status": "failed", "error": f"said \u200b{KEY}"}).encode()
    assert read_for_coordinator(frame) == Ended(status="failed", error="said \u200b[secret: key-1]")


def test_a_job_brings_the_secrets_of_headers_and_a_proxys_login_and_nothing_else() -> None:
    know({"HEADER_KEY": KEY})
    item = {"workflow": "lld", "id": "1", "label": "LLD-1", "title": "t", "text": KEY, "source": ""}
    header = HeaderAccess(
        header="api-key", value="Bearer ", name="HEADER_KEY", secret=Secret("HEADER_KEY", KEY)
    )
    proxy = ProxyAccess(url="http://proxy.test:3128", user="me", password=Secret("proxy-login", KEY))
    access = ProviderAccess(kind="openai", base_url="https://models.test", headers=(header,), proxy=proxy)
    job = Job.model_validate(
        {"run_id": "r", "attempt": 1, "item": item, "worktree": "", "database": "", "drafter": "a:b"}
        | {"reviewer": "a:b", "max_iterations": 1, "max_retries": 1, "call_timeout": 1.0}
        | {"providers": {"azure": access}, "roles": {"drafter": RoleOptions(temperature=0.5, timeout=9.0)}}
    )
    assert KEY not in repr(job.providers)
    sent = encode(job)[4:]
    assert json.loads(sent)["item"]["text"] != KEY
    received = read_for_worker(sent)
    assert isinstance(received, Job)
    assert received.providers == {"azure": access}
    assert received.roles == job.roles
    secret = received.providers["azure"].headers[0].secret
    assert secret is not None
    assert secret.name == "HEADER_KEY"


def test_a_job_brings_the_variables_for_tracing_and_no_other_secret() -> None:
    know({"LANGSMITH_API_KEY": KEY})
    item = {"workflow": "lld", "id": "1", "label": "LLD-1", "title": "t", "text": KEY, "source": ""}
    sent = encode(
        Job.model_validate(
            {"run_id": "r", "attempt": 1, "item": item, "worktree": "", "database": "", "drafter": "a:b"}
            | {"reviewer": "a:b", "max_iterations": 1, "max_retries": 1, "call_timeout": 1.0}
            | {"environment": {"LANGSMITH_API_KEY": KEY}}
        )
    )
    told = json.loads(sent[4:])
    assert told["item"]["text"] == "[secret: LANGSMITH_API_KEY]"
    assert told["environment"] == {"LANGSMITH_API_KEY": KEY}


PARTLY = [
    lambda key: f"{key[:15]}...{key[-4:]}",
    lambda key: f"{key[:12]}…",
    lambda key: f"{key[:15]}xxxxxxx",
    lambda key: f"{key[:12]}####",
    lambda key: f"{key[:14]}",
    lambda key: f"...{key[-6:]}",
    lambda key: f"'{key[:12]}...'.",
    lambda key: f"api_key={key[8:16]}••••",
    lambda key: f"{key[:8]}**{key[-4:]}",
    lambda key: f"{key[:12]}<redacted>{key[-4:]}",
    lambda key: f"{key[:12]}[...]",
    lambda key: f"sk-proj-********{key[-4:]}",
]


@pytest.mark.parametrize("mask", PARTLY)
@pytest.mark.parametrize("key", [KEY, "sk-QZXJ7731aaaaBBBBccccDDDD01", "AIzaSyD3x9Kq2mNvT7rWzLpQ8"])
def test_a_part_of_a_key_in_a_servers_text_is_hidden(key: str, mask: Any) -> None:
    shown = knowing(k1=key).hide_parts(f"The key {mask(key)} may not use this model.")
    assert shown == "The key [key] may not use this model."


@pytest.mark.parametrize(
    "text",
    [
        "The sk-proj- keys of this project are not allowed... Use sk-ant- keys; AIzaSy... is Google's.",
        "HTTP 400 invalid_request_error: max_tokens is too large: 16000 > 8192 (gpt-4o-2024-08-06).",
        "Project `proj_abc` does not have access to model `gpt-5`. See https://example.com/docs#models",
        "The gateway is in production mode.",
    ],
)
def test_other_words_of_a_servers_text_stay(text: str) -> None:
    redactor = knowing(k1=KEY, k2="sk-gateway-production-4711", k3="AIzaSyD3x9Kq2mNvT7rWzLpQ8")
    assert redactor.hide_parts(text) == text


def test_masked_keys_are_hidden_even_if_unknown() -> None:
    assert Redactor().hide_parts("Incorrect key: sk-*****abcd.") == "Incorrect key: [key]"


def test_the_error_of_a_provider_shows_no_part_of_a_key() -> None:
    Secret("part", "sk-QZXJ7731aaaaBBBBccccDDDD01")
    error = ProviderError(CallError.BAD_REQUEST, "HTTP 400: the key sk-QZXJ7731aa...DD01 is odd")
    assert str(error) == "HTTP 400: the key [key] is odd"
