"""The number of a lease, which is the right to make one call. Pure.

A run has leases of several pools: one per row of a shared database, and one of its own. Their numbers differ.
"""

from typing import Annotated

from pydantic import Field

MOST = 2**53 - 1  # what every reader of JSON holds exactly
NUMBERS_PER_ROW = 10**9
OWN_FROM = 10**15  # where the numbers of unshared leases begin, if there are shared ones

LeaseNumber = Annotated[int, Field(ge=0, le=MOST)]
