"""What files define and refer to: from the cache, or from the parser. Coordinator process."""

from agentos.repo_map.cache import MapCache
from agentos.repo_map.tag_process import TagProcess
from agentos.repo_map.tags import Tags, language_of

MAX_PARSED = 400_000  # characters; the rest of a longer file is not parsed


class Parsed:
    """Parses each text once, for all runs."""

    def __init__(self, cache: MapCache, parser: TagProcess | None = None) -> None:
        self._cache = cache
        self._parser = parser or TagProcess()
        self._kept: dict[str, object] | None = None  # by language and blob, as the cache has it
        self._new: dict[str, object] = {}
        self._tags: dict[str, Tags] = {}

    def tags(self, path: str, blob: str, text: str) -> Tags:
        """What a file defines and refers to; nothing if there is no parser for it."""
        language = language_of(path)
        if language is None:
            return Tags()
        name = f"{language}:{blob}"
        if name not in self._tags:
            self._tags[name] = self._from_cache(name) or self._parsed(name, language, text)
        return self._tags[name]

    def close(self) -> None:
        """End the parser, and keep what it found."""
        self._parser.stop()
        if self._new:
            self._cache.put_tags(self._new)
            self._new = {}

    def _from_cache(self, name: str) -> Tags | None:
        if self._kept is None:
            self._kept = self._cache.tags()
        try:
            return Tags.from_json(self._kept[name])
        except (KeyError, ValueError):
            return None

    def _parsed(self, name: str, language: str, text: str) -> Tags:
        tags = self._parser.parse(language, text[:MAX_PARSED])
        if tags is None:
            return Tags()
        self._new[name] = tags.to_json()
        return tags
