"""A warden that runs every command in a spare sandbox, so that tests of the sandbox apply to spares."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hilum.processes import GRACE, Command, Process, Spare, Streams, Warden
from hilum_guard.sandbox.spares import SparePool


async def build_spare(command: Command, streams: Streams) -> None:
    """Build a spare for a wrapped command, and wait until it is ready or another takes it.

    Args:
        command: A command that ``SparePool.offer`` returned.
        streams: How the command will be connected.
    """
    pool = find_pool(command)
    offer = command.take_spare.args[0]
    pool._note(offer, streams)
    await pool._build(next(reversed(pool._demands)))


def find_pool(command: Command) -> SparePool:
    """Return the pool of a wrapped command."""
    return command.take_spare.func.__self__


class SpareWarden(Warden):
    """A warden that runs every command of a sandbox with spares in a spare."""

    def __init__(self) -> None:
        super().__init__()
        self.spares: list[Process] = []
        self.missed = 0
        self._pools: set[SparePool] = set()

    async def aclose(self) -> None:
        """End the spares that no command took: in these tests, no session does so."""
        for pool in self._pools:
            await pool.aclose()
        await super().aclose()

    async def start_spare(self, command: Command, streams: Streams) -> Spare:
        """Note which processes were spares."""
        spare = await super().start_spare(command, streams)
        self.spares.append(spare.process)
        return spare

    @asynccontextmanager
    async def open(
        self,
        command: Command,
        *,
        stdin: bool = False,
        merge: bool = False,
        grace: float = GRACE,
        hold: bool = False,
    ) -> AsyncIterator[Process]:
        """Build a spare for the command, and run the command in it."""
        if command.take_spare is not None:
            self._pools.add(find_pool(command))
            await build_spare(command, Streams(stdin, merge, hold))
        opened = super().open(command, stdin=stdin, merge=merge, grace=grace, hold=hold)
        async with opened as process:
            if command.take_spare is not None and process not in self.spares:
                self.missed += 1
            # Sockets of other programs that appear or vanish meanwhile change the sandbox.
            assert self.missed <= 1
            yield process
