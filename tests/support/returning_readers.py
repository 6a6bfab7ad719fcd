"""Readers of a session's streams that lose their connections, and return with what they have seen.

They keep what arrives as docs/serve.md tells clients to do it, and complain about everything that
a client could not repair.
"""

import json
from random import Random
from typing import Any

import h11
import trio
from served import Refused, Served, Socket
from wsproto.utilities import RemoteProtocolError

KINDS = {
    "agent:stream-content": "text",
    "agent:output": "output",
    "agent:tool-call": "arguments",
    "answer_delta": "text",
}
"""The kinds of streaming output by their names in other vocabularies."""
UNLIMITED = 2**60


class _ShortStream:
    """A stream that is cut after a number of bytes, wherever that is."""

    def __init__(self, stream: trio.SocketStream, limit: int) -> None:
        self._stream = stream
        self._left = limit

    @property
    def is_cut(self) -> bool:
        """Whether nothing more can be received."""
        return self._left <= 0

    async def send_all(self, data: bytes) -> None:
        await self._stream.send_all(data)

    async def receive_some(self, size: int) -> bytes:
        if self.is_cut:
            return b""
        data = await self._stream.receive_some(min(size, self._left))
        self._left -= len(data)
        return bytes(data)


class LogCopy:
    """What a client has of ``events``, ``002`` or ``003``.

    Attributes:
        facts: The elements with a number of their own, in order.
        after: The number that the client names when it returns.
    """

    def __init__(self) -> None:
        self.facts: list[dict[str, Any]] = []
        self.after = 0
        self._texts: dict[tuple[int, str, str], str] = {}

    def apply(self, element: dict[str, Any]) -> None:
        """Apply an element."""
        if "seq" not in element:
            assert element["type"] in ("hello", "beat", "bye"), element
        elif "offset" in element:
            self._add_output(element)
        else:
            self.facts.append(element)

    def _add_output(self, element: dict[str, Any]) -> None:
        name = element.get("kind") or element.get("type") or element["event"]
        call = element.get("call_id") or element.get("toolCallId", "")
        key = (element["seq"], KINDS.get(name, name), call)
        pieces = ("text", "content", "chunk", "argsDelta")
        (added,) = [element[piece] for piece in pieces if piece in element]
        text = self._texts.get(key, "")
        offset = element["offset"]
        assert offset <= len(text), f"output is missing before {element}; there is {text!r}"
        self._texts[key] = text[:offset] + added

    def note_seen(self, number: int | None = None) -> None:
        """Note that everything so far has arrived; the number of the last fact by default."""
        if number is None and self.facts:
            number = self.facts[-1]["seq"]
        self.after = max(self.after, number or 0)

    def prepare_return(self) -> None:
        """Drop the elements of an event of which not all have arrived."""
        self.facts = [each for each in self.facts if each["seq"] <= self.after]

    def find_text(self, kind: str) -> str:
        """Return the newest output of a kind."""
        keys = [key for key in self._texts if key[1] == kind]
        return self._texts[max(keys)] if keys else ""


class ViewCopy:
    """What a client has of ``view``.

    Attributes:
        entries: The entries by id.
        state: The state.
        after: The number that the client names when it returns.
    """

    def __init__(self) -> None:
        self.entries: dict[int, dict[str, Any]] = {}
        self.state: dict[str, Any] = {}
        self.after = 0
        self._lengths: dict[tuple[int, str], int] = {}

    def apply(self, element: dict[str, Any]) -> None:
        """Apply an element."""
        kind = element["type"]
        if kind == "snapshot":
            self.entries = {each["id"]: each for each in element["entries"]}
            self._lengths.clear()
            self.state = dict(element["state"])
        elif kind == "entry":
            identity = element["entry"]["id"]
            self.entries[identity] = element["entry"]
            for key in [key for key in self._lengths if key[0] == identity]:
                del self._lengths[key]
        elif kind == "text":
            self._grow(element)
        elif kind == "state":
            parts = {name: each for name, each in element.items() if name not in ("type", "seq")}
            self.state.update(parts)
        else:
            assert kind in ("hello", "beat", "bye"), element
        if kind in ("snapshot", "state"):
            self.after = max(self.after, element["seq"])

    def _grow(self, element: dict[str, Any]) -> None:
        entry = self.entries[element["entry"]]
        field = element["field"]
        if field == "arguments":
            return  # they are replaced by the call's own entry
        old = entry[field]
        key = (entry["id"], field)
        whole = entry.get("lengths", {}).get(field, _count_units(old))
        have = self._lengths.get(key, whole)
        at = element["at"]
        assert at <= have, f"output is missing before {element}; there is {old!r}"
        added = element["add"].encode("utf-16-le")[2 * (have - at) :].decode("utf-16-le")
        entry[field] = old + added
        self._lengths[key] = have + _count_units(added)

    def note_seen(self, number: int | None = None) -> None:
        """Note the number of a server-sent event, which a state or snapshot has as well."""
        assert number is None or number <= self.after

    def prepare_return(self) -> None:
        """Do nothing: entries that arrive again replace those that are known."""

    def find_text(self, kind: str) -> str:
        """Return the newest output of a kind."""
        holder = "card" if kind == "output" else "answer"
        found = [each[kind] for each in self.entries.values() if each["kind"] == holder]
        return str(found[-1]) if found else ""


def _count_units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


class ReturningReader:
    """A reader that connects again whenever its connection is lost.

    Args:
        served: The server.
        session: Id of the session.
        vocabulary: What it reads.
        transport: ``socket`` or ``stream``.
        random: Chooses after how many bytes a connection is lost; None for a reader that keeps its
            connection.

    Attributes:
        copy: What has arrived.
        connections: Number of connections so far.
        news: Set, and then replaced by a new event, when something has arrived.
    """

    def __init__(
        self,
        served: Served,
        session: str,
        vocabulary: str,
        transport: str,
        random: Random | None = None,
    ) -> None:
        self.vocabulary = vocabulary
        self.copy: LogCopy | ViewCopy = ViewCopy() if vocabulary == "view" else LogCopy()
        self.connections = 0
        self.news = trio.Event()
        self._served = served
        self._session = session
        self._follow = self._follow_socket if transport == "socket" else self._follow_events
        self._path = f"/api/sessions/{session}/{transport}"
        self._random = random
        self._scope = trio.CancelScope()

    def cut(self) -> None:
        """Cut the present connection."""
        self._scope.cancel()

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            self.connections += 1
            assert self._random is not None or self.connections == 1, "the server ended a stream"
            async with await trio.open_tcp_stream("127.0.0.1", self._served.port) as stream:
                with trio.CancelScope() as self._scope:
                    await self._follow(_ShortStream(stream, self._choose_limit()))
            self.copy.prepare_return()

    def _choose_limit(self) -> int:
        if self._random is None:
            return UNLIMITED
        limits = (self._random.randrange(200, 2_000), self._random.randrange(20_000), UNLIMITED)
        return self._random.choice(limits)

    async def _follow_socket(self, stream: _ShortStream) -> None:
        socket = Socket(stream)  # type: ignore[arg-type]
        target = f"{self._path}?after={self.copy.after}&vocabulary={self.vocabulary}"
        token = ("authorization", f"Bearer {self._served.token}")
        try:
            await socket.open(self._served.address, target, [token])
        except (Refused, RemoteProtocolError):
            if not stream.is_cut:
                raise
            return  # the connection was lost in the middle of the answer
        while (message := await socket.receive()) is not None:
            for element in message:
                self.copy.apply(element)
            self.copy.note_seen()
            self._wake()

    async def _follow_events(self, stream: _ShortStream) -> None:
        connection = h11.Connection(h11.CLIENT)
        headers = {
            "host": self._served.address,
            "authorization": f"Bearer {self._served.token}",
            "last-event-id": str(self.copy.after),
        }
        target = f"{self._path}?vocabulary={self.vocabulary}"
        request = h11.Request(method="GET", target=target, headers=list(headers.items()))
        await stream.send_all(connection.send(request))
        text = b""
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                data = await stream.receive_some(65_536)
                if not data:
                    return
                connection.receive_data(data)
            elif isinstance(event, h11.Response):
                assert event.status_code == 200
            elif isinstance(event, h11.Data):
                *blocks, text = (text + bytes(event.data)).split(b"\n\n")
                for block in blocks:
                    self._take_block(block.decode())
                self._wake()
            else:
                return

    def _take_block(self, block: str) -> None:
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        self.copy.apply(json.loads(fields["data"]))
        if "id" in fields:
            self.copy.note_seen(int(fields["id"]))

    def _wake(self) -> None:
        self.news.set()
        self.news = trio.Event()

    async def wait_until(self, ready: Any) -> bool:
        """Wait until a condition is fulfilled, and return whether it is within 20 seconds."""
        with trio.move_on_after(20):
            while not ready():
                await self.news.wait()
        return bool(ready())
