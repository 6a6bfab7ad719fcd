"""Everything that could differ between two runs of one seed, replaced: scheduling, clock,
identities, threads.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import outcome
import trio
import trio._core._run as scheduler
from hilum.late_imports import LateImports
from trio.testing import MockClock

# Later than every time stamp of a real file, so that no file ever looks freshly written.
EPOCH = 2_000_000_000.0


class Folders:
    """The folders of one process in which runs take place; a run finds them empty.

    Attributes:
        base: Contains all others. Its length is the same in every process: paths are in logs, and
            logs are compared.
        workspace: Where the session works.
        data: Where plugins keep their data.
    """

    def __init__(self) -> None:
        shared_memory = Path("/dev/shm")
        parent = shared_memory if os.access(shared_memory, os.W_OK) else Path(tempfile.gettempdir())
        self.base = parent / f"hilum-simulation-{os.getpid():08d}"
        self.workspace = self.base / "workspace"
        self.data = self.base / "data"
        self._saved = self.base.with_name(f"{self.base.name}-saved")

    def clear(self) -> None:
        """Make the folders, empty."""
        self.remove()
        for name in ("workspace", "data", "config", "home"):
            (self.base / name).mkdir(parents=True)

    def remove(self) -> None:
        """Remove the folders."""
        shutil.rmtree(self.base, ignore_errors=True)
        shutil.rmtree(self._saved, ignore_errors=True)

    def save(self) -> None:
        """Copy the folders as they are now, which is how a killed process leaves them."""
        shutil.rmtree(self._saved, ignore_errors=True)
        shutil.copytree(self.base, self._saved, symlinks=True)

    def restore(self) -> None:
        """Bring back what ``save`` copied."""
        if self._saved.exists():
            shutil.rmtree(self.base)
            self._saved.rename(self.base)

    @property
    def environ(self) -> dict[str, str]:
        """Variables under which hilum uses these folders and no others."""
        return {
            "HILUM_CONFIG": str(self.base / "config"),
            "HILUM_DATA": str(self.data),
            "HOME": str(self.base / "home"),
        }


@contextmanager
def isolated_environment(folders: Folders) -> Iterator[None]:
    """Hide the user's settings, keys and home folder."""
    saved = dict(os.environ)
    for name in saved:
        if name.startswith(("HILUM_", "XDG_")) or name.endswith(
            ("_API_KEY", "_BASE_URL", "_TOKEN")
        ):
            del os.environ[name]
    os.environ.update(folders.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(saved)


@contextmanager
def deterministic(seed: int) -> Iterator[random.Random]:
    """Seed the scheduler and identities, and replace wall clock and threads, for runs of trio
    inside the block.

    Yields:
        Random numbers for whoever needs some during the run; the scheduler has its own.
    """
    chance = random.Random(f"{seed}/run")
    identities = random.Random(f"{seed}/identities")
    thread_times = random.Random(f"{seed}/threads")
    own_thread = threading.get_ident()
    real_urandom = os.urandom
    real_time = time.time
    real_monotonic = time.monotonic
    real_strftime = time.strftime

    def urandom(size: int) -> bytes:
        return (
            identities.randbytes(size)
            if threading.get_ident() == own_thread
            else real_urandom(size)
        )

    def now() -> float | None:
        try:
            return trio.current_time()
        except RuntimeError:
            return None

    def virtual_time() -> float:
        moment = now()
        return real_time() if moment is None else EPOCH + moment

    def virtual_monotonic() -> float:
        moment = now()
        return real_monotonic() if moment is None else moment

    def virtual_time_ns() -> int:
        return int(virtual_time() * 1e9)

    def strftime(pattern: str, moment: time.struct_time | None = None) -> str:
        return real_strftime(pattern, time.gmtime(virtual_time()) if moment is None else moment)

    async def run_sync(
        function: Callable[..., Any], *arguments: Any, abandon_on_cancel: bool = False, **_: Any
    ) -> object:
        """Run a function of a thread inline: it takes effect at one moment, between two waits that
        others can use.
        """
        await trio.sleep(thread_times.choice((0, 0, 0.001, 0.01)))
        try:
            return function(*arguments)
        finally:
            with trio.CancelScope(shield=not abandon_on_cancel):
                await trio.sleep(thread_times.choice((0, 0, 0.001)))

    def start_thread_soon(
        function: Callable[[], Any], deliver: Callable[[Any], object], _: str | None = None
    ) -> None:
        deliver(outcome.capture(function))

    def from_thread_run_sync(function: Callable[..., Any], *arguments: Any, **_: Any) -> object:
        return function(*arguments)

    replacements: list[tuple[Any, str, Any]] = [
        (scheduler, "_ALLOW_DETERMINISTIC_SCHEDULING", True),
        (scheduler, "_r", random.Random(f"{seed}/scheduler")),
        (os, "urandom", urandom),
        (time, "time", virtual_time),
        (time, "monotonic", virtual_monotonic),
        (time, "time_ns", virtual_time_ns),
        (time, "strftime", strftime),
        (trio.to_thread, "run_sync", run_sync),
        (trio.lowlevel, "start_thread_soon", start_thread_soon),
        (trio.from_thread, "run_sync", from_thread_run_sync),
        (trio.from_thread, "check_cancelled", lambda: None),
        # What is imported already depends on what ran before in this process.
        (LateImports, "_list_missing", lambda late: list(late._names)),
    ]
    saved = [(owner, name, getattr(owner, name)) for owner, name, _ in replacements]
    for owner, name, value in replacements:
        setattr(owner, name, value)
    try:
        yield chance
    finally:
        for owner, name, value in saved:
            setattr(owner, name, value)


class Watchdog(trio.abc.Instrument):
    """Counts the steps of all tasks, and does something at chosen ones.

    Args:
        limit: Steps after which a run counts as one that never ends.
        expired: Called once at the limit.
    """

    def __init__(self, limit: int, expired: Callable[[], None]) -> None:
        self.steps = 0
        self._limit = limit
        self._expired = expired
        self._planned: dict[int, Callable[[], None]] = {}

    def plan(self, steps: int, action: Callable[[], None]) -> None:
        """Have something done after so many further steps."""
        self._planned[self.steps + max(steps, 1)] = action

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.steps += 1
        if self.steps == self._limit:
            self._expired()
        if self._planned and (action := self._planned.pop(self.steps, None)) is not None:
            action()


def unshield_everything() -> str:
    """Make every task of the run cancellable again, so that even a deadlock can be left.

    Returns:
        Which tasks there are and where they wait, for the report.
    """
    waiting: list[str] = []
    root = trio.lowlevel.current_root_task()
    tasks = [root] if root is not None else []
    while tasks:
        task = tasks.pop()
        status: Any = task._cancel_status
        while status is not None:
            status._scope.shield = False
            status = status._parent
        waiting.append(f"{task.name}: {_where(task)}")
        for nursery in task.child_nurseries:
            tasks.extend(sorted(nursery.child_tasks, key=lambda child: child._counter))
    return "\n".join(waiting)


def _where(task: trio.lowlevel.Task) -> str:
    frames = [
        f"{Path(frame.f_code.co_filename).name}:{number}"
        for frame, number in task.iter_await_frames()
        if "trio" not in frame.f_code.co_filename and "contextlib" not in frame.f_code.co_filename
    ]
    return " > ".join(frames[-4:]) or "in trio"


def virtual_clock() -> MockClock:
    """Create a clock that jumps to the next deadline whenever all tasks wait."""
    return MockClock(autojump_threshold=0)


def stable_hashes() -> bool:
    """Return whether the order of sets of texts is the same in every process (``PYTHONHASHSEED`` is
    a number).
    """
    return not sys.flags.hash_randomization
