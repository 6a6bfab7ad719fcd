"""The command ``hilum eval check``: whether cases and their verifiers work.

For each case, the agent makes the known steps without a slip, which must pass, and the verifier must
reject the untouched files.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import attrs
import trio
from hilum.command import Parser, say
from hilum.processes import Warden
from hilum_cli.terminal import escape_terminal

from hilum_eval.arm import Arm
from hilum_eval.attempts import AttemptRunner
from hilum_eval.case import Case
from hilum_eval.case_reader import read_suite
from hilum_eval.jobs import Job
from hilum_eval.sandbox import find_sandbox
from hilum_eval.scores import combine_scores
from hilum_eval.transcript import Transcript
from hilum_eval.verifier import Verifier
from hilum_eval.worker_processes import open_worker_processes
from hilum_eval.workspaces import FixtureError, Workspaces, make_environ

ORACLE = Arm(name="oracle", profile="perfect")
"""An agent that makes the known steps of a case without a slip."""


@attrs.define
class CheckedCase:
    """What was found out about a case.

    Attributes:
        case: The case.
        problems: What does not work; empty for a good case.
        notes: What could not be checked.
    """

    case: Case
    problems: list[str] = attrs.field(factory=list)
    notes: list[str] = attrs.field(factory=list)


def main(argv: list[str]) -> int:
    """Check cases, and return the exit code: 0 if all of them work."""
    parser = Parser("hilum eval check", "Check cases and their verifiers.")
    parser.add_argument(
        "folder",
        nargs="?",
        default="",
        metavar="DIR",
        help="the cases; the built-in ones by default",
    )
    parser.add_argument("--jobs", type=int, default=0, metavar="N", help="cases at the same time")
    options = parser.parse_args(argv)
    cases = read_suite(Path(options.folder) if options.folder else None)
    at_once = max(options.jobs or os.cpu_count() or 1, 1)
    with tempfile.TemporaryDirectory(prefix="hilum-eval-", ignore_cleanup_errors=True) as folder:
        found = trio.run(check_cases, cases, Path(folder).resolve(), at_once)
    for checked in found:
        state = "does not work" if checked.problems else "works"
        say(escape_terminal(f"{checked.case.id}: {state}"))
        for text in (*checked.problems, *checked.notes):
            say(escape_terminal(f"  {' '.join(text.split())}"))
    bad = sum(bool(checked.problems) for checked in found)
    say(f"\n{len(found) - bad} of {len(found)} cases work.")
    return int(bad > 0)


async def check_cases(cases: Sequence[Case], base: Path, at_once: int) -> list[CheckedCase]:
    """Return what was found out about cases.

    Args:
        cases: The cases.
        base: A folder for the workspaces.
        at_once: Number of cases to check at the same time.
    """
    found = [CheckedCase(case) for case in cases]
    waiting = iter(found)
    async with Warden() as warden, open_worker_processes(warden) as processes:
        sandboxed = await find_sandbox(warden)
        runner = AttemptRunner(warden, processes, base, models={}, sandboxed=sandboxed)

        async def work() -> None:
            for checked in waiting:
                await _check_untouched(checked, warden, base, sandboxed)
                await _check_solution(checked, runner)

        async with trio.open_nursery() as nursery:
            for _ in range(at_once):
                nursery.start_soon(work)
    return found


async def _check_solution(checked: CheckedCase, runner: AttemptRunner) -> None:
    """Check that the known steps pass."""
    case = checked.case
    if not all(turn.steps for turn in case.turns):
        checked.notes.append("Not all prompts have steps, so the solution was not checked.")
        return
    attempt = await runner.run(Job(case, ORACLE, 0))
    if attempt.state == "skipped":
        checked.notes.append(f"The solution was not checked: the case {attempt.reason}.")
    elif attempt.state == "broken":
        checked.problems.append(f"The solution is broken: {attempt.reason}")
    elif not attempt.passed:
        checked.problems.append(f"The solution does not pass: {attempt.reason}")
    elif attempt.scores is not None and combine_scores(attempt.scores) < 100:
        turns = attempt.usage.turns
        checked.notes.append(
            f"The solution passes with {combine_scores(attempt.scores):.1f} of 100 points, in {turns}"
            f" turns (expected_turns: {case.expected_turns})."
        )


async def _check_untouched(
    checked: CheckedCase, warden: Warden, base: Path, sandboxed: bool
) -> None:
    """Check that the verifier does not accept that nothing was done."""
    case = checked.case
    try:
        place = await Workspaces(warden, base / f"{case.id}-untouched").prepare(case, ORACLE, 0)
    except FixtureError as error:
        checked.problems.append(error.message)
        return
    verifier = Verifier(warden, sandboxed=sandboxed)
    verdict = await verifier.verify(case, Transcript(), place, make_environ(ORACLE, place))
    if verdict.broken:
        checked.problems.append(f"With the untouched files: {verdict.broken}")
    elif verdict.completion >= case.thresholds.completion:
        checked.problems.append("The verifier accepts the untouched files.")
