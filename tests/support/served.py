"""A server in the process of a test, and clients of it: HTTP, WebSocket and server-sent events."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import trio
from hilum import open_kernel
from hilum.listening import listen
from hilum.store import storage_plugins
from hilum.testing import ModelProvider, ScriptedModel
from hilum_serve.command import find_workspaces
from hilum_serve.server import RunningServer, ServerOptions, make_token, run_server
from hilum_serve.settings import ServeSettings
from hilum_serve.tokens import Tokens
from hilum_serve.users import User
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Ping,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)

PATIENCE = 20.0


class Refused(Exception):
    """The server refused a WebSocket; the status is the first argument."""


class Socket:
    """A WebSocket client. Attributes: ``closed``, the close code; 0 while it is open."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.closed = 0
        self._connection = WSConnection(ConnectionType.CLIENT)
        self._texts: list[str] = []
        self._partial = ""
        self._elements: list[dict[str, Any]] = []
        self.extensions: list[str] = []

    async def open(
        self, host: str, path: str, headers: Sequence[tuple[str, str]], offers: Sequence[Any] = ()
    ) -> None:
        extra = [(name.encode(), value.encode()) for name, value in headers]
        request = Request(host=host, target=path, extra_headers=extra, extensions=list(offers))
        await self.stream.send_all(self._connection.send(request))
        status = 0
        while True:
            data = await self.stream.receive_some(65_536)
            self._connection.receive_data(data or None)
            for event in self._connection.events():
                if isinstance(event, AcceptConnection):
                    self.extensions = [str(each) for each in event.extensions]
                    self._take_rest()
                    return
                if isinstance(event, RejectConnection):
                    status = event.status_code
                    if not event.has_body:
                        raise Refused(status, b"")
                if isinstance(event, RejectData) and event.body_finished:
                    raise Refused(status, event.data)
            if not data:
                raise Refused(status, b"")

    def _take_rest(self) -> None:
        for event in self._connection.events():
            self._take(event)

    def _take(self, event: Any) -> bytes:
        if isinstance(event, TextMessage):
            self._partial += event.data
            if event.message_finished:
                self._texts.append(self._partial)
                self._partial = ""
        elif isinstance(event, CloseConnection):
            self.closed = event.code
            return self._connection.send(event.response())
        elif isinstance(event, Ping):
            return self._connection.send(event.response())
        return b""

    async def receive(self) -> list[dict[str, Any]] | None:
        """Return the elements of the next message; None at the end."""
        with trio.fail_after(PATIENCE):
            while not self._texts:
                if self.closed:
                    return None
                try:
                    data = await self.stream.receive_some(65_536)
                except trio.BrokenResourceError:
                    data = b""
                if not data:
                    self.closed = self.closed or 1006
                    return None
                self._connection.receive_data(data)
                for event in self._connection.events():
                    answer = self._take(event)
                    if answer:
                        try:
                            await self.stream.send_all(answer)
                        except trio.BrokenResourceError:
                            pass
        found: list[dict[str, Any]] = json.loads(self._texts.pop(0))
        return found

    def elements(self) -> "Socket":
        """Return an iterator over the elements, until the end."""
        return self

    def __aiter__(self) -> "Socket":
        return self

    async def __anext__(self) -> dict[str, Any]:
        while not self._elements:
            message = await self.receive()
            if message is None:
                raise StopAsyncIteration
            self._elements += message
        return self._elements.pop(0)

    async def read_until(self, **wanted: Any) -> list[dict[str, Any]]:
        """Return the elements up to the first one with the given members."""
        found = []
        async for element in self:
            found.append(element)
            if all(element.get(name) == value for name, value in wanted.items()):
                return found
        raise AssertionError(f"The stream ended ({self.closed}) before {wanted}: {found[-3:]}")

    async def send(self, text: str | bytes) -> None:
        kind = TextMessage if isinstance(text, str) else BytesMessage
        await self.stream.send_all(self._connection.send(kind(data=text)))  # type: ignore[arg-type]


class Served:
    """A server and how to reach it."""

    def __init__(self, running: RunningServer, token: str, model: ScriptedModel) -> None:
        self.running = running
        self.hub = running.hub
        self.token = token
        self.model = model
        self.port = running.port
        self.address = f"127.0.0.1:{running.port}"
        self.url = f"http://{self.address}"
        self.owner = User("owner", "administer", token="start")

    async def stop(self) -> None:
        """Stop the server, as at the end of its block."""
        await self.running.stop()

    def client(self, token: str | None = "", **more: Any) -> httpx.AsyncClient:
        """Return an HTTP client with a token; the owner's by default, None for none."""
        headers = dict(more.pop("headers", {}))
        if token is not None:
            headers["authorization"] = f"Bearer {token or self.token}"
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=PATIENCE, **more)

    @asynccontextmanager
    async def socket(
        self,
        session: str,
        after: int = 0,
        vocabulary: str = "events",
        *,
        token: str = "",
        headers: Sequence[tuple[str, str]] | None = None,
        host: str = "",
        offers: Sequence[Any] = (),
    ) -> AsyncIterator[Socket]:
        """Open a WebSocket on a session's stream."""
        path = f"/api/sessions/{session}/socket?after={after}&vocabulary={vocabulary}"
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        async with stream:
            socket = Socket(stream)
            if headers is None:
                headers = [("authorization", f"Bearer {token or self.token}")]
            await socket.open(host or self.address, path, headers, offers)
            yield socket

    async def read_events(
        self, session: str, until: int, *, last_id: int | None = None, query: str = ""
    ) -> bytes:
        """Return the answer with server-sent events, up to the event with a number."""
        lines = [
            f"GET /api/sessions/{session}/stream{query} HTTP/1.1",
            f"host: {self.address}",
            f"authorization: Bearer {self.token}",
        ]
        if last_id is not None:
            lines.append(f"last-event-id: {last_id}")
        answer = b""
        with trio.fail_after(PATIENCE):
            async with await trio.open_tcp_stream("127.0.0.1", self.port) as stream:
                await stream.send_all("\r\n".join([*lines, "", ""]).encode())
                while f"id: {until}\n".encode() not in answer:
                    piece = await stream.receive_some(65_536)
                    answer += piece
                    if not piece:
                        break
        return answer

    async def raw(self, data: bytes, *, wait: float = 5.0, first: float = 0.0) -> bytes:
        """Send bytes, and return everything that comes back until the server closes.

        Args:
            data: The bytes.
            wait: Maximum number of seconds to read.
            first: Maximum number of seconds to wait for the beginning of an answer before that.
        """
        async with await trio.open_tcp_stream("127.0.0.1", self.port) as stream:
            await stream.send_all(data)
            answer = b""
            with trio.move_on_after(first):
                await trio.lowlevel.wait_readable(stream.socket)
            with trio.move_on_after(wait):
                try:
                    while piece := await stream.receive_some(65_536):
                        answer += piece
                except trio.BrokenResourceError:
                    pass
            return answer


@asynccontextmanager
async def serving(
    workspace: Path,
    *,
    port: int = 0,
    more: Sequence[Path] = (),
    answers: Sequence[Any] = (),
    model: ScriptedModel | None = None,
    plugins: Sequence[object] | None = ("files", "guard", "plan", "shell", "store"),
    settings: ServeSettings | None = None,
    tokens_file: Path | None = None,
    session_settings: dict[str, object] | None = None,
    **options: Any,
) -> AsyncIterator[Served]:
    """Run a server whose sessions use a scripted model.

    Args:
        workspace: The folder that it works in.
        port: The port; 0 for one that is free.
        more: Further folders.
        answers: The answers of the model.
        model: A model to use instead.
        plugins: The plugins of sessions; None for all that are installed.
        settings: The settings of the server.
        tokens_file: The file with named tokens.
        session_settings: Settings of the sessions.
        options: Further members of ``ServerOptions``.
    """
    scripted = model if model is not None else ScriptedModel(answers)
    provider = ModelProvider({"model": scripted})
    async with open_kernel(storage_plugins()) as kernel:
        token = make_token()
        listeners = [listen("127.0.0.1", port)]
        port = listeners[0].getsockname()[1]
        about = ServerOptions(
            listeners=listeners,
            host="127.0.0.1",
            port=port,
            workspaces=find_workspaces([str(each) for each in (workspace, *more)]),
            tokens=Tokens(tokens_file, token),
            settings=settings or ServeSettings(),
            session_options={
                "plugins": plugins,
                "prepare": lambda kernel: kernel.router.replace(provider),
                "settings": {"model": "scripted/model", **(session_settings or {})},
            },
            **options,
        )
        async with run_server(kernel.store, about) as running:
            yield Served(running, token, scripted)
