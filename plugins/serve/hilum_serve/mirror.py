"""The events and the streaming output of a remote session, as far as a client has received them."""

from __future__ import annotations

from collections import deque
from typing import Any

import attrs
import msgspec
import trio
from hilum import HilumError
from hilum import events as ev
from hilum_view import SessionView

Key = tuple[int, str, str]  # sequence number, kind, call id


@attrs.define
class _Output:
    """An output that is still arriving.

    Attributes:
        agent: The agent.
        run: Its run.
        tool: The tool whose arguments arrive; empty for other output.
        start: Offset of ``text`` in the whole output.
        text: The output so far, without a beginning that the server no longer has.
    """

    agent: str
    run: str
    tool: str
    start: int
    text: str = ""

    def add(self, offset: int, text: str) -> None:
        """Add a piece at its offset; a piece that was received before changes nothing."""
        end = self.start + len(self.text)
        if offset > end:
            # The server has dropped what lies between.
            self.start = offset
            self.text = text
        elif offset + len(text) > end:
            self.text += text[end - offset :]


class Mirror:
    """A copy of a remote session's log, with its view.

    Attributes:
        view: The view of the events.
        grants: Scopes and tools that users approved for the rest of the session.
        error: Why nothing more comes; ``None`` as long as something may come.
        closed: Whether nothing more comes.
    """

    def __init__(self) -> None:
        self.view = SessionView()
        self.grants: set[str] = set()
        self.error: HilumError | None = None
        self.closed = False
        self.news = trio.Event()
        self._events: list[ev.AnyEvent] = []
        self._outputs: dict[Key, _Output] = {}
        self._asked: dict[str, str] = {}

    @property
    def last(self) -> int:
        """Number of the last event that was received."""
        return len(self._events)

    def add_event(self, event: ev.AnyEvent) -> bool:
        """Add an event, and return whether it is the next one; one that is known is ignored."""
        if event.seq <= self.last:
            return True
        if event.seq > self.last + 1:
            return False
        self._events.append(event)
        self.view.apply(event)
        self._fold_grants(event)
        self._drop_outputs(event)
        self._wake()
        return True

    def _fold_grants(self, event: ev.AnyEvent) -> None:
        if isinstance(event, ev.ApprovalAsked):
            self._asked[event.id] = event.scope or event.call.name
        elif isinstance(event, ev.ApprovalAnswered):
            scope = self._asked.pop(event.id, "")
            if event.accepted and event.remember != "once" and scope:
                self.grants.add(scope)
        elif isinstance(event, ev.GrantRevoked):
            self.grants.discard(event.scope)

    def add_delta(self, data: dict[str, Any]) -> None:
        """Add a piece of output with its offset, as a stream contains it."""
        offset = int(data.pop("offset", 0))
        delta = msgspec.convert(data, ev.Delta)
        key = (delta.seq, delta.kind, delta.call_id)
        output = self._outputs.get(key)
        if output is None:
            output = _Output(delta.agent, delta.run, delta.tool, offset)
            self._outputs[key] = output
        before = output.start + len(output.text)
        output.add(offset, delta.text)
        added = output.start + len(output.text) - before
        if added > 0:
            self.view.apply(msgspec.structs.replace(delta, text=delta.text[-added:]))
        self._wake()

    def _drop_outputs(self, event: ev.AnyEvent) -> None:
        """Drop the output that an event replaces."""
        for key, output in list(self._outputs.items()):
            _, kind, call = key
            if output.agent != event.agent:
                continue
            if isinstance(event, ev.CallDone):
                is_replaced = kind == "output" and call == event.result.call_id
            else:
                ends = isinstance(event, ev.ModelAnswered | ev.ModelFailed | ev.RunEnded)
                is_replaced = ends and kind != "output"
            if is_replaced:
                del self._outputs[key]

    def close(self, error: HilumError | None = None) -> None:
        """Note that nothing more comes."""
        self.closed = True
        self.error = self.error or error
        self._wake()

    def _wake(self) -> None:
        self.news.set()
        # A trio event cannot be cleared, so it is replaced.
        self.news = trio.Event()

    async def reached(self, seq: int) -> None:
        """Wait until an event was received, or nothing more comes."""
        while self.last < seq and not self.closed:
            await self.news.wait()

    def since(self, after: int) -> list[ev.AnyEvent]:
        """Return the events after a number."""
        return self._events[after:]

    def read_outputs(self, seen: dict[Key, int]) -> tuple[list[ev.Delta], dict[Key, int]]:
        """Return the output after the positions in ``seen``, and the new positions."""
        found = []
        positions = {}
        for key, output in self._outputs.items():
            seq, kind, call = key
            end = output.start + len(output.text)
            position = max(seen.get(key, output.start), output.start)
            is_new_call = bool(output.tool) and key not in seen
            positions[key] = end
            if position < end or is_new_call:
                text = output.text[position - output.start :]
                delta = ev.Delta(
                    seq,
                    output.agent,
                    output.run,
                    kind,  # type: ignore[arg-type]
                    text,
                    call,
                    output.tool,
                )
                found.append(delta)
        return found, positions


class MirrorReader:
    """A reader of a mirror: events in order, and output when all events were read.

    Args:
        mirror: The mirror.
        after: Number of the last event that the caller already knows.
        deltas: Whether to return output while it arrives.
    """

    def __init__(self, mirror: Mirror, after: int, deltas: bool) -> None:
        self._mirror = mirror
        self._after = after
        self._deltas = deltas
        self._ready: deque[ev.AnyEvent | ev.Delta] = deque()
        self._seen: dict[Key, int] = {}

    def __aiter__(self) -> MirrorReader:
        return self

    async def __anext__(self) -> ev.AnyEvent | ev.Delta:
        """Return the next event or delta; wait for it if necessary.

        Raises:
            HilumError: The server refuses this client, or the session is gone.
        """
        mirror = self._mirror
        while not self._ready:
            # Fetched before reading, because anything that arrives in between sets it.
            news = mirror.news
            events = mirror.since(self._after)
            if events:
                self._after = events[-1].seq
                self._ready.extend(events)
            elif self._deltas:
                deltas, self._seen = mirror.read_outputs(self._seen)
                self._ready.extend(deltas)
            if self._ready:
                break
            if mirror.closed:
                if mirror.error is not None:
                    raise mirror.error
                raise StopAsyncIteration
            await news.wait()
        return self._ready.popleft()

    async def aclose(self) -> None:
        """Do nothing. The method exists so that a reader can be used like an async generator."""
