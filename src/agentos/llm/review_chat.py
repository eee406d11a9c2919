"""The chat around a review: whether the review can be read without it. Pure.

A verdict is never guessed. An approval is taken out of its chat only if the chat announces it and has no word
that may take it back. Any other verdict stands, unless the chat states a different one.
"""

import re

from agentos.review import Verdict, states_other_verdict

_GREETING = re.compile(
    r"(?:sure|certainly|of course|absolutely|okay|ok|got it|understood|no problem"
    r"|here(?:['\u2019]s| is| are)|below is"
    r"|i(?:['\u2019]ve| have) (?:written|drafted|prepared|reviewed))\b",
    re.IGNORECASE,
)
_ANNOUNCES = re.compile(
    r"\b(?:review|reviewed|revue|here|below|follow|following|follows|hier|folgt|voici|aqu\u00ed|ecco)\b",
    re.IGNORECASE,
)
_JUDGES = re.compile(
    r"\b(?:not|no|but|however|though|except|unless|until|must|should|cannot|can't|don't|only"
    r"|revis|reject|discuss|block|fail|wrong|missing|approv|disapprov|unapprov|disagree|declin|deny|denied"
    r"|condition|pending|subject to|instead|ignore)",
    re.IGNORECASE,
)
# Words of other languages that may take a verdict back.
_JUDGES_ELSEWHERE = re.compile(
    r"\b(?:(?:nicht|aber|jedoch|muss|pas|mais|cependant|doit|pero|debe|mas|ma|non|deve)\b"
    r"|kein|abgelehn|freigegeben|genehmig|refus|rejet|approuv|rechaz|aprob|aprov|rejeit|rifiut)",
    re.IGNORECASE,
)
# What is announced may be somebody else's.
_QUOTES = re.compile(
    r"\b(?:quot|contain|claim|includ|embed|copied|pasted|example|sample|itself|author"
    r"|the (?:draft|design) (?:says|has))",
    re.IGNORECASE,
)
_HARMLESS = re.compile(r"\bno problem|\b(?:don't|do not) hesitate", re.IGNORECASE)
_DOCUMENT = r"(?:it|this|(?:the|this) (?:\w+ )?(?:design|draft|document|issue|lld|proposal))"
# Words that agree with an approval: "I approve this design", "there are no blocking issues".
_AGREES = re.compile(
    rf"\bi (?:hereby |therefore |happily |gladly )?approve {_DOCUMENT}\b"
    rf"|\b{_DOCUMENT} is (?:hereby )?approved\b(?! (?:by|in|for))"
    r"|\b(?:final |overall )?verdict[*_]{0,3}(?: is|:)[*_]{0,3} ?[*_]{0,3}approved\b(?! (?:by|in|for))",
    re.IGNORECASE,
)
_NOTHING_OPEN = re.compile(
    r"\b(?:no|without(?: any)?) (?:(?:tier [12]|blocking|high[- ]priority|major|critical|open|further|other"
    r"|remaining|significant|new|or) ){0,4}(?:issues?|findings?|concerns?|problems?|blockers?)\b"
    r"(?! (?:\w+ ){0,3}(?:resolved|addressed|fixed))",
    re.IGNORECASE,
)
_BOX = re.compile(r"\[[^\[\]]{0,3}\]")


def greets(text: str) -> bool:
    """Whether a text is one line that only announces what follows."""
    if "\n" in text or not text.endswith((":", ".", "!")) or _GREETING.match(text) is None:
        return False
    return not may_judge(text)


def may_judge(text: str) -> bool:
    """Whether some of these words may take a verdict back."""
    told = _HARMLESS.sub("", text.lower().replace("\u2019", "'"))
    return _JUDGES.search(told) is not None or _JUDGES_ELSEWHERE.search(told) is not None


def may_be_removed(before: str, after: str, verdict: Verdict) -> bool:
    """Whether a review with this verdict can be read without the chat before and after it."""
    chat = f"{before}\n{after}".replace("\u2019", "'")
    if _BOX.search(chat) or states_other_verdict(chat, verdict):
        return False
    rest = _AGREES.sub("", chat)
    judges = may_judge(_NOTHING_OPEN.sub("", rest))
    if verdict is not Verdict.APPROVED:
        return rest == chat or judges
    opening = before.strip()
    announced = not opening or rest != chat or _ANNOUNCES.search(opening) or _GREETING.match(opening)
    return bool(announced) and not judges and _QUOTES.search(chat) is None
