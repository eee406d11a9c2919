"""Every error the program raises on purpose, and the exit codes they end in.

    AgentosError
    ├── UsageError            exit 2: the command line, an id, a file given by the user
    │   ├── ConfigError       exit 2: a setting in a file, a variable or a flag
    │   └── ProjectError      exit 2: no project here, or its folders cannot be used
    ├── NoUsableKey           exit 4: no key is left to call a model with
    ├── ListingError          exit 1: the items could not be listed, so nobody knows what is pending
    ├── StorageError          exit 1: a file or database of ours could not be written or read
    ├── ItemFailed            ends one item as failed, never the run
    └── StartFailed           a worker did not start; the item is tried again

Stop signals are BaseException, so that no `except Exception` can turn a stop into a result.
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
    Exit.BUDGET: "the budget is reached",
    Exit.STOPPED: "stopped early; the same command goes on",
    Exit.INTERRUPTED: "interrupted; the same command goes on",
    Exit.TERMINATED: "terminated; the same command goes on",
}


class AgentosError(Exception):
    """Something went wrong that a user can be told about in one line."""

    exit_code = Exit.FAILED


class UsageError(AgentosError):
    """The command cannot be carried out as it was given."""

    exit_code = Exit.USAGE


class ConfigError(UsageError):
    """A setting is wrong."""


class ProjectError(UsageError):
    """There is no usable project here."""


class NoUsableKey(AgentosError):  # noqa: N818 - read as what it is, not as an error class
    """No key is left to call a model with."""

    exit_code = Exit.NO_KEY


class ListingError(AgentosError):
    """The pending items could not be listed."""


class StorageError(AgentosError):
    """A file or database could not be written or read."""


class ItemFailed(AgentosError):  # noqa: N818
    """This item cannot go on; others can."""


class StartFailed(AgentosError):  # noqa: N818
    """An item's worker could not be started; it is tried again, a few times."""


class StopRequested(BaseException):
    """The coordinator asked this worker to stop; state is saved, the item resumes later."""
