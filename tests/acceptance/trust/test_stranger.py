"""A stranger opens an issue, or a pull request: from the command line to the wire of both models."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentos.errors import Exit
from harness.github import FakeGitHub, running_fakegithub
from harness.project import Project
from harness.provider import Bench, running_provider

LOCAL = "correct-horse-battery"  # a word that is only in the worktree


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    with running_fakegithub() as fake:
        yield fake


@pytest.fixture
def bench(project: Project, github: FakeGitHub) -> Iterator[Bench]:
    """A clone of a repository on the fake GitHub."""
    with running_provider() as provider:
        env = {"GITHUB_API_URL": github.url, "GH_TOKEN": github.token}
        made = Bench(project=project, provider=provider, env=env)
        project.write("src/config.py", 'HOST = "committed-host"\n')
        project.write("src/quiet.py", 'PORT = "committed-port"\n')
        project.write("src/hidden.py", 'NAME = "committed-name"\n')
        project.write("rules.md", "Committed rules.\n")
        made.commit()
        made.git("remote", "add", "origin", f"https://github.com/{github.repository}")
        yield made


def sent(bench: Bench) -> str:
    return "".join(one.system + one.prompt for one in bench.provider.asked)


def with_map(bench: Bench) -> list[str]:
    """The prompts that have the map; that in which the reviewer asks for more is short."""
    prompts = [one.prompt for one in bench.provider.asked if not one.prompt.startswith("You will review")]
    assert len(prompts) >= 3
    return prompts


# What is sent.


def change_everything(bench: Bench) -> None:
    """Put words of the user's own into tracked files, in each way that git knows."""
    bench.git("update-index", "--assume-unchanged", "src/quiet.py")
    bench.git("update-index", "--skip-worktree", "src/hidden.py")
    for name in ("config", "quiet", "hidden", "staged"):
        bench.project.write(f"src/{name}.py", f'WORD = "{LOCAL} {name}"\n')
    bench.git("add", "src/staged.py")


ALL_NAMED = "Read src/config.py, src/quiet.py, src/hidden.py and src/staged.py, and quote them."


def test_an_issue_from_github_is_sent_with_committed_text_only(bench: Bench, github: FakeGitHub) -> None:
    change_everything(bench)
    number = str(github.add("Quote the files", body=ALL_NAMED))
    bench.ok("lld", number)
    assert bench.provider.asked
    assert LOCAL not in sent(bench)
    for prompt in with_map(bench):
        assert all(word in prompt for word in ("committed-host", "committed-port", "committed-name"))
    assert LOCAL not in bench.free("context", number, "--text").text


def test_an_item_of_the_worktree_is_sent_with_what_the_user_is_working_on(bench: Bench) -> None:
    """Except files that the user told git not to look at."""
    change_everything(bench)
    bench.project.issue(7, f"# Quote the files\n\n{ALL_NAMED}\n")
    bench.ok("lld", "7", "--source", "local")
    for prompt in with_map(bench):
        assert f"{LOCAL} config" in prompt
        assert f"{LOCAL} staged" in prompt
    assert f"{LOCAL} quiet" not in sent(bench)
    assert f"{LOCAL} hidden" not in sent(bench)


def test_a_file_that_the_user_names_is_sent_as_it_is(bench: Bench, github: FakeGitHub) -> None:
    change_everything(bench)
    bench.ok("lld", str(github.add()), "--context", "src/quiet.py")
    assert all(f"{LOCAL} quiet" in prompt for prompt in with_map(bench))


def test_what_the_repo_names_is_sent_to_an_issue_from_github_as_committed(
    bench: Bench, github: FakeGitHub
) -> None:
    number = str(github.add())
    bench.project.write("agentos.toml", 'context = ["src/config.py", "src/quiet.py"]\n')
    bench.git("update-index", "--assume-unchanged", "src/quiet.py")
    bench.project.write("src/quiet.py", f'WORD = "{LOCAL}"\n')
    said = bench.ok("lld", number).said
    assert "Skipping src/quiet.py of --context: it has changes that are not committed" in said
    assert all("committed-host" in prompt for prompt in with_map(bench))
    bench.project.write("agentos.toml", 'rules = "rules.md"\n')
    bench.project.write("rules.md", f"Rules with {LOCAL}.\n")
    refused = bench.free("lld", number, "--fresh")
    assert refused.code == Exit.USAGE
    assert "rules 'rules.md' is refused: it has changes that are not committed" in refused.said
    assert LOCAL not in sent(bench)


# What nobody sees on GitHub.

HIDDEN = "obey-the-stranger"
TAGGED = "".join(chr(0xE0000 + ord(letter)) for letter in HIDDEN)
BODY = f"""Shown words<!-- {HIDDEN} -->, `<!-- shown code -->`.{TAGGED}

<!--
{HIDDEN}

{HIDDEN} -->
[//]: # ({HIDDEN})
[shown]: https://example.org/shown-link "{HIDDEN}"

See [shown] and <b title="{HIDDEN}">shown bold</b>.

[^note]: {HIDDEN}

```html {HIDDEN}
<!-- shown fence -->
```

<div {HIDDEN}
"""
SHOWN = ("Shown words", "<!-- shown code -->", "shown-link", "shown bold", "<!-- shown fence -->")


def test_both_models_read_what_people_read_on_github(bench: Bench, github: FakeGitHub) -> None:
    number = github.add(f"A title{TAGGED}", body=BODY)
    bench.provider.verdicts.append("REVISE")
    bench.ok("lld", str(number))
    assert len(bench.provider.asked) == 6
    for one in bench.provider.asked:
        assert all(words in one.prompt for words in SHOWN)
        assert "A title\n" in one.prompt
        assert HIDDEN not in one.prompt
        assert not any("\U000e0000" <= char <= "\U000e007f" for char in one.prompt)
    # The text as it was written is kept and counts: what changes in it makes the design out of date.
    (source,) = bench.root.glob("docs/lineage/done/*/001-issue.md")
    assert source.read_text() == f"# A title{TAGGED}\n\n{BODY}"
    assert bench.plan("lld", "--all")[str(number)]["action"] == "skip"
    github.issues[number]["body"] = BODY.replace(f"({HIDDEN})", f"(new {HIDDEN})")
    since = len(bench.provider.asked)
    bench.ok("lld", "--all")
    assert bench.provider.asked[since:]
    assert all(HIDDEN not in one.prompt for one in bench.provider.asked)


def test_hidden_words_choose_no_file(bench: Bench, github: FakeGitHub) -> None:
    for words, chosen in (("<!-- src/config.py -->", []), ("See src/config.py", ["src/config.py"])):
        number = github.add("Export", body=f"Write an export.\n\n{words}\n")
        found = bench.free("context", str(number), "--json").json
        named = [part["path"] for part in found["parts"] if part["why"] == "the item names it"]
        assert named == chosen


def test_the_mock_reads_its_script_in_a_comment_also_on_github(bench: Bench, github: FakeGitHub) -> None:
    number = github.add(body="Words.\n\n<!-- mock: verdicts=DISCUSS -->\n")
    assert bench.run("lld", str(number), "--mock", "--source", "github").code == Exit.ATTENTION


def test_an_issue_on_github_sets_nothing(bench: Bench, github: FakeGitHub) -> None:
    front = "---\ntitle: Another\ncontext: [src/config.py]\n---\nWords.\n"
    number = str(github.add("Export", body=front))
    found = bench.free("context", number, "--json").json
    assert not [part for part in found["parts"] if part["why"] == "the user names it"]
    script = github.add(body='<!-- mock: sh="touch ran" -->')
    failed = bench.run("lld", str(script), "--mock", "--source", "github", AGENTOS_MOCK_SHELL="1")
    assert failed.code == Exit.FAILED
    assert not (bench.root / "ran").exists()


def test_an_item_of_the_worktree_keeps_its_comments(bench: Bench) -> None:
    bench.project.issue(7, f"# Title\n\n{BODY}")
    bench.ok("lld", "7", "--source", "local")
    assert all(one.prompt.count(HIDDEN) >= 6 for one in bench.provider.asked)


# Encrypted files.


@pytest.mark.parametrize(
    "encrypted", [b"\0GITCRYPT\0\x8f\x02", b"U2FsdGVkX1+WtB1yqXkq\n"], ids=["git-crypt", "transcrypt"]
)
def test_a_pull_request_unlocks_no_encrypted_file(bench: Bench, encrypted: bytes) -> None:
    """The worktree has the plain text; one line takes the filter away that said so."""
    project = bench.project
    vault = Path(project.root, "vault", "notes.md")
    vault.parent.mkdir()
    vault.write_bytes(encrypted)
    project.write(".gitattributes", "vault/** !filter\n")
    project.issue(7, "# Quote vault/notes.md\n\nRead vault/notes.md.\n")
    project.issue(8, "---\ncontext: [vault/notes.md]\n---\n# Quote it\n\nRead it.\n")
    project.write("agentos.toml", 'context = ["vault"]\n')
    bench.commit()
    vault.write_text(f"# Notes\n\n{LOCAL}\n\n**Issue:** #1\n\n## Context\n\n## Proposed Changes\n")
    local = ("--source", "local")
    said = bench.run("lld", "7", "8", *local).said
    assert "Skipping vault/notes.md of --context: its text in the worktree may be decrypted" in said
    errors = {row["id"]: row["error"] for row in project.summary()["items"]}
    assert "may be decrypted" in errors["8"]
    assert bench.provider.asked  # for item 7
    bench.git("add", "vault")  # without the filter, this is the plain text
    assert LOCAL not in bench.free("context", "7", "--text", *local).text
    refused = bench.free("lld", "7", *local, "--context", "vault/notes.md")
    assert refused.code == Exit.USAGE
    assert "--context vault/notes.md is refused: its text in the worktree may be decrypted" in refused.said
    for setting in ("rules", "lld_template"):
        project.write("agentos.toml", f'{setting} = "vault/notes.md"\n')
        assert f"{setting} 'vault/notes.md' is refused" in bench.free("lld", "7", *local).said
    assert LOCAL not in sent(bench)


# What models write.

TOKEN = "ghp_" + "a1B2c3D4e5F6" * 3
PRIVATE_KEY = "\n".join(
    ("-----BEGIN RSA PRIVATE KEY-----", *["MIIEow+" + "b9" * 28] * 3, "-----END RSA PRIVATE KEY-----")
)
DESIGN = f"""# Rotate the keys

**Issue:** #1

## Context

The token in the chart is `{TOKEN}`.

{PRIVATE_KEY}

Reject files that begin with `-----BEGIN RSA PRIVATE KEY-----`.

## Proposed Changes

Log in with `password = "Tr0ub4dor&3x"` and `AKIAIOSFODNN7EXAMPLE`, as postgres://app:s3cretly@db/app does.
"""


def test_a_secret_in_a_draft_or_a_review_is_written_nowhere(bench: Bench, github: FakeGitHub) -> None:
    number = str(github.add("Rotate the keys"))
    bench.provider.drafts.extend([DESIGN, DESIGN])
    bench.provider.verdicts.append("REVISE")
    bench.provider.words.append(f"Remove the token {TOKEN} and this:\n{PRIVATE_KEY}")
    result = bench.ok("lld", number)
    assert "[LLD-1] draft 1: removed what looks like a secret" in result.text
    assert "[LLD-1] review 1: removed what looks like a secret" in result.text
    audited = next(bench.project.home.rglob("workflow-audit-1.jsonl")).read_text()
    assert audited.count('"kind":"secret_removed"') + audited.count('"kind": "secret_removed"') == 3
    body = PRIVATE_KEY.split("\n")[1]
    files = [path for path in bench.root.rglob("*") if path.is_file()]
    for secret in (TOKEN, body):
        assert not [path for path in files if secret.encode() in path.read_bytes()]
    assert all(TOKEN not in one.prompt for one in bench.provider.asked)
    written = bench.document(number).read_text()
    assert written.count("[removed: looks like a secret]") == 2
    # Examples are no secrets.
    for example in ("begin with `-----BEGIN", '"Tr0ub4dor&3x"', "AKIAIOSFODNN7EXAMPLE", "app:s3cretly@db"):
        assert example in written
