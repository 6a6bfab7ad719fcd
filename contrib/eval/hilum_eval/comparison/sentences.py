"""Says in words what a comparison found."""

from __future__ import annotations

from collections.abc import Iterator

from hilum_eval.comparison.comparison import Comparison, Row


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
    if passed.estimate.cases < 6:
        yield f"With {passed.estimate.cases} cases, only very large differences can be told from chance."
    if comparison.unpaired:
        yield (
            f"{comparison.unpaired} attempts do not count, because the attempt of the other arm with"
            " the same seed is missing, broken or skipped."
        )


def _conclude_result(comparison: Comparison, passed: Row) -> str:
    first, second = comparison.first, comparison.second
    if passed.is_real:
        direction = "more" if passed.is_better else "fewer"
        return f"{second} passes {direction} attempts than {first}: {_describe(passed)}."
    text = f"{second} and {first} cannot be told apart by passed attempts: {_describe(passed)}."
    detectable = passed.estimate.detectable
    if detectable:
        text += (
            f" A difference of {detectable:.0f} points would have been found in four of five such"
            " measurements; more repeats or cases find smaller ones."
        )
    return text


def _describe(row: Row) -> str:
    estimate = row.estimate
    text = f"{_sign(estimate.difference)} {row.unit}".rstrip()
    if estimate.low is not None and estimate.high is not None:
        text += f" (95 % interval {_sign(estimate.low)} to {_sign(estimate.high)}"
        text += f", p = {row.p:.3f})" if row.p is not None else ")"
    return text


def _make_table(comparison: Comparison) -> Iterator[str]:
    rows = [*comparison.results, *comparison.dimensions.values(), *comparison.usage]
    yield f"{'measure':<15}{'difference':>11}  {'95 % interval':<22}{'p':>6}  real?"
    for row in rows:
        estimate = row.estimate
        interval = "–"
        if estimate.low is not None and estimate.high is not None:
            interval = f"{_sign(estimate.low)} to {_sign(estimate.high)}"
        p = "–" if row.p is None else f"{row.p:.3f}"
        verdict = "no"
        if row.is_real:
            verdict = "better" if row.is_better else "worse"
        yield f"{row.name:<15}{_sign(estimate.difference):>11}  {interval:<22}{p:>6}  {verdict}"
    yield (
        f"{comparison.second} minus {comparison.first}, {comparison.pairs} pairs of attempts at"
        f" {comparison.results[0].estimate.cases} cases. The p-values of the dimensions allow for"
        " their number (Holm)."
    )


def _describe_costs(comparison: Comparison) -> Iterator[str]:
    for name, costs in comparison.per_solved.items():
        dollars, tokens = costs["dollars"], costs["tokens"]
        parts = []
        if dollars is not None:
            parts.append(f"${dollars:.4f}")
        if tokens is not None:
            parts.append(f"{tokens:,.0f} tokens")
        yield f"{name}: {' and '.join(parts) or 'unknown cost'} per solved attempt."


def _sign(number: float) -> str:
    """Return a number with its sign and about three digits."""
    digits = 4 if abs(number) < 0.1 else 2 if abs(number) < 10 else 1 if abs(number) < 1000 else 0
    return f"{number:+,.{digits}f}"
