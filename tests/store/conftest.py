"""A PostgreSQL server for the tests that ask for one."""

import pytest

from tests.store import server as servers


@pytest.fixture(scope="session")
def server():
    """A server."""
    return servers.server()


@pytest.fixture
def schema(server, tmp_path):
    """A schema of the server that is not there yet."""
    name = servers.schema_of(tmp_path)
    yield name
    server.drop(name)


@pytest.fixture
def pg_url(server, schema):
    """Where a store may be made."""
    return server.url(schema)
