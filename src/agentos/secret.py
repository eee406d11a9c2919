"""A key or token that cannot leak by accident, and the only way to read one.

Creating one adds its value to the process's redactor, so that nothing that leaves the process can contain it.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Never
from urllib.parse import unquote

from agentos import redact
from agentos.errors import ConfigError

_ALLOWED = re.compile(r"[\x21-\x7e]*")
# Variables that hold a secret, whether this run uses them or not.
_USUAL = re.compile(
    r"(?:GEMINI|GOOGLE|ANTHROPIC|OPENAI|LANGSMITH|LANGCHAIN)_API_KEY(?:_[1-9]\d{0,3})?|(?:GH|GITHUB)_TOKEN|PGPASSWORD"
)
DATABASE_VARIABLE = "AGENTOS_DATABASE_URL"  # an address with a password in it
_PASSWORD = re.compile(r"^[^/]*//[^:@/]*:(?P<plain>.+)@|[?&](?:ssl)?password=(?P<option>[^&]+)")


class BadCharacterError(ConfigError):
    """A secret has a character that cannot be part of one."""

    def __init__(self, where: str, position: int) -> None:
        super().__init__(
            f"{where} cannot be used: character {position} is a space, a line break, a typographic quotation"
            " mark or something else that is not printable ASCII. Copy it again."
        )
        self.position = position  # from 1


class Secret:
    """Cannot be printed, formatted, copied, pickled or turned into JSON; shows only its name."""

    __slots__ = ("_value", "name")

    def __init__(self, name: str, value: str) -> None:
        self.name = name
        self._value = value
        redact.learn(name, value)

    def reveal(self) -> str:
        """The value, for the header of a call and for the lease that a worker gets."""
        return self._value

    def fingerprint(self, salt: bytes) -> str:
        """A salted hash, to recognise the value without storing it."""
        return salted_hash(self._value, salt)

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


def salted_hash(text: str, salt: bytes) -> str:
    """A hash of a text that says nothing to someone without the salt."""
    return hashlib.blake2b(text.encode(), key=salt, digest_size=16).hexdigest()


def read_secret(name: str, text: str, *, where: str) -> Secret:
    """Check a secret from the user; an error names the place and the position, but no character."""
    value = text.strip()
    good = _ALLOWED.match(value)
    assert good is not None
    if good.end() < len(value):
        redact.learn(name, value)
        position = len(text) - len(text.lstrip()) + good.end() + 1
        raise BadCharacterError(where, position)
    if not value:
        raise ConfigError(f"{where} is empty.")
    return Secret(name, value)


def know(environment: Mapping[str, str], variables: frozenset[str] = frozenset()) -> None:
    """Learn the values of the usual and the named variables, so that they are kept out of all output."""
    for name, value in environment.items():
        if name in variables or _USUAL.fullmatch(name):
            redact.learn(name, value)
        elif name == DATABASE_VARIABLE:
            know_password(name, value)


def know_password(name: str, address: str) -> None:
    """Learn the passwords in an address, as they are written there and as they are meant."""
    for found in _PASSWORD.finditer(address):
        written = found["plain"] or found["option"]
        redact.learn(name, written)
        redact.learn(name, unquote(written))
