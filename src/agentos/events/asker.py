"""Who asks the key pool for a lease. Pure."""

from typing import NamedTuple


class Asker(NamedTuple):
    """One attempt at one item of one run; a later attempt is somebody else."""

    run_id: str
    item: str  # its label
    attempt: int  # from 1

    @property
    def work(self) -> tuple[str, str]:
        """Return what all attempts at the item share."""
        return self.run_id, self.item


NOBODY = Asker("", "", 0)  # who asked is not known
