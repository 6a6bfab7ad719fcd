"""A small server with the page and a scripted session, for states that are hard to reach otherwise.

It speaks the vocabulary ``view`` and records what the page asks for. Its headers and files are those
of the real server.
"""

from __future__ import annotations

import inspect
import json
import socket
import threading
from typing import Any
from urllib.parse import parse_qsl

import attrs
import msgspec
import trio
from hilum_serve.api.searching import compile_query, search_entries
from hilum_serve.door import CSP
from hilum_serve.page_files import PageFiles
from hilum_view import Answer, Card, Prompt, StreamedText
from hypercorn.config import Config
from hypercorn.trio import serve
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

SESSION = "s1"
LOST = "lost"
"""A reply that gets lost: the request has arrived, and the connection breaks."""
RULES = "/home/ada/.config/hilum/permissions.toml"
USAGE = {"input": 48_200, "cached": 36_100, "output": 2_300, "cost": 0.084}
EMPTY_STATE: dict[str, Any] = {
    "id": SESSION,
    "title": "Mend the calculator",
    "workspace": "/home/ada/calc",
    "forked": "",
    "mode": "agent",
    "model": "openai/scripted",
    "approve": "ask_first",
    "sandbox": "bubblewrap",
    "branch": "main",
    "last": 1,
    "files_seq": 0,
    "running": False,
    "waiting": [],
    "agents": [],
    "started": [],
    "todo": [],
    "queued": [],
    "steering": [],
    "usage": USAGE,
    "budgets": [],
    "runs": 3,
    "left": 0,
    "shell": [],
    "background": [],
}


def main_agent(**facts: Any) -> dict[str, Any]:
    """Return the main agent of a state."""
    agent = {
        "name": "main",
        "parent": "",
        "state": "idle",
        "activity": "completed",
        "run": "r1",
        "running": False,
        "turn": 2,
        "model": "openai/scripted",
        "mode": "agent",
        "retry": "",
        "began": 0.0,
        "usage": USAGE,
        "retryable": False,
    }
    return {**agent, **facts}


@attrs.define
class Asked:
    """A request of the page."""

    method: str
    path: str
    body: Any
    seen: str | None
    query: str
    request: str | None = None


@attrs.define
class FakeServer:
    """The server; start it with ``running``.

    Attributes:
        port: Its port.
        entries: The entries of its session.
        state: The state of its session.
        seq: The last sequence number.
        asked: The changing requests, oldest first.
        replies: Replies to requests, by method and path; a status or (status, data).
        sessions: The list of sessions.
        signed_in: Whether the page has a cookie.
        close_code: Code with which streams are closed.
        refusal: HTTP status of the error with which new streams are refused; 0 for none.
        refuses_streams: Whether the handshakes of new streams fail.
        cuts_catch_ups: Whether streams that continue end after the first element that was missed.
        stamps_entries: Whether entries of a catch-up have the number of its end, as older servers did.
        connects: The numbers after which streams were asked for.
    """

    port: int = 0
    entries: list[dict[str, Any]] = attrs.field(factory=list)
    state: dict[str, Any] = attrs.field(factory=lambda: dict(EMPTY_STATE, agents=[main_agent()]))
    seq: int = 1
    asked: list[Asked] = attrs.field(factory=list)
    replies: dict[str, Any] = attrs.field(factory=dict)
    sessions: list[dict[str, Any]] = attrs.field(factory=list)
    signed_in: bool = True
    close_code: int = 1012
    refusal: int = 0
    refuses_streams: bool = False
    cuts_catch_ups: bool = False
    stamps_entries: bool = False
    connects: list[int] = attrs.field(factory=list)
    _log: list[tuple[int, dict[str, Any]]] = attrs.field(factory=list)
    _sockets: set[trio.MemorySendChannel[list[Any] | None]] = attrs.field(factory=set)
    _token: trio.lowlevel.TrioToken | None = None
    _files: PageFiles = attrs.field(factory=PageFiles)
    _stop: trio.Event | None = None

    def __attrs_post_init__(self) -> None:
        if not self.sessions:
            self.sessions = [self.listed(SESSION, "Mend the calculator", "/home/ada/calc")]

    @staticmethod
    def listed(identity: str, title: str, workspace: str, **facts: Any) -> dict[str, Any]:
        """Return a session of the list."""
        session = {
            "id": identity,
            "title": title,
            "workspace": workspace,
            "created": 1.0,
            "updated": 1_700_000_000.0,
            "forked": "",
            "last": 1,
            "running": False,
            "waiting": 0,
            "asked": 0,
            "open": True,
        }
        return {**session, **facts}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    @property
    def session_url(self) -> str:
        return f"{self.url}#/s/{SESSION}"

    # --- what tests do -----------------------------------------------------------------------------

    def start(self) -> None:
        """Start the server in a thread."""
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen(50)
        self.port = listener.getsockname()[1]
        ready = threading.Event()
        thread = threading.Thread(target=trio.run, args=(self._run, listener, ready), daemon=True)
        thread.start()
        assert ready.wait(10)

    def stop(self) -> None:
        """Stop the server."""
        stop = self._stop
        assert stop is not None
        self._call(stop.set)

    def push(self, *elements: dict[str, Any]) -> None:
        """Send elements to the page, and keep them for later streams."""
        self._call(self._push, list(elements))

    def add(self, entry: dict[str, Any]) -> dict[str, Any]:
        """Add an entry, or replace the one with its id."""
        self._call(self._add, entry)
        return entry

    def change(self, **parts: Any) -> None:
        """Change parts of the state."""
        self._call(self._change, parts)

    def disconnect(self) -> None:
        """End all streams without a word."""
        self._call(self._disconnect)

    def count_streams(self) -> int:
        """Return the number of open streams."""
        return len(self._sockets)

    def wait_for(self, path: str, method: str = "POST", count: int = 1) -> Asked:
        """Return the request of the page, as soon as it has come."""
        for _ in range(500):
            found = [each for each in self.asked if (each.method, each.path) == (method, path)]
            if len(found) >= count:
                return found[count - 1]
            threading.Event().wait(0.01)
        raise AssertionError(f"no {method} {path} among {self.asked}")

    # --- the server --------------------------------------------------------------------------------

    def _call(self, function: Any, *arguments: Any) -> None:
        assert self._token is not None
        trio.from_thread.run_sync(function, *arguments, trio_token=self._token)

    def _next(self) -> int:
        self.seq += 1
        self.state["last"] = self.seq
        return self.seq

    def _add(self, entry: dict[str, Any]) -> None:
        seq = self._next()
        known = [index for index, each in enumerate(self.entries) if each["id"] == entry["id"]]
        if known:
            self.entries[known[0]] = entry
        else:
            self.entries.append(entry)
        self._send(seq, {"type": "entry", "seq": seq, "entry": entry})

    def _change(self, parts: dict[str, Any]) -> None:
        seq = self._next()
        self.state.update(parts)
        self._send(seq, {"type": "state", "seq": seq, **parts})

    def _push(self, elements: list[dict[str, Any]]) -> None:
        for channel in self._sockets:
            channel.send_nowait(elements)

    def _send(self, seq: int, element: dict[str, Any]) -> None:
        self._log.append((seq, element))
        self._push([element])

    def _disconnect(self) -> None:
        for channel in self._sockets:
            channel.send_nowait(None)

    async def _run(self, listener: socket.socket, ready: threading.Event) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._stop = trio.Event()
        config = Config()
        config.bind = [f"fd://{listener.detach()}"]
        config.accesslog = None
        config.errorlog = None
        config.graceful_timeout = 0.1
        async with trio.open_nursery() as nursery:
            await nursery.start(self._serve, config)
            ready.set()
            await self._stop.wait()
            nursery.cancel_scope.cancel()

    async def _serve(self, config: Config, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
        await serve(self._app, config, task_status=task_status)  # type: ignore[arg-type]

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._stream(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, _secure(send))
        else:
            for kind in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{kind}.complete"})

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        if self.refuses_streams or not self.signed_in:
            await send({"type": "websocket.close", "code": 1013})
            return
        await send({"type": "websocket.accept"})
        query = dict(parse_qsl(scope["query_string"].decode()))
        after = int(query["after"])
        self.connects.append(after)
        if self.refusal:
            error = {"type": "error", "status": self.refusal, "code": "E_REFUSED", "message": "No."}
            await send({"type": "websocket.send", "text": json.dumps([error])})
            code = {401: 4401, 403: 4403, 404: 4404}.get(self.refusal, 1013)
            await send({"type": "websocket.close", "code": code})
            return
        put, get = trio.open_memory_channel[list[Any] | None](10_000)
        first: list[dict[str, Any]] = [{"type": "hello", "last": self.seq}]
        if after == 0:
            first.append(
                {
                    "type": "snapshot",
                    "seq": self.seq,
                    "entries": self.entries[-200:],
                    "total": len(self.entries),
                    "state": self.state,
                }
            )
        else:
            missed = [element for seq, element in self._log if seq > after]
            # As on the real server, only the state at the end says that everything has arrived.
            entries = [each for each in missed if each["type"] == "entry"]
            stamp = {"seq": self.seq} if self.stamps_entries else {}
            first += [{"type": "entry", **stamp, "entry": each["entry"]} for each in entries]
            if self.cuts_catch_ups:
                await send({"type": "websocket.send", "text": json.dumps(first[:2])})
                await send({"type": "websocket.close", "code": 1012})
                return
            first.append({"type": "state", "seq": self.seq, **self.state})
        self._sockets.add(put)
        await send({"type": "websocket.send", "text": json.dumps(first)})
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_drain, receive, nursery.cancel_scope)
                async for elements in get:
                    if elements is None:
                        break
                    await send({"type": "websocket.send", "text": json.dumps(elements)})
                nursery.cancel_scope.cancel()
        finally:
            self._sockets.discard(put)
        await send({"type": "websocket.close", "code": self.close_code})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        path: str = scope["path"]
        if self._files.has(path):
            await self._files(scope, receive, send)
            return
        if not self.signed_in:
            problem = {"code": "E_TOKEN", "message": "Unknown token.", "hint": ""}
            await _reply(send, 401, problem)
            return
        body = await request.body()
        data = json.loads(body) if body else None
        asked = Asked(
            scope["method"],
            path.removeprefix("/api").removeprefix(f"/sessions/{SESSION}"),
            data,
            request.headers.get("hilum-seen"),
            scope["query_string"].decode(),
            request.headers.get("hilum-request"),
        )
        self.asked.append(asked)
        reply = self.replies.get(f"{asked.method} {asked.path}")
        if callable(reply):
            reply = reply(asked)
        if inspect.isawaitable(reply):
            reply = await reply
        if reply == LOST:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            raise ConnectionError("the test loses this response")
        if reply is None:
            reply = (200, self._default(asked))
        await _reply(send, *reply)

    def _default(self, asked: Asked) -> Any:
        query = dict(parse_qsl(asked.query))
        before = int(query.get("before", "0").partition(".")[0])
        limit = int(query.get("limit", "200"))
        answers: dict[str, Any] = {
            "/me": {"name": "ada", "rights": "administer", "instance": "i1", "shared": False},
            "/workspaces": {"workspaces": [{"path": "/home/ada/calc", "name": "calc"}]},
            "/sessions": {"sessions": self._search(query.get("query", ""))},
            "": self.state,
            "/approvals": {"approvals": [self._describe(item) for item in self.state["waiting"]]},
            "/entries": {
                "entries": [each for each in self.entries if each["id"] < before][-limit:]
            },
            "/files": {"files": []},
            "/timeline": {"spans": [span for span in map(_make_span, self.entries) if span]},
            "/commands": {"commands": [{"name": "review", "about": "Review the changes"}]},
            "/usage": {},
        }
        if asked.path == "/search":
            return self._find(query)
        if asked.method == "POST" and asked.path == "/sessions":
            return {**self.state, "id": SESSION}
        return answers.get(asked.path, {})

    def _find(self, query: dict[str, str]) -> dict[str, Any]:
        """Return what the real search finds in the entries."""
        after = int(query["after"])
        before = int(query["before"]) or self.seq + len(self.entries)
        found = [each for each in self.entries if after <= each["id"] < before]
        limit = int(query["limit"])
        hits, last = search_entries(
            [convert_entry(each) for each in found], compile_query(query["q"]), limit
        )
        return {"hits": msgspec.to_builtins(hits), "before": last, "last": self.seq}

    def _search(self, words: str) -> list[dict[str, Any]]:
        return [each for each in self.sessions if words.lower() in each["title"].lower()]

    def _describe(self, item: dict[str, Any]) -> dict[str, Any]:
        facts = {
            "text": "",
            "covers": "",
            "rule": "",
            "file": RULES,
            "dangers": [],
            "answer": "main r1 1",
        }
        return {**facts, "item": item, **self.replies.get(f"facts {item['id']}", {})}


def convert_entry(entry: dict[str, Any]) -> Any:
    """Return an entry of the page as the view has it; notices and ends as prompts without text."""
    kinds = {"answer": Answer, "card": Card}

    def decode(kind: Any, value: Any) -> Any:
        return StreamedText(value) if kind is StreamedText else value

    return msgspec.convert(entry, kinds.get(entry["kind"], Prompt), dec_hook=decode, strict=False)


def _make_span(entry: dict[str, Any]) -> dict[str, Any] | None:
    """Return the span of an entry, as on the real server; ``None`` if the entry took no time."""
    if entry["kind"] not in ("answer", "card"):
        return None
    is_call = entry["kind"] == "card"
    return {
        "kind": "call" if is_call else "model",
        "entry": entry["id"],
        "agent": entry["agent"],
        "run": entry["run"],
        "name": entry["call"]["name"] if is_call else entry["model"],
        "title": entry["call"]["arguments"] if is_call else "turn 1",
        "asked": entry["at"],
        "began": entry["began"] if is_call else entry["at"],
        "seconds": entry["seconds"],
        "state": entry["state"],
    }


async def _drain(receive: Receive, scope: trio.CancelScope) -> None:
    while (await receive())["type"] != "websocket.disconnect":
        pass
    scope.cancel()


def _secure(send: Send) -> Send:
    async def secured(message: Any) -> None:
        if message["type"] == "http.response.start":
            headers = [*message.get("headers", []), (b"content-security-policy", CSP.encode())]
            message = {**message, "headers": headers}
        await send(message)

    return secured


async def _reply(send: Send, status: int, data: Any) -> None:
    body = data if isinstance(data, bytes) else json.dumps(data).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
