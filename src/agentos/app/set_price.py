"""Writes the price of a model into the user's own file. `agentos config price`."""

import math
from pathlib import Path

from agentos import parse_value
from agentos.config import MAX_FILE_BYTES, named_user_file
from agentos.errors import StorageError, UsageError
from agentos.model_access import known_providers, no_provider, provider_of
from agentos.money import Price
from agentos.parse_value import Rejected
from agentos.price_edit import NotEditable, named_providers, price_lines, with_price
from agentos.store.rooted_tree import PRIVATE_FILE, PRIVATE_FOLDER, TooLarge, Tree


def set_price(user_file: Path | None, model: str, price: Price) -> Path:
    """Put the price into the file, and return where it is. Nothing else in the file changes."""
    try:
        parse_value.model(model)
    except Rejected as exc:
        raise UsageError(f"{model!r} is not a model: it must be {exc}.") from exc
    if '"' in model or "\\" in model or not model.isprintable():
        raise UsageError(f"{model!r} is not a model: its name may not contain quotes or backslashes.")
    if not all(math.isfinite(one) for one in vars(price).values() if one is not None):
        raise UsageError("A price must be a number of USD per million tokens.")
    if user_file is None:
        raise UsageError("Neither HOME nor XDG_CONFIG_HOME is set. Name the file with --config FILE.")
    # A file that is a link, as in a folder of dotfiles, stays one.
    path = user_file.expanduser().resolve()
    tree = Tree(path.parent)
    name = Path(path.name)
    lines = ", ".join(price_lines(model, price))
    try:
        path.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        found = tree.stat(name)
        # Not decoded with utf-8-sig: a mark at the start stays.
        text = "" if found is None else tree.read(name, MAX_FILE_BYTES).decode("utf-8")
        mark = "\ufeff" if text.startswith("\ufeff") else ""
        changed = mark + with_price(text.removeprefix(mark), model, price)
        named = named_providers(text.removeprefix(mark))
    except (OSError, TooLarge) as exc:
        raise StorageError(f"Cannot read {user_file}: {getattr(exc, 'strerror', None) or exc}.") from exc
    except (NotEditable, UnicodeDecodeError) as exc:
        raise UsageError(
            f"{named_user_file(user_file)} was not changed, because its prices are written in a way that "
            f"cannot be edited safely. Put these lines into it: {lines}"
        ) from exc
    if (provider := provider_of(model)) not in known_providers(named):
        raise UsageError(f"{model!r} is not a model: {no_provider(provider, named)}")
    tree.write(name, changed, mode=PRIVATE_FILE if found is None else found.st_mode & 0o777)
    return user_file
