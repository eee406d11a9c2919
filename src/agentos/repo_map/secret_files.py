"""Recognises files that must not reach a model: by their name, or by what is in them. Pure."""

import re
from fnmatch import translate

_SECRET_NAMES = (
    ".env", ".env.*", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk",
    "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", ".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass",
    ".htpasswd", ".git-credentials", "credentials*", "secrets.*", "service-account*.json",
    "service_account*.json",
)  # fmt: skip
# Meant to be public; their content is still checked.
_PUBLIC_NAMES = ("*.example", "*.sample", "*.template", "*.dist", "*.md", "*.rst")
_SECRET_NAME, _PUBLIC_NAME = (
    re.compile("|".join(map(translate, names))) for names in (_SECRET_NAMES, _PUBLIC_NAMES)
)
# Each with what every such text contains: to look for that first is many times faster.
_SECRET_TEXTS = (
    ("a private key", ("PRIVATE KEY",), r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"),
    ("an AWS access key", ("AKIA", "ASIA"), r"\b(?:AKIA|ASIA)(?![0-9A-Z]{9}EXAMPLE\b)[0-9A-Z]{16}\b"),
    (
        "a GitHub token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{22,})",
    ),
    ("a GitLab token", ("glpat-",), r"\bglpat-[A-Za-z0-9_-]{20,}"),
    ("an Anthropic key", ("sk-ant-",), r"\bsk-ant-[A-Za-z0-9_-]{16,}"),
    ("an OpenAI key", ("sk-",), r"\bsk-(?:(?:proj|svcacct|admin)-[A-Za-z0-9_-]{16,}|[A-Za-z0-9]{40,})"),
    ("a Google API key", ("AIza",), r"\bAIza[A-Za-z0-9_-]{35}"),
    ("a Slack token", ("xox",), r"\bxox[abeprs]-[A-Za-z0-9-]{10,}"),
    ("a Stripe key", ("k_live_",), r"\b[sr]k_live_[A-Za-z0-9]{16,}"),
    ("an npm token", ("npm_",), r"\bnpm_[A-Za-z0-9]{36}\b"),
    ("a signed token (JWT)", (".eyJ",), r"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{20,}"),
)
_PASSWORD = re.compile(
    r"""passw(?:or)?d["']?\s{0,9}(?:=|:|=>|:=)\s{0,9}["']([^"'\s]{8,200})["']""", re.IGNORECASE
)
_TOKEN = re.compile(
    r"""(?:secret|token|api_?key|access_?key)["']?\s{0,9}(?:=|:|=>|:=)\s{0,9}["']([A-Za-z0-9+/=_.-]{16,200})["']""",
    re.IGNORECASE,
)
# Without quotes, as in a file of variables: the whole line, and the value must look random.
_VARIABLE = re.compile(
    r"^\s{0,20}(?:export\s{1,9})?\w{0,60}(?:passw(?:or)?d|secret|token|key)\w{0,20}\s{0,9}[=:]\s{0,9}([A-Za-z0-9+/=_-]{10,200})\s*$",
    re.IGNORECASE | re.MULTILINE,
)
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+]{1,20}://[^\s/:@]{1,100}:([^\s/@]{6,200})@", re.IGNORECASE)
_WORDS_BEFORE = ("passw", "secret", "token", "key")  # what the two patterns for assigned values look for
_PLACEHOLDER = re.compile(
    r"passw|secret|example|sample|change|your|test|dummy|fake|placeholder|redacted|xxx|\*\*\*|\.\.\.|[<>{}$%]",
    re.IGNORECASE,
)


def secret_name(name: str) -> bool:
    """Whether files with this name hold secrets."""
    lower = name.casefold()
    return _SECRET_NAME.match(lower) is not None and _PUBLIC_NAME.match(lower) is None


def secret_in(text: str) -> str | None:
    """Say what in a text looks like a secret and on which line, without quoting any of it."""
    for what, hints, looks in _SECRET_TEXTS:
        if any(hint in text for hint in hints) and (found := re.search(looks, text)):
            return f"line {_line(text, found)} looks like {what}"
    lower = text.lower()
    for found in _PASSWORD.finditer(text) if "passw" in lower else ():
        if not _PLACEHOLDER.search(found[1]):
            return f"line {_line(text, found)} looks like a password"
    for pattern in (_TOKEN, _VARIABLE) if any(hint in lower for hint in _WORDS_BEFORE) else ():
        for found in pattern.finditer(text):
            value = found[1]
            mixed = sum(map(str.isdigit, value)) > 1 and any(map(str.isalpha, value))
            if mixed and len(set(value)) > 7 and not _PLACEHOLDER.search(value):
                return f"line {_line(text, found)} looks like a key or token"
    for found in _ADDRESS.finditer(text) if "://" in text else ():
        if not _PLACEHOLDER.search(found[1]):
            return f"line {_line(text, found)} is an address with a password in it"
    return None


def _line(text: str, found: re.Match[str]) -> int:
    return text.count("\n", 0, found.start()) + 1
