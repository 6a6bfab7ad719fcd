"""How much faster a session is replayed than it was recorded with the latency of a model.

``python tests/benchmarks/replay.py`` records sessions of all tools with a scripted model that takes
some seconds for each answer (on a clock that is added, not slept), and replays them. The sessions of
the corpus that only wait for programs are not left out.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import trio
from hilum.events import ModelAnswered, ModelFailed, ModelUsed
from hilum_replay.sessions.exporting import make_recording, make_repeatable
from hilum_replay.sessions.session_test import run_recording

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from recorded_sessions import record_session

LATENCY = 8.0
"""Seconds for an answer of a model: the median of a coding agent's turns with a hosted model."""


async def measure(seed: int, latency: float) -> tuple[float, float, bool]:
    """Return the seconds of a recorded session and of its replay, and whether they are identical."""
    with tempfile.TemporaryDirectory() as folder:
        session = await record_session(seed, Path(folder) / "bench")
        recording, _ = await make_repeatable(make_recording(session.events, session.get_content))
        answers = [
            e for e in session.events if isinstance(e, ModelAnswered | ModelUsed | ModelFailed)
        ]
        recorded = session.seconds + latency * len(answers)
        began = time.perf_counter()
        outcome = await run_recording(recording, Path(folder) / "work")
        return recorded, time.perf_counter() - began, outcome.comparison.identical


async def main(sessions: int, latency: float) -> None:
    """Print a table."""
    factors = []
    totals = [0.0, 0.0]
    identical = 0
    for seed in range(sessions):
        recorded, replayed, same = await measure(seed, latency)
        factors.append(recorded / replayed)
        totals[0] += recorded
        totals[1] += replayed
        identical += same
    print(f"{sessions} sessions, {latency:g} s for each answer of the model")
    print(f"  identical             {identical}")
    print(f"  recorded              {totals[0]:10.1f} s")
    print(f"  replayed              {totals[1]:10.1f} s")
    print(f"  faster, all together  {totals[0] / totals[1]:10.0f} ×")
    print(f"  faster, median        {statistics.median(factors):10.0f} ×")
    print(f"  faster, slowest       {min(factors):10.0f} ×")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=42)
    parser.add_argument("--latency", type=float, default=LATENCY)
    arguments = parser.parse_args()
    trio.run(main, arguments.sessions, arguments.latency)
