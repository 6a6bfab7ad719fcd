"""Support for a trio program inside a synchronous program, where each call blocks until it ends.

After Ctrl-C, a call ends only when the trio side has unwound.

::

    open_blocking = hosted(open_on_trio, wraps=(Client, Stream))

    with open_blocking("example.org") as client:
        client.fetch("/")
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from concurrent import futures
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    closing,
    contextmanager,
    suppress,
)
from functools import wraps as like
from typing import Any, ParamSpec, TypeVar

import trio

from hilum.hosts.portal import Held, Job, Portal
from hilum.hosts.proxy import Proxy

LOOK = 0.5
"""Seconds between two checks for Ctrl-C during a wait."""
P = ParamSpec("P")
T = TypeVar("T")


@contextmanager
def interruptible(job: Job[Any]) -> Iterator[None]:
    """Start a job, which Ctrl-C in the block cancels.

    After Ctrl-C, the block waits until the job has unwound; a second Ctrl-C ends the wait.
    """
    try:
        job.start()
        yield
    except KeyboardInterrupt:
        # The interrupt is raised again only when the trio side has unwound.
        job.cancel()
        _until(job.future)
        raise


def _until(future: futures.Future[T]) -> futures.Future[T]:
    # A signal that arrives immediately before a wait is handled only after the wait, so each wait
    # must be short.
    while not future.done():
        futures.wait([future], LOOK)
    return future


def call(portal: Portal, function: Callable[..., Awaitable[T]], *args: Any, **named: Any) -> T:
    """Run an async function on the trio side and wait for it.

    Raises:
        KeyboardInterrupt: The user pressed Ctrl-C. The function was cancelled and has unwound.
        BaseException: The exception that the function raised.
    """
    job = portal.job(function, *args, **named)
    with interruptible(job):
        return _until(job.future).result()


def iterate(portal: Portal, stream: Any) -> Iterator[Any]:
    """Iterate over an async iterator that runs on the trio side.

    When this iterator is closed, the iterator on the trio side is also closed, if it can be.
    """
    try:
        with suppress(StopAsyncIteration):
            while True:
                yield call(portal, stream.__anext__)
    finally:
        if hasattr(stream, "aclose"):
            with suppress(trio.RunFinishedError):
                call(portal, stream.aclose)


@contextmanager
def hold(portal: Portal, manager: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """Enter and leave an async context manager on the trio side, in a single task.

    An error in the block is raised in the manager on the trio side; if the block is interrupted,
    the manager is cancelled.
    """
    held = Held(portal, manager)
    with interruptible(held.job):
        value = _until(held.entered).result()
        try:
            yield value
        except BaseException as error:
            if not _until(held.leave(error).future).result():
                raise
        else:
            _until(held.leave().future).result()


class BlockingProxy(Proxy):
    """A proxy in a synchronous program for an object on the trio side."""

    def _call(self, function: Any, *args: Any, **named: Any) -> Any:
        return self.wrap(call(self._portal, function, *args, **named))

    def _iterate(self, stream: Any) -> Iterator[Any]:
        return iterate(self._portal, stream)

    @contextmanager
    def _hold(self, manager: Any) -> Iterator[Any]:
        with hold(self._portal, manager) as value:
            yield self.wrap(value)


def hosted(
    function: Callable[P, AbstractAsyncContextManager[Any]],
    *,
    wraps: tuple[type, ...] = (),
    name: str = "trio",
) -> Callable[P, AbstractContextManager[Any]]:
    """Convert a function that returns a trio context manager into one for synchronous code.

    Entering the new context manager starts a trio thread; leaving it ends everything on that
    thread. The context manager yields a ``BlockingProxy``.

    Args:
        function: The function, which is called on the host's side.
        wraps: Types of objects that the host always receives as proxies.
        name: Name of the thread.
    """

    @like(function)
    @contextmanager
    def opened(*args: P.args, **named: P.kwargs) -> Iterator[Any]:
        with (
            closing(Portal(name)) as portal,
            BlockingProxy(portal, None, wraps)._hold(function(*args, **named)) as value,
        ):
            yield value

    return opened
