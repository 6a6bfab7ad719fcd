"""Output on its way: what was shown of answers and running calls that are not yet in the log.

A reader that comes late gets the text so far, then what is added. A reader that is slow gets pieces joined. Nothing waits for
readers, and nothing here outlives the event that holds the whole.
"""

from __future__ import annotations

from collections import deque

import attrs

from hilum.events import Delta

KEEP = 200_000


@attrs.define
class Stream:
    """The pieces of one output: a window of the last ``KEEP`` characters."""

    agent: str
    run: str
    pieces: deque[str] = attrs.field(factory=deque)
    first: int = 0
    size: int = 0

    def add(self, text: str) -> None:
        """Add a piece; old ones fall out of the window."""
        self.pieces.append(text)
        self.size += len(text)
        while self.size > KEEP and len(self.pieces) > 1:
            self.size -= len(self.pieces.popleft())
            self.first += 1

    def since(self, position: int) -> tuple[str, int]:
        """Give the text after a position, and the position after it."""
        skip = max(position - self.first, 0)
        text = "".join(list(self.pieces)[skip:]) if skip else "".join(self.pieces)
        return text, self.first + len(self.pieces)


Key = tuple[int, str, str]  # sequence number, kind, call id


class Live:
    """All outputs on their way in a session."""

    def __init__(self) -> None:
        self.streams: dict[Key, Stream] = {}

    def add(self, seq: int, agent: str, run: str, kind: str, text: str, call_id: str) -> None:
        """Add a piece of output."""
        key = (seq, kind, call_id)
        stream = self.streams.get(key)
        if stream is None:
            stream = self.streams[key] = Stream(agent, run)
        stream.add(text)

    def drop(self, agent: str, call_id: str | None = None) -> None:
        """Forget the output of a call, or (without one) of an agent's answer: the event with the whole is logged."""
        for key in [k for k, s in self.streams.items() if s.agent == agent]:
            if (key[1] != "output") if call_id is None else (key[1] == "output" and key[2] == call_id):
                del self.streams[key]

    def news(self, seen: dict[Key, int]) -> list[Delta]:
        """Give what a reader has not seen, and note in ``seen`` that it has."""
        found = []
        for key, stream in self.streams.items():
            text, position = stream.since(seen.get(key, 0))
            seen[key] = position
            if text:
                found.append(Delta(key[0], stream.agent, stream.run, key[1], text, key[2]))  # type: ignore[arg-type]
        for key in [k for k in seen if k not in self.streams]:
            del seen[key]
        return found
