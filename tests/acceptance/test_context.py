"""The repository map through the real command: what both models get, what is left out, and what it costs."""

import json
from pathlib import Path

import pytest

from agentos.errors import Exit
from harness.provider import Asked, Bench

POOL = '''"""Leases of keys."""


class Pool:
    """Grants leases."""

    def lease(self, key: str) -> int:
        """Grant one lease."""
        return len(key)
'''
GITHUB_TOKEN = "ghp_" + "a1B2" * 9


@pytest.fixture
def repository(bench: Bench) -> Bench:
    """A small repository with one issue that names a file of it."""
    project = bench.project
    project.write("README.md", "# Payroll\n\nPays people on time.\n")
    project.write(
        "AGENTS.md", "# For agents\n\nNames are nouns. Functions are verbs, and tests say what is true.\n"
    )
    project.write("src/payroll/pool.py", POOL)
    project.write("src/payroll/report.py", "def print_report(rows):\n    return rows\n")
    project.write("tests/test_pool.py", "from payroll.pool import Pool\n")
    project.issue(42, "# Count leases\n\nThe class in src/payroll/pool.py must count its leases.\n")
    bench.commit()
    return bench


def audits(bench: Bench, item: int) -> list[dict[str, object]]:
    (path,) = bench.project.home.glob(f"logs/parallel/*/workflow-audit-{item}.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def with_map(bench: Bench, since: int = 0) -> list[Asked]:
    """The calls that have the map; that in which the reviewer asks for more is short."""
    asked = [one for one in bench.provider.asked[since:] if not one.prompt.startswith("You will review")]
    assert {one.role for one in asked} == {"look", "drafter", "reviewer"}
    return asked


def test_both_models_get_the_map_in_every_round(repository: Bench) -> None:
    repository.provider.verdicts.extend(["REVISE", "APPROVED"])
    repository.ok("lld", "42")
    roles = [one.role for one in repository.provider.asked]
    assert roles == ["look", "drafter", "look", "reviewer", "drafter", "reviewer"]
    for asked in with_map(repository):
        assert "Grants leases." in asked.prompt
        assert "Names are nouns." in asked.prompt
        assert "src/payroll/report.py" in asked.prompt or "report.py" in asked.prompt
        assert "Names are nouns." not in asked.system
    calls = [one for one in audits(repository, 42) if one["kind"] == "call"]
    assert len(calls) == 6
    for call in calls:
        parts = call["context"]
        assert isinstance(parts, list)
        assert ("src/payroll/pool.py", "file") in {(part["path"], part["kind"]) for part in parts}
        assert parts[0]["kind"] == "tree"
    report = (repository.project.runs()[-1] / "report.html").read_text()
    assert "src/payroll/pool.py" in report


def test_the_command_shows_what_would_be_sent(repository: Bench) -> None:
    before = repository.project.snapshot()
    found = repository.free("context", "42", "--json").json
    assert list(found) == ["item", "tokens", "parts", "ranked", "left_out", "commit", "changed"]
    assert (found["item"], found["changed"]) == ("42", [])
    assert found["tokens"] == sum(part["tokens"] for part in found["parts"]) <= 16_000
    assert all(list(part) == ["path", "kind", "name", "lines", "tokens", "why"] for part in found["parts"])
    assert {part["kind"] for part in found["parts"]} >= {"tree", "guide", "file"}
    assert found["ranked"][0] == "src/payroll/pool.py"
    told = repository.free("context", "LLD-42")
    assert "the item names it" in told.text
    assert found["commit"] in told.text
    small = repository.free("context", "42", "--tokens", "200", "--json").json
    assert small["tokens"] <= 200
    assert small["ranked"] == found["ranked"]
    text = repository.free("context", "42", "--text")
    assert "Grants leases." in text.text
    assert repository.project.snapshot() == before


def test_no_item_of_that_name(repository: Bench) -> None:
    result = repository.free("context", "43")
    assert result.code == Exit.USAGE
    assert "No issue '43' in issues/active" in result.err


def test_uncommitted_changes_to_tracked_files_are_sent_and_named(repository: Bench) -> None:
    repository.project.write("src/payroll/pool.py", POOL + "\nLIMIT = 'a brand new line'\n")
    repository.project.write("src/payroll/untracked.py", "SEEN = 'by nobody'\n")
    assert repository.free("context", "42", "--json").json["changed"] == ["src/payroll/pool.py"]
    repository.ok("lld", "42")
    for asked in with_map(repository):
        assert "a brand new line" in asked.prompt
        assert "untracked.py" not in asked.prompt


def test_what_must_not_be_sent_is_left_out_one_by_one(repository: Bench) -> None:
    project = repository.project
    project.write(".gitignore", "notes/\n")
    project.write("notes/private.md", "pool lease: ignored-by-git\n")
    project.write(".env", "POOL_LEASE=in-the-env-file\n")
    project.write("src/payroll/lease_keys.py", f'POOL_LEASE = "{GITHUB_TOKEN}"\n')
    project.write("src/payroll/mine.py", f"# pool lease: {repository.environment['OPENAI_API_KEY']}\n")
    project.write("src/payroll/huge.py", "# pool lease in a huge file\n" * 100_000)
    (repository.root / "src/payroll/lease.bin").write_bytes(b"pool lease\0in a binary")
    project.write("docs/lineage/done/1-lld/001-issue.md", "pool lease of the lineage\n")
    (repository.root / "src/payroll/outside.py").symlink_to("/etc/hostname")
    repository.git("add", "--force", ".env")
    repository.commit()
    result = repository.ok("lld", "42")
    assert "approved" in result.text
    sent = "".join(asked.prompt for asked in repository.provider.asked)
    for secret in (
        "ignored-by-git", "in-the-env-file", GITHUB_TOKEN, repository.environment["OPENAI_API_KEY"],
        "in a huge file", "in a binary", "of the lineage",
    ):  # fmt: skip
        assert secret not in sent
    left = {one["path"]: one["why"] for one in repository.free("context", "42", "--json").json["left_out"]}
    assert left[".env"] == "files with this name hold secrets"
    assert "GitHub token" in left["src/payroll/lease_keys.py"]
    assert "one of your keys" in left["src/payroll/mine.py"]
    assert left["docs/lineage/done/1-lld/001-issue.md"] == "part of the lineage"
    assert {"src/payroll/huge.py", "src/payroll/lease.bin"} <= left.keys()


@pytest.mark.parametrize("tracked", [True, False])
def test_without_a_map_nothing_changes(bench: Bench, tracked: bool) -> None:
    """Turned off by the user, or because git tracks nothing."""
    bench.project.write("src/pool.py", POOL)
    bench.project.issue(42)
    if tracked:
        bench.commit()
        bench.config.write_text(f"context_tokens = 0\n{bench.config.read_text()}")
    bench.ok("lld", "42")
    assert not any("Grants leases." in asked.prompt for asked in bench.provider.asked)
    why = "context_tokens is 0" if tracked else "git tracks no file here"
    assert why in bench.free("context", "42").text
    assert bench.free("context", "42", "--json").json["parts"] == []


def test_the_dry_run_shows_size_and_price_and_writes_nothing(repository: Bench) -> None:
    before = repository.project.snapshot()
    args = ("lld", "--all", "--dry-run", "--drafter", "openai:gpt-4o", "--reviewer", "openai:gpt-4o")
    rows = repository.free(*args, "--json").json["items"]
    size = repository.free("context", "42", "--json").json["tokens"]
    assert rows[0]["context_tokens"] == size
    said = repository.free(*args).text
    assert f"Repository map: {size:,} tokens in each call, " in said
    assert "USD per round" in said
    assert repository.project.snapshot() == before


# The user's hand on it.


def test_context_is_read_from_where_one_stands(repository: Bench) -> None:
    repository.project.write("docs/rules.txt", "Every lease ends.\n")
    repository.commit()
    for name in ("../../docs", "../../docs/rules.txt"):
        command = repository.project.start(
            "--config", repository.config, "lld", "42", "--fresh", "--context", name,
            env=repository.environment, cwd=repository.root / "src" / "payroll",
        )  # fmt: skip
        since = len(repository.provider.asked)
        result = repository.project.finish(command, 90)
        assert result.code == Exit.OK, result
        assert all("Every lease ends." in asked.prompt for asked in with_map(repository, since))


def test_what_a_folder_holds_is_skipped_by_name_and_what_is_named_is_an_error(repository: Bench) -> None:
    repository.project.write("conf/settings.md", "Leases last a minute.\n")
    repository.project.write("conf/server.pem", "nothing in it\n")
    repository.commit()
    result = repository.ok("lld", "42", "--context", "conf")
    assert "Skipping conf/server.pem of --context: files with this name hold secrets." in result.said
    refused = repository.free("lld", "42", "--fresh", "--context", "conf/server.pem")
    assert refused.code == Exit.USAGE
    assert 'add context_allow = ["conf/server.pem"]' in refused.said
    repository.config.write_text(f'context_allow = ["conf/server.pem"]\n{repository.config.read_text()}')
    repository.ok("lld", "42", "--fresh", "--context", "conf/server.pem")
    assert "nothing in it" in repository.provider.asked[-1].prompt


def test_a_pattern_keeps_files_out(repository: Bench) -> None:
    repository.project.write("agentos.toml", 'context_exclude = ["src/payroll/r*.py"]\n')
    left = repository.free("context", "42", "--json").json["left_out"]
    assert {"path": "src/payroll/report.py", "why": "context_exclude names it"} in left


def test_a_pattern_keeps_files_out_of_a_named_folder_too(repository: Bench) -> None:
    repository.project.write("agentos.toml", 'context_exclude = ["/src/payroll/report.py", "nowhere/"]\n')
    found = repository.free("context", "42", "--context", "src", "--json").json
    assert "src/payroll/report.py" not in {part["path"] for part in found["parts"]}
    assert "context_exclude matches no tracked file: nowhere/" in repository.free("context", "42").text


def test_an_item_names_its_files_also_if_the_map_is_turned_off(repository: Bench) -> None:
    repository.project.issue(43, "---\ncontext: [./src/payroll/report.py]\n---\n# Say more\n\nMore words.\n")
    repository.config.write_text(f"context_tokens = 0\n{repository.config.read_text()}")
    found = repository.free("context", "43", "--json").json
    assert [part["path"] for part in found["parts"]] == ["src/payroll/report.py"]
    assert repository.free("context", "42", "--tokens", "0", "--json").json["ranked"]


def test_a_guide_that_the_user_names_is_sent_once(repository: Bench) -> None:
    repository.project.write("README.md", "# Payroll\n")
    repository.commit()
    parts = repository.free("context", "42", "--context", "README.md", "--json").json["parts"]
    assert [part["path"] for part in parts].count("README.md") == 1


def test_an_item_names_its_files_and_a_bad_name_stops_no_other_item(repository: Bench) -> None:
    project = repository.project
    project.issue(43, "---\ncontext: [src/payroll/report.py]\n---\n# Say more\n\nMore words.\n")
    project.issue(44, "---\ncontext: [private.txt]\n---\n# Leak\n\nRead it.\n")
    project.write("private.txt", "untracked and private\n")
    result = repository.run("lld", "--all")
    assert result.code == Exit.FAILED
    rows = {row["id"]: row for row in project.summary()["items"]}
    assert {item: row["status"] for item, row in rows.items()} == {
        "42": "approved", "43": "approved", "44": "failed"
    }  # fmt: skip
    assert "names 'private.txt', which cannot be sent: git does not track it" in rows["44"]["error"]
    sent = "".join(asked.prompt for asked in repository.provider.asked)
    assert "return rows" in sent
    assert "untracked and private" not in sent


def test_a_hostile_front_matter_reaches_nothing_outside(repository: Bench, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("outside words\n")
    for number, name in enumerate(["../outside.txt", str(outside), ".git/config", ".agentos/records.db"], 50):
        repository.project.issue(number, f"---\ncontext: ['{name}']\n---\n# T\n\nText.\n")
    result = repository.run("lld", "50", "51", "52", "53")
    assert result.code == Exit.FAILED
    assert not repository.provider.asked


def test_a_named_file_that_is_excluded_or_decrypted_is_an_error(repository: Bench) -> None:
    project = repository.project
    project.write(".gitattributes", "conf/vault.md filter=git-crypt\n")
    project.write("conf/vault.md", "Encrypted.\n")
    project.write("conf/legacy.md", "Old words.\n")
    project.write("agentos.toml", 'context_exclude = ["conf/legacy.md"]\n')
    project.issue(43, "---\ncontext: [conf/legacy.md]\n---\n# T\n\nText.\n")
    project.issue(44, "---\ncontext: [conf/vault.md]\n---\n# T\n\nText.\n")
    repository.commit()
    project.write("conf/vault.md", "Decrypted words.\n")
    for name, why in (("legacy", "context_exclude names it"), ("vault", "may be decrypted")):
        for command in (("lld", "42"), ("lld", "42", "--dry-run"), ("context", "42")):
            result = repository.free(*command, "--context", f"conf/{name}.md")
            assert result.code == Exit.USAGE
            assert f"--context conf/{name}.md is refused: " in result.said
            assert why in result.said
    assert (
        "To send it anyway, change context_exclude; 'agentos config' shows"
        in repository.free("context", "42", "--context", "conf/legacy.md").said
    )
    assert repository.run("lld", "43", "44").code == Exit.FAILED
    errors = {row["id"]: row["error"] for row in project.summary()["items"]}
    assert "context_exclude names it. Remove it there, or change context_exclude" in errors["43"]
    assert "or allow it with context_allow" in errors["44"]
    assert not repository.provider.asked
    repository.config.write_text(f'context_allow = ["conf/vault.md"]\n{repository.config.read_text()}')
    repository.ok("lld", "44", "--retry-failed")
    assert all("Decrypted words." in one.prompt for one in with_map(repository))


@pytest.mark.parametrize("setting", ["rules", "lld_template"])
def test_a_repo_cannot_send_a_decrypted_file_as_rules_or_template(repository: Bench, setting: str) -> None:
    project = repository.project
    text = "# T\n\n**Issue:** #1\n\n## Context\n\n## Proposed Changes\n"
    project.write(".gitattributes", "vault.md filter=git-crypt\n")
    project.write("vault.md", text)
    project.write("agentos.toml", f'{setting} = "vault.md"\n')
    repository.commit()
    project.write("vault.md", f"{text}\nDecrypted words.\n")
    result = repository.free("lld", "42")
    assert result.code == Exit.USAGE
    assert f"{setting} 'vault.md' is refused: git filters it (filter=git-crypt)" in result.said
    assert f"{setting} 'vault.md' is refused" in repository.free("doctor").text


def test_a_file_with_a_key_of_the_user_is_skipped_in_a_folder_and_an_error_by_name(repository: Bench) -> None:
    key = repository.environment["OPENAI_API_KEY"]
    repository.project.write("conf/mine.md", f"The key is {key}.\n")
    repository.project.write("conf/other.md", "Leases last a minute.\n")
    repository.commit()
    repository.config.write_text(f'context_allow = ["conf/*"]\n{repository.config.read_text()}')
    for command in (("lld", "42"), ("lld", "42", "--dry-run"), ("context", "42", "--text")):
        named = repository.free(*command, "--context", "conf/mine.md")
        assert named.code == Exit.USAGE
        assert "--context conf/mine.md is refused: it contains one of your keys. Remove it" in named.said
    result = repository.ok("lld", "42", "--context", "conf")
    assert "Skipping conf/mine.md of --context: it contains one of your keys." in result.said
    assert all("Leases last a minute." in asked.prompt for asked in with_map(repository))
    assert not any(key in asked.prompt for asked in repository.provider.asked)
