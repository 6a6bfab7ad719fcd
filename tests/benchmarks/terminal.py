"""What the terminal costs: its start, the echo of a key, bytes written, memory and the stop.

Run: ``python tests/benchmarks/terminal.py [--text 500000] [--starts 9] [--turns 500]``.

The real program runs in a pseudo-terminal of 120 × 40 in a Git repository, with a fresh home folder
and all plugins. A model on the loopback interface streams 20 kB/s of Markdown (5,000 tokens a
second). While it streams, a key is pressed every 120 ms, and the time until it is drawn is taken.
"""

import argparse
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from pathlib import Path

SIZE = (40, 120)
RATE = 20_000  # bytes a second
PIECE = 16  # bytes, about four tokens
KEY_SECONDS = 0.12
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
PARAGRAPH = """## Section {n}

The function `parse_{n}` reads **one line** at a time and returns a list of fields, which the caller
joins again. It handles quotes, blanks and 中文字符 in names, and reports a mistake with its line.

- item {n}.1 with some words behind it
- item {n}.2 with a [link](https://example.com/{n})

```python
def parse_{n}(text: str) -> list[str]:
    fields = text.split("|")  # marker {n}
    return [field.strip() for field in fields]
```

"""


def chunk(delta: dict[str, object], finish: str | None = None) -> bytes:
    """One event of the stream."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    data = {"id": "x", "object": "chat.completion.chunk", "choices": [choice]}
    return b"data: " + json.dumps(data).encode() + b"\n\n"


def framed(data: bytes) -> bytes:
    """A piece of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


class Server:
    """Streams a text for the prompt STREAM, calls a tool for TURNS, hangs for HANG."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.turns = 0
        self.sent = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        data = b""
        try:
            while True:
                while b"\r\n\r\n" not in data:
                    piece = connection.recv(1 << 20)
                    if not piece:
                        return
                    data += piece
                head, _, rest = data.partition(b"\r\n\r\n")
                found = re.search(rb"content-length: (\d+)", head.lower())
                length = int(found[1]) if found else 0
                while len(rest) < length:
                    rest += connection.recv(1 << 20)
                self._answer(connection, rest[:length])
                data = rest[length:]
        except OSError:
            return

    def _answer(self, connection: socket.socket, body: bytes) -> None:
        connection.sendall(HEAD)
        last = body.rfind(b'"role":"user"')
        asked = body[last:]
        if b"HANG" in asked:
            time.sleep(600)
        if self.turns > 0:
            self.turns -= 1
            function = {"name": "read_file", "arguments": '{"path":"a.py"}'}
            call = {"index": 0, "id": f"c{self.turns}", "type": "function", "function": function}
            connection.sendall(framed(chunk({"role": "assistant", "tool_calls": [call]})))
            connection.sendall(framed(chunk({}, "tool_calls")))
        elif b"STREAM" in asked:
            self._stream(connection)
            connection.sendall(framed(chunk({}, "stop")))
        else:
            connection.sendall(framed(chunk({"role": "assistant", "content": "Done."})))
            connection.sendall(framed(chunk({}, "stop")))
        usage = {"prompt_tokens": 5000, "completion_tokens": 100, "total_tokens": 5100}
        end = b"data: " + json.dumps({"id": "x", "choices": [], "usage": usage}).encode()
        connection.sendall(framed(end + b"\n\ndata: [DONE]\n\n") + b"0\r\n\r\n")

    def _stream(self, connection: socket.socket) -> None:
        began = time.perf_counter()
        sent = 0
        batch = PIECE * 8
        for start in range(0, len(self.text), batch):
            part = self.text[start : start + batch]
            pieces = [part[at : at + PIECE] for at in range(0, len(part), PIECE)]
            connection.sendall(framed(b"".join(chunk({"content": each}) for each in pieces)))
            sent += len(part)
            late = sent / RATE - (time.perf_counter() - began)
            if late > 0:
                time.sleep(late)
        self.sent.set()


class Program:
    """hilum in a pseudo-terminal."""

    def __init__(self, folder: Path, port: int, *arguments: str) -> None:
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
        env = {
            "PATH": os.environ["PATH"],
            "TERM": "xterm-256color",
            "LC_ALL": "C.UTF-8",
            "HOME": str(folder),
            "HILUM_CONFIG": str(folder / "config"),
            "HILUM_DATA": str(folder / "data"),
            "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1",
            "OPENAI_API_KEY": "k",
            "HILUM_MODEL": "openai/scripted",
        }
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hilum", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder / "project",
            env=env,
            start_new_session=True,
        )
        os.close(theirs)
        os.set_blocking(self.ours, False)
        self.seen = bytearray()

    def read(self, seconds: float) -> bytes:
        """Return what arrives within a time; as soon as something does."""
        if not select.select([self.ours], [], [], seconds)[0]:
            return b""
        try:
            data = os.read(self.ours, 1 << 16)
        except (BlockingIOError, OSError):
            return b""
        self.seen += data
        return data

    def until(self, text: str, seconds: float = 60.0, start: int = 0) -> float:
        """Wait until a text was written; return the time since the start of the program."""
        wanted = text.encode()
        limit = time.perf_counter() + seconds
        while wanted not in self.seen[start:]:
            self.read(0.05)
            if time.perf_counter() > limit:
                raise TimeoutError(f"{text!r} never came: {bytes(self.seen[-2000:])!r}")
        return time.perf_counter() - self.began

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self.ours, keys.encode())

    def memory(self) -> float:
        """Resident memory in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+)", status)
        return int(found[1]) / 1024 if found else 0.0

    def processor(self) -> float:
        """Processor time in seconds."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        """End it."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
        os.close(self.ours)


def project() -> Path:
    """A folder with a Git repository of 40 files and empty settings."""
    folder = Path(tempfile.mkdtemp(prefix="hilum-bench-"))
    work = folder / "project"
    (work / "src").mkdir(parents=True)
    (work / "a.py").write_text("x = 1\n" * 60)
    for number in range(40):
        (work / "src" / f"module_{number}.py").write_text(f"y = {number}\n")
    git = ["git", "-c", "user.email=a@example.org", "-c", "user.name=A"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "start"]):
        subprocess.run([*git, *command], cwd=work, check=True)
    return folder


def show(what: str, figure: str, bar: str, good: bool) -> bool:
    """Print a row."""
    print(f"{what:<66} {figure:>22}   {bar:<18} {'' if good else 'NOT MET'}")
    return good


def starts(folder: Path, port: int, count: int) -> bool:
    """Time from the start of the process to the first prompt, and until the session is open."""
    first: list[float] = []
    ready: list[float] = []
    for _ in range(count):
        program = Program(folder, port)
        first.append(program.until("❯") * 1000)
        ready.append(program.until("ready") * 1000)
        program.end()
    middle = statistics.median(first)
    figure = f"{min(first):.0f} / {middle:.0f} ms"
    good = show("start to the prompt, least / median", figure, "350 ms", middle < 350)
    show(
        "start to an open session, least / median",
        f"{min(ready):.0f} / {statistics.median(ready):.0f} ms",
        "–",
        True,
    )
    return good


def stream(folder: Path, server: Server) -> bool:
    """Bytes, echo and processor time while a long answer streams."""
    program = Program(folder, server.port)
    program.until("ready")
    program.type("STREAM\r")
    program.until("Section", 20)
    start = len(program.seen)
    used = program.processor()
    began = time.perf_counter()
    echoes: list[float] = []
    letters = "abcdefghijklmnopqrstuvwxyz"
    number = 0
    typed = ""
    while not server.sent.is_set():
        pressed = time.perf_counter()
        typed += letters[number % 26]
        number += 1
        mark = len(program.seen)
        # The end of the draft, which no text of the model contains.
        wanted = typed[-6:].encode()
        program.type(typed[-1])
        while wanted not in program.seen[mark:] and time.perf_counter() - pressed < 2:
            program.read(0.01)
        echoes.append((time.perf_counter() - pressed) * 1000)
        rest = pressed + KEY_SECONDS
        while time.perf_counter() < rest:
            program.read(max(rest - time.perf_counter(), 0))
        if len(typed) > 60:
            program.type("\x15")
            typed = ""
            program.read(0.05)
    elapsed = time.perf_counter() - began
    used = program.processor() - used
    program.until("1 turn", 60, start)
    written = len(program.seen) - start
    text = bytes(program.seen).decode(errors="replace")
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    total = server.text.count("# marker ")
    missing = [n for n in range(total) if f"# marker {n}\r" not in plain.replace(" \r", "\r")]
    memory = program.memory()
    program.end()
    echoes.sort()
    p99 = echoes[int(len(echoes) * 0.99) - 1]
    figure = f"{statistics.median(echoes):.1f} / {p99:.1f} / {echoes[-1]:.1f} ms"
    over = sum(echo > 30 for echo in echoes)
    good = show(f"echo of {len(echoes)} keys, median / p99 / worst", figure, "30 ms", over == 0)
    show("  echoes that took longer than 30 ms", f"{over} of {len(echoes)}", "0", over == 0)
    size = len(server.text.encode())
    ratio = written / size
    good &= show("bytes written per byte of text", f"{ratio:.2f}", "3", ratio <= 3)
    good &= show(
        "lines of code that never appeared", f"{len(missing)} of {total}", "0", not missing
    )
    show("share of a processor", f"{100 * used / elapsed:.0f} %", "–", True)
    show("memory after the answer", f"{memory:.0f} MB", "–", True)
    return good


def long_session(folder: Path, server: Server, turns: int) -> bool:
    """Memory after many turns."""
    program = Program(folder, server.port, "--set", f"turns={turns + 5}")
    program.until("ready")
    server.turns = turns
    program.type("TURNS\r")
    program.until(f"{turns + 1} turns", 600)
    time.sleep(0.5)
    memory = program.memory()
    program.end()
    return show(f"memory after {turns} turns", f"{memory:.0f} MB", "90 MB", memory < 90)


def stops(folder: Path, server: Server, count: int = 10) -> bool:
    """Time from Esc until the run has ended."""
    program = Program(folder, server.port)
    program.until("ready")
    times: list[float] = []
    for _ in range(count):
        mark = len(program.seen)
        program.type("HANG\r")
        program.until("stops", 20, mark)
        time.sleep(0.3)
        mark = len(program.seen)
        pressed = time.perf_counter()
        program.type("\x1b")
        program.until("stopped.", 10, mark)
        times.append((time.perf_counter() - pressed) * 1000)
        program.until("ready", 10, mark)
        program.type("\x15")
        program.read(0.1)
    program.end()
    worst = max(times)
    figure = f"{statistics.median(times):.0f} / {worst:.0f} ms"
    return show("Esc until the run is stopped, median / worst", figure, "250 ms", worst < 250)


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    # hilum ends an answer that is longer than 524,288 characters.
    parser.add_argument("--text", type=int, default=500_000)
    parser.add_argument("--starts", type=int, default=9)
    parser.add_argument("--turns", type=int, default=500)
    options = parser.parse_args()
    pieces: list[str] = []
    size = 0
    while size < options.text:
        pieces.append(PARAGRAPH.format(n=len(pieces)))
        size += len(pieces[-1])
    server = Server("".join(pieces))
    folder = project()
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    try:
        results = [
            starts(folder, server.port, options.starts),
            stops(folder, server),
            long_session(folder, server, options.turns),
            stream(folder, server),
        ]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
