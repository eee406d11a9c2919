"""Decides whether the model that answered is the one that was asked for. Pure.

Providers and gateways serve a model under many names: aliases, dated snapshots, vendor prefixes, formats. A
model is identified by its family, its version and its size. Only names of a known family can be compared,
and only known words are sizes: a word of someone's own (prod, eastus) does not tell.
"""

import re
from dataclasses import dataclass
from enum import StrEnum


class Sameness(StrEnum):
    """What two names say about two models."""

    SAME = "same"  # two names of one model
    DIFFERENT = "different"  # another family, version, size or snapshot
    UNKNOWN = "unknown"  # the names do not tell


_FAMILY = re.compile(
    r"(?:^|[-_ ])(gpt-oss|gpt|chatgpt|claude|gemini|gemma|llama|mistral|mixtral|ministral|codestral|devstral"
    r"|magistral|pixtral|qwen|qwq|deepseek|grok|command|nova|titan|phi|kimi|glm|minimax|nemotron|yi|granite"
    r"|jamba|olmo|sonar)(?=[-_ .\d]|v\d|$)"
)
_O_SERIES = re.compile(r"^(o)(\d)(?=$|-)")
# Sizes that stand for their family.
_ALONE = {"opus": "claude", "sonnet": "claude", "haiku": "claude"}
_SAME_FAMILY = {"chatgpt": "gpt"}

_VARIANT = re.compile(r"\[[^\]]*\]$")  # how Claude Code notes the size of the context
_REGION = re.compile(r"^(?:us|eu|apac|global|us-gov|jp|au|ca)\.")
_VENDOR = re.compile(
    r"^(?:anthropic|meta|amazon|mistral|cohere|deepseek|openai|qwen|ai21|google|moonshot(?:ai)?|minimax|nvidia)\."
)
_BUILD = re.compile(r"-v\d+:\d+$|(?<=\d{8})-v\d+$|-v\d+(?=-\d{8}$)|(?<=-sonnet)-v\d+$")
_ROUTE = re.compile(r":(?:free|beta|nitro|floor|extended|online|thinking|latest|exacto|[a-z]+-latest)$")
_PREVIEW = re.compile(
    r"-(?:preview|exp|experimental)(?:-(\d{4}-\d{2}-\d{2}|\d{8}|\d{2}-\d{4}|\d{2}-\d{2}|\d{4}))?(?=-|$)"
)
_DATE = re.compile(r"-(\d{4}-\d{2}-\d{2}|\d{8}|\d{6}|\d{3,4})(?=-|$)")
_FORMAT = re.compile(
    r"[-_.](?:i?q\d(?:_[a-z\d]+)*|(?:nv|mx)?fp\d+|bf16|int\d|w\d+a\d+|[48]-?bits?|awq|gptq|gguf|mlx)(?=[-_.]|$)"
)
_NOISE = frozenset(
    {"latest", "preview", "exp", "experimental", "beta", "alpha", "it", "hf", "maas", "default"}
)
# What is part of the name in one family only, or of no meaning in some.
_FAMILY_NOISE = {
    "gpt": frozenset({"high", "medium", "low", "minimal", "none"}),
    "o": frozenset({"high", "medium", "low"}),
    "claude": frozenset({"thinking"}),
    "llama": frozenset({"turbo", "lite", "versatile", "instant"}),
}
_CHAT_NOISE = frozenset({"chat", "instruct"})  # except for OpenAI's, where these are models of their own
# Words of a provider that make it another model.
_SIZES = frozenset(
    re.findall(
        r"\w+",
        "nano micro mini tiny small medium large xlarge lite pro plus max ultra turbo flash fast air premier "
        "express haiku sonnet opus chat instruct codex code coder math vision vl omni audio realtime search "
        "image tts transcribe embed embedding thinking deep research guard base distill nemo scout maverick "
        "long ",
    )
)
_SIZE = re.compile(r"\d.*|[a-z]|[a-z]\d[a-z\d.]*")  # 4o, 8b, 8x7b, 32k; r; r1, k2, a22b, v3p1
_VERSION = re.compile(r"v?(\d{1,2}(?:\.\d{1,2})*)")


@dataclass(frozen=True, kw_only=True)
class _Identity:
    """What is known of a model from its name."""

    family: str
    version: tuple[int, ...]  # empty: none was named
    sizes: frozenset[str]  # and other known words that make it another model
    others: frozenset[str]  # words that may mean anything
    date: str  # of a snapshot; empty: none was named


def same_model(asked: str, served: str) -> Sameness:
    """Compare the names of a model; a server that reports no name is trusted."""
    wanted, given = _plain(asked), _plain(served)
    if not given or not wanted or wanted == given:
        return Sameness.SAME
    one, other = _identity(wanted), _identity(given)
    if one is None or other is None:
        return Sameness.UNKNOWN
    if one.family != other.family or one.sizes != other.sizes:
        return Sameness.DIFFERENT
    if one.version and other.version and one.version != other.version:
        return Sameness.DIFFERENT
    if one.date and other.date and one.date != other.date:
        return Sameness.DIFFERENT
    untold = (one.version and not other.version) or one.others != other.others
    return Sameness.UNKNOWN if untold else Sameness.SAME


def _plain(name: str) -> str:
    """The name without what a gateway, a cloud or a client puts around it."""
    plain = _VARIANT.sub("", name.strip().casefold())
    plain = plain.rsplit("/", 1)[-1].replace("@", "-")
    plain = _VENDOR.sub("", _REGION.sub("", plain))
    plain = _ROUTE.sub("", _BUILD.sub("", plain))
    plain = re.sub(r"(?<![^-])gpt-([3-5])(\d)(?=-|$)", r"gpt-\1.\2", plain)  # Azure allows no dots
    return re.sub(r"^gpt-4-(0125|1106)-preview$", r"gpt-4-turbo-\1-preview", plain)  # its first snapshots


def _identity(plain: str) -> _Identity | None:
    if ":" in plain:
        # Ollama's tags are sizes and formats; anything else is someone's own name.
        if plain.startswith("ft:"):
            return None
        plain = plain.replace(":", "-")
    family, rest = _family(plain)
    if family is None:
        return None
    dates: list[str] = []

    def dated(found: re.Match[str]) -> str:
        if found[1] and len(found[1]) > 3:  # 001 is a build
            dates.append(found[1].replace("-", ""))
        return ""

    rest = _DATE.sub(dated, _PREVIEW.sub(dated, _FORMAT.sub("", rest)))
    version: list[int] = []
    sizes: set[str] = set()
    others: set[str] = set()
    noise = (
        _NOISE | _FAMILY_NOISE.get(family, frozenset()) | (_CHAT_NOISE if family != "gpt" else frozenset())
    )
    for token in filter(None, re.split(r"[-_ ]", rest)):
        if (number := _VERSION.fullmatch(token)) is not None:
            version += [int(part) for part in number[1].split(".")]
        elif token not in noise:
            (sizes if token in _SIZES or _SIZE.fullmatch(token) else others).add(token)
    while version and version[-1] == 0:
        version.pop()  # 4.0 is 4
    return _Identity(
        family=family,
        version=tuple(version),
        sizes=frozenset(sizes),
        others=frozenset(others),
        date="".join(dates),
    )


def _family(plain: str) -> tuple[str | None, str]:
    """The family that a name belongs to, and the rest of the name, beginning with a hyphen."""
    if (found := _O_SERIES.match(plain)) is not None:
        return "o", f"-{plain[1:]}"
    if (found := _FAMILY.search(plain)) is not None:
        rest = re.sub(r"^[. ]", "-", plain[found.end() :])
        return _SAME_FAMILY.get(found[1], found[1]), rest if rest.startswith("-") else f"-{rest}"
    first = plain.partition("-")[0]
    return (_ALONE[first], f"-{plain}") if first in _ALONE else (None, plain)
