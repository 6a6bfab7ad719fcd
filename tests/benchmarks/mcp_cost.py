"""What MCP servers cost a session that does not use them.

It is measured until the answer to the first prompt, and in what is sent.

    python tests/benchmarks/mcp_cost.py [--rounds 40] [--processes 20]

Compares sessions by turns: with another plugin that does nothing; with this one and no server; with
five servers whose tools are known; with five that are not known yet (they start beside the prompt).
First many sessions in one process, in processor time; then the first session of a process each,
where modules are imported too; ``fresh`` is ``known`` without what ``quick`` keeps, so that
descriptions are read. ``new`` is measured by the clock, as it is about not having to wait. Says
whether the SDK was imported where it must not be. Exits with 1 where a bar is missed.
"""

import argparse
import gc
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import hilum_mcp
import trio
from hilum import hookimpl
from hilum.testing import Bench, open_bench, plugin, say
from hilum_mcp import paths

SERVER = Path(__file__).parents[1] / "plugins" / "mcp_client" / "plain_server.py"
KINDS = ("without", "none", "known", "new")
BARS = {"none": 1.0, "known": 5.0, "new": 50.0}
"""Milliseconds more than without the plugin.

With no server: its two tables of settings, and noise.
"""
COLD = ("without", "none", "known", "fresh", "new")


def write(folder: Path, servers: int) -> None:
    """Write the configuration of some servers."""
    (folder / "config").mkdir(parents=True, exist_ok=True)
    args = ["-S", str(SERVER)]
    described = {
        f"s{number}": {"command": sys.executable, "args": [*args, f"n={number}"]}
        for number in range(servers)
    }
    if servers:
        (folder / "config" / "mcp.json").write_text(json.dumps({"mcpServers": described}))


@hookimpl
async def open_session() -> AsyncIterator[None]:
    """Measure the cost of any plugin with an instance."""
    yield None


OTHER = plugin("other", open_session=open_session)


async def first_prompt(
    folder: Path, with_plugin: bool, clock: Callable[[], float]
) -> tuple[float, int]:
    """Open a session and run a prompt.

    Returns the milliseconds until the answer, and the bytes of the first request.
    """
    began = clock()
    async with open_bench(
        hilum_mcp if with_plugin else OTHER, folder=folder, answers=[say("x")]
    ) as kit:
        await kit.run("hello")
        return (clock() - began) * 1000, len(kit.requests[0].body)


async def learn(folder: Path) -> None:
    """Start the servers of a folder once, so that their offers are cached."""
    async with open_bench(hilum_mcp, folder=folder) as kit:
        while not _known(kit):  # noqa: ASYNC110 - nobody tells of it
            await trio.sleep(0.05)


def _known(kit: Bench) -> bool:
    half = kit.session.plugin(hilum_mcp.SessionServers)
    assert half is not None
    return all(client.offer is not None for client in half.clients.values())


def child(*words: str) -> str:
    """Run this file in a new process and return its output."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    made = subprocess.run(
        [sys.executable, __file__, *words], check=True, capture_output=True, text=True, env=env
    )
    return made.stdout


def run_in_process(kind: str, folder: str) -> None:
    """Print the cost of the first session of a process, without imports that every session makes."""
    if kind == "learn":
        trio.run(learn, Path(folder))
        return
    gc.set_threshold(100_000, 20, 20)  # as for `hilum run`
    trio.run(first_prompt, Path(folder).parent / "warm", False, time.perf_counter)
    clock = time.perf_counter if kind in ("new", "clock") else time.process_time
    print(
        *trio.run(first_prompt, Path(folder), kind not in ("without", "clock"), clock),
        "mcp" in sys.modules,
    )


def forget(base: Path) -> None:
    """Remove the caches of the folders ``new`` and ``fresh``."""
    for offer in (base / "new" / "data" / "mcp" / "offers").glob("*"):
        offer.unlink()
    shutil.rmtree(base / "fresh" / "data" / "mcp" / "sessions", ignore_errors=True)


def report(
    name: str, times: list[float], ground: list[float], bar: float | None, more: str = ""
) -> bool:
    """Print a row and return whether it is within its limit."""
    cost = statistics.median(times) - statistics.median(ground)
    print(f"  {name:8} {cost:+7.2f} ms{f' (bar {bar:g})' if bar else ''}{more}")
    return bar is None or cost < bar


def spread(times: list[float], ground: list[float]) -> str:
    """Return the quartiles of the difference between the two kinds of sessions."""
    low, middle, high = statistics.quantiles(
        (a - b for a, b in zip(times, ground, strict=True)), n=4
    )
    return f"; by turns {middle:+.1f}, half of them {low:+.1f} to {high:+.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--processes", type=int, default=20)
    options = parser.parse_args()
    warm: dict[str, list[float]] = {name: [] for name in KINDS}
    cold: dict[str, list[float]] = {name: [] for name in COLD}
    ground: list[float] = []
    sizes: dict[str, int] = {}
    imported = False
    with tempfile.TemporaryDirectory() as base:
        for name in COLD:
            write(Path(base, name), 5 if name in ("known", "fresh", "new") else 0)
        child("learn", str(Path(base, "known")))
        child("learn", str(Path(base, "fresh")))
        time.sleep(2.5)  # files must be settled for what is known of them to be kept
        child("known", str(Path(base, "known")))
        for turn in range(options.rounds + 1):
            for name in KINDS[:3]:
                took, sizes[name] = trio.run(
                    first_prompt, Path(base, name), name != "without", time.process_time
                )
                warm[name] += [took] if turn else []
        imported |= "mcp" in sys.modules
        for _ in range(options.processes):
            for name in COLD:
                forget(Path(base))
                took, _, sdk = child(name, str(Path(base, name))).split()
                cold[name].append(float(took))
                imported |= name != "new" and sdk == "True"
            ground.append(float(child("clock", str(Path(base, "without"))).split()[0]))
    good = not imported and sizes["none"] == sizes["without"]
    print(
        f"a session, of {options.rounds}: {statistics.median(warm['without']):.1f} ms of processor time, and with"
    )
    for name in KINDS[1:3]:
        extra = f", {sizes[name] - sizes['without']:+} bytes sent"
        good &= report(name, warm[name], warm["without"], BARS[name], extra)
    print(
        f"the first session of a process, of {options.processes}: {statistics.median(cold['without']):.1f} ms, and with"
    )
    for name in COLD[1:4]:
        report(name, cold[name], cold["without"], None, spread(cold[name], cold["without"]))
    print(f"the same by the clock: {statistics.median(ground):.1f} ms, and with")
    last = statistics.quantiles(cold["new"], n=100, method="inclusive")[98] - statistics.median(
        ground
    )
    good &= report(
        "new",
        cold["new"],
        ground,
        BARS["new"],
        f"{spread(cold['new'], ground)}; 99th percentile {last:+.1f}",
    )
    began = time.process_time()
    for _ in range(1000):
        paths.has_config_file(base)
    print(f"what its hook does where no server is described: {time.process_time() - began:.3f} ms")
    print(f"the SDK imported though no server was used: {imported}")
    sys.exit(not good)


if __name__ == "__main__":
    if sys.argv[1:2] and not sys.argv[1].startswith("-"):
        run_in_process(*sys.argv[1:])
    else:
        main()
