"""Encodings in which a server may echo a secret, and a search for any part of it in bytes."""

import base64
from collections.abc import Callable
from functools import cache

PIECE = 16  # characters in a row that count as a leak

FORMS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "piece": lambda secret: f"x{secret[9 : 9 + PIECE]}x",
    "base64": lambda secret: base64.b64encode(secret.encode()).decode(),
    "base64-1": lambda secret: base64.b64encode(b"." + secret.encode() + b"..").decode(),
    "base64-2": lambda secret: base64.urlsafe_b64encode(b".." + secret.encode() + b".").decode(),
    "percent": lambda secret: "".join(f"%{ord(char):02X}" for char in secret),
    "percent-in-part": lambda secret: "".join(
        f"%{ord(char):02x}" if number % 3 else char for number, char in enumerate(secret)
    ),
    "percent-twice": lambda secret: "".join(f"%25{ord(char):02X}" for char in secret),
    "json": lambda secret: "".join(f"\\u{ord(char):04x}" for char in secret),
    "python": lambda secret: "".join(f"\\x{ord(char):02x}" for char in secret),
    "html": lambda secret: "".join(f"&#{ord(char)};" for char in secret),
    "html-hex": lambda secret: "".join(f"&#x{ord(char):x};" for char in secret),
    "zero-width": "\u200b".join,
    "soft-hyphen": "\u00ad".join,
    "ansi": "\x1b[1;31m".join,
    "ansi-shown": "\\x1b[0m".join,
    "blanks": " ".join,
    "line-breaks": lambda secret: "\n".join(secret[at : at + 7] for at in range(0, len(secret), 7)),
    "hex": lambda secret: secret.encode().hex(),
    "HEX": lambda secret: secret.encode().hex().upper(),
    "octal": lambda secret: "".join(f"\\{ord(char):03o}" for char in secret),
    "entities": "&shy;".join,
}


_SEARCHED = (
    "plain",
    "percent",
    "json",
    "python",
    "html",
    "hex",
    "HEX",
    "zero-width",
    "soft-hyphen",
    "blanks",
    "octal",
    "entities",
)


@cache
def pieces(secret: str, length: int = PIECE, step: int = 1) -> frozenset[bytes]:
    """What must not be found: any 16 characters of the secret, plain or in a common encoding."""
    windows = [secret[at : at + length] for at in range(0, len(secret) - length + 1, step)]
    found = {FORMS[name](window).encode() for name in _SEARCHED for window in windows}
    for before in range(3):
        whole = base64.b64encode(b"\0" * before + secret.encode())
        core = whole[-(-8 * before // 6) : 8 * (before + len(secret)) // 6]
        size = (8 * length - 5) // 6
        found |= {core[at : at + size] for at in range(0, len(core) - size + 1, step)}
        found |= {one.translate(bytes.maketrans(b"+/", b"-_")) for one in found}
    return frozenset(found)


def leaked(secret: str, data: bytes) -> bytes | None:
    """16 characters of the secret that are in the data; None if there are none."""
    # Any 16 characters contain 8 that start at a multiple of 6. There are few of those, so check them first.
    if not any(piece in data for piece in pieces(secret, 8, 6)):
        return None
    return next((piece for piece in pieces(secret) if piece in data), None)
