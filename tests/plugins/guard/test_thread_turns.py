"""Threads that run Python code take turns, but none waits for long."""

import pytest
import trio
from hilum_guard import thread_turns
from hilum_guard.thread_turns import ThreadTurns
from trio.testing import wait_all_tasks_blocked


async def test_turns_are_taken_in_order(autojump_clock) -> None:
    """One at a time, also after one that failed or was cancelled."""
    turns = ThreadTurns()
    said: list[str] = []

    async def work(name: str) -> None:
        with trio.move_on_after(0.015):
            async with turns.take():
                said.append(f"{name} begins")
                await trio.sleep(0.02 if name == "b" else 0.001)
                said.append(f"{name} ends")
                if name == "a":
                    raise ValueError

    async def survive(name: str) -> None:
        with pytest.raises(ValueError):
            await work(name)

    async with trio.open_nursery() as nursery:
        for name, function in (("a", survive), ("b", work), ("c", work), ("d", work)):
            nursery.start_soon(function, name)
            await wait_all_tasks_blocked()
    # The task "b" is cancelled, and so are those that waited for it.
    assert said == ["a begins", "a ends", "b begins"]
    async with turns.take():
        pass


async def test_no_turn_is_waited_for_long(autojump_clock) -> None:
    """The disk of the thread before may not respond."""
    turns = ThreadTurns()
    start = trio.current_time()

    async def hang() -> None:
        async with turns.take():
            await trio.sleep(10)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(hang)
        await wait_all_tasks_blocked()
        async with turns.take():
            assert trio.current_time() - start == pytest.approx(thread_turns.MAX_WAIT)
        # A turn that was not had is not given back.
        with trio.move_on_after(0.01) as scope:
            async with turns.take():
                raise AssertionError
        assert scope.cancelled_caught
        nursery.cancel_scope.cancel()
