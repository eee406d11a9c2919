"""Takes secrets out of a model's reply before anything of it is written. Pure.

Only what looks like a secret by itself counts: tokens whose form says what they are, and private keys. A name
beside a value does not make it one, because designs are full of examples such as `password = "..."`.
"""

import re

from agentos.repo_map.secret_files import secret_in

MARK = "[removed: looks like a secret]"
REMOVED = "what looks like a secret"
_WORD = re.compile(r"[A-Za-z0-9_+/.~-]{16,}={0,2}")
# With its base64 lines, also as JSON writes them; the first line alone is no secret.
_LINE_END = r"(?:\s|\\[nrt])"
_PRIVATE_KEY = re.compile(
    rf"-----BEGIN [A-Z0-9 ]{{0,30}}PRIVATE KEY(?: BLOCK)?-----{_LINE_END}*+"
    rf"(?:[A-Za-z-]{{1,30}}: [^\n\\\"]{{0,100}}{_LINE_END}++){{0,9}}"
    rf"[A-Za-z0-9+/=]{{16}}(?:[A-Za-z0-9+/=]++|{_LINE_END}++(?=[A-Za-z0-9+/=]{{16}}|=|-----END))*+"
    r"(?:-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----)?"
)


def without_secrets(text: str) -> str:
    """The text with a mark in place of each secret."""
    if secret_in(text) is None:
        return text
    text = _PRIVATE_KEY.sub(MARK, text)
    words = {word: secret_in(word) is not None for word in set(_WORD.findall(text))}
    return _WORD.sub(lambda word: MARK if words[word[0]] else word[0], text)
