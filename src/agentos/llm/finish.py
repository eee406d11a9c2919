"""Why a server ended a reply. Servers of one format use the words of the others, so all words count. Pure."""

from typing import Any

from agentos.llm.http import declined, incomplete
from agentos.llm.provider import CutReply
from agentos.model import Usage

_COMPLETE = frozenset(
    {"stop", "eos", "eos_token", "end_turn", "end", "complete", "completed", "stop_sequence", "tool_use"}
)
_CUT = frozenset(
    {
        "length",
        "max_tokens",
        "max_output_tokens",
        "max_new_tokens",
        "max_length",
        "token_limit",
        "model_length",  # Mistral
        "model_context_window_exceeded",  # Anthropic
    }
)
_DECLINED = frozenset(
    {
        "content_filter",
        "refusal",
        "safety",
        "recitation",
        "prohibited_content",
        "blocklist",
        "spii",
        "language",
    }
)


def check_finish(finish: Any, usage: Usage, *, model: str, refusal: Any = None) -> None:
    """Raise unless the reply is complete."""
    word = finish.casefold() if isinstance(finish, str) else ""
    if refusal or word in _DECLINED:
        raise declined(str(refusal or finish)[:200], usage)
    if word in _CUT:
        raise CutReply(usage, model=model)
    if word not in _COMPLETE:
        raise incomplete(f"finish reason {str(finish)[:100]!r}", usage)
