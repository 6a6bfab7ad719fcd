"""The cost of a turn, and of a long conversation.

hilum, with all plugins and its durable store, is compared with a loop written by hand.

``python tests/benchmarks/turn.py`` prints a table. The hand-written loop is trio and httpx with no
store, no events and no cancellation of process trees. Both talk to the same server, which answers
at once, in alternating rounds.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import model_server

TURNS = 40


async def by_hand(url: str, kind: str, turns: list[float], size: int) -> None:
    """The loop as one would write it: encode all messages each time, read the stream, run the
    tool.
    """
    import httpx
    import trio

    tools = [
        {
            "type": "function",
            "function": {"name": kind, "parameters": {"type": "object", "properties": {}}},
        }
    ]
    messages: list[dict[str, object]] = [{"role": "user", "content": "Work."}]
    async with httpx.AsyncClient(verify=False) as client:
        while True:
            began = time.perf_counter()
            body = json.dumps({"model": "m", "stream": True, "tools": tools, "messages": messages})
            text, call, arguments = "", {}, ""
            async with client.stream("POST", f"{url}/chat/completions", content=body) as response:
                async for line in response.aiter_lines():
                    if not line.startswith("data: ") or line == "data: [DONE]":
                        continue
                    for choice in json.loads(line[6:])["choices"]:
                        delta = choice["delta"]
                        text += delta.get("content") or ""
                        for part in delta.get("tool_calls", ()):
                            call = {"id": part["id"], "name": part["function"]["name"]}
                            arguments += part["function"]["arguments"]
            if not call:
                return
            if kind == "run_terminal_cmd":
                done = await trio.run_process(
                    ["bash", "-c", json.loads(arguments)["command"]], capture_stdout=True
                )
                result = done.stdout.decode()
            else:
                result = "x" * size
            asked = {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": arguments},
            }
            messages.append({"role": "assistant", "content": text, "tool_calls": [asked]})
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
            turns.append(time.perf_counter() - began)


async def with_hilum(which: str, url: str, turns: list[float], size: int, folder: str) -> None:
    """The same through hilum: all plugins, the SQLite store, the OpenAI gateway."""
    import hilum
    from hilum import hookimpl, tool
    from hilum.events import ModelStarted

    @tool(risk="read", effect="pure")
    async def noop() -> str:
        """Do nothing."""
        return "x" * size

    class Plugin:
        @hookimpl
        def provide_tools(self):
            return [noop]

    settings = {"model": "openai/m", "approve": "auto", "turns": 1000}
    if (
        which == "open"
    ):  # all plugins, but no sandbox and no look at the tree, which a loop by hand has not either
        settings |= {"guard.sandbox": "off", "guard.unsandboxed": "run", "files.snapshots": False}
    names = list(__import__("hilum.discovery", fromlist=["x"]).entry_points("hilum"))
    async with (
        hilum.open_kernel([*names, Plugin()], settings=settings) as kernel,
        kernel.open_session(folder) as session,
    ):
        began = 0.0
        run = await session.prompt("Work.")
        async for event in session.events():
            if isinstance(event, ModelStarted):
                now = time.perf_counter()
                if began:
                    turns.append(now - began)
                began = now
            elif type(event).__name__ == "RunEnded":
                break
        result = await run.wait()
        assert result.state == "completed", result


def child(which: str, url: str, kind: str, size: int) -> None:
    """Run one side in this process and print its turn times and memory."""
    import resource

    import trio

    turns: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        own, work = f"{folder}/own", f"{folder}/work"
        os.environ |= {
            "OPENAI_BASE_URL": url,
            "OPENAI_API_KEY": "none",
            "HILUM_DATA": own,
            "HILUM_CONFIG": own,
        }
        os.mkdir(work)
        os.chdir(work)
        if which == "hand":
            trio.run(by_hand, url, kind, turns, size)
        else:
            trio.run(with_hilum, which, url, turns, size, work)
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"turns": turns, "rss": rss}))


def measure(which: str, calls: int, kind: str, arguments: str, size: int) -> dict[str, object]:
    """Run one side in a fresh process against a fresh server."""
    with model_server.start(calls, kind, arguments) as url:
        argv = [sys.executable, __file__, "--child", which, url, kind, str(size)]
        environ = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        return json.loads(
            subprocess.run(argv, capture_output=True, text=True, check=True, env=environ).stdout
        )


def compare(ours: str, kind: str, arguments: str, rounds: int) -> tuple[float, float]:
    """Median turn in milliseconds: by hand, with hilum."""
    times: dict[str, list[float]] = {"hand": [], ours: []}
    for _ in range(rounds):
        for which in times:
            found = measure(which, TURNS, kind, arguments, 20)["turns"]
            times[which].append(statistics.median(found[5:]))  # type: ignore[index]
    return statistics.median(times["hand"]) * 1000, statistics.median(times[ours]) * 1000


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child", nargs=4)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if options.child:
        which, url, kind, size = options.child
        child(which, url, kind, int(size))
        return
    print("turn, median in ms          by hand   hilum   ratio   bar")
    for label, which, kind, arguments, bar in (
        ("in-process tool", "hilum", "noop", "{}", "2 ms, 2.4 x"),
        ("bash -c tool", "open", "run_terminal_cmd", '{"command":"true"}', "5 ms, 2 x"),
        (
            "the same, sandbox, journal",
            "hilum",
            "run_terminal_cmd",
            '{"command":"true"}',
            "25 ms more",
        ),
    ):
        hand, ours = compare(which, kind, arguments, options.rounds)
        print(f"{label:26} {hand:8.2f} {ours:7.2f} {ours / hand:6.2f}x   {bar}")
    print("\n300 turns of 2 KB results   turn 20   turn 300   growth   RSS MB   bar")
    for which in ("hand", "hilum"):
        found = measure(which, 305, "noop", "{}", 2048)
        turns, rss = found["turns"], found["rss"]
        early = statistics.median(turns[10:30]) * 1000  # type: ignore[index]
        late = statistics.median(turns[285:303]) * 1000  # type: ignore[index]
        print(
            f"{which:26} {early:8.2f} {late:10.2f} {late - early:8.2f} {rss:8.0f}   + 0.8 ms, 70 MB"
        )


if __name__ == "__main__":
    main()
