"""Context files: inside the repo, text, within the caps, and nothing that looks like a secret."""

import os
from pathlib import Path
from typing import Any

import pytest

from agentos.errors import Exit, UsageError
from agentos.repo_map.secret_files import secret_in
from agentos.workflows import context
from agentos.workflows.context import MAX_FILE_BYTES, MAX_FILES, MAX_TOTAL_BYTES, ContextRules, read_context

PRIVATE_KEY = "-----BEGIN RSA PRIVATE " + "KEY-----"
GITHUB = "ghp_" + "a1B2" * 9
JWT = ("eyJhbGciOiJIUzI1NiJ9", "eyJzdWIiOiIxMjM0NTY3ODkwIn0", "dozjgNryP4J3jVmNHl0w5N")
SECRETS = {
    "a private key": f"x\n{PRIVATE_KEY}\nMIIE",
    "an AWS access key": "id = AKIA" + "Q3EGRA7XKLM2P4WZ",
    "a GitHub token": f"token {GITHUB}",
    "an Anthropic key": "sk-ant-" + "api03-abcdefGHIJ0123456789",
    "an OpenAI key": "sk-proj-" + "abcdefGHIJ0123456789",
    "a Google API key": "AIza" + "SyA1234567890abcdefghijklmnopqrstuv",
    "a Slack token": "xoxb-" + "123456789012-abcdef",
    "a signed token (JWT)": ".".join(JWT),
    "a password": "password = " + '"hunter2hunter2"',
    "a key or token": '"api_key": ' + '"9f8e7d6c5b4a39281706f5e4"',
}
HARMLESS = (
    "password = os.environ['PASSWORD']",
    'password = "changeme-please"',
    'password: "${DB_PASSWORD}"',
    'password = "short"',
    'PASSWORD_FIELD = "the password of the user"',
    'token = "<your token here>"',
    'api_key = "example-1234-abcd-5678"',
    'token = "next_page_token_name"',
    "the ids start with AKIA or ghp_",
    "AKIA" + "IOSFODNN7EXAMPLE",
    "-----BEGIN PUBLIC KEY-----",
    "-----BEGIN CERTIFICATE-----",
    "sk-ant-...",
    "AIza followed by 35 characters",
    "eyJ is how a token begins",
    "task-proj-management-of-many-things",
)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    root.mkdir()
    return root


def put(root: Path, name: str, content: str | bytes = "text\n") -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def refused(repo: Path, *names: str) -> str:
    with pytest.raises(UsageError) as caught:
        read_context(repo, [Path(name) for name in names])
    assert caught.value.exit_code == Exit.USAGE
    return str(caught.value)


def read(repo: Path, *names: str) -> dict[str, str]:
    return read_context(repo, [Path(name) for name in names])


def skipped(repo: Path, name: str, **rules: Any) -> dict[str, str]:
    """What is skipped in a folder that also has a harmless file."""
    put(repo, f"{name}/harmless.md")
    told: dict[str, str] = {}
    texts = read_context(repo, [Path(name)], ContextRules(skip=told.__setitem__, **rules))
    assert f"{name}/harmless.md" in texts
    assert not told.keys() & texts.keys()
    return told


# What is given


def test_nothing_named_is_nothing_given(repo: Path) -> None:
    put(repo, "README.md")
    assert read(repo) == {}


def test_files_come_in_the_order_named_and_once(repo: Path) -> None:
    put(repo, "b.md", "bee\r\n")
    put(repo, "docs/a.md", "\ufeffä\n")
    given = read(repo, "b.md", "docs/a.md", "./b.md", "docs")
    assert list(given.items()) == [("b.md", "bee\n"), ("docs/a.md", "ä\n")]


def test_a_folder_gives_its_text_files_in_order(repo: Path) -> None:
    for name in ("src/z.py", "src/a.py", "src/sub/deep/c.py", "src/empty.py"):
        put(repo, name, "" if "empty" in name else name)
    put(repo, "src/picture.png", b"\x89PNG\0\0")
    put(repo, "src/large.bin", b"\0" * (MAX_FILE_BYTES + 1))
    put(repo, "src/latin.txt", "ä".encode("latin-1"))
    for name in (".hidden", ".git/config", ".agentos/log", "node_modules/x.js", "__pycache__/x.txt"):
        put(repo, f"src/{name}", PRIVATE_KEY)
    outside = put(repo.parent, "outside.md", "not ours")
    (repo / "src/link.md").symlink_to(outside)
    (repo / "src/loop").symlink_to(repo / "src")
    os.mkfifo(repo / "src/pipe")
    assert list(read(repo, "src")) == ["src/a.py", "src/empty.py", "src/z.py", "src/sub/deep/c.py"]
    assert list(read(repo, ".")) == list(read(repo, "src"))


def test_a_hidden_file_is_given_when_it_is_named(repo: Path) -> None:
    put(repo, ".editorconfig", "root = true\n")
    put(repo, ".github/workflows/ci.yml", "on: push\n")
    assert list(read(repo, ".editorconfig", ".github")) == [".editorconfig", ".github/workflows/ci.yml"]


def test_a_strange_name_stays_one_line_of_valid_text(repo: Path) -> None:
    (repo / "d").mkdir()
    put(repo, "d/a\nb\x1b.md")
    Path(os.fsdecode(os.fsencode(repo) + b"/d/\xff.md")).write_text("x")
    names = list(read(repo, "d"))
    assert names == ["d/a\\nb\\x1b.md", "d/\\xff.md"]


# What cannot be given


@pytest.mark.parametrize("name", ["/etc/hosts", "../other", "a/../../other", "missing.md"])
def test_a_path_that_is_not_in_the_repo_is_refused(repo: Path, name: str) -> None:
    assert name in refused(repo, name)


@pytest.mark.parametrize("inside", [False, True])
def test_a_link_is_refused_wherever_it_leads(repo: Path, inside: bool) -> None:
    place = repo if inside else repo.parent
    put(place, "elsewhere/a.md")
    (repo / "file.md").symlink_to(place / "elsewhere/a.md")
    (repo / "folder").symlink_to(place / "elsewhere")
    for name in ("file.md", "folder"):
        assert f"{name} is refused: it cannot be read: it is a symbolic link, and links are not" in refused(
            repo, name
        )
    assert "folder/a.md" in refused(repo, "folder/a.md")


@pytest.mark.parametrize("name", [".git/config", ".agentos/records.db", ".GIT/config", "src/.git/config"])
def test_what_git_and_we_keep_is_never_given(repo: Path, name: str) -> None:
    put(repo, ".git/config")
    put(repo, ".agentos/records.db")
    put(repo, "src/.git/config")
    assert "never given" in refused(repo, name)


@pytest.mark.parametrize("target", [".git", ".agentos", ".git/config"])
def test_a_link_does_not_lead_into_what_git_and_we_keep(repo: Path, target: str) -> None:
    put(repo, ".git/config")
    put(repo, ".agentos/records.db")
    (repo / "link").symlink_to(target)
    assert "link is refused: it cannot be read: it is a symbolic link" in refused(repo, "link")
    assert "link/config" in refused(repo, "link/config")


def test_a_named_file_must_be_text(repo: Path) -> None:
    put(repo, "a.bin", b"a\0b")
    put(repo, "latin.txt", "ä".encode("latin-1"))
    os.mkfifo(repo / "pipe")
    (repo / "empty").mkdir()
    assert "a.bin is refused: it is a binary file" in refused(repo, "a.bin")
    assert "latin.txt is refused: it is not UTF-8 text (byte 0)" in refused(repo, "latin.txt")
    assert "pipe is refused: it cannot be read: it is not a regular file" in refused(repo, "pipe")
    assert "no text file" in refused(repo, "empty")


# Secrets


@pytest.mark.parametrize(
    "name",
    [
        ".env", ".env.local", ".ENV", "server.pem", "tls.key", "a.p12", "a.pfx", "a.keystore", "id_rsa",
        "id_rsa.old", "id_ed25519", ".netrc", ".npmrc", ".pypirc", "credentials", "credentials.json",
        "secrets.yaml", "a.kdbx", ".htpasswd", "service-account-prod.json", "Service-Account.json",
    ],
)  # fmt: skip
def test_a_file_named_like_a_secret_is_refused(repo: Path, name: str) -> None:
    put(repo, f"conf/{name}", "nothing in it\n")
    told = refused(repo, f"conf/{name}")
    assert f"conf/{name} is refused" in told
    assert f'context_allow = ["conf/{name}"]' in told
    if not name.startswith("."):
        assert skipped(repo, "conf") == {f"conf/{name}": "files with this name hold secrets"}


def test_a_secret_is_refused_whatever_its_kind_and_its_link(repo: Path) -> None:
    put(repo, "keys/store.p12", b"\0\1\2")
    put(repo, ".env", "A=1")
    (repo / "notes.txt").symlink_to(".env")
    assert list(skipped(repo, "keys")) == ["keys/store.p12"]
    assert "notes.txt is refused: it cannot be read: it is a symbolic link" in refused(repo, "notes.txt")


@pytest.mark.parametrize("name", [".env.example", "secrets.sample", "credentials.md", "keys.py", "env.py"])
def test_a_file_made_to_be_shown_passes_by_its_name_alone(repo: Path, name: str) -> None:
    put(repo, name, "A=\n")
    assert read(repo, name) == {name: "A=\n"}
    put(repo, name, f"A={GITHUB}\n")
    assert "line 1 looks like a GitHub token" in refused(repo, name)


@pytest.mark.parametrize("what", SECRETS)
def test_a_text_with_a_secret_is_refused_without_showing_it(repo: Path, what: str) -> None:
    put(repo, "docs/notes.md", f"one\ntwo\n{SECRETS[what]}\n")
    why = f"line {4 if what == 'a private key' else 3} looks like {what}"
    told = refused(repo, "docs/notes.md")
    assert f"docs/notes.md is refused: {why}" in told
    assert not any(word in told for word in SECRETS[what].split() if len(word) > 12)
    assert skipped(repo, "docs") == {"docs/notes.md": why}
    allowed = ContextRules(allow=("docs/*.md",))
    assert "docs/notes.md" in read_context(repo, [Path("docs/notes.md")], allowed)


def test_a_folder_gives_only_tracked_files_and_no_lineage(repo: Path) -> None:
    for name in ("d/a.md", "d/ignored.md", "d/lineage/001-draft.md"):
        put(repo, name)
    rules = ContextRules(tracked=frozenset({"d/a.md", "d/lineage/001-draft.md"}), lineage="d/lineage")
    assert list(read_context(repo, [Path("d")], rules)) == ["d/a.md"]
    # A file that the user names is sent all the same.
    assert list(read_context(repo, [Path("d/ignored.md")], rules)) == ["d/ignored.md"]
    of_repo = ContextRules(tracked=frozenset({"d/a.md"}), only_tracked=True)
    assert list(read_context(repo, [Path("d/ignored.md"), Path("d/a.md")], of_repo)) == ["d/a.md"]


@pytest.mark.parametrize("text", HARMLESS)
def test_a_text_about_secrets_is_none(text: str) -> None:
    assert secret_in(text) is None


def test_our_own_sources_are_no_secrets() -> None:
    """The least that a search for secrets must get right: a whole program that is about keys."""
    sources = Path(context.__file__).parents[1]
    wrong = {
        str(path): told for path in sources.rglob("*.py") if (told := secret_in(path.read_text("utf-8")))
    }
    assert wrong == {}


# Caps


def test_a_file_may_be_as_large_as_the_cap(repo: Path) -> None:
    put(repo, "a.md", "x" * MAX_FILE_BYTES)
    assert len(read(repo, "a.md")["a.md"]) == MAX_FILE_BYTES
    put(repo, "a.md", "x" * (MAX_FILE_BYTES + 1))
    assert f"a.md is refused: it has {MAX_FILE_BYTES + 1:,} bytes" in refused(repo, "a.md")
    put(repo, "d/a.md", "x" * (MAX_FILE_BYTES + 1))
    assert list(skipped(repo, "d")) == ["d/a.md"]


def test_all_together_may_be_as_large_as_the_cap(repo: Path) -> None:
    for number in range(MAX_TOTAL_BYTES // MAX_FILE_BYTES):
        put(repo, f"d/{number}.md", "x" * MAX_FILE_BYTES)
    assert sum(map(len, read(repo, "d").values())) == MAX_TOTAL_BYTES
    put(repo, "d/z.md", "é")
    told = refused(repo, "d")
    assert f"{MAX_TOTAL_BYTES + 2:,} with d/z.md" in told
    assert "d/0.md (100,000)" in told


def test_files_may_be_as_many_as_the_cap(repo: Path) -> None:
    for number in range(MAX_FILES):
        put(repo, f"d/{number}.md")
    assert len(read(repo, "d")) == MAX_FILES
    put(repo, "d/one-more.md")
    assert f"more than {MAX_FILES} files" in refused(repo, "d")


def test_a_folder_without_end_is_not_walked_to_its_end(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "MAX_ENTRIES", 5)
    for number in range(6):
        put(repo, f"d/{number}.bin", b"\0")
    assert "d has more than 5 files" in refused(repo, "d")


@pytest.mark.parametrize(
    "line",
    [
        "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYzq8vKw2dLm",
        "PASSWORD=Tr5wKz7Hdq8v",
        "export MY_API_KEY=9f8e7d6c5b4a39281706",
        "client_secret: 9f8e7d6c5b4a39281706",
        "DATABASE=postgres://admin:Zq8vKw2dLm@db.internal/app",
    ],
)
def test_secrets_without_quotes_are_seen_too(line: str) -> None:
    assert secret_in(f"# settings\n{line}\n") is not None


@pytest.mark.parametrize(
    "line",
    [
        "token = leased.secret",
        "KEY: the name of the key, such as key-1",
        "API_KEY=<your key here>",
        "https://user:password@example.com/path",
        "key = hashlib.sha256(data).hexdigest()[:16]",
    ],
)
def test_code_and_placeholders_are_no_secrets(line: str) -> None:
    assert secret_in(line) is None


def test_a_named_file_that_is_excluded_is_an_error(repo: Path) -> None:
    put(repo, "src/legacy/a.py")
    put(repo, "src/b.py")
    rules = ContextRules(exclude=("src/legacy/*",), allow=("*",))
    with pytest.raises(
        UsageError, match=r"src/legacy/a.py is refused: context_exclude names it.*change context_exclude"
    ):
        read_context(repo, [Path("src/legacy/a.py")], rules)
    assert list(read_context(repo, [Path("src")], rules)) == ["src/b.py"]
    # The repo's own settings name it and exclude it: it is named, and the run goes on.
    told: dict[str, str] = {}
    of_repo = ContextRules(
        exclude=("src/legacy/*",), tracked={"src/legacy/a.py"}, only_tracked=True, skip=told.__setitem__
    )
    assert read_context(repo, [Path("src/legacy/a.py")], of_repo) == {}
    assert told == {"src/legacy/a.py": "context_exclude names it"}


def test_a_file_that_git_decrypts_is_refused_like_a_secret(repo: Path) -> None:
    put(repo, "conf/vault.yml", "plain: words\n")
    refused = {"conf/vault.yml": "git filters it (filter=git-crypt), so it may be decrypted"}
    with pytest.raises(
        UsageError, match=r"filter=git-crypt.*decrypted.*context_allow = \[\"conf/vault.yml\"\]"
    ):
        read_context(repo, [Path("conf/vault.yml")], ContextRules(refused=refused))
    assert "decrypted" in skipped(repo, "conf", refused=refused)["conf/vault.yml"]
    allowed = ContextRules(refused=refused, allow=("conf/vault.yml",))
    assert read_context(repo, [Path("conf/vault.yml")], allowed) == {"conf/vault.yml": "plain: words\n"}


def test_a_file_of_git_lfs_is_sent_if_it_was_fetched(repo: Path) -> None:
    put(repo, "fetched.txt", "words\n")
    put(repo, "pointer.txt", "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n")
    assert read_context(repo, [Path("fetched.txt")]) == {"fetched.txt": "words\n"}
    with pytest.raises(UsageError, match="git lfs pull"):
        read_context(repo, [Path("pointer.txt")])
