"""The command line's own run, on the simulated parts: what ``hilum run`` shows must be what the log
says.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Mapping, Sequence
from typing import Any

from hilum import HilumError
from hilum import events as ev
from hilum.testing import plugin
from hilum_cli.faces import Face
from hilum_cli.headless import Headless
from hilum_cli.run_options import RunOptions

from simulator.invariants import Checker
from simulator.storage import SimulatedStore

# Standard output of a simulated run.
_NOWHERE = os.open(os.devnull, os.O_WRONLY)


class RecordingFace(Face):
    """A face that keeps what it was to show."""

    def __init__(self) -> None:
        super().__init__()
        self.out.fd = _NOWHERE
        self.end: ev.RunEnded | None = None
        self.error: HilumError | None = None

    async def ended(self, end: ev.RunEnded, session: str) -> None:
        """Keep the end."""
        self.end = end

    def failed(self, error: HilumError) -> None:
        """Keep the error."""
        self.error = error


class Terminal:
    """One ``hilum run``.

    Args:
        plugins: The plugins of the kernel.
        store: Where the session is.
        settings: Settings by dotted key.
        environ: Environment to read settings from.
        workspace: The folder to work in.
        prompt: What the user says; empty resumes only.
        approve: The approval policy.
    """

    def __init__(
        self,
        plugins: Sequence[object],
        store: SimulatedStore,
        settings: Mapping[str, object],
        environ: Mapping[str, str],
        workspace: str,
        prompt: str,
        approve: str | None,
    ) -> None:
        self._prompt = prompt
        self.face = RecordingFace()
        options = RunOptions(
            workspace=workspace,
            prompt=prompt,
            resume=store.session,
            approve=approve,
            settings=dict(settings),
            environ=environ,
            plugins=[*plugins, plugin("store", provide_store=lambda: store)],
        )
        self._headless = Headless(options, self.face)

    async def run(self) -> int:
        """Run to the end; returns the exit code."""
        try:
            return await self._headless.main()
        finally:
            gc.unfreeze()  # the program ends here, and its memory with it

    def stop(self) -> None:
        """Do what the first SIGINT does."""
        self._headless.stopping.signal = 2
        self._headless.stopping.stop()

    def check(self, checker: Checker, code: int) -> None:
        """Check that what was shown is what the log says of the prompt."""
        runs = [
            event
            for event in checker.events
            if isinstance(event, ev.PromptQueued) and event.text == self._prompt
        ]
        ends = {event.run: event for event in checker.events if isinstance(event, ev.RunEnded)}
        if not self._prompt or not runs or runs[-1].run not in ends:
            return
        end = ends[runs[-1].run]
        shown: Any = self.face.end
        if shown is None:
            error = self.face.error
            told = f"the error {error.code}: {error}" if error is not None else "nothing"
            checker.violated(
                "the command line shows the answer",
                f"the run ended as {end.state}, and it showed {told}",
            )
        elif shown.seq and shown.seq < end.seq:
            checker.violated(
                "the command line shows the answer",
                f"it showed an older end: {shown.state} {shown.text!r}",
            )
        elif shown.text != end.text and shown.run == end.run:
            checker.violated(
                "the command line shows the answer", f"{shown.text!r} in place of {end.text!r}"
            )
        elif shown.state == "completed" and code not in (0, 130):
            checker.violated(
                "the command line shows the answer",
                f"the run completed, and the exit code is {code}",
            )
