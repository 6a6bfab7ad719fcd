"""A model on this machine that gives prepared answers, and notes the times."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

Calls = Sequence[tuple[str, Mapping[str, Any]]]
"""The calls in one answer: names and arguments of tools."""

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n"
_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"


def encode_answer(number: int, calls: Calls) -> bytes:
    """Return the whole HTTP response with some tool calls or, without any, the final answer.

    Args:
        number: The number of the answer, which makes the ids of its calls unique.
        calls: The calls.
    """
    asked = []
    for index, (name, arguments) in enumerate(calls):
        function = {"name": name, "arguments": json.dumps(arguments)}
        identity = f"call_{number}_{index}"
        asked.append({"index": index, "id": identity, "type": "function", "function": function})
    if asked:
        delta = {"role": "assistant", "tool_calls": asked}
        body = _encode_chunk(delta) + _encode_chunk({}, "tool_calls")
    else:
        delta = {"role": "assistant", "content": "Done."}
        body = _encode_chunk(delta) + _encode_chunk({}, "stop")
    body += b"data: [DONE]\n\n"
    return _HEAD % len(body) + body


def _encode_chunk(delta: Mapping[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    data = {"id": "x", "object": "chat.completion.chunk", "choices": [choice]}
    return b"data: " + json.dumps(data).encode() + b"\n\n"


class Model:
    """A scripted model. It runs in threads, so that it answers while other code is measured.

    Args:
        script: The calls of each answer. After the last one it gives the final answer.
        think: Seconds before each answer, in which hilum prepares the next command.
        first_think: Seconds before the first answer, in which hilum prepares the first call; those
            of ``think`` by default.

    Attributes:
        url: The base URL of its API.
        arrived: When each request arrived (``time.perf_counter``).
        sent: When each answer began to be sent.
        before_last: Called before the final answer, while the processes of the run still exist.
    """

    def __init__(
        self, script: Sequence[Calls], think: float = 0.0, first_think: float | None = None
    ) -> None:
        self.think = think
        self.first_think = think if first_think is None else first_think
        self.script = [*script, ()]
        self.answers = [encode_answer(number, calls) for number, calls in enumerate(self.script)]
        self.arrived: list[float] = []
        self.sent: list[float] = []
        self.before_last: Callable[[], object] = lambda: None
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/v1"
        threading.Thread(target=self._accept, daemon=True).start()

    def turns(self) -> list[float]:
        """Return the milliseconds of each turn: from the end of an answer to the next request."""
        pairs = zip(self.sent, self.arrived[1:], strict=False)
        return [(arrived - sent) * 1000 for sent, arrived in pairs]

    def close(self) -> None:
        """Stop listening."""
        self.listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A program that was stopped has closed its connection.
        with suppress(OSError), connection, connection.makefile("rb") as file:
            while first := file.readline():
                length = 0
                for line in iter(file.readline, b"\r\n"):
                    name, _, value = line.lower().partition(b":")
                    if name == b"content-length":
                        length = int(value)
                file.read(length)
                if first.startswith(b"POST"):
                    self._answer(connection)
                else:
                    connection.sendall(_NOT_FOUND)

    def _answer(self, connection: socket.socket) -> None:
        self.arrived.append(time.perf_counter())
        number = min(len(self.arrived), len(self.answers)) - 1
        if number == len(self.answers) - 1:
            self.before_last()
        time.sleep(self.think if number else self.first_think)
        # Before the last byte leaves: the next request may arrive before this thread runs again.
        self.sent.append(time.perf_counter())
        connection.sendall(self.answers[number])
