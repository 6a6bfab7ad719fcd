"""Each test runs with each engine; those that use more than one store only with durable ones."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from engines import Engine, make_engine
from hilum.store import Store
from postgres_server import postgres

__all__ = ["postgres"]

ENGINES = ("memory", "sqlite", "postgres")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Leave the store in memory out where a test needs several stores or processes."""
    if "engine" in metafunc.fixturenames:
        kinds = ENGINES[1:] if "engine" in metafunc.definition.obj.__annotations__ else ENGINES
        metafunc.parametrize("engine", kinds, indirect=True)


@pytest.fixture
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """An engine without sessions."""
    made = make_engine(request.param, tmp_path, lambda: request.getfixturevalue("postgres"))
    yield made
    made.close()


@pytest.fixture
async def store(engine: Engine) -> AsyncIterator[Store]:
    """A store on it."""
    store = engine.make_store()
    yield store
    await store.close()
