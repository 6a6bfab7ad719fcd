"""Several ``hilum serve`` on one database, and a balancer that deals connections out in turn."""

import json
import re
import shutil
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import h11
import httpx
import trio
from postgres_server import PostgresServer
from served import PATIENCE, Socket

KEY = "a key that all servers of the group have"


def find_free_port() -> int:
    """Return a port that nobody uses."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Member:
    """A server of the group. Attributes: ``port``, ``process`` and ``url``."""

    def __init__(self, port: int, process: Any) -> None:
        self.port = port
        self.process = process
        self.url = f"http://127.0.0.1:{port}"

    async def kill(self) -> None:
        """Kill the process, as a loss of power would."""
        self.process.kill()
        await self.process.wait()


class Balancer:
    """Deals connections out to the servers in turn; servers that refuse are left out."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.ports: list[int] = []
        self._count = 0

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        await trio.serve_tcp(
            self._handle,
            self.port,
            host="127.0.0.1",
            task_status=task_status,  # type: ignore[arg-type]
        )

    async def _handle(self, client: trio.SocketStream) -> None:
        async with client:
            for _ in self.ports:
                port = self.ports[self._count % len(self.ports)]
                self._count += 1
                try:
                    server = await trio.open_tcp_stream("127.0.0.1", port)
                except OSError:
                    continue
                async with server, trio.open_nursery() as nursery:
                    nursery.start_soon(self._pump, client, server, nursery.cancel_scope)
                    nursery.start_soon(self._pump, server, client, nursery.cancel_scope)
                return

    async def _pump(
        self, source: trio.SocketStream, sink: trio.SocketStream, scope: trio.CancelScope
    ) -> None:
        try:
            async for data in source:
                await sink.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        scope.cancel()


class Group:
    """The servers, the balancer in front of them, and a client of both.

    Attributes:
        cli: Starts ``hilum``.
        database: The URL of the database.
        members: The servers.
        balancer: The balancer.
        token: A named token that may do everything.
    """

    def __init__(self, cli: Any, postgres: PostgresServer, balancer: Balancer) -> None:
        self.cli = cli
        self.database = postgres.make_database()
        self.members: list[Member] = []
        self.balancer = balancer
        self.token = ""
        self._postgres = postgres

    def query(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Execute a statement in the database, and return its rows."""
        return self._postgres.execute(self.database, statement, *values)

    @asynccontextmanager
    async def start(
        self, *arguments: str, key: str = KEY, url: str = "", config: Path | None = None
    ) -> AsyncIterator[Member]:
        """Start a server, with a data folder of its own as on another machine.

        Args:
            arguments: Further arguments.
            key: The key of the group.
            url: The address that it announces; by default, its own.
            config: A folder for a copy of its tokens; by default, it shares them with the others.
        """
        port = find_free_port()
        url = url or f"http://127.0.0.1:{port}"
        environment = {
            "HILUM_DATA": str(self.cli.folder / f"data-{port}"),
            "HILUM_POSTGRES_URL": self.database,
            "HILUM_SERVE_PEER_KEY": key,
        }
        if config is not None:
            shutil.copytree(self.cli.folder / "config", config, dirs_exist_ok=True)
            environment["HILUM_CONFIG"] = str(config)
        hosts = ("--allow-host", f"127.0.0.1:{self.balancer.port}")
        options = ("--port", str(port), "--peer-url", url, *hosts, *arguments)
        async with self.cli.started("serve", *options, **environment) as process:
            text = ""
            while not re.search(r"Open http://\S+\n", text):
                data = await process.stdout.receive_some(10_000)
                assert data, (text, await process.stderr.receive_some(10_000))
                text += data.decode()
            member = Member(port, process)
            self.members.append(member)
            self.balancer.ports.append(port)
            yield member

    def client(self, url: str = "", token: str | None = None, **more: Any) -> httpx.AsyncClient:
        """Return a client that opens a new connection for each request; of the balancer by default."""
        headers = dict(more.pop("headers", {}))
        if token != "":
            headers["authorization"] = f"Bearer {token or self.token}"
        return httpx.AsyncClient(
            base_url=url or self.balancer.url,
            headers=headers,
            timeout=PATIENCE,
            limits=httpx.Limits(max_keepalive_connections=0),
            **more,
        )

    async def get(self, path: str, url: str = "") -> Any:
        """Return what is at an address."""
        async with self.client(url) as client:
            response = await client.get(path)
        assert response.status_code == 200, response.text
        return response.json()

    async def change(
        self, session: str, path: str, body: Any = None, *, url: str = "", method: str = "POST"
    ) -> httpx.Response:
        """Change a session, as a client that has seen everything."""
        state = await self.get(f"/api/sessions/{session}")
        headers = {"hilum-seen": str(state["last"])}
        async with self.client(url) as client:
            address = f"/api/sessions/{session}{path}"
            return await client.request(method, address, json=body, headers=headers)

    async def create(self, url: str = "", **more: Any) -> str:
        """Create a session, and return its id."""
        async with self.client(url) as client:
            body = {"workspace": str(self.cli.workspace), **more}
            response = await client.post("/api/sessions", json=body)
        assert response.status_code == 201, response.text
        return str(response.json()["id"])

    async def wait_for(self, session: str, check: Any) -> Any:
        """Return the state of a session when it fulfils a condition."""
        with trio.fail_after(PATIENCE):
            while True:
                state = await self.get(f"/api/sessions/{session}")
                if check(state):
                    return state
                await trio.sleep(0.05)

    async def read_log(self, session: str) -> list[dict[str, Any]]:
        """Return the whole log, from the database."""
        rows = self.query("SELECT event FROM hilum.log WHERE session = %s ORDER BY seq", session)
        return [event for (event,) in rows]

    def find_holder(self, session: str) -> Member:
        """Return the server that has a session open."""
        ((pid,),) = self.query(
            "SELECT h.pid FROM hilum.sessions s JOIN hilum.holders h ON h.id = s.holder"
            " WHERE s.id = %s",
            session,
        )
        return next(member for member in self.members if member.process.pid == pid)

    def find_others(self, session: str) -> list[Member]:
        """Return the servers that do not have a session open."""
        holder = self.find_holder(session)
        return [member for member in self.members if member is not holder]

    @asynccontextmanager
    async def socket(
        self,
        session: str,
        after: int = 0,
        *,
        url: str = "",
        vocabulary: str = "events",
        headers: Sequence[tuple[str, str]] | None = None,
    ) -> AsyncIterator[Socket]:
        """Open a WebSocket on a session's stream."""
        host = (url or self.balancer.url).removeprefix("http://")
        path = f"/api/sessions/{session}/socket?after={after}&vocabulary={vocabulary}"
        async with await trio.open_tcp_stream("127.0.0.1", int(host.rpartition(":")[2])) as stream:
            socket = Socket(stream)
            await socket.open(host, path, headers or [("authorization", f"Bearer {self.token}")])
            yield socket

    async def follow(self, session: str, into: list[dict[str, Any]], until: str) -> None:
        """Collect a session's events until one has a type, and return whenever the stream ends."""
        while not _has_reached(into, until):
            try:
                await self._read_stream(session, into, until)
            except (OSError, trio.BrokenResourceError, h11.RemoteProtocolError):
                pass
            await trio.sleep(0.02)

    async def _read_stream(self, session: str, into: list[dict[str, Any]], until: str) -> None:
        async with await trio.open_tcp_stream("127.0.0.1", self.balancer.port) as stream:
            http = h11.Connection(h11.CLIENT)
            headers = [
                ("host", self.balancer.url.removeprefix("http://")),
                ("authorization", f"Bearer {self.token}"),
                ("last-event-id", str(into[-1]["seq"] if into else 0)),
            ]
            target = f"/api/sessions/{session}/stream"
            await stream.send_all(
                http.send(h11.Request(method="GET", target=target, headers=headers))
            )
            rest = b""
            ends = (h11.EndOfMessage, h11.ConnectionClosed)
            while not isinstance(event := http.next_event(), ends):
                if event is h11.NEED_DATA:
                    http.receive_data(bytes(await stream.receive_some(65_536)))
                elif isinstance(event, h11.Data):
                    *lines, rest = (rest + bytes(event.data)).split(b"\n")
                    into += filter(_is_event, map(_read_line, lines))
                    if _has_reached(into, until):
                        return


def _has_reached(events: list[dict[str, Any]], until: str) -> bool:
    return any(event["type"] == until for event in events)


def _read_line(line: bytes) -> dict[str, Any]:
    element: dict[str, Any] = json.loads(line[5:]) if line.startswith(b"data:") else {}
    return element


def _is_event(element: dict[str, Any]) -> bool:
    return element.get("type") not in (None, "hello", "beat", "bye", "delta")


@asynccontextmanager
async def run_group(cli: Any, postgres: PostgresServer) -> AsyncIterator[Group]:
    """Run a balancer, for servers that are started in the block."""
    balancer = Balancer(find_free_port())
    group = Group(cli, postgres, balancer)
    group.token = (await cli("serve", "token", "add", "eva", "--rights", "administer")).out.strip()
    async with trio.open_nursery() as nursery:
        await nursery.start(balancer.run)
        yield group
        nursery.cancel_scope.cancel()
