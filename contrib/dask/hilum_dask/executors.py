"""The interface between the driver and what carries out attempts, and the one of this machine."""

from __future__ import annotations

from typing import Protocol

import trio

from hilum_dask.folders import BatchFolder
from hilum_dask.pool import ChildPool
from hilum_dask.records import Assignment, Record


class Executor(Protocol):
    """Something that carries out attempts."""

    @property
    def slots(self) -> int:
        """How many attempts may be given out at the same time; it may change."""

    @property
    def keeps_workspaces(self) -> bool:
        """Whether a later attempt finds the workspace and the session of an earlier one."""

    async def run(self, assignment: Assignment, stop: trio.Event) -> Record:
        """Carry out an attempt.

        Args:
            assignment: The attempt.
            stop: An event after which the attempt ends soon.

        Raises:
            AttemptLost: The attempt ended without a report.
            HilumError: Nothing can be carried out any more.
        """


class LocalExecutor:
    """Carries out attempts on this machine.

    Args:
        pool: The child processes.
        folder: The batch's folder.
        jobs: Maximum number of attempts at the same time.
    """

    keeps_workspaces = True

    def __init__(self, pool: ChildPool, folder: BatchFolder, jobs: int) -> None:
        self._pool = pool
        self._folder = folder
        self.slots = jobs

    async def run(self, assignment: Assignment, stop: trio.Event) -> Record:
        """Carry out an attempt in a child process of this machine."""
        files = self._folder.attempt_name(assignment.name, assignment.attempt)
        log = self._folder.logs / f"{files}.log"
        return await self._pool.run(assignment, stop, log)
