"""Functions that block take turns in a thread, but none waits for long."""

import threading
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial

import pytest
import trio
from hilum_guard import thread_turns
from hilum_guard.thread_turns import ThreadTurns
from trio.testing import wait_all_tasks_blocked

WAIT = 30.0
name_of_task = ContextVar("name_of_task", default="")


class Held:
    """A function that ends when the test lets it."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.may_end = threading.Event()
        self.has_ended = False

    def __call__(self) -> str:
        self.begun.set()
        assert self.may_end.wait(WAIT)
        self.has_ended = True
        return "result"


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn is waited for as long as the tests take."""
    monkeypatch.setattr(thread_turns, "MAX_WAIT", WAIT)


async def wait_for(event: threading.Event) -> None:
    """Wait for an event of a thread."""
    assert await trio.to_thread.run_sync(event.wait, WAIT)


async def test_turns_are_taken_in_order() -> None:
    """One at a time, also after one that failed; each with the variables of its task."""
    turns = ThreadTurns()
    held = Held()
    said: list[tuple[str, int]] = []

    def say() -> None:
        said.append((name_of_task.get(), threading.get_ident()))
        if name_of_task.get() == "b":
            raise ValueError("b")

    async def ask(name: str, function: Callable[[], object]) -> None:
        name_of_task.set(name)
        if name == "b":
            with pytest.raises(ValueError, match="b"):
                await turns.run(function)
        else:
            await turns.run(function)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, "a", held)
        await wait_for(held.begun)
        for name in "bcd":
            nursery.start_soon(ask, name, say)
            await wait_all_tasks_blocked()
        assert said == []
        held.may_end.set()
    assert [name for name, _ in said] == ["b", "c", "d"]
    # One thread for all of them.
    assert len({thread for _, thread in said}) == 1
    assert await turns.run(lambda: 5) == 5


@pytest.mark.parametrize("is_held", [True, False])
async def test_results_of_short_functions_come_together(
    monkeypatch: pytest.MonkeyPatch, is_held: bool
) -> None:
    """The event loop does not work while they run, unless one of them takes long."""
    monkeypatch.setattr(thread_turns, "MAX_HELD", WAIT if is_held else 0.01)
    turns = ThreadTurns()
    held = Held()
    known = threading.Event()

    async def ask() -> None:
        assert await turns.run(lambda: 5) == 5
        known.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(turns.run, held)
        await wait_for(held.begun)
        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        held.may_end.set()
        # Without the wait, the event loop might only be late.
        assert await turns.run(partial(known.wait, 0.2 if is_held else WAIT)) is not is_held
    assert known.is_set()


async def test_a_result_is_not_held_back_by_a_function_that_hangs() -> None:
    turns = ThreadTurns()
    first, hanging = Held(), Held()
    results: list[str] = []
    known = trio.Event()

    async def ask() -> None:
        results.append(await turns.run(first))
        known.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await wait_for(first.begun)
        nursery.start_soon(turns.run, hanging)
        await wait_all_tasks_blocked()
        first.may_end.set()
        await wait_for(hanging.begun)
        with trio.fail_after(WAIT / 2):
            await known.wait()
        assert results == ["result"]
        assert not hanging.has_ended
        hanging.may_end.set()


async def test_no_turn_is_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk of the functions before may not respond."""
    monkeypatch.setattr(thread_turns, "MAX_WAIT", 0.01)
    turns = ThreadTurns()
    helds = [Held(), Held()]
    async with trio.open_nursery() as nursery:
        for held in helds:
            nursery.start_soon(turns.run, held)
        for held in helds:
            await wait_for(held.begun)
        assert await turns.run(lambda: 5) == 5
        monkeypatch.setattr(thread_turns, "MAX_WAIT", WAIT)
        # The threads that hang hold up nothing else from now on.
        with trio.fail_after(WAIT / 2):
            assert await turns.run(lambda: 6) == 6
        for held in helds:
            assert not held.has_ended
            held.may_end.set()
    assert await turns.run(lambda: 7) == 7


async def test_a_function_that_has_not_begun_never_runs_after_a_cancellation() -> None:
    turns = ThreadTurns()
    held = Held()
    said: list[str] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(turns.run, held)
        await wait_for(held.begun)
        async with trio.open_nursery() as other:
            other.start_soon(turns.run, lambda: said.append("ran"))
            await wait_all_tasks_blocked()
            other.cancel_scope.cancel()
        held.may_end.set()
    await turns.run(lambda: None)
    assert said == []


@pytest.mark.parametrize("abandons", [False, True])
async def test_a_function_that_has_begun(abandons: bool) -> None:
    """Its caller gets the result in spite of a cancellation, unless it abandons the function."""
    turns = ThreadTurns()
    held = Held()
    results: list[str] = []
    ended = trio.Event()

    async def ask() -> None:
        try:
            results.append(await turns.run(held, abandon_on_cancel=abandons))
            await trio.lowlevel.checkpoint()
            results.append("not cancelled")
        finally:
            ended.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await wait_for(held.begun)
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await wait_all_tasks_blocked()
            assert ended.is_set() == abandons
            held.may_end.set()
            await ended.wait()
    assert results == ([] if abandons else ["result"])
