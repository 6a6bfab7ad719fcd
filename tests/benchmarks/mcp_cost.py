"""What MCP servers cost a session that does not use them: until the first request to the model, and in the prompt.

    python tests/benchmarks/mcp_cost.py [--rounds 30]

Compares sessions in one process, in turn: without the plugin, with it and no server, with five servers whose tools are known,
and with five that are not known yet (they start beside the prompt). Says what is in the prompt, and whether the SDK was
imported where it must not be. Exits with 1 where a bar is missed.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import hilum_mcp
import trio
from hilum.testing import open_bench, say
from hilum_mcp import Mcp

SERVER = Path(__file__).parents[1] / "plugins" / "mcp_client" / "plain_server.py"
NONE_BAR, KNOWN_BAR, NEW_BAR = 1.0, 5.0, 50.0


def write(folder: Path, servers: int) -> None:
    """Describe servers."""
    (folder / "config").mkdir(exist_ok=True)
    args = ["-S", str(SERVER)]
    described = {f"s{number}": {"command": sys.executable, "args": [*args, f"n={number}"]} for number in range(servers)}
    if servers:
        (folder / "config" / "mcp.json").write_text(json.dumps({"mcpServers": described}))


async def first_prompt(folder: Path, plugins: list[object], learn: bool = False) -> tuple[float, int]:
    """Open a session and run a prompt; gives milliseconds until the answer is there, and bytes of the first request."""
    began = time.perf_counter()
    async with open_bench(*plugins, folder=folder, answers=[say("x")]) as kit:
        await kit.run("hello")
        took = (time.perf_counter() - began) * 1000
        size = (
            len(b"".join(kit.requests[0].body)) if isinstance(kit.requests[0].body, list) else len(kit.requests[0].body)
        )
        if learn:
            half = kit.session.half(Mcp)
            assert half is not None
            with trio.fail_after(60):
                for client in half.clients.values():
                    await client.connection.settled()
                    await client.connection.use(lambda found: found.list_tools())
                    await trio.sleep(0.5)
        return took, size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    times: dict[str, list[float]] = {"without": [], "none": [], "known": [], "new": []}
    sizes: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as base:
        for name in times:
            Path(base, name).mkdir()
            write(Path(base, name), 5 if name in ("known", "new") else 0)
        learner = Path(base, "known")
        import subprocess

        code = "import sys; sys.path.insert(0, sys.argv[2]); import mcp_cost; mcp_cost.learn()"
        subprocess.run([sys.executable, "-c", code, str(learner), str(Path(__file__).parent)], check=True)
        for turn in range(rounds + 1):
            for name in ("without", "none", "known"):
                plugins = [] if name == "without" else [hilum_mcp]
                took, sizes[name] = trio.run(first_prompt, Path(base, name), plugins)
                if turn:
                    times[name].append(took)
        imported = "mcp" in sys.modules
        import mcp  # noqa: F401 - what is measured next is the start of servers, not the import

        for turn in range(max(rounds // 6, 3) + 1):
            folder = Path(base, "new")
            for offer in (folder / "data" / "mcp" / "offers").glob("*"):
                offer.unlink()
            took, sizes["new"] = trio.run(first_prompt, folder, [hilum_mcp])
            if turn:
                times["new"].append(took)
    ground = statistics.median(times["without"])
    print(f"without the plugin   {ground:6.1f} ms until the first answer, {sizes['without']} bytes")
    good = not imported
    for name, bar in (("none", NONE_BAR), ("known", KNOWN_BAR), ("new", NEW_BAR)):
        more = statistics.median(times[name]) - ground
        print(f"{name:20} {more:+6.1f} ms (bar {bar:g}), {sizes[name] - sizes['without']:+} bytes")
        good &= more < bar
    good &= sizes["none"] == sizes["without"]
    print(f"the SDK imported though no server was used: {imported}")
    sys.exit(not good)


def learn() -> None:
    """Have the servers of a folder started once, in a process of its own, so that this one need not import the SDK."""
    trio.run(first_prompt, Path(sys.argv[1]), [hilum_mcp], True)


if __name__ == "__main__":
    main()
