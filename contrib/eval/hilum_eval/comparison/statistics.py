"""Statistics of paired measurements. Importing this module imports SciPy.

The unit is the case: the attempts at one case resemble each other, so they are averaged first, and
only the cases are drawn and exchanged. Intervals that assume a normal distribution fail with fewer
than a few hundred cases (arXiv 2503.01747), so none are used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
from scipy import stats  # type: ignore[import-untyped]  # SciPy has no types

ALPHA = 0.05
"""The probability of calling a difference real that is not."""
POWER = 0.8
"""The probability with which a difference of the size ``detectable`` is found."""
RESAMPLES = 10_000
_SEED = 0


@attrs.frozen(kw_only=True)
class Estimate:
    """The difference between two arms in one measure.

    Args:
        difference: The mean of the differences of the cases.
        low: Lower end of the 95 % interval; ``None`` with fewer than two cases.
        high: Upper end of the interval.
        p: Probability of a difference as large as this one if the arms were equal; ``None`` if it
            cannot be computed.
        cases: Number of cases.
        detectable: The smallest difference that this design finds in four of five measurements;
            ``None`` with fewer than two cases.
        test: The name of the test.
    """

    difference: float
    low: float | None
    high: float | None
    p: float | None
    cases: int
    detectable: float | None
    test: str

    @property
    def is_real(self) -> bool:
        """Whether the difference is larger than chance explains."""
        return self.p is not None and self.p < ALPHA


def compare_means(differences: Sequence[float]) -> Estimate:
    """Return an estimate from the difference of each case.

    The p-value is that of a permutation test in which the arms of each case are exchanged; with up
    to 13 cases, all exchanges are tried. The interval is a bootstrap of the cases.

    Args:
        differences: For each case, the mean of the second arm minus that of the first.
    """
    values = np.asarray(differences, dtype=float)
    if not len(values):
        raise ValueError("there are no cases")
    mean = float(values.mean())
    if len(values) < 2:
        return Estimate(
            difference=mean,
            low=None,
            high=None,
            p=None,
            cases=len(values),
            detectable=None,
            test="permutation",
        )
    low, high = _find_interval(values)
    return Estimate(
        difference=mean,
        low=low,
        high=high,
        p=_permute(values),
        cases=len(values),
        detectable=_find_detectable(values),
        test="permutation",
    )


def compare_once(first: Sequence[bool], second: Sequence[bool]) -> Estimate:
    """Return an estimate for cases that each arm tried once: McNemar's exact test.

    Args:
        first: For each case, whether the first arm passed it.
        second: The same for the second arm.
    """
    gained = sum(after and not before for before, after in zip(first, second, strict=True))
    lost = sum(before and not after for before, after in zip(first, second, strict=True))
    estimate = compare_means([float(b) - float(a) for a, b in zip(first, second, strict=True)])
    p = float(stats.binomtest(gained, gained + lost).pvalue) if gained + lost else 1.0
    return attrs.evolve(estimate, p=p, test="McNemar")


def adjust(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p-values that allow for several tests at once, by Holm's method.

    Args:
        p_values: The p-values; those that are ``None`` do not count as tests.
    """
    known = [index for index, p in enumerate(p_values) if p is not None]
    adjusted: list[float | None] = [None] * len(p_values)
    highest = 0.0
    order = sorted(known, key=lambda index: p_values[index] or 0.0)
    for rank, index in enumerate(order):
        p = (p_values[index] or 0.0) * (len(order) - rank)
        highest = max(highest, min(p, 1.0))
        adjusted[index] = highest
    return adjusted


def _permute(values: np.ndarray[Any, Any]) -> float:
    if not values.any():
        return 1.0
    # With one sample, SciPy exchanges the signs: the two arms of a case.
    result = stats.permutation_test(
        (values,),
        _mean,
        permutation_type="samples",
        n_resamples=RESAMPLES,
        vectorized=True,
        rng=np.random.default_rng(_SEED),
    )
    return float(result.pvalue)


def _find_interval(values: np.ndarray[Any, Any]) -> tuple[float, float]:
    if np.ptp(values) == 0:
        return float(values[0]), float(values[0])
    result = stats.bootstrap(
        (values,),
        _mean,
        n_resamples=RESAMPLES,
        method="BCa",
        vectorized=True,
        rng=np.random.default_rng(_SEED),
    )
    low, high = float(result.confidence_interval.low), float(result.confidence_interval.high)
    if math.isnan(low) or math.isnan(high):
        # BCa fails if almost all values are equal.
        result = stats.bootstrap(
            (values,),
            _mean,
            n_resamples=RESAMPLES,
            method="percentile",
            vectorized=True,
            rng=np.random.default_rng(_SEED),
        )
        low, high = float(result.confidence_interval.low), float(result.confidence_interval.high)
    return low, high


def _find_detectable(values: np.ndarray[Any, Any]) -> float:
    """Return the smallest difference that is found with the probability ``POWER``.

    The spread of the cases is taken as it was measured, with that of Student's distribution for the
    number of cases.
    """
    error = float(values.std(ddof=1)) / math.sqrt(len(values))
    freedom = len(values) - 1
    return error * float(stats.t.ppf(1 - ALPHA / 2, freedom) + stats.t.ppf(POWER, freedom))


def _mean(sample: np.ndarray[Any, Any], axis: int = -1) -> np.ndarray[Any, Any]:
    return np.asarray(np.mean(sample, axis=axis))
