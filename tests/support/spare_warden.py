"""A warden that runs every command in a spare sandbox, so that tests of the sandbox apply to spares."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hilum.processes import GRACE, Command, Process, Spare, Streams, Warden


class SpareWarden(Warden):
    """A warden that runs every command of a sandbox with spares in a spare."""

    def __init__(self) -> None:
        super().__init__()
        self.spares: list[Process] = []
        self.missed = 0

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
            pool = command.take_spare.func.__self__
            await pool.build_for(command, Streams(stdin, merge, hold))
        opened = super().open(command, stdin=stdin, merge=merge, grace=grace, hold=hold)
        async with opened as process:
            if command.take_spare is not None and process not in self.spares:
                self.missed += 1
            # Sockets of other programs that appear or vanish meanwhile change the sandbox.
            assert self.missed <= 1
            yield process
