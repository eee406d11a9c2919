"""The password in the address of a database is kept out of all output, however it is written."""

import pytest

from agentos import redact
from agentos.secret import know

PASSWORD = "correct-horse-battery"


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://user:{PASSWORD}@host:5432/db",
        f"postgres://user:{PASSWORD}@host/db?sslmode=require",
        f"postgresql://user@host/db?sslmode=require&password={PASSWORD}",
        f"postgresql://user@host/db?sslpassword={PASSWORD}&sslkey=x",
        f"postgresql://:{PASSWORD}@/db",
        f"mysql://user:{PASSWORD}@host/db",
    ],
)
def test_a_password_in_the_address_is_known(address: str) -> None:
    know({"AGENTOS_DATABASE_URL": address})
    assert redact.redact(f"said {PASSWORD} here") == "said [secret: AGENTOS_DATABASE_URL] here"
    assert PASSWORD not in redact.redact(address)
    assert redact.redact("user, host and db are no secrets") == "user, host and db are no secrets"


def test_an_encoded_password_is_known_as_it_is_meant_and_as_it_is_written() -> None:
    know({"AGENTOS_DATABASE_URL": "postgresql://user:p%40ss%2Fword%3A1@host/db"})
    assert "p@ss/word:1" not in redact.redact("FATAL: p@ss/word:1 is wrong")
    assert "p%40ss%2Fword%3A1" not in redact.redact("given p%40ss%2Fword%3A1")


@pytest.mark.parametrize("address", ["", "postgresql://user@host:5432/db", "postgresql:///db", "nonsense"])
def test_an_address_without_a_password_hides_nothing(address: str) -> None:
    know({"AGENTOS_DATABASE_URL": address})
    assert redact.redact("user host 5432 nonsense") == "user host 5432 nonsense"
    assert redact.redact(address) == address
