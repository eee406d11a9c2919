"""The command line: parses, calls, prints, exits. The only place that catches and prints errors."""

import os
import sys


def main(arguments: list[str] | None = None) -> None:
    """Run `agentos`."""
    _open_standard_streams()
    # A repo is not trusted: import nothing from the current folder.
    here = os.getcwd() if not sys.flags.safe_path else None  # noqa: PTH109 - pathlib is not needed for this
    sys.path[:] = [entry for entry in sys.path if entry and entry != here]
    try:
        from agentos.cli.app import run  # noqa: PLC0415 - after the path is safe

        code = run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


def _open_standard_streams() -> None:
    """Open /dev/null for each closed standard stream, before another file gets its descriptor."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def lld_main() -> None:
    """Run `lld-workflow`, which is `agentos lld`."""
    main(["lld", *sys.argv[1:]])


def issue_main() -> None:
    """Run `issue-workflow`, which is `agentos issue`."""
    main(["issue", *sys.argv[1:]])
