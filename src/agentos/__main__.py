"""`python -m agentos`."""

import os
import sys

if __name__ == "__main__":
    # `python -m` puts the current folder on the path; a repo's json.py must not be imported from there.
    if not sys.flags.safe_path and sys.path and sys.path[0] in {"", os.getcwd()}:  # noqa: PTH109
        del sys.path[0]
    from agentos.cli import main

    main()
