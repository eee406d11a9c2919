"""The file `models.json`: what servers said about requests to each model. Coordinator process."""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentos.model_facts import UNKNOWN, ModelFacts
from agentos.store.home import home_of
from agentos.store.rooted_tree import PRIVATE_FILE

MODELS_MOST = 200
KEPT_SECONDS = 30 * 86_400.0  # then the server is asked again: it may have changed
_MAX_BYTES = 500_000


class _Entry(BaseModel):
    """What is known of one model, from which server, and since when."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    endpoint: str = Field(default="", max_length=500)
    at: float = Field(ge=0)
    facts: ModelFacts


class ModelMemory:
    """Facts by `provider:model`, from this run and earlier ones; an invalid entry counts as none."""

    def __init__(
        self, path: Path | None, endpoints: Mapping[str, str], *, wall: Callable[[], float] = time.time
    ) -> None:
        self._path = path  # None: nothing is kept
        self._endpoints = endpoints  # by provider, where it is not the usual one
        self._wall = wall
        self._entries = self._read()

    def known(self) -> dict[str, ModelFacts]:
        """What is known of each model at the server that is used now."""
        return {
            model: one.facts for model, one in self._entries.items() if one.endpoint == self._endpoint(model)
        }

    def learn(self, model: str, facts: ModelFacts) -> tuple[str, ...]:
        """Keep what a call found out, and say what is new about the model."""
        before = self.known().get(model, UNKNOWN)
        if facts == before:
            return ()
        entry = _Entry(endpoint=self._endpoint(model), at=self._wall(), facts=facts)
        if self._path is None:
            self._entries[model] = entry
            return facts.described(before)
        tree = home_of(self._path).tree
        with tree.alone():  # another run may have learnt something since
            entries = self._read() | self._entries | {model: entry}
            newest = sorted(entries.items(), key=lambda one: one[1].at)[-MODELS_MOST:]
            data = {"models": {name: one.model_dump() for name, one in newest}}
            tree.write(self._path, json.dumps(data, indent=1) + "\n", mode=PRIVATE_FILE)
        self._entries = dict(newest)
        return facts.described(before)

    def _endpoint(self, model: str) -> str:
        return self._endpoints.get(model.partition(":")[0], "")[:500]

    def _read(self) -> dict[str, _Entry]:
        if self._path is None:
            return {}
        try:
            data = json.loads(home_of(self._path).tree.read(self._path, _MAX_BYTES))
        except (OSError, ValueError, RecursionError):
            return {}
        models = data.get("models") if isinstance(data, dict) else None
        found: dict[str, _Entry] = {}
        for name, raw in list(models.items())[:MODELS_MOST] if isinstance(models, dict) else ():
            entry = _entry(raw)
            if entry is not None and 0 <= self._wall() - entry.at <= KEPT_SECONDS:
                found[name[:500]] = entry
        return found


def _entry(raw: Any) -> _Entry | None:
    try:
        return _Entry.model_validate_json(json.dumps(raw))
    except ValidationError:
        return None
