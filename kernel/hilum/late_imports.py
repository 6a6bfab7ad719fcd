"""Import modules before their first use, while a session waits for the model or for a prompt.

A quick start imports only what the first request needs. The first call of a tool would then wait for
all that judges and runs it: about 140 modules, which take 150 ms to import. No model answers as fast
as that, so these modules are imported while it works on the first request.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from math import inf

import trio

from hilum.events import PromptFrozen
from hilum.journal import Journal, Reader

IDLE_SECONDS = 0.5
"""Seconds after a session has opened until modules are imported, if no prompt is expected at once.
The face draws its first screen in this time."""
REQUEST_SECONDS = 0.05
"""Seconds after the prompt is complete until modules are imported. The request is sent in this time:
imports would take turns with it."""


class LateImports:
    """The modules that a session imports before their first use.

    Args:
        journal: The log of the session.
        expects_prompt: Whether a prompt follows at once (see ``Kernel.expects_prompt``).
    """

    def __init__(self, journal: Journal, *, expects_prompt: bool) -> None:
        self._journal = journal
        self._began_at = journal.last
        self._expects_prompt = expects_prompt
        self._names: dict[str, None] = {}

    def add(self, names: Iterable[str]) -> None:
        """Add modules, in the order in which they are imported."""
        self._names.update(dict.fromkeys(names))

    async def run(self) -> None:
        """Import the modules in a thread, one after another, as soon as the session waits.

        A module that cannot be imported is left out: its first use reports why.
        """
        if not self._list_missing():
            return
        await self._wait()
        for name in self._list_missing():
            # A session that closes does not wait for the module that is being imported.
            await trio.to_thread.run_sync(_import_quietly, name, abandon_on_cancel=True)

    def _list_missing(self) -> list[str]:
        return [name for name in self._names if name not in sys.modules]

    async def _wait(self) -> None:
        """Wait until the first request has been sent or, without a prompt, for a short time."""
        with trio.move_on_after(inf if self._expects_prompt else IDLE_SECONDS) as scope:
            async for _ in Reader(self._journal, self._began_at, False, (PromptFrozen,)):
                break
        if not scope.cancelled_caught:
            await trio.sleep(REQUEST_SECONDS)


def _import_quietly(name: str) -> None:
    # A module of another author may raise anything.
    with suppress(Exception):
        import_module(name)
