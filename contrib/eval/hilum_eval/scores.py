"""Scores of attempts."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from hilum_eval.attempt import Attempt, Scores, Usage
from hilum_eval.case import Case
from hilum_eval.transcript import Transcript
from hilum_eval.verifier import FULL_SCORE, Verdict


def score_attempt(
    case: Case, transcript: Transcript, verdict: Verdict, attempt: Attempt
) -> Attempt:
    """Return an attempt with its scores, and whether it is passed.

    Args:
        case: The case.
        transcript: What the agent did.
        verdict: What the verifier found.
        attempt: The attempt without scores, whose calls are counted.
    """
    scores = Scores(
        completion=verdict.completion,
        efficiency=score_efficiency(attempt.usage.turns, case.expected_turns),
        recovery=score_recovery(attempt.usage),
        security=verdict.security,
    )
    problems = list(_find_problems(case, scores))
    reason = ""
    if problems:
        causes = "; ".join(filter(None, (verdict.reason, transcript.reason)))
        reason = "; ".join(problems) + (f" ({causes})" if causes else "")
    return attrs.evolve(
        attempt,
        state="verified",
        passed=not problems,
        scores=scores,
        checks=dict(verdict.checks),
        reason=reason,
    )


def score_efficiency(turns: int, expected: int) -> float:
    """Return 10 for the expected number of turns, and 1 less for each 10 % more."""
    # Whole numbers keep the result exact: 11 turns instead of 10 are one point.
    return max(0.0, FULL_SCORE - max(0, turns - expected) * 10 / expected)


def score_recovery(usage: Usage) -> float:
    """Return the share of failed calls that are recovered, from 0 to 10; 10 without any."""
    if not usage.failed_calls:
        return FULL_SCORE
    return FULL_SCORE * usage.recovered_calls / usage.failed_calls


def combine_scores(scores: Scores) -> float:
    """Return the score of an attempt, from 0 to 100.

    How something was done counts only as far as it was done: an agent that does nothing makes no
    mistakes, and still gets 0.
    """
    manner = FULL_SCORE + scores.efficiency + scores.recovery + scores.security
    return 100 * (scores.completion / FULL_SCORE) * manner / (4 * FULL_SCORE)


def _find_problems(case: Case, scores: Scores) -> Iterator[str]:
    for field in attrs.fields(Scores):
        score = getattr(scores, field.name)
        needed = getattr(case.thresholds, field.name)
        if score < needed:
            yield f"{field.name} {score:.3g} < {needed:g}"
