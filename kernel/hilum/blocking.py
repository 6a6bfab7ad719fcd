"""hilum for plain synchronous code: the same names as the kernel's, each call blocks until it is done.

::

    with hilum.blocking.open_kernel(model="openai/gpt-5") as kernel, kernel.open_session(".") as session:
        print(session.run("Fix the failing test").text)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hilum.portal import Held, Portal, Proxy


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
        while True:
            try:
                item = self._run(stream.__anext__)
            except StopAsyncIteration:
                return
            yield item

    @contextmanager
    def _hold(self, manager: Any) -> Iterator[Any]:
        held = Held(self._portal, manager)
        value = held.enter()[0].result()
        try:
            yield self._wrap(value)
        finally:
            held.leave().result()


@contextmanager
def open_kernel(*args: Any, **options: Any) -> Iterator[Any]:
    """Open a kernel on a thread of its own; takes what ``hilum.open_kernel`` takes."""
    from hilum.kernel import open_kernel as opened

    portal = Portal()
    portal.start()
    try:
        with Blocking(portal, None)._hold(opened(*args, **options)) as kernel:
            yield kernel
    finally:
        portal.close()
