"""How much later an editor sees the first words of an answer than an embedded program does.

``python tests/benchmarks/acp.py`` prints the milliseconds from a prompt to the first piece of the
answer: in a session of the same process, and over the Agent Client Protocol from a process of
``hilum acp``. Both have the same plugins and the same model server, and their prompts alternate. The
bar is a difference below 40 ms. It applies to the lower quartiles: on a busy machine, the medians
mostly show how long a process waits for a processor, which a session in the same process does not.

``python tests/benchmarks/acp.py --commands`` prints how long a command takes that prints 1 MB in
half a second, with and without a terminal of the editor that shows it. The bar is 25 ms more. It
applies to the fastest commands: on a busy machine, the editor and its viewer compete with the
command for the processors.
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
from functools import partial
from pathlib import Path
from typing import Any

import trio
from hilum import Session, open_standard_session
from hilum.events import Delta, ModelAnswered
from hilum.messages import AssistantMessage, ToolCall
from hilum_replay import serve

BAR_MS = 40.0
COMMAND_BAR_MS = 25.0
WARM_UP = 3
COMMAND = "for n in 1 2 3 4 5; do sleep 0.1; yes 0123456789012345678 | head -c 200000; done"


class Editor:
    """A client without checks, which costs as little time as possible."""

    def __init__(self, process: trio.Process) -> None:
        self.terminals = 0
        self._process = process
        self._buffer = b""
        self._number = 0

    async def send(self, method: str, params: Mapping[str, Any]) -> int:
        """Send a request, and return its number."""
        self._number += 1
        await self._write(
            {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        )
        return self._number

    async def _write(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        await self._process.stdin.send_all(json.dumps(message).encode() + b"\n")

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

    async def time_command(self, session: str, nursery: trio.Nursery) -> float:
        """Return the milliseconds from the start of a command to its end, as the editor sees it."""
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "Run it."}]}
        number = await self.send("session/prompt", prompt)
        begun = ended = 0.0
        while (message := await self.receive()).get("id") != number or "method" in message:
            if "id" in message:
                await self.answer(message, nursery)
            status = message.get("params", {}).get("update", {}).get("status")
            if status == "in_progress" and not begun:
                begun = time.perf_counter()
            elif status in ("completed", "failed"):
                ended = time.perf_counter()
        return (ended - begun) * 1000

    async def answer(self, message: Mapping[str, Any], nursery: trio.Nursery) -> None:
        """Answer a request about a terminal, and start the viewer in it."""
        result: dict[str, Any] = {}
        params = message["params"]
        if message["method"] == "terminal/create":
            self.terminals += 1
            result = {"terminalId": str(self.terminals)}
            variables = {each["name"]: each["value"] for each in params["env"]}
            start = partial(trio.run_process, stdout=subprocess.DEVNULL, env=variables, check=False)
            nursery.start_soon(start, [params["command"], *params["args"]])
        elif message["method"] == "terminal/wait_for_exit":
            # The viewer disconnects when it ends, which suffices.
            return
        await self._write({"jsonrpc": "2.0", "id": message["id"], "result": result})

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
async def open_editor(
    folder: Path, env: Mapping[str, str], *, has_terminals: bool = False
) -> AsyncIterator[tuple[Editor, str]]:
    """Start ``hilum acp`` and open a session."""
    command = [sys.executable, "-m", "hilum", "acp", "--approve", "auto"]
    process = await trio.lowlevel.open_process(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(env), cwd=folder
    )
    async with process.stdin, process.stdout:
        editor = Editor(process)
        abilities = {"terminal": has_terminals}
        await editor.request("initialize", {"protocolVersion": 1, "clientCapabilities": abilities})
        opened = await editor.request("session/new", {"cwd": str(folder), "mcpServers": []})
        yield editor, opened["sessionId"]
        await process.stdin.aclose()
        await process.wait()


def make_environment(name: str, url: str) -> dict[str, str]:
    """Return the environment of a session with its files in a folder and a model at an address."""
    kept = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
    return {
        **kept,
        "HOME": name,
        "HILUM_CONFIG": f"{name}/config",
        "HILUM_DATA": f"{name}/data",
        "OPENAI_BASE_URL": f"{url}/v1",
        "HILUM_MODEL": "openai/scripted",
    }


def run_command(request: Any) -> AssistantMessage | str:
    """Answer as a model that runs one command for each prompt."""
    since_prompt = request.body.rpartition(b"Run it.")[2]
    if b'"tool"' in since_prompt.replace(b" ", b""):
        return "Done."
    # A command that differs from the earlier ones, because repeated ones are refused.
    arguments = json.dumps({"command": f"{COMMAND} # {request.number}"})
    call = ToolCall("c1", "run_terminal_cmd", arguments)
    return AssistantMessage((call,), stop="calls")


async def compare_commands(times: int) -> bool:
    """Print how long a command takes with and without a terminal; return whether the bar is met."""
    shown: list[float] = []
    plain: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "work"
        folder.mkdir()
        async with serve(run_command) as server, trio.open_nursery() as nursery:
            env = make_environment(name, server.url)
            async with (
                open_editor(folder, env, has_terminals=True) as (with_terminals, first),
                open_editor(folder, env) as (without, second),
            ):
                for number in range(times + WARM_UP):
                    one = await with_terminals.time_command(first, nursery)
                    other = await without.time_command(second, nursery)
                    if number >= WARM_UP:
                        shown.append(one)
                        plain.append(other)
                assert with_terminals.terminals == times + WARM_UP, with_terminals.terminals
                assert without.terminals == 0
    print("                          fastest     median")
    print(f"with a terminal     {min(shown):10.1f} ms {statistics.median(shown):7.1f} ms")
    print(f"without a terminal  {min(plain):10.1f} ms {statistics.median(plain):7.1f} ms")
    difference = min(shown) - min(plain)
    print(f"{difference:+.1f} ms (bar: {COMMAND_BAR_MS:g} ms)")
    return difference < COMMAND_BAR_MS


async def main(times: int) -> bool:
    """Print a table, and return whether the bar is met."""
    embedded: list[float] = []
    over_protocol: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "work"
        folder.mkdir()
        # A model that answers in pieces, so that the first one is not the whole answer.
        async with serve(lambda request: "hello " * 20, pace=200.0) as server:
            env = make_environment(name, server.url)
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
    parser.add_argument("--commands", action="store_true")
    given = parser.parse_args()
    measure = compare_commands if given.commands else main
    sys.exit(0 if trio.run(measure, given.times) else 1)
