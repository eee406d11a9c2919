"""Recognises files that must not reach a model: by their name, or by what is in them. Pure.

A value counts as a secret by the name it is given and by how it looks. Code that reads a secret, and values
that are obviously made up, do not count. Every quantifier is bounded: the texts come from anybody.
"""

import re
from collections.abc import Iterator
from fnmatch import translate

_SECRET_NAMES = (
    ".env", ".env.*", ".env-*", ".env_*", "*.env", ".envrc", "*.pem", "*.key", "*.p8", "*.p12", "*.pfx",
    "*.jks", "*.keystore", "*.kdbx", "*.ppk", "*.ovpn", "*.gpg", "id_rsa*", "id_dsa*", "id_ecdsa*",
    "id_ed25519*", ".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", ".my.cnf", ".htpasswd", ".s3cfg",
    ".boto", ".dockercfg", ".dockerconfigjson", ".git-credentials", ".vault*pass*", "credentials*",
    "secrets.*", "*.secret", "*.secrets", "secret.y*ml", "secret.json", "secret.toml", "*.tfvars",
    "*.tfvars.json", "*.tfstate", "*.tfstate.*", "kubeconfig*", "*.kubeconfig", "auth.json",
    "local.settings.json", "service-account*.json", "service_account*.json",
)  # fmt: skip
# Meant to be public; their content is still checked.
_PUBLIC_NAMES = (
    "*.example", "*.sample", "*.template", "*.dist", "*.example.*", "*.sample.*", "example.*", "sample.*",
    "*.md", "*.rst",
)  # fmt: skip
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
        r"\b(?:gh[pousr]_[A-Za-z0-9]{30}|github_pat_[A-Za-z0-9_]{22})",
    ),
    ("a GitLab token", ("glpat-",), r"\bglpat-[A-Za-z0-9_-]{20}"),
    ("an Anthropic key", ("sk-ant-",), r"\bsk-ant-[A-Za-z0-9_-]{16}"),
    ("an OpenAI key", ("sk-",), r"\bsk-(?:(?:proj|svcacct|admin)-[A-Za-z0-9_-]{16}|[A-Za-z0-9]{40})"),
    ("a Google API key", ("AIza",), r"\bAIza[A-Za-z0-9_-]{35}"),
    ("a Google client secret", ("GOCSPX-",), r"\bGOCSPX-[A-Za-z0-9_-]{20}"),
    ("a Slack token", ("xox", "xapp-"), r"\b(?:xox[abeprs]|xapp)-[A-Za-z0-9-]{10}"),
    (
        "a Slack webhook",
        ("hooks.slack.com",),
        r"hooks\.slack\.com/(?:services|workflows)/[A-Z]\w{5,20}/\w{5,20}/\w{16}",
    ),
    ("a Discord webhook", ("/api/webhooks/",), r"discord(?:app)?\.com/api/webhooks/\d{10,25}/[\w-]{30}"),
    ("a Stripe key", ("k_live_",), r"\b[sr]k_live_[A-Za-z0-9]{16}"),
    ("an npm token", ("npm_",), r"\bnpm_[A-Za-z0-9]{36}\b"),
    ("a PyPI token", ("pypi-Ag",), r"\bpypi-Ag[A-Za-z0-9_-]{30}"),
    ("a Hugging Face token", ("hf_",), r"\bhf_[A-Za-z0-9]{30}"),
    ("a SendGrid key", ("SG.",), r"\bSG\.[A-Za-z0-9_-]{16,40}\.[A-Za-z0-9_-]{16}"),
    ("a DigitalOcean token", ("do",), r"\bdo[por]_v1_[a-f0-9]{40}"),
    ("a Telegram token", (":AA",), r"\b\d{8,10}:AA[A-Za-z0-9_-]{32}"),
    ("an age key", ("AGE-SECRET-KEY-",), r"\bAGE-SECRET-KEY-1[A-Z0-9]{40}"),
    ("an Azure storage key", ("AccountKey=",), r"AccountKey=[A-Za-z0-9+/]{40}"),
    ("a signed token (JWT)", (".eyJ",), r"(?<![\w-])eyJ[\w-]{10,4000}\.eyJ[\w-]{10,4000}\.[\w-]{20}"),
)
_SENT_WITH = re.compile(
    r"""\b(?:bearer|basic|authorization["']?\s{0,3}[:=]\s{0,3}["']?token)\s{1,3}([\w+/=.~-]{16,300})"""
)
_ADDRESS = re.compile(r"(?<=[A-Za-z0-9])://([^\s/:@]{0,100}):([^\s/@]{6,200})@")

# A name with one of these words in it, what it is set to, and what may stand between. It searches a text in
# lower case: to ignore the case in the pattern is slow.
_ASSIGNED = re.compile(
    r"""(?P<name> (?:pass|pwd|secret|token|key|credential)[\w.-]{0,40}+ )
    (?:
        ["'\]]{0,3}
        (?: \s{0,9} : \s{0,9} [a-z_][\w.\[\]|?<>\x20]{0,60}? (?=\s{0,9}=) )?  # a type
        \s{0,9} (?: =>|:=|=|: ) \s{0,9}
      | ["'] \s{0,9} (?P<comma>,) \s{0,9} (?=["'])  # getenv("TOKEN", "value")
      | ["'] \s{1,9} value \s{0,3} = \s{0,3} (?=["'])  # <add key="Token" value="value"/>
      | ["']? [ ]{0,3} \n [ ]{0,40} value: [ ]{0,9}  # name: TOKEN, value: in YAML
      | > (?=[^<>\s]{6,200}<)  # <password>value</password>
    )
    (?: [bru]? (?P<quote>["'`]) (?P<quoted> [^"'`\n]{6,300} ) (?P=quote)
      | (?P<bare> [^\s"'`<>(){}\[\],;|\\&]{8,200} ) (?= [\s"'`<>){}\],;&\\] | \Z )
    )""",
    re.VERBOSE,
)
_WORDS = re.compile(r"[A-Z]{1,60}(?![a-z])|[A-Z]?[a-z]{1,60}")
_NAME_BEFORE = re.compile(r"[\w-]{0,40}\Z")
_PASSWORDS = ("password", "passwd", "passphrase", "passcode", "pass", "pwd")
_TOKENS = ("secret", "secrets", "token", "credential", "credentials", "apikey", "accesskey", "secretkey")
# A key of one of these is a secret; other keys name a place in a table, unless they look very random.
_OF_KEYS_TEXT = """
    access account api app auth client encryption license master private secret service shared signing
"""
_OF_KEYS = frozenset(_OF_KEYS_TEXT.split())
# As the last word, it is about a secret: token_url, PASSWORD_FIELD, key_id.
_ABOUT_TEXT = """
    column count env error field file format header help hint id ids label len length message msg name
    names path pattern placeholder policy prefix regex selector size title ttl type uri url var
    variable
"""
_ABOUT = frozenset(_ABOUT_TEXT.split())
_NOT_KEPT = frozenset({"public", "continuation", "next", "page"})  # a key or token that is no secret
# Values made up for an example: at least one of the first, and nothing but those and the second.
_MADE_UP_TEXT = """
    change changed changeit changeme default dummy example fake foo hidden invalid mock password passwd
    passw placeholder redacted removed sample secret test testing tests todo token wrong xxx xxxx your
"""
_MADE_UP = frozenset(_MADE_UP_TEXT.split())
_FILLERS_TEXT = """
    a abc abcd abcde abcdef access admin an and api app auth bar baz bearer client confirm current db
    for here in insert is it key me my new not of old only or pass please put real replace s the this to
    user value with
"""
_FILLERS = frozenset(_FILLERS_TEXT.split())
_TEMPLATE = re.compile(
    r"^\$\w|[$#%]\{|\$\(|\{\{|\{[\w.]{0,40}\}|<[^<>]{1,80}>|<%|%[sd]\b|%\(|\*\*\*|\.\.\.|xxxx", re.IGNORECASE
)
_PATH = re.compile(r"(?:[.~]{0,2}/|[a-z][a-z0-9+]{1,20}://|[\w@./-]{1,200}\.[a-z]{1,5}\Z)")
_CODE = re.compile(r"[A-Za-z_]\w{0,80}(?:\.[A-Za-z_]\w{0,80}){1,9}")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_TURN = re.compile(r"[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])")  # where letters become digits, or the other way


def secret_name(name: str) -> bool:
    """Whether files with this name hold secrets."""
    lower = name.casefold()
    return _SECRET_NAME.match(lower) is not None and _PUBLIC_NAME.match(lower) is None


def secret_in(text: str) -> str | None:
    """Say what in a text looks like a secret and on which line, without quoting any of it."""
    for what, hints, looks in _SECRET_TEXTS:
        if any(hint in text for hint in hints) and (found := re.search(looks, text)):
            return f"line {_line(text, found.start())} looks like {what}"
    lower = _lower(text)
    for at, what in _assigned(text, lower):
        return f"line {_line(text, at)} looks like {what}"
    for found in _SENT_WITH.finditer(lower):
        value = text[slice(*found.span(1))]
        if _mixed(value) and not _made_up(value):
            return f"line {_line(text, found.start())} looks like a key or token"
    for found in _ADDRESS.finditer(text):
        if found[1] != found[2] and not _made_up(found[2]):
            return f"line {_line(text, found.start())} is an address with a password in it"
    return None


def _lower(text: str) -> str:
    """The text in lower case, with every character where it was."""
    lower = text.lower()
    return (
        lower if len(lower) == len(text) else "".join(one.lower() if one.isascii() else one for one in text)
    )


def _assigned(text: str, lower: str) -> Iterator[tuple[int, str]]:
    """Where a name that stands for a secret is set to a value that looks like one."""
    at = 0
    while (found := _ASSIGNED.search(lower, at)) is not None:
        at = found.end("name")  # the value may be a name: key="token" value="..."
        before = _NAME_BEFORE.search(text, max(0, found.start() - 40), found.start())
        name = (before.group() if before else "") + text[slice(*found.span("name"))]
        words = [word.casefold() for word in _WORDS.findall(name)]
        quoted = found["quoted"] is not None
        value = text[slice(*found.span("quoted" if quoted else "bare"))]
        if not words or words[-1] in _ABOUT or not _NOT_KEPT.isdisjoint(words) or _made_up(value):
            continue
        if value.casefold() in words:
            continue  # a name for itself: PassArg.context: "context"
        if found["comma"] and len(_TURN.findall(value)) < 5:
            continue  # most lists of names are just that
        if _is_password(words) and _looks_like_password(value, quoted=quoted):
            yield found.start(), "a password"
        elif _looks_like_token(words, value, quoted=quoted):
            yield found.start(), "a key or token"


def _is_password(words: list[str]) -> bool:
    return any(word.endswith(_PASSWORDS[:4]) or word in _PASSWORDS for word in words)


def _looks_like_password(value: str, *, quoted: bool) -> bool:
    turns, digits = len(_TURN.findall(value)), sum(map(str.isdigit, value))
    if _is_code(value) or not any(map(str.isalpha, value)):
        return False
    if " " in value:  # mostly a sentence
        return any(len(_TURN.findall(word)) > 3 for word in value.split())
    symbols = sum(not letter.isalnum() and letter not in "_-./:#=?" for letter in value)
    if not quoted:
        return digits > 1 and (turns > 2 or symbols > 0)
    if digits or symbols:
        return True
    # A word alone: a label, or the name of a field, if it is written like one.
    words = [word.casefold() for word in _WORDS.findall(value)]
    return len(value) > 7 and not value.istitle() and _MADE_UP.isdisjoint(words)


def _looks_like_token(words: list[str], value: str, *, quoted: bool) -> bool:
    if not _mixed(value) or " " in value or _is_code(value):
        return False
    turns = len(_TURN.findall(value))
    if any(word.endswith(_TOKENS) for word in words) or ("key" in words and not _OF_KEYS.isdisjoint(words)):
        return turns > 2 or (quoted and len(value) > 15)
    return "key" in words and len(value) > 19 and turns > 4 and _UUID.fullmatch(value) is None


def _is_code(value: str) -> bool:
    """Whether a value is an expression such as `settings.token2`, a path or an address."""
    return _CODE.fullmatch(value) is not None or (
        _PATH.match(value) is not None and len(_TURN.findall(value)) < 5
    )


def _mixed(value: str) -> bool:
    """Whether a value has letters and digits, and many different ones."""
    digits, long = sum(map(str.isdigit, value)), len(value) > 31 and not value.islower()
    return digits > (0 if long else 1) and any(map(str.isalpha, value)) and len(set(value)) > 7


def _made_up(value: str) -> bool:
    """Whether a value stands for another: a variable, a template, or words such as `your-token-here`."""
    if _TEMPLATE.search(value):
        return True
    words = {word.casefold() for word in _WORDS.findall(value)}
    return not _MADE_UP.isdisjoint(words) and words <= _MADE_UP | _FILLERS


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1
