"""The data of one call to a model, filled in from request to record. Pure."""

from dataclasses import dataclass, replace
from typing import Any, Self

from agentos import audit_record, wire
from agentos.lease import LeaseNumber
from agentos.model import CallError, Usage


@dataclass(frozen=True, kw_only=True)
class Call(Usage):
    """A call of an item's worker. Each stage fills in what it knows; what was used, once it is settled."""

    # Requested.
    item: str  # label
    attempt: int
    number: int  # counted by the worker, one per request
    role: str
    provider: str
    model: str
    tokens: int = 0  # how much of a token limit it may use
    prompt_tokens: int = 0  # the part of `tokens` that is sent
    tries: int = 0  # how often the same call has failed before
    estimate: float = 0.0  # USD, set aside until it is settled
    only: frozenset[str] | None = None  # ids of the keys that its machine has; None: all keys of the run

    # Granted.
    lease: LeaseNumber = 0
    key: str = ""
    waited: float = 0.0

    # Settled.
    served: str = ""
    unverified: bool = False  # the names do not tell whether that is the model asked for
    seconds: float = 0.0
    error: CallError | None = None
    kept: wire.Kept | None = None  # where its answer is in the item's journal, if it was accepted
    usd: float | None = None  # None if unknown

    @classmethod
    def asked(cls, item: str, attempt: int, wanted: wire.LeaseWanted) -> Self:
        return cls(
            item=item,
            attempt=attempt,
            number=wanted.number,
            role=wanted.role,
            provider=wanted.provider,
            model=wanted.model,
            tokens=wanted.tokens,
            prompt_tokens=wanted.prompt_tokens,
            tries=wanted.tries,
            only=None if wanted.only is None else frozenset(wanted.only),
        )

    def granted(self, *, lease: LeaseNumber, key: str, waited: float) -> Self:
        return replace(self, lease=lease, key=key, waited=waited)

    def settled(self, result: wire.CallSettled) -> Self:
        return replace(
            self,
            served=result.served,
            unverified=result.unverified,
            seconds=result.seconds,
            error=result.error,
            kept=result.kept,
            **result.usage.counts(),
        )

    @classmethod
    def from_journal(cls, item: str, attempt: int, journal: audit_record.CallRecord) -> Self:
        """A call that an earlier worker of the item made, from its journal."""
        provider, _, model = journal.model.partition(":")
        return cls(
            item=item,
            attempt=attempt,
            number=0,
            role=journal.role,
            provider=provider,
            model=model,
            key=journal.key,
            tokens_in=journal.tokens_in,
            tokens_out=journal.tokens_out,
            tokens_cached=journal.tokens_cached,
            tokens_cache_written=journal.tokens_cache_written,
            tokens_reasoning=journal.tokens_reasoning,
            served=journal.served,
            seconds=journal.seconds,
            kept=wire.Kept(
                journal_id=journal.journal_id,
                number=journal.number,
                node=journal.node,
                tries=journal.tries,
                prompt_version=journal.prompt_version,
            ),
        )

    @property
    def counted(self) -> bool:
        """Whether the server said how many tokens the call used."""
        return bool(self.tokens_in or self.tokens_out)

    @property
    def paid(self) -> bool:
        """Whether it counts as paid for; a failed call of unknown usage does not."""
        return self.kept is not None or self.counted or self.error is CallError.UNREADABLE

    @property
    def cost(self) -> float | None:
        """What it adds to the cost of its item; None: unknown."""
        return self.usd if self.paid else 0.0

    def as_record(self) -> dict[str, Any]:
        """The call's record in the item's audit trail."""
        usd = None if self.usd is None else round(self.usd, 8)
        common = {
            "role": self.role,
            "model": f"{self.provider}:{self.model}",
            "served": self.served,
            "key": self.key,
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
            "tokens_cached": self.tokens_cached,
            "tokens_cache_written": self.tokens_cache_written,
            "tokens_reasoning": self.tokens_reasoning,
            "seconds": round(self.seconds, 3),
        }
        if self.unverified:
            common["note"] = "the served name does not tell whether it is the model asked for"
        if self.kept is not None:
            return {"kind": "call"} | self.kept.model_dump() | common | {"cost_usd": usd}
        free = not self.paid and self.error is not CallError.WORKER_GONE
        error = None if self.error is None else self.error.value
        return {"kind": "failed_call"} | common | {"error": error, "cost_usd": 0.0 if free else usd}
