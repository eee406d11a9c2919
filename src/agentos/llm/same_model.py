"""Checks that the model that answered is the one that was asked for. Pure."""

import re

# What a provider adds to a name without serving a different model: a date, a build number, a preview mark.
# A part of one or two digits is the next version, and so a different model.
_ADDED = re.compile(
    r"(?:-(?:\d{4}-\d{2}-\d{2}|\d{6,8}|\d{3,4}|(?:preview|exp)(?:-\d{2}-\d{2,4}|-\d{4})?|v\d+(?::\d+)?))+"
)
_VARIANT = re.compile(r"\[[^\]]*\]$")  # how Claude Code notes the size of the context
_LATEST = "-latest"


def same_model(asked: str, served: str) -> bool:
    """Compare the names of a model; a server that reports no name is trusted."""
    wanted, given = _parts(asked), _parts(served)
    if not given or not wanted:
        return True
    # One of them may begin with the vendor: openai/gpt-5 and gpt-5.
    for one, other in zip(reversed(wanted[:-1]), reversed(given[:-1]), strict=False):
        if one != other:
            return False
    name, reported = wanted[-1], given[-1]
    if name == reported:
        return True
    name = name.removesuffix(_LATEST)
    return reported == name or (reported.startswith(name) and bool(_ADDED.fullmatch(reported, len(name))))


def _parts(name: str) -> list[str]:
    plain = _VARIANT.sub("", name.strip().casefold()).removeprefix("models/").replace("@", "-")
    return [part for part in plain.split("/") if part]
