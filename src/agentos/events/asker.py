"""Who asks the key pool for a lease. Pure."""

from typing import NamedTuple


class Asker(NamedTuple):
    """One attempt at one item of one run. A later attempt is another asker."""

    run_id: str
    item: str  # its label
    attempt: int  # from 1

    @property
    def work(self) -> tuple[str, str]:
        """Return what all attempts at the item have in common."""
        return self.run_id, self.item


NOBODY = Asker("", "", 0)  # the asker is unknown
