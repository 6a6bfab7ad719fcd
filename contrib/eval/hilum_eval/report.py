"""The report of a measurement, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import attrs
import hilum

from hilum_eval.arm import Arm
from hilum_eval.attempt import Attempt
from hilum_eval.case import WEIGHTS, Case
from hilum_eval.converter import unstructure
from hilum_eval.driver import Outcome
from hilum_eval.summary import Summary, summarize

if TYPE_CHECKING:
    from hilum_eval.comparison.comparison import Comparison

SCHEMA = 1
"""Version of the format of ``make_json``."""


@attrs.frozen(kw_only=True)
class Report:
    """What a measurement found.

    Args:
        summaries: The summary of each arm.
        attempts: All attempts.
        measured: What was measured, in one sentence.
        problems: What is wrong with the measurement, one sentence each.
        sections: Further sections, each a title and lines of text, such as a comparison.
        comparisons: Comparisons of the first arm with each other one.
    """

    summaries: tuple[Summary, ...]
    attempts: tuple[Attempt, ...]
    measured: str
    problems: tuple[str, ...] = ()
    sections: tuple[tuple[str, tuple[str, ...]], ...] = ()
    comparisons: tuple[Comparison, ...] = ()

    @property
    def is_passed(self) -> bool:
        """Whether all arms meet their gates."""
        return all(summary.is_passed for summary in self.summaries)


def make_report(
    cases: Sequence[Case],
    arms: Sequence[Arm],
    outcome: Outcome,
    *,
    repeats: int,
    problems: Sequence[str] = (),
    fail_under: float | None = None,
) -> Report:
    """Return the report of a measurement.

    Args:
        cases: The cases.
        arms: The arms.
        outcome: The attempts.
        repeats: Number of attempts of each arm at each case.
        problems: What went wrong besides the attempts.
        fail_under: See ``summarize``.
    """
    expected = len(cases) * repeats
    summaries = []
    for arm in arms:
        own = [each for each in outcome.attempts if each.arm == arm.name]
        summaries.append(summarize(arm, cases, own, expected=expected, fail_under=fail_under))
    found = list(problems)
    if outcome.signal:
        found.append("The measurement was stopped; --resume continues it.")
    if outcome.sandboxed is False:
        found.append("The verifiers ran without a sandbox, because bubblewrap does not work here.")
    comparisons, sections = _compare(cases, summaries, outcome.attempts)
    return Report(
        summaries=tuple(summaries),
        attempts=tuple(outcome.attempts),
        measured=describe_measured(arms),
        problems=tuple(found),
        sections=tuple(sections),
        comparisons=tuple(comparisons),
    )


def _compare(
    cases: Sequence[Case], summaries: Sequence[Summary], attempts: Sequence[Attempt]
) -> tuple[list[Comparison], list[tuple[str, tuple[str, ...]]]]:
    """Return the comparisons of the first arm with the others, as data and as text."""
    comparisons: list[Comparison] = []
    sections: list[tuple[str, tuple[str, ...]]] = []
    if len(summaries) < 2:
        return comparisons, sections
    # These import SciPy, which a measurement of one arm does not need.
    compare = import_module("hilum_eval.comparison.comparison").compare
    describe = import_module("hilum_eval.comparison.sentences").describe_comparison
    first, *others = summaries
    for other in others:
        title = f"{other.arm.name} compared with {first.arm.name}"
        found = compare(cases, attempts, first, other)
        if found is None:
            sections.append((title, ("No attempt of both arms has a judgement.",)))
            continue
        comparisons.append(found)
        sections.append((title, tuple(describe(found))))
    return comparisons, sections


def describe_measured(arms: Sequence[Arm]) -> str:
    """Return what was measured: without a live model, the model was not."""
    live = [arm for arm in arms if arm.model and not arm.model.startswith("cassette/")]
    if not live:
        return (
            "Measured: the agent's loop, tools, recovery and guards. The model is simulated or"
            " recorded, so the figures say nothing about a live model."
        )
    if len(live) == len(arms):
        return "Measured: the model together with the agent's loop, tools, recovery and guards."
    names = ", ".join(arm.name for arm in live)
    return (
        f"Measured: the model together with the agent's loop, tools, recovery and guards in"
        f" {names}; in the other arms, the model is simulated or recorded."
    )


def make_json(report: Report) -> dict[str, Any]:
    """Return a report as plain data, whose format docs/eval.md describes."""
    return {
        "schema": SCHEMA,
        "hilum": hilum.__version__,
        "measured": report.measured,
        "passed": report.is_passed,
        "problems": list(report.problems),
        "weights": dict(WEIGHTS),
        "arms": [_make_arm(summary) for summary in report.summaries],
        "comparisons": [unstructure(each) for each in report.comparisons],
        "attempts": [unstructure(attempt) for attempt in report.attempts],
    }


def _make_arm(summary: Summary) -> Mapping[str, Any]:
    gates = [{**attrs.asdict(gate), "met": gate.is_met} for gate in summary.gates]
    return {**unstructure(summary), "passed": summary.is_passed, "gates": gates}
