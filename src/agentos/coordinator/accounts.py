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
        self._numbers: dict[int, int] = {}  # from a lease to the number of its request

    def ask(self, label: str, wanted: wire.LeaseWanted) -> Answer:
        """Say whether there is money for a call."""
        self._wanted[label, wanted.number] = wanted
        if not self.purse.limited:
            return Answer.YES
        guess = self.purse.guess(wanted.role)
        estimate = self._prices.cost(wanted.provider, wanted.model, wanted.prompt_tokens, guess)
        return self.purse.ask(label, wanted.number, estimate or 0.0)

    def granted(self, event: Granted) -> None:
        self._numbers[event.lease] = event.number

    def settled(self, entry: Entry, tally: Tally, settled: wire.Settled) -> float | None:
        """A call is back: the purse knows its true cost at once, before another call is let out."""
        label = entry.item.label
        number = self._numbers.pop(settled.lease, 0)
        wanted = self._wanted.pop((label, number), None)
        self.purse.over(label, number)
        if wanted is None or not (settled.tokens_in or settled.tokens_out):
            return None
        usd = self._cost(wanted.provider, wanted.model, settled)
        self.purse.pay(label, usd or 0.0)
        if settled.error is None:
            self.purse.seen(wanted.role, settled.tokens_out)
            return usd
        # Paid for without a result, so that no record of it will come: cut off, or from another model.
        record = {"life": f"{self._book.run_id}-{settled.lease}", "role": wanted.role, "number": 0}
        tokens = {"tokens_in": settled.tokens_in, "tokens_out": settled.tokens_out}
        self._book.pay(entry, record | tokens, usd)
        tally.pay(usd)
        return usd

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
        usd = self._cost(provider, asked, call)
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

    def drop(self, label: str) -> None:
        """The item's worker is gone, and its calls with it."""
        self.purse.drop(label)
        self._wanted = {key: wanted for key, wanted in self._wanted.items() if key[0] != label}
