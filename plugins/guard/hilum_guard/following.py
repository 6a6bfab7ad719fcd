"""Looks at a workspace in a thread, several times a second, while commands run.

A thread and not a task: it must not depend on the clock of the event loop, which tests replace, nor
on the loop being free.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from hilum_guard.watching import Watch

INTERVAL = 0.1
"""Seconds between two looks."""
MAX_SHARE = 0.05
"""The share of time that looks may take: in large workspaces they are less frequent."""


class Follower:
    """The thread.

    Args:
        watch: What it looks with.
        on_made_inert: Called in the thread with sentences on what was made inert.
        on_replaced: Called in the thread with held paths that another file has taken the place of.
        on_failed: Called in the thread with what a look failed with; the next look is tried all the
            same.
    """

    def __init__(
        self,
        watch: Watch,
        on_made_inert: Callable[[list[str]], None],
        on_replaced: Callable[[list[str]], None],
        on_failed: Callable[[Exception], None],
    ) -> None:
        self._watch = watch
        self._on_made_inert = on_made_inert
        self._on_replaced = on_replaced
        self._on_failed = on_failed
        self._wanted = threading.Event()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def wake(self) -> None:
        """Begin to look, for a command is about to start."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="hilum workspace", daemon=True)
            self._thread.start()
        self._wanted.set()

    def stop(self) -> None:
        """End the thread and wait for it."""
        self._stopped.set()
        self._wanted.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._wanted.wait()
            if self._stopped.wait(max(INTERVAL, self._watch.seconds / MAX_SHARE)):
                return
            # Cleared before what it is about is looked at: whoever sets it later is heard in the
            # next round.
            self._wanted.clear()
            try:
                if self._watch.alive():
                    self._wanted.set()
                    self._look()
            except Exception as error:  # whatever it is: a thread that ends here would leave all later commands unwatched
                self._wanted.set()
                self._on_failed(error)

    def _look(self) -> None:
        paths = self._watch.replaced()
        if paths:
            self._on_replaced(paths)
        said = self._watch.check()
        if said:
            self._on_made_inert(said)
