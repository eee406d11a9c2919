"""Changes the request of one call as the server says, within bounds. Worker process."""

from dataclasses import replace

from agentos.llm.correction import CORRECTIONS_MOST, output_limit
from agentos.llm.provider import USUAL_OUTPUT, Cancel, CutReply, ModelRequest, Provider, ProviderError, Reply
from agentos.model import REFUSED_REQUEST
from agentos.model_facts import UNKNOWN, ModelFacts
from agentos.secret import Secret

LARGER_OUTPUT = 64_000  # tokens to ask for after a reply was cut; the server says if that is too much


class RequestShape:
    """The request of one call, changed as the server says. Every change is bounded."""

    def __init__(self, request: ModelRequest, facts: ModelFacts, *, larger: bool) -> None:
        self.facts = facts
        self.larger = larger and request.max_output_tokens == USUAL_OUTPUT
        self.cut_at = 0  # tokens; where the last reply was cut
        self._wanted = LARGER_OUTPUT if self.larger else request.max_output_tokens
        self._corrections = 0
        self._may_grow = request.max_output_tokens == USUAL_OUTPUT and not larger
        self.request = self._shaped(request)

    def change(self, error: ProviderError) -> bool:
        """Change the request so that it is worth making again at once; False if there is no such change."""
        if isinstance(error, CutReply):
            return self._grow(error)
        if error.correction is None or self._corrections >= CORRECTIONS_MOST:
            return False
        self._corrections += 1
        before = self.request
        facts = error.correction.applied(self.facts)
        if (room := error.correction.room) is not None:
            self._wanted = min(self._wanted, room)
        self.facts = facts
        self.request = self._shaped(before)
        return self.request != before and self.request.max_output_tokens > self.cut_at

    def was_cut(self, error: ProviderError) -> bool:
        """Whether the call failed because its reply is too long: it was cut, or no longer one is allowed."""
        refused = error.error_class in REFUSED_REQUEST and self.cut_at > 0
        return isinstance(error, CutReply) or refused

    def _grow(self, error: CutReply) -> bool:
        """Ask once for a longer reply. A limit that the user set, or that is fixed, stays."""
        before = self.request
        self.cut_at = before.max_output_tokens
        if not self._may_grow or error.fixed:
            return False
        self._may_grow, self.larger = False, True
        self._wanted = LARGER_OUTPUT
        self.request = self._shaped(before)
        return self.request.max_output_tokens > self.cut_at

    def _shaped(self, request: ModelRequest) -> ModelRequest:
        limit = output_limit(self._wanted, prompt_tokens(request), self.facts)
        return replace(request, max_output_tokens=limit, facts=self.facts)


def prompt_tokens(request: ModelRequest) -> int:
    """Estimate how many tokens are sent."""
    return (len(request.system) + len(request.prompt)) // 4


def corrected_call(provider: Provider, request: ModelRequest, *, secret: Secret, cancel: Cancel) -> Reply:
    """Make a call outside of a run. A reply that is cut is a reply: the model answers."""
    shape = RequestShape(request, UNKNOWN, larger=False)
    while True:
        try:
            return provider.call(shape.request, secret=secret, cancel=cancel)
        except CutReply as cut:
            return Reply(text="", model=cut.model, headers=cut.headers, **cut.usage.counts())
        except ProviderError as error:
            if not shape.change(error):
                raise
