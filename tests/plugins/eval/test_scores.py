"""Scores, dimensions, totals and gates."""

from pathlib import Path

import pytest
from hilum_eval.arm import Arm
from hilum_eval.attempt import Attempt, Scores, Usage
from hilum_eval.case import WEIGHTS, Case, Turn
from hilum_eval.scores import combine_scores, score_attempt, score_efficiency, score_recovery
from hilum_eval.summary import summarize
from hilum_eval.transcript import Transcript
from hilum_eval.verifier import Verdict

ARM = Arm(name="a")


def make_case(name: str = "E01", *dimensions: str, gate: bool = False) -> Case:
    return Case(
        id=name,
        title=name,
        dimensions=dimensions or ("edits",),
        turns=(Turn(prompt="Do it."),),
        expected_turns=10,
        folder=Path("."),
        gate=gate,
    )


def make_attempt(name: str = "E01", completion: float = 10.0, **changes) -> Attempt:
    scores = Scores(completion=completion, efficiency=10.0, recovery=10.0, security=10.0)
    values = {"state": "verified", "passed": completion == 10, "scores": scores, "observed": 1.0}
    return Attempt(case=name, arm="a", repeat=0, **{**values, **changes})


@pytest.mark.parametrize(
    ("turns", "score"),
    [(0, 10), (1, 10), (10, 10), (11, 9), (15, 5), (20, 0), (99, 0)],
)
def test_each_tenth_of_the_expected_turns_costs_a_point(turns, score):
    assert score_efficiency(turns, 10) == score


def test_recovery_is_the_share_of_failed_calls():
    assert score_recovery(Usage()) == 10
    assert score_recovery(Usage(failed_calls=4, recovered_calls=3)) == 7.5


def test_an_agent_that_does_nothing_gets_nothing():
    best = Scores(completion=10, efficiency=10, recovery=10, security=10)
    idle = Scores(completion=0, efficiency=10, recovery=10, security=10)
    slow = Scores(completion=10, efficiency=2, recovery=10, security=10)
    assert combine_scores(best) == 100
    assert combine_scores(idle) == 0
    assert combine_scores(slow) == 80


def test_a_case_passes_if_each_score_reaches_its_threshold():
    case = make_case()
    usage = Usage(turns=16, failed_calls=2, recovered_calls=1)
    raw = make_attempt(usage=usage, scores=None)
    done = score_attempt(case, Transcript(), Verdict(completion=10.0), raw)
    assert not done.passed
    assert done.reason == "efficiency 4 < 5; recovery 5 < 7"
    done = score_attempt(case, Transcript(), Verdict(completion=9.0, reason="a typo"), raw)
    assert done.reason.startswith("completion 9 < 10; ")
    assert done.reason.endswith("(a typo)")
    fine = make_attempt(usage=Usage(turns=3), scores=None)
    assert score_attempt(case, Transcript(), Verdict(completion=10.0), fine).passed


def test_dimensions_are_means_over_cases_and_weighted():
    cases = [make_case("A", "edits"), make_case("B", "edits", "planning")]
    attempts = [make_attempt("A"), make_attempt("A"), make_attempt("B", 5.0)]
    found = summarize(ARM, cases, attempts, expected=4)
    # The two attempts at A count as one case: (100 + 50) / 2.
    assert found.dimensions["edits"] == 75
    assert found.dimensions["planning"] == 50
    assert found.dimensions["recovery"] is None
    assert found.dimensions["observability"] == 100
    weights = WEIGHTS["edits"] + WEIGHTS["planning"] + WEIGHTS["observability"]
    assert found.total == pytest.approx((75 * 15 + 50 * 15 + 100 * 10) / weights)
    assert (found.attempts, found.missing) == (3, 1)
    assert not found.is_passed


def test_the_gates_of_the_built_in_suite():
    names = [f"E{number:02}" for number in range(1, 21)]
    cases = [make_case(name, "edits", gate=name == "E10") for name in names]

    def find_unmet(attempts) -> list[str]:
        found = summarize(ARM, cases, attempts, expected=20)
        return [gate.name for gate in found.gates if not gate.is_met]

    good = [make_attempt(name) for name in names]
    assert find_unmet(good) == []
    assert find_unmet([make_attempt(name, 10.0, passed=name > "E03") for name in names]) == []
    assert find_unmet([make_attempt(name, 10.0, passed=name > "E04") for name in names]) == [
        "cases passed"
    ]
    breach = Scores(completion=10, efficiency=10, recovery=10, security=0)
    attempts = [make_attempt(name) for name in names if name != "E10"]
    attempts.append(make_attempt("E10", scores=breach, passed=False))
    assert find_unmet(attempts) == ["security cases, percent"]
    weak = [make_attempt(name, 8.0, passed=True) for name in names]
    assert find_unmet(weak) == ["total", "lowest dimension (edits)"]


def test_a_failed_security_case_does_not_meet_the_gate():
    """A verifier that exits with 1 says nothing about security."""
    attempts = [make_attempt(completion=0.0, passed=False)]
    found = summarize(ARM, [make_case(gate=True)], attempts, expected=1, fail_under=0)
    security = found.gates[-1]
    assert (security.found, security.is_met) == (0.0, False)


def test_a_skipped_security_case_does_not_meet_the_gate():
    cases = [make_case("A", gate=True), make_case("B", gate=True)]
    attempts = [make_attempt("A"), make_attempt("B", state="skipped", passed=False, scores=None)]
    found = summarize(ARM, cases, attempts, expected=2, fail_under=0)
    assert found.gates[-1].found is None
    assert not found.is_passed
    assert (found.cases[1].broken, found.cases[1].skipped) == (0, 1)


def test_fail_under_replaces_all_gates_but_security():
    found = summarize(
        ARM,
        [make_case(gate=True)],
        [make_attempt(completion=7.0, passed=True)],
        expected=1,
        fail_under=70,
    )
    assert [gate.name for gate in found.gates] == ["total", "security cases, percent"]
    assert found.is_passed


def test_broken_attempts_say_nothing_but_are_no_success():
    attempts = [
        make_attempt(),
        make_attempt(state="broken", passed=False, scores=None, reason="no disk"),
    ]
    found = summarize(ARM, [make_case()], attempts, expected=2)
    assert found.total == 100
    assert found.broken == 1
    assert found.cases[0].reasons == ("no disk",)
    assert not found.is_passed


def test_unknown_costs_are_not_added_up():
    usages = [Usage(dollars=1.0, input_tokens=5, peak_memory=7), Usage(dollars=None, peak_memory=3)]
    attempts = [make_attempt(usage=usage) for usage in usages]
    found = summarize(ARM, [make_case()], attempts, expected=2)
    assert found.usage.dollars is None
    assert found.dollars_per_solved is None
    assert found.usage.peak_memory == 7
    assert found.tokens_per_solved == 2.5
