"""MCP servers that misbehave, in seeded sessions of five servers.

Is the session fine, how long does closing take, what is left?

    python tests/benchmarks/mcp_faults.py [--runs 200] [--kills 9] [--seed 1] [--at-once 3]

Each run opens a session with five servers whose behaviour the seed picks, calls their tools at the
same time, cancels some of the calls, has the model finish a turn, and closes. ``ordinary`` runs
have servers that go by themselves when their input ends; they run one after another. ``stubborn``
ones have at least one that does not go, and mostly wait: ``--at-once`` of them run at the same
time, in a process each. A kill is a SIGKILL of hilum in the middle of its calls: without a sandbox,
with bubblewrap, with Landlock, by turns. What a run has started carries a mark in its environment,
and is looked for by it in the whole system. Exits with 1 where a bar is missed.
"""

import argparse
import concurrent.futures
import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import hilum
import hilum_mcp
import trio
from hilum.testing import Bench, open_bench, say
from hilum_mcp import SessionServers

SERVER = Path(__file__).parents[1] / "plugins" / "mcp_client" / "plain_server.py"
GOING = [
    "", "new", "noise", "crash-at-start", "crash-at-end", "mute", "tools=60", "slow-list=0.2", "fork-away", "slow-start=0.3",
]  # fmt: skip
STAYING = ["stubborn", "hang-at-start", "deaf"]
CALLS = [
    "echo", "crash", "grow", "flood", "huge", "fail", "refuse", "slow", "hang", "children", "image", "daemon", "complain",
    "babble",
]  # fmt: skip
DEAF = ["deafen", "ping"]
"""Calls after which a server does not hear that its input has ended."""
STUBBORN_BAR, ORDINARY_BAR = 3.0, 0.3


def describe(folder: Path, chance: random.Random, staying: bool) -> dict[str, dict[str, object]]:
    """Choose the configurations of five servers."""
    words = [chance.choice(GOING) for _ in range(5)]
    if staying:
        words[chance.randrange(5)] = chance.choice(STAYING)
    return {
        f"s{number}": {
            "command": sys.executable,
            "args": ["-S", str(SERVER), *filter(None, [word])],
            "env": {"MARK": folder.name},
        }
        for number, word in enumerate(words)
    }


async def work(kit: Bench, folder: Path, chance: random.Random, calls: list[str]) -> None:
    """Call tools of all servers at the same time and cancel some of the calls.

    The results do not matter.
    """
    half = kit.session.plugin(SessionServers)
    assert half is not None

    async def one(name: str, tool: str, patience: float) -> None:
        with trio.move_on_after(patience):
            try:
                await half.clients[name].connection.run_job(
                    lambda client: client.call_tool(
                        tool, {"path": str(folder / "end"), "call": "1"}
                    )
                )
            except hilum.HilumError:
                pass

    async with trio.open_nursery() as nursery:
        for name in half.clients:
            for _ in range(2):
                nursery.start_soon(one, name, chance.choice(calls), chance.uniform(0.2, 0.8))


def left(folder: Path) -> list[int]:
    """Return the processes of a run that still exist, in any namespace and with any parent."""
    found, mark = [], f"MARK={folder.name}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                marked = mark in (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            found += [int(entry.name)] if marked else []
    return found


async def run(seed: int, staying: bool) -> float:
    """Run one session and return the seconds that closing took."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix=f"mcp-faults-{seed}-") as name:
        folder = Path(name)
        (folder / "config").mkdir()
        described = describe(folder, chance, staying)
        (folder / "config" / "mcp.json").write_text(json.dumps({"mcpServers": described}))
        async with open_bench(
            hilum_mcp, folder=folder, answers=[say("fine")], settings={"mcp.start_seconds": 5.0}
        ) as kit:
            await work(kit, folder, chance, [*CALLS, *DEAF] if staying else CALLS)
            ended = await kit.run("Are you there?")
            assert ended.text == "fine", ended
            began = time.perf_counter()
        took = time.perf_counter() - began
        assert not left(folder), f"seed {seed} left {left(folder)}"
        return took


KILLED = """
import sys, trio, hilum, hilum_guard, hilum_mcp
from hilum import open_kernel
from hilum_guard import Guard
from hilum_guard.sandbox import bubblewrap
folder, by = sys.argv[1:]
if by != "bubblewrap":
    bubblewrap.find_bubblewrap = lambda: ""
async def main():
    settings = {"guard.sandbox": "auto" if by else "off"}
    async with open_kernel([hilum_mcp, hilum_guard], settings=settings) as kernel, kernel.open_session(folder) as session:
        found = await session.plugin(Guard).sandbox.enforced()
        if found.by != by:
            print("missing", flush=True)
            return
        clients = session.plugin(hilum_mcp.SessionServers).clients.values()
        async with trio.open_nursery() as nursery:
            async def call(client):
                try:
                    await client.connection.run_job(lambda c: c.call_tool("daemon", {}))
                    await client.connection.run_job(lambda c: c.call_tool("children", {}))
                    await client.connection.run_job(lambda c: c.call_tool("hang", {"path": folder + "/end"}))
                except hilum.HilumError:
                    pass
            for client in clients:
                nursery.start_soon(call, client)
            while all(client.state != "up" for client in clients):
                await trio.sleep(0.1)
            await trio.sleep(0.5)
            print("now", flush=True)
            await trio.sleep_forever()
trio.run(main)
"""


def kill(seed: int, by: str) -> float | None:
    """Kill hilum.

    Gives the seconds until nothing is left, ``None`` where the system has no such sandbox.

    Args:
        seed: Picks the servers.
        by: What the servers are sandboxed by; empty for nothing.
    """
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix=f"mcp-kill-{seed}-") as name:
        folder = Path(name)
        (folder / "config").mkdir()
        (folder / "proj").mkdir()
        described = describe(folder, chance, True)
        described["s0"]["args"] = ["-S", str(SERVER)]  # one at least is up
        (folder / "config" / "mcp.json").write_text(json.dumps({"mcpServers": described}))
        env = {**os.environ, "HILUM_CONFIG": f"{folder}/config", "HILUM_DATA": f"{folder}/data"}
        argv = [sys.executable, "-c", KILLED, f"{folder}/proj", by]
        child = subprocess.Popen(argv, stdout=subprocess.PIPE, env=env, text=True)
        assert child.stdout is not None
        said = child.stdout.readline()
        there = left(folder)
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        if said != "now\n":
            return None
        began = time.perf_counter()
        while (still := left(folder)) and time.perf_counter() - began < 5:
            time.sleep(0.01)
        assert there, "nothing was running"
        assert not still, f"a kill (seed {seed}) left {still}"
        return time.perf_counter() - began


def report(name: str, times: list[float], bar: float) -> bool:
    """Print a row and return whether it is within its limit."""
    times = sorted(times)
    p99 = times[math.ceil(len(times) * 0.99) - 1]
    middle = statistics.median(times)
    print(
        f"{name:9} {len(times):4} runs   close: median {middle:.3f}, p99 {p99:.3f} (bar {bar:g}), most {times[-1]:.3f} s"
    )
    return p99 < bar


def one(seed: int) -> float:
    """Run a stubborn session in a process of a pool."""
    return trio.run(run, seed, True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--runs", type=int, default=200, help="half of them ordinary, half stubborn (200)"
    )
    parser.add_argument("--kills", type=int, default=9)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=3, help="stubborn runs at the same time (3)")
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.runs)
    ordinary = [trio.run(run, seed, False) for seed in seeds[::2]]
    good = report("ordinary", ordinary, ORDINARY_BAR)
    with concurrent.futures.ProcessPoolExecutor(options.at_once) as pool:
        good &= report("stubborn", list(pool.map(one, seeds[1::2])), STUBBORN_BAR)
    for number, by in enumerate(("", "bubblewrap", "landlock")):
        gone = [kill(seed, by) for seed in seeds[number : options.kills : 3]]
        if took := [seconds for seconds in gone if seconds is not None]:
            kind = by or "no sandbox"
            print(
                f"SIGKILL   {len(took):4} runs   {kind}: nothing left after {max(took):.3f} s at most"
            )
    print("sessions fine, processes left: 0")
    sys.exit(not good)


if __name__ == "__main__":
    main()
