"""Databases of a real server, which a test may also stop, kill and freeze."""

from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from hilum_postgres import PostgresStore
from postgres_server import PostgresServer, postgres, run_server

__all__ = ["postgres"]


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    """The URL of an empty database."""
    return postgres.make_database()


@pytest.fixture
async def make_store(url: str) -> AsyncIterator[Callable[[], PostgresStore]]:
    """Return a function that makes stores on one database."""
    made: list[PostgresStore] = []

    def make(**options: float) -> PostgresStore:
        made.append(PostgresStore(url, **options))
        return made[-1]

    yield make
    for store in made:
        await store.close()


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server that no other test uses."""
    with run_server() as server:
        yield server
