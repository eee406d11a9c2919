"""A key or token that does not get out by accident, and the one way to read one in.

Making one teaches the process's redactor its value, so that nothing which leaves the process can hold it.
"""

import re
from collections.abc import Mapping
from typing import Never

from agentos import redact
from agentos.errors import ConfigError

_ALLOWED = re.compile(r"[\x21-\x7e]*")
# Variables that hold a secret, used in this run or not.
_USUAL = re.compile(
    r"(?:GEMINI|ANTHROPIC|OPENAI|LANGSMITH|LANGCHAIN)_API_KEY(?:_[1-9]\d{0,3})?|(?:GH|GITHUB)_TOKEN"
)


class Secret:
    """Cannot be printed, formatted, copied, pickled or made JSON of; shows its name alone."""

    __slots__ = ("_value", "name")

    def __init__(self, name: str, value: str) -> None:
        self.name = name
        self._value = value
        redact.learn(name, value)

    def reveal(self) -> str:
        """The value, for the header of a call and for the lease that brings it to a worker."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret({self.name})"

    def __str__(self) -> Never:
        raise TypeError(f"The secret {self.name} is not text.")

    def __format__(self, _how: str) -> Never:
        raise TypeError(f"The secret {self.name} is not text.")

    def __reduce_ex__(self, _protocol: object) -> Never:
        raise TypeError(f"The secret {self.name} cannot be copied or stored.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)


def read_secret(name: str, text: str, *, where: str) -> Secret:
    """Take a secret as a user gave it; a message names the place and the position, no character."""
    value = text.strip()
    good = _ALLOWED.match(value)
    assert good is not None
    if good.end() < len(value):
        redact.learn(name, value)
        position = len(text) - len(text.lstrip()) + good.end() + 1
        raise ConfigError(
            f"{where} cannot be used: character {position} is a blank, a line break, a typographic quotation"
            " mark or something else that is not printable ASCII. Copy it again."
        )
    if not value:
        raise ConfigError(f"{where} is empty.")
    return Secret(name, value)


def know(environment: Mapping[str, str], variables: frozenset[str] = frozenset()) -> None:
    """Learn what the usual variables hold, and those named, so that it is kept out of all output."""
    for name, value in environment.items():
        if name in variables or _USUAL.fullmatch(name):
            redact.learn(name, value)
