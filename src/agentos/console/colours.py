"""The colour of each status, in the footer and in the summary."""

from collections.abc import Mapping

from agentos.model import Status

STATUS_COLOURS: Mapping[str, str] = {
    Status.APPROVED: "green",
    Status.NEEDS_REVISION: "yellow",
    Status.DISCUSS: "yellow",
    Status.FAILED: "red",
    Status.TIMED_OUT: "red",
    Status.INTERRUPTED: "cyan",
    Status.PAUSED: "cyan",
}
