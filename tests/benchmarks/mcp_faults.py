"""MCP servers that misbehave, in seeded sessions of five: is the session fine, how long does closing take, what is left?

    python tests/benchmarks/mcp_faults.py [--runs 200] [--kills 10] [--seed 1]

Each run opens a session with five servers whose behaviour the seed picks, calls their tools at the same time, has the model
finish a turn, and closes. ``ordinary`` runs have servers that go by themselves when their input ends, ``stubborn`` ones have
at least one that does not. A kill is a SIGKILL of hilum in the middle of its calls. Exits with 1 where a bar is missed.
"""

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import hilum_mcp
import trio
from hilum.testing import Bench, open_bench, say
from hilum_mcp import Mcp

SERVER = Path(__file__).parents[1] / "plugins" / "mcp_client" / "plain_server.py"
GOING = ["", "new", "noise", "crash-at-start", "crash-at-end", "mute", "tools=60", "slow-list=0.2"]
STAYING = ["stubborn", "hang-at-start", "deaf"]
CALLS = ["echo", "crash", "grow", "flood", "huge", "fail", "refuse", "slow", "hang", "children", "image"]
STUBBORN_BAR, ORDINARY_BAR = 3.0, 0.3


def describe(folder: Path, chance: random.Random, staying: bool) -> dict[str, object]:
    """Pick five servers."""
    words = [chance.choice(GOING) for _ in range(5)]
    if staying:
        words[chance.randrange(5)] = chance.choice(STAYING)
    return {
        f"s{number}": {
            "command": sys.executable,
            "args": ["-S", str(SERVER), *filter(None, [word]), f"count={folder}/count", f"run={folder.name}"],
        }
        for number, word in enumerate(words)
    }


async def work(kit: Bench, folder: Path, chance: random.Random) -> None:
    """Call tools of all servers at once, some of which are cancelled; what comes of it is the servers' business."""
    half = kit.session.half(Mcp)
    assert half is not None

    async def one(name: str, tool: str, patience: float) -> None:
        with trio.move_on_after(patience):
            try:
                await half.clients[name].connection.use(
                    lambda client: client.call_tool(tool, {"path": str(folder / "end"), "call": "1"})
                )
            except Exception:
                pass

    async with trio.open_nursery() as nursery:
        for name in half.clients:
            for _ in range(2):
                nursery.start_soon(one, name, chance.choice(CALLS), chance.uniform(0.2, 0.8))


def left(folder: Path) -> list[int]:
    """Processes of a run that are still there: the servers by their arguments, their children by what they do."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if f"run={folder.name}".encode() in words:
                found.append(int(entry.name))
    return found


async def run(seed: int, staying: bool) -> float:
    """One session; gives the seconds that closing took."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix=f"mcp-faults-{seed}-") as name:
        folder = Path(name)
        (folder / "config").mkdir()
        described = describe(folder, chance, staying)
        (folder / "config" / "mcp.json").write_text(json.dumps({"mcpServers": described}))
        async with open_bench(
            hilum_mcp, folder=folder, answers=[say("fine")], settings={"mcp.start_seconds": 5.0}
        ) as kit:
            await work(kit, folder, chance)
            ended = await kit.run("Are you there?")
            assert ended.text == "fine", ended
            began = time.perf_counter()
        took = time.perf_counter() - began
        assert not left(folder), f"seed {seed} left {left(folder)}"
        return took


KILLED = """
import sys, trio, hilum_mcp
from hilum import open_kernel
async def main():
    async with open_kernel([hilum_mcp]) as kernel, kernel.open_session(sys.argv[1]) as session:
        clients = session.half(hilum_mcp.Mcp).clients.values()
        async with trio.open_nursery() as nursery:
            async def call(client):
                try:
                    await client.connection.use(lambda c: c.call_tool("children", {}))
                    await client.connection.use(lambda c: c.call_tool("hang", {"path": sys.argv[1] + "/end"}))
                except Exception:
                    pass
            for client in clients:
                nursery.start_soon(call, client)
            while all(client.connection.state != "up" for client in clients):
                await trio.sleep(0.1)
            await trio.sleep(0.5)
            print("now", flush=True)
            await trio.sleep_forever()
trio.run(main)
"""


def kill(seed: int) -> float:
    """Kill hilum; gives the seconds until nothing is left."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix=f"mcp-kill-{seed}-") as name:
        folder = Path(name)
        (folder / "config").mkdir()
        (folder / "config" / "mcp.json").write_text(json.dumps({"mcpServers": describe(folder, chance, True)}))
        env = {**os.environ, "HILUM_CONFIG": f"{folder}/config", "HILUM_DATA": f"{folder}/data"}
        child = subprocess.Popen([sys.executable, "-c", KILLED, name], stdout=subprocess.PIPE, env=env)
        assert child.stdout is not None
        child.stdout.readline()
        there = left(folder)
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        began = time.perf_counter()
        while (still := left(folder)) and time.perf_counter() - began < 5:
            time.sleep(0.01)
        assert there, "nothing was running"
        assert not still, f"a kill (seed {seed}) left {still}"
        return time.perf_counter() - began


def told(name: str, times: list[float], bar: float) -> bool:
    """Print a row; gives whether it is within its bar."""
    times = sorted(times)
    p99 = times[min(int(len(times) * 0.99), len(times) - 1)]
    print(
        f"{name:9} {len(times):4} runs   close: median {statistics.median(times):.3f} s, p99 {p99:.3f} s (bar {bar:g} s)"
    )
    return p99 < bar


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    times: dict[bool, list[float]] = {False: [], True: []}
    for number in range(options.runs):
        staying = number % 2 == 1
        times[staying].append(trio.run(run, options.seed + number, staying))
    good = told("ordinary", times[False], ORDINARY_BAR) & told("stubborn", times[True], STUBBORN_BAR)
    gone = [kill(options.seed + number) for number in range(options.kills)]
    if gone:
        print(f"{'SIGKILL':9} {len(gone):4} runs   nothing left after {max(gone):.3f} s at most")
    print("sessions fine, processes left: 0")
    sys.exit(not good)


if __name__ == "__main__":
    main()
