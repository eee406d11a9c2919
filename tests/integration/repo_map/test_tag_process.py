"""The parser process: what it finds, and that nothing it does harms us."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentos.repo_map.cache import MapCache
from agentos.repo_map.parsed import Parsed
from agentos.repo_map.tag_process import MAX_FAILURES, PARSER, TagProcess
from agentos.repo_map.tags import GRAMMARS, Tags, language_of

# Sources with | for line ends; lines of their definitions: first with comments, end of signature, last.
SOURCES = {
    "a.py": (
        "class Cart(| Base|):| @a| @to(|  1| )| async def add(|  self| ):|  def no(): y()|# Z| def z(): ...|",
        "Cart 1-3-13 add 4-10-11 z 12-13-13",
    ),
    "a.js": (
        "/**| * A cart.| */|class Cart {|  add(x) {|    y();|  }|}|exports.go = function (z) {|  y();|};|",
        "Cart 1-4-8 add 5-5-7 go 9-9-11",
    ),
    "a.ts": (
        "interface Cart {| add(x: string): void|}|@Held()|export class Bag {| put(|  x| ): void {| }|}|",
        "Cart 1-1-3 add 2-2-2 Bag 4-5-10 put 6-8-9",
    ),
    "a.tsx": ("export const Cart = (x: number) => {|  return <a/>;|}|", "Cart 1-1-3"),
    "a.go": (
        "package a|// Add adds.|// Soon.|func (c *Cart) Add(|  x int,|) int {|  y()|}|type Cart struct {|}|",
        "Add 2-6-8 Cart 9-9-10",
    ),
    "a.rs": (
        "#[derive(Debug)]|pub struct Cart;|impl Cart {|  /// Adds.|  pub fn add(&self)|  {|  }|}|",
        "Cart 1-2-2 add 4-6-7",
    ),
    "a.java": ("class Cart {|  @Override|  int add(int x) {|    y();|  }|}|", "Cart 1-1-6 add 2-3-5"),
    "a.c": (
        "struct cart { int x; };|static int|add(int a,|  int b)|{|  y();|}|char *go(void) {|}|int no();|",
        "cart 1-1-1 add 2-5-7 go 8-8-9 no 10-10-10",
    ),
    "a.cpp": (
        "class Cart {|  void add(int x) {|    y();|  }|};|Cart &Cart::go()|{|}|",
        "Cart 1-1-5 add 2-2-4 go 6-7-8",
    ),
    "a.rb": ("class Cart|  def add(x)|    y|  end|end|", "Cart 1-1-5 add 2-2-4"),
    "a.cs": ("class Cart {|  int Add(int x) { return new Y(); }|}|", "Cart 1-1-3 Add 2-2-2"),
    "a.php": ("<?php|class Cart {|  public function add($x) {|    y();|  }|}|", "Cart 2-2-6 add 3-3-5"),
}
# Stand-ins for a parser that goes wrong: each reads the request as the real one does.
CRASHES = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
HANGS = "import signal; signal.pause()"
BABBLES = "import sys; sys.stdout.write('no length at all, only words')"
FLOODS = r"import sys; sys.stdout.buffer.write(b'\xff\xff\xff\xff' + b'x' * 1_000_000)"
LIES = r"import sys; sys.stdout.buffer.write(b'\0\0\0\x15' + b'{\"definitions\": [1]}\n')"


@pytest.fixture
def parser() -> Iterator[TagProcess]:
    made = TagProcess()
    yield made
    made.stop()


@pytest.mark.parametrize("name", SOURCES)
def test_definitions_of_every_language_are_found_with_their_lines(parser: TagProcess, name: str) -> None:
    source, expected = SOURCES[name]
    found = parser.parse(language_of(name) or "", source.replace("|", "\n"))
    assert found is not None
    assert " ".join(f"{one.name} {one.first}-{one.head}-{one.last}" for one in found.definitions) == expected
    assert found.references == ("to", "y") or name != "a.py"


def test_every_grammar_is_tried() -> None:
    assert {language_of(name) for name in SOURCES} == set(GRAMMARS)


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


def test_without_a_parser_there_are_no_tags() -> None:
    broken = TagProcess([sys.executable, "-c", CRASHES])
    parsed = Parsed(MapCache(None, write=False), broken)
    for number in range(MAX_FAILURES + 2):
        assert parsed.tags(f"a{number}.py", f"blob{number}", "class C: ...\n") == Tags()
    parsed.close()


def test_the_parser_sees_nothing_of_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k" * 20)
    code = (
        "import json, os, sys\nanswer = json.dumps({'definitions': [],"
        "'references': [os.getcwd(), *os.environ]}).encode()\n"
        "while length := sys.stdin.buffer.read(4):\n"
        "    sys.stdin.buffer.read(int.from_bytes(length, 'big'))\n"
        "    sys.stdout.buffer.write(len(answer).to_bytes(4, 'big') + answer)\n"
        "    sys.stdout.flush()\n"
    )
    parser = TagProcess([PARSER[0], "-P", "-c", code])
    found = parser.parse("python", "x = 1\n")
    parser.stop()
    assert found is not None
    assert found.references[0] == "/"
    assert not {"OPENAI_API_KEY", "HOME"} & set(found.references)
