"""How long it takes from the start of ``hilum run`` to its first request, next to a script that
only uses trio and httpx.

``python tests/benchmarks/first_request.py``; the bar is 1.3 times. Processor time is the steadier
figure on a busy machine.
"""

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import trio
from hilum_replay import serve

TIMES = 30
BARE = """
import os, sys, trio

sys.modules["httpx._main"] = None  # else click, which only development brings, makes httpx load its command line
import httpx

async def main():
    async with httpx.AsyncClient() as client:
        body = {"model": "x", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
        async with client.stream("POST", os.environ["OPENAI_BASE_URL"] + "/chat/completions", json=body) as response:
            async for line in response.aiter_lines():
                pass

trio.run(main)
"""


def processor_time(pid: int) -> float:
    """Milliseconds that a process has used, all threads together (Linux)."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e6


async def main() -> None:
    """Print a table."""
    running, seen = 0, (0.0, 0.0)

    def answer(request: object) -> str:
        nonlocal seen
        seen = processor_time(running), time.perf_counter()
        return "ok"

    commands = {
        "trio + httpx": [sys.executable, "-c", BARE],
        "hilum run": [sys.executable, "-m", "hilum", "run", "hi", "--model", "openai/x", "-q"],
    }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as folder:
        env = {
            k: v
            for k, v in os.environ.items()
            if k != "PYTHONDONTWRITEBYTECODE" and not k.startswith("HILUM_")
        }
        async with serve(answer) as server:
            env |= {
                "OPENAI_BASE_URL": f"{server.url}/v1",
                "HILUM_DATA": f"{folder}/d",
                "HILUM_CONFIG": f"{folder}/c",
            }
            for turn in range(TIMES + 1):
                for name, command in commands.items():
                    began = time.perf_counter()
                    process = await trio.lowlevel.open_process(
                        command, env=env, stdin=-3, stdout=-3, stderr=-3, cwd=folder
                    )
                    running = process.pid
                    await process.wait()
                    if turn:  # the first one compiles
                        found[name].append((seen[0], (seen[1] - began) * 1e3))
    print("to the first request    processor: least, median    wall: least, median    ms")
    for name, values in found.items():
        cpu, wall = zip(*values, strict=True)
        row = [min(cpu), statistics.median(cpu), min(wall), statistics.median(wall)]
        print(f"{name:22}" + "".join(f"{value:>14.0f}" for value in row))
    least = {name: min(value[0] for value in values) for name, values in found.items()}
    print(
        f"ratio of the least processor times: {least['hilum run'] / least['trio + httpx']:.2f}, bar: 1.30"
    )


if __name__ == "__main__":
    trio.run(main)
