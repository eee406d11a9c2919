"""What a run would do and cost. No call, no write, no LangGraph."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentos.app.claim_items import plan_items
from agentos.app.request import RunRequest, source_change
from agentos.coordinator.estimate import CostEstimate, estimate
from agentos.coordinator.plan import PlanAction, PlannedItem
from agentos.model import Usage
from agentos.money import PriceTable
from agentos.store.records import Records, Taken
from agentos.store.run_folder import live_runs

CALLS_AT_LEAST = 2  # a draft and a review
LETTERS_A_TOKEN = 4  # rough estimate, the same as before a call


@dataclass(frozen=True, kw_only=True)
class Preview:
    """A plan that is shown but not carried out."""

    request: RunRequest
    entries: tuple[PlannedItem, ...]
    calls_low: int
    calls_high: int
    cost: CostEstimate
    unpriced: tuple[str, ...]  # the models that are set and have no known price
    moved: str | None  # what to say if the last run took items from elsewhere
    live: tuple[str, ...]  # runs that are running now


def preview(request: RunRequest) -> Preview:
    """Plan the request on the records as they are."""
    name, settings, home = request.flow.name, request.settings, request.project.home
    with Records(home.records, write=False, mock=request.mock) as records:
        entries = plan_items(request, records)
        history = records.tokens_of_items(name, **request.models)
        moved = None if request.mock else source_change(request, records.source(name))
    running = [entry for entry in entries if entry.runs]
    return Preview(
        request=request,
        entries=entries,
        calls_low=sum(CALLS_AT_LEAST for entry in running if entry.step is not PlanAction.RESUME),
        calls_high=len(running) * settings.max_iterations * 2,
        cost=estimate_cost(request, running, history),
        unpriced=_unpriced(request),
        moved=moved,
        live=tuple(run.name for run in live_runs(home)),
    )


def _unpriced(request: RunRequest) -> tuple[str, ...]:
    prices = PriceTable(own=request.project.config.prices)
    models = dict.fromkeys(model for model in request.models.values() if model)
    return tuple(model for model in models if not prices.knows(model))


def estimate_cost(
    request: RunRequest, running: Sequence[PlannedItem], history: Sequence[Mapping[str, Taken]]
) -> CostEstimate:
    """What the running entries will cost, judged by the tokens of earlier items."""
    prices = PriceTable(own=request.project.config.prices)

    def cost(role: str, tokens_in: int, tokens_out: int) -> float | None:
        provider, _, model = (request.models.get(role) or "").partition(":")
        return prices.cost(provider, model, Usage(tokens_in=tokens_in, tokens_out=tokens_out))

    resumed = sum(entry.step is PlanAction.RESUME for entry in running)
    return estimate(
        fresh=len(running) - resumed,
        resumed=resumed,
        history=history,
        rounds=request.settings.max_iterations,
        cost=cost,
        context=sum(len(name) + len(text) for name, text in request.context.items()) // LETTERS_A_TOKEN,
    )
