"""Benches whose sessions are stored, because only such sessions can be joined."""

import pytest


@pytest.fixture
def bench(bench):
    """Open benches with the plugin ``store``."""

    def open_stored(*plugins, without_store=False, **options):
        stores = () if without_store else ("store",)
        return bench(*stores, *plugins, **options)

    return open_stored
