"""Every word that a shell is offered passes the one place that knows which words are harmless."""

import click

from agentos.cli import completion
from agentos.cli.app import COMMANDS, agentos


def test_every_completer_is_a_careful_one() -> None:
    context = click.Context(agentos)
    allowed = {completion.file, completion.items}  # both leave names of files to the shell
    found = 0
    for name in COMMANDS:
        command = agentos.get_command(context, name)
        assert command is not None
        for parameter in command.params:
            completer = parameter._custom_shell_complete
            if completer is None or completer in allowed:
                continue
            found += 1
            assert completer.__code__ is completion.runs.__code__, (name, parameter.name)
    assert found >= 5


def test_only_plain_words_are_words() -> None:
    for word in ("42", "LLD-42", "2026-11-16T00-37-24.647Z", "dark_mode.v2"):
        assert completion.WORD.fullmatch(word)
    for word in ("", "-x", ".x", "a b", "$(x)", "a\n", "a;b", "*", "é", "a:b", "a,b", "x" * 201):
        assert not completion.WORD.fullmatch(word)
