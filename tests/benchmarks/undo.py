"""Random work and its undo: edits, writes, deletes and commands.

It runs with git and without, three at once.

``python tests/benchmarks/undo.py`` runs 300 random sequences. After each, everything is undone (by
call, by turn or by run), the tree is compared with what it was bit for bit, then the last undo is
undone and done again, compared each time.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import trio

sys.path.insert(0, str(Path(__file__).parents[1] / "plugins" / "files"))
import test_undo_random


def main() -> int:
    """Run the sequences and print what held."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequences", type=int, default=300)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    steps = changed = 0
    failed = []
    began = time.monotonic()
    for seed in range(options.first, options.first + options.sequences):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            try:
                done = trio.run(test_undo_random.work_and_undo, Path(folder), seed)
            except Exception as error:
                failed.append(seed)
                print(f"seed {seed}: {error!r}")
                continue
            steps, changed = steps + done[0], changed + done[1]
    held = options.sequences - len(failed)
    print(
        f"{held} of {options.sequences} sequences restored bit for bit: {steps:,} calls, {changed} runs with changes,",
        end=" ",
    )
    print(f"{time.monotonic() - began:.0f} s; failed: {failed or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
