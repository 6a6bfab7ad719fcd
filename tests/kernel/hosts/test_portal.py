"""A trio side of its own, seen from asyncio and from plain code: what comes through, and that
nothing is left behind.
"""

import asyncio
import functools
import gc
import inspect
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar

import pytest
import trio
from hilum.hosts import aio, blocking
from hilum.hosts.portal import Portal

REQUEST: ContextVar[str] = ContextVar("request", default="none")


class Line:
    """Something a client gives out."""

    def __init__(self, text):
        self.text = text

    async def read(self):
        return self.text


class Client:
    """A trio program with one of everything."""

    size = 3

    def __init__(self):
        self.log, self.up, self.task = [], threading.Event(), None

    async def add(self, one, two=0):
        await trio.lowlevel.checkpoint()
        return one + two

    def where(self):
        return trio.lowlevel.current_task() and threading.current_thread().name

    async def fail(self, error):
        raise error

    async def slow(self, error=None):
        """Take until cancelled, and a while longer."""
        try:
            self.up.set()
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.05)
            self.log.append("unwound")
            if error is not None:
                raise error

    async def request(self):
        return REQUEST.get()

    async def line(self):
        return Line("one")

    def lines(self):
        return [Line("one"), Line("two")]

    async def count(self):
        try:
            for number in range(self.size):
                await trio.lowlevel.checkpoint()
                yield number
        finally:
            self.log.append("closed")

    @asynccontextmanager
    async def block(self):
        """A context manager with a nursery, which only one task can enter and leave."""
        self.task = trio.lowlevel.current_task()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep_forever)
                yield Line("held")
                nursery.cancel_scope.cancel()
        except BaseException as error:
            self.log.append(type(error).__name__.removeprefix("Base"))
            raise
        finally:
            self.log.append(f"left in its task: {self.task is trio.lowlevel.current_task()}")

    @asynccontextmanager
    async def swallow(self):
        try:
            yield
        except LookupError:
            self.log.append("swallowed")

    @asynccontextmanager
    async def reluctant(self):
        """A context manager that takes until cancelled to enter."""
        await self.slow()
        yield

    @asynccontextmanager
    async def broken(self):
        raise LookupError("not to be entered")
        yield

    async def shout(self, callback):
        return (await callback("hello")).upper()


class Fault(BaseException):
    """An error that is no ``Exception``."""


@asynccontextmanager
async def open_client(size=3):
    """Open a client."""
    client = Client()
    client.size = size
    yield client
    client.log.append("client left")


WRAPS = {"wraps": (Client, Line), "name": "the portal"}
open_aio = aio.hosted(open_client, **WRAPS)
open_blocking = blocking.hosted(open_client, **WRAPS)


@pytest.fixture(autouse=True)
def nothing_is_left():
    """No thread outlives a test, and no future or coroutine was forgotten."""
    yield
    for thread in threading.enumerate():
        if thread.name == "the portal":
            thread.join(60)
            assert not thread.is_alive()
    gc.collect()


def in_asyncio(function):
    """Make a test of a coroutine function that is given an open client, and must not take longer
    than a minute.
    """

    @functools.wraps(function)
    def test(*args, **kwargs):
        complaints = []

        async def main():
            asyncio.get_running_loop().set_exception_handler(
                lambda loop, context: complaints.append(context)
            )
            async with asyncio.timeout(60), open_aio() as client:
                await function(client, *args, **kwargs)
            gc.collect()

        asyncio.run(main())
        assert not complaints

    taken = inspect.signature(function)
    test.__signature__ = taken.replace(parameters=list(taken.parameters.values())[1:])
    return test


@contextmanager
def interrupt_when(up):
    """Press Ctrl-C in this thread when an event is set."""

    def press():
        assert up.wait(60)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    try:
        yield
    finally:
        thread.join()


# --- what comes through ---------------------------------------------------------------------------


@in_asyncio
async def test_asyncio_sees_methods_attributes_lists_and_iterators(client):
    """Each in its own kind, and wrapped types as proxies wherever they come out."""
    assert await client.add(1, two=2) == 3
    assert client.where() == "the portal"
    assert client.size == 3
    assert await (await client.line()).read() == "one"
    assert [await line.read() for line in client.lines()] == ["one", "two"]
    assert [number async for number in client.count()] == [0, 1, 2]
    assert isinstance(client, aio.AioProxy)
    assert isinstance(client.trio, Client)


def test_plain_code_sees_methods_attributes_lists_and_iterators():
    """Each in its own kind, and wrapped types as proxies wherever they come out."""
    with open_blocking(size=2) as client:
        assert client.add(1, two=2) == 3
        assert client.where() == "the portal"
        assert client.size == 2
        assert client.line().read() == "one"
        assert [line.read() for line in client.lines()] == ["one", "two"]
        assert list(client.count()) == [0, 1]
        assert isinstance(client, blocking.BlockingProxy)
        log = client.trio.log
    assert log == ["closed", "client left"]


@pytest.mark.parametrize("error", [LookupError("x"), StopAsyncIteration(), Fault(), SystemExit(3)])
def test_an_error_is_what_it_was_and_the_portal_goes_on(error):
    """Also one that is no ``Exception``."""
    with open_blocking() as client:
        with pytest.raises(type(error)) as caught:
            client.fail(error)
        assert caught.value is error
        assert client.add(1) == 1


@in_asyncio
async def test_an_error_reaches_asyncio_as_it_was(client):
    """No wrapper, no group, and the portal goes on."""
    with pytest.raises(LookupError, match=r"^x$"):
        await client.fail(LookupError("x"))
    assert await client.add(1) == 1


@in_asyncio
async def test_context_variables_of_the_host_hold_there(client):
    """The trio task has a copy of those of the task that started it."""
    REQUEST.set("number 7")
    assert await client.request() == "number 7"


@in_asyncio
async def test_an_iterator_that_is_left_early_is_closed(client):
    """By closing the host's, as ``aclosing`` does."""
    numbers = client.count()
    assert await anext(numbers) == 0
    assert client.log == []
    await numbers.aclose()
    assert client.log == ["closed"]


def test_an_iterator_that_plain_code_leaves_early_is_closed():
    """At the latest with the last reference to it."""
    with open_blocking() as client:
        for _ in client.count():
            break
        gc.collect()
        assert client.log == ["closed"]


# --- context managers -----------------------------------------------------------------------------


@in_asyncio
async def test_a_context_manager_is_left_in_the_task_that_entered_it(client):
    """A nursery in it is sound."""
    async with client.block() as line:
        assert await line.read() == "held"
    assert client.log == ["left in its task: True"]


@in_asyncio
async def test_an_error_in_the_block_is_raised_in_the_manager(client):
    """It comes out as trio would have it: through a nursery in a group.

    One that is swallowed there is.
    """
    with pytest.raises(ExceptionGroup) as caught:
        async with client.block():
            raise LookupError("x")
    assert caught.group_contains(LookupError)
    async with client.swallow():
        raise LookupError("y")
    with pytest.raises(ValueError, match="z"):
        async with client.swallow():
            raise ValueError("z")
    assert client.log == ["ExceptionGroup", "left in its task: True", "swallowed"]


def test_an_error_in_the_block_of_plain_code_is_raised_in_the_manager():
    """And swallowed there, or not."""
    with open_blocking() as client:
        with client.swallow():
            raise LookupError("y")
        with pytest.raises(ValueError, match="z"), client.swallow():
            raise ValueError("z")
        with pytest.raises(Fault), client.block():
            raise Fault
        assert client.log == ["swallowed", "ExceptionGroup", "left in its task: True"]


@in_asyncio
async def test_a_block_that_is_cancelled_cancels_the_manager(client):
    """The host sees its own cancellation, so that a timeout around it works."""

    async def stay():
        async with asyncio.timeout(None) as limit, client.block():
            limit.reschedule(0)
            await asyncio.sleep(1000)

    with pytest.raises(TimeoutError):
        await stay()
    assert client.log == ["ExceptionGroup", "left in its task: True"]


@in_asyncio
async def test_a_manager_that_cannot_be_entered_says_why(client):
    """Its error is the host's."""
    with pytest.raises(LookupError, match="not to be entered"):
        async with client.broken():
            raise AssertionError


@in_asyncio
async def test_giving_up_to_enter_waits_until_that_has_unwound(client):
    """Nothing is entered behind the back of the host."""
    entering = asyncio.create_task(client.reluctant().__aenter__())
    await asyncio.to_thread(client.up.wait, 60)
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
    assert client.log == ["unwound"]


# --- cancellation ---------------------------------------------------------------------------------


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("times", [1, 3])
@in_asyncio
async def test_a_cancelled_task_waits_until_trio_has_unwound(client, times):
    """However often it is cancelled."""
    task = asyncio.create_task(client.slow())
    await asyncio.to_thread(client.up.wait, 60)
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert client.log == ["unwound"]


@in_asyncio
async def test_an_error_while_unwinding_is_not_lost(client):
    """It is raised instead of the cancellation, as if the coroutine were of asyncio."""
    task = asyncio.create_task(client.slow(LookupError("too late")))
    await asyncio.to_thread(client.up.wait, 60)
    task.cancel()
    with pytest.raises(LookupError, match="too late"):
        await task


def test_ctrl_c_cancels_waits_and_interrupts():
    """In plain code; the portal goes on."""
    with open_blocking() as client:
        with interrupt_when(client.up), pytest.raises(KeyboardInterrupt):
            client.slow()
        assert client.log == ["unwound"]
        assert client.add(1) == 1


def test_ctrl_c_while_entering_waits_and_interrupts():
    """As for a call."""
    with open_blocking() as client:
        with interrupt_when(client.up), pytest.raises(KeyboardInterrupt), client.reluctant():
            raise AssertionError
        assert client.log == ["unwound"]


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("heard", [True, False])
@pytest.mark.parametrize(
    "use", [lambda client: client.slow(), lambda client: client.block().__enter__()]
)
def test_ctrl_c_in_the_instant_of_the_start_leaves_nothing_at_work(monkeypatch, heard, use):
    """Whether the trio side has already heard of a call or a manager or not, it ends before the
    interrupt goes on.
    """
    with open_blocking() as client:
        portal = client._portal
        soon, at_work = portal._soon, len(portal._scopes)

        def press(*what):
            monkeypatch.undo()
            if heard:
                soon(*what)
            raise KeyboardInterrupt

        monkeypatch.setattr(portal, "_soon", press)
        with pytest.raises(KeyboardInterrupt):
            use(client)
        assert len(portal._scopes) == at_work
        assert client.add(1) == 1


def test_ctrl_c_in_the_instant_after_entering_leaves_the_manager(monkeypatch):
    """When the block has not begun yet, and nobody else knows that there is something to leave."""
    with open_blocking() as client:
        until = blocking._until

        def press(future):
            until(future)
            monkeypatch.undo()
            raise KeyboardInterrupt

        monkeypatch.setattr(blocking, "_until", press)
        with pytest.raises(KeyboardInterrupt), client.block():
            raise AssertionError
        assert client.log[-1] == "left in its task: True"


def test_ctrl_c_ends_a_plain_program_with_its_trio_side():
    """A whole program: it unwinds, prints what its managers print, and dies of the interrupt."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60
    )
    # The order is this one, unless the interrupt comes in the instant between starting the call and
    # waiting for it.
    assert sorted(done.stdout.split()) == ["left", "unwound"]
    assert done.returncode == -signal.SIGINT
    assert done.stderr.rstrip().endswith("KeyboardInterrupt")


PROGRAM = """
import os, signal, trio
from contextlib import asynccontextmanager
from hilum.hosts.blocking import hosted

class Sleeper:
    async def sleep(self):
        try:
            trio.lowlevel.current_trio_token().run_sync_soon(os.kill, os.getpid(), signal.SIGINT)
            await trio.sleep_forever()
        finally:
            print("unwound", flush=True)

@asynccontextmanager
async def open_sleeper():
    try:
        yield Sleeper()
    finally:
        print("left", flush=True)

with hosted(open_sleeper, wraps=(Sleeper,))() as sleeper:
    sleeper.sleep()
"""


# --- closing --------------------------------------------------------------------------------------


def test_closing_ends_what_others_still_wait_for():
    """They get an error that says so, and closing waits until all has unwound.

    Afterwards nothing can be started.
    """
    portal, client = Portal("the portal"), Client()
    job = portal.submit(client.slow)
    held = portal.hold(client.block())
    assert held.entered.result(60).text == "held"
    assert client.up.wait(60)
    portal.close()
    assert "unwound" in client.log
    for future in (job.future, held.job.future):
        assert isinstance(future.exception(0), trio.RunFinishedError)
    with pytest.raises(trio.RunFinishedError):
        portal.submit(client.add, 1)
    with pytest.raises(trio.RunFinishedError):
        portal.hold(client.block())
    job.cancel()
    held.leave()
    portal.close()


def test_what_is_started_while_the_portal_closes_ends():
    """From several threads: each job has a result or an error, and none waits for ever."""
    for _ in range(20):
        portal, start, ends = Portal("the portal"), threading.Barrier(3), []

        def work(portal=portal, start=start, ends=ends):
            start.wait(60)
            try:
                while True:
                    assert portal.submit(Client().add, 1).future.result(60) == 1
            except trio.RunFinishedError as error:
                ends.append(error)

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        start.wait(60)
        portal.close()
        for thread in threads:
            thread.join()
        assert len(ends) == 2


def test_a_job_is_cancelled_by_itself():
    """Cancelling one leaves the others, and ending it is up to trio alone."""
    portal, client, other = Portal("the portal"), Client(), Client()
    job, stays = portal.submit(client.slow), portal.submit(other.slow)
    assert client.up.wait(60)
    assert not job.future.cancel()
    job.cancel()
    assert isinstance(job.future.exception(60), CancelledError)
    assert client.log == ["unwound"]
    assert not stays.future.done()
    portal.close()


def test_the_trio_thread_cannot_wait_for_itself():
    """It says so instead of hanging."""
    with open_blocking() as client:

        class Plain(Client):
            def again(self):
                return client.add(1)

        inner = blocking.BlockingProxy(client._portal, Plain(), ())
        with pytest.raises(RuntimeError, match="own thread"):
            inner.again()


def test_a_side_that_does_not_come_up_leaves_no_thread():
    """The error of the context manager is raised, in both kinds of host."""

    @asynccontextmanager
    async def broken():
        raise LookupError("not today")
        yield

    with pytest.raises(LookupError, match="not today"):
        blocking.hosted(broken, **WRAPS)().__enter__()
    with pytest.raises(LookupError, match="not today"):
        asyncio.run(aio.hosted(broken, **WRAPS)().__aenter__())


def test_a_thread_that_cannot_start_says_why():
    """Without descriptors for an event loop there is an error, and no wait for ever."""
    script = (
        "import resource; from hilum.hosts.portal import Portal\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\n"
        "try: Portal()\n"
        "except OSError as error: print(error.strerror)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "Too many open files\n", done.stderr


# --- back from trio -------------------------------------------------------------------------------


@in_asyncio
async def test_trio_calls_a_coroutine_function_of_the_host(client):
    """It runs on the loop it was made in; its result and its errors come back."""
    loop = asyncio.get_running_loop()

    async def answer(text):
        assert asyncio.get_running_loop() is loop
        await asyncio.sleep(0)
        if not text:
            raise LookupError("nothing to answer")
        return f"{text} back"

    assert await client.shout(aio.from_trio(answer)) == "HELLO BACK"

    async def fail(text):
        return await answer("")

    with pytest.raises(LookupError, match="nothing to answer"):
        await client.shout(aio.from_trio(fail))


@in_asyncio
async def test_something_else_than_a_coroutine_function_is_an_error_and_no_wait(client):
    """What goes wrong on the loop comes back."""

    def plain(text):
        return text

    with pytest.raises(TypeError):
        await client.shout(aio.from_trio(plain))


@pytest.mark.parametrize("late", [None, LookupError("too late")])
@in_asyncio
async def test_cancelling_trio_waits_for_the_coroutine_of_the_host(client, late):
    """All the way and back: the host's task, the trio task, the coroutine on the host's loop."""
    log, up = [], asyncio.Event()

    async def slow(text):
        try:
            up.set()
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(0.02)
            log.append("cleaned up")
            if late:
                raise late

    task = asyncio.create_task(client.shout(aio.from_trio(slow)))
    await up.wait()
    task.cancel()
    with pytest.raises(type(late) if late else asyncio.CancelledError):
        await task
    assert log == ["cleaned up"]


@in_asyncio
async def test_a_coroutine_that_its_own_loop_cancels_is_an_error_for_trio(client):
    """And no cancellation, which trio would not know."""

    async def quits(text):
        raise asyncio.CancelledError

    with pytest.raises(RuntimeError, match="cancelled on its asyncio loop"):
        await client.shout(aio.from_trio(quits))


async def test_a_loop_that_is_closed_is_an_error_for_trio():
    """It does not wait for what cannot come."""

    async def make():
        return aio.from_trio(asyncio.sleep)

    sleep = await trio.to_thread.run_sync(lambda: asyncio.run(make()))
    with trio.fail_after(60), pytest.raises(RuntimeError, match="closed"):
        await sleep(0)
