"""The queue of all jobs, which determines which job begins next.

Jobs that the user is waiting for begin first. Among jobs of equal urgency, owners take turns, and
each owner's jobs begin in the order in which they were queued.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from hilum_agents.runs.jobs import Job

# Number of times that urgent jobs may overtake a job before it counts as urgent itself.
MAX_PASSED_OVER = 10


class _Lane:
    """The jobs of one lane, which share a limit and wait for one another."""

    def __init__(self) -> None:
        self.waiting: dict[str, Job] = {}
        self.running = 0
        self._served: Counter[str] = Counter()
        self._passed_over: Counter[str] = Counter()

    def add(self, job: Job) -> None:
        """Append a job."""
        # The counts are reset when no job is waiting, because only waiting owners compete for
        # slots.
        if not self.waiting:
            self._served.clear()
            self._passed_over.clear()
        others = [self._served[other.owner] for other in self.waiting.values()]
        if not any(other.owner == job.owner for other in self.waiting.values()):
            # A new owner starts with the lowest count among the waiting owners, so that it gets no
            # advantage for the time before it started waiting.
            least = min(others, default=0)
            self._served[job.owner] = max(self._served[job.owner], least)
        self.waiting[job.id] = job

    def remove(self, job: Job) -> None:
        """Remove a job if it is waiting in this lane."""
        self.waiting.pop(job.id, None)
        self._passed_over.pop(job.id, None)

    def take(self, can_begin: Callable[[Job], bool]) -> Job | None:
        """Remove and return the next job that can begin now."""
        order = self.order()
        chosen = next((job for job in order if can_begin(job)), None)
        if chosen is None:
            return None
        # A job that has been overtaken often enough counts as urgent, so no job waits forever.
        if chosen.urgent:
            self._passed_over.update(job.id for job in order if not job.urgent)
        self._served[chosen.owner] += 1
        self.remove(chosen)
        return chosen

    def order(self) -> list[Job]:
        """Return the waiting jobs in the order in which they will begin."""
        turns = Counter(self._served)
        ranked = []
        for number, job in enumerate(self.waiting.values()):
            urgent = job.urgent or self._passed_over[job.id] >= MAX_PASSED_OVER
            ranked.append(((not urgent, turns[job.owner], number), job))
            turns[job.owner] += 1
        ranked.sort(key=lambda pair: pair[0])
        return [job for _, job in ranked]


class JobQueue:
    """All waiting and running jobs of a session.

    Args:
        limit_of: A function that returns how many jobs of a lane may run at once.

    Attributes:
        running: The running jobs by id.
    """

    def __init__(self, limit_of: Callable[[str], int]) -> None:
        self._limit_of = limit_of
        self._lanes: dict[str, _Lane] = {}
        self._busy: set[str] = set()
        self.running: dict[str, Job] = {}

    def add(self, job: Job) -> None:
        """Append a job to its lane."""
        self._lanes.setdefault(job.lane, _Lane()).add(job)

    def remove(self, job: Job) -> None:
        """Remove a waiting job."""
        lane = self._lanes.get(job.lane)
        if lane is not None:
            lane.remove(job)

    def start(self, job: Job) -> None:
        """Count a job as running."""
        self._lanes.setdefault(job.lane, _Lane()).running += 1
        self._busy.add(job.actor)
        self.running[job.id] = job

    def finish(self, job: Job) -> None:
        """Free the slot of a job if it is running."""
        if self.running.pop(job.id, None) is not None:
            self._lanes[job.lane].running -= 1
            self._busy.discard(job.actor)

    def start_next(self, lane: str, can_begin: Callable[[Job], bool]) -> Job | None:
        """Start and return the next job of a lane; return ``None`` if none can begin now."""
        found = self._lanes[lane]
        job = found.take(can_begin) if found.running < self._limit_of(lane) else None
        if job is not None:
            self.start(job)
        return job

    def has_room(self, lane: str, others: int = 0) -> bool:
        """Return whether one more job in a lane could run.

        Args:
            lane: The lane.
            others: Number of runs that count towards the lane's limit but are not in the queue.
        """
        found = self._lanes.get(lane)
        running = found.running if found is not None else 0
        return running + others < self._limit_of(lane)

    def is_busy(self, actor: str) -> bool:
        """Return whether an agent is running a job."""
        return actor in self._busy

    def lanes(self) -> list[str]:
        """Return the lanes in use, and discard empty ones."""
        for name, lane in list(self._lanes.items()):
            if not lane.waiting and not lane.running:
                del self._lanes[name]
        return list(self._lanes)

    @property
    def is_waiting(self) -> bool:
        """Whether any job is waiting."""
        return any(lane.waiting for lane in self._lanes.values())

    def order(self, lane: str) -> list[Job]:
        """Return a lane's waiting jobs in the order in which they will begin."""
        return self._lanes[lane].order()

    def waiting(self) -> list[Job]:
        """Return all waiting jobs."""
        return [job for lane in self._lanes for job in self.order(lane)]

    def places(self) -> dict[str, int]:
        """Return the position of each waiting job in its lane, starting at 1."""
        found: dict[str, int] = {}
        for lane in self._lanes:
            for place, job in enumerate(self.order(lane), 1):
                found[job.id] = place
        return found
