"""How much clients slow a run down, how late they get events, and how many sessions fit.

``python tests/benchmarks/serve.py`` prints both measurements. ``watching``: 200 WebSocket clients
follow one run, whose model streams 500 pieces a second in turns of one second. The bars are a turn
that is slowed by less than 5 %, and a delay with a 99th percentile below 100 ms. ``sessions``: 100
sessions are open in one server and 20 of them run at once. The bars are no lost event and less than
600 MB. The clients are in a process of their own.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import trio
from hilum import Session
from hilum.messages import AssistantMessage, Text
from hilum.models import Chunk, Done, Request, TextChunk
from hilum.testing import ScriptedModel, say
from hilum_serve.hub import HostedSession

sys.path.insert(0, str(Path(__file__).parent.parent / "support"))

TURNS = 8
PIECES = 500
PACE = 0.002


async def follow_many(address: str, token: str, session: str, count: int, seconds: float) -> None:
    """Follow a session with many clients; print the delays of pieces in milliseconds, and gaps."""
    from served import Socket

    delays: list[float] = []
    gaps = 0
    ready = 0

    async def follow(number: int) -> None:
        nonlocal gaps, ready
        host, _, port = address.partition(":")
        async with await trio.open_tcp_stream(host, int(port)) as stream:
            socket = Socket(stream)
            path = f"/api/sessions/{session}/socket?after=0&vocabulary=events"
            await socket.open(address, path, [("authorization", f"Bearer {token}")])
            seq = 0
            ready += 1
            if ready == count:
                print("ready", flush=True)
            while (message := await socket.receive()) is not None:
                now = time.time()
                for element in message:
                    if element["type"] == "delta":
                        # The pieces are the times at which the model sent them.
                        for word in element["text"].split():
                            if number % 5 == 0:
                                delays.append(now - float(word))
                    elif "seq" in element:
                        gaps += element["seq"] != seq + 1
                        seq = element["seq"]

    with trio.move_on_after(seconds):
        async with trio.open_nursery() as nursery:
            for number in range(count):
                nursery.start_soon(follow, number)
                await trio.sleep(0.005)
    times = sorted(delays) or [0.0]
    result = {
        "p50": round(times[len(times) // 2] * 1000, 1),
        "p99": round(times[int(len(times) * 0.99)] * 1000, 1),
        "pieces": len(times),
        "gaps": gaps,
    }
    print(json.dumps(result), flush=True)


def make_model() -> ScriptedModel:
    """Return a model that streams the times at which it sends pieces, as fast as it may."""

    class ClockModel(ScriptedModel):
        """A model whose text consists of times."""

        @asynccontextmanager
        async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[Chunk]]:
            async with aclosing(self._write()) as chunks:
                yield chunks

        async def _write(self) -> AsyncGenerator[Chunk, None]:
            text = ""
            at = trio.current_time()
            for _ in range(PIECES):
                at += PACE
                await trio.sleep_until(at)
                piece = f"{time.time():.4f} "
                text += piece
                yield TextChunk(piece)
            yield Done(AssistantMessage((Text(text, "model"),), "scripted/model"))

    return ClockModel()


async def measure_turns(session: Session, turns: int) -> list[float]:
    """Return the processor time and the time on the clock of each turn, in seconds."""
    found = []
    for number in range(turns):
        began = time.perf_counter()
        await session.run(f"Turn {number}")
        found.append(time.perf_counter() - began)
    return found


async def watching(clients: int) -> None:
    """Print how much clients slow turns down, and how late they are."""
    from served import serving

    with tempfile.TemporaryDirectory() as folder:
        os.environ["HOME"] = folder
        project = Path(folder) / "project"
        project.mkdir()
        async with serving(project, model=make_model()) as served:
            served.running.streams._max_per_user = clients + 1
            hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
            await measure_turns(hosted.session, 1)
            before = time.process_time()
            alone = await measure_turns(hosted.session, TURNS)
            own = (time.process_time() - before) / sum(alone)
            command = [
                sys.executable,
                __file__,
                "follow",
                served.address,
                served.token,
                hosted.id,
                str(clients),
                str(TURNS * (PIECES * PACE + 0.3) + clients * 0.02),
            ]
            process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE)
            assert process.stdout is not None
            output = b""
            while b"ready" not in output:
                output += await process.stdout.receive_some()
            busy = time.process_time()
            watched = await measure_turns(hosted.session, TURNS)
            share = (time.process_time() - busy) / sum(watched)
            while data := await process.stdout.receive_some():
                output += data
            await process.wait()
    result = json.loads(output.split(b"ready")[1])
    slower = statistics.median(watched) / statistics.median(alone) - 1
    print(f"{clients} clients on one run: turns {slower:+.1%}, {result}")
    print(f"processor time per second of a turn: {own:.0%} alone, {share:.0%} with clients")


async def sessions(count: int, running: int) -> None:
    """Print whether events are lost with many sessions, and how much memory they need."""
    from served import serving

    words = " ".join(f"word{number}" for number in range(200))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HOME"] = folder
        project = Path(folder) / "project"
        project.mkdir()
        model = ScriptedModel([say(words)] * running * 5, pace=0.005)
        async with serving(project, model=model, plugins=None) as served:
            began = time.perf_counter()
            hosted = []
            for _ in range(count):
                hosted.append(await served.hub.create(served.hub.workspaces[0], served.owner))
            opened = time.perf_counter() - began
            lost = 0

            async def run_and_check(one: HostedSession) -> None:
                nonlocal lost
                async with served.socket(one.id) as socket:
                    for number in range(5):
                        await one.session.run(f"Go {number}")
                    seen: list[int] = []
                    while not seen or seen[-1] < one.last:
                        for element in await socket.receive() or []:
                            if "seq" in element and element["type"] != "delta":
                                seen.append(element["seq"])
                    lost += len(set(range(1, seen[-1] + 1)) ^ set(seen))

            async with trio.open_nursery() as nursery:
                for one in hosted[:running]:
                    nursery.start_soon(run_and_check, one)
            status = await trio.Path("/proc/self/status").read_text()
            memory = int(status.partition("VmRSS:")[2].split()[0]) // 1024
    print(
        f"{count} sessions, {running} running: {lost} lost events, {memory} MB,"
        f" {opened / count * 1000:.0f} ms to open one"
    )


def main() -> None:
    """Run a measurement in a process of its own, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", default="all")
    parser.add_argument("arguments", nargs="*")
    given = parser.parse_args()
    if given.what == "follow":
        address, token, session, count, seconds = given.arguments
        trio.run(follow_many, address, token, session, int(count), float(seconds))
    elif given.what == "watching":
        trio.run(watching, int((given.arguments or ["200"])[0]))
    elif given.what == "sessions":
        trio.run(sessions, 100, 20)
    else:
        for what in ("watching", "sessions"):
            subprocess.run([sys.executable, __file__, what], check=True)


if __name__ == "__main__":
    main()
