"""The address of the database: checked, with its password kept out of everything that is shown."""

import re
from dataclasses import dataclass

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from agentos.errors import ConfigError
from agentos.secret import DATABASE_VARIABLE as VARIABLE
from agentos.secret import know_password

FORM = "postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
_SCHEMES = ("postgresql://", "postgres://")
# What cannot be in these parts is the rest of a password with an unescaped character in it.
_HOST = re.compile(r"[\w.,:%/-]*")
_PORT = re.compile(r"[\d,]*")
_NAME = re.compile(r"[^@/:?#]*")


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where the database is; only `shown` may be printed."""

    url: str
    shown: str  # host, port and database

    def __repr__(self) -> str:
        return f"Address({self.shown})"

    __str__ = __repr__


def read_address(url: str) -> Address:
    """Check an address, and keep its password out of all output from now on.

    Raises ConfigError; its text contains nothing of the address.
    """
    know_password(VARIABLE, url)
    if not url.startswith(_SCHEMES):
        raise ConfigError(f"{VARIABLE} must start with postgresql://, as in {FORM}.")
    try:
        parts = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    except ProgrammingError:
        raise _malformed() from None  # libpq's text quotes the address
    host, port, database = (parts.get(name, "") for name in ("host", "port", "dbname"))
    if not (_HOST.fullmatch(host) and _PORT.fullmatch(port) and _NAME.fullmatch(database)):
        raise _malformed()
    where = host or parts.get("hostaddr") or "localhost"
    return Address(url=url, shown=f"{where}:{port or 5432}/{database or parts.get('user', '')}")


def _malformed() -> ConfigError:
    return ConfigError(
        f"{VARIABLE} is not an address like {FORM}. In a password, write @ as %40, / as %2F and : as %3A."
    )
