"""The order of the calls in one response.

Calls that use the same files or queues run one after another, all others in parallel.

Every call takes a place in the order before the first call begins. A call waits only for earlier
calls, so no deadlock can occur.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import trio

from hilum.errors import ToolError
from hilum.tools import EVERYTHING, Tool
from hilum.workspace import Workspace

Path = tuple[str, ...]
"""The parts of an absolute path; the empty tuple is the ancestor of every path."""


class Claims(msgspec.Struct, frozen=True):
    """The files and queues that a call uses."""

    reads: frozenset[Path] = frozenset()
    writes: frozenset[Path] = frozenset()
    queues: frozenset[str] = frozenset()

    def meets(self, other: Claims) -> bool:
        """Return whether one call writes a path that the other one reads or writes.

        Two readers do not conflict. A folder includes all paths below it.
        """
        return (
            _overlap(self.writes, other.writes)
            or _overlap(self.writes, other.reads)
            or _overlap(self.reads, other.writes)
        )


def _overlap(ones: Iterable[Path], others: Iterable[Path]) -> bool:
    for one in ones:
        for other in others:
            common = min(len(one), len(other))
            if one[:common] == other[:common]:
                return True
    return False


def claims_of(tool: Tool, arguments: dict[str, Any], workspace: Workspace) -> Claims:
    """Return the paths and queues that a call with these checked arguments uses."""
    return Claims(
        reads=frozenset(_places(tool.paths_read(arguments), workspace)),
        writes=frozenset(_places(tool.paths_written(arguments), workspace)),
        queues=frozenset(tool.queue_names(arguments)),
    )


def _places(paths: Iterable[str], workspace: Workspace) -> Iterable[Path]:
    """Yield the target of each path and, for a link, the path of the link itself.

    A call that writes or deletes a link affects both.
    """
    for path in paths:
        if path == EVERYTHING:
            yield ()
            continue
        try:
            real = workspace.resolve_without_link(path)
        except (ToolError, OSError):
            real = None
        if real is not None:
            yield real.parts
            continue
        try:
            yield workspace.resolve(path).parts
            yield workspace.resolve(path, follow=False).parts
        except (ToolError, OSError):  # the call itself reports the error
            continue


def shown_paths(claims: Claims, workspace: Workspace) -> tuple[str, ...]:
    """Return the paths of claims in the form that is logged.

    The paths are relative to the workspace and sorted, and do not include ``EVERYTHING``.
    """
    paths = (claims.reads | claims.writes) - {()}
    return tuple(sorted(workspace.relative("/".join(path).replace("//", "/")) for path in paths))


class Place(msgspec.Struct, eq=False):
    """The place of one call among the calls in its response.

    Attributes:
        claims: The paths and queues that the call uses. Until the call has begun, a plugin that
            rewrites it may change the claims.
        earlier: The places of earlier calls.
        ended: Set when the call has ended.
        released: Set when the call no longer needs its queues.
        judged: Set when the gates have judged the call, so that its claims are final, or when the
            gates cannot judge it yet.
        begun: Whether the call runs or has run.
        later: The places of later calls.
    """

    claims: Claims
    earlier: tuple[Place, ...] = ()
    later: list[Place] = []
    begun: bool = False
    judged: trio.Event = msgspec.field(default_factory=trio.Event)
    ended: trio.Event = msgspec.field(default_factory=trio.Event)
    released: trio.Event = msgspec.field(default_factory=trio.Event)

    async def wait(self) -> None:
        """Wait until all earlier calls that conflict with this one have ended."""
        while (event := self._obstacle()) is not None:
            # The gates cannot judge this call while it waits, so later calls need not wait for
            # their verdict.
            self.judged.set()
            await event.wait()
            self.judged = trio.Event()

    async def asking(self) -> None:
        """Wait until the gates have judged this call and all earlier ones.

        Gates take different times, but the user is asked in the order of the calls. A call that
        waits for another one to end does not delay the questions about later calls.
        """
        while (event := self._unjudged()) is not None:
            await event.wait()
        # The caller logs its question before any other task runs, so the next question comes after
        # it.
        self.judged.set()

    async def turn(self) -> None:
        """Wait until the claims of all earlier calls are final and this call may begin."""
        self.judged.set()
        while (event := self._unjudged()) is not None or (event := self._obstacle()) is not None:
            await event.wait()
        self.begun = True

    def _unjudged(self) -> trio.Event | None:
        """Return the event of the first earlier call whose claims are not final, if any."""
        for place in self.earlier:
            if not place.judged.is_set():
                return place.judged
        return None

    def _obstacle(self) -> trio.Event | None:
        """Return the event of an earlier call for which this call must wait, if any."""
        for place in self.earlier:
            if place.claims.meets(self.claims) and not place.ended.is_set():
                return place.ended
            if place.claims.queues & self.claims.queues and not place.released.is_set():
                return place.released
        return None

    def overtaken(self) -> bool:
        """Return whether a later call that should have waited for this one has begun.

        A later call can begin too early if a gate changes this call's claims late.
        """
        return any(place.begun and place.claims.meets(self.claims) for place in self.later)

    def end(self) -> None:
        """Release the calls that wait for this one."""
        self.judged.set()
        self.released.set()
        self.ended.set()


def places(claims: Iterable[Claims]) -> list[Place]:
    """Return the places of calls, in the order of the calls."""
    found: list[Place] = []
    for each in claims:
        place = Place(each, tuple(found))
        for other in found:
            other.later.append(place)
        found.append(place)
    return found
