"""Compares an arm with the first one. Importing this module imports SciPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs

from hilum_eval.attempt import Attempt
from hilum_eval.case import WEIGHTS, Case, Dimension
from hilum_eval.comparison.pairs import CasePairs, pair_attempts
from hilum_eval.comparison.statistics import (
    ALPHA,
    Estimate,
    adjust,
    compare_means,
    compare_once,
)
from hilum_eval.scores import combine_scores
from hilum_eval.summary import Summary

_SHARE = "percentage points"
Measure = Callable[[Attempt], float | None]


@attrs.frozen(kw_only=True)
class Row:
    """What was found in one measure.

    Args:
        name: The measure, such as ``passed`` or ``wasted calls``.
        unit: ``points`` (0 to 100), ``percentage points``, or empty for a number.
        more_is_better: Whether a higher value is better.
        estimate: The difference.
        p: The p-value, adjusted for several dimensions; ``None`` if it cannot be computed.
    """

    name: str
    unit: str
    more_is_better: bool
    estimate: Estimate
    p: float | None

    @property
    def is_real(self) -> bool:
        """Whether the difference is larger than chance explains."""
        return self.p is not None and self.p < ALPHA

    @property
    def is_better(self) -> bool:
        """Whether the second arm is better by this estimate."""
        return (self.estimate.difference > 0) == self.more_is_better


@attrs.frozen(kw_only=True)
class Comparison:
    """What distinguishes an arm from the first one.

    Args:
        first: Name of the first arm.
        second: Name of the other arm.
        pairs: Number of pairs of attempts.
        unpaired: Number of attempts that do not count, because the partner is missing, broken or
            skipped.
        results: The share of passed attempts, and the score.
        dimensions: The dimensions, whose p-values allow for the number of tests.
        usage: Turns, calls, tokens, cost and time.
        per_solved: Dollars and tokens per solved attempt, by arm; ``None`` if unknown.
    """

    first: str
    second: str
    pairs: int
    unpaired: int
    results: tuple[Row, ...]
    dimensions: Mapping[Dimension, Row]
    usage: tuple[Row, ...]
    per_solved: Mapping[str, Mapping[str, float | None]]


def compare(
    cases: Sequence[Case],
    attempts: Sequence[Attempt],
    first: Summary,
    second: Summary,
) -> Comparison | None:
    """Compare two arms on the attempts that both made.

    Args:
        cases: The cases.
        attempts: The attempts of all arms.
        first: The summary of the first arm.
        second: The summary of the other arm.

    Returns:
        The comparison; ``None`` if there is no pair.
    """
    names = (first.arm.name, second.arm.name)
    paired, unpaired = pair_attempts(cases, attempts, *names)
    if not paired:
        return None
    per_solved = {
        each.arm.name: {"dollars": each.dollars_per_solved, "tokens": each.tokens_per_solved}
        for each in (first, second)
    }
    return Comparison(
        first=names[0],
        second=names[1],
        pairs=sum(len(each.pairs) for each in paired),
        unpaired=unpaired,
        results=tuple(_compare_results(paired)),
        dimensions=_compare_dimensions(paired),
        usage=tuple(_compare_usage(paired)),
        per_solved=per_solved,
    )


def _compare_results(paired: Sequence[CasePairs]) -> Iterator[Row]:
    if all(len(each.pairs) == 1 for each in paired):
        pairs = [each.pairs[0] for each in paired]
        once = compare_once([a.passed for a, _ in pairs], [b.passed for _, b in pairs])
        passed = attrs.evolve(
            once,
            difference=100 * once.difference,
            low=_scale(once.low),
            high=_scale(once.high),
            detectable=_scale(once.detectable),
        )
        yield Row(name="passed", unit=_SHARE, more_is_better=True, estimate=passed, p=passed.p)
    else:
        yield from _compare_measure(paired, "passed", _SHARE, True, _measure_passed)
    yield from _compare_measure(paired, "score", "points", True, _measure_score)


def _compare_dimensions(paired: Sequence[CasePairs]) -> dict[Dimension, Row]:
    rows: dict[Dimension, Row] = {}
    for name in WEIGHTS:
        if name == "observability":
            found = _compare_measure(paired, name, "points", True, _measure_observed)
        else:
            own = [each for each in paired if name in each.case.dimensions]
            found = _compare_measure(own, name, "points", True, _measure_score)
        for row in found:
            rows[name] = row
    adjusted = adjust([row.p for row in rows.values()])
    return {name: attrs.evolve(rows[name], p=p) for name, p in zip(rows, adjusted, strict=True)}


def _compare_usage(paired: Sequence[CasePairs]) -> Iterator[Row]:
    measures: tuple[tuple[str, str, Measure], ...] = (
        ("turns", "", lambda attempt: attempt.usage.turns),
        ("calls", "", lambda attempt: attempt.usage.calls),
        ("wasted calls", "", lambda attempt: attempt.usage.wasted_calls),
        ("failed calls", "", lambda attempt: attempt.usage.failed_calls),
        ("tokens", "", _measure_tokens),
        ("dollars", "", lambda attempt: attempt.usage.dollars),
        ("seconds", "", lambda attempt: attempt.usage.seconds),
    )
    for name, unit, measure in measures:
        yield from _compare_measure(paired, name, unit, False, measure)


def _compare_measure(
    paired: Sequence[CasePairs], name: str, unit: str, more_is_better: bool, measure: Measure
) -> Iterator[Row]:
    found = [each.subtract(measure) for each in paired]
    differences = [each for each in found if each is not None]
    if not differences:
        return
    # The report names it only for passed attempts.
    estimate = compare_means(differences, with_power=name == "passed")
    yield Row(name=name, unit=unit, more_is_better=more_is_better, estimate=estimate, p=estimate.p)


def _measure_passed(attempt: Attempt) -> float:
    return 100.0 if attempt.passed else 0.0


def _measure_score(attempt: Attempt) -> float | None:
    return None if attempt.scores is None else combine_scores(attempt.scores)


def _measure_observed(attempt: Attempt) -> float | None:
    return None if attempt.observed is None else 100 * attempt.observed


def _measure_tokens(attempt: Attempt) -> float:
    return attempt.usage.input_tokens + attempt.usage.output_tokens


def _scale(value: float | None) -> float | None:
    return None if value is None else 100 * value
