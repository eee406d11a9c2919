"""The page of a run: what its policy allows, and that data cannot become markup."""

import json
import re
import stat
from pathlib import Path
from typing import Any

import pytest

from agentos.report import page as report_page
from agentos.report.data import run_data
from agentos.report.page import asset, content_hash, embedded, fitted, packed, report_html, write_report

HOSTILE = "</script><script>alert(1)</script><!-- <img onerror=alert(1)> &\u2028\u2029 {{script}} \x00"


def unpacked(packed_data: dict[str, Any]) -> Any:
    """The same as `unpacked` in run.js."""

    def unpack(value: Any) -> Any:
        if isinstance(value, str) and value.startswith("~"):
            return value[1:] if value.startswith("~~") else packed_data["texts"][int(value[1:])]
        if not isinstance(value, list):
            return value
        if value[0] == 0:
            return [unpack(one) for one in value[1:]]
        names = packed_data["shapes"][value[0] - 1]
        return dict(zip(names, map(unpack, value[1:]), strict=True))

    return unpack(packed_data["data"])


@pytest.fixture
def data(tmp_path: Path) -> dict[str, Any]:
    return run_data(tmp_path / "2026-11-16T10-00-00.000Z", worktree=tmp_path)


def test_the_policy_allows_our_script_and_style_and_nothing_else(data: dict[str, Any]) -> None:
    page = report_html(data)
    found = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)
    assert found is not None
    policy = dict(part.split(" ", 1) for part in found[1].split("; "))
    assert policy["default-src"] == "'none'"
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    styles = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert policy["script-src"] == content_hash(scripts[0])
    assert policy["style-src"] == content_hash(styles[0])
    assert (len(scripts), len(styles)) == (1, 1)
    assert "unsafe" not in found[1]


def test_the_policy_stands_before_anything_it_governs(data: dict[str, Any]) -> None:
    page = report_html(data)
    assert page.index("Content-Security-Policy") < min(page.index("<style"), page.index("<script"))


def test_the_page_asks_for_nothing_outside_itself() -> None:
    for name in ("run.js", "run.css", "report.html"):
        text = asset(name).replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://(?!\S*test)[\w.]", text.replace("/^https?:\\/\\//", "")), name
        assert "@import" not in text
    assert not re.search(r"url\((?!#)", asset("run.css"))
    for forbidden in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "fetch(",
        "XMLHttp",
    ):
        assert forbidden not in asset("run.js")
    assert not re.search(r"""setAttribute\(\s*["'](style|on)""", asset("run.js"))
    assert "</" not in asset("run.js")


def test_data_cannot_become_markup(data: dict[str, Any]) -> None:
    data["run"]["workflow"] = HOSTILE
    data["items"] = [{"label": HOSTILE, "error": HOSTILE}]
    page = report_html(data)
    assert page.count("<script") == 2
    assert page.count("</script") == 2
    assert "alert(1)>" not in page
    assert "\u2028" not in page
    block = re.search(
        r'<script type="application/json" id="agentos-run-data">(.*?)</script>', page, re.DOTALL
    )
    assert block is not None
    assert not set("<>&\u2028\u2029") & set(block[1])
    assert unpacked(json.loads(block[1]))["items"][0]["label"] == HOSTILE


def test_the_name_of_a_run_cannot_become_markup(tmp_path: Path) -> None:
    found = run_data(tmp_path / "a<b>&\"'{{script}}", worktree=tmp_path)
    page = report_html(found)
    assert "<title>agentos run a_b______script__</title>" in page


def test_what_json_does_not_know_is_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        embedded({"cost": float("nan")})


def test_the_report_is_the_owners_alone_and_replaced_as_a_whole(tmp_path: Path, data: dict[str, Any]) -> None:
    write_report(tmp_path, data)
    write_report(tmp_path, data)
    path = tmp_path / "report.html"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text("utf-8") == report_html(data)
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]


def test_half_a_character_in_the_data_is_no_error(tmp_path: Path, data: dict[str, Any]) -> None:
    data["run"]["workflow"] = "half \ud800 of one"
    write_report(tmp_path, data)
    assert "half ? of one" in (tmp_path / "report.html").read_text("utf-8")


def an_item(label: str, status: str, findings: list[dict[str, Any]], diff: str) -> dict[str, Any]:
    return {
        "label": label, "status": status, "attempts": 1, "filing": None, "spans": [],
        "rounds": [{"review": 1, "findings": findings}],
        "drafts": [{"file": "002-draft.md"}, {"file": "004-draft.md", "diff": diff}],
    }  # fmt: skip


@pytest.mark.parametrize(
    "value",
    [
        [],
        {},
        [[]],
        "~",
        ["~~1", "~1", "~1"],
        {"a": None, "b": [1, {"a": 2.5, "b": "xx"}, "xx"]},
        [{}, {"": ""}],
    ],
)
def test_what_is_packed_can_be_unpacked(value: Any) -> None:
    assert unpacked(json.loads(json.dumps(packed(value)))) == value


def test_the_page_leaves_out_what_does_not_fit_of_calm_items_first(
    data: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    diffs = ["+" + "<b>" * 200, "+" + "<i>" * 200]
    data["items"] = [an_item("A", "approved", [], diffs[0]), an_item("B", "failed", [], diffs[1])]
    assert unpacked(json.loads(fitted(data))) == data
    monkeypatch.setattr(report_page, "MOST_BYTES", len(fitted(data)) - 100)
    found = unpacked(json.loads(fitted(data)))
    assert found["left_out"] == {"diffs": 1, "texts": 0}
    assert found["items"][0]["drafts"][1] == {"file": "004-draft.md", "diff": "", "left_out": True}
    assert found["items"][1]["drafts"][1]["diff"] == diffs[1]
    assert data["items"][0]["drafts"][1]["diff"] == diffs[0]  # the caller's data is complete


def test_texts_are_cut_at_words_when_the_page_would_be_too_large(
    data: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    findings = [
        {"title": "T", "text": f"words {number} " * 100, "recommendation": ""} for number in range(40)
    ]
    data["items"] = [an_item("A", "failed", findings, "")]
    monkeypatch.setattr(report_page, "MOST_BYTES", 20_000)
    text = fitted(data)
    assert len(text) < 20_000
    found = unpacked(json.loads(text))
    assert found["left_out"]["texts"] > 0
    assert all(
        one["text"].endswith((" words …", f" {n} …"))
        for n, one in enumerate(found["items"][0]["rounds"][0]["findings"])
    )


def test_a_call_is_written_once(data: dict[str, Any]) -> None:
    call = {"kind": "call", "start": 1, "end": 2}
    data["keys"] = [{"id": "k", "spans": [call, {"kind": "rest", "start": 2, "end": 3}]}]
    assert [span["kind"] for span in unpacked(json.loads(fitted(data)))["keys"][0]["spans"]] == ["rest"]
