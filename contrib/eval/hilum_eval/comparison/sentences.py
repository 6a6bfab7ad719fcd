"""Says in words what a comparison found."""

from __future__ import annotations

from collections.abc import Iterator

from hilum_eval.comparison.comparison import Comparison, Row
from hilum_eval.comparison.statistics import MIN_CASES

_ALL = 100.0
# Smaller p-values are not shown as 0.
_MIN_P = 0.001


def describe_comparison(comparison: Comparison) -> list[str]:
    """Return the lines of a comparison: first the conclusion, then the figures."""
    return [*_conclude(comparison), "", *_make_table(comparison), *_describe_costs(comparison)]


def _conclude(comparison: Comparison) -> Iterator[str]:
    passed, score = comparison.results
    yield _conclude_result(comparison, passed)
    real = [row for row in comparison.dimensions.values() if row.is_real]
    for row in real:
        direction = "better" if row.is_better else "worse"
        yield f"{comparison.second} is {direction} in {row.name}: {_describe(row)}."
    if not real and score.is_real:
        direction = "higher" if score.is_better else "lower"
        yield f"The score of {comparison.second} is {direction}: {_describe(score)}."
    for row in comparison.usage:
        if row.is_real and row.name != "seconds":
            direction = "more" if row.estimate.difference > 0 else "fewer"
            yield f"{comparison.second} needs {direction} {row.name}: {_describe(row)}."
    if passed.estimate.cases < MIN_CASES:
        yield f"With fewer than {MIN_CASES} cases, no difference can be significant."
    if comparison.unpaired:
        count = (
            "1 attempt is" if comparison.unpaired == 1 else f"{comparison.unpaired} attempts are"
        )
        yield (
            f"{count} not paired: the attempt itself, or that of the other arm with the same seed, is"
            " missing, broken or skipped."
        )


def _conclude_result(comparison: Comparison, passed: Row) -> str:
    first, second = comparison.first, comparison.second
    if passed.is_real:
        direction = "more" if passed.is_better else "fewer"
        return f"{second} passes {direction} attempts than {first}: {_describe(passed)}."
    text = f"{second} and {first} cannot be told apart by passed attempts: {_describe(passed)}."
    estimate = passed.estimate
    # With fewer cases, another sentence says that nothing can be found.
    if estimate.cases < MIN_CASES:
        return text
    if estimate.detectable is not None and estimate.detectable <= _ALL:
        text += (
            f" A difference of {estimate.detectable:.0f} percentage points would have been found in"
            " four of five such measurements; more repeats or cases find smaller ones."
        )
    return text


def _describe(row: Row) -> str:
    estimate = row.estimate
    details = []
    if estimate.low is not None and estimate.high is not None:
        details.append(f"95 % interval {_sign(estimate.low)} to {_sign(estimate.high)}")
    if row.p is not None:
        details.append(f"p < {_MIN_P}" if row.p < _MIN_P else f"p = {row.p:.3f}")
    text = f"{_sign(estimate.difference)} {row.unit}".rstrip()
    return f"{text} ({', '.join(details)})" if details else text


def _make_table(comparison: Comparison) -> Iterator[str]:
    rows = [*comparison.results, *comparison.dimensions.values(), *comparison.usage]
    yield f"{'measure':<15}{'difference':>11}  {'95 % interval':<22}{'p':>7}  significant?"
    is_narrow = False
    for row in rows:
        estimate = row.estimate
        interval = "–"
        if estimate.low is not None and estimate.high is not None:
            interval = f"{_sign(estimate.low)} to {_sign(estimate.high)}"
            excludes_zero = estimate.low > 0 or estimate.high < 0
            is_narrow = is_narrow or (excludes_zero and not row.is_real)
        verdict = "no"
        if row.is_real:
            verdict = "yes, better" if row.is_better else "yes, worse"
        yield f"{row.name:<15}{_sign(estimate.difference):>11}  {interval:<22}{_format_p(row.p):>7}  {verdict}"
    yield (
        f"{comparison.second} minus {comparison.first}, {comparison.pairs} pairs of attempts at"
        f" {comparison.results[0].estimate.cases} cases. The p-values of the dimensions allow for"
        " their number (Holm); the others are not adjusted for the number of tests and arms, so about"
        " one in twenty is significant by chance."
    )
    if is_narrow:
        yield (
            "Where an interval without 0 is not significant, the test decides: intervals from few"
            " cases are too narrow."
        )


def _describe_costs(comparison: Comparison) -> Iterator[str]:
    for name, costs in comparison.per_solved.items():
        dollars, tokens = costs["dollars"], costs["tokens"]
        parts = []
        if dollars is not None:
            parts.append(f"${dollars:.4f}")
        if tokens is not None:
            parts.append(f"{tokens:,.0f} tokens")
        if parts:
            yield f"{name}: {' and '.join(parts)} per solved attempt."
        else:
            yield f"{name}: no attempt was solved."


def _format_p(p: float | None) -> str:
    if p is None:
        return "–"
    return f"<{_MIN_P}" if p < _MIN_P else f"{p:.3f}"


def _sign(number: float) -> str:
    """Return a number with its sign and about three digits."""
    size = abs(number)
    if not size:
        return "0"
    if size >= 1000:
        return f"{number:+,.0f}"
    if size >= 10:
        return f"{number:+.1f}"
    if size >= 0.1:
        return f"{number:+.2f}"
    return f"{number:+.4f}"
