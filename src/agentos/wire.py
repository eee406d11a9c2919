"""The messages between coordinator and worker: small JSON objects with a fixed schema.

What a worker sends is typed and bounded here, in one place, because a worker runs graphs and talks to servers
of other people. How a message becomes bytes: see `frames`.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, PlainValidator

from agentos import audit_record as records
from agentos.audit_record import Count, JournalId, Name, Seconds, Text, Tokens
from agentos.decisions import Decision
from agentos.lease import LeaseNumber
from agentos.model import CallError, LimitName, Usage
from agentos.model_access import PROXY_LOGIN, Kind, RoleOptions
from agentos.model_facts import ModelFacts
from agentos.repo_map.parts import NO_MAP, Reading, RepositoryMap
from agentos.secret import Secret


class ProtocolError(Exception):
    """The other side sent something that is not a valid message."""


class Message(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, serialize_by_alias=True
    )


# From the coordinator to a worker.


class ItemData(Message):
    workflow: str
    id: str
    label: str
    title: str
    text: str
    source: str
    remote: bool = False
    whole: str = ""
    whole_hash: str = ""  # of the text as the coordinator has it; secrets are taken out on the way


def _secret(value: object, name: str) -> Secret:
    if isinstance(value, Secret):
        return value
    if not isinstance(value, str):
        raise ValueError("not a key")  # noqa: TRY004 - pydantic expects ValueError
    return Secret(name, value)


# A secret in a message, named by the field `key` or `name`; the only way for a secret to become part of one.
SentSecret = Annotated[
    Secret,
    PlainValidator(
        lambda value, info: _secret(value, info.data.get("key") or info.data.get("name") or "key")
    ),
    PlainSerializer(Secret.reveal),
]


class HeaderAccess(Message):
    """One extra header of a provider: a plain value, with a secret after it or without."""

    header: str
    value: str = ""
    name: str = ""  # of the secret
    secret: SentSecret | None = None


class ProxyAccess(Message):
    """A forward proxy with the user's login."""

    url: str
    user: str = ""
    name: str = PROXY_LOGIN
    password: SentSecret | None = None


class ProviderAccess(Message):
    """How a worker reaches the server of one provider."""

    kind: Kind
    base_url: str | None = None
    headers: tuple[HeaderAccess, ...] = ()
    proxy: ProxyAccess | None = None
    ca: str = ""  # a CA to trust besides the usual ones, PEM


class RemoteItem(Message):
    """What a worker on another machine needs to find and keep the state of its item."""

    id: int  # of the attempt, in the database
    project: str
    workflow: str
    item: str
    thread: str


class Job(Message):
    """Everything that a worker knows."""

    type: Literal["job"] = "job"
    run_id: str
    attempt: int
    item: ItemData
    worktree: str
    database: str
    drafter: str
    reviewer: str
    templates: dict[str, str] = Field(default_factory=dict)
    repository: RepositoryMap = NO_MAP
    look_rounds: int = 0  # how often the drafter may ask to read
    look_tokens: int = 0  # that it may read in all
    rules: str = ""  # the team's own
    language: str = ""
    fence_secret: str = Field(default="", repr=False)  # not a key, but nobody who writes texts may know it
    folders: dict[str, str] = Field(default_factory=dict)
    max_iterations: int
    max_retries: int
    call_timeout: float
    retry_failed: bool = False
    decisions: tuple[Decision, ...] = ()  # of people, as far as no document has them
    revise: bool = False  # the first draft revises the existing document
    keep_prompts: bool = False  # send prompts and answers to the coordinator, which keeps them
    trail: str = ""  # the item's folder in the lineage, if not the usual one
    providers: dict[str, ProviderAccess] = Field(default_factory=dict)  # those with a server, by name
    roles: dict[str, RoleOptions] = Field(default_factory=dict)
    facts: dict[str, ModelFacts] = Field(default_factory=dict)  # by provider:model
    mock_shell: bool = False
    environment: dict[str, str] = Field(default_factory=dict)
    remote: RemoteItem | None = None  # it runs on another machine than its submitter
    files: dict[str, str] = Field(default_factory=dict)  # what it depends on, by path in the worktree
    database_url: str = Field(default="", repr=False)  # of that state; never in the database itself


class LeaseGranted(Message):
    """The right to make one call with one key."""

    type: Literal["leased"] = "leased"
    number: int
    lease: LeaseNumber
    key: str
    secret: SentSecret
    probe: bool = False  # the provider was down: a failure to connect is not a try of the item


class LeaseRefused(Message):
    """No key can serve this request in this run, or none that its machine has."""

    type: Literal["lease_refused"] = "lease_refused"
    number: int
    reason: str
    own_fault: bool = False  # the request before was refused, and others are not: the item fails
    elsewhere: str = ""  # a provider: its keys on this machine are unusable, those of others may not be


class Vetted(Message):
    """The name of the secret in the texts, of any worker; None if there is none."""

    type: Literal["vetted"] = "vetted"
    number: int
    secret: str | None = None


class LookedUp(Message):
    """What a worker wanted to read."""

    type: Literal["looked_up"] = "looked_up"
    number: int
    reading: Reading


class Drain(Message):
    """Stop as soon as possible; a call in flight is given up."""

    type: Literal["drain"] = "drain"
    reason: str


# From a worker to the coordinator.


def _few(headers: Any) -> Any:
    """Keep a limited number of a server's headers; it may have sent any number."""
    if not isinstance(headers, dict) or not all(isinstance(one, str) for one in headers.values()):
        return headers
    return {
        name[: records.NAME]: value[: records.NAME] for name, value in list(headers.items())[:HEADERS_MOST]
    }


HEADERS_MOST = 50
Limited = Annotated[float, Field(ge=1, le=1e12)]
Headers = Annotated[dict[str, str], BeforeValidator(_few)]
KEPT_TEXT = 400_000  # characters
KeptText = Annotated[str, BeforeValidator(lambda text: text[:KEPT_TEXT] if isinstance(text, str) else text)]


class Hello(Message):
    type: Literal["hello"] = "hello"
    pid: Count
    resumed: bool
    warm: bool = False  # its imports were done before it was forked


class NodeStarted(Message):
    type: Literal["node_started"] = "node_started"
    node: Name
    reviews: Count = 0


class NodeEnded(Message):
    type: Literal["node_ended"] = "node_ended"
    node: Name
    seconds: Seconds


class LeaseWanted(Message):
    type: Literal["lease_wanted"] = "lease_wanted"
    number: Count
    provider: Name
    model: Text  # as the settings name it
    tokens: Tokens
    prompt_tokens: Tokens = 0  # the part of `tokens` that is sent
    role: Name = ""
    tries: Count = 0  # how often this call failed before
    after: LeaseNumber = 0  # the lease of its last try
    only: tuple[Name, ...] | None = None  # the keys that its machine has; None: those of the submitter
    fingerprints: tuple[str, ...] = ()  # of these keys, salted with the name of the run


class Vet(Message):
    """Texts of a server, before they are used; a worker knows only its own keys."""

    type: Literal["vet"] = "vet"
    number: Count
    texts: tuple[str, ...]


class LookUp(Message):
    """What a worker wants to read of the repository."""

    type: Literal["look_up"] = "look_up"
    number: Count
    wishes: Annotated[tuple[Text, ...], Field(max_length=1_000)] = ()
    names: Annotated[tuple[Name, ...], Field(max_length=1_000)] = ()  # whose definitions are wanted
    known: Annotated[tuple[tuple[str, int, int], ...], Field(max_length=10_000)] = ()  # lines it has already
    tokens: Tokens


class Kept(Message):
    """Where the answer to a call is in its item's journal."""

    journal_id: JournalId
    number: Count
    node: Name = ""
    tries: Count = 1
    prompt_version: Name = ""


class CallSettled(Message):
    """The result of a leased call."""

    type: Literal["settled"] = "settled"
    lease: LeaseNumber
    seconds: Seconds
    tokens_in: Tokens = 0
    tokens_out: Tokens = 0
    tokens_cached: Tokens = 0
    tokens_cache_written: Tokens = 0
    tokens_reasoning: Tokens = 0
    tokens_exempt: Tokens = 0
    served: Name = ""  # the model, as the server names it
    kept: Kept | None = None  # answered, and used as a result
    error: CallError | None = None
    message: Text = ""
    retry_after: Seconds | None = None
    quota_reset: Seconds | None = None
    headers: Headers = Field(default_factory=dict)
    limits: dict[LimitName, Limited] = Field(default_factory=dict)  # that a refusal names
    unverified: bool = False  # whether `served` is the model asked for cannot be told from the names
    facts: ModelFacts | None = None  # what the server said about the model, if it said anything new

    @property
    def usage(self) -> Usage:
        return Usage(**self.model_dump(include=set(Usage().counts())))


class CallTexts(Message):
    """Prompt and answer of a call, for the run's folder. Sent only if the user keeps them."""

    type: Literal["call_texts"] = "call_texts"
    role: Name
    number: Count  # of the call, from 1, per role and item
    system: KeptText
    prompt: KeptText
    answer: KeptText


class Beat(Message):
    """The worker is alive and has nothing else to report."""

    type: Literal["beat"] = "beat"


class Audit(Message):
    """One record of the item's audit trail."""

    type: Literal["audit"] = "audit"
    record: records.Audited


class PaidBefore(Message):
    """A call of an earlier process, from the journal. The coordinator may or may not know it."""

    type: Literal["paid_before"] = "paid_before"
    record: records.CallRecord


class Ended(Message):
    """The last message of a worker: how its item ended."""

    type: Literal["ended"] = "ended"
    status: Literal["approved", "needs_revision", "discuss", "failed", "interrupted"]
    verdict: Name | None = None
    reviews: Count = 0
    output: Text | None = None
    text_hash: Name = ""  # of the approved document
    error: Text | None = None
    noted: Count | None = None  # the latest note that the models got; None: all
    questions: records.Texts = Field(default_factory=list)  # open ones, numbered
    dropped: records.Texts = Field(default_factory=list)  # lines of a person that the approved document lacks
    given_back: bool = False  # nothing is wrong with the item: it cannot run here now


ToWorker = Annotated[
    Job | LeaseGranted | LeaseRefused | Vetted | LookedUp | Drain, Field(discriminator="type")
]
ToCoordinator = Annotated[
    Hello
    | NodeStarted
    | NodeEnded
    | LeaseWanted
    | Vet
    | LookUp
    | CallSettled
    | CallTexts
    | Beat
    | Audit
    | PaidBefore
    | Ended,
    Field(discriminator="type"),
]
