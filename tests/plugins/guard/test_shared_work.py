"""Commands that start at once share what the sandbox finds out; none gets an older result."""

import os
import threading
from pathlib import Path

import pytest
import trio
from hilum import Command
from hilum_guard import thread_turns
from hilum_guard.sandbox import session_sandbox
from hilum_guard.sandbox.session_sandbox import ProtectedPaths
from hilum_guard.sandbox.shared_work import SharedWork
from hilum_guard.sandbox.spares import SparePool, State, read_state
from hilum_guard.thread_turns import ThreadTurns
from trio.testing import wait_all_tasks_blocked


class Work:
    """Work that ends when the test lets it."""

    def __init__(self) -> None:
        self.begun = 0
        self._counted = threading.Condition()
        self.may_end = threading.Semaphore(0)
        self.fails = False

    def __call__(self) -> int:
        with self._counted:
            self.begun += 1
            number = self.begun
            self._counted.notify_all()
        assert self.may_end.acquire(timeout=30)
        if self.fails:
            self.fails = False
            raise ValueError
        return number

    async def wait_for(self, begun: int) -> None:
        """Wait until the work has begun so often, and every task waits."""
        assert await trio.to_thread.run_sync(self._wait_for, begun)
        await wait_all_tasks_blocked()

    def _wait_for(self, begun: int) -> bool:
        with self._counted:
            return self._counted.wait_for(lambda: self.begun >= begun, timeout=30)


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn is waited for as long as the tests take."""
    monkeypatch.setattr(thread_turns, "MAX_WAIT", 30.0)


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
            await work.wait_for(1)
        assert work.begun == 1
        work.may_end.release()
        await work.wait_for(2)
        assert (results, work.begun) == ({"a": 1}, 2)
        nursery.start_soon(ask, "e")
        await wait_all_tasks_blocked()
        work.may_end.release()
        work.may_end.release()
    assert results == {"a": 1, "b": 2, "c": 2, "d": 2, "e": 3}


@pytest.mark.parametrize("way", ["fails", "cancelled before it begins"])
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
            await work.wait_for(1)
        if way == "cancelled before it begins":
            scopes[1].cancel()
            await wait_all_tasks_blocked()
        work.fails = way == "fails"
        for _ in range(4):
            work.may_end.release()
    assert len(results) == 3
    assert len(failures) == (way == "fails")


async def test_work_that_is_cancelled_ends_and_others_share_the_next() -> None:
    """What it may have found is not lost."""
    shared = SharedWork[int](ThreadTurns())
    work = Work()
    results: list[int] = []
    scope = trio.CancelScope()

    async def ask_and_be_cancelled() -> None:
        with scope:
            results.append(await shared.run("key", work))

    async def ask() -> None:
        results.append(await shared.run("key", work))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask_and_be_cancelled)
        await work.wait_for(1)
        for _ in range(2):
            nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        scope.cancel()
        for _ in range(2):
            work.may_end.release()
    assert results == [1, 2, 2]


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
    has_begun = threading.Event()

    def wait_and_prepare(command, *rest):
        prepared.append(command)
        has_begun.set()
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
            assert await trio.to_thread.run_sync(has_begun.wait, 30)
        all_wait.set()
    assert sorted(outputs) == sorted([(".env", b"")] * 7 + [(hidden, b"KEY=1")])
    # The first command, the second with those that share its permissions, and the last.
    assert len(prepared) == 3


async def test_commands_at_once_share_the_command_line_of_the_sandbox(
    box, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the one that each would have alone, and is found out once for those alike."""
    processes = box.processes()
    sandbox = box.sandboxes[-1]
    sandbox.spares = SparePool(processes.start_spare, 8)
    folder = root / "folder"
    folder.mkdir()
    env = dict(os.environ)
    alike = [Command(("sh", "-c", f"echo {n}"), str(root), env) for n in range(5)]
    others = [
        Command(("sh", "-c", "echo"), str(folder), env),
        Command(("sh", "-c", "echo"), str(root), {**env, "COLOR": "1"}),
        Command(("sh", "-c", "echo"), str(root), {**env, "PATH": "/nowhere"}),
        Command(("cat", "file"), str(root), env),
    ]
    states: list[Command] = []
    prepare = sandbox._prepare
    all_wait = threading.Event()
    has_begun = threading.Event()

    def wait_and_prepare(command, *rest):
        has_begun.set()
        assert all_wait.wait(30)
        return prepare(command, *rest)

    def note_state(template: Command) -> State:
        states.append(template)
        return read_state(template)

    wrapped: dict[int, Command] = {}

    async def wrap(number: int, command: Command) -> None:
        wrapped[number] = await sandbox.wrap_process(command)

    # What another program would change meanwhile is no concern of this test.
    monkeypatch.setattr(session_sandbox, "find_sockets", lambda _: [])
    monkeypatch.setattr(session_sandbox, "read_state", note_state)
    monkeypatch.setattr(sandbox, "_prepare", wait_and_prepare)
    commands = [*alike, *others]
    async with trio.open_nursery() as nursery:
        # The first one prepares alone; the others join while it does.
        for number, command in enumerate([alike[0], *commands]):
            nursery.start_soon(wrap, number, command)
            await wait_all_tasks_blocked()
            assert await trio.to_thread.run_sync(has_begun.wait, 30)
        all_wait.set()
    assert len(states) == 2 + 3  # one program is not in the PATH, so that it gets no sandbox
    for number, command in enumerate([alike[0], *commands]):
        alone = await sandbox.wrap_process(command)
        assert wrapped[number] == alone
        assert (wrapped[number].take_spare is None) == (alone.take_spare is None)
        assert wrapped[number].argv[-len(command.argv) :] == command.argv


async def test_what_changes_after_the_request_is_seen_by_all_commands_at_once(
    box, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A secret that appears after the last request is hidden from all of them."""
    processes = box.processes()
    sandbox = box.sandboxes[-1]
    secret = root / "secret"
    sandbox.extra_protected["secrets"] = lambda: ProtectedPaths(
        hidden=(str(secret),) if secret.exists() else ()
    )
    prepare = sandbox._prepare
    all_wait = threading.Event()

    def wait_and_prepare(command, *rest):
        assert all_wait.wait(30)
        return prepare(command, *rest)

    monkeypatch.setattr(sandbox, "_prepare", wait_and_prepare)
    outputs: list[bytes] = []

    async def run() -> None:
        done = await processes.run(["cat", "secret"], cwd=str(root), env=dict(os.environ))
        outputs.append(done.stdout)

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(run)
            await wait_all_tasks_blocked()
        secret.write_text("KEY=1")
        all_wait.set()
    assert outputs == [b""] * 4
