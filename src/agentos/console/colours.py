"""Our colours on a terminal: of each status, and of labels."""

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
LABEL = "cyan"  # one calm style for every label
