"""What the models receive: in an order that caches well, with the team's rules, about files that exist."""

import json
import re
from itertools import pairwise, takewhile

import pytest

from agentos.errors import Exit
from harness.provider import Bench

ROUNDS = ("REVISE", "REVISE", "APPROVED")
RULES = "R1: every table has an owner.\n"


def design(item: int | str, *files: str, words: str = "What is done.", number: int = 1) -> str:
    listed = "".join(f"- {line}\n" for line in files)
    return (
        f"# LLD-{item}: Draft {number}\n\n**Issue:** #{item}\n\n## Context\n\nWhy.\n\n"
        f"## Proposed Changes\n\n{words}\n\n### Files changed\n\n{listed}"
    )


def common_start(*texts: str) -> str:
    return "".join(
        letters[0] for letters in takewhile(lambda one: len(set(one)) == 1, zip(*texts, strict=False))
    )


def records(bench: Bench, item: int | str) -> list[dict[str, object]]:
    (path,) = bench.project.home.glob(f"logs/parallel/*/workflow-audit-{item}.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_consecutive_prompts_of_a_role_begin_alike(bench: Bench) -> None:
    bench.project.write("src/pool.py", "".join(f"def lease_{number}(): ...\n" for number in range(1_500)))
    for item in range(1, 11):
        bench.project.issue(item, f"# Item {item}\n\n" + f"Requirement {item}. " * 80)
        for number in (1, 2, 3):
            bench.provider.drafts.append(design(item, words=f"Step {item}.{number}. " * 400, number=number))
    bench.provider.verdicts.extend(ROUNDS * 10)
    bench.ok("lld", "--all", "--context", "src/pool.py")
    for role in ("drafter", "reviewer"):
        prompts = bench.provider.of(role)
        assert len(prompts) == 30
        shares = [len(common_start(before, prompt)) / len(prompt) for before, prompt in pairwise(prompts)]
        assert min(shares) >= 0.6, (role, [round(share, 2) for share in shares])
        # What comes last is what changes: the start does not name the item.
        shared = common_start(*prompts)
        assert "def lease_1499()" in shared
        assert not re.search(r"LLD-\d|Requirement \d", shared)


def test_prompts_of_items_that_run_at_the_same_time_begin_alike(bench: Bench) -> None:
    """With a map that is full, so that the files of each item take all the room they may."""
    words = [f"{one}{two}" for one in ("lease", "quota", "draft", "review", "audit") for two in "abcdefgh"]
    for number, word in enumerate(words):
        body = "".join(f"def {word}_{one}(first: int, second: str) -> bool: ...\n" for one in range(60))
        bench.project.write(f"src/part{number % 5}/{word}.py", body)
    for item in range(1, 11):
        bench.project.issue(item, f"# Item {item}\n\n" + " ".join(words[item::10]))
    bench.commit()
    for item in range(1, 11):
        bench.provider.drafts += [design(item, words="A step. " * 200, number=one) for one in (1, 2, 3)]
    bench.provider.verdicts.extend(ROUNDS * 10)
    bench.ok("lld", "--all", "--parallel", "4", "--max-iterations", "30")
    for role in ("drafter", "reviewer"):
        prompts = bench.provider.of(role)
        assert len(prompts) >= 20
        shares = [len(common_start(before, prompt)) / len(prompt) for before, prompt in pairwise(prompts)]
        assert min(shares) >= 0.6, (role, [round(share, 2) for share in shares])


def test_codes_of_quotations_differ_from_run_to_run(bench: Bench) -> None:
    bench.project.issue(1)
    codes = []
    for _ in range(2):
        since = len(bench.provider.asked)
        bench.ok("lld", "1", "--fresh")
        (prompt,) = bench.provider.of("drafter", since)
        codes.append(set(re.findall(r"^<<<BEGIN (\w+) ", prompt, re.MULTILINE)))
        # Each quotation has its own.
        assert len(codes[-1]) == 3
    assert not codes[0] & codes[1]


# Files.


def test_a_path_that_does_not_exist_is_named_to_the_reviewer_and_with_its_findings_to_the_drafter(
    bench: Bench,
) -> None:
    bench.project.write("src/pool.py", "POOL = 1\n")
    bench.project.issue(42)
    bench.commit()
    bad = design(42, "`src/pools.py`: changed; more leases", "`src/quota.py`: added; the limits")
    good = design(42, "`src/pool.py`: changed; more leases", "`src/quota.py`: added", number=2)
    bench.provider.drafts.extend([bad, good])
    bench.provider.verdicts.append("REVISE")
    result = bench.ok("lld", "42")
    said = "draft 1 names files that do not exist: src/pools.py (nearest: src/pool.py)"
    assert f"[LLD-42] {said}" in result.text
    wrong = "wrong paths\n- src/pools.py (nearest: src/pool.py)\n"
    for role in ("drafter", "reviewer"):
        first, second = bench.provider.of(role)
        assert [wrong in first, wrong in second] == [role == "reviewer", role == "drafter"]
    assert "`src/pool.py`: changed" in bench.document(42).read_text()
    gates = [one["paths"] for one in records(bench, 42) if one["kind"] == "gate"]
    assert gates == [["src/pools.py (nearest: src/pool.py)"], []]


def test_without_git_no_path_is_wrong(bench: Bench) -> None:
    bench.project.issue(42)
    bench.provider.drafts.append(design(42, "`src/pools.py`: changed"))
    bench.ok("lld", "42")
    assert len(bench.provider.asked) == 2


# Team rules and language.


def test_both_models_get_the_rules_of_the_team_and_the_language(bench: Bench) -> None:
    bench.project.write("docs/rules.md", RULES)
    bench.project.write("agentos.toml", 'rules = "docs/rules.md"\nlanguage = "German"\n')
    bench.project.issue(1)
    bench.commit()
    bench.ok("lld", "1")
    asked = [one for one in bench.provider.asked if one.role != "look"]
    assert len(asked) == 2
    for one in asked:
        assert re.search(rf"^<<<BEGIN \w+ team rules\n{RULES}\n<<<END", one.prompt, re.MULTILINE)
        assert re.search(r"^<<<BEGIN \w+ language\nGerman\n<<<END", one.prompt, re.MULTILINE)
        assert "R1" not in one.system
        assert "German" not in one.system


def test_rules_that_git_does_not_track_are_ignored_unless_the_user_names_them(bench: Bench) -> None:
    bench.project.write("agentos.toml", 'rules = "rules.md"\n')
    bench.project.issue(1)
    bench.commit()
    bench.project.write("rules.md", RULES)
    result = bench.ok("lld", "1")
    assert "Ignoring rules 'rules.md'" in result.err
    assert not any("R1" in one.prompt for one in bench.provider.asked)
    bench.ok("lld", "1", "--fresh", AGENTOS_RULES="rules.md")
    assert all("R1" in bench.provider.of(role)[-1] for role in ("drafter", "reviewer"))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("rules.md", "R1\npassword = 'hunter2-is-mine'\n", "line 2 looks like a password"),
        ("rules.md", "provider-secret", "contains one of your keys"),
        ("id_rsa", "R1\n", "files with this name hold secrets"),
        ("rules.md", "x" * 40_001, "larger than 40,000 bytes"),
        ("rules.md", "a\0b", "a binary file"),
    ],
)
def test_rules_that_cannot_be_sent_are_refused_by_name(
    bench: Bench, name: str, content: str, said: str
) -> None:
    bench.project.write(name, content)
    bench.project.write("agentos.toml", f'rules = "{name}"\n')
    bench.project.issue(1)
    bench.commit()
    result = bench.free("lld", "1")
    assert result.code == Exit.USAGE, result
    assert f"rules '{name}'" in result.err
    assert said in result.said
    assert "hunter2" not in result.text


def test_a_template_in_another_language_says_what_is_required(bench: Bench) -> None:
    template = "# LLD-<id>\n\n**Vorgang:** #<Nr> <!-- required -->\n\n## Kontext\n\n<!-- required -->\n"
    bench.project.write("docs/t.md", template)
    bench.project.write("agentos.toml", 'lld_template = "docs/t.md"\n')
    bench.project.issue(42)
    good = "# LLD-42: Anmeldung\n\n**Vorgang:** #42\n\n## Kontext\n\nWarum.\n"
    bench.provider.drafts.extend([design(42), good])
    result = bench.ok("lld", "42")
    assert "draft 1 is missing: Kontext" in result.text
    assert bench.document(42).read_text().startswith(good)


def test_the_mock_follows_such_a_template_too(bench: Bench) -> None:
    bench.project.write("docs/t.md", "# LLD-<id>\n\n**Issue:** #\n\n## Kontext <!-- required -->\n")
    bench.project.write("agentos.toml", 'lld_template = "docs/t.md"\n')
    bench.project.issue(42)
    bench.ok("lld", "42", "--mock")
    assert "\n## Kontext\n\nWritten by the mock drafter.\n" in bench.document(42).read_text()


GERMAN = (
    "# LLD-<id>\n\n**Vorgang:** #<Nr> <!-- required -->\n\n## Kontext\n\n<!-- required -->\n\n"
    "## 2. Geänderte Dateien\n\n<!-- files -->\n"
)


def german(item: int, *files: str) -> str:
    listed = "".join(f"- {line}\n" for line in files)
    return (
        f"# LLD-{item}: T\n\n**Vorgang:** #{item}\n\n## Kontext\n\nWarum.\n\n## Geänderte Dateien\n\n{listed}"
    )


def test_designs_in_another_language_overlap_and_add_files_for_each_other(bench: Bench) -> None:
    bench.project.write("docs/t.md", GERMAN)
    bench.project.write("agentos.toml", 'lld_template = "docs/t.md"\n')
    bench.project.write("src/pool.py", "POOL = 1\n")
    bench.project.issue(1)
    bench.project.issue(2)
    bench.commit()
    bench.provider.drafts.append(german(1, "`src/pool.py`: changed", "`src/lease.py`: added"))
    bench.provider.drafts.append(german(2, "`src/pool.py`: changed", "`src/lease.py`: changed"))
    result = bench.ok("lld", "1", "2", "--json")
    assert "do not exist" not in result.err  # the first design adds it
    assert len(bench.provider.of("drafter")) == 2
    assert result.json["overlaps"] == [
        {"items": ["LLD-1", "LLD-2"], "files": ["src/lease.py", "src/pool.py"]}
    ]
    bench.provider.drafts.extend([german(3, "`src/pools.py`: changed"), german(3, "`src/pool.py`: changed")])
    bench.project.issue(3)
    assert (
        "draft 1 names files that do not exist: src/pools.py (nearest: src/pool.py)"
        in bench.ok("lld", "3").text
    )
