"""Opens the repository once per command, and makes the map of each item. Coordinator process."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from agentos import redact
from agentos.app.project import Project
from agentos.errors import ItemFailed
from agentos.model import Item
from agentos.repo_map.parts import Part, PartKind, Range, Reading, RepositoryMap
from agentos.settings import Settings

if TYPE_CHECKING:
    from agentos.repo_map.repository import TrackedRepository

NAMED = "named with --context"
NAMED_TOKENS = 25_000  # for the files that an item names, where the map is turned off
FILES_LETTERS = 6_000_000  # of all tracked paths together; a design is not checked against more


@dataclass(frozen=True, kw_only=True)
class Maps:
    """Makes the map of each item; every map begins with the same bytes."""

    repository: "TrackedRepository | None" = None  # None: the map is turned off, or git tracks nothing here
    tokens: int = 0
    named: tuple[Part, ...] = ()  # files that the user gives to every item, in addition to the map
    files: tuple[str, ...] = ()  # every tracked file; empty if unknown
    open_repository: "Callable[[], TrackedRepository | None]" = lambda: None  # for an item that names files

    @property
    def commit(self) -> str:
        """The commit that the worktree stands on, shortened; empty if git was not asked or cannot say."""
        return "" if self.repository is None else self.repository.commit

    def of(self, item: Item) -> RepositoryMap:
        """The map of one item; ItemFailed if it names a file that may not be sent."""
        repository = self.open_repository() if self.repository is None and item.context else self.repository
        if repository is None:
            if item.context:
                raise ItemFailed(_refusal(item, item.context[0], "git tracks no file here"))
            return RepositoryMap(shared=self.named, files=self.files)
        named = [PurePosixPath(path).as_posix() for path in item.context]
        _check_named(item, named, repository)
        if self.repository is None:
            found = repository.only_named(named, tokens=NAMED_TOKENS)
        else:
            found = repository.map_for(item, tokens=self.tokens, named=named)
        why = {one.path: one.why for one in found.left_out}
        for path in named:
            if path in why:
                raise ItemFailed(_refusal(item, path, why[path]))
        mine = {part.path for part in self.named}
        # A file that is given whole to every item is not shown again.
        shared = tuple(part for part in found.shared if part.path not in mine)
        kept = tuple(part for part in found.own if part.path not in mine)
        return replace(found, shared=shared + self.named, own=kept, files=self.files)

    def look_up(
        self, *, wishes: Sequence[str], names: Sequence[str], known: Sequence[Range], tokens: int
    ) -> Reading:
        """What a model asked to read; nothing if the map is turned off."""
        if self.repository is None:
            return Reading()
        return self.repository.look_up(wishes=wishes, names=names, known=known, tokens=tokens)


def _check_named(item: Item, named: Sequence[str], repository: "TrackedRepository") -> None:
    """Refuse files that git does not track: an item may have been written by anybody."""
    for path in named:
        known = (
            path == "."
            or path in repository.files
            or any(one.startswith(f"{path}/") for one in repository.files)
        )
        if not known:
            raise ItemFailed(_refusal(item, path, "git does not track it"))


def _refusal(item: Item, path: str, why: str) -> str:
    from agentos.repo_map.file_kinds import EXCLUDED  # noqa: PLC0415 - many patterns

    allow = ""
    if why == EXCLUDED:
        allow = ", or change context_exclude; 'agentos config' shows where it is set"
    elif any(word in why for word in ("looks like", "secret", "password", "decrypted")):
        allow = ", or allow it with context_allow in your configuration file"
    return f"context in {item.source} names {path!r}, which cannot be sent: {why}. Remove it there{allow}"


@contextmanager
def open_maps(
    project: Project,
    settings: Settings,
    named: Mapping[str, str],
    *,
    items: Iterable[Item],
    tokens: int | None = None,
    save: bool,
) -> Iterator[Maps]:
    """Look at the repository for these items; `save` allows writing the cache in the home."""
    everything = list(items)
    committed = any(item.remote for item in everything)
    room = settings.context_tokens if tokens is None else tokens
    files = tuple(Part(kind=PartKind.FILE, path=path, text=text, why=NAMED) for path, text in named.items())
    opened: list[TrackedRepository] = []

    @cache
    def open_repository() -> "TrackedRepository | None":
        found = _open(project, settings, committed=committed, save=save)
        if found is not None:
            opened.append(found)
            found.share_among(everything)
        return found

    # Whoever asks for a map of no tokens wants to see the ranking.
    repository = open_repository() if room or tokens is not None else None
    tracked = _tracked(project) if repository is None else sorted(repository.files)
    known = tuple(tracked) if sum(map(len, tracked)) <= FILES_LETTERS else ()
    try:
        yield Maps(
            repository=repository, tokens=room, named=files, files=known, open_repository=open_repository
        )
    finally:
        for one in opened:
            one.close()


def _open(project: Project, settings: Settings, *, committed: bool, save: bool) -> "TrackedRepository | None":
    from agentos.repo_map.file_kinds import MapOptions  # noqa: PLC0415 - not needed if the map is turned off
    from agentos.repo_map.repository import TrackedRepository  # noqa: PLC0415

    return TrackedRepository.at(
        project.worktree,
        project.config.environment,
        options=MapOptions(
            lineage_folder=settings.lineage_folder,
            backlog_folders=(settings.issues_folder, settings.briefs_folder),
            design_folders=(settings.lld_folder,),
            exclude=settings.context_exclude,
            allow=settings.context_allow,
            holds_key=lambda text: redact.find(text) is not None,
        ),
        committed=committed,
        cache=project.home.tree,
        write_cache=save,
    )


def _tracked(project: Project) -> Sequence[str]:
    from agentos.git_tracked import tracked  # noqa: PLC0415 - only if there is no map

    return sorted(tracked(project.worktree, (), project.config.environment, links=True) or ())
