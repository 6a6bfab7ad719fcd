"""Spare sandboxes, which are built before their commands are known.

Building a sandbox takes about 10 ms, mostly for its namespaces and mounts. Therefore hilum builds the
sandbox of the next command while the model thinks. A spare is used for one command, and then it ends:
nothing is kept between two commands. The spare has its own namespaces from the beginning, so no
earlier command can reach it; only hilum holds the socket over which it gets its command.

A spare is used only if the sandbox that would be built now is the same in every respect:

- its command line and environment, which contain all mounts, limits and other permissions,
- the device and inode number of every path in the command line, and the mounts of the machine, both
  as they were before the spare was built,
- the mounts inside the spare, which its first process compares (see ``sandbox_init``).

Otherwise the spare is discarded, and the command starts in a new sandbox.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from functools import partial
from math import inf
from typing import NamedTuple

import attrs
import trio
from hilum import Command
from hilum.processes import CommandError, Spare, Streams

IDLE_SECONDS = 60.0
"""Time after which a spare that was not used ends."""
COMMAND_DELAY_SECONDS = 0.02
"""Time after the start of a command in which no spare is built.

Building takes processor time for which a short command, and the rest of its turn, would have to wait.
"""
REQUEST_DELAY_SECONDS = 0.004
"""Time after ``note_model_request`` in which no spare is built: the request is sent first."""
PAUSE_SECONDS = 1.0
"""Time without further attempts after a spare could not be built; it doubles with each failure."""
MAX_PAUSE_SECONDS = 600.0
MAX_REQUEST_BYTES = 100_000
"""Maximum size of a command for a spare: the kernel refuses arguments above 128 KiB."""
PROCESSES_PER_SPARE = 4
"""Processes of a spare: the keeper, the shell, bubblewrap and the first process of the sandbox."""
_SHARE = 8
"""Spares take at most one of this many processes that ``guard.processes`` allows."""
_MAX_KINDS = 32
_MAX_BUILD_SECONDS = 1.0


class State(NamedTuple):
    """What a sandbox depends on in addition to its command line and environment.

    Attributes:
        inodes: The device and inode number of each path, or None if it does not exist.
        mounts: The mounts of the machine.
        host: The name of the machine, which a sandbox copies.
    """

    inodes: dict[str, tuple[int, int] | None]
    mounts: bytes
    host: str


class Kind(NamedTuple):
    """The commands for which the same spares are built, as long as the permissions are the same.

    Attributes:
        cwd: The working directory.
        env: The environment, sorted.
        read_only: Whether the command only reads the workspace.
        streams: How the process is connected.
    """

    cwd: str
    env: tuple[tuple[str, str], ...]
    read_only: bool
    streams: Streams


@attrs.define(eq=False)
class _IdleSpare:
    """A spare sandbox that waits for a command, with what decides whether it still fits.

    Attributes:
        template: The command line and the environment with which it was built.
        state: The state before it was built.
        spare: The process.
        wait: Cancelled when a command takes the spare, or it is discarded, before it is ready.
    """

    template: Command
    state: State
    spare: Spare
    wait: trio.CancelScope


@attrs.define(eq=False)
class _Demand:
    """How many spares of a kind are needed.

    Attributes:
        template: The command line and the environment of the most recent command.
        uses: The number of commands since the last model request.
        batch: The size of recent batches: the commands between two model requests.
        total: The number of all commands of the kind.
        last_used: When the most recent command started, or when a run began that follows the one of
            that command; on trio's clock.
        run: The run of the most recent command.
        idle: The spares that wait for a command.
    """

    template: Command
    uses: int = 0
    batch: int = 1
    total: int = 0
    last_used: float = -inf
    run: str = ""
    idle: list[_IdleSpare] = attrs.Factory(list)


class _Offer(NamedTuple):
    """A command that may run in a spare sandbox.

    Attributes:
        command: The command before it was wrapped.
        template: The command line of a spare sandbox for it.
        state: The current state.
        request: The command in the format of the process that waits.
    """

    command: Command
    template: Command
    state: State
    request: bytes


class SparePool:
    """The spare sandboxes of a session.

    Args:
        start: Starts a process that waits for its command (see ``Processes.start_spare``).
        limit: Maximum number of spares.
    """

    def __init__(self, start: Callable[[Command, Streams], Awaitable[Spare]], limit: int) -> None:
        self._start = start
        self._limit = limit
        self._demands: dict[Kind, _Demand] = {}
        self._discarded: list[Spare] = []
        self._woken = trio.Event()
        self._run = ""
        self._failures = 0
        self._paused_until = -inf
        self._build_at = -inf

    # --- commands ---------------------------------------------------------------------------------

    def offer(
        self, command: Command, wrapped: Command, state: State, unwanted: tuple[str, ...] = ()
    ) -> Command:
        """Return a wrapped command that runs in a spare sandbox if there is one for it.

        Args:
            command: The command.
            wrapped: The command in its bubblewrap sandbox.
            state: The state of what its sandbox depends on, read since the command was requested.
            unwanted: The files that the sandbox removes at its end.
        """
        from hilum_guard.sandbox import bubblewrap

        # The errors for arguments that a program cannot have come from the usual way of starting.
        if any("\0" in argument for argument in command.argv):
            return wrapped
        try:
            b"".join(map(os.fsencode, command.argv))
        except UnicodeEncodeError:
            return wrapped
        template = bubblewrap.make_spare(command, wrapped)
        request = bubblewrap.encode_spare_request(command.argv, template, unwanted)
        if len(request) > MAX_REQUEST_BYTES:
            return wrapped
        offer = _Offer(command, template, state, request)
        return attrs.evolve(wrapped, take_spare=partial(self._take, offer))

    def _take(self, offer: _Offer, streams: Streams) -> Spare | None:
        """Return a spare for a command, and note that the command starts."""
        demand = self._note(offer, streams)
        while demand.idle:
            found = demand.idle.pop(0)
            spare = found.spare
            found.wait.cancel()
            is_late = not spare.is_ready and time.monotonic() > spare.started + _MAX_BUILD_SECONDS
            fits = found.template == offer.template and found.state == offer.state
            if fits and not is_late and not spare.has_ended():
                spare.request = offer.request
                return spare
            self._discarded.append(spare)
        return None

    def _note(self, offer: _Offer, streams: Streams) -> _Demand:
        """Note that a command starts, and return the demand for spares of its kind."""
        command = offer.command
        kind = Kind(command.cwd, tuple(sorted(command.env.items())), command.read_only, streams)
        demand = self._demands.pop(kind, None) or _Demand(offer.template)
        self._demands[kind] = demand  # the most recently used kind is the last
        demand.template = offer.template
        demand.uses += 1
        demand.total += 1
        demand.batch = max(demand.batch, demand.uses)
        demand.last_used = trio.current_time()
        demand.run = self._run
        for old in list(self._demands)[:-_MAX_KINDS]:
            self._discard_idle(self._demands.pop(old))
        self._delay_building(COMMAND_DELAY_SECONDS)
        return demand

    def _delay_building(self, seconds: float) -> None:
        """Set the time at which missing spares are built."""
        self._build_at = trio.current_time() + seconds
        self._woken.set()

    def _discard_idle(self, demand: _Demand) -> None:
        """Remove all spares of a kind, which then end."""
        while demand.idle:
            found = demand.idle.pop()
            found.wait.cancel()
            self._discarded.append(found.spare)

    def note_model_request(self, run: str) -> None:
        """Note that the model is about to be asked: the commands so far were a batch.

        Args:
            run: The id of the run.
        """
        is_new = run != self._run
        for demand in self._demands.values():
            if demand.uses:
                demand.batch = max(demand.uses, demand.batch - 1)
                demand.uses = 0
            if is_new and demand.run == self._run:
                # Spares that have ended in the meantime are built again for the new run.
                demand.last_used = trio.current_time()
        self._run = run
        # Without commands, there is nothing to build.
        now = trio.current_time()
        if any(_is_wanted(kind, demand, now) for kind, demand in self._demands.items()):
            self._delay_building(REQUEST_DELAY_SECONDS)

    # --- building ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """Build spares and end those that are no longer needed, until cancelled."""
        try:
            while True:
                await self._end_discarded()
                kind = self._find_missing()
                if kind is not None:
                    await self._build(kind)
                    continue
                with trio.move_on_at(self._find_next_time()):
                    await self._woken.wait()
                self._woken = trio.Event()
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """End all spares, also after a cancellation."""
        for demand in self._demands.values():
            self._discard_idle(demand)
        with trio.CancelScope(shield=True):
            await self._end_discarded()

    async def _end_discarded(self) -> None:
        """End the spares that were discarded, have ended or were not used for too long."""
        now = trio.current_time()
        for demand in self._demands.values():
            kept = []
            for each in demand.idle:
                is_old = now >= demand.last_used + IDLE_SECONDS
                if is_old or each.spare.has_ended():
                    self._discarded.append(each.spare)
                else:
                    kept.append(each)
            demand.idle = kept
        if not self._discarded:
            return
        async with trio.open_nursery() as nursery:
            while self._discarded:
                nursery.start_soon(self._discarded.pop().aclose)

    def _find_missing(self) -> Kind | None:
        """Return the kind of which a spare should be built next."""
        now = trio.current_time()
        if now < max(self._paused_until, self._build_at):
            return None
        total = sum(len(demand.idle) for demand in self._demands.values())
        for kind, demand in reversed(self._demands.items()):
            if not _is_wanted(kind, demand, now):
                continue
            if total < self._limit:
                return kind
            # Spares of the kind that was not used for the longest time make room.
            for other in self._demands.values():
                if other is demand:
                    return None
                if other.idle:
                    self._discarded.append(other.idle.pop().spare)
                    return kind
        return None

    def _find_next_time(self) -> float:
        """Return the time at which spares must be ended, or may be built again."""
        times = [
            demand.last_used + IDLE_SECONDS for demand in self._demands.values() if demand.idle
        ]
        begin = max(self._paused_until, self._build_at)
        if begin > trio.current_time():
            times.append(begin)
        return min(times, default=inf)

    async def _build(self, kind: Kind) -> None:
        """Build a spare, and wait until it is ready or a command takes it."""
        demand = self._demands[kind]
        template = demand.template
        try:
            # What changes while the spare is built must be noticed, too.
            state = await trio.to_thread.run_sync(read_state, template)
            spare = await self._start(template, kind.streams)
        except (CommandError, OSError):  # for example, too many files are open
            self._note_failure()
            return
        with trio.CancelScope() as wait:
            # From here on, a command can take the spare; it then waits until the spare is ready.
            built = _IdleSpare(template, state, spare, wait)
            demand.idle.append(built)
            if await spare.wait_ready():
                self._failures = 0
                return
            # If it is no longer in the list, it was taken or discarded in the meantime.
            if built in demand.idle:
                demand.idle.remove(built)
                self._discarded.append(spare)
                self._note_failure()

    def _note_failure(self) -> None:
        """Note that a spare could not be built, and do not try again for some time."""
        pause = min(PAUSE_SECONDS * 2**self._failures, MAX_PAUSE_SECONDS)
        self._failures += 1
        self._paused_until = trio.current_time() + pause


def _is_wanted(kind: Kind, demand: _Demand, now: float) -> bool:
    """Return whether another spare of a kind should be built.

    Args:
        kind: The kind.
        demand: The demand for it.
        now: The time on trio's clock.
    """
    # hilum's own programs may run once only; the model's commands, which the shell opens with
    # `hold`, are rarely alone.
    is_expected = demand.total > 1 or kind.streams.hold
    is_recent = now < demand.last_used + IDLE_SECONDS
    return is_expected and is_recent and len(demand.idle) < demand.batch


def find_limit(wanted: int, processes: int) -> int:
    """Return the maximum number of spares, whose processes count towards the commands' limit.

    Args:
        wanted: The setting ``guard.spare_sandboxes``.
        processes: The setting ``guard.processes``.
    """
    return min(wanted, processes // (_SHARE * PROCESSES_PER_SPARE))


def read_state(template: Command) -> State:
    """Return the current state of what a sandbox depends on. Blocks.

    Raises:
        OSError: The mounts cannot be read.
    """
    paths = {each for each in template.argv if each.startswith("/")}
    inodes: dict[str, tuple[int, int] | None] = {}
    for path in (*paths, template.cwd):
        try:
            found = os.stat(path)
        except (OSError, ValueError):
            inodes[path] = None
        else:
            inodes[path] = (found.st_dev, found.st_ino)
    return State(inodes, _read_mounts(), os.uname().nodename)


def _read_mounts() -> bytes:
    with open("/proc/self/mountinfo", "rb", 0) as file:
        return file.read()
