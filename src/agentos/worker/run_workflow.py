"""Runs the graph of one item, from its checkpoint if there is one; returns its status. Worker process."""

import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl
from pydantic import ValidationError

from agentos.audit_record import MOST, CallRecord, audited, first_error
from agentos.errors import AgentosError, ItemFailed, NoUsableKey, StopRequested, StorageBusy, StorageError
from agentos.llm.caller import Caller, Made
from agentos.llm.leaked_secrets import REMOVED
from agentos.llm.provider import Cancel, ModelRequest, Reply, Role, schema_name
from agentos.llm.providers import make_provider
from agentos.model import Item
from agentos.model_access import RoleOptions, provider_of
from agentos.repo_map.parts import Range, Reading
from agentos.store.rooted_tree import PathRefused
from agentos.wire import Audit, CallTexts, Ended, Hello, Job, Kept, NodeEnded, NodeStarted, PaidBefore
from agentos.worker.checkpoint import open_checkpoint
from agentos.worker.journal import INVALID_CALL, ItemCheckpoint
from agentos.worker.link import Link
from agentos.workflows.looking import LOOK
from agentos.workflows.prompts import Prompt
from agentos.workflows.registry import ItemContext, workflow

WARM_MODULE = "agentos.worker.server_warmup"
RECURSION_LIMIT = 1_000  # graph steps; the limits of the review loop end it long before


def run_job(job: Job, link: Link, cancel: Cancel) -> Ended:
    """Carry out the job. Whatever happens, there is an ending to report."""
    try:
        with _checkpoint(job) as checkpoint:
            return _Runner(job, link, cancel, checkpoint).run()
    except (StopRequested, GraphDrained):
        return Ended(status="interrupted")
    except NoUsableKey as exc:
        return Ended(status="interrupted", error=str(exc))
    except AgentosError as exc:
        # Another machine may reach the database.
        given_back = isinstance(exc, StorageBusy) and job.remote is not None
        return Ended(status="interrupted" if given_back else "failed", error=str(exc), given_back=given_back)
    except (PathRefused, PermissionError, NotADirectoryError, IsADirectoryError) as exc:
        return Ended(
            status="failed", error=f"{exc.filename}: {exc.strerror}. Remove it, then run the item again."
        )
    except Exception as exc:  # noqa: BLE001 - the outer boundary: the traceback goes to the item's log
        traceback.print_exc()
        return Ended(
            status="failed", error=f"unexpected error, see the log: {type(exc).__name__}: {exc}"[:500]
        )


def _checkpoint(job: Job) -> AbstractContextManager[ItemCheckpoint]:
    if job.remote is None:
        return open_checkpoint(Path(job.database), job.item.label)
    from agentos.worker.postgres_checkpoint import open_postgres_checkpoint  # noqa: PLC0415 - only with the extra

    return open_postgres_checkpoint(job.database_url, job.remote, Path(job.worktree))


class _Runner:
    """One item's graph, and the tools it is given."""

    def __init__(self, job: Job, link: Link, cancel: Cancel, checkpoint: ItemCheckpoint) -> None:
        self._job = job
        self._link = link
        self._cancel = cancel
        self._checkpoint = checkpoint
        self._item = Item(**job.item.model_dump())
        self._node = ""
        self._callers: dict[tuple[str, float], Caller] = {}  # by provider and seconds for one call

    def run(self) -> Ended:
        control = RunControl()
        self._cancel.on_set(control.request_drain)
        config: Any = {
            "configurable": {"thread_id": self._checkpoint.thread},
            "recursion_limit": RECURSION_LIMIT,
        }
        resumed = self._checkpoint.begun(config)
        self._link.send(Hello(pid=os.getpid(), resumed=resumed, warm=WARM_MODULE in sys.modules))
        for record in self._checkpoint.paid_before():
            # The process that paid may have died before it reported the call.
            try:
                self._link.send(PaidBefore(record=CallRecord.model_validate(record)))
            except ValidationError as exc:
                raise StorageError(INVALID_CALL) from exc
        ended = self._walk(config, control, resumed=resumed, revise=self._job.revise)
        latest = max((one.id for one in self._job.decisions if not one.used), default=0)
        if resumed and ended.status == "approved" and ended.noted is not None and ended.noted < latest:
            # The run that approved it was killed before it could say so; since then a person sent it back.
            self._checkpoint.clear()
            ended = self._walk(config, control, resumed=False, revise=True)
        return ended

    def _walk(self, config: Any, control: RunControl, *, resumed: bool, revise: bool) -> Ended:
        flow = workflow(self._item.workflow)
        graph = flow.build(self._context(revise=revise), self).compile(checkpointer=self._checkpoint.saver)
        began: dict[str, float] = {}
        # `next == ()` does not mean finished: it is also () after a kill in between. So always continue.
        for task in graph.stream(
            None if resumed else flow.start(), config, stream_mode="tasks", durability="sync", control=control
        ):
            self._report(task, began)
        state = graph.get_state(config)
        held = state.interrupts[0].value if state.interrupts else None
        return self._ending(flow.ending, state.values, held)

    def _ending(self, describe: Callable[[Any, Any], Any], state: Any, held: Any) -> Ended:
        """How the workflow says that its item ended. It may be anyone's code, so the answer is checked."""
        try:
            ended = describe(state, held)
        except ValidationError as exc:
            raise ItemFailed(f"the workflow returned an invalid ending: {first_error(exc)}") from exc
        if not isinstance(ended, Ended):
            raise ItemFailed(f"the workflow returned a {type(ended).__name__} as its ending, not an Ended")
        return ended

    def call(
        self,
        role: Role,
        *,
        number: int,
        prompt: Prompt,
        schema: dict[str, Any] | None = None,
        nth: int | None = None,
    ) -> Reply:
        """Make a call of the role; `number` counts its calls from 1. A paid call is not made again."""
        known = self._checkpoint.replayed(role, number)
        if known is not None:
            return known
        model = self._job.drafter if role == "drafter" else self._job.reviewer
        options = self._job.roles.get(role, RoleOptions())
        request = ModelRequest(
            role=role,
            model=model.partition(":")[2],
            number=number,
            nth=nth or number,
            system=prompt.system,
            prompt=prompt.text,
            breaks=prompt.breaks,
            schema=schema,
            temperature=options.temperature,
            reasoning_effort=options.reasoning_effort,
        )
        if options.max_output_tokens is not None:
            request = replace(request, max_output_tokens=options.max_output_tokens)
        node = self._node

        def keep(made: Made) -> Kept:
            kept = Kept(
                journal_id=self._checkpoint.journal_id,
                number=number,
                node=node,
                tries=made.tries,
                prompt_version=prompt.version,
            )
            record = CallRecord(
                kind="call",
                role=role,
                model=model,
                served=made.reply.model,
                key=made.key,
                seconds=round(made.seconds, 3),
                **made.reply.counts(),
                **kept.model_dump(),
            )
            self._checkpoint.record(role, number, made.reply, record.model_dump())
            return kept

        made = self._caller(provider_of(model), options.timeout).call(request, keep=keep)
        if self._job.keep_prompts:
            self._link.send(
                CallTexts(
                    role=role, number=number, system=prompt.system, prompt=prompt.text, answer=made.reply.text
                )
            )
        if made.removed:
            name = "draft" if role == "drafter" else "review"
            name = LOOK if schema is not None and schema_name(schema) == LOOK else name
            self.say(f"{name} {nth or number}: removed {' and '.join(made.removed)}")
        if REMOVED in made.removed:
            self.audit("secret_removed", role=role, number=number)
        return made.reply

    def audit(self, kind: str, **fields: Any) -> None:
        """Add a record to the trail. Fields of an unknown kind are stored under `fields`."""
        try:
            record = audited(str(kind), fields)
        except ValueError as exc:
            raise ItemFailed(f"tools.audit: {exc}. Give the record another name, or other fields") from exc
        self._link.send(Audit(record=record.model_copy(update={"node": self._node})))

    def look_up(
        self, *, wishes: Sequence[str] = (), names: Sequence[str] = (), known: Sequence[Range], tokens: int
    ) -> Reading:
        """Read parts of the repository, by the rules of the map."""
        return self._link.look_up(wishes=wishes, names=names, known=known, tokens=tokens)

    def say(self, text: str) -> None:
        print(text, flush=True)  # noqa: T201 - standard output is how a worker talks to people

    def _caller(self, provider: str, timeout: float | None) -> Caller:
        seconds = timeout or self._job.call_timeout
        if (provider, seconds) not in self._callers:
            self._callers[provider, seconds] = Caller(
                provider,
                make_provider(provider, self._job, call_timeout=seconds),
                self._link,
                cancel=self._cancel,
                max_retries=self._job.max_retries,
                call_timeout=seconds,
                facts=self._job.facts,
            )
        return self._callers[provider, seconds]

    def _report(self, task: Any, began: dict[str, float]) -> None:
        if "triggers" in task:
            began[task["id"]] = time.monotonic()
            self._node = task["name"]
            reviews = task["input"].get("reviews", 0) if isinstance(task["input"], dict) else 0
            counted = type(reviews) is int and 0 <= reviews <= MOST
            self._link.send(NodeStarted(node=task["name"], reviews=reviews if counted else 0))
        else:
            seconds = time.monotonic() - began.pop(task["id"], time.monotonic())
            self._link.send(NodeEnded(node=task["name"], seconds=seconds))

    def _context(self, *, revise: bool) -> ItemContext:
        job = self._job
        return ItemContext(
            item=self._item,
            worktree=Path(job.worktree),
            run_id=job.run_id,
            folders=job.folders,
            templates=job.templates,
            repository=job.repository,
            look_rounds=job.look_rounds,
            look_tokens=job.look_tokens,
            files=job.repository.files,
            rules=job.rules,
            language=job.language,
            fence_secret=job.fence_secret,
            max_iterations=job.max_iterations,
            retry_failed=job.retry_failed,
            decisions=job.decisions,
            revise=revise,
            trail=job.trail,
            models={"drafter": job.drafter, "reviewer": job.reviewer},
        )
