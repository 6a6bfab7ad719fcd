"""Comparisons of arms: pairs, conclusions in words, and what does not count."""

import random
from pathlib import Path

import attrs
import pytest
from hilum_eval.arm import Arm
from hilum_eval.attempt import Attempt, Scores, Usage
from hilum_eval.case import Case, Turn
from hilum_eval.comparison.comparison import compare
from hilum_eval.comparison.pairs import pair_attempts
from hilum_eval.comparison.sentences import describe_comparison
from hilum_eval.converter import unstructure
from hilum_eval.driver import Outcome
from hilum_eval.report import make_json, make_report

DIMENSIONS = ("planning", "tools", "recovery", "context", "edits", "interaction")
CASES = [
    Case(
        id=f"C{number:02}",
        title="",
        dimensions=(DIMENSIONS[number % len(DIMENSIONS)],),
        turns=(Turn(prompt="Do it."),),
        expected_turns=3,
        folder=Path(),
    )
    for number in range(20)
]
ARMS = [Arm(name="old"), Arm(name="new")]


def make_attempt(case, arm, repeat, *, passed=True, state="verified", wasted=0, tokens=1000):
    completion = 10.0 if passed else 0.0
    scores = Scores(completion=completion, efficiency=10.0, recovery=10.0, security=10.0)
    return Attempt(
        case=case.id,
        arm=arm,
        repeat=repeat,
        state=state,
        passed=passed,
        scores=scores if state == "verified" else None,
        observed=1.0,
        usage=Usage(turns=3, calls=5, wasted_calls=wasted, input_tokens=tokens, dollars=0.01),
    )


def measure(chance, *, repeats=10, wasted=0):
    """Return attempts of both arms; the second one passes each case with the given chance."""
    rng = random.Random(5)
    attempts = []
    for case in CASES:
        for repeat in range(repeats):
            attempts.append(make_attempt(case, "old", repeat))
            passed = rng.random() < chance(case)
            attempts.append(make_attempt(case, "new", repeat, passed=passed, wasted=wasted))
    return attempts


def report(attempts, *, repeats=10):
    return make_report(CASES, ARMS, Outcome(attempts=attempts), repeats=repeats)


def test_a_worse_arm_is_called_worse_in_words_and_figures():
    attempts = measure(lambda case: 0.5)
    [found] = report(attempts).comparisons
    passed, score = found.results
    assert passed.is_real
    assert not passed.is_better
    assert -65 < passed.estimate.low < passed.estimate.difference < passed.estimate.high < -40
    assert score.is_real
    [(title, lines)] = report(attempts).sections
    assert title == "new compared with old"
    assert lines[0].startswith("new passes fewer attempts than old: -5")
    assert "95 % interval" in lines[0]


def test_equal_arms_cannot_be_told_apart():
    [found] = report(measure(lambda case: 1.0)).comparisons
    assert not any(
        row.is_real for row in (*found.results, *found.usage, *found.dimensions.values())
    )
    lines = describe_comparison(found)
    assert "cannot be told apart" in lines[0]


def test_a_small_study_says_what_it_could_have_found():
    attempts = measure(lambda case: 0.9, repeats=1)
    [found] = report(attempts, repeats=1).comparisons
    assert found.results[0].estimate.test == "McNemar"
    lines = describe_comparison(found)
    assert "would have been found in four of five such measurements" in lines[0]


def test_only_the_dimension_that_is_worse_is_found():
    # Seven dimensions are tested, so one needs several cases; here all of twenty belong to two.
    cases = [
        Case(
            id=case.id,
            title="",
            dimensions=("edits", "tools") if number % 2 else ("tools",),
            turns=case.turns,
            expected_turns=3,
        )
        for number, case in enumerate(CASES)
    ]
    worse = {case.id for case in cases if "edits" in case.dimensions}
    attempts = measure(lambda case: 0.3 if case.id in worse else 1.0)
    summary = make_report(cases, ARMS, Outcome(attempts=attempts), repeats=10)
    [found] = summary.comparisons
    assert found.dimensions["edits"].is_real
    assert found.dimensions["edits"].p >= found.dimensions["edits"].estimate.p
    assert not found.dimensions["observability"].is_real


def test_more_waste_is_worse():
    [found] = report(measure(lambda case: 1.0, wasted=2)).comparisons
    [wasted] = [row for row in found.usage if row.name == "wasted calls"]
    assert wasted.is_real
    assert not wasted.is_better
    assert wasted.estimate.difference == pytest.approx(2.0)
    assert any("needs more wasted calls" in line for line in describe_comparison(found))


def test_attempts_without_a_partner_do_not_count():
    attempts = [
        make_attempt(CASES[0], "old", 0),
        make_attempt(CASES[0], "new", 0),
        make_attempt(CASES[0], "old", 1),
        make_attempt(CASES[0], "new", 1, state="broken"),
        make_attempt(CASES[1], "old", 0),
        make_attempt(CASES[2], "other", 0),
    ]
    paired, unpaired = pair_attempts(CASES, attempts, "old", "new")
    assert [(each.case.id, len(each.pairs)) for each in paired] == [("C00", 1)]
    assert unpaired == 3
    [found] = report(attempts, repeats=2).comparisons
    lines = describe_comparison(found)
    assert any("3 attempts are not paired" in line for line in lines)
    assert "With fewer than 6 cases, no difference can be significant." in lines
    assert not any("four of five" in line for line in lines)


def test_arms_without_a_common_attempt_are_not_compared():
    attempts = [make_attempt(CASES[0], "old", 0), make_attempt(CASES[1], "new", 0)]
    found = report(attempts, repeats=1)
    assert found.comparisons == ()
    assert found.sections[0][1] == ("No attempt of both arms has a judgement.",)


def test_an_unknown_cost_is_not_compared():
    attempts = measure(lambda case: 1.0, repeats=1)
    attempts[0] = make_attempt(CASES[0], "old", 0)
    free = [each if each.arm == "old" else unknown(each) for each in attempts]
    [found] = report(free, repeats=1).comparisons
    assert "dollars" not in [row.name for row in found.usage]
    assert found.per_solved["new"]["dollars"] is None


def test_figures_are_written_as_they_are_meant():
    attempts = measure(lambda case: 1.0, repeats=1)
    attempts = [attrs.evolve(each, passed=each.arm == "old") for each in attempts]
    lines = describe_comparison(report(attempts, repeats=1).comparisons[0])
    assert lines[0] == "new passes fewer attempts than old: -100.0 percentage points (p < 0.001)."
    [row] = [line for line in lines if line.startswith("passed ")]
    assert row.split() == ["passed", "-100.0", "–", "<0.001", "yes,", "worse"]
    [row] = [line for line in lines if line.startswith("turns ")]
    assert row.split() == ["turns", "0", "–", "1.000", "no"]
    assert "new: no attempt was solved." in lines


def test_an_interval_that_contradicts_the_test_is_explained():
    first = [20, 30, 25, 40, 35]
    attempts = []
    for case, turns in zip(CASES, first, strict=False):
        for arm, extra in (("old", 0), ("new", turns)):
            attempt = make_attempt(case, arm, 0)
            usage = attrs.evolve(attempt.usage, turns=attempt.usage.turns + extra)
            attempts.append(attrs.evolve(attempt, usage=usage))
    lines = describe_comparison(report(attempts, repeats=1).comparisons[0])
    assert any(line.startswith("turns") and line.endswith("no") for line in lines)
    assert lines.count(
        "Where an interval without 0 is not significant, the test decides: intervals from few cases"
        " are too narrow."
    )


def unknown(attempt):
    return attrs.evolve(attempt, usage=attrs.evolve(attempt.usage, dollars=None))


def test_the_json_contains_the_comparison():
    data = make_json(report(measure(lambda case: 0.5)))
    [found] = data["comparisons"]
    assert found["second"] == "new"
    assert found["results"][0]["estimate"]["p"] < 0.05
    assert unstructure(report(measure(lambda case: 1.0)).comparisons[0])["pairs"] == 200


def test_the_first_arm_is_compared_with_each_other():
    attempts = measure(lambda case: 1.0, repeats=1)
    attempts += [make_attempt(case, "third", 0, passed=False) for case in CASES]
    arms = [*ARMS, Arm(name="third")]
    found = make_report(CASES, arms, Outcome(attempts=attempts), repeats=1)
    assert [(each.first, each.second) for each in found.comparisons] == [
        ("old", "new"),
        ("old", "third"),
    ]
    assert compare(CASES, attempts, found.summaries[0], found.summaries[2]).results[0].is_real
