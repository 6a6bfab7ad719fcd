"""Races: eight agents that change one file 1,000 times.

They run in one session, and in processes of their own.

``python tests/benchmarks/races.py`` prints how often an agent was refused because another was
faster, and checks that no update was lost and no read was torn: each agent counts its own line and
a common one, and reads the whole file each time.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import trio

sys.path.insert(0, str(Path(__file__).parents[1] / "plugins" / "files"))
import counting
from test_races import check


def main() -> int:
    """Run both and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=8)
    parser.add_argument("--times", type=int, default=1000, help="changes of all agents together")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    names, times = (
        [f"agent{number}" for number in range(options.agents)],
        options.times // options.agents,
    )
    with tempfile.TemporaryDirectory() as folder:
        root, began = Path(folder), time.monotonic()
        counting.start(root / "count.txt", names)
        refused = trio.run(counting.agents, root, names, times)
        check(root, names, times)
        print(
            f"one session: {times * len(names):,} changes, {refused:,} refused, none lost, {time.monotonic() - began:.0f} s"
        )
    with tempfile.TemporaryDirectory() as folder:
        root, began = Path(folder), time.monotonic()
        counting.start(root / "count.txt", names)
        shares = [names[number :: options.processes] for number in range(options.processes)]
        program = [sys.executable, counting.__file__, str(root), str(times)]
        running = [
            subprocess.Popen([*program, *share], stdout=subprocess.PIPE, text=True)
            for share in shares
        ]
        said = [process.communicate()[0] for process in running]
        if any(process.returncode for process in running):
            return 1
        check(root, names, times)
        refused = sum(map(int, said))
        print(
            f"{options.processes} processes: {times * len(names):,} changes, {refused:,} refused, none lost,",
            end=" ",
        )
        print(f"{time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
