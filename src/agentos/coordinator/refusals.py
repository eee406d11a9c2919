"""Decides which refusals end the run, because every other item would get the same one. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from agentos.coordinator.scheduler import Stop
from agentos.credentials.key_state import KeyState
from agentos.credentials.snapshot import KeyView
from agentos.lease import LeaseNumber
from agentos.model import OF_ACCOUNT, SAME_FOR_ALL, CallError
from agentos.spending.call import Call
from agentos.wire import LeaseWanted

SAME_LEAST = 2  # items that must get the same refusal; one alone may be the item's own fault


@dataclass(frozen=True, kw_only=True)
class RunRefused:
    """Why no item can continue."""

    stop: Stop
    reason: str  # a few words, for each item that it stops
    text: str  # what happened and what to do, for the run


@dataclass(kw_only=True)
class Refusals:
    """What the providers of a run have refused for good."""

    set_in: Mapping[str, str]  # where each role's model is set, by role
    user_file: str
    _refused: dict[tuple[str, LeaseNumber], str] = field(default_factory=dict)  # models, by item and lease
    _said: dict[tuple[str, str], set[str]] = field(default_factory=dict)  # items, by model and text
    _answered: set[str] = field(default_factory=set)  # models that replied in this run
    _no_credit: set[str] = field(default_factory=set)  # keys
    _served: set[tuple[str, str]] = field(default_factory=set)  # models, and keys that they replied to
    _no_access: dict[str, set[str]] = field(default_factory=dict)  # keys, by model
    _unsaid: dict[str, list[str]] = field(default_factory=dict)  # about keys without access, by model

    def answered(self, call: Call) -> list[str]:
        """A call was answered; return what to say about keys that are left out while others are used."""
        model = f"{call.provider}:{call.model}"
        self._answered.add(model)
        self._served.add((model, call.key))
        self._no_credit.discard(call.key)
        return self.unsaid(model)

    def unsaid(self, model: str) -> list[str]:
        """What nobody was told yet about the keys that may not use a model."""
        return self._unsaid.pop(model, [])

    def no_access(self, provider: str, model: str) -> frozenset[str]:
        """The keys that may not use a model; they are left out for it, and only for it."""
        return frozenset(self._no_access.get(f"{provider}:{model}", ()))

    def refused(self, call: Call, message: str, keys: Iterable[KeyView]) -> RunRefused | None:
        """A call was refused; return the end of the run, unless other calls may be luckier."""
        if call.error is CallError.NO_CREDIT:
            return self._out_of_credit(call, message, list(keys))
        model = f"{call.provider}:{call.model}"
        if call.error is CallError.BAD_REQUEST:
            return self._bad_request(call, model, message)
        if call.error in OF_ACCOUNT:
            if (model, call.key) in self._served or not self._is_last(call, model, message, list(keys)):
                return None
        elif call.error not in SAME_FOR_ALL or model in self._answered:
            return None
        message = message.rstrip(".")
        setting = f"base_url of {call.provider} in {self.user_file}"
        match call.error:
            case CallError.NO_MODEL:
                reason, text = f"{model} is not available", f"{model} is not available at {message}"
                setting = self.set_in.get(call.role, call.role)
            case CallError.FORBIDDEN:
                reason, text = f"{call.provider} refuses this account", f"{call.provider}: {message}"
                setting = "your account there"
            case CallError.PROXY_REFUSED:
                reason, text = "the proxy refuses the connection", f"{call.provider}: {message}"
                setting = f"proxy under [network] in {self.user_file}"
            case CallError.UNTRUSTED:
                reason = f"the certificate of {call.provider}'s server is not trusted"
                text = f"{call.provider}: {message}"
            case _:
                reason = f"the server of {call.provider} does not have its API"
                text = f"{call.provider}: no such API at {message}"
        text = f"{text}. Check {setting}; 'agentos doctor --live' tests it."
        return RunRefused(stop=Stop.MISCONFIGURED, reason=reason, text=text)

    def is_refused(self, item: str, lease: LeaseNumber) -> bool:
        """Whether a call was refused for a reason that may be the same for every item, or the item's own."""
        return (item, lease) in self._refused

    def is_open(self, wanted: LeaseWanted, item: str) -> bool:
        """Whether the calls of other items may show whose fault the refusal of the last try is."""
        return self._refused.get((item, wanted.after)) not in self._answered

    def _is_last(self, call: Call, model: str, message: str, keys: list[KeyView]) -> bool:
        """Leave a key out for a model; return whether no other key is left."""
        without = self._no_access.setdefault(model, set())
        if call.key not in without:
            what = f"{call.key} is not used for {model}, because it has no access: {message}"
            self._unsaid.setdefault(model, []).append(what)
        without.add(call.key)
        left = set(_usable(call, keys)) - without - self._no_credit
        if call.error is CallError.NO_MODEL:
            # A name that is wrong for one key is wrong for a key that rests until tomorrow, too.
            left -= {key.id for key in keys if key.state == KeyState.QUOTA_EXHAUSTED}
        return not left

    def _bad_request(self, call: Call, model: str, message: str) -> RunRefused | None:
        """One item's request may be at fault. If two get the same text, and nobody a reply, it is not."""
        self._refused[call.item, call.lease] = model
        items = self._said.setdefault((model, message), set())
        items.add(call.item)
        if len(items) < SAME_LEAST or model in self._answered:
            return None
        text = f"{model} refuses every request: {message.rstrip('.')}."
        setting = f"{self.set_in.get(call.role, call.role)} and base_url of {call.provider}"
        text = f"{text} Check {setting}; 'agentos doctor --live' tests it."
        return RunRefused(stop=Stop.MISCONFIGURED, reason=f"{model} refuses every request", text=text)

    def _out_of_credit(self, call: Call, message: str, keys: list[KeyView]) -> RunRefused | None:
        groups = {key.group for key in keys if key.id == call.key}
        self._no_credit |= {call.key} | {key.id for key in keys if key.group in groups}
        model = f"{call.provider}:{call.model}"
        no_access = self._no_access.get(model, set())
        left = [key for key in _usable(call, keys) if key not in no_access]
        if not self._no_credit.issuperset(left):
            return None
        every = "every key" if not no_access else f"every key with access to {call.model}"
        return RunRefused(
            stop=Stop.NO_KEY,
            reason=f"{call.provider} is out of credit",
            text=f"{call.provider}: {every} is out of credit ({', '.join(left)}): {message.rstrip('.')}."
            " Add credit at the provider, then run the same command.",
        )


def _usable(call: Call, keys: list[KeyView]) -> list[str]:
    """The provider's keys that are not rejected."""
    return [key.id for key in keys if key.provider == call.provider and key.state != KeyState.DISABLED]
