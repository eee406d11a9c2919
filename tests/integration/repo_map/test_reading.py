"""What a model may read: each form of a wish, the limits, and everything that is refused."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from agentos.repo_map import reading
from agentos.repo_map.file_kinds import MapOptions
from agentos.repo_map.parts import MAX_WISHES, PartKind, Range, Reading
from agentos.repo_map.repository import MAX_INDEXED, TrackedRepository
from harness.git_project import ENVIRONMENT, GitProject

CLIENT = '''"""Sends."""

from ssl import create


class Client:
    """Talks to a server."""

    retries = 3

    def send(self, words: str) -> bool:
        return create(tls=True, mode="a-b")

    def _close(self) -> None: ...


def connect(client: Client) -> bool:
    return client.send("hello")
'''
GUIDE = "# Guide\n\nText.\n\n## Use\n\nConnect a client.\n"
TOKEN = "ghp_" + "a1B2" * 9
OPTIONS = MapOptions(lineage_folder="docs/lineage", exclude=("private/*",))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> GitProject:
    made = GitProject(tmp_path_factory.mktemp("shop") / "shop")
    made.put("src/client.py", CLIENT)
    made.put("src/long.py", "".join(f"def call_{n}(x): ...\n\n\n" for n in range(3_000)) + "NEEDLE = 1\n")
    made.put("docs/guide.md", GUIDE)
    made.put("docs/lineage/done/7-lld/001-issue.md", "needle of the lineage\n")
    made.put(".env", "NEEDLE=hunter2hunter2\n")
    made.put("src/keys.py", f'NEEDLE = "{TOKEN}"\n')
    made.put("private/plan.md", "needle of a plan\n")
    made.put("logo.bin", b"\0needle")
    (made.folder / "link.py").symlink_to("/etc/passwd")
    made.put(".gitignore", "ignored.py\n")
    made.git("add", "-f", ".env")
    made.commit()
    made.put("ignored.py", "NEEDLE = 'ignored'\n")
    made.put("untracked.py", "NEEDLE = 'untracked'\n")
    return made


@pytest.fixture(scope="module")
def repository(project: GitProject) -> TrackedRepository:
    return project.open(OPTIONS)


def read(
    repository: TrackedRepository, *wishes: str, known: Sequence[Range] = (), tokens: int = 10_000
) -> Reading:
    return repository.look_up(wishes=wishes, names=[], known=known, tokens=tokens)


def refusal(repository: TrackedRepository, wish: str, *, tokens: int = 10_000) -> str:
    """Why a wish is refused; nothing is read."""
    found = read(repository, wish, tokens=tokens)
    (answer,) = found.answers
    assert (answer.refused, found.parts) == (True, ())
    assert str(answer).isprintable()
    str(answer).encode()
    return answer.said


# What a wish may be


@pytest.mark.parametrize(
    ("wish", "first", "last"),
    [
        ("src/client.py#Client.send", 11, 12),
        ("src/client.py#send()", 11, 12),
        ("src/client.py#Client::_close", 14, 14),
        ("src/client.py#Client", 6, 14),
        ("src/client.py:7-9", 7, 9),
        ("./src/client.py:3", 3, 3),
        ("src/client.py", 1, 18),
        ("client.py", 1, 18),
        ("docs/guide.md#Use", 5, 7),
    ],
)
def test_lines_are_read_as_they_are(repository: TrackedRepository, wish: str, first: int, last: int) -> None:
    found = read(repository, f"`{wish}`")
    (part,) = found.parts
    assert (part.kind, part.first, part.last) == (PartKind.BODY, first, last)
    lines = (CLIENT if "client" in wish else GUIDE).splitlines(keepends=True)
    assert part.text.partition("]\n")[2] == "".join(lines[first - 1 : last])
    assert list(map(str, found.answers)) == [f"{wish}: lines {first}-{last} ({part.tokens} tokens)"]


@pytest.mark.parametrize(("folder", "files"), [("src", 3), ("src/", 3), (".", 10)])
def test_a_folder_is_listed(repository: TrackedRepository, folder: str, files: int) -> None:
    found = read(repository, folder)
    assert f"a folder with {files} files" in found.answers[0].said
    assert "client.py\n" in found.parts[0].text


@pytest.mark.parametrize(
    ("wish", "place"),
    [
        ("tls=True", "src/client.py:12"),
        ("a-b", "src/client.py:12"),
        ("TALKS to a", "src/client.py:7"),
        ("server talks", "src/client.py:7"),
        ("needle", "src/long.py:9001"),
    ],
)
def test_words_are_searched_for(repository: TrackedRepository, wish: str, place: str) -> None:
    """In all of a long file, whose end the index of words does not have."""
    assert len("def call_0(x): ...\n\n\n") * 3_000 > MAX_INDEXED
    found = [part for part in read(repository, wish).parts if part.kind is PartKind.FOUND]
    assert [part.text.count("\n") for part in found] == [1]
    assert found[0].text.startswith(f"{place}: ")


@pytest.mark.parametrize("wish", ["send", "Client.send", "send()"])
def test_a_search_for_a_name_gives_its_definition_and_its_callers(
    repository: TrackedRepository, wish: str
) -> None:
    body, lines = read(repository, wish).parts
    assert (body.place, body.name) == ("src/client.py:11-12", "Client.send")
    assert "src/client.py:18: return client.send" in lines.text


def test_settings_of_the_user_do_not_change_a_search(project: GitProject, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    project.git("clone", "-q", str(project.folder), str(clone))
    for name in ("grep.column", "grep.fullName", "grep.lineNumber", "submodule.recurse"):
        project.git("-C", str(clone), "config", name, "true")
    found = read(project.open(folder=clone / "src"), "tls=True")
    assert found.parts[0].text.startswith("client.py:12: ")


# What is shown already, and limits


def test_lines_that_are_shown_already_are_not_given_again(repository: TrackedRepository) -> None:
    known = [("src/client.py", 6, 12)]
    assert read(repository, "src/client.py#Client.send", known=known).answers[0].said == "already shown"
    found = read(repository, "src/client.py", "src/client.py#Client", known=known)
    assert [part.place for part in found.parts] == ["src/client.py:1-5", "src/client.py:13-18"]
    assert "lines 1-5, lines 13-18; the rest is shown already" in found.answers[0].said
    assert found.answers[1].said == "already shown"


def test_of_a_long_file_signatures_are_given(repository: TrackedRepository) -> None:
    found = read(repository, "src/long.py", "src/long.py:1-1000")
    listed, lines = found.parts
    assert listed.kind is PartKind.SIGNATURE
    assert "def call_7(x): ...  [22-22]\n" in listed.text
    assert listed.text.endswith(" more definitions]\n")
    assert "too long (9001 lines), here are signatures; ask for src/long.py#Name" in found.answers[0].said
    assert (lines.first, lines.last) == (1, reading.MAX_LINES)
    assert f"so lines {reading.MAX_LINES + 1}-1000 are missing" in found.answers[1].said


def test_only_the_first_wishes_count(repository: TrackedRepository) -> None:
    found = read(repository, *(f"src/long.py:{number}" for number in range(1, 1_001)))
    assert len(found.answers) == MAX_WISHES + 1
    assert str(found.answers[-1]) == f"980 more: not looked at: only the first {MAX_WISHES} wishes count"
    assert all(part.last <= MAX_WISHES for part in found.parts)


def test_what_is_read_never_exceeds_the_tokens(repository: TrackedRepository) -> None:
    wishes = ("src/client.py", "src/client.py:1-2", "src/long.py", "src", "call_1", "tls=True")
    for tokens in range(0, 200, 20):
        found = read(repository, *wishes, tokens=tokens)
        assert sum(part.tokens for part in found.parts) <= tokens
        assert len(found.answers) == len(wishes)
    assert refusal(repository, "src/client.py", tokens=20) == "76 tokens, but only 20 are left to read"
    assert refusal(repository, "tls=True", tokens=0) == "no tokens are left to read"


# Refused


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ("../x", "only paths inside the repository"),
        ("src/../../x.py", "only paths inside the repository"),
        ("/etc/passwd", "only paths inside the repository"),
        ("~/x", "only paths inside the repository"),
        ("ignored.py", "no tracked file has this path"),
        ("untracked.py", "no tracked file has this path"),
        (".git/config", "no tracked file has this path"),
        ("src/clients.py", "no tracked file has this path; the nearest are src/client.py"),
        (".env", "not sent: files with this name hold secrets"),
        ("src/keys.py", "not sent: line 1 looks like a GitHub token"),
        ("src/keys.py#NEEDLE", "not sent: line 1 looks like a GitHub token"),
        ("private/plan.md", "not sent: context_exclude names it"),
        ("link.py", "not sent: a link"),
        ("logo.bin", "not sent: not text"),
        ("docs/lineage/done/7-lld/001-issue.md", "not sent: part of the lineage"),
        ("src/client.py#Clinet", "src/client.py defines no Clinet; it defines Client"),
        ("src/client.py:19-20", "src/client.py has 18 lines"),
        ("", "an empty wish"),
        (" ` ", "an empty wish"),
        ("ab", "a search needs at least 3 characters"),
        ("nobody wrote this", "nothing in the tracked files that may be sent contains this"),
        ("hunter2hunter2", "nothing in the tracked files that may be sent contains this"),
        ("of a plan", "nothing in the tracked files that may be sent contains this"),
        ("\0\x1b[2J\n\ud800", "nothing in the tracked files that may be sent contains this"),
        ("src/" * 100_000, "longer than 300 characters"),
    ],
)
def test_a_refusal_says_why(repository: TrackedRepository, wish: str, words: str) -> None:
    assert words in refusal(repository, wish)


def test_a_name_that_is_nowhere_is_absent(repository: TrackedRepository) -> None:
    names = ["Client.send", "Client.sned", "NEEDLE", "connect()", "frobnicate()"]
    found = repository.look_up(wishes=[], names=names, known=[], tokens=1_000)
    assert found.absent == ("Client.sned", "frobnicate()")
    assert {part.name for part in found.parts} == {"Client.send", "connect"}


# Whose text


def test_only_committed_text_is_read_if_a_stranger_wrote_the_item(tmp_path: Path) -> None:
    project = GitProject(tmp_path / "shop")
    project.put("src/client.py", CLIENT)
    project.commit()
    project.put("src/client.py", CLIENT.replace("hello", "secret words"))
    project.put("src/staged.py", "STAGED = 'secret words'\n")
    project.git("add", "src/staged.py")
    wishes = ("src/client.py#connect", "secret words", "client.send", "src/staged.py")
    committed = TrackedRepository.at(project.folder, ENVIRONMENT, options=MapOptions(), committed=True)
    assert committed is not None
    found = committed.look_up(wishes=wishes, names=["STAGED"], known=[], tokens=1_000)
    assert not any("secret" in part.text for part in found.parts)
    assert [one.refused for one in found.answers] == [False, True, False, True]
    assert "src/client.py:18: return client.send" in found.parts[-1].text
    assert found.absent == ("STAGED",)
    assert "secret words" in read(project.open(), *wishes).parts[0].text


def test_a_search_never_shows_what_a_filter_decrypted(tmp_path: Path) -> None:
    project = GitProject(tmp_path / "shop")
    project.put(".gitattributes", "src/vault.py filter=crypt\n")
    project.put("src/vault.py", "WORD = 'in git'\nSAME = 'a line of both'\n")
    project.commit()
    project.put("src/vault.py", "WORD = 'decrypted'\nSAME = 'a line of both'\n")
    repository = project.open()
    for wish in ("decrypted", "WORD", "src/vault.py"):
        assert not any("decrypted" in part.text for part in read(repository, wish).parts)
    assert "a line of both" in read(repository, "line of both").parts[0].text
