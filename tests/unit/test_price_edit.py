"""A price in the text of a user's file: it is set, and nothing else changes."""

import tomllib

import pytest

from agentos.money import Price
from agentos.price_edit import NotEditable, with_price

PRICE = Price(input=1.25, output=10.0)
FILE = """\
# My settings; do not touch.
drafter = "openai:mine"   # the good one

[prices."openai:other"]
input = 1
output=2 # cheap

  [ prices . 'openai:mine' ]  # agreed in May
  output   =  7.5   # after the discount
  input = 3

[[keys]]
id = "a"
"""


def test_a_new_price_comes_at_the_end() -> None:
    changed = with_price(FILE, "openai:new", PRICE)
    assert changed == f'{FILE}\n[prices."openai:new"]\ninput = 1.25\noutput = 10.0\n'
    assert with_price("", "openai:new", PRICE) == '[prices."openai:new"]\ninput = 1.25\noutput = 10.0\n'
    assert with_price("a = 1", "openai:new", PRICE).startswith('a = 1\n\n[prices."openai:new"]\n')


def test_of_a_price_that_is_there_only_the_numbers_change() -> None:
    changed = with_price(FILE, "openai:mine", PRICE)
    assert changed == FILE.replace("7.5", "10.0").replace("  input = 3", "  input = 1.25")
    assert with_price(FILE, "openai:other", PRICE) == FILE.replace(
        "input = 1\noutput=2", "input = 1.25\noutput=10.0"
    )


def test_a_number_that_is_missing_is_added_and_one_that_is_not_given_stays() -> None:
    cached = Price(input=3.0, output=7.5, cached_input=0.3)
    changed = with_price(FILE, "openai:mine", cached)
    assert tomllib.loads(changed)["prices"]["openai:mine"] == {
        "input": 3.0,
        "output": 7.5,
        "cached_input": 0.3,
    }
    again = with_price(changed, "openai:mine", PRICE)
    assert tomllib.loads(again)["prices"]["openai:mine"]["cached_input"] == 0.3


def test_line_ends_of_another_system_stay() -> None:
    text = FILE.replace("\n", "\r\n")
    for model in ("openai:mine", "openai:new"):
        changed = with_price(text, model, Price(input=1.0, output=1.0, cached_input=0.5))
        assert changed.count("\n") == changed.count("\r\n")


@pytest.mark.parametrize(
    "text",
    [
        'prices = { "openai:mine" = { input = 1, output = 2 } }\n',
        'prices."openai:mine".input = 1\nprices."openai:mine".output = 2\n',
        '[prices]\n"openai:mine" = { input = 1, output = 2 }\n',
        'text = """\n[prices."openai:mine"]\n"""\n[prices]\n"openai:mine" = { input = 1, output = 2 }\n',
        "[prices\n",
    ],
)
def test_what_cannot_be_changed_safely_is_left_alone(text: str) -> None:
    with pytest.raises(NotEditable):
        with_price(text, "openai:mine", PRICE)
