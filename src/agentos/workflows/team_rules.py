"""Reads the team's own rules, a file of the repository for both models. Coordinator process."""

from pathlib import Path

from agentos.errors import ConfigError
from agentos.repo_map.secret_files import secret_in, secret_name
from agentos.store.rooted_tree import why_unreadable, worktree_tree

MAX_RULES_BYTES = 40_000  # about 10,000 tokens in every prompt


def read_rules(worktree: Path, path: str) -> str:
    """Read and check the file; one that cannot be used is a ConfigError that names it."""
    name = f"rules {path!r}"
    if secret_name(Path(path).name):
        raise ConfigError(f"{name} is refused: files with this name hold secrets. None of it was sent.")
    try:
        text = worktree_tree(worktree).read(Path(path), MAX_RULES_BYTES).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{name} {why_unreadable(exc)}.") from exc
    if "\0" in text:
        raise ConfigError(f"{name} is a binary file, not text.")
    if secret := secret_in(text):
        raise ConfigError(f"{name} is refused: {secret}. Remove it from the file. None of it was sent.")
    return text.replace("\r\n", "\n")
