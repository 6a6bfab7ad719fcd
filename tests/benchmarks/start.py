"""How soon hilum is at work. Run: ``python tests/benchmarks/start.py``.

From the start of the process to the arrival of the first model request: ``hilum run`` with all
plugins, beside a bare script that imports trio and httpx and sends the same request; in turns, with
compiled bytecode. Time and CPU are taken by the server at the moment the request is there.
"""

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BARE = """
import sys
import httpx
import trio

async def main():
    with open(sys.argv[2], "rb") as file:
        body = file.read()
    async with httpx.AsyncClient(verify=len(sys.argv) < 4) as client:
        headers = {"content-type": "application/json", "authorization": "Bearer none"}
        async with client.stream("POST", sys.argv[1] + "/chat/completions", content=body, headers=headers) as response:
            async for _ in response.aiter_lines():
                pass

trio.run(main)
"""
PLUGINS = """
import time, trio, httpx
import importlib
from importlib.metadata import entry_points
points = [point.module for point in entry_points(group="hilum")]
began = time.perf_counter()
for point in points:
    importlib.import_module(point)
print(1000 * (time.perf_counter() - began), len(points))
"""
IMPORT = """
import time
began = time.perf_counter()
import hilum
print(1000 * (time.perf_counter() - began), 1)
"""
LAZY_PACKAGES = {
    "mcp": "hilum_mcp",
    "memory": "hilum_memory.longterm",
    "skills": "hilum_skills",
}
# The modules that a package loads at first use are those that its module ``lazy`` declares.
LAZY = """
import ast, importlib, sys, time
from importlib.metadata import entry_points
from pathlib import Path
for point in entry_points(group="hilum"):
    importlib.import_module(point.module)
package = sys.argv[1]
lazy = importlib.import_module(package + ".lazy")
names = [
    alias.name
    for node in ast.walk(ast.parse(Path(lazy.__file__).read_text()))
    if isinstance(node, ast.ImportFrom) and node.module == package
    for alias in node.names
]
began = time.perf_counter()
for name in names:
    importlib.import_module(package + "." + name)
print(1000 * (time.perf_counter() - began), len(names))
"""
CHUNK = b'data: {"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":%s,"finish_reason":%s}]}\n\n'
BODY = (
    CHUNK % (b'{"role":"assistant","content":"Done."}', b"null")
    + CHUNK % (b"{}", b'"stop"')
    + b"data: [DONE]\n\n"
)
ANSWER = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(BODY)
    + BODY
)


def environment(folder: str, url: str = "") -> dict[str, str]:
    """The environment of the measured processes: compiled bytecode is used and kept."""
    kept = {
        k: v
        for k, v in os.environ.items()
        if k != "PYTHONDONTWRITEBYTECODE" and not k.startswith("HILUM_")
    }
    own = f"{folder}/own"
    return kept | {
        "OPENAI_BASE_URL": url,
        "OPENAI_API_KEY": "none",
        "HILUM_DATA": own,
        "HILUM_CONFIG": own,
    }


def cpu(pid: int) -> float:
    """CPU seconds that a process's threads have used."""
    tasks = Path("/proc", str(pid), "task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def receive(connection: socket.socket) -> bytes:
    """Read one request; give its body."""
    seen = b""
    while b"\r\n\r\n" not in seen:
        seen += connection.recv(1 << 16)
    head, _, body = seen.partition(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(1 << 16)
    return body


def first_request(
    argv: list[str], listener: socket.socket, environ: dict[str, str], folder: str
) -> tuple[float, float, bytes]:
    """Start a process.

    Give the seconds and the CPU seconds until its request was there, and the request.
    """
    began = time.perf_counter()
    with subprocess.Popen(
        argv, env=environ, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        connection, _ = listener.accept()
        with connection:
            body = receive(connection)
            seconds, used = time.perf_counter() - began, cpu(process.pid)
            connection.sendall(ANSWER)
            _, errors = process.communicate(timeout=30)
        assert process.returncode == 0, errors.decode()
    return seconds, used, body


def to_first_request(rounds: int) -> None:
    """Compare hilum with the bare script."""
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):
        listener.settimeout(30)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        environ = environment(folder, url)
        script, request, work = (
            Path(folder, "bare.py"),
            Path(folder, "request"),
            Path(folder, "work"),
        )
        work.mkdir()
        script.write_text(BARE)
        ours = [
            str(Path(sys.executable).with_name("hilum")),
            "run",
            "--quiet",
            "--model",
            "openai/m",
            "Hello.",
        ]
        for _ in range(2):
            request.write_bytes(first_request(ours, listener, environ, str(work))[2])
        bare = [sys.executable, str(script), url, str(request)]
        # hilum loads certificates only for https, and so can a script whose author thinks of it:
        # the harder measure.
        programs = {
            "bare script": bare,
            "bare script without certificates": [*bare, "bare"],
            "hilum run": ours,
        }
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in programs}
        for argv in programs.values():
            first_request(argv, listener, environ, str(work))
        for _ in range(rounds):
            for name, argv in programs.items():
                seconds, used, _ = first_request(argv, listener, environ, str(work))
                found[name].append((seconds, used))
        print(f"to the first request, median of {rounds}   time ms    CPU ms")
        medians = {}
        for name, values in found.items():
            medians[name] = [
                statistics.median(value[n] for value in values) * 1000 for n in range(2)
            ]
            print(f"{name:36}{medians[name][0]:10.0f}{medians[name][1]:10.0f}")
        for name in [*programs][:-1]:
            ratios = [
                ours / bare for bare, ours in zip(medians[name], medians["hilum run"], strict=True)
            ]
            print(
                f"{f'hilum run / {name}':46}{ratios[0]:.2f} x{ratios[1]:8.2f} x   bar 1.3 x, 1.5 x"
            )


def others(rounds: int) -> None:
    """Time imports, and what works without loading anything."""
    hilum = str(Path(sys.executable).with_name("hilum"))
    with tempfile.TemporaryDirectory() as folder:
        environ = environment(folder)

        def run(argv: list[str]) -> tuple[float, str]:
            began = time.perf_counter()
            done = subprocess.run(
                argv, env=environ, cwd=folder, capture_output=True, text=True, check=True
            )
            return (time.perf_counter() - began) * 1000, done.stdout

        print(f"\nmedian of {rounds}                            ms   bar")
        for label, argv, inside, bar in (
            ("python -c pass", [sys.executable, "-c", "pass"], False, ""),
            ("hilum --version", [hilum, "--version"], False, "60 ms"),
            ("hilum --help", [hilum, "--help"], False, "60 ms"),
            ("import hilum", [sys.executable, "-c", IMPORT], True, ""),
            ("all plugins beyond trio and httpx", [sys.executable, "-c", PLUGINS], True, "150 ms"),
            *(
                (
                    f"saved by hilum-{name} until first use",
                    [sys.executable, "-c", LAZY, package],
                    True,
                    "",
                )
                for name, package in LAZY_PACKAGES.items()
            ),
        ):
            run(argv)
            found = [run(argv) for _ in range(rounds)]
            values = [float(out.split()[0]) if inside else wall for wall, out in found]
            print(f"{label:38}{statistics.median(values):7.1f}   {bar}")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=21)
    options = parser.parse_args()
    to_first_request(options.rounds)
    others(options.rounds)


if __name__ == "__main__":
    main()
