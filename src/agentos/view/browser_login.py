"""The private file that opens the page in a browser: program arguments are public, this file is not."""

import html
import os
import shutil
import tempfile
from pathlib import Path

_PAGE = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
    '<meta http-equiv="refresh" content="0; url={address}"><title>agentos</title>'
    '<p><a href="{address}">Continue to the runs</a></p></html>\n'
)


class Entrance:
    """A file that only the owner can read and that redirects to an address."""

    def __init__(self, address: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="agentos-view-"))
        self.path = self._folder / "open.html"
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(_PAGE.format(address=html.escape(address)))

    def remove(self) -> None:
        """Remove the file; it may be gone already."""
        shutil.rmtree(self._folder, ignore_errors=True)
