"""hilum for plain synchronous code: the same names as the kernel's, each call blocks until it is done.

::

    with hilum.blocking.open_kernel(model="openai/gpt-5") as kernel, kernel.open_session(".") as session:
        print(session.run("Fix the failing test").text)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

from hilum.kernel import open_kernel as open_on_trio
from hilum.portal import Portal, Proxy


class Blocking(Proxy):
    """A kernel, session or run, seen from synchronous code."""

    def _run(self, function: Any, *args: Any, **named: Any) -> Any:
        """Wait for an async method. Ctrl-C cancels it, waits until it has ended, and then interrupts as usual."""
        future, cancel = self._portal.submit(function, *args, **named)
        try:
            return self._wrap(future.result())
        except KeyboardInterrupt:
            cancel()
            future.exception()
            raise

    def _iterate(self, stream: Any) -> Iterator[Any]:
        with suppress(StopAsyncIteration):
            while True:
                yield self._run(stream.__anext__)

    @contextmanager
    def _hold(self, manager: Any) -> Iterator[Any]:
        entered, _, leave = self._portal.hold(manager)
        value = entered.result()
        try:
            yield self._wrap(value)
        finally:
            leave().result()


@contextmanager
def open_kernel(*args: Any, **options: Any) -> Iterator[Any]:
    """Open a kernel on a thread of its own; takes what ``hilum.open_kernel`` takes."""
    with closing(Portal()) as portal, Blocking(portal, None)._hold(open_on_trio(*args, **options)) as kernel:
        yield kernel
