"""No secret of the repository is in the map, and ordinary files are: through the real command."""

import re
from pathlib import Path

import pytest

from agentos.repo_map.secret_files import secret_in, secret_name
from harness.example_files import ExampleFile, example_files
from harness.provider import Bench

HERE = Path(__file__).parent
AT_ONCE = 30  # files that one item names; more are not read


def sent(bench: Bench, files: list[ExampleFile]) -> tuple[dict[str, str], str]:
    """Commit the files, and name them in items: what is left out and why, and all that would be sent."""
    for file in files:
        bench.project.write(file.path, file.text or "\n")
        bench.project.write(f"{file.path.partition('/')[0]}/more.txt", "Nothing.\n")
    parts = [files[at : at + AT_ONCE] for at in range(0, len(files), AT_ONCE)]
    for number, part in enumerate(parts, start=1):
        bench.project.issue(
            number, f"# Part {number}\n\n" + "".join(f"See `{file.path}`.\n" for file in part)
        )
    bench.commit()
    left: dict[str, str] = {}
    text = ""
    for number, part in enumerate(parts, start=1):
        args = ["context", str(number), "--tokens", "100000"]
        for file in part:  # a name without an ending is a word in the text of an item
            args += [] if "." in Path(file.path).name else ["--context", file.path.partition("/")[0]]
        shown = bench.free(*args, "--json")
        left |= {one["path"]: one["why"] for one in shown.json["left_out"]}
        left |= dict(re.findall(r"Skipping (\S+) of --context: (.+)\.\n", shown.err))
        text += bench.free(*args, "--text").out
    return left, text


def is_secret(why: str) -> bool:
    return "looks like" in why or why == "files with this name hold secrets"


def test_every_secret_is_withheld_by_name(bench: Bench) -> None:
    files = list(example_files(HERE / "secrets.txt"))
    left, text = sent(bench, files)
    assert len(files) > 250
    assert [file for file in files if not is_secret(left.get(file.path, ""))] == []
    long = [secret for file in files for secret in file.secrets if len(secret) > 7]
    assert [secret for secret in long if secret in text or any(secret in why for why in left.values())] == []


def test_ordinary_files_are_sent(bench: Bench) -> None:
    files = list(example_files(HERE / "ordinary.txt"))
    left, text = sent(bench, files)
    assert {file.path: left[file.path] for file in files if file.path in left} == {}
    assert [file.path for file in files if file.text.splitlines()[0] not in text] == []


@pytest.mark.parametrize("seed", range(2, 6))
def test_other_secrets_of_the_same_kinds_are_recognised(seed: int) -> None:
    """The same files with other random values; the function alone, because the command is slower."""
    files = example_files(HERE / "secrets.txt", seed)
    missed = [
        file
        for file in files
        if not secret_name(Path(file.path).name) and secret_in(file.text, file.path) is None
    ]
    assert missed == []
