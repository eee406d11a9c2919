"""Recognises files that must not reach a model: by their name, or by what is in them. Pure.

A value counts as a secret by the name it is given and by how it looks. Code that reads a secret, and values
that are obviously made up, do not count. In tests, examples and prose only a value that looks random counts.
Every quantifier is bounded or possessive: the texts come from anybody.
"""

import base64
import re
from collections.abc import Callable, Iterator
from fnmatch import translate
from itertools import chain, pairwise

from agentos.repo_map.path_kinds import SOURCE_ENDINGS, is_example

_SECRET_NAMES = (
    ".env", ".env.*", ".env-*", ".env_*", "*.env", ".envrc", "*.pem", "*.key", "*.p8", "*.p12", "*.pfx",
    "*.pkcs12", "*.jks", "*.jceks", "*.bks", "*.keystore", "*.keytab", "*.kdb", "*.kdbx", "*.ppk", "*.pvk",
    "*.agekey", "*.ovpn", "*.gpg", "*.kwallet", "*.wallet", "wallet.dat", "id_rsa*", "id_dsa*", "id_ecdsa*",
    "id_ed25519*", ".netrc", "_netrc", "netrc", ".npmrc", ".yarnrc.yml", ".pypirc", ".pgpass", "pgpass.conf",
    ".my.cnf", ".mylogin.cnf", ".htpasswd", "htpasswd", ".s3cfg", ".boto", ".dockercfg", ".dockerconfigjson",
    ".git-credentials", ".vault*pass*", ".vault-token", ".terraformrc", "terraform.rc", ".msmtprc",
    ".fetchmailrc", "rclone.conf", "sftp-config.json", ".ftpconfig", "filezilla.xml", "sitemanager.xml",
    ".bash_history", ".zsh_history", ".mysql_history", ".psql_history", "credentials*",
    "*_credentials.json", "*-credentials.json", "client_secret*.json", "secrets.*", "*.secret", "*.secrets",
    "secret.y*ml", "secret.json", "secret.toml", "*.tfvars", "*.tfvars.json", "*.tfstate", "*.tfstate.*",
    "kubeconfig*", "*.kubeconfig", "auth.json", "local.settings.json", "service-account*.json",
    "service_account*.json", "serviceaccount*.json", "*firebase-adminsdk*.json",
)  # fmt: skip
# Meant to be public; their content is still checked.
_PUBLIC_NAMES = (
    "*.example", "*.sample", "*.template", "*.dist", "*.example.*", "*.sample.*", "example.*", "sample.*",
    "*.md", "*.rst", "*.pub",
)  # fmt: skip
_SECRET_NAME, _PUBLIC_NAME = (
    re.compile("|".join(map(translate, names))) for names in (_SECRET_NAMES, _PUBLIC_NAMES)
)

# Texts of a fixed form. Most are one long word, so that a search for long words finds where to look.
_LONG_WORD = re.compile(r"(?<![\w.-])[\w.-]{20,}+")
_FORMS = (
    ("a private key", r"LS0tLS1CRUdJTi(?!BDRVJU|BQVUJM|BYNTA5|BUUlVT|BQR1AgUFVC|BQR1AgU0|BQR1AgTU|BOR)\w{8}"),
    ("an AWS access key", r"(?:AKIA|ASIA|ABIA|ACCA)(?![0-9A-Z]{9}EXAMPLE\b)[0-9A-Z]{16}\b|ABSK\w{100}"),
    ("a GitHub token", r"gh[pousr]_[A-Za-z0-9]{30}|github_pat_\w{22}"),
    ("a GitLab token", r"gl(?:pat|ptt|rt|dt|ft|imt|soat|cbt|agent|oas|ffct)-[\w-]{20}|GR1348941[\w-]{20}"),
    ("an Anthropic key", r"sk-ant-[\w-]{16}"),
    ("an OpenAI key", r"sk-(?:(?:proj|svcacct|admin|or-v1)-[\w-]{16}|[A-Za-z0-9]{40})"),
    ("a Google API key", r"AIza[\w-]{35}|GOCSPX-[\w-]{20}|ya29\.[\w-]{30}|(?<=1//)0[\w-]{40}"),
    ("a Slack token", r"(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{10}"),
    ("a Stripe key", r"[sr]k_(?:live|test|prod)_[A-Za-z0-9]{16}|whsec_[A-Za-z0-9]{24}"),
    ("a Telegram token", r"(?<=\d{4}:)AA[\w-]{32}"),
    ("a Discord token", r"[MNO][A-Za-z0-9]{23,27}\.[\w-]{6}\.[\w-]{27}"),
    ("an Azure key", r"(?<=\dQ~)[\w.-]{30}"),
    ("a signed token (JWT)", r"eyJ[\w-]{10,4000}+\.eyJ(?!zdWIiOiIxMjM0NTY3ODkwIi)[\w-]{10,4000}+\.[\w-]{20}"),
    ("a key or token", r"""
        # letters and digits after the sign of a service
        (?: dckr_(?:pat|oat)_|gsk_|xai-|pplx-|r8_|nvapi-|tvly-|lsv2_[ps][tk]_|figd_|fig[ou]_
          |npm_|pypi-Ag|hv[sbr]\.|dp\.(?:pt|st|ct|scim|audit)\.|ntn_|secret_(?=\w{0,20}\d\w{0,20}\d)|lin_(?:api|oauth)_|sq0[a-z]{3}-
          |EAA(?=\w{90})|glc_|glsa_|sntr(?:ys|yu)_|ph[xc]_|pscale_(?:tkn|pw|oauth)_|fo1_|fm[12][ar]?_
          |vercel_blob_rw_|ATATT3x|ATCTT3x|ATBB|rdme_|pnu_|sgp_|tfp_|duffel_(?:live|test)_|PMAK-|NRAK-|NRII-
          |dt0c01\.|ico-|sm_[aps]at_|ops_eyJ|tk-us-|xkeysib-|LTAI|AKCp|HRKU-|pat-[a-z]{2}\d-
          |EZ[AT]K|00D\w{12}!|secret-tok-|squ_|sq[pa]_|CFPAT-|SHA256~|SWMTKN-1-|tskey-
        ) (?=[\w.-]{0,30}(?:\d|[a-z][A-Z])) (?![\w.-]{0,30}(?:example|EXAMPLE|your|xxxx|_of_|_from_))
          [A-Za-z0-9_.-]{24}
      | (?:hf_|api_org_)[A-Za-z0-9]{30} | AGE-SECRET-KEY-1[A-Z0-9]{40}
        # hexadecimal digits
      | (?: dapi|shp(?:at|ca|pa|ss)_|do[por]_v1_|rubygems_|pul-|sbp_|key-|shippo_(?:live|test)_ ) [a-f0-9]{32}
        # a sign in the middle
      | SG\.[\w-]{16,40}\.[\w-]{16} | [A-Za-z0-9]{14}\.atlasv1\.[\w-]{40} | [a-f0-9]{32}-us\d{1,2}\b
      | pat[A-Za-z0-9]{14}\.[a-f0-9]{64} | [a-f0-9]{36}NRAL\b | \w{6}_\w{29}_mmk\b
    """),
)  # fmt: skip
_FORM = re.compile(rf"(?<![A-Za-z0-9_-])(?:{'|'.join(f'({form})' for _what, form in _FORMS)})", re.VERBOSE)
# Others, each with what every such text contains: to look for that first is many times faster.
_OTHER_FORMS = tuple(
    (what, hint, re.compile(form, re.VERBOSE))
    for what, hint, form in (
        ("a private key", "PRIVATE KEY", r"""
            -----BEGIN\x20[A-Z0-9\x20]{0,30}PRIVATE\x20KEY(?:\x20BLOCK)?-----
            (?: \s{0,3}\Z | [^\w\n\\]{0,3}(?:\\{1,2}[nr]|\n) (?:\\{1,2}[nrt]|[\s"'`+,#*|/>]|\.(?!\.)){0,60}+
                (?!END\b|REDACTED|XXXX)[A-Za-z0-9+/]{4} | [\s"']{0,3}[A-Za-z0-9+/]{16} )"""),
        ("a private key", "PuTTY-User-Key-File", r"PuTTY-User-Key-File-\d:"),
        ("a webhook", "/services/", r"hooks\.slack\.com/services/[A-Z]\w{5,20}/\w{5,20}/\w{16}"),
        ("a webhook", "/workflows/", r"hooks\.slack\.com/workflows/[A-Z]\w{5,20}/\w{5,20}/\w{16}"),
        ("a webhook", "/api/webhooks/", r"discord(?:app)?\.com/api/webhooks/\d{10,25}/[\w-]{30}"),
        ("a webhook", "/webhookb2/", r"\.office\.com/webhookb2/[\w@-]{30,90}/IncomingWebhook/[0-9a-f]{32}"),
        ("a signature", "sig=", r"[?&;]sig=[A-Za-z0-9%+/_-]{30}"),
        ("a signature", "X-Amz-Signature=", r"X-Amz-Signature=(?=[a-f]{0,20}\d)[a-f0-9]{64}"),
    )
)  # fmt: skip
_HASH = re.compile(
    r"""\$2[abxy]\$\d\d\$[./A-Za-z0-9]{53} | \$(?:1|5|6|y|7|apr1)\$[^\s:'"$]{1,40}\$[./A-Za-z0-9$]{20}
    | \$argon2i?d?\$v=\d\d\$[^\s"']{30}""",
    re.VERBOSE,
)

# A name with one of these words in it, what may stand between it and its value, and the value. They search a
# text in lower case: to ignore the case in a pattern is slow.
_NAME = re.compile(
    r"""(?: pass|pwd|pw(?![a-z])|secret|token|key|credential|auth|kennwort|contrase|senha|wachtwoord|psk
        | session_?id|sessid|salt(?![a-z])|mnemonic|identified|community ) [\w.-]{0,40}+""",
    re.VERBOSE,
)
_LINK = re.compile(
    r""" : [\x20]{0,3} \n (?: [\x20]{1,20} (?:type|description|noecho): [^\n]{0,80} \n ){0,3}
        [\x20]{1,20} default: [\x20]{1,9}  # CloudFormation
      | ["'] [^<>\n]{0,80} > (?=[^<>\n]{6,200}<)  # <string name="token">value</string>
      | [\\"'`\])*]{0,4} (?: \[\d{0,4}\] )?
        (?: \s{0,9} : \s{0,9} [&a-z_] [\w.\[\]|?<>&'\x20]{0,60}? (?=\s{0,9}=)  # name: type = value
          | \x20{1,3} (?:as\x20)? [a-z]\w{0,20} (?=\x20{0,3}=) )?  # name type = value
        \s{0,9} (?: => | [:?]= | :- | <- | = | :{1,2} )
        (?: \s{0,9}(?=["'`]) | [\x20\t]{0,9} ) (?: &\w{1,20}\s )?
      | [\\"'`\])]{0,3} \s{0,3} (?: \|\| | \?\? | or ) \s{0,3} (?=["'`])  # getenv("TOKEN") or "value"
      | ["']? \s{0,3} ,? \s{1,60} ["']? value ["']? \s{0,3} [=:] \s{0,9}  # name: TOKEN, value: ...
      | ["'] \s{0,9} (?P<comma>,) \s{0,9} (?=["'])  # getenv("TOKEN", "value")
      | (?: \x20 [^<>\n]{1,80} )? > \s{0,40} (?=[^<>\s]{6,200}\s{0,40}<)  # <password>value</password>
      | </key> \s{0,40} <string> (?=[^<>\n]{6,200}<)
      | ["'] \s{0,3} \{ [^{}]{0,300}? \b default \s{0,9} = \s{0,3} (?=")  # Terraform
      | (?P<space> [\\"'`*]{0,3} (?: \x20is | \x20ist | \x20by | \x20with\x20\w{1,40}\x20by | \x20[07] )?
            [\x20\t]{1,4} | \((?=') | \{(?=") )""",
    re.VERBOSE,
)
_VALUE = re.compile(
    r"""(?: (?: [\w.]{0,30} (?:str|string|some|bytes?|secret|password|decode|from|of) | \[\]byte )? \s? [({]
          | convertto-securestring\s )?
        [bru@$l]{0,2} \\? (?P<quote>["'`]) (?P<quoted> (?:(?!(?P=quote))[^\n]){6,300}+ ) (?P=quote)
      | (?P<bare> [^\s"'`<>(){}\[\],;|\\&]{6,200}+ ) (?= [\s"'`<>){}\],;&\\|] | \Z )""",
    re.VERBOSE,
)
_WORDS = re.compile(r"[A-Z]{1,60}(?![a-z])|[A-Z]?[a-z]{1,60}")
_NAME_BEFORE = re.compile(r"[\w-]{0,40}\Z")
_IN_CALL = re.compile(r"""[({]\s{0,3}["']?[\w.-]{0,40}\Z""")
_DIRECTIVE = re.compile(
    r"\A\s{0,40}(?:#?\s?(?:define|env|arg|export|set|setenv)\s{1,9})?-{0,2}[\w.-]{0,40}\Z|\s--[\w-]{0,40}\Z",
    re.IGNORECASE,
)
_PIECES = re.compile(r"[A-Z]{1,60}(?![a-z])|[A-Z]?[a-z]{1,60}|\d{1,60}")
_ESCAPED = re.compile(r"\\x[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|\\[0-7]{3}")
_PASSWORDS_TEXT = """
    password passwd passphrase passcode pass pwd pw psk passwort kennwort contrasena contraseña senha
    wachtwoord requirepass masterauth bindpw rootpw identified mnemonic community pin
"""
_PASSWORDS = frozenset(_PASSWORDS_TEXT.split())
_TOKENS = ("secret", "secrets", "token", "credential", "credentials", "apikey", "accesskey", "secretkey")
_SESSIONS = frozenset({"sessionid", "sessid", "phpsessid", "auth", "salt"})
# A key of one of these is a secret; other keys name a place in a table, unless they look very random.
_OF_KEYS_TEXT = """
    access account api app auth client encryption jwt license master private secret service shared
    signing preshared
"""
_OF_KEYS = frozenset(_OF_KEYS_TEXT.split())
# As the last word, it is about a secret: token_url, PASSWORD_FIELD, key_id.
_ABOUT_TEXT = """
    algorithm attribute class column count encoder endpoint env error expiry field file format handler
    hash hasher header help hint id ids issuer label len length link message method mode msg name names
    page parameter param path pattern placeholder policy prefix provider ref regex reset rule rules
    selector size store strategy suffix template title ttl type uri url validator var variable version
    view
"""
_ABOUT = frozenset(_ABOUT_TEXT.split())
_NOT_KEPT = frozenset(
    {
        "public",
        "continuation",
        "next",
        "page",
        "csrf",
        "authenticity",
        "author",
        "authors",
        "cache",
        "pagination",
    }
)
# Values made up for an example: at least one of the first, and nothing but those and the second.
_MADE_UP_TEXT = """
    change changed changeit changeme default demo dummy example fake foo hidden invalid mock password
    passwd passw passwort placeholder redacted removed sample secret test testing tests todo token wrong
    xxx xxxx your username something none null undefined string optional required postgres cassandra
    vagrant guest rabbitmq minio passphrase passcode hashed
"""
_MADE_UP = frozenset(_MADE_UP_TEXT.split())
_FILLERS_TEXT = """
    a abc abcd abcde abcdef access admin an and any api app auth bad bar baz bearer bot client confirm
    correct current database db for here id in insert is it jwt key long me my name new no not of old
    only or other pass please put real replace root s server set some the this to top two user valid
    value very with
"""
_FILLERS = frozenset(_FILLERS_TEXT.split())
_MADE_UP_WORDS = re.compile(  # run together: mypassword
    rf"(?:{'|'.join(sorted(_MADE_UP | _FILLERS, key=len, reverse=True))}|[^a-z]){{1,300}}+"
)
_TEMPLATE = re.compile(
    r"^\$[\w:]|\$\w{2,40}(?:\[|->)|[$#%]\{|\$\(|\{\{|\{[\w.:]{0,40}\}|<[^<>]{1,80}>|<%|%[sd]\b|%\(\w|\*\*\*"
    r"|\.\.\.|…|xxxx|example|placeholder|\{\$|^@@|changeme|change[-_]me|your[-_]|[-_]here\b|\[[^\]]{0,20}[aA0]-[zZ9]",
    re.IGNORECASE,
)
_FOLDERS = re.compile(r"[a-z][a-z0-9+]{1,20}://|[.~]{0,2}(?:/[a-z][a-z.-]{1,30}){2}")
_PATH = re.compile(r"(?:[.~]{0,2}/|\d{4}-\d\d-\d\dT|[\w@./-]{1,200}\.[a-z]{1,5}\Z)")
_CODE = re.compile(r"[$@]?[A-Za-z_]\w{0,80}(?:(?:\.|->|::|\?\.)[A-Za-z_]\w{0,80}){1,9}|[A-Z][A-Z0-9_]{1,80}")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_TURN = re.compile(r"[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])")  # where letters become digits, or the other way
_APP_PASSWORD = re.compile(r"[a-z]{4}(?: [a-z]{4}){3}")
_MNEMONIC = re.compile(r"[a-z]{3,8}(?: [a-z]{3,8}){11,23}")
_LEET = str.maketrans("0134578$@!", "oieastbsai")
_LITERAL_ENDINGS = frozenset({"sh", "bash", "zsh", "ps1", "sql"})  # sources where a word alone is a value

_SENT_WITH = re.compile(
    r"\b(?:(basic)|bearer|authorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?token)\s{1,3}([\w+/=.~-]{10,300}+)"
)
_ADDRESS = re.compile(
    r"""://([^\s/:@"'<>()\[\]{}]{0,100}+)(?::([^\s/@"'<>()\[\]{}]{6,200}+))?@([\w.-]{1,100})"""
)
_LOCAL = re.compile(r"localhost\b|127\.|\w{1,40}\Z|(?:[\w-]{1,60}\.){0,5}(?:example|test|local|invalid)\b")
_SENDERS = ("basic", "bearer", "authorization")
_COMMANDS = (
    "curl ", "http ", "https ", "wget ", "lftp ", " login ", "helm ", "twine ", "mongo", "sqlcmd ",
    "redis-cli ", "ldap", "sshpass ", "htpasswd ", "chpasswd", "mysql", "mariadb", "smbclient ", "xfreerdp ",
)  # fmt: skip
# A password without a name: where a command or a call takes it.
_COMMAND = re.compile(
    r"""\b(?: (?:curl|https?|wget|lftp) \s [^\n|;]{0,200}? (?<=\s)(?:-u|-a|--user|--auth|--proxy-user)
              [\s=]{0,2} ["']? [^\s:"'$]{1,60} :
          | (?:(?:docker|podman)\slogin|helm|twine|sqlcmd|redis-cli|sshpass
              |(?:ldap|mongo|mysql|mariadb)\w{0,9}) \s [^\n|;]{0,200}? (?<=\s)-[pPwa]\s?
          | smbclient \s [^\n|;]{0,200}? -U\s{1,3}["']?[^\s%"']{1,60}%
          | xfreerdp \s [^\n|;]{0,200}? /p:
          | htpasswd \s -\w{0,5}b\w{0,5} \s{1,3} \S{1,100}\s\S{1,60}\s
        ) ["']? (?P<value>[^\s"'|<>;-][^\s"'|<>;]{5,100}+)
      | \b[\w-]{2,40}:(?P<piped>[^\s"'|:]{6,100}+) ["']? \s{0,3} \| \s{0,3} (?:sudo\s)? chpasswd
      | chpasswd: \s{1,40} (?:list:\s{0,3}\|\s{1,40})? [\w-]{2,40}: (?P<listed>\S{6,100}+)""",
    re.VERBOSE,
)
_CALL = re.compile(
    r"""(?:login|connect\w{0,15}|auth|basic_?auth|credentials|pdo|client|search|getconnection)
        (?: ["']? \s{0,2} [=:]? \s{0,2} [(\[] \s{0,3} | \s{1,2}(?=['"]) )
        (?: (?:["'][^"'\n]{1,120}["']|[\w.]{1,60}) \s{0,2} , \s{0,3} (?:some\()? ){1,3}
        ["'] (?P<value>[^"'\s]{8,100}) ["']""",
    re.VERBOSE,
)
_KIND_SECRET = re.compile(r"""^[ \t]{0,40}["']?kind["']?:[ ]{0,5}["']?Secret\b""", re.MULTILINE)
_DOCUMENT_END = re.compile(r"^(?:---|[ ]{0,20}```)", re.MULTILINE)
_DATA = re.compile(
    r"""^[ \t]{0,40}["']?(?:(data)|stringData)["']?:[ \t]{0,5}\{?\n?"""
    r"((?:[ \t]{1,40}\S[^\n]{0,9000}\n?){1,100}+)",
    re.MULTILINE,
)
_ENTRY = re.compile(
    r"""^[ \t]{1,40}["']?[\w.-]{1,100}["']?:[ \t]{1,5}["']?([^\s"',]{6,8000})""", re.MULTILINE
)


def secret_name(name: str) -> bool:
    """Whether files with this name hold secrets; program text is judged by what is in it."""
    lower = name.casefold()
    return (
        _SECRET_NAME.match(lower) is not None
        and _PUBLIC_NAME.match(lower) is None
        and lower.rpartition(".")[2] not in SOURCE_ENDINGS
    )


def secret_in(text: str, path: str = "") -> str | None:
    """Say what in a text looks like a secret and on which line, without quoting any of it."""
    for at, what in _secrets(text, path):
        line = text.count("\n", 0, at) + 1
        return f"line {line} looks like {what}"
    return None


def _secrets(text: str, path: str) -> Iterator[tuple[int, str]]:
    """Where a text has something that looks like a secret, and what it looks like."""
    example, ending = is_example(path), path.lower().rpartition(".")[2]
    code = ending in SOURCE_ENDINGS and ending not in _LITERAL_ENDINGS
    lower = _lower(text)
    yield from _formed(text, example=example)
    yield from _assigned(text, lower, example=example, code=code)
    yield from _passed(text, lower, example=example)
    yield from _in_kubernetes(text, example=example)


def _formed(text: str, *, example: bool) -> Iterator[tuple[int, str]]:
    """Where a text has the form of a secret."""
    for word in _LONG_WORD.finditer(text):
        form = _FORM.search(text, *word.span())
        if form and len(set(form.group())) > 7:  # not ghp_xxxxxxxx
            yield form.start(), _FORMS[(form.lastindex or 1) - 1][0]
    for what, hint, pattern in _OTHER_FORMS:
        if hint in text and (found := pattern.search(text)):
            yield found.start(), what
    if not example and (found := _HASH.search(text)):
        yield found.start(), "a hashed password"


def _passed(text: str, lower: str, *, example: bool) -> Iterator[tuple[int, str]]:
    """Where a header, an address, a command or a call has a value that looks like a secret."""
    for found in _SENT_WITH.finditer(lower) if any(one in lower for one in _SENDERS) else ():
        if _is_sent(text[slice(*found.span(2))], basic=found[1] is not None, example=example):
            yield found.start(), "a key or token"
    for found in _ADDRESS.finditer(text):
        if _opens(*found.groups(), example=example):
            yield found.start(), "an address with a password in it"
    commands = _COMMAND.finditer(text) if any(one in text for one in _COMMANDS) else ()
    for found in chain(commands, _CALL.finditer(lower)):
        value = text[slice(*found.span(found.lastgroup or 0))]
        if _is_strong(value, strict=example) and not _is_code(value) and not _made_up(value, example=example):
            yield found.start(), "a password"


def _in_kubernetes(text: str, *, example: bool) -> Iterator[tuple[int, str]]:
    """Where a Secret of Kubernetes has a value."""
    ends = [found.start() for found in _DOCUMENT_END.finditer(text)] if _KIND_SECRET.search(text) else []
    for start, end in pairwise([0, *ends, len(text)]):
        for data in _DATA.finditer(text, start, end) if _KIND_SECRET.search(text, start, end) else ():
            for entry in _ENTRY.finditer(data[2]):
                plain = _decoded(entry[1]) if data[1] else entry[1]
                random = not plain.isprintable() or _is_strong(plain, strict=example)
                if random and len(plain) > 5 and not _made_up(plain, example=example):
                    yield data.start(), "a Kubernetes secret"


def _lower(text: str) -> str:
    """The text in lower case, with every character where it was."""
    lower = text.lower()
    return (
        lower if len(lower) == len(text) else "".join(one.lower() if one.isascii() else one for one in text)
    )


def _assigned(text: str, lower: str, *, example: bool, code: bool) -> Iterator[tuple[int, str]]:
    """Where a name that stands for a secret is set to a value that looks like one."""
    for found in _NAME.finditer(lower):
        at = found.start()
        link = _LINK.match(lower, found.end())
        given = _VALUE.match(lower, link.end()) if link else None
        if link is None or given is None:
            continue
        begin = _NAME_BEFORE.search(text, max(0, at - 40), at) or found
        words = [word.casefold() for word in _WORDS.findall(text[begin.start() : found.end()])]
        quoted = given["quoted"] is not None
        value = _ESCAPED.sub("", text[slice(*given.span("quoted" if quoted else "bare"))].rstrip("\\"))
        line = text[max(0, at - 200, text.rfind("\n", max(0, at - 200), at) + 1) : at]
        if (code and not quoted and not _in_string(line, link.group())) or (
            link["comma"] and not _IN_CALL.search(line)
        ):
            continue  # an expression, or a list
        if _is_about(words, value) or _stands_for_another(value, example=example):
            continue
        sentence = link["space"] is not None and _DIRECTIVE.search(line) is None
        prose = sentence and not quoted
        strict, loose = example or prose, link["comma"] is not None or link["space"] is not None
        if not _is_password(words):
            if _looks_like_token(words, value, strict=strict, loose=loose):
                yield at, "a key or token"
        elif not (sentence and words == ["pass"]):  # that is mostly a verb
            alone = None if loose or (code and not quoted) else 6 if quoted else 7
            if _looks_like_password(value, words, strict=strict, alone=alone):
                yield at, "a password"


def _in_string(line: str, link: str) -> bool:
    """Whether a string has begun on this line, and goes on after the link."""
    return any(line.count(one) % 2 and one not in link for one in "\"'`")


def _is_about(words: list[str], value: str) -> bool:
    """Whether a name is about a secret, or a value is a name for itself."""
    return not words or words[-1] in _ABOUT or not _NOT_KEPT.isdisjoint(words) or value.casefold() in words


def _stands_for_another(value: str, *, example: bool) -> bool:
    plain = _decoded(value).strip()
    text = plain.isascii() and plain.isprintable()
    return _made_up(value, example=example) or (text and (" " in plain or _made_up(plain, example=example)))


def _is_password(words: list[str]) -> bool:
    return any(word in _PASSWORDS or word.endswith(("password", "passwd", "passwort")) for word in words)


def _looks_like_password(value: str, words: list[str], *, strict: bool, alone: int | None) -> bool:
    if _APP_PASSWORD.fullmatch(value) or (words[-1] == "mnemonic" and _MNEMONIC.fullmatch(value)):
        return True
    if " " in value:  # mostly a sentence
        return any(len(_TURN.findall(word)) > 3 for word in value.split())
    digits = _has(value, str.isdigit)
    if _is_code(value) or not _has(value, str.isalpha) or not (digits or value.isascii()):
        return False
    if strict or digits or (alone is not None and not value.isalnum()):
        return _is_strong(value, strict=strict) or (digits and not strict and alone == 6)
    # A word alone: a label, or the name of a field, if it is written like one.
    return alone is not None and len(value) > alone and value.islower() and _is_password(words[-1:])


def _is_strong(value: str, *, strict: bool) -> bool:
    """Whether a value looks random; if strict, very much so."""
    turns, digits = len(_TURN.findall(value)), sum(map(str.isdigit, value))
    symbols = sum(not letter.isalnum() and letter not in "_-./:#=?," for letter in value)
    kinds = _has(value, str.islower) + _has(value, str.isupper) + (digits > 0) + (symbols > 0)
    if not digits:
        return _is_jumble(value) if strict else symbols > 0
    if not strict:
        return kinds > 2 or turns > 1 or symbols > 0 or len(value) > 9
    random = turns > 2 or (kinds > 2 and turns > 1) or kinds > 3 or _is_jumble(value)
    return random and len(value) > 7 and len(set(value)) > 5


def _looks_like_token(words: list[str], value: str, *, strict: bool, loose: bool) -> bool:
    if (
        " " in value
        or _is_code(value)
        or not (_mixed(value) or (value.isalpha() and len(value) > 15 and _is_jumble(value)))
    ):
        return False
    turns = len(_TURN.findall(value))
    if any(word.endswith(_TOKENS) for word in words) or (words[-1] in _SESSIONS and not loose):
        return (
            (turns > 2 or len(value) > 15)
            if not strict
            else len(value) > 15 and (turns > 3 or _is_jumble(value))
        )
    if "key" not in words or (_UUID.fullmatch(value) and _OF_KEYS.isdisjoint(words)):
        return False
    return len(value) > (15 if not _OF_KEYS.isdisjoint(words) else 19) and (turns > 3 or _is_jumble(value))


def _is_jumble(value: str) -> bool:
    """Whether a long text changes between capitals, small letters and digits more often than words do."""
    return len(value) > 11 and len(_PIECES.findall(value)) * 3.2 > len(value)


def _is_sent(value: str, *, basic: bool, example: bool) -> bool:
    if _made_up(value):
        return False
    if basic:
        plain = _decoded(value)
        password = plain.partition(":")[2] or plain
        strong = _is_strong(password, strict=example or ":" not in plain)
        return plain.isascii() and plain.isprintable() and strong and not _made_up(password, example=example)
    return len(value) > 15 and _mixed(value) and not _is_code(value)


def _opens(user: str, password: str | None, host: str, *, example: bool) -> bool:
    """Whether an address has what it needs to get in."""
    if password is None:
        return len(user) > 23 and user.isalnum() and _mixed(user) and _is_jumble(user) and not _made_up(user)
    if _made_up(password, example=example) and (example or password != user):
        return False
    if _has(password, str.isdigit) and _has(password, str.isalpha):
        return _is_strong(password, strict=example)
    return not example and _LOCAL.match(host) is None and not _TEMPLATE.search(password)


def _decoded(value: str) -> str:
    """The text in Base64; empty if there is none."""
    try:
        return base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode("latin-1")
    except ValueError:
        return ""


def _is_code(value: str) -> bool:
    """Whether a value is an expression such as `settings.token2`, a path or an address."""
    turns = len(_TURN.findall(value))
    return (
        (turns < 4 and _CODE.fullmatch(value) is not None)
        or (turns < 5 and _PATH.match(value) is not None)
        or _FOLDERS.match(value) is not None
    )


def _mixed(value: str) -> bool:
    """Whether a value has letters and digits, and many different ones."""
    digits, long = sum(map(str.isdigit, value)), len(value) > 31 and not value.islower()
    return digits > (0 if long else 1) and _has(value, str.isalpha) and len(set(value)) > 7


def _has(value: str, what: Callable[[str], bool]) -> bool:
    return any(map(what, value))


def _made_up(value: str, *, example: bool = False) -> bool:
    """Whether a value stands for another: a variable, a template, or words such as `your-token-here`."""
    if example and _made_up(value.lower().translate(_LEET)):
        return True
    if _TEMPLATE.search(value) or _in_order(value):
        return True
    lower = value.lower()
    return _MADE_UP_WORDS.fullmatch(lower) is not None and any(word in lower for word in _MADE_UP)


def _in_order(value: str) -> bool:
    """Whether most characters follow on their neighbours, as in abc123 and 000000."""
    steps = sum(ord(after) - ord(one) in (0, 1) for one, after in pairwise(value))
    return len(value) > 5 and steps > len(value) * 0.4 and not _APP_PASSWORD.fullmatch(value)
