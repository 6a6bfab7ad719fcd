"""The statistics of comparisons: known results, and how often they are right in simulations."""

import random
from statistics import fmean

import pytest
from hilum_eval.comparison.statistics import (
    ALPHA,
    Estimate,
    adjust,
    compare_means,
    compare_once,
)
from scipy import stats


def is_significant(estimate: Estimate) -> bool:
    return estimate.p is not None and estimate.p < ALPHA


def test_the_permutation_of_few_cases_is_exact():
    # All eight cases point in one direction: 2 of 2**8 exchanges are as extreme.
    estimate = compare_means([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    assert estimate.p == pytest.approx(2 / 2**8)
    assert estimate.difference == 4.5
    assert estimate.low < 4.5 < estimate.high
    assert is_significant(estimate)


def test_five_cases_are_never_enough():
    assert compare_means([10.0, 12.0, 11.0, 13.0, 12.5]).p == pytest.approx(2 / 2**5)


@pytest.mark.parametrize(
    ("lost", "gained", "is_real"), [(0, 5, False), (0, 6, True), (1, 7, False)]
)
def test_mcnemar_needs_six_cases_in_one_direction(lost, gained, is_real):
    first = [True] * lost + [False] * gained + [True] * 10
    second = [False] * lost + [True] * gained + [True] * 10
    estimate = compare_once(first, second)
    assert is_significant(estimate) is is_real
    assert estimate.test == "McNemar"
    assert estimate.p == pytest.approx(stats.binomtest(lost, lost + gained).pvalue)


def test_equal_arms_do_not_differ():
    estimate = compare_means([0.0] * 20)
    assert (estimate.difference, estimate.low, estimate.high, estimate.p) == (0.0, None, None, 1.0)
    assert compare_once([True] * 5, [True] * 5).p == 1.0


def test_one_case_has_no_interval():
    estimate = compare_means([3.0])
    assert (estimate.low, estimate.high, estimate.p, estimate.detectable) == (None,) * 4
    assert not is_significant(estimate)


def test_holm_allows_for_the_number_of_tests():
    assert adjust([0.01, 0.04, None, 0.03]) == [
        pytest.approx(0.03),
        pytest.approx(0.06),
        None,
        pytest.approx(0.06),
    ]
    assert adjust([0.9, 0.8]) == [1.0, 1.0]


def draw_differences(rng, *, drop, repeats, cases=20):
    """Return the differences of cases of various difficulty, of which the second arm fails more."""
    differences = []
    for _ in range(cases):
        chance = rng.betavariate(2, 1)
        worse = max(chance - drop, 0.0)
        first = fmean(rng.random() < chance for _ in range(repeats))
        second = fmean(rng.random() < worse for _ in range(repeats))
        differences.append(100 * (second - first))
    return differences


@pytest.mark.parametrize(
    ("drop", "least", "most"),
    # Without a difference, one measurement in twenty finds one; with 20 points, almost all do.
    [(0.0, 0.0, 0.12), (0.2, 0.93, 1.0)],
)
def test_ten_repeats_find_twenty_points(drop, least, most, trials):
    rng = random.Random(7)
    count = trials(30, 400)
    found = fmean(
        is_significant(compare_means(draw_differences(rng, drop=drop, repeats=10)))
        for _ in range(count)
    )
    assert least <= found <= most


def test_equal_differences_have_no_interval():
    """Drawing from equal values says nothing about how much they could differ."""
    estimate = compare_means([100.0, 100.0])
    assert (estimate.low, estimate.high, estimate.detectable) == (None, None, None)
    assert estimate.p == pytest.approx(0.5)


@pytest.mark.parametrize("count", [2, 5])
def test_few_cases_find_no_difference_of_any_size(count):
    assert (
        compare_means([float(index) for index in range(count)], with_power=True).detectable is None
    )
    first = [True, *[False] * (count - 1)]
    assert compare_once(first, [not each for each in first]).detectable is None


@pytest.mark.parametrize("count", [8, 20])
def test_the_detectable_difference_is_found_in_four_of_five_measurements(count, trials):
    rng = random.Random(3)
    base = [rng.gauss(0, 10) for _ in range(count)]
    mean = fmean(base)
    detectable = compare_means(base, with_power=True).detectable
    found = fmean(
        is_significant(compare_means([detectable + rng.choice(base) - mean for _ in range(count)]))
        for _ in range(trials(60, 200))
    )
    assert 0.68 <= found <= 0.92


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize(
    ("count", "lost", "gained"), [(6, 0, 1), (10, 0, 2), (20, 1, 3), (50, 4, 4)]
)
def test_the_detectable_share_is_found_in_four_of_five_measurements(count, lost, gained):
    """Computed with another program than the one under test: McNemar's test of drawn cases."""
    same = count - lost - gained
    estimate = compare_once(
        [True] * lost + [False] * gained + [True] * same,
        [False] * lost + [True] * gained + [True] * same,
    )
    rng = random.Random(5)
    against = min(lost, gained) / count
    weights = (against + estimate.detectable, against)
    found = []
    for _ in range(2000):
        draws = [rng.random() for _ in range(count)]
        ups = sum(draw < weights[0] for draw in draws)
        downs = sum(weights[0] <= draw < sum(weights) for draw in draws)
        found.append(bool(ups + downs) and stats.binomtest(ups, ups + downs).pvalue < ALPHA)
    # A share of few cases is a step function, so the power can lie above.
    assert 0.77 <= fmean(found) <= 0.85
