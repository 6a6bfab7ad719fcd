"""The waits of the fork server: for many descriptors, and for long."""

import os
import resource
import sys

import pytest

if sys.platform != "linux":
    pytest.skip("fork server: only Linux", allow_module_level=True)

from hilum_cli.fork_server.command import MAX_IDLE_MINUTES
from hilum_cli.fork_server.server import _poll


def test_descriptors_above_1023_are_watched() -> None:
    """A server with many starts has more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2000:
        pytest.skip("so many files may not be open")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2000), hard))
    reading, writing = os.pipe()
    high = os.dup2(reading, 1999)
    try:
        assert _poll([high], 0) == set()
        os.write(writing, b"x")
        assert _poll([high], 10) == {high}
        os.close(writing)
    finally:
        os.close(high)
        os.close(reading)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_closed_connection_ends_the_longest_wait() -> None:
    reading, writing = os.pipe()
    os.close(writing)
    assert _poll([reading], MAX_IDLE_MINUTES * 60) == {reading}
    os.close(reading)
