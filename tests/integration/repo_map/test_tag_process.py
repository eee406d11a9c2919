"""The parser process: what it finds, and that nothing it does harms us."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentos.repo_map.cache import MapCache
from agentos.repo_map.outlines import Outlines
from agentos.repo_map.tag_process import MAX_FAILURES, PARSER, TagProcess
from agentos.repo_map.tags import GRAMMARS, language_of
from harness.git_project import GitProject, item

SOURCES = {
    "a.py": (
        '"""Carts."""\nclass Cart:\n    """Holds."""\n    def add(\n        self, x\n    ):\n        y()\n',
        "Cart add",
    ),
    "a.js": (
        "/** Carts. */\nclass Cart { add(x) { y(); } }\nexports.go = function (z) { return 1 };\n",
        "Cart add go",
    ),
    "a.ts": (
        "interface Cart { add(x: string): void }\nexport class Bag { put(): void { y(); } }\n",
        "Cart add Bag put",
    ),
    "a.tsx": ("export const Cart = (x: number) => { return <a/>; }\n", "Cart"),
    "a.go": (
        "package a\n// Add adds.\nfunc (c *Cart) Add(x int) int { return y() }\ntype Cart struct {}\n",
        "Add Cart",
    ),
    "a.rs": ("pub struct Cart;\nimpl Cart {\n    /// Adds.\n    pub fn add(&self) { y() }\n}\n", "Cart add"),
    "a.java": ("class Cart {\n  int add(int x) { return y(); }\n}\n", "Cart add"),
    "a.c": ("struct cart { int x; };\nstatic int add(int a,\n    int b)\n{\n  return y();\n}\n", "cart add"),
    "a.cpp": ("class Cart {\n public:\n  void add(int x) { y(); }\n};\n", "Cart add"),
    "a.rb": ("class Cart\n  def add(x)\n    y\n  end\nend\n", "Cart add"),
    "a.cs": ("class Cart { int Add(int x) { return new Y(); } }\n", "Cart Add"),
    "a.php": ("<?php\nclass Cart { public function add($x) { return $this->y(); } }\n", "Cart add"),
}
# Stand-ins for a parser that goes wrong: each reads the request as the real one does.
CRASHES = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
HANGS = "import signal; signal.pause()"
BABBLES = "import sys; sys.stdout.write('no length at all, only words')"
FLOODS = r"import sys; sys.stdout.buffer.write(b'\xff\xff\xff\xff' + b'x' * 1_000_000)"
LIES = r"import sys; sys.stdout.buffer.write(b'\0\0\0\x0d' + b'{\"doc\": [1]}\n')"


@pytest.fixture
def parser() -> Iterator[TagProcess]:
    made = TagProcess()
    yield made
    made.stop()


@pytest.mark.parametrize("name", SOURCES)
def test_definitions_of_every_language_are_found(parser: TagProcess, name: str) -> None:
    source, names = SOURCES[name]
    found = parser.parse(language_of(name) or "", source)
    assert found is not None
    assert [one.name for one in found.definitions] == names.split()
    assert not any("y()" in one.signature for one in found.definitions)


def test_every_grammar_is_tried() -> None:
    assert {language_of(name) for name in SOURCES} == set(GRAMMARS)


def test_a_definition_has_its_whole_signature_and_the_first_line_of_its_doc(parser: TagProcess) -> None:
    found = parser.parse("python", SOURCES["a.py"][0])
    assert found is not None
    assert found.doc == "Carts."
    assert [(one.signature, one.doc) for one in found.definitions] == [
        ("class Cart:", "Holds."),
        ("    def add( self, x ):", ""),
    ]
    assert found.references == ("y",)


def test_one_process_answers_many_requests(parser: TagProcess) -> None:
    for number in range(50):
        found = parser.parse("python", f"def f{number}(): ...\n" + "x = 1\n" * 5_000)
        assert found is not None
        assert found.definitions[0].name == f"f{number}"


@pytest.mark.parametrize("code", [CRASHES, HANGS, BABBLES, FLOODS, LIES])
def test_a_broken_parser_costs_some_files_and_is_then_given_up(code: str) -> None:
    parser = TagProcess([sys.executable, "-c", code], file_seconds=0.3, start_seconds=2.0)
    assert [parser.parse("python", "x = 1\n") for _ in range(MAX_FAILURES)] == [None] * MAX_FAILURES
    assert parser.parse("python", "x = 1\n") is None
    assert parser._process is None


def test_a_parser_that_cannot_be_started_is_none() -> None:
    parser = TagProcess(["/no/such/program"])
    assert {parser.parse("python", "x = 1\n") for _ in range(5)} == {None}


def test_the_parser_recovers_after_one_crash(tmp_path: Path) -> None:
    once = tmp_path / "crashed"
    code = (
        f"import os, signal, sys\nif not os.path.exists({str(once)!r}):\n"
        f"    open({str(once)!r}, 'w').close()\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        "from agentos.repo_map.tag_parser import main\nmain()\n"
    )
    parser = TagProcess([sys.executable, "-P", "-c", code])
    assert parser.parse("python", "def f(): ...\n") is None
    found = parser.parse("python", "def f(): ...\n")
    parser.stop()
    assert found is not None
    assert found.definitions[0].name == "f"


@pytest.mark.parametrize(
    "text",
    ["(" * 100_000, "def f(\n" * 20_000, "\0\ud800" * 100, "", "class " + "x" * 500_000, "{" * 200_000],
)
@pytest.mark.parametrize("language", ["python", "javascript", "cpp"])
def test_a_hostile_source_is_parsed_or_given_up(parser: TagProcess, language: str, text: str) -> None:
    parser.parse(language, text)  # whatever comes of it
    assert parser.parse("python", "def f(): ...\n") is not None


def test_without_a_parser_words_make_the_outline() -> None:
    broken = TagProcess([sys.executable, "-c", CRASHES])
    outlines = Outlines(MapCache(None, write=False), broken)
    for number in range(MAX_FAILURES + 2):
        text = f"class C{number}:\n    def run(self):\n        return 1\n"
        assert (
            outlines.of(f"a{number}.py", f"blob{number}", text, 1_000)
            == f"class C{number}:\n    def run(self):\n"
        )
    outlines.close()


def test_the_parser_sees_nothing_of_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k" * 20)
    code = (
        "import json, os, sys\nanswer = json.dumps({'doc': ','.join(sorted(os.environ)), 'definitions': [],"
        "'references': [os.getcwd()]}).encode()\n"
        "while length := sys.stdin.buffer.read(4):\n"
        "    sys.stdin.buffer.read(int.from_bytes(length, 'big'))\n"
        "    sys.stdout.buffer.write(len(answer).to_bytes(4, 'big') + answer)\n"
        "    sys.stdout.flush()\n"
    )
    parser = TagProcess([PARSER[0], "-P", "-c", code])
    found = parser.parse("python", "x = 1\n")
    parser.stop()
    assert found is not None
    assert "OPENAI_API_KEY" not in found.doc
    assert "HOME" not in found.doc
    assert found.references == ("/",)


def test_a_map_shows_signatures_with_docs(tmp_path: Path) -> None:
    project = GitProject(tmp_path / "shop")
    project.put("src/cart.py", SOURCES["a.py"][0])
    project.commit()
    repository = project.open()
    found = repository.map_for(item("The cart holds nothing"), tokens=2_000)
    repository.close()
    assert found.own[0].text == "# Carts.\nclass Cart:  # Holds.\n    def add( self, x ):\n"
