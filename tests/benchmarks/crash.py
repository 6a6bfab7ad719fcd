"""Kills a session of 50 turns at every event boundary and 200 random instants.

It is resumed each time.

``python tests/benchmarks/crash.py`` takes some minutes. What each trial is judged by stands in
``end_to_end/crash_session.py``; the first thing that does not hold ends the run with an error.
"""

import argparse
import random
import sys
import time
from pathlib import Path

import trio

sys.path.insert(0, str(Path(__file__).parents[1] / "end_to_end"))
import crash_session

TURNS, INSTANTS, SEED = 50, 200, 7


async def main() -> None:
    """Print a line for each kind of kill."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--instants", type=int, default=INSTANTS)
    parser.add_argument("--only", choices=("boundary", "instants"), help="one of the two kinds")
    options = parser.parse_args()
    undisturbed = await crash_session.trial(options.turns)
    crash_session.judge(undisturbed, undisturbed, options.turns)
    events = [[deed] for deed in crash_session.boundaries(undisturbed)]
    random_ones = crash_session.instants(undisturbed, random.Random(SEED), options.instants)
    print(f"a session of {options.turns} turns, {len(undisturbed.events)} events")
    print(
        "killed at               trials   kills   cut off   repeated   seconds   bar: nothing lost, repeated or changed"
    )
    for label, plans in (("each event boundary", events), ("random instants", random_ones)):
        if options.only and options.only not in label:
            continue
        began = time.perf_counter()
        seen = await crash_session.judge_all(options.turns, undisturbed, plans)
        row = "".join(f"{seen[name]:>10}" for name in ("trials", "kills", "cut off", "repeated"))
        print(f"{label:20}{row}{time.perf_counter() - began:>10.0f}   held in all", flush=True)


if __name__ == "__main__":
    trio.run(main)
