"""Every error that the program raises on purpose, and their exit codes.

    AgentosError
    ├── UsageError            exit 2: the command line, an id, a file given by the user
    │   ├── ConfigError       exit 2: a setting in a file, a variable or a flag
    │   └── ProjectError      exit 2: no project here, or its folders cannot be used
    ├── NoUsableKey           exit 4: no key is left to call a model with
    ├── ListingError          exit 1: the items could not be listed, so what is pending is unknown
    ├── StorageError          exit 1: one of our files or databases could not be written or read
    │   └── StorageBusy       another run has the database; it is tried again
    ├── ItemFailed            fails one item, never the run
    └── StartFailed           a worker did not start; the item is retried

Stop signals are BaseException, so that no `except Exception` can swallow a stop.
"""

from enum import IntEnum


class Exit(IntEnum):
    """Process exit codes."""

    OK = 0  # all approved or filed, or nothing pending
    FAILED = 1  # an item failed or timed out
    USAGE = 2  # usage or configuration; no project here
    ATTENTION = 3  # finished, but some items need revision, a decision, or filing
    NO_KEY = 4  # no usable key
    BUDGET = 5  # budget reached
    STOPPED = 75  # stopped early (quota, time); the same command resumes
    INTERRUPTED = 130  # SIGINT
    TERMINATED = 143  # SIGTERM


MEANINGS = {
    Exit.OK: "all approved, or nothing pending",
    Exit.FAILED: "an item failed or timed out",
    Exit.USAGE: "usage or configuration",
    Exit.ATTENTION: "some items need revision, a decision, or filing",
    Exit.NO_KEY: "no usable key",
    Exit.BUDGET: "budget reached",
    Exit.STOPPED: "stopped early; run the same command to resume",
    Exit.INTERRUPTED: "interrupted; run the same command to resume",
    Exit.TERMINATED: "terminated; run the same command to resume",
}


class AgentosError(Exception):
    """An error with a one-line message for the user."""

    exit_code = Exit.FAILED


class UsageError(AgentosError):
    """The command cannot be carried out as given."""

    exit_code = Exit.USAGE


class ConfigError(UsageError):
    """A setting is wrong."""


class ProjectError(UsageError):
    """There is no usable project here."""


class NoUsableKey(AgentosError):  # noqa: N818 - reads well without Error
    """No key is left to call a model with."""

    exit_code = Exit.NO_KEY


class OwnFault(AgentosError):  # noqa: N818 - reads well without Error
    """A request was refused, and not because every item's would be."""


class ListingError(AgentosError):
    """The pending items could not be listed."""


class StorageError(AgentosError):
    """A file or database could not be written or read."""


class StorageBusy(StorageError):  # noqa: N818
    """Another process has the database for longer than we can wait."""


class ItemFailed(AgentosError):  # noqa: N818
    """This item cannot continue; others can."""


class StartFailed(AgentosError):  # noqa: N818
    """An item's worker could not be started; it is retried a few times."""


class StopRequested(BaseException):
    """The coordinator asked this worker to stop; state is saved, the item resumes later."""
