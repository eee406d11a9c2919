"""axe-core, the accessibility checker: fetched once by npm, checked, and run in a page."""

import base64
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from playwright.sync_api import Page

VERSION = "4.14.0"
INTEGRITY = "sha512-9WTZxEjsZ7b13TH8JPmbV2z8CHbl80/2hm3XPEG4JgNdQLK81IBRXmSxHfMAOkSqQeRxT/0dwNDz2GOm3zzpcQ=="
_KEPT = Path(sys.prefix) / "axe-core" / f"axe-core-{VERSION}.tgz"  # in the virtual environment


class NoAxe(Exception):  # noqa: N818 - reads better without Error
    """axe-core cannot be had here."""


def axe_source() -> str:
    """The script, from the package whose hash is known."""
    if not _KEPT.is_file():
        _fetch()
    data = _KEPT.read_bytes()
    found = f"sha512-{base64.b64encode(hashlib.sha512(data).digest()).decode()}"
    if found != INTEGRITY:
        raise AssertionError(f"{_KEPT} is not axe-core {VERSION}: its hash is {found}")
    with tarfile.open(_KEPT) as package:
        file = package.extractfile("package/axe.min.js")
        assert file is not None
        return file.read().decode()


def _fetch() -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise NoAxe("npm is not on the PATH")
    _KEPT.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_KEPT.parent) as folder:
        made = subprocess.run(
            [npm, "pack", "--silent", f"axe-core@{VERSION}"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        package = Path(folder) / _KEPT.name
        if made.returncode or not package.is_file():
            raise NoAxe(f"npm pack axe-core@{VERSION}: {made.stderr[-500:]}")
        package.replace(_KEPT)


_RUN = """async () => {
    const found = await axe.run(document, { rules: { "target-size": { enabled: true } } });
    const wrong = found.violations.flatMap((rule) => rule.nodes.map((node) => rule.id + ": " + node.target.join(" ") + ": " +
        [...node.any, ...node.all, ...node.none].map((check) => check.message).join("; ").slice(0, 300)));
    return { wrong, passes: found.passes.length };
}"""  # noqa: E501 - a script


def violations(page: Page, source: str) -> list[str]:
    """What axe finds wrong with the page as it is now, with every rule it has."""
    page.evaluate(f"() => {{ {source} }}")
    found = page.evaluate(_RUN)
    assert found["passes"] > 10  # it looked at something
    wrong: list[str] = found["wrong"]
    return wrong
