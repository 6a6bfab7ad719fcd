"""What a user feels in a real project: hilum beside a bare script, in one run.

``python tests/benchmarks/real_project.py`` prints a table. The project is a Git repository of 40
small Python files, the home folder is fresh, and hilum runs as the program that users start, with
all installed plugins, the sandbox and the journal. The bare script has a loop, trio and httpx, and
three tools without any protection. Both talk to the same scripted model over HTTP, in turn.

A turn is measured at the model: from the end of its answer to the next request. Before each answer to a
command or an edit, the model thinks for a moment (``THINK``), in which hilum builds spare sandboxes. A
third side is hilum without spares.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FILES = 40
TURNS = 30
READS = 300
SIDES = ("bare", "hilum")
WITHOUT_SPARES = "no spares"
# The seconds for which the model thinks before each answer. No model answers faster.
THINK = {"command": 0.04, "edit": 0.04, "eight": 0.3}
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n"
# Every process of a side has this variable in its environment, so that its memory can be found.
MARK = "REAL_PROJECT_MARK"

BARE = """
import json, os, sys, httpx, trio

async def call(name, arguments):
    if name == "run_terminal_cmd":
        done = await trio.run_process(["bash", "-c", arguments["command"]], capture_stdout=True)
        return done.stdout.decode()
    with open(arguments["path"]) as file:
        text = file.read()
    if name == "read_file":
        return text
    with open(arguments["path"], "w") as file:
        file.write(text.replace(arguments["old_string"], arguments["new_string"], 1))
    return "edited"

async def main():
    messages = [{"role": "user", "content": "Work."}]
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    async with httpx.AsyncClient() as client:
        while True:
            calls = []
            body = {"model": "m", "stream": True, "messages": messages}
            async with client.stream("POST", url, json=body) as response:
                async for line in response.aiter_lines():
                    if line.startswith("data: {"):
                        for choice in json.loads(line[6:])["choices"]:
                            calls += choice["delta"].get("tool_calls", [])
            if not calls:
                return
            messages.append({"role": "assistant", "content": "", "tool_calls": calls})
            results = [None] * len(calls)

            async def run(number, function):
                results[number] = await call(function["name"], json.loads(function["arguments"]))

            async with trio.open_nursery() as nursery:
                for number, asked in enumerate(calls):
                    nursery.start_soon(run, number, asked["function"])
            for asked, result in zip(calls, results):
                messages.append({"role": "tool", "tool_call_id": asked["id"], "content": result})

trio.run(main)
"""

Calls = Sequence[tuple[str, dict[str, Any]]]


def encode_answer(number: int, calls: Calls) -> bytes:
    """Return the whole response with some tool calls, or with the final answer."""

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        data = {"id": "x", "object": "chat.completion.chunk", "choices": [choice]}
        return b"data: " + json.dumps(data).encode() + b"\n\n"

    asked = []
    for index, (name, arguments) in enumerate(calls):
        function = {"name": name, "arguments": json.dumps(arguments)}
        identity = f"call_{number}_{index}"
        asked.append({"index": index, "id": identity, "type": "function", "function": function})
    if asked:
        body = chunk({"role": "assistant", "tool_calls": asked}) + chunk({}, "tool_calls")
    else:
        body = chunk({"role": "assistant", "content": "Done."}) + chunk({}, "stop")
    body += b"data: [DONE]\n\n"
    return HEAD % len(body) + body


class Model:
    """A scripted model, in a thread; it notes when requests arrive and answers are sent.

    Args:
        script: The calls of each answer. After the last one it gives the final answer.
        think: Seconds before each answer.
    """

    def __init__(self, script: Sequence[Calls], think: float = 0.0) -> None:
        self.think = think
        self.script = [*script, ()]
        self.answers = [encode_answer(number, calls) for number, calls in enumerate(self.script)]
        self.arrived: list[float] = []
        self.sent: list[float] = []
        # Called before the final answer, while the processes of the run are still there.
        self.before_last = lambda: None
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/v1"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection, connection.makefile("rb") as file:
            while True:
                first = file.readline()
                if not first:
                    return
                length = 0
                for line in iter(file.readline, b"\r\n"):
                    name, _, value = line.lower().partition(b":")
                    if name == b"content-length":
                        length = int(value)
                file.read(length)
                if not first.startswith(b"POST"):
                    connection.sendall(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
                    continue
                self.arrived.append(time.perf_counter())
                number = min(len(self.arrived), len(self.answers)) - 1
                if number == len(self.answers) - 1:
                    self.before_last()
                time.sleep(self.think)
                connection.sendall(self.answers[number])
                self.sent.append(time.perf_counter())

    def turns(self) -> list[float]:
        """Return the milliseconds of each turn."""
        pairs = zip(self.sent, self.arrived[1:], strict=False)
        return [(arrived - sent) * 1000 for sent, arrived in pairs]


def make_project(folder: Path) -> None:
    """Create the repository."""
    for number in range(FILES):
        file = folder / "src" / f"part{number % 4}" / f"module{number:02}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = [f'"""Module {number}."""', "", "VALUE = 0", ""]
        for index in range(8):
            lines += ["", f"def add_{index}(value: int) -> int:", f"    return value + {index}", ""]
        file.write_text("\n".join(lines))
    (folder / "pyproject.toml").write_text('[project]\nname = "sample"\nversion = "1.0"\n')
    git = ["git", "-C", folder, "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "Begin"]):
        subprocess.run([*git, *words], check=True)


def memory_of(mark: str) -> tuple[float, float]:
    """Return the memory of all processes with a mark, in megabytes: shares (PSS), and RSS."""
    shares = 0
    whole = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() not in (process / "environ").read_bytes():
                continue
            for line in (process / "smaps_rollup").read_text().splitlines():
                name, _, value = line.partition(":")
                if name == "Pss":
                    shares += int(value.split()[0])
                elif name == "Rss":
                    whole += int(value.split()[0])
        except OSError:
            continue
    return shares / 1024, whole / 1024


@contextmanager
def project() -> Iterator[tuple[Path, Path]]:
    """Create a project and a home folder."""
    with tempfile.TemporaryDirectory(prefix="real-project-") as folder:
        work = Path(folder) / "work"
        home = Path(folder) / "home"
        work.mkdir()
        home.mkdir()
        make_project(work)
        yield work, home


def play(side: str, script: Sequence[Calls], think: float) -> dict[str, Any]:
    """Run one side in a new project.

    Args:
        side: One of ``SIDES``, or ``WITHOUT_SPARES``.
        script: The calls of each answer of the model.
        think: Seconds before each answer.

    Returns:
        ``start`` (milliseconds until the first request), ``turns`` and ``memory``.
    """
    model = Model(script, think)
    with project() as (work, home):
        mark = home.parent.name
        env = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        env |= {"HOME": str(home), "OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "none"}
        env |= {"HILUM_MODEL": "openai/m", MARK: mark}
        memory: list[tuple[float, float]] = []
        model.before_last = lambda: memory.append(memory_of(mark))
        argv = [sys.executable, "-c", BARE]
        if side != "bare":
            argv = [sys.executable, "-m", "hilum", "run", "--approve", "auto"]
            argv += ["--set", f"turns={len(script) + 5}"]
            if side == WITHOUT_SPARES:
                argv += ["--set", "guard.spare_sandboxes=0"]
            argv.append("Work.")
        began = time.perf_counter()
        done = subprocess.run(argv, cwd=work, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    model.listener.close()
    assert len(model.arrived) == len(script) + 1, done.stderr
    start = (model.arrived[0] - began) * 1000
    return {"start": start, "turns": model.turns(), "memory": memory[0]}


def path_of(number: int) -> str:
    """Return the path of a file of the project."""
    number %= FILES
    return f"src/part{number % 4}/module{number:02}.py"


def make_scripts() -> dict[str, list[Calls]]:
    """Return the scripted calls of each measurement."""
    edits: list[Calls] = [[("read_file", {"path": path_of(0)})]]
    for number in range(TURNS):
        change = {"old_string": f"VALUE = {number}\n", "new_string": f"VALUE = {number + 1}\n"}
        edits.append([("edit_file", {"path": path_of(0), **change})])
    reads: list[Calls] = []
    for number in range(READS):
        reads.append([("read_file", {"path": path_of(number), "start_line": number // FILES + 1})])
    return {
        "start": [],
        "command": [[("run_terminal_cmd", {"command": f"echo {n}"})] for n in range(TURNS)],
        "edit": edits,
        "eight": [[("run_terminal_cmd", {"command": f"sleep 0.5; echo {n}"}) for n in range(8)]]
        * 7,
        "read": reads,
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    scripts = make_scripts()
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for number in range(rounds):
        for kind, script in scripts.items():
            # Three hundred reads take long and vary little.
            if kind == "read" and number >= 2:
                continue
            sides = [*SIDES, WITHOUT_SPARES] if kind in ("command", "eight") else [*SIDES]
            for side in sides if number % 2 == 0 else sides[::-1]:
                think = THINK.get(kind, 0.0)
                found.setdefault((kind, side), []).append(play(side, script, think))

    def median(kind: str, side: str, part: slice) -> float:
        runs = [statistics.median(run["turns"][part]) for run in found[kind, side]]
        return statistics.median(runs)

    def start(side: str) -> float:
        return statistics.median(run["start"] for run in found["start", side])

    def memory(side: str, index: int) -> float:
        return statistics.median(run["memory"][index] for run in found["read", side])

    rows = [
        ("process start to first request, ms", *map(start, SIDES)),
        ("turn with a command, ms", *(median("command", side, slice(3, None)) for side in SIDES)),
        ("turn with an edit, ms", *(median("edit", side, slice(3, None)) for side in SIDES)),
        ("turn with a read, first 30, ms", *(median("read", side, slice(3, 33)) for side in SIDES)),
        (
            "turn with a read, last 30, ms",
            *(median("read", side, slice(-30, None)) for side in SIDES),
        ),
        (
            "eight commands of 0.5 s at once, ms",
            *(median("eight", side, slice(1, None)) for side in SIDES),
        ),
        ("memory after 300 reads, all processes, PSS, MB", *(memory(side, 0) for side in SIDES)),
        ("the same, RSS, MB", *(memory(side, 1) for side in SIDES)),
    ]
    print(f"{'':48} {'bare':>8} {'hilum':>8} {'ratio':>7}")
    for label, bare, ours in rows:
        print(f"{label:48} {bare:8.1f} {ours:8.1f} {ours / bare:6.2f}x")
    for kind, label in (
        ("command", "turn with a command, without spare sandboxes, ms"),
        ("eight", "eight commands at once, without spares, ms"),
    ):
        part = slice(1, None) if kind == "eight" else slice(3, None)
        bare, ours = (median(kind, side, part) for side in ("bare", WITHOUT_SPARES))
        print(f"{label:48} {bare:8.1f} {ours:8.1f} {ours / bare:6.2f}x")


if __name__ == "__main__":
    main()
