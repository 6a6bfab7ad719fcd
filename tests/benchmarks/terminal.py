"""What the terminal costs: its start, the echo of a key, bytes written, memory and the stop.

Run: ``python tests/benchmarks/terminal.py [--text 500000] [--starts 9] [--turns 500]``.

The real program runs in a pseudo-terminal of 120 × 40 in a Git repository, with a fresh home folder
and all plugins. A model on the loopback interface streams 20 kB/s of Markdown (5,000 tokens a
second). While it streams, a key is pressed every 120 ms, and the time until it is drawn is taken.
The same is done while three sub-agents run, and on a terminal that reads only 25 kB/s.
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
SLOW_RATE = 25_000  # bytes a second that a slow terminal reads
PIECE = 16  # bytes, about four tokens
KEY_SECONDS = 0.12
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
STUBBORN = "trap '' TERM INT HUP; touch up; while :; do sleep 5; done"
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
    """Streams a text for the prompt STREAM, calls a tool for TURNS, hangs for HANG.

    For AGENTS, it starts three sub-agents in the background, which read files, and streams. For
    STUBBORN, it starts three sub-agents, and each of the four runs a command that ignores signals.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.turns = 0
        self.calls = 0
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
        # hilum adds notes of its own behind the results of calls.
        last = [found.start() for found in re.finditer(rb'"role":"user","content":"[^<]', body)][-1]
        asked = body[last:]
        if b"HANG" in asked:
            time.sleep(600)
        done = asked.count(b'"role":"tool"')
        if self.turns > 0:
            self.turns -= 1
            self._call(connection, ("read_file", {"path": "a.py"}))
        elif b"STUBBORN" in asked:
            command = ("run_terminal_cmd", {"command": STUBBORN, "timeout": 600})
            helpers = [self._task(f"STUB-HELPER {number}", False) for number in range(3)]
            self._call(connection, *helpers, command)
        elif b"STUB-HELPER" in asked:
            self._call(connection, ("run_terminal_cmd", {"command": STUBBORN, "timeout": 600}))
        elif b"AGENTS" in asked and not done:
            self._call(connection, *(self._task(f"READ-FILES {n}", True) for n in range(3)))
        elif b"STREAM" in asked or b"AGENTS" in asked:
            self._stream(connection)
            connection.sendall(framed(chunk({}, "stop")))
        elif b"READ-FILES" in asked and not self.sent.is_set():
            # About 500 tokens a second for each sub-agent.
            for start in range(0, 1000, PIECE * 4):
                piece = self.text[start : start + PIECE * 4]
                connection.sendall(framed(chunk({"content": piece})))
                time.sleep(0.03)
            self._call(connection, ("read_file", {"path": f"src/module_{done % 40}.py"}))
        else:
            connection.sendall(framed(chunk({"role": "assistant", "content": "Done."})))
            connection.sendall(framed(chunk({}, "stop")))
        usage = {"prompt_tokens": 5000, "completion_tokens": 100, "total_tokens": 5100}
        end = b"data: " + json.dumps({"id": "x", "choices": [], "usage": usage}).encode()
        connection.sendall(framed(end + b"\n\ndata: [DONE]\n\n") + b"0\r\n\r\n")

    def _task(self, prompt: str, background: bool) -> tuple[str, dict[str, object]]:
        arguments = {"description": prompt.lower(), "prompt": prompt, "background": background}
        return "task", arguments

    def _call(self, connection: socket.socket, *calls: tuple[str, dict[str, object]]) -> None:
        self.calls += 1
        parts = []
        for index, (name, arguments) in enumerate(calls):
            function = {"name": name, "arguments": json.dumps(arguments)}
            identity = f"c{self.calls}-{index}"
            part = {"index": index, "id": identity, "type": "function", "function": function}
            parts.append(part)
        connection.sendall(framed(chunk({"role": "assistant", "tool_calls": parts})))
        connection.sendall(framed(chunk({}, "tool_calls")))

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
        self.rate = 0  # bytes a second that the terminal reads, 0 for no limit

    def read(self, seconds: float) -> bytes:
        """Return what arrives within a time; as soon as something does."""
        if not select.select([self.ours], [], [], seconds)[0]:
            return b""
        size = 1 << 16
        if self.rate:
            time.sleep(0.01)
            size = self.rate // 100
        try:
            data = os.read(self.ours, size)
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


def echo_keys(program: Program, server: Server) -> list[float]:
    """Return the milliseconds after which each key was drawn, while the server streams."""
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
    return sorted(echoes)


def show_echoes(what: str, echoes: list[float], bar: float) -> bool:
    """Print the rows about the echo of keys."""
    p99 = echoes[int(len(echoes) * 0.99) - 1]
    figure = f"{statistics.median(echoes):.1f} / {p99:.1f} / {echoes[-1]:.1f} ms"
    over = sum(echo > bar for echo in echoes)
    good = show(
        f"{what} of {len(echoes)} keys, median / p99 / worst", figure, f"{bar:.0f} ms", not over
    )
    show(f"  echoes that took longer than {bar:.0f} ms", f"{over} of {len(echoes)}", "0", not over)
    return good


def stream(folder: Path, server: Server) -> bool:
    """Bytes, echo and processor time while a long answer streams."""
    server.sent.clear()
    program = Program(folder, server.port)
    program.until("ready")
    program.type("STREAM\r")
    program.until("Section", 20)
    start = len(program.seen)
    used = program.processor()
    began = time.perf_counter()
    echoes = echo_keys(program, server)
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
    good = show_echoes("echo", echoes, 30)
    size = len(server.text.encode())
    ratio = written / size
    good &= show("bytes written per byte of text", f"{ratio:.2f}", "3", ratio <= 3)
    good &= show(
        "lines of code that never appeared", f"{len(missing)} of {total}", "0", not missing
    )
    show("share of a processor", f"{100 * used / elapsed:.0f} %", "–", True)
    show("memory after the answer", f"{memory:.0f} MB", "–", True)
    return good


def stream_with_agents(folder: Path, server: Server) -> bool:
    """Echo of keys while a long answer streams and three sub-agents run."""
    server.sent.clear()
    options = ("--set", "scheduler.tasks_at_once=3", "--set", "turns=1000")
    program = Program(folder, server.port, *options)
    program.until("ready")
    program.type("AGENTS\r")
    program.until("Section", 20)
    echoes = echo_keys(program, server)
    running = sum(f"read-files {number}".encode() in program.seen for number in range(3))
    program.end()
    good = show("sub-agents that ran meanwhile", str(running), "3", running == 3)
    return good & show_echoes("echo with three sub-agents", echoes, 30)


def stop_all(folder: Path, server: Server, count: int) -> bool:
    """Time from Esc until three sub-agents and their stubborn commands have ended."""
    up = folder / "project" / "up"
    program = Program(
        folder, server.port, "--approve", "auto", "--set", "scheduler.tasks_at_once=3"
    )
    program.until("ready")
    times: list[float] = []
    left = 0
    for _ in range(count):
        mark = len(program.seen)
        program.type("STUBBORN\r")
        limit = time.perf_counter() + 30
        while len(find_commands(program.process.pid)) < 4:
            program.read(0.02)
            if time.perf_counter() > limit:
                raise TimeoutError(bytes(program.seen[-3000:]).decode(errors="replace"))
        mark = len(program.seen)
        pressed = time.perf_counter()
        program.type("\x1b")
        program.until("stopped.", 10, mark)
        times.append((time.perf_counter() - pressed) * 1000)
        left += len(find_commands(program.process.pid))
        program.until("ready", 10, mark)
        program.type("\x15")
        program.read(0.2)
        up.unlink(missing_ok=True)
    program.end()
    worst = max(times)
    figure = f"{statistics.median(times):.0f} / {worst:.0f} ms"
    good = show(
        "Esc until 3 sub-agents and 4 stubborn commands ended", figure, "250 ms", worst < 250
    )
    return good & show("  commands that were left", str(left), "0", left == 0)


def find_commands(parent: int) -> list[int]:
    """Return the shells of stubborn commands among the descendants of a process."""
    parents: dict[int, int] = {}
    commands: set[int] = set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            line = (path / "cmdline").read_bytes()
        except OSError:
            continue
        parents[int(path.name)] = int(fields[1])
        if line.endswith(STUBBORN.encode() + b"\0") and b"bash" in line.split(b"\0")[0]:
            commands.add(int(path.name))
    return [pid for pid in commands if _descends(pid, parent, parents)]


def _descends(pid: int, ancestor: int, parents: dict[int, int]) -> bool:
    while pid > 1:
        if pid == ancestor:
            return True
        pid = parents.get(pid, 0)
    return False


def slow_terminal(folder: Path, server: Server, count: int) -> bool:
    """Time from Esc until the stopped state is drawn, while a slow terminal is behind."""
    times: list[float] = []
    for _ in range(count):
        server.sent.clear()
        program = Program(folder, server.port)
        program.until("ready")
        program.type("STREAM\r")
        program.rate = SLOW_RATE
        limit = time.perf_counter() + 4
        while time.perf_counter() < limit:
            program.read(0.01)
        mark = len(program.seen)
        pressed = time.perf_counter()
        program.type("\x1b")
        program.until("ready", 20, mark)
        times.append((time.perf_counter() - pressed) * 1000)
        program.rate = 0
        program.end()
    worst = max(times)
    figure = f"{statistics.median(times):.0f} / {worst:.0f} ms"
    # The pseudo-terminal's own buffer of 21 kB adds up to 840 ms.
    return show("Esc until stopped on a terminal of 25 kB/s", figure, "1090 ms", worst < 1090)


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
            stop_all(folder, server, 5),
            slow_terminal(folder, server, 3),
            long_session(folder, server, options.turns),
            stream(folder, server),
            stream_with_agents(folder, server),
        ]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
