"""Commands that start at once share what the sandbox finds out; none gets an older result."""

import os
import threading
from pathlib import Path

import pytest
import trio
from hilum import Command
from hilum_guard.sandbox.session_sandbox import ProtectedPaths
from hilum_guard.sandbox.shared_work import SharedWork
from hilum_guard.thread_turns import ThreadTurns
from trio.testing import wait_all_tasks_blocked


class Work:
    """Work that ends when the test lets it."""

    def __init__(self) -> None:
        self.begun = 0
        self.may_end = trio.Semaphore(0)
        self.fails = False

    async def __call__(self) -> int:
        self.begun += 1
        number = self.begun
        await self.may_end.acquire()
        if self.fails:
            self.fails = False
            raise ValueError
        return number


async def test_a_result_is_never_older_than_the_request() -> None:
    """Who asks while the work runs gets the next result, which all who wait share."""
    shared = SharedWork[int](ThreadTurns())
    work = Work()
    results: dict[str, int] = {}

    async def ask(name: str) -> None:
        results[name] = await shared.run("key", work)

    async with trio.open_nursery() as nursery:
        for name in "abcd":
            nursery.start_soon(ask, name)
            await wait_all_tasks_blocked()
        assert work.begun == 1
        work.may_end.release()
        await wait_all_tasks_blocked()
        assert (results, work.begun) == ({"a": 1}, 2)
        nursery.start_soon(ask, "e")
        await wait_all_tasks_blocked()
        work.may_end.release()
        work.may_end.release()
    assert results == {"a": 1, "b": 2, "c": 2, "d": 2, "e": 3}


@pytest.mark.parametrize("way", ["fails", "cancelled before it begins", "cancelled"])
async def test_work_without_a_result(way: str) -> None:
    """The others do it themselves."""
    shared = SharedWork[int](ThreadTurns())
    work = Work()
    results: list[int] = []
    scopes: list[trio.CancelScope] = []
    failures: list[ValueError] = []

    async def ask() -> None:
        with trio.CancelScope() as scope:
            scopes.append(scope)
            try:
                results.append(await shared.run("key", work))
            except ValueError as error:
                failures.append(error)

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(ask)
            await wait_all_tasks_blocked()
        if way != "cancelled":
            work.may_end.release()
            if way == "cancelled before it begins":
                scopes[1].cancel()
            work.fails = way == "fails"
        else:
            scopes[0].cancel()
        await wait_all_tasks_blocked()
        for _ in range(4):
            work.may_end.release()
    assert len(results) == 3
    assert len(failures) == (way == "fails")


async def test_different_keys_share_nothing() -> None:
    """Each gets its own result."""
    shared = SharedWork[int](ThreadTurns())
    work = Work()
    results: list[int] = []

    async def ask(key: str) -> None:
        results.append(await shared.run(key, work))

    async with trio.open_nursery() as nursery:
        for key in "aabc":
            nursery.start_soon(ask, key)
        for _ in range(4):
            work.may_end.release()
    assert len(set(results)) >= 3


@pytest.fixture
def backend() -> str:
    """The strongest sandbox."""
    return "bubblewrap"


async def test_eight_commands_at_once(box, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sandbox of each has the permissions that it would have alone."""
    (root / ".env").write_text("KEY=1")
    processes = box.processes()
    sandbox = box.sandboxes[-1]
    hidden = str(root / ".env")
    sandbox.extra_protected["secrets"] = lambda: ProtectedPaths(hidden=(hidden,))
    sandbox.find_used_secrets = lambda argv, folder: frozenset({hidden} & set(argv))
    prepared: list[Command] = []
    prepare = sandbox._prepare
    all_wait = threading.Event()

    def wait_and_prepare(command, *rest):
        prepared.append(command)
        assert all_wait.wait(30)
        return prepare(command, *rest)

    monkeypatch.setattr(sandbox, "_prepare", wait_and_prepare)
    outputs: list[tuple[str, bytes]] = []

    async def run(name: str) -> None:
        done = await processes.run(["cat", name], cwd=str(root), env=dict(os.environ))
        outputs.append((name, done.stdout))

    async with trio.open_nursery() as nursery:
        for name in (".env", *[".env"] * 6, hidden):
            nursery.start_soon(run, name)
            await wait_all_tasks_blocked()
        all_wait.set()
    assert sorted(outputs) == sorted([(".env", b"")] * 7 + [(hidden, b"KEY=1")])
    # The first command, the second with those that share its permissions, and the last.
    assert len(prepared) == 3
