"""Fails each test that leaves threads of the SDK behind."""

import pytest
from sdk_threads import join_sdk_threads


@pytest.fixture(autouse=True)
def no_thread_outlives_the_test():
    """Check that the SDK's threads have ended, because nothing else would ever end them."""
    yield
    assert join_sdk_threads() == []
