"""A disk that is full while the log is written: one clear error, nothing lost, and the session goes
on once there is space.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

sys.path.insert(0, str(Path(__file__).parent))
import crash_session
from hilum.events import PluginFault

TURNS = 21


@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit on the size of files")
async def test_a_full_disk_is_one_error_and_costs_nothing(
    trials: Callable[[int, int], int],
) -> None:
    """The limit is reached at different places of the session.

    Each time it is resumed to the end without it.
    """
    with trio.fail_after(600):
        undisturbed = await crash_session.trial(TURNS)
        for size in (150_000, 333_000, 210_000, 270_000)[: trials(2, 4)]:
            found = await crash_session.trial(TURNS, [("full", size)])
            seen = crash_session.judge(found, undisturbed, TURNS)
            assert seen["kills"] == 1, "the limit was never reached"
            first, second = found.lives
            assert first.errors.count("StoreError") == 1, first.errors
            assert "space" in first.errors
            assert not second.errors
            assert not any(isinstance(event, PluginFault) for event in found.events)
