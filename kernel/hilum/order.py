"""The order of the calls of one answer: as if they ran one after another wherever they meet, in
parallel where not.

Every call takes its place before the first one begins. A call waits for earlier ones only, so none
waits for ever.
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
"""The parts of an absolute path; the empty one is above all paths."""


class Claims(msgspec.Struct, frozen=True):
    """What a call touches."""

    reads: frozenset[Path] = frozenset()
    writes: frozenset[Path] = frozenset()
    queues: frozenset[str] = frozenset()

    def meets(self, other: Claims) -> bool:
        """Return whether one writes what the other reads or writes.

        Readers do not meet; a folder holds all below it.
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
    """Return what a call with these checked arguments touches."""
    return Claims(
        reads=frozenset(_places(tool.paths_read(arguments), workspace)),
        writes=frozenset(_places(tool.paths_written(arguments), workspace)),
        queues=frozenset(tool.queue_names(arguments)),
    )


def _places(paths: Iterable[str], workspace: Workspace) -> Iterable[Path]:
    """Yield where paths lead, and where a link itself is: both are touched by who writes or deletes
    it.
    """
    for path in paths:
        if path == EVERYTHING:
            yield ()
            continue
        try:
            yield workspace.resolve(path).parts
            yield workspace.resolve(path, follow=False).parts
        except (ToolError, OSError):  # the call itself reports it
            continue


def shown_paths(claims: Claims, workspace: Workspace) -> tuple[str, ...]:
    """Return the paths of claims as the log has them: relative to the workspace, sorted, without
    ``EVERYTHING``.
    """
    paths = (claims.reads | claims.writes) - {()}
    return tuple(sorted(workspace.relative("/".join(path).replace("//", "/")) for path in paths))


class Place(msgspec.Struct, eq=False):
    """The place of one call among those of its answer.

    Attributes:
        claims: What the call touches. A plugin that rewrites the call may change it until the call
            has begun.
        earlier: The places before it.
        ended: Set when the call has ended.
        released: Set when the call is through with its queues.
        judged: Set when it is known what the call touches: the gates have judged it, or it cannot
            be their turn yet.
        begun: Whether the call runs, or has run.
        later: The places after it.
    """

    claims: Claims
    earlier: tuple[Place, ...] = ()
    later: list[Place] = msgspec.field(default_factory=list)
    begun: bool = False
    judged: trio.Event = msgspec.field(default_factory=trio.Event)
    ended: trio.Event = msgspec.field(default_factory=trio.Event)
    released: trio.Event = msgspec.field(default_factory=trio.Event)

    async def wait(self) -> None:
        """Wait until no earlier call that this one meets is left."""
        while (event := self._obstacle()) is not None:
            # Calls behind this one need not wait for its gates, which cannot judge it before the
            # obstacle is gone.
            self.judged.set()
            await event.wait()
            self.judged = trio.Event()

    async def asking(self) -> None:
        """Wait until this call, which is judged, may be asked about: the gates have judged all
        earlier ones.

        Gates take different times; the user is asked in the order of the calls. A call that waits
        for the end of another one is asked when that has ended, and holds back no question
        meanwhile.
        """
        while (event := self._unjudged()) is not None:
            await event.wait()
        # The question is written before anything else runs, so the next one comes after it.
        self.judged.set()

    async def turn(self) -> None:
        """Wait until this call, which is judged, may begin: no gate can move an earlier one into
        its way any more.
        """
        self.judged.set()
        while (event := self._unjudged()) is not None or (event := self._obstacle()) is not None:
            await event.wait()
        self.begun = True

    def _unjudged(self) -> trio.Event | None:
        """Return what must happen before it is known what all earlier calls touch, ``None`` where
        it is.
        """
        return next((place.judged for place in self.earlier if not place.judged.is_set()), None)

    def _obstacle(self) -> trio.Event | None:
        """Return what must happen before this call may go on, ``None`` where nothing is in its
        way.
        """
        for place in self.earlier:
            if place.claims.meets(self.claims) and not place.ended.is_set():
                return place.ended
            if place.claims.queues & self.claims.queues and not place.released.is_set():
                return place.released
        return None

    def overtaken(self) -> bool:
        """Return whether a later call that this one meets has begun, because a gate moved this one
        only now.
        """
        return any(place.begun and place.claims.meets(self.claims) for place in self.later)

    def end(self) -> None:
        """Let those that wait for this call begin."""
        self.judged.set()
        self.released.set()
        self.ended.set()


def places(claims: Iterable[Claims]) -> list[Place]:
    """Return the places of calls, in their order."""
    found: list[Place] = []
    for each in claims:
        place = Place(each, tuple(found))
        for other in found:
            other.later.append(place)
        found.append(place)
    return found
