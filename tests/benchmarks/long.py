"""What a turn costs late in a long session: ``python tests/benchmarks/long.py``.

A session of 1,000 turns over HTTP, with all plugins and the SQLite store, against a server that
answers at once: in a window that holds it all, and in one that has it compacted many times. Compared
is the lower quartile of the processor time of 40 turns, which a busy machine does not change much;
nothing but hilum's own process is counted.
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

TURNS = 1_100  # a summary takes an answer away


def memory() -> int:
    """Resident memory in KB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


async def session(folder: str, window: int, size: int) -> None:
    """Run the turns; print time of each and memory."""
    import gc

    import hilum
    from hilum import hookimpl, tool
    from hilum.discovery import entry_points
    from hilum.events import Compacted, ModelStarted, RunEnded

    @tool(risk="read", effect="pure")
    async def noop() -> str:
        """Do nothing."""
        return ("some text of a file, as one reads it\n" * (size // 37 + 1))[:size]

    class Plugin:
        @hookimpl
        def provide_tools(self):
            return [noop]

    settings = {
        "model": "openai/m",
        "approve": "auto",
        "turns": TURNS * 2,
        "models.models": {"openai/m": {"window": window}},
    }
    turns, memories, compactions = [], [], []
    names = list(entry_points("hilum"))
    async with (
        hilum.open_kernel([*names, Plugin()], settings=settings) as kernel,
        kernel.open_session(folder) as session,
    ):
        began = 0.0
        run = await session.prompt("Work.")
        async for event in session.events():
            if isinstance(event, ModelStarted):
                now = time.process_time()
                if began:
                    turns.append(now - began)
                if len(turns) % 50 == 0:
                    gc.collect()
                memories.append(memory())
                began = time.process_time()
            elif isinstance(event, Compacted):
                compactions.append(len(turns))
            elif isinstance(event, RunEnded):
                break
        result = await run.wait()
        assert result.state == "completed", result
    print(json.dumps({"turns": turns, "memory": memories, "compactions": compactions}))


def measure(window: int, size: int) -> dict[str, list[float]]:
    """Run a session in a fresh process against a fresh server."""
    with (
        model_server.start(TURNS, "noop", "{}", counted=0) as url,
        tempfile.TemporaryDirectory() as folder,
    ):
        own, work = f"{folder}/own", f"{folder}/work"
        os.mkdir(work)
        environ = {
            "OPENAI_BASE_URL": url,
            "OPENAI_API_KEY": "none",
            "HILUM_DATA": own,
            "HILUM_CONFIG": own,
        }
        argv = [sys.executable, __file__, "--child", work, str(window), str(size)]
        done = subprocess.run(
            argv, stdout=subprocess.PIPE, text=True, check=True, env=os.environ | environ
        )
        return json.loads(done.stdout)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child", nargs=3)
    options = parser.parse_args()
    if options.child:
        import trio

        trio.run(session, options.child[0], *map(int, options.child[1:]))
        return
    print("window       results of   turn 20   turn 1,000   ratio   compactions   KB a turn   bar")
    for window, size in ((1_000_000, 200), (200_000, 2_048), (60_000, 2_048), (10_000_000, 2_048)):
        found = measure(window, size)
        turns, memories = found["turns"], found["memory"]
        early, late = (
            statistics.quantiles(turns[a:b])[0] * 1e3 for a, b in ((10, 50), (970, 1_010))
        )
        grown = (memories[1_000] - memories[100]) / 900
        row = f"{window:10,} {size:8} B {early:8.2f} ms {late:8.2f} ms {late / early:7.2f} x"
        row += f" {len(found['compactions']):6} {grown:10.1f}"
        # The last one carries 2.4 MB in each request at the end, which is copied and sent: no bar
        # for that.
        print(f"{row}   {'1.3 x, 20 KB' if window < 10_000_000 else '–, 20 KB'}", flush=True)


if __name__ == "__main__":
    main()
