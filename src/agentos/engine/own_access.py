"""What a worker machine adds to a job: its own keys and connections. Worker machine process.

It knows which providers it can serve: those that it has a usable key for.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from agentos import wire
from agentos.secret import Secret

BLOCKED_SECONDS = 60.0  # for a provider whose keys here are all disabled: somebody may enable one


@dataclass(frozen=True, kw_only=True)
class OwnAccess:
    """Keys and connections of this machine."""

    secrets: Mapping[str, Secret]  # by the key's id
    key_providers: Mapping[str, str]  # by the key's id
    add_key: Callable[[str], str]  # how to get one for a provider
    providers: Callable[[Iterable[str]], dict[str, wire.ProviderAccess]]
    say: Callable[[str], None]
    mock_shell: bool = False  # whether the mock may run shell commands that items script
    _blocked: dict[str, float] = field(default_factory=dict)  # until when, by provider
    _said: set[str] = field(default_factory=set)  # that there is no key for a provider

    @property
    def keyed(self) -> frozenset[str]:
        """The providers that there are keys for."""
        return frozenset(self.key_providers.values())

    def keys_for(self, provider: str) -> tuple[str, ...]:
        return tuple(sorted(key for key, owner in self.key_providers.items() if owner == provider))

    def fingerprints(self, keys: Iterable[str], *, run_id: str) -> tuple[str, ...]:
        """By which the submitter can tell whether it means the same keys by these ids."""
        return tuple(self.secrets[key].fingerprint(run_id.encode()) for key in keys)

    def serves(self, providers: Iterable[str]) -> bool:
        """Whether there is a usable key for each of them; says so once if not. From any thread."""
        for name in sorted(set(providers) - self.keyed - self._said):
            self._said.add(name)
            self.say(
                f"No key for {name} on this machine: its items go to other machines. To run them here, "
                f"{self.add_key(name)} and start 'agentos worker' again."
            )
        return self.usable().issuperset(providers)

    def usable(self) -> frozenset[str]:
        """The providers that have a usable key here, as far as is known."""
        now = time.monotonic()
        return frozenset(name for name in self.keyed if self._blocked.get(name, now) <= now)

    def block(self, provider: str, reason: str) -> None:
        """Stop serving a provider for a while: its keys here are unusable."""
        if provider in self.usable():
            self.say(
                f"No usable key for {provider} on this machine ({reason}); its items go to other machines. "
                "See 'agentos keys --engine postgres' in a project; 'enable ID' there enables a key again."
            )
        self._blocked[provider] = time.monotonic() + BLOCKED_SECONDS
