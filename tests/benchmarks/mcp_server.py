"""Compare a call of a tool by an MCP client with the same call in a run of the same session.

``python tests/benchmarks/mcp_server.py`` opens a session with the standard plugins. A scripted
model and clients of the SDK in both protocol versions take turns to call ``read_file``. Everything
is in one process, so no transport is measured.
"""

import statistics
import time

import trio
from hilum import ToolFilter
from hilum.testing import ScriptedModel, open_bench, say, use
from hilum_mcp.serving.protocol import Protocol
from hilum_mcp.serving.request_runner import RequestRunner
from mcp import Client

PLUGINS = [
    "files",
    "search",
    "shell",
    "guard",
    "rules",
    "skills",
    "agents",
    "scheduler",
    "memory",
    "context",
    "prompt",
    "lint",
    "store",
]
ROUNDS = 100


async def main() -> None:
    """Print the median of each kind in milliseconds, and its ratio to the run."""
    found: dict[str, list[float]] = {}
    async with (
        open_bench(*PLUGINS, files={"a.txt": "one\n"}) as bench,
        trio.open_nursery() as nursery,
    ):
        runner = RequestRunner(bench.session, ToolFilter(), nursery)
        nursery.start_soon(runner.follow_events)
        server = Protocol(runner, [], sessions=False).make_server()
        async with Client(server, mode="legacy") as old, Client(server, mode="auto") as new:

            async def in_a_run() -> None:
                assert isinstance(bench.model, ScriptedModel)
                bench.model.next(use("read_file", path="a.txt"), say("Done."))
                await bench.run("Read it.")

            kinds = {
                "a run of two turns": in_a_run,
                "a client, 2025-11-25": lambda: old.call_tool("read_file", {"path": "a.txt"}),
                "a client, 2026-07-28": lambda: new.call_tool("read_file", {"path": "a.txt"}),
            }
            for number in range(ROUNDS + 5):
                for kind, action in kinds.items():
                    began = time.perf_counter()
                    await action()
                    if number >= 5:
                        found.setdefault(kind, []).append(time.perf_counter() - began)
        nursery.cancel_scope.cancel()
    base = statistics.median(found["a run of two turns"])
    for kind, seconds in found.items():
        middle = statistics.median(seconds)
        print(f"{kind:24}{1e3 * middle:8.1f} ms{middle / base:8.2f} x")


if __name__ == "__main__":
    trio.run(main)
