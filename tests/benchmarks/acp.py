"""How much later an editor sees the first words of an answer than an embedded program does.

``python tests/benchmarks/acp.py`` prints the milliseconds from a prompt to the first piece of the
answer: in a session of the same process, and over the Agent Client Protocol from a process of
``hilum acp``. Both have the same plugins and the same model server, and their prompts alternate. The
bar is a difference below 40 ms. It applies to the lower quartiles: on a busy machine, the medians
mostly show how long a process waits for a processor, which a session in the same process does not.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
from hilum import Session, open_standard_session
from hilum.events import Delta, ModelAnswered
from hilum_replay import serve

BAR_MS = 40.0
WARM_UP = 3


class Editor:
    """A client without checks, which costs as little time as possible."""

    def __init__(self, process: trio.Process) -> None:
        self._process = process
        self._buffer = b""
        self._number = 0

    async def send(self, method: str, params: Mapping[str, Any]) -> int:
        """Send a request, and return its number."""
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        assert self._process.stdin is not None
        await self._process.stdin.send_all(json.dumps(message).encode() + b"\n")
        return self._number

    async def receive(self) -> dict[str, Any]:
        """Return the next message."""
        assert self._process.stdout is not None
        while b"\n" not in self._buffer:
            data = await self._process.stdout.receive_some(65536)
            assert data, "hilum acp has ended"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    async def request(self, method: str, params: Mapping[str, Any]) -> Any:
        """Send a request, and return its result."""
        number = await self.send(method, params)
        while (message := await self.receive()).get("id") != number:
            pass
        return message["result"]

    async def time_prompt(self, session: str) -> float:
        """Return the milliseconds from a prompt to the first piece of its answer."""
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "Say hello."}]}
        begun = time.perf_counter()
        number = await self.send("session/prompt", prompt)
        first = 0.0
        while (message := await self.receive()).get("id") != number:
            update = message.get("params", {}).get("update", {})
            if update.get("sessionUpdate") == "agent_message_chunk" and not first:
                first = time.perf_counter() - begun
        assert message["result"]["stopReason"] == "end_turn", message
        return first * 1000


async def time_embedded(session: Session) -> float:
    """Return the milliseconds from a prompt to the first piece of its answer."""
    begun = time.perf_counter()
    run = await session.prompt("Say hello.")
    first = 0.0
    async for item in run.events(deltas=True):
        # A late reader gets the whole answer and no pieces.
        is_text = isinstance(item, ModelAnswered) or (
            isinstance(item, Delta) and item.kind == "text"
        )
        if is_text and not first:
            first = time.perf_counter() - begun
    return first * 1000


@asynccontextmanager
async def open_editor(folder: Path, env: Mapping[str, str]) -> AsyncIterator[tuple[Editor, str]]:
    """Start ``hilum acp`` and open a session."""
    command = [sys.executable, "-m", "hilum", "acp"]
    process = await trio.lowlevel.open_process(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(env), cwd=folder
    )
    async with process.stdin, process.stdout:
        editor = Editor(process)
        await editor.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        opened = await editor.request("session/new", {"cwd": str(folder), "mcpServers": []})
        yield editor, opened["sessionId"]
        await process.stdin.aclose()
        await process.wait()


async def main(times: int) -> bool:
    """Print a table, and return whether the bar is met."""
    embedded: list[float] = []
    over_protocol: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "work"
        folder.mkdir()
        kept = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
        # A model that answers in pieces, so that the first one is not the whole answer.
        async with serve(lambda request: "hello " * 20, pace=200.0) as server:
            env = {
                **kept,
                "HOME": name,
                "HILUM_CONFIG": f"{name}/config",
                "HILUM_DATA": f"{name}/data",
                "OPENAI_BASE_URL": f"{server.url}/v1",
                "HILUM_MODEL": "openai/scripted",
            }
            async with (
                open_editor(folder, env) as (editor, identity),
                open_standard_session(folder, environ=env) as session,
            ):
                for number in range(times + WARM_UP):
                    here = await time_embedded(session)
                    there = await editor.time_prompt(identity)
                    if number >= WARM_UP:
                        embedded.append(here)
                        over_protocol.append(there)
    low_here, middle_here, _ = statistics.quantiles(embedded, n=4)
    low_there, middle_there, _ = statistics.quantiles(over_protocol, n=4)
    print("                    lower quartile     median")
    print(f"embedded session   {low_here:12.1f} ms {middle_here:8.1f} ms")
    print(f"hilum acp          {low_there:12.1f} ms {middle_there:8.1f} ms")
    difference = low_there - low_here
    print(f"{low_there / low_here:.2f} times, {difference:+.1f} ms (bar: {BAR_MS:g} ms)")
    return difference < BAR_MS


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=60)
    sys.exit(0 if trio.run(main, parser.parse_args().times) else 1)
