"""The checks of the PostgreSQL database that machines share, if AGENTOS_DATABASE_URL names one."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from agentos.app.db import INSTALL, MissingExtraError, open_database
from agentos.doctor.check import Check, State
from agentos.errors import AgentosError
from agentos.secret import DATABASE_VARIABLE

if TYPE_CHECKING:
    from agentos.store.postgres.connection import PostgresDatabase

CLOCK_SECONDS = 5.0  # a larger difference makes times of several machines misleading
RIGHTS_PAGE = "docs/how-to/postgres.md, section Rights"
GRANT = f"as the owner of the database, grant the rights in {RIGHTS_PAGE}"
SECTION = "database"


def check_database(
    environment: Mapping[str, str], *, wall: Callable[[], float] = time.time
) -> Iterator[Check]:
    """Check the address, the server, the tables, the rights and the clock, if a database is named."""
    if not environment.get(DATABASE_VARIABLE):
        return
    try:
        database = open_database(environment, application_name="agentos doctor")
    except MissingExtraError as exc:
        yield Check(section=SECTION, name="PostgreSQL", state=State.PROBLEM, text=str(exc), fix=INSTALL)
        return
    except AgentosError as exc:
        fix = f'export {DATABASE_VARIABLE}="postgresql://USER:PASSWORD@HOST:PORT/DATABASE"'
        yield Check(section=SECTION, name="PostgreSQL", state=State.PROBLEM, text=str(exc), fix=fix)
        return
    with database:
        try:
            yield from _checks(database, wall)
        except AgentosError as exc:
            yield Check(section=SECTION, name="rights", state=State.PROBLEM, text=str(exc), fix=GRANT)


def _checks(database: "PostgresDatabase", wall: Callable[[], float]) -> Iterator[Check]:
    from agentos.store.postgres.facts import missing_rights, read_facts  # noqa: PLC0415 - an extra
    from agentos.store.postgres.upgrade import UPGRADE, SchemaState, explain, schema_state  # noqa: PLC0415

    before = wall()
    facts = read_facts(database)
    difference = facts.clock - (before + wall()) / 2
    text = f"{database.name}, version {facts.version}, as {facts.role}"
    yield Check(section=SECTION, name="PostgreSQL", text=text)
    state = schema_state(database)
    if state is SchemaState.CURRENT:
        yield Check(section=SECTION, name="tables", text=explain(state, database.name))
        yield check_rights(facts.role, missing_rights(database), superuser=facts.superuser)
    else:
        fix = "" if state is SchemaState.NEWER else UPGRADE
        text = explain(state, database.name)
        yield Check(section=SECTION, name="tables", state=State.PROBLEM, text=text, fix=fix)
    yield check_clock(difference)


def check_rights(role: str, missing: tuple[str, ...], *, superuser: bool) -> Check:
    """Judge the rights of a role by the tables that it cannot fully use."""
    from agentos.store.postgres.facts import SUBMITTER_ONLY  # noqa: PLC0415 - an extra

    needed = [name for name in missing if name not in SUBMITTER_ONLY]
    if needed:
        text = f"{role} cannot fully use {needed[0]}"
        text += f" and {len(needed) - 1} more." if needed[1:] else "."
        state, fix = State.PROBLEM, GRANT
    elif missing:
        state, fix = State.OK, ""
        text = f"{role} may run 'agentos worker', but not submit runs."
    elif superuser:
        state, fix = State.WARNING, f"use a role with only the rights in {RIGHTS_PAGE}"
        text = f"{role} is a superuser: whoever gets this address can do anything on the server."
    else:
        state, fix, text = State.OK, "", f"{role} may submit and run items."
    return Check(section=SECTION, name="rights", state=state, text=text, fix=fix)


def check_clock(difference: float) -> Check:
    """Judge the seconds that the database's clock is ahead of this machine's."""
    if abs(difference) < CLOCK_SECONDS:
        return Check(section=SECTION, name="clock", text="This machine and the database have the same time.")
    order = "ahead of" if difference > 0 else "behind"
    return Check(
        section=SECTION,
        name="clock",
        state=State.WARNING,
        text=f"The database's clock is {abs(difference):.0f} s {order} this machine's.",
        fix="set both clocks by NTP",
    )
