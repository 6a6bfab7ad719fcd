"""An MCP server on loopback that a test controls: streamable HTTP with sessions, or SSE.

It gives the answers that the protocol requires; a test changes single answers with
``server.answers[method] = function``, and sees all requests.
"""

import itertools
import json
import queue
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import attrs

Answer = Callable[["Handler", dict[str, Any]], Any]
DROP = object()
"""What an answer gives that has written for itself."""


@attrs.define
class Asked:
    """A request: method, path, headers and body."""

    method: str
    path: str
    headers: dict[str, str]
    message: dict[str, Any]


@attrs.define
class WebServer:
    """A server.

    Args:
        answers: By HTTP method or protocol method: a function that returns the result, or
            answers by itself and returns ``DROP``.
    """

    url: str = ""
    port: int = 0
    answers: dict[str, Answer] = attrs.field(factory=dict)
    asked: list[Asked] = attrs.field(factory=list)
    sessions: set[str] = attrs.field(factory=set)
    streams: dict[str, "queue.Queue[str]"] = attrs.field(factory=dict)
    _numbers: Iterator[int] = attrs.field(factory=lambda: itertools.count(1))

    def methods(self) -> list[str]:
        return [each.message.get("method", each.method) for each in self.asked]

    def forget(self) -> None:
        """Forget all sessions."""
        self.sessions.clear()

    def session(self) -> str:
        new = f"session-{next(self._numbers)}"
        self.sessions.add(new)
        return new


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    web: WebServer

    def log_message(self, *_: Any) -> None:
        pass

    def give(
        self, status: int, body: Any = b"", kind: str = "application/json", **headers: str
    ) -> Any:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {
            "content-type": kind,
            "content-length": str(len(data)),
            **headers,
        }.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)
        return DROP

    def stream(self, *events: str) -> Any:
        """Answer with events, then break off."""
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write("".join(f"{event}\n\n" for event in events).encode())
        self.wfile.flush()
        self.close_connection = True
        return DROP

    def _note(self) -> dict[str, Any]:
        size = int(self.headers.get("content-length") or 0)
        message = json.loads(self.rfile.read(size) or b"{}")
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.web.asked.append(Asked(self.command, self.path, headers, message))
        return message  # type: ignore[no-any-return]

    def do_DELETE(self) -> None:
        self._note()
        self.web.sessions.discard(self.headers.get("mcp-session-id", ""))
        self.give(200)

    def do_GET(self) -> None:
        message = self._note()
        if answer := self.web.answers.get("GET"):
            answer(self, message)
        else:
            self.give(405)

    def do_POST(self) -> None:
        message = self._note()
        method = message.get("method", "")
        session = self.headers.get("mcp-session-id", "")
        answer = self.web.answers.get("POST") or self.web.answers.get(method)
        if answer is not None:
            result = answer(self, message)
            if result is DROP:
                return
        elif session and session not in self.web.sessions:
            self.give(404)
            return
        elif "id" not in message:
            self.give(202)
            return
        else:
            result = answered(method, message.get("params") or {})
        reply = {"jsonrpc": "2.0", "id": message.get("id")}
        reply |= (
            {"result": result}
            if result is not None
            else {"error": {"code": -32601, "message": "not known"}}
        )
        more = {"mcp_session_id": self.web.session()} if method == "initialize" else {}
        self.give(200, reply, **more)


def answered(method: str, params: dict[str, Any]) -> Any:
    """Return the answers of a plain server of the older protocol."""
    if method == "initialize":
        info = {"name": "web", "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        return {"tools": [{"name": "echo", "description": "Say it again.", "inputSchema": schema}]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": str(params.get("arguments", {}).get("text"))}]}
    return None


def old(web: WebServer) -> None:
    """Turn it into an SSE server, whose stream names the address for messages."""

    def get(handler: Handler, _: Any) -> Any:
        number = web.session()
        sent: queue.Queue[str] = queue.Queue()
        web.streams[number] = sent
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.send_header("connection", "close")
        handler.end_headers()
        handler.close_connection = True
        event = f"event: endpoint\ndata: /messages?sessionId={number}\n\n"
        while event:
            try:
                handler.wfile.write(event.encode())
                handler.wfile.flush()
            except OSError:
                return DROP
            event = sent.get()
        return DROP

    def post(handler: Handler, message: dict[str, Any]) -> Any:
        if not handler.path.startswith("/messages"):
            return handler.give(405)
        sent = web.streams[handler.path.rpartition("=")[2]]
        if "id" in message:
            result = answered(message["method"], message.get("params") or {})
            reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
            reply |= (
                {"error": {"code": -32601, "message": "not known"}}
                if result is None
                else {"result": result}
            )
            sent.put(f"event: message\ndata: {json.dumps(reply)}\n\n")
        return handler.give(202)

    web.answers |= {"GET": get, "POST": post}


@contextmanager
def serving(web: WebServer, tls: ssl.SSLContext | None = None) -> Iterator[WebServer]:
    """Serve, on the same port again if the server had one."""
    kind = type("Handler", (Handler,), {"web": web})
    with _Server(("127.0.0.1", web.port), kind) as http:
        if tls is not None:
            http.socket = tls.wrap_socket(http.socket, server_side=True)
        web.port = http.server_address[1]
        web.url = f"{'https' if tls else 'http'}://127.0.0.1:{web.port}/mcp"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield web
        finally:
            for sent in web.streams.values():
                sent.put("")
            http.shutdown()
            thread.join()
            for connection in http.open:
                connection.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, *words: Any) -> None:
        super().__init__(*words)
        self.open: list[Any] = []

    def get_request(self) -> Any:
        found = super().get_request()
        self.open.append(found[0])
        return found

    def handle_error(self, *_: Any) -> None:
        """Ignore clients that have disconnected."""
