"""What may be in an item's audit trail: known kinds, typed and bounded, and a graph's own kinds. Pure.

A worker runs other people's graphs, so the coordinator checks every record with these models. Long texts are
cut; an invalid number is refused.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    ValidationError,
    model_validator,
)

MOST = 10**9  # of anything that is counted
TOKENS_MOST = 10**12  # of one call, even if a program made several
SECONDS_MOST = 1e9
LARGEST = 2**63 - 1  # that a database can hold
NAME, TEXT = 200, 2_000  # characters
LIST_MOST = 200
OWN_BYTES = 64_000  # of all fields in a graph's own record
OWN_DEPTH = 8
LEFT_OUT = "(left out)"


def _cut(most: int) -> BeforeValidator:
    return BeforeValidator(lambda value: value[:most] if isinstance(value, str | list) else value)


Count = Annotated[int, Field(ge=0, le=MOST)]
Tokens = Annotated[int, Field(ge=0, le=TOKENS_MOST)]
Seconds = Annotated[float, Field(ge=0, le=SECONDS_MOST)]
Name = Annotated[str, _cut(NAME)]
# The journal of an item that a call is in; files and databases call it "life".
JournalId = Annotated[
    Name, Field(validation_alias=AliasChoices("life", "journal_id"), serialization_alias="life")
]
Text = Annotated[str, _cut(TEXT)]
Texts = Annotated[list[Text], _cut(LIST_MOST)]


class Record(BaseModel):
    """Strict: text is not accepted as a number."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, serialize_by_alias=True
    )

    node: Name = ""


class CallRecord(Record):
    """A call that was answered and therefore paid for."""

    # A journal may be from another version; unknown fields are ignored.
    model_config = ConfigDict(extra="ignore")

    kind: Literal["call"]
    role: Name
    number: Count
    model: Name
    served: Name = ""
    key: Name = ""
    tokens_in: Tokens
    tokens_out: Tokens
    tokens_cached: Tokens = 0
    tokens_cache_written: Tokens = 0
    tokens_reasoning: Tokens = 0
    seconds: Seconds = 0.0
    tries: Count = 1
    prompt_version: Name = ""
    journal_id: JournalId


class GateRecord(Record):
    """What the gate found in a draft."""

    kind: Literal["gate"]
    draft: Count
    missing: Texts = Field(default_factory=list)
    paths: Texts = Field(default_factory=list)  # that do not fit the files of the repository
    absent: Texts = Field(default_factory=list)  # names that occur nowhere in the repository
    notes: Texts = Field(default_factory=list)
    lineage: Name = ""
    file: Name = ""


class LookRecord(Record):
    """What a model asked to read, and what it got."""

    kind: Literal["look"]
    role: Name
    look: Count
    wishes: Texts = Field(default_factory=list)
    answers: Texts = Field(default_factory=list)
    refused: Texts = Field(default_factory=list)
    definitions: Count = 0
    read: Texts = Field(default_factory=list)
    tokens: Tokens = 0


class FindingRecord(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    tier: Count
    category: Name = ""
    title: Text = ""
    text: Text = ""
    recommendation: Text = ""


class LedgerRecord(FindingRecord):
    """A finding as it stands after a review."""

    number: Count
    state: Name
    where: Text = ""
    returned: bool = False


class VerdictRecord(Record):
    """What a review said."""

    kind: Literal["verdict"]
    review: Count
    call: Count = 0  # of the reviewer, with which it came; 0: the same number
    verdict: Name
    reason: Text | None = None
    findings: Annotated[list[FindingRecord], _cut(LIST_MOST)] = Field(default_factory=list)
    ledger: Annotated[list[LedgerRecord], _cut(LIST_MOST)] = Field(default_factory=list)  # after this review
    questions: Texts = Field(default_factory=list)  # open after this review
    model: Name = ""
    lineage: Name = ""
    file: Name = ""


class DecisionRecord(Record):
    """What a person decided."""

    kind: Literal["decision"]
    reviews: Count
    answer: Name
    note: Text = ""
    by: Name = ""
    at: Name = ""


# Only the coordinator records calls, from what it granted and what was settled.
CALL_KINDS = frozenset({"call", "failed_call"})


class OwnRecord(Record):
    """A record of a graph's own kind. Its fields are under one key."""

    kind: Name
    fields: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.kind in CALL_KINDS:
            raise ValueError(f"the kind {self.kind!r} is reserved")
        if plain_fields(self.fields) != self.fields:
            raise ValueError("the fields are too large or are not JSON")
        return self


_KINDS = {"gate", "look", "verdict", "decision"}
Audited = Annotated[
    Annotated[GateRecord, Tag("gate")]
    | Annotated[LookRecord, Tag("look")]
    | Annotated[VerdictRecord, Tag("verdict")]
    | Annotated[DecisionRecord, Tag("decision")]
    | Annotated[OwnRecord, Tag("own")],
    Discriminator(lambda given: kind if (kind := _kind_of(given)) in _KINDS else "own"),
]
_AUDITED: TypeAdapter[GateRecord | LookRecord | VerdictRecord | DecisionRecord | OwnRecord] = TypeAdapter(
    Audited
)


def _kind_of(given: Any) -> Any:
    kind = given.get("kind") if isinstance(given, Mapping) else getattr(given, "kind", None)
    return kind if isinstance(kind, str) else None


def audited(
    kind: str, fields: Mapping[str, Any]
) -> GateRecord | LookRecord | VerdictRecord | DecisionRecord | OwnRecord:
    """Make a record of a known kind or of a graph's own; ValueError says what is not valid."""
    content = fields if kind in _KINDS or kind in CALL_KINDS else {"fields": plain_fields(fields)}
    try:
        return _AUDITED.validate_python({"kind": kind} | dict(content))
    except ValidationError as exc:
        raise ValueError(f"the record {kind[:NAME]!r} is not valid: {first_error(exc)}") from None


def first_error(exc: ValidationError) -> str:
    """Say what is wrong, not what was sent: that may be a secret, or very long."""
    first = exc.errors(include_input=False, include_url=False, include_context=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg']}"[:TEXT]


def plain_fields(fields: Mapping[Any, Any]) -> dict[str, Any]:
    """Turn whatever a graph wants to record into JSON of limited size."""
    plain: dict[str, Any] = _Plain().of(fields, OWN_DEPTH)
    return plain


class _Plain:
    """Turns a value into JSON until the size limit is reached."""

    def __init__(self) -> None:
        self._room = OWN_BYTES

    def of(self, value: Any, depth: int) -> Any:  # noqa: PLR0911 - a table of cases
        self._room -= 8
        if self._room <= 0 or depth <= 0:
            return LEFT_OUT
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            fits = -LARGEST <= value <= LARGEST
            return int(value) if fits else self._text(f"about 2**{value.bit_length()}")
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else self._text(str(float(value)))
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Mapping):
            return self._table(value, depth)
        if isinstance(value, list | tuple | set | frozenset):
            return [self.of(one, depth - 1) for one in list(value)[: self._room // 8]]
        return self._text(_described(value))

    def _table(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, one in value.items():
            if self._room <= 0:
                break
            name = self._text(key if isinstance(key, str) else _described(key))[:NAME]
            made[name] = self.of(one, depth - 1)
        return made

    def _text(self, text: str) -> str:
        # Half of a surrogate pair cannot be encoded in UTF-8, where a character has at most four bytes.
        kept = str.__str__(text)[: max(0, self._room // 4)].encode("utf-8", errors="replace").decode()
        self._room -= len(kept.encode())
        return kept


def _described(value: object) -> str:
    """The repr of a value. It may be any class, so repr may fail."""
    try:
        return repr(value)
    except Exception:  # noqa: BLE001
        return f"a {type(value).__name__}"
