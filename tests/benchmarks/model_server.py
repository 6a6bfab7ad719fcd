"""A model that answers at once: a process that speaks OpenAI chat completions and does as little
else as can be.

It calls the tool it was told to call ``calls`` times on each connection; then it says it is done,
and begins again. Start it with ``start()``; it prints its port and ends with its standard input.
"""

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n"


def answer(number: int, tool: str, arguments: str, last: bool, counted: int) -> bytes:
    """One whole response: a tool call, or the end."""

    def chunk(delta: dict[str, object], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return (
            b"data: "
            + json.dumps(
                {"id": "x", "object": "chat.completion.chunk", "choices": [choice]}
            ).encode()
            + b"\n\n"
        )

    if last:
        body = chunk({"role": "assistant", "content": "Done."}) + chunk({}, "stop")
    else:
        function = {"name": tool, "arguments": arguments}
        call = {"index": 0, "id": f"call_{number:020d}", "type": "function", "function": function}
        body = (
            chunk({"role": "assistant", "content": "Working."})
            + chunk({"tool_calls": [call]})
            + chunk({}, "tool_calls")
        )
    usage = {"prompt_tokens": counted, "completion_tokens": 20, "total_tokens": counted + 20}
    body += (
        b"data: "
        + json.dumps({"id": "x", "choices": [], "usage": usage}).encode()
        + b"\n\ndata: [DONE]\n\n"
    )
    return HEAD % len(body) + body


def serve(
    connection: socket.socket, calls: int, tool: str, arguments: str, delay: float, counted: int
) -> None:
    """Answer the requests of one connection."""
    answers = [answer(n, tool, arguments, n >= calls, counted) for n in range(calls + 1)]
    number, scratch = 0, bytearray(1 << 20)
    view = memoryview(scratch)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection:
        while True:
            # Only the head is looked at; the body is read away. Requests do not overlap.
            got = 0
            while (end := scratch.find(b"\r\n\r\n", 0, got)) < 0:
                size = connection.recv_into(view[got:])
                if not size:
                    return
                got += size
            head = bytes(view[:end]).lower()
            length = (
                int(head.split(b"content-length:")[1].split(b"\r\n")[0])
                if b"content-length:" in head
                else 0
            )
            missing = end + 4 + length - got
            while missing > 0:
                missing -= connection.recv_into(view, min(missing, len(scratch)))
            if delay:
                time.sleep(delay)
            connection.sendall(answers[number % (calls + 1)])
            number += 1


def main() -> None:
    """Serve until standard input ends."""
    about = int(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4]), int(sys.argv[5])
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    print(listener.getsockname()[1], flush=True)

    def accept() -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=serve, args=(connection, *about), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    sys.stdin.read()


@contextmanager
def start(
    calls: int, tool: str, arguments: str, delay: float = 0.0, counted: int = 1_000
) -> Iterator[str]:
    """Start the server; gives its base URL.

    It says of each request that it is of ``counted`` tokens; 0 says nothing.
    """
    argv = [sys.executable, "-u", __file__, str(calls), tool, arguments, str(delay), str(counted)]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdin
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
        process.stdin.close()


if __name__ == "__main__":
    main()
