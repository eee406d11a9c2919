"""Keeps prompts and answers in the run's folder if the user wants it, within limits. Coordinator process."""

from typing import TYPE_CHECKING

from agentos.store.run_folder import RunFolder

if TYPE_CHECKING:
    from agentos.wire import CallTexts

MOST_CALLS = 200  # of one item
MOST_ITEM_BYTES = 20_000_000
MOST_RUN_BYTES = 200_000_000


class KeptPrompts:
    """Writes one line per call; the run folder removes secrets from it."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._calls: dict[str, int] = {}  # kept so far, by item
        self._bytes: dict[str, int] = {}

    def keep(self, item_id: str, texts: "CallTexts") -> str | None:
        """Keep the texts of a call; return why not, if a limit is reached."""
        if sum(self._bytes.values()) >= MOST_RUN_BYTES:
            return f"prompts: {MOST_RUN_BYTES / 1e6:.0f} MB are kept; no more in this run"
        calls, size = self._calls.get(item_id, 0), self._bytes.get(item_id, 0)
        if calls >= MOST_CALLS or size >= MOST_ITEM_BYTES:
            return "prompts: the limit of an item is reached; its other prompts are not kept"
        self._calls[item_id] = calls + 1
        self._bytes[item_id] = size + self._folder.prompt(item_id, texts.model_dump(exclude={"type"}))
        return None
