"""Makes foreign text visible: shows what a terminal or a build log would obey or hide. Pure."""

import re

# C0 except tab and newline, DEL, C1, halves of surrogate pairs, line separators, interlinear marks, and what
# Unicode calls default ignorable: bidirectional controls, zero-width characters, fillers,
# tags. Also the Braille blank.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_JOINERS = "\u200c\u200d"  # part of words in some scripts, and of emoji
_SELECTORS = "\ufe0e\ufe0f"  # text or emoji
_KEYCAPS = frozenset("0123456789#*")


def visible(text: str) -> str:
    """Show every character that would be obeyed or hidden; keep tabs and newlines."""
    return text if text.isascii() and text.isprintable() else _UNSEEN.sub(_shown, text)


def without_unseen(text: str) -> str:
    """Remove every such character; keep tabs and newlines."""
    return _UNSEEN.sub(lambda found: found[0] if _stays(found) else "", text)


def one_line(text: str) -> str:
    """The same for a text that must stay on one line, such as any error."""
    return visible("\\n".join(text.splitlines()))


def _shown(found: re.Match[str]) -> str:
    char = found[0]
    if _stays(found):
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _stays(found: re.Match[str]) -> bool:
    """Whether the character belongs to a word or an emoji."""
    before = found.string[found.start() - 1 : found.start()]
    if found[0] in _SELECTORS:
        return _is_seen(before) or before in _KEYCAPS
    return found[0] in _JOINERS and _joins(before, found.string[found.end() : found.end() + 1])


def _joins(before: str, after: str) -> bool:
    return (_is_seen(before) or before in {*_SELECTORS}) and _is_seen(after)


def _is_seen(char: str) -> bool:
    """Whether a neighbour may be of a script that needs joiners; in ASCII words they are always shown."""
    return bool(char) and not char.isascii() and not _UNSEEN.match(char)


class LineGuard:
    """Makes a stream visible, piece by piece; in a build log, no line of it can be a command.

    GitHub Actions obeys `::` at the start of a line, after optional blanks, and `##[` anywhere.
    """

    def __init__(self, *, commands: bool) -> None:
        self._commands = commands  # whether the reader obeys such commands
        self._head = ""  # the first two characters of the current line, without blanks
        self._tail = ""  # its last two

    def __call__(self, text: str) -> str:
        shown = visible(text)
        if not self._commands:
            return shown
        first, *others = shown.split("\n")
        lines = [self._defused(first)]
        for line in others:
            self._head = self._tail = ""
            lines.append(self._defused(line))
        return "\n".join(lines)

    def _defused(self, text: str) -> str:
        """A piece of one line, with a backslash before anything that would start a command."""
        before, head = self._tail, self._head
        self._tail = (before + text)[-2:]
        if len(head) < 2:
            self._head = (head + text).lstrip()[:2]
        defused = (before + text).replace("##[", "##\\[")[len(before) :]
        if self._head == "::" != head:
            at = len(text) - len(text.lstrip()) if not head else 0
            defused = f"{defused[:at]}\\{defused[at:]}"
        return defused
