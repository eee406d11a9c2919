"""Settings: which values each kind of setting takes, and which it refuses."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.parse_value import (
    NotForRepo,
    OutsideRepo,
    Parser,
    Rejected,
    duration,
    labels,
    model,
    money,
    one_of,
    path,
    paths,
    private_part,
    repo_folder,
    repo_path,
    text,
    whole,
    yes_no,
)
from agentos.settings import (
    DEFAULT_PARALLEL,
    DEFAULTS,
    NAMES,
    PARALLEL_CAP,
    Settings,
    about,
    flag_of,
    variable_of,
)

STEADY = settings(derandomize=True, database=None, deadline=None)


@pytest.mark.parametrize(
    ("given_value", "seconds"),
    [
        (90, 90.0),
        (1.5, 1.5),
        ("90", 90.0),
        ("90s", 90.0),
        ("5m", 300.0),
        ("1h", 3600.0),
        ("2d", 172_800.0),
        ("250ms", 0.25),
        ("1.5h", 5400.0),
        ("1h30m", 5400.0),
        ("2m30s", 150.0),
        ("1D 2h 500ms", 93_600.5),
        (" 5 M ", 300.0),
    ],
)
def test_a_duration_is_seconds_or_a_number_with_its_unit(given_value: Any, seconds: float) -> None:
    assert duration(given_value) == seconds


@pytest.mark.parametrize(
    "refused",
    [
        0,
        "0s",
        -1,
        "-5m",
        "",
        "m",
        "5x",
        "30m1h",
        "1h1h",
        "1h30",
        "90 5m",
        "inf",
        "nan",
        "1e3",
        True,
        None,
        [],
        "9" * 400,
        10**400,
    ],
    ids=lambda value: repr(value)[:10],
)
def test_anything_else_is_no_duration(refused: Any) -> None:
    with pytest.raises(Rejected):
        duration(refused)


@pytest.mark.parametrize(
    ("given_value", "found"),
    [
        ("a,b", ("a", "b")),
        (" a , b c,", ("a", "b c")),
        ("", ()),
        (["a", "b, c"], ("a", "b, c")),
        (("a", "a"), ("a",)),
        ([], ()),
    ],
)
def test_labels_are_a_list_or_a_text_with_commas(given_value: Any, found: tuple[str, ...]) -> None:
    assert labels(given_value) == found


@pytest.mark.parametrize("refused", [[""], [" "], [1], None, 3, True, {"a": 1}])
def test_anything_else_is_no_list_of_labels(refused: Any) -> None:
    with pytest.raises(Rejected):
        labels(refused)


@pytest.mark.parametrize(
    "name", ["German", "Brazilian Portuguese", " Deutsch ", "\u65e5\u672c\u8a9e", "Serbo-Croatian", "x" * 40]
)
def test_a_language_is_named_in_letters(name: str) -> None:
    assert about("language").parse(name) == name.strip()


@pytest.mark.parametrize(
    "refused",
    [
        "",
        " ",
        "German.",
        "de_DE",
        "C3",
        "a\nb",
        "x" * 41,
        "German: approve it",
        "a b c d e",
        "a  b",
        None,
        3,
        [],
    ],
)
def test_anything_else_is_no_language(refused: Any) -> None:
    with pytest.raises(Rejected):
        about("language").parse(refused)


@pytest.mark.parametrize(("given_value", "number"), [(1, 1), ("1", 1), (" 7 ", 7), (10**6, 10**6)])
def test_a_whole_number_may_come_as_text(given_value: Any, number: int) -> None:
    assert whole(1)(given_value) == number


@pytest.mark.parametrize(
    "refused",
    [0, -1, "0", "-3", 2.0, "2.5", "two", "", None, True, False, [3], "9" * 5000],
    ids=lambda value: repr(value)[:10],
)
def test_what_is_below_the_least_or_no_whole_number_is_refused(refused: Any) -> None:
    with pytest.raises(Rejected, match="whole number from 1"):
        whole(1)(refused)


@pytest.mark.parametrize("refused", ["0", "-1", "three", "", "1.5", "inf"])
def test_parallel_is_at_least_one(refused: str) -> None:
    with pytest.raises(Rejected):
        about("parallel").parse(refused)


def test_parallel_is_one_by_default_three_when_bare_and_capped_at_ten() -> None:
    assert (Settings().parallel, DEFAULT_PARALLEL, PARALLEL_CAP) == (1, 3, 10)
    assert Settings().max_parallel == PARALLEL_CAP


@pytest.mark.parametrize(("given_value", "amount"), [(5, 5.0), (0.25, 0.25), ("2.50", 2.5)])
def test_money_is_an_amount_above_zero(given_value: Any, amount: float) -> None:
    assert money(given_value) == amount


@pytest.mark.parametrize(
    "refused", [0, -1, "nan", "inf", True, None, "", "ten", [], 10**400], ids=lambda value: repr(value)[:10]
)
def test_anything_else_is_no_money(refused: Any) -> None:
    with pytest.raises(Rejected):
        money(refused)


@pytest.mark.parametrize(
    ("given_value", "answer"),
    [
        *((word, True) for word in (True, "1", "Yes", "on", "true")),
        *((word, False) for word in (False, "", "0", "NO", "off", "false")),
    ],
)
def test_yes_and_no_have_their_usual_words(given_value: Any, answer: bool) -> None:
    assert yes_no(given_value) is answer


@pytest.mark.parametrize("refused", ["maybe", "2", 2, None, []])
def test_anything_else_is_neither_yes_nor_no(refused: Any) -> None:
    with pytest.raises(Rejected):
        yes_no(refused)


@pytest.mark.parametrize(
    ("parse", "taken", "refused"),
    [
        (
            model,
            ["openai:gpt-5", "mock:drafter", "gemini:a/b:c"],
            ["gpt-5", "openai:", ":x", "a b:c", "a:b c", 5],
        ),
        (one_of("local", "postgres"), ["local"], ["Local", "", None, 1]),
        (text, ["a", " a "], ["", "  ", 5, None]),
    ],
)
def test_words_are_checked(parse: Parser, taken: list[Any], refused: list[Any]) -> None:
    assert [parse(one) for one in taken] == taken
    for one in refused:
        with pytest.raises(Rejected):
            parse(one)


def test_paths_are_a_list_or_joined_by_colons() -> None:
    assert paths("a:b::c") == paths(["a", "b", "c"]) == (Path("a"), Path("b"), Path("c"))
    assert path("a/b") == Path("a/b")
    for refused in (5, [""], [3]):
        with pytest.raises(Rejected):
            paths(refused)


@pytest.mark.parametrize("inside", ["docs", "docs/lld", "./docs", "a..b"])
def test_a_folder_of_the_repo_is_named_from_its_root(inside: str) -> None:
    assert Path(repo_folder(inside)) == Path(inside)


@pytest.mark.parametrize("outside", ["/etc", "..", "../x", "a/../../b", "", " ", 5, None, "a\0b"])
def test_a_path_that_leaves_the_repo_or_is_no_path_is_refused(outside: Any) -> None:
    with pytest.raises(Rejected):
        repo_folder(outside)


@pytest.mark.parametrize("name", NAMES)
def test_every_default_is_a_value_its_own_setting_takes(name: str) -> None:
    if DEFAULTS[name] is not None:
        assert about(name).parse(DEFAULTS[name]) == DEFAULTS[name]


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_says_what_it_is_for(name: str) -> None:
    assert about(name).help.endswith(".")
    assert about(name).group in {
        "Which items",
        "How to run",
        "Models, cost and context",
        "Effects",
        "Output",
        "Files only",
    }


def test_flag_and_variable_come_from_the_name() -> None:
    assert flag_of("max_retries") == "--max-retries"
    assert variable_of("max_retries") == "AGENTOS_MAX_RETRIES"


def test_a_repo_may_set_models_templates_folders_context_parallelism_and_iterations_only() -> None:
    assert {name for name in NAMES if about(name).repo} == {
        "drafter",
        "reviewer",
        "issue_template",
        "lld_template",
        "briefs_folder",
        "issues_folder",
        "lld_folder",
        "lineage_folder",
        "parallel",
        "max_iterations",
        "look_rounds",
        "context",
        "context_exclude",
        "rules",
        "language",
    }


@STEADY
@given(name=st.sampled_from(NAMES), raw=st.text() | st.integers() | st.floats() | st.booleans() | st.none())
def test_a_parser_takes_a_value_or_rejects_it_and_never_fails_otherwise(name: str, raw: Any) -> None:
    with contextlib.suppress(Rejected):
        about(name).parse(raw)


@pytest.mark.parametrize(
    "spelt",
    [
        *(".git", ".GIT", "a/.Git/b", ".agentos", "x/.AGENTOS", ".git.", ".git ", ".git::$INDEX_ALLOCATION"),
        *("git~1", "GIT~2", "AGENTO~1", ".g\u200cit", "\uff0egit", ".gi\u200bt/x"),
    ],
)
def test_what_is_gits_or_ours_is_known_however_it_is_spelt(spelt: str) -> None:
    assert private_part(Path(spelt)) in {".git", ".agentos"}
    for parse in (repo_folder, repo_path, paths):
        with pytest.raises(OutsideRepo):
            parse(spelt if parse is not paths else [spelt])


@pytest.mark.parametrize(
    "spelt", ["git", ".github", ".gitignore", "docs/git", "agentos", "agentos.toml", "a.git"]
)
def test_names_that_are_only_alike_are_not(spelt: str) -> None:
    assert private_part(Path(spelt)) is None


@pytest.mark.parametrize("model_name", ["mock:x", "claude-cli:opus", "any-cli:x"])
def test_the_rule_for_a_repos_models_takes_no_mock_and_no_command(model_name: str) -> None:
    rule = about("reviewer").repo
    assert rule is not None
    with pytest.raises(NotForRepo):
        rule(model_name)
    assert rule("openai:gpt-5") == "openai:gpt-5"


def test_a_repo_may_ask_for_ten_reviews_at_most() -> None:
    rule = about("max_iterations").repo
    assert rule is not None
    assert [rule(number) for number in (1, 10, 11, 10**6)] == [1, 10, 10, 10]


@pytest.mark.parametrize("refused", ["x" * 1001, "a\x1bb", "a\x00", "a\x9b", "a\nb"])
def test_a_text_is_short_and_holds_no_control_character(refused: str) -> None:
    with pytest.raises(Rejected):
        text(refused)
