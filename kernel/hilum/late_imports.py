"""Import modules before their first use, while a session waits for the model or for a prompt.

A quick start imports only what the first request needs. The first call of a tool would then wait for
all that judges and runs it: about 140 modules, which take 150 ms to import. No model answers as fast
as that, so these modules are imported while it works on the first request.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from importlib import import_module
from math import inf

import trio

from hilum.errors import StoreError

IDLE_SECONDS = 0.5
"""Seconds after a session has opened until modules are imported, if no prompt is expected at once.
The face draws its first screen in this time."""


class LateImports:
    """The modules that a session imports before their first use.

    Args:
        wait_for_request: Waits until the first request to the model is under way.
        expects_prompt: Whether a prompt follows at once (see ``Kernel.expects_prompt``).
    """

    def __init__(
        self, wait_for_request: Callable[[], Awaitable[None]], *, expects_prompt: bool
    ) -> None:
        self._wait_for_request = wait_for_request
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
        # If the log cannot be read, whoever works with it reports that.
        with (
            trio.move_on_after(inf if self._expects_prompt else IDLE_SECONDS),
            suppress(StoreError),
        ):
            await self._wait_for_request()
        for name in self._list_missing():
            # A session that closes does not wait for the module that is being imported.
            await trio.to_thread.run_sync(_import_quietly, name, abandon_on_cancel=True)

    def _list_missing(self) -> list[str]:
        return [name for name in self._names if name not in sys.modules]


def _import_quietly(name: str) -> None:
    # A module of another author may raise anything.
    with suppress(Exception):
        import_module(name)
