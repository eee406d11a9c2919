"""The money of a run: what a call may cost before it goes out, and what it did cost. Coordinator."""

from typing import Any

from agentos import wire
from agentos.coordinator.book import RunBook, Tally
from agentos.coordinator.plan import Entry
from agentos.coordinator.purse import Answer, Purse
from agentos.credentials.events import Granted
from agentos.money import PriceTable


class Accounts:
    """Asks the purse before a call and pays after it."""

    def __init__(self, purse: Purse, prices: PriceTable, book: RunBook) -> None:
        self.purse = purse
        self._prices = prices
        self._book = book
        self._wanted: dict[tuple[str, int], wire.LeaseWanted] = {}  # by item and number
        self._granted: dict[int, Granted] = {}  # by lease

    def ask(self, label: str, wanted: wire.LeaseWanted) -> Answer:
        """Say whether there is money for a call."""
        self._wanted[label, wanted.number] = wanted
        if not self.purse.limited:
            return Answer.YES
        return self.purse.ask(label, wanted.number, self._estimate(wanted), role=wanted.role)

    def granted(self, event: Granted) -> None:
        self._granted[event.lease] = event

    def settled(self, entry: Entry, tally: Tally, settled: wire.Settled) -> float | None:
        """A call is back: the purse knows its true cost at once, before another call is let out."""
        label = entry.item.label
        granted = self._granted.get(settled.lease)
        if granted is not None and granted.item != label:
            return None  # another item's lease: the pool refuses it, too
        self._granted.pop(settled.lease, None)
        wanted = None if granted is None else self._wanted.pop((label, granted.number), None)
        if granted is None or wanted is None:
            return None
        self.purse.over(label, granted.number)
        paid = bool(settled.tokens_in or settled.tokens_out)
        usd = self._cost(wanted.provider, wanted.model, settled) if paid else None
        if settled.error is None:
            # A server that does not count is not free: what it took is unknown, and taken as guessed.
            self.purse.pay(label, self._estimate(wanted) if usd is None else usd)
            self.purse.seen(wanted.role, settled.tokens_out)
        elif paid:
            self.purse.pay(label, usd or 0.0)
        if settled.error is None and settled.kept:
            return usd
        # No result, so no record of it comes from the worker: cut off, refused, or from another model.
        record = self._failed(granted, wanted, settled)
        if paid:
            unique = {"life": f"{self._book.run_id}-{settled.lease}", "number": 0}
            self._book.pay(entry, record | unique, usd)
            tally.pay(usd)
        self._book.audit(entry, tally.attempts, record | {"cost_usd": usd if paid else 0.0})
        return usd

    def _failed(self, granted: Granted, wanted: wire.LeaseWanted, settled: wire.Settled) -> dict[str, Any]:
        return {
            "kind": "failed_call",
            "role": wanted.role,
            "model": f"{wanted.provider}:{wanted.model}",
            "served": settled.served,
            "key": granted.key,
            "tokens_in": settled.tokens_in,
            "tokens_out": settled.tokens_out,
            "seconds": round(settled.seconds, 3),
            "error": settled.error or "other_model",
        }

    def _estimate(self, wanted: wire.LeaseWanted) -> float:
        guess = self.purse.guess(wanted.role)
        return self._prices.cost(wanted.provider, wanted.model, wanted.prompt_tokens, guess) or 0.0

    def recorded(self, entry: Entry, tally: Tally, record: dict[str, Any], *, again: bool) -> dict[str, Any]:
        """Note a call for good, once however often word of it comes; return its record with the cost."""
        provider, _, asked = str(record["model"]).partition(":")
        call = wire.Settled(
            lease=0,
            seconds=0.0,
            tokens_in=record["tokens_in"],
            tokens_out=record["tokens_out"],
            served=record.get("served", ""),
        )
        usd = self._cost(provider, asked, call) if call.tokens_in or call.tokens_out else None
        if self._book.pay(entry, record, usd):
            tally.pay(usd)
            if again:
                self.purse.pay(entry.item.label, usd or 0.0)
        return record | {"cost_usd": None if usd is None else round(usd, 8)}

    def _cost(self, provider: str, asked: str, call: wire.Settled) -> float | None:
        """By the model that served, where its price is known."""
        for model in (call.served, asked):
            usd = self._prices.cost(provider, model, call.tokens_in, call.tokens_out) if model else None
            if usd is not None:
                return usd
        return None

    def drop(self, entry: Entry, tally: Tally) -> None:
        """The item's worker is gone, and its calls with it; nobody will ever know what they took."""
        label = entry.item.label
        self.purse.drop(label)
        for lease, granted in list(self._granted.items()):
            wanted = self._wanted.get((label, granted.number)) if granted.item == label else None
            if wanted is not None:
                del self._granted[lease]
                gone = wire.Settled(lease=lease, seconds=0.0, error="worker_gone")
                self._book.audit(
                    entry, tally.attempts, self._failed(granted, wanted, gone) | {"cost_usd": None}
                )
        self._wanted = {key: wanted for key, wanted in self._wanted.items() if key[0] != label}
