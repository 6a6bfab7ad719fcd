"""hilum for plain synchronous code: the same names as the kernel's, each call blocks until it is done.

with hilum.blocking.open_kernel(model="openai/gpt-5") as kernel, kernel.open_session(".") as session:
    print(session.run("Fix the failing test").text)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hilum.portal import Held, Portal

if TYPE_CHECKING:
    from hilum.events import AnyEvent, Delta, RunEnded
    from hilum.kernel import Kernel as TrioKernel
    from hilum.session import Run as TrioRun
    from hilum.session import Session as TrioSession


class Run:
    """An agent working on one prompt, seen from synchronous code."""

    def __init__(self, portal: Portal, run: TrioRun) -> None:
        self._portal, self.trio = portal, run

    def wait(self) -> RunEnded:
        """Wait for the end. Ctrl-C stops the run, waits until it has ended, and then interrupts as usual."""
        future, _ = self._portal.submit(self.trio.wait)
        try:
            return future.result()
        except KeyboardInterrupt:
            self.stop()
            future.result()
            raise

    def stop(self) -> None:
        """End the run at once, with everything it started."""
        self._portal.call(self.trio.stop)


class Session:
    """A session, seen from synchronous code; ``trio`` is the session itself, to be touched on its own thread only."""

    def __init__(self, portal: Portal, session: TrioSession) -> None:
        self._portal, self.trio = portal, session

    @property
    def id(self) -> str:
        """The session's id."""
        return self.trio.id

    def prompt(self, text: str, **options: Any) -> Run:
        """Give an agent something to do; see ``hilum.Session.prompt``."""
        future, _ = self._portal.submit(lambda: self.trio.prompt(text, **options))
        return Run(self._portal, future.result())

    def run(self, text: str, **options: Any) -> RunEnded:
        """Prompt and wait for the end."""
        return self.prompt(text, **options).wait()

    def answer(self, approval: str, accepted: bool, **options: Any) -> None:
        """Answer an approval; see ``hilum.Session.answer``."""
        self._portal.call(lambda: self.trio.answer(approval, accepted, **options))

    def set(self, **changes: Any) -> None:
        """Change mode, model or approval policy; see ``hilum.Session.set``."""
        self._portal.call(lambda: self.trio.set(**changes))

    def stop(self) -> None:
        """End everything that runs in the session."""
        self._portal.call(self.trio.stop)

    def events(self, after: int = 0, *, deltas: bool = False) -> Iterator[AnyEvent | Delta]:
        """Read events; blocks for the next one, ends with the session."""
        stream = self.trio.events(after, deltas=deltas)
        try:
            while True:
                future, cancel = self._portal.submit(stream.__anext__)
                try:
                    yield future.result()
                except StopAsyncIteration:
                    return
                except KeyboardInterrupt:
                    cancel()
                    raise
        finally:
            self._portal.submit(stream.aclose)  # type: ignore[attr-defined]


class Kernel:
    """A kernel, seen from synchronous code."""

    def __init__(self, portal: Portal, kernel: TrioKernel) -> None:
        self._portal, self.trio = portal, kernel

    @contextmanager
    def open_session(self, workspace: str = ".", **options: Any) -> Iterator[Session]:
        """Open a session; see ``hilum.Kernel.open_session``."""
        with _held(self._portal, self.trio.open_session(workspace, **options)) as session:
            yield Session(self._portal, session)


@contextmanager
def _held(portal: Portal, manager: Any) -> Iterator[Any]:
    held = Held(portal, manager)
    value = held.enter().result()
    try:
        yield value
    finally:
        held.leave().result()


@contextmanager
def open_kernel(*args: Any, **options: Any) -> Iterator[Kernel]:
    """Open a kernel on a thread of its own; takes what ``hilum.open_kernel`` takes."""
    from hilum.kernel import open_kernel as opened

    portal = Portal()
    portal.start()
    try:
        with _held(portal, opened(*args, **options)) as kernel:
            yield Kernel(portal, kernel)
    finally:
        portal.close()
