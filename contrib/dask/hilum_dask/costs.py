"""The cost limit of a batch, and what attempts cost that ended without a report."""

from __future__ import annotations

from pathlib import Path

import trio
from hilum import HilumError
from hilum_store import SqliteStore
from hilum_trace.bill.charges import ChargeFold, RequestCharge

READ_LIMIT = 1000
GROWTH = 2.0
"""How much larger a share is after one that was too small."""
SLACK = 1.001
"""A share that is larger by less than this factor is not worth another attempt."""


class CostLimit:
    """The limit on the cost of all tasks.

    Each task reserves a share before it starts, and its session keeps within this share. A session
    exceeds its share by one request at most, so the batch exceeds its limit by one request for each
    running task at most.

    Args:
        limit: The limit in US dollars; 0 for none.
        task: The limit for each task; 0 for none.
        spent: What earlier attempts cost.

    Attributes:
        spent: What all attempts cost so far.
        is_reached: Whether no further task can start.
    """

    def __init__(self, limit: float, task: float, spent: float = 0.0) -> None:
        self.limit = limit
        self.task = task
        self.spent = spent
        self.is_reached = False
        self._reserved = 0.0
        self._running = 0
        self._finished = 0
        self._finished_cost = 0.0

    @property
    def free(self) -> float:
        """What is neither spent nor reserved, in US dollars."""
        if not self.limit:
            return float("inf")
        return self.limit - self.spent - self._reserved

    def reserve(
        self, slots: int, waiting: int, earlier: float = 0.0, too_small: float = 0.0
    ) -> float | None:
        """Reserve the share of a task that is about to start.

        Args:
            slots: How many tasks may run at the same time.
            waiting: How many tasks wait for a start, this one included.
            earlier: What earlier attempts at the task cost, which the task's own limit includes.
            too_small: An amount that is known to be too small for the task; its share is larger.

        Returns:
            The share, which is infinite without a limit; ``None`` if the task must wait until
            others have ended, or if the limit is reached.
        """
        if self.is_reached:
            return None
        own = self.task - earlier if self.task else float("inf")
        share = max(own, 0.0)
        if self.limit:
            if self.free <= 0:
                self.is_reached = not self._running
                return None
            rivals = max(1, min(slots - self._running, waiting))
            # A share that was too small grows, up to everything that is left.
            fair = max(self.free / rivals, GROWTH * too_small)
            share = min(share, self.free, fair)
            if share <= too_small * SLACK:
                self.is_reached = not self._running
                return None
            if self._running and share < min(own, self._usual_cost()):
                return None
            self._reserved += share
        self._running += 1
        return share

    def settle(self, share: float, cost: float | None, *, is_finished: bool) -> None:
        """Give back what a task did not spend.

        Args:
            share: What was reserved.
            cost: What the attempt cost; ``None`` if it is not known.
            is_finished: Whether the task is finished.
        """
        self._running -= 1
        if self.limit:
            self._reserved = max(0.0, self._reserved - share)
        self.spent += cost or 0.0
        if is_finished:
            self._finished += 1
            self._finished_cost += cost or 0.0

    def exhaust(self, share: float, cost: float) -> bool:
        """Record that a share was too small for its task; return whether nothing more is left.

        Call this after ``settle``.

        Args:
            share: What was reserved.
            cost: What the attempt cost.
        """
        was_all = share >= (self.free + cost) * 0.999
        if not self._running and was_all:
            self.is_reached = True
        return self.is_reached

    def _usual_cost(self) -> float:
        """Return the average cost of a finished task."""
        return self._finished_cost / self._finished if self._finished else 0.0


async def read_cost(path: Path) -> tuple[str, float | None]:
    """Return the session in a store, and what it cost, as its log says.

    Args:
        path: The store's file.

    Returns:
        The id, empty if there is no session; and the cost, ``None`` if it is not known.
    """
    if not await trio.Path(path).exists():
        return "", None
    store = SqliteStore(path)
    cost: float | None = None
    try:
        sessions = await store.list()
        if not sessions:
            return "", None
        session = sessions[0].id
        fold = ChargeFold(divided=False)
        last = 0
        while events := await store.read(session, last, READ_LIMIT):
            for event in events:
                last = event.seq
                charge = fold.apply(event)
                if isinstance(charge, RequestCharge) and charge.usage.cost is not None:
                    cost = (cost or 0.0) + charge.usage.cost
        return session, cost
    except HilumError:
        return "", cost
    finally:
        await store.close()
