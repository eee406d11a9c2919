"""Where the checkpoints of items are: the protocol, and the databases in the home."""

from dataclasses import dataclass
from typing import Protocol

from agentos.model import Item
from agentos.store.home import Home, checkpoint_files


class Checkpoints(Protocol):
    """Finds and drops checkpoints; only the worker of an item writes one."""

    def place(self, item: Item) -> str:
        """Return what the item's worker needs to open it."""

    def drop(self, item: Item) -> None:
        """Remove it, if there is one."""

    def existing(self, item: Item) -> str | None:
        """Return where it is, if there is one."""


@dataclass(frozen=True, kw_only=True)
class LocalCheckpoints:
    """One SQLite database per item, in the home."""

    home: Home
    mock: bool

    def place(self, item: Item) -> str:
        return str(self.home.checkpoint(item.workflow, item.id, mock=self.mock))

    def drop(self, item: Item) -> None:
        for path in checkpoint_files(self.home.checkpoint(item.workflow, item.id, mock=self.mock)):
            self.home.tree.remove(path)

    def existing(self, item: Item) -> str | None:
        path = self.home.checkpoint(item.workflow, item.id, mock=self.mock)
        return str(path) if self.home.tree.exists(path) else None
