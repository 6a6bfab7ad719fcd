"""Statistics of paired measurements. Importing this module imports SciPy.

The unit is the case: the attempts at one case resemble each other, so they are averaged first, and
only the cases are drawn and exchanged. Intervals that assume a normal distribution fail with fewer
than a few hundred cases (arXiv 2503.01747), so none are used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np
from scipy import stats  # type: ignore[import-untyped]  # SciPy has no types

ALPHA = 0.05
"""The probability with which one test calls a difference real that is not."""
POWER = 0.8
"""The probability with which a difference of the size ``detectable`` is found."""
RESAMPLES = 10_000
MIN_CASES = 6
"""With fewer cases, no difference can be significant: 2 of 2**5 exchanges are more than ``ALPHA``."""
_SEED = 0
# For the search of the detectable difference: simulated measurements, and exchanges of the arms.
_TRIALS = 500
_EXCHANGES = 500
_MAX_EXACT = 10


@attrs.frozen(kw_only=True)
class Estimate:
    """The difference between two arms in one measure.

    Args:
        difference: The mean of the differences of the cases.
        low: Lower end of the 95 % interval; ``None`` with fewer than two cases, or if all cases
            differ equally.
        high: Upper end of the interval.
        p: Probability of a difference as large as this one if the arms were equal; ``None`` if it
            cannot be computed.
        cases: Number of cases.
        detectable: The smallest difference that this test finds in four of five measurements of
            this kind; ``None`` if it was not computed, if there is no such difference, as with few cases, or if the cases
            do not differ, so that nothing is known about their spread.
        test: The name of the test.
    """

    difference: float
    low: float | None
    high: float | None
    p: float | None
    cases: int
    detectable: float | None
    test: str


def compare_means(differences: Sequence[float], *, with_power: bool = False) -> Estimate:
    """Return an estimate from the difference of each case.

    The p-value is that of a permutation test in which the arms of each case are exchanged; with up
    to 13 cases, all exchanges are tried. The interval is a bootstrap of the cases.

    Args:
        differences: For each case, the mean of the second arm minus that of the first.
        with_power: Whether to compute ``Estimate.detectable``, which takes a moment.
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
        detectable=_find_detectable(values) if with_power else None,
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
    detectable = _find_detectable_share(gained, lost, len(first))
    return attrs.evolve(estimate, p=p, detectable=detectable, test="McNemar")


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


def _find_interval(values: np.ndarray[Any, Any]) -> tuple[float | None, float | None]:
    if np.ptp(values) == 0:
        # Drawing from equal values says nothing about how much they could differ.
        return None, None
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


def _find_detectable(values: np.ndarray[Any, Any]) -> float | None:
    """Return the smallest difference that the permutation test finds with the probability ``POWER``.

    Measurements are simulated: cases are drawn from those measured, and moved by the difference.
    """
    count = len(values)
    if count < MIN_CASES or np.ptp(values) == 0:
        return None
    rng = np.random.default_rng(_SEED)
    drawn = rng.choice(values - values.mean(), size=(_TRIALS, count))
    signs = _make_exchanges(count, rng)
    # The sum of an exchange is linear in the difference, so it is computed only once.
    noise, moved = drawn @ signs.T, signs.sum(axis=1)
    sums = drawn.sum(axis=1)

    def has_power(difference: float) -> bool:
        extreme = np.abs(noise + difference * moved) >= np.abs(sums + difference * count)[
            :, np.newaxis
        ] * (1 - 1e-9)
        return bool((extreme.mean(axis=1) < ALPHA).mean() >= POWER)

    highest = float(np.ptp(values)) * 10
    return _search(has_power, highest)


def _find_detectable_share(gained: int, lost: int, count: int) -> float | None:
    """Return the smallest difference that McNemar's test finds with the probability ``POWER``.

    Measurements are simulated in which as many cases go against the difference as in this one.

    Args:
        gained: Number of cases that only the second arm passed.
        lost: Number of cases that only the first arm passed.
        count: Number of cases.
    """
    if count < MIN_CASES or gained + lost == 0:
        return None
    against = min(gained, lost) / count

    def has_power(difference: float) -> bool:
        rng = np.random.default_rng(_SEED)
        shares = (against + difference, against, max(1 - difference - 2 * against, 0.0))
        drawn = rng.multinomial(count, shares, size=20 * _TRIALS)
        both = drawn[:, 0] + drawn[:, 1]
        p_values = 2 * stats.binom.cdf(drawn[:, :2].min(axis=1), both, 0.5)
        return bool((p_values < ALPHA).mean() >= POWER)

    return _search(has_power, 1 - 2 * against)


def _make_exchanges(count: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Return exchanges of the arms, each as a sign for each case: all of them if there are few."""
    if count <= _MAX_EXACT:
        numbers = np.arange(2**count)[:, np.newaxis]
        return np.where((numbers >> np.arange(count)) & 1, -1.0, 1.0)
    return np.vstack([np.ones(count), rng.choice([-1.0, 1.0], size=(_EXCHANGES, count))])


def _search(has_power: Callable[[float], bool], highest: float) -> float | None:
    """Return the smallest difference with enough power; ``None`` if even the highest has less."""
    if not has_power(highest):
        return None
    low, high = 0.0, highest
    for _ in range(14):
        middle = (low + high) / 2
        if has_power(middle):
            high = middle
        else:
            low = middle
    return high


def _mean(sample: np.ndarray[Any, Any], axis: int = -1) -> np.ndarray[Any, Any]:
    return np.asarray(np.mean(sample, axis=axis))
