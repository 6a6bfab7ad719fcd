"""What a user feels in a real project: hilum beside a bare script, in one run.

``python tests/benchmarks/real_project.py`` prints a table. The project is a Git repository of 40
small Python files (``--files N`` for more), the home folder is fresh, and hilum runs as the program that users start, with
all installed plugins, the sandbox and the journal. The bare script has a loop, trio and httpx, and
three tools without any protection. Both talk to the same scripted model over HTTP, in turn.

A turn is measured at the model: from the end of its answer to the next request.

``--journal`` prints only what the journal of file changes adds to a turn with a command: with looks
at what inotify names, with walks of the whole project, and without the journal.
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
FILES_IN_FOLDER = 20
# Options of hilum for each way to find the changes of a command.
JOURNALS = {
    "hilum": [],
    "walks": ["--set", "files.deferred_looks=false"],
    "no journal": ["--set", "files.snapshots=false"],
}
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
    """

    def __init__(self, script: Sequence[Calls]) -> None:
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
                connection.sendall(self.answers[number])
                self.sent.append(time.perf_counter())

    def turns(self) -> list[float]:
        """Return the milliseconds of each turn."""
        pairs = zip(self.sent, self.arrived[1:], strict=False)
        return [(arrived - sent) * 1000 for sent, arrived in pairs]


def make_project(folder: Path, count: int) -> None:
    """Create the repository."""
    for number in range(count):
        file = folder / path_of(number)
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = [f'"""Module {number}."""', "", "VALUE = 0", ""]
        for index in range(8):
            lines += ["", f"def add_{index}(value: int) -> int:", f"    return value + {index}", ""]
        file.write_text("\n".join(lines))
    (folder / "pyproject.toml").write_text('[project]\nname = "sample"\nversion = "1.0"\n')
    run_git(folder, "init", "-q")
    run_git(folder, "add", ".")
    run_git(folder, "commit", "-qm", "Begin")


def run_git(folder: Path, *words: str) -> None:
    """Run git in the project."""
    git = ["git", "-C", folder, "-c", "user.name=x", "-c", "user.email=x@example.org"]
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
def project(count: int) -> Iterator[Path]:
    """Create a project."""
    with tempfile.TemporaryDirectory(prefix="real-project-") as folder:
        work = Path(folder) / "work"
        work.mkdir()
        make_project(work, count)
        yield work


def play(side: str, script: Sequence[Calls], work: Path) -> dict[str, Any]:
    """Run one side in a project, with a new home folder, and restore the project.

    Returns:
        ``start`` (milliseconds until the first request), ``turns`` and ``memory``.
    """
    model = Model(script)
    with tempfile.TemporaryDirectory(prefix="real-home-") as home:
        mark = Path(home).name
        env = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        env |= {"HOME": home, "OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "none"}
        env |= {"HILUM_MODEL": "openai/m", MARK: mark}
        memory: list[tuple[float, float]] = []
        model.before_last = lambda: memory.append(memory_of(mark))
        argv = [sys.executable, "-c", BARE]
        if side != "bare":
            argv = [sys.executable, "-m", "hilum", "run", "--approve", "auto", *JOURNALS[side]]
            argv += ["--set", f"turns={len(script) + 5}", "Work."]
        began = time.perf_counter()
        done = subprocess.run(argv, cwd=work, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    model.listener.close()
    assert len(model.arrived) == len(script) + 1, done.stderr
    run_git(work, "checkout", "-q", ".")
    start = (model.arrived[0] - began) * 1000
    return {"start": start, "turns": model.turns(), "memory": memory[0]}


def path_of(number: int) -> str:
    """Return the path of a file of the project."""
    if number < FILES:
        return f"src/part{number % 4}/module{number:02}.py"
    return f"src/part{number // 1000}/group{number // FILES_IN_FOLDER}/module{number:02}.py"


def make_scripts() -> dict[str, list[Calls]]:
    """Return the scripted calls of each measurement."""
    edits: list[Calls] = [[("read_file", {"path": path_of(0)})]]
    for number in range(TURNS):
        change = {"old_string": f"VALUE = {number}\n", "new_string": f"VALUE = {number + 1}\n"}
        edits.append([("edit_file", {"path": path_of(0), **change})])
    reads: list[Calls] = []
    for number in range(READS):
        reads.append(
            [("read_file", {"path": path_of(number % FILES), "start_line": number // FILES + 1})]
        )
    return {
        "start": [],
        "command": [[("run_terminal_cmd", {"command": f"echo {n}"})] for n in range(TURNS)],
        "edit": edits,
        "eight": [[("run_terminal_cmd", {"command": f"sleep 0.5; echo {n}"}) for n in range(8)]],
        "read": reads,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--files", type=int, default=FILES, help="number of files in the project")
    parser.add_argument("--journal", action="store_true", help="measure only the journal's share")
    options = parser.parse_args()
    with project(options.files) as work:
        if options.journal:
            print_journal(work, options.rounds)
        else:
            print_table(work, options.rounds)
    print(f"{options.files:,} files, load average {os.getloadavg()[0]:.1f}")


def print_journal(work: Path, rounds: int) -> None:
    """Print what the journal adds to a turn with a command that prints or that writes a file."""
    scripts = {
        "that prints": [[("run_terminal_cmd", {"command": f"echo {n}"})] for n in range(TURNS)],
        "that writes": [
            [("run_terminal_cmd", {"command": f"echo {n} > {path_of(0)}"})] for n in range(TURNS)
        ],
    }
    for kind, script in scripts.items():
        found: dict[str, list[float]] = {}
        for number in range(rounds):
            for side in list(JOURNALS)[:: 1 if number % 2 == 0 else -1]:
                turns = play(side, script, work)["turns"]
                found.setdefault(side, []).append(statistics.median(turns[3:]))
        for side, medians in found.items():
            turn = statistics.median(medians)
            added = turn - statistics.median(found["no journal"])
            print(f"turn with a command {kind}, {side:12} {turn:8.1f} ms, journal {added:+7.1f} ms")


def print_table(work: Path, rounds: int) -> None:
    """Print the table."""
    scripts = make_scripts()
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for number in range(rounds):
        for kind, script in scripts.items():
            # Three hundred reads take long and vary little.
            if kind == "read" and number >= 2:
                continue
            for side in SIDES if number % 2 == 0 else SIDES[::-1]:
                found.setdefault((kind, side), []).append(play(side, script, work))

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
            *(median("eight", side, slice(None)) for side in SIDES),
        ),
        ("memory after 300 reads, all processes, PSS, MB", *(memory(side, 0) for side in SIDES)),
        ("the same, RSS, MB", *(memory(side, 1) for side in SIDES)),
    ]
    print(f"{'':48} {'bare':>8} {'hilum':>8} {'ratio':>7}")
    for label, bare, ours in rows:
        print(f"{label:48} {bare:8.1f} {ours:8.1f} {ours / bare:6.2f}x")


if __name__ == "__main__":
    main()
