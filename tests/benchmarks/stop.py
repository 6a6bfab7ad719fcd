"""How fast a run is stopped, and what is left of its processes however hilum ends.

Run: ``python tests/benchmarks/stop.py``.

The stubborn tree ignores every signal that can be ignored, and has forked twice into a session of
its own.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path
from uuid import uuid4

import hilum
import trio
from hilum import hookimpl, tool
from hilum.discovery import entry_points
from hilum.events import CallStarted

sys.path.insert(0, str(Path(__file__).parent))
import model_server

STUBBORN = """
trap '' TERM INT HUP
export STOP_MARK={mark}
( setsid bash -c 'trap "" TERM INT HUP; touch {up}; while :; do sleep 5; done' & ) &
while :; do sleep 5; done
"""
SETTINGS: dict[str, object] = {"model": "openai/m", "approve": "auto"}


@tool(risk="read", effect="pure")
async def wait() -> None:
    """Wait for ever."""
    await trio.sleep_forever()


class Waiting:
    """A plugin with a tool that never ends."""

    @hookimpl
    def provide_tools(self):  # type: ignore[no-untyped-def]
        return [wait]


def marked(mark: str) -> list[str]:
    """List the processes that carry a mark in their environment, with their command lines."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            environment = Path("/proc", name, "environ").read_bytes()
            if f"STOP_MARK={mark}\0".encode() in environment + b"\0":
                found.append(
                    f"{name} "
                    + Path("/proc", name, "cmdline").read_bytes().replace(b"\0", b" ").decode()[:80]
                )
        except OSError:
            continue
    return found


def asked_for(name: str, folder: str, mark: str) -> tuple[str, str]:
    """The tool the model calls, and its arguments."""
    command = STUBBORN.format(mark=mark, up=f"{folder}/up")
    return (
        ("wait", "{}")
        if name == "in process"
        else ("run_terminal_cmd", json.dumps({"command": command}))
    )


@contextmanager
def places() -> Iterator[tuple[str, str]]:
    """A workspace, and beside it, where no sandbox has to hide them, a folder for hilum's own
    files.
    """
    with tempfile.TemporaryDirectory(prefix="stop-") as folder:
        work, own = Path(folder, "work"), Path(folder, "own")
        work.mkdir()
        yield str(work), str(own)


@asynccontextmanager
async def opened(name: str, mark: str) -> AsyncIterator[tuple[hilum.Session, Path]]:
    """Open a session with all plugins, whose model calls the tool at once."""
    with (
        places() as (work, own),
        model_server.start(1000, *asked_for(name, work, mark)) as url,
    ):
        # The gateways read the process's own environment.
        os.environ |= {
            "OPENAI_BASE_URL": url,
            "OPENAI_API_KEY": "none",
            "HILUM_DATA": own,
            "HILUM_CONFIG": own,
        }
        installed = list(entry_points("hilum"))
        async with (
            hilum.open_kernel([*installed, Waiting()], settings=SETTINGS) as kernel,
            kernel.open_session(work) as session,
        ):
            yield session, Path(work, "up")


async def stops(name: str, count: int, seed: int = 1) -> tuple[list[float], list[str]]:
    """Stop many runs, each at a random moment.

    Args:
        name: ``in process`` or ``stubborn tree``.
        count: How many.
        seed: Of the moments.

    Returns:
        Seconds from ``stop`` to the end of each run, and the processes that were left when it had
        ended.
    """
    dice, mark = random.Random(seed), uuid4().hex
    seconds, left = [], []
    async with opened(name, mark) as (session, up):
        for _ in range(count):
            up.unlink(missing_ok=True)
            last = session.journal.last
            run = await session.prompt("Work.")
            if name == "stubborn tree":
                while not up.exists():  # noqa: ASYNC110
                    await trio.sleep(0.002)
            elif dice.random() < 0.5:  # the other half are stopped wherever they are
                async with aclosing(session.events(last)) as events:
                    async for event in events:
                        if isinstance(event, CallStarted):
                            break
            await trio.sleep(dice.uniform(0, 0.02))
            began = time.perf_counter()
            session.stop()
            ended = await run.wait()
            seconds.append(time.perf_counter() - began)
            left += marked(mark)
            assert ended.state == "stopped", ended
    return seconds, left


WAYS: dict[str, Callable[[int], None]] = {
    "SIGINT to the process group": lambda pid: os.killpg(pid, signal.SIGINT),
    "SIGTERM to hilum alone": lambda pid: os.kill(pid, signal.SIGTERM),
    "SIGHUP to hilum alone": lambda pid: os.kill(pid, signal.SIGHUP),
    "SIGKILL of hilum": lambda pid: os.kill(pid, signal.SIGKILL),
}


def end(way: str, delay: float) -> tuple[int, float, list[str]]:
    """End a ``hilum run`` that has a stubborn tree running.

    Returns:
        Its exit code, the seconds from the signal until nothing was left (at most 60), and what was
        left.
    """
    mark = uuid4().hex
    with places() as (work, own):
        name, arguments = asked_for("stubborn tree", work, mark)
        with model_server.start(1, name, arguments) as url:
            environ = os.environ | {
                "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none",
                "HILUM_DATA": own, "HILUM_CONFIG": own,
                "STOP_MARK": mark,
            }  # fmt: skip
            argv = [
                sys.executable,
                "-m",
                "hilum",
                "run",
                "--model",
                "openai/m",
                "--approve",
                "auto",
                "-C",
                work,
                "Work.",
            ]
            with subprocess.Popen(
                argv,
                env=environ,
                start_new_session=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            ) as process:
                deadline = time.monotonic() + 60
                while not Path(work, "up").exists():
                    if process.poll() is not None or time.monotonic() > deadline:
                        process.kill()
                        raise AssertionError(
                            f"hilum run did not start the command: {process.communicate()[1]}"
                        )
                    time.sleep(0.005)
                time.sleep(delay)
                began = time.perf_counter()
                WAYS[way](process.pid)
                left = marked(mark)
                while (left or process.poll() is None) and time.perf_counter() - began < 60:
                    time.sleep(0.002)
                    left = marked(mark) if process.poll() is not None else left
                seconds = time.perf_counter() - began
                process.kill()
                return process.wait(), seconds, left


def p99(seconds: list[float]) -> float:
    """The 99th percentile."""
    return sorted(seconds)[max(len(seconds) * 99 // 100 - 1, 0)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--kills", type=int, default=25)
    options = parser.parse_args()
    print("stop of                        runs   median ms     p99 ms   worst ms   left   bar")
    for name, bar in (("in process", 0.2), ("stubborn tree", 1.0)):
        seconds, left = trio.run(stops, name, options.runs)
        middle = sorted(seconds)[len(seconds) // 2]
        figures = "".join(f"{value * 1000:11.1f}" for value in (middle, p99(seconds), max(seconds)))
        print(
            f"{name:30}{len(seconds):5}{figures}{len(left):7}   p99 {bar * 1000:.0f} ms, 0 left",
            flush=True,
        )
    dice = random.Random(2)
    for way in WAYS:
        found = [end(way, dice.uniform(0, 0.1)) for _ in range(options.kills)]
        seconds = sorted(found_seconds for _, found_seconds, _ in found)
        codes = sorted({code for code, _, _ in found})
        left = [process for _, _, rest in found for process in rest]
        figures = "".join(
            f"{value * 1000:11.1f}"
            for value in (seconds[len(seconds) // 2], p99(seconds), seconds[-1])
        )
        print(
            f"{way:30}{len(found):5}{figures}{len(left):7}   0 left; exit codes {codes}", flush=True
        )


if __name__ == "__main__":
    main()
