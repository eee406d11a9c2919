"""Files for tests that are written down in one text: each begins with `=== path`.

No secret is written down: `<mix:32>` stands for 32 random letters and digits, `<pw>` for a password.
"""

import base64
import random
import re
import string
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_MARK = re.compile(r"<(pw|login|uuid|b64|mix|low|hex|HEX|UP|num|sym)(?::(\d+))?>")
_LETTERS = {
    "mix": string.ascii_letters + string.digits,
    "b64": string.ascii_letters + string.digits,
    "low": string.ascii_lowercase + string.digits,
    "hex": "0123456789abcdef",
    "HEX": "0123456789ABCDEF",
    "UP": string.ascii_uppercase + "234567",
    "num": string.digits,
    "sym": string.ascii_letters + string.digits + "!#%^&*()-_|~;:,.?/",
}
_PASSWORDS = ("Kx82" + "kslP9", "Gt7!" + "kk2Lw", "Zx81" + "kk2m", "Winter" + "2024!", "tr0ub4" + "dor&3")


@dataclass(frozen=True, kw_only=True)
class ExampleFile:
    """A file, and the random texts in it."""

    path: str
    text: str
    secrets: tuple[str, ...]


def example_files(source: Path, seed: int = 1) -> Iterator[ExampleFile]:
    """Read the files, each in a folder of its own; the same seed gives the same secrets."""
    chance = random.Random(seed)
    for number, block in enumerate(source.read_text("utf-8").split("=== ")[1:]):
        path, _, text = block.partition("\n")
        secrets: list[str] = []

        def made(found: re.Match[str], secrets: list[str] = secrets) -> str:
            secrets.append(_made(chance, found[1], int(found[2] or 0)))
            return secrets[-1]

        yield ExampleFile(path=f"case{number}/{path}", text=_MARK.sub(made, text), secrets=tuple(secrets))


def _made(chance: random.Random, kind: str, length: int) -> str:
    if kind == "pw":
        return chance.choice(_PASSWORDS)
    if kind == "login":
        return base64.b64encode(f"admin:{chance.choice(_PASSWORDS)}".encode()).decode()
    if kind == "uuid":
        return str(uuid.UUID(int=chance.getrandbits(128)))
    text = "".join(chance.choices(_LETTERS[kind], k=length))
    return base64.b64encode(text.encode()).decode() if kind == "b64" else text
