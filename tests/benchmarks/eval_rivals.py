"""Measure hilum and mini-swe-agent's own loop on the same cases, with the same slips of the model.

mini-swe-agent is not one of hilum's dependencies; install it in an environment of its own:

    uv venv .ci/mini-swe-agent
    uv pip install --python .ci/mini-swe-agent mini-swe-agent==2.4.6
    python tests/benchmarks/eval_rivals.py --python .ci/mini-swe-agent/bin/python

Cases that only one agent can do (approvals, the state of an editor) are left out for both.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hilum_eval.arm import Arm
from hilum_eval.attempt import Attempt
from hilum_eval.case_reader import read_suite
from hilum_eval.driver import Progress, measure
from hilum_eval.jobs import make_jobs
from hilum_eval.measurement import open_results
from hilum_eval.summary import add_usages

HEADER = (
    "profile, cases     agent           solved      failed  recovered  wasted  turns  tokens/solved"
)


class PrintedProgress(Progress):
    """Prints a line for each attempt."""

    def add(self, attempt: Attempt) -> None:
        """Print an attempt."""
        state = "passed" if attempt.passed else attempt.state
        print(f"  {attempt.case} {attempt.arm} #{attempt.repeat}: {state}", flush=True)


def make_arms(profile: str, python: str) -> list[Arm]:
    """Return both agents with the same model."""
    mini = Arm(
        name="mini-swe-agent", agent="mini-swe-agent", profile=profile, settings={"python": python}
    )
    return [Arm(name="hilum", profile=profile), mini]


def find_pairs(attempts: Sequence[Attempt]) -> dict[str, list[Attempt]]:
    """Return the attempts of each agent at which the other one also has a verified attempt."""
    verified: dict[tuple[str, int], list[Attempt]] = {}
    for attempt in attempts:
        if attempt.state == "verified":
            verified.setdefault((attempt.case, attempt.repeat), []).append(attempt)
    by_agent: dict[str, list[Attempt]] = {}
    for pair in verified.values():
        if len(pair) == 2:
            for attempt in pair:
                by_agent.setdefault(attempt.arm, []).append(attempt)
    return by_agent


def describe(title: str, agent: str, attempts: Sequence[Attempt]) -> str:
    """Return the line of an agent; calls and turns are means of one attempt."""
    usage = add_usages([attempt.usage for attempt in attempts])
    solved = sum(attempt.passed for attempt in attempts)
    count = len(attempts)
    tokens = usage.input_tokens + usage.output_tokens
    per_solved = f"{tokens / solved:,.0f}" if solved else "-"
    return (
        f"{title:<18} {agent:<15} {solved:>3} of {count:<3} {usage.failed_calls / count:>8.2f}"
        f" {usage.recovered_calls / count:>10.2f} {usage.wasted_calls / count:>7.2f}"
        f" {usage.turns / count:>6.1f} {per_solved:>14}"
    )


def main() -> None:
    """Measure both agents with each profile, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True, help="the Python of mini-swe-agent")
    parser.add_argument("--profiles", nargs="+", default=["perfect", "strong", "mid", "weak"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    cases = read_suite()
    lines: list[str] = []
    for profile in options.profiles:
        arms = make_arms(profile, str(Path(options.python).absolute()))
        jobs = make_jobs(cases, arms, options.repeats)
        with (
            tempfile.TemporaryDirectory(prefix="eval-rivals-") as folder,
            open_results(Path(folder), resume=False) as results,
        ):
            outcome = measure(jobs, results, at_once=options.jobs, progress=PrintedProgress())
        broken = [each for each in outcome.attempts if each.state == "broken"]
        lines += [f"  broken: {each.case} {each.arm}: {each.reason}" for each in broken]
        # Without a guard, nothing is refused, so that security cases hide wasted calls.
        gates = {case.id for case in cases if case.gate}
        for title, is_gate in (("work", False), ("security", True)):
            chosen = [each for each in outcome.attempts if (each.case in gates) == is_gate]
            found = find_pairs(chosen)
            lines += [
                describe(f"{profile}, {title}", agent, found[agent]) for agent in sorted(found)
            ]
        print("\n".join([HEADER, *lines]), flush=True)


if __name__ == "__main__":
    main()
