"""What the checkpoint of an item offers: LangGraph's state, and the journal of paid calls. Worker process."""

import json
from typing import Any, Protocol

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from agentos import redact
from agentos.audit_record import TOKENS_MOST
from agentos.errors import ItemFailed, StorageError
from agentos.llm.provider import Reply


class ItemCheckpoint(Protocol):
    """The state of one item. No other worker has it open."""

    @property
    def saver(self) -> BaseCheckpointSaver[Any]: ...

    @property
    def thread(self) -> str:
        """LangGraph's name for the item's state."""

    @property
    def journal_id(self) -> str:
        """An id that separates the calls of this journal from those of an earlier one of the same item."""

    def clear(self) -> None:
        """Delete state and journal, as if the item were new. It is on disk when this returns."""

    def replayed(self, role: str, number: int) -> Reply | None:
        """Return the reply to a call that was already paid for."""

    def record(self, role: str, number: int, reply: Reply, record: dict[str, Any]) -> None:
        """Save the reply and its audit record. They are on disk when this returns."""

    def paid_before(self) -> list[dict[str, Any]]:
        """Return the audit records of all calls in the journal, in order."""

    def begun(self, config: Any) -> bool:
        """Say whether there is a state to resume from."""


class SafeSerializer(JsonPlusSerializer):
    """Keeps secrets out of a checkpoint: errors are stored with their text, a graph may store anything."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        kind, data = super().dumps_typed(obj)
        if redact.find(data.decode("utf-8", errors="replace")) is None:
            return kind, data
        kind, data = super().dumps_typed(redact.clean(repr(obj) if isinstance(obj, BaseException) else obj))
        if (found := redact.find(data.decode("utf-8", errors="replace"))) is not None:
            raise ItemFailed(f"the graph's state contains the key {found}; it was not saved")
        return kind, data


INVALID_CALL = "The item's journal contains an invalid call. Run the item with --fresh."


def read_record(text: Any) -> dict[str, Any]:
    try:
        return dict(json.loads(text))
    except (ValueError, TypeError, RecursionError) as exc:
        raise StorageError(INVALID_CALL) from exc


def read_reply(text: Any) -> Reply:
    try:
        stored = dict(json.loads(text))
        reply = Reply(**stored)
    except (ValueError, TypeError, RecursionError) as exc:
        raise StorageError(INVALID_CALL) from exc
    texts = all(isinstance(stored[name], str) for name in ("text", "model"))
    if not texts or not all(type(one) is int and 0 <= one <= TOKENS_MOST for one in reply.counts().values()):
        raise StorageError(INVALID_CALL)
    return reply
