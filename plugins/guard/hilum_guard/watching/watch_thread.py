"""Check a workspace in a thread, several times a second, while commands run.

The checks run in a thread instead of a task, because they must depend neither on the event loop's
clock, which tests replace, nor on the loop being free.
"""

from __future__ import annotations

import threading

from hilum_guard.watching.sandbox_observer import SandboxObserver
from hilum_guard.watching.workspace_watcher import WorkspaceWatcher

INTERVAL = 0.1
"""Interval between two checks, in seconds."""
MAX_SHARE = 0.05
"""Maximum fraction of time spent on checks, which are less frequent in large workspaces."""


class WatchThread:
    """A thread that checks a workspace while commands run.

    Args:
        watch: Performs the checks.
        observer: Receives the thread's reports, in the thread. After a failed check, the next check
            still runs.
    """

    def __init__(self, watch: WorkspaceWatcher, observer: SandboxObserver) -> None:
        self._watch = watch
        self._observer = observer
        self._wanted = threading.Event()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def wake(self) -> None:
        """Start checking because a command is about to start."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="hilum workspace", daemon=True)
            self._thread.start()
        self._wanted.set()

    def stop(self) -> None:
        """Stop the thread and wait for it."""
        self._stopped.set()
        self._wanted.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._wanted.wait()
            if self._stopped.wait(max(INTERVAL, self._watch.seconds / MAX_SHARE)):
                return
            # The event is cleared before the check, so that a later `wake` leads to another check.
            self._wanted.clear()
            try:
                if self._watch.alive():
                    self._wanted.set()
                    self._check()
            except Exception as error:  # an uncaught exception would end the thread
                self._wanted.set()
                self._observer.report_failure(error)

    def _check(self) -> None:
        paths = self._watch.replaced()
        if paths:
            self._observer.report_replaced(paths)
        self._watch.check()
