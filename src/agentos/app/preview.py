"""What a run would do and cost. No call, no write, no LangGraph."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from agentos.app.claim_items import plan_items
from agentos.app.maps import Maps, open_maps
from agentos.app.request import RunRequest, source_change
from agentos.coordinator.estimate import Cost, CostEstimate, Work, estimate, work_of
from agentos.coordinator.plan import PlannedItem
from agentos.errors import ItemFailed
from agentos.model import Usage
from agentos.money import PriceTable
from agentos.repo_map.parts import tokens_in
from agentos.store.records import Taken
from agentos.store.run_folder import live_runs


@dataclass(frozen=True, kw_only=True)
class MapSizes:
    """The repository maps of the items that would run."""

    tokens: dict[str, int]  # by item
    problems: dict[str, str]  # by item: why it has none
    commit: str
    changed: int  # tracked files with uncommitted changes, which are sent as they are
    prices: dict[str, float | None]  # USD that a map of usual size adds to a call, by role

    @property
    def usual(self) -> int:
        """The size that half of the maps exceed."""
        return int(median(self.tokens.values())) if self.tokens else 0


@dataclass(frozen=True, kw_only=True)
class Preview:
    """A plan that is shown but not carried out."""

    request: RunRequest
    entries: tuple[PlannedItem, ...]
    work: dict[str, Work]  # calls of the items that would run, by id
    cost: CostEstimate
    maps: MapSizes
    unpriced: tuple[str, ...]  # the models that are set and have no known price
    moved: str | None  # what to say if the last run took items from elsewhere
    live: tuple[str, ...]  # runs that are running now


def preview(request: RunRequest) -> Preview:
    """Plan the request on the records as they are."""
    name, home = request.flow.name, request.project.home
    with home.open_records(write=False, mock=request.mock) as records:
        entries = plan_items(request, records)
        history = records.tokens_of_items(name, **request.models)
        moved = None if request.mock else source_change(request, records.source(name))
    running = [entry for entry in entries if entry.runs]
    sizes = _map_sizes(request, running)
    return Preview(
        request=request,
        entries=entries,
        work={entry.item.id: _work(request, entry, mapped=bool(sizes.usual)) for entry in running},
        cost=estimate_cost(request, running, history, repository=sizes.usual),
        maps=sizes,
        unpriced=_unpriced(request),
        moved=moved,
        live=tuple(run.name for run in live_runs(home)),
    )


def _work(request: RunRequest, entry: PlannedItem, *, mapped: bool) -> Work:
    settings = request.settings
    found = work_of(entry, rounds=settings.max_iterations, retried=settings.retry_failed)
    return found.with_looks(settings.look_rounds) if _looks(request, mapped=mapped) else found


def _looks(request: RunRequest, *, mapped: bool) -> bool:
    """Whether the models are asked what they want to read."""
    settings = request.settings
    return mapped and request.flow.name == "lld" and settings.look_rounds > 0 and settings.look_tokens > 0


def _unpriced(request: RunRequest) -> tuple[str, ...]:
    prices = PriceTable(own=request.project.config.prices)
    models = dict.fromkeys(model for model in request.models.values() if model)
    return tuple(model for model in models if not prices.knows(model))


def _map_sizes(request: RunRequest, running: Sequence[PlannedItem]) -> MapSizes:
    """Make every map, to know its size; the cache in the home is read, not written."""
    nothing = MapSizes(tokens={}, problems={}, commit="", changed=0, prices={})
    if not running:
        return nothing
    with open_maps(request.project, request.settings, {}, items=request.items, save=False) as maps:
        tokens, problems = _made(maps, running)
    if maps.repository is None:
        return replace(nothing, problems=problems)
    sizes = MapSizes(
        tokens=tokens,
        problems=problems,
        commit=maps.repository.commit,
        changed=len(maps.repository.changed),
        prices={},
    )
    cost = _cost(request)
    return replace(sizes, prices={role: cost(role, Usage(tokens_in=sizes.usual)) for role in request.models})


def _made(maps: Maps, running: Sequence[PlannedItem]) -> tuple[dict[str, int], dict[str, str]]:
    tokens: dict[str, int] = {}
    problems: dict[str, str] = {}
    for entry in running:
        try:
            tokens[entry.item.id] = maps.of(entry.item).tokens
        except ItemFailed as exc:
            problems[entry.item.id] = str(exc)
    return tokens, problems


def _cost(request: RunRequest) -> Cost:
    prices = PriceTable(own=request.project.config.prices)

    def cost(role: str, usage: Usage) -> float | None:
        provider, _, model = (request.models.get(role) or "").partition(":")
        return prices.cost(provider, model, usage)

    return cost


def estimate_cost(
    request: RunRequest,
    running: Sequence[PlannedItem],
    history: Sequence[Mapping[str, Taken]],
    *,
    repository: int = 0,
) -> CostEstimate:
    """What the running entries will cost, judged by the tokens of earlier items."""
    added = "".join([request.rules, *(name + text for name, text in request.context.items())])
    return estimate(
        [_work(request, entry, mapped=repository > 0) for entry in running],
        history=history,
        rounds=request.settings.max_iterations,
        cost=_cost(request),
        repository=repository,
        context=tokens_in(added),
        read=request.settings.look_tokens if _looks(request, mapped=repository > 0) else 0,
    )
