"""Opening the shared database for a command that works with it."""

import pytest

from agentos.app.db import open_prepared
from agentos.errors import ConfigError
from harness.postgres import Cluster

VARIABLE = "AGENTOS_DATABASE_URL"


def test_a_database_must_be_prepared(postgres_url: str, prepared_postgres: str) -> None:
    with pytest.raises(ConfigError, match="is not prepared; run 'agentos db upgrade'"):
        open_prepared({VARIABLE: postgres_url}, application_name="test")
    with open_prepared({VARIABLE: prepared_postgres}, application_name="test") as database:
        assert database.rows("SELECT 1 AS one", {}) == [{"one": 1}]


def test_a_role_without_rights_is_told_at_once(postgres_cluster: Cluster, prepared_postgres: str) -> None:
    postgres_cluster.make_role("nobody")
    url = prepared_postgres.replace("agentos@", "nobody@")
    with pytest.raises(ConfigError, match="permission denied for table agentos_schema"):
        open_prepared({VARIABLE: url}, application_name="test")
