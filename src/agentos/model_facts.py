"""What servers said about requests to a model. Worker and coordinator process. Pure.

A server that refuses a request often names the right parameter or the largest value. That is kept for later
calls. It comes from a server and is kept in a file, so it is checked whenever it is read.
"""

from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

SMALLEST_OUTPUT = 256  # tokens; with less, no document can be written
LARGEST = 100_000_000  # tokens; no model has more
# What a request can do without. The reply may get worse, but there is one.
OptionalParameter = Literal[
    "temperature",
    "reasoning_effort",
    "prompt_cache_key",
    "response_format",
    "thinking",
    "cache_control",
    "tool_choice",
    "thinkingConfig",
    "responseJsonSchema",
]
OPTIONAL: tuple[str, ...] = get_args(OptionalParameter)
LimitName = Literal["max_tokens", "max_completion_tokens"]
Amount = Annotated[int, Field(ge=SMALLEST_OUTPUT, le=LARGEST)]


class ModelFacts(BaseModel):
    """What a request to one model has to look like, as far as its server has said."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    limit_name: LimitName | None = None  # how the output limit is called, if not by the usual name
    max_output: Amount | None = None  # the most tokens that may be asked for
    context: Amount | None = None  # the most tokens of a request and its reply together
    unsupported: Annotated[tuple[OptionalParameter, ...], Field(max_length=len(OPTIONAL))] = ()

    def described(self, before: "ModelFacts") -> tuple[str, ...]:
        """What is new compared to `before`, for people."""
        told = []
        if self.limit_name not in {None, before.limit_name}:
            told.append(f"takes its output limit as {self.limit_name}")
        if self.max_output not in {None, before.max_output}:
            told.append(f"writes at most {self.max_output:,} tokens")
        if self.context not in {None, before.context}:
            told.append(f"takes at most {self.context:,} tokens in all")
        told += [
            f"does not accept {one}; it is left out"
            for one in self.unsupported
            if one not in before.unsupported
        ]
        return tuple(told)


UNKNOWN = ModelFacts()
