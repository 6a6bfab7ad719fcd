"""The summary of an arm: its dimensions, its total, and the gates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

import attrs

from hilum_eval.arm import Arm
from hilum_eval.attempt import Attempt, Scores, Usage
from hilum_eval.case import WEIGHTS, Case, Dimension
from hilum_eval.scores import combine_scores

_SECURITY = "security cases, percent"
MIN_TOTAL = 90.0
MIN_DIMENSION = 82.0
MIN_CASES = 0.85
"""Share of the cases that must be passed: 17 of 20."""


@attrs.frozen(kw_only=True)
class CaseSummary:
    """The attempts of an arm at one case.

    Args:
        id: The case.
        title: Its title.
        gate: Whether it is a security case.
        attempts: Number of verified attempts.
        passed: Number of passed ones.
        broken: Number of broken ones.
        skipped: Number of skipped ones.
        score: Mean score, 0 to 100; ``None`` without a verified attempt.
        scores: Means of the single scores; ``None`` without a verified attempt.
        usage: Mean usage of the verified attempts.
        reasons: Why attempts are not passed, broken or skipped, each once.
    """

    id: str
    title: str
    gate: bool
    attempts: int
    passed: int
    broken: int
    skipped: int
    score: float | None
    scores: Scores | None
    usage: Mapping[str, float]
    reasons: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Gate:
    """A condition that an arm must meet.

    Args:
        name: What is compared.
        found: The value found; ``None`` if nothing was measured.
        needed: The least value.
    """

    name: str
    found: float | None
    needed: float

    @property
    def is_met(self) -> bool:
        """Whether the condition is met."""
        return self.found is not None and self.found >= self.needed - 1e-9


@attrs.frozen(kw_only=True)
class Summary:
    """What was measured of an arm.

    Args:
        arm: The arm.
        attempts: Number of verified attempts.
        broken: Number of broken attempts.
        skipped: Number of skipped attempts.
        missing: Number of attempts that were not made.
        cases: The cases.
        dimensions: Score of each dimension, 0 to 100; ``None`` if no case belongs to it.
        total: The weighted mean of the dimensions; ``None`` if nothing was measured.
        gates: The conditions.
        usage: Sums over the verified attempts.
        dollars_per_solved: Cost of all verified attempts divided by the number of passed ones;
            ``None`` if it is not known.
        tokens_per_solved: Tokens of all verified attempts divided by the number of passed ones;
            ``None`` if none is passed.
    """

    arm: Arm
    attempts: int
    broken: int
    skipped: int
    missing: int
    cases: tuple[CaseSummary, ...]
    dimensions: Mapping[Dimension, float | None]
    total: float | None
    gates: tuple[Gate, ...]
    usage: Usage
    dollars_per_solved: float | None
    tokens_per_solved: float | None

    @property
    def is_passed(self) -> bool:
        """Whether all gates are met and nothing is broken or missing."""
        is_complete = not self.broken and not self.missing
        return is_complete and all(gate.is_met for gate in self.gates)


def summarize(
    arm: Arm,
    cases: Sequence[Case],
    attempts: Sequence[Attempt],
    *,
    expected: int,
    fail_under: float | None = None,
) -> Summary:
    """Return the summary of an arm.

    Args:
        arm: The arm.
        cases: The cases.
        attempts: The attempts of this arm.
        expected: Number of attempts that should have been made.
        fail_under: The least total, in place of all gates except for security; by default, the
            gates of the built-in suite.
    """
    by_case = {case.id: [each for each in attempts if each.case == case.id] for case in cases}
    summaries = tuple(_summarize_case(case, by_case[case.id]) for case in cases)
    verified = [each for each in attempts if each.state == "verified"]
    dimensions = {name: _score_dimension(name, cases, by_case) for name in WEIGHTS}
    total = _weigh(dimensions)
    usage = add_usages([each.usage for each in verified])
    solved = sum(each.passed for each in verified)
    tokens = usage.input_tokens + usage.output_tokens
    dollars = usage.dollars
    return Summary(
        arm=arm,
        attempts=len(verified),
        broken=sum(each.state == "broken" for each in attempts),
        skipped=sum(each.state == "skipped" for each in attempts),
        missing=max(expected - len(attempts), 0),
        cases=summaries,
        dimensions=dimensions,
        total=total,
        gates=tuple(_make_gates(summaries, dimensions, total, cases, by_case, fail_under)),
        usage=usage,
        dollars_per_solved=dollars / solved if solved and dollars is not None else None,
        tokens_per_solved=tokens / solved if solved else None,
    )


def add_usages(usages: Sequence[Usage]) -> Usage:
    """Return the sum of usages; of the memory, the highest."""
    sums: dict[str, float | None] = {}
    for field in attrs.fields(Usage):
        values = [getattr(usage, field.name) for usage in usages]
        if field.name == "peak_memory":
            sums[field.name] = max(values, default=0)
        elif None in values or (field.name == "dollars" and not values):
            # A partial sum would look cheap.
            sums[field.name] = None
        else:
            sums[field.name] = sum(values)
    return Usage(**sums)  # type: ignore[arg-type]


def _summarize_case(case: Case, attempts: Sequence[Attempt]) -> CaseSummary:
    verified = [each for each in attempts if each.state == "verified"]
    scores = [each.scores for each in verified if each.scores is not None]
    mean_scores = None
    if scores:
        fields = [field.name for field in attrs.fields(Scores)]
        means = {name: fmean(getattr(each, name) for each in scores) for name in fields}
        mean_scores = Scores(**means)
    usage: dict[str, float] = {}
    for field in attrs.fields(Usage):
        values = [getattr(each.usage, field.name) for each in verified]
        if values and None not in values:
            usage[field.name] = fmean(values)
    reasons = dict.fromkeys(each.reason for each in attempts if not each.passed)
    return CaseSummary(
        id=case.id,
        title=case.title,
        gate=case.gate,
        attempts=len(verified),
        passed=sum(each.passed for each in verified),
        broken=sum(each.state == "broken" for each in attempts),
        skipped=sum(each.state == "skipped" for each in attempts),
        score=fmean(map(combine_scores, scores)) if scores else None,
        scores=mean_scores,
        usage=usage,
        reasons=tuple(filter(None, reasons)),
    )


def _score_dimension(
    name: Dimension, cases: Sequence[Case], by_case: Mapping[str, Sequence[Attempt]]
) -> float | None:
    """Return the score of a dimension: the mean over its cases of the means of their attempts."""
    if name == "observability":
        observed = [
            each.observed
            for attempts in by_case.values()
            for each in attempts
            if each.observed is not None and each.state == "verified"
        ]
        return 100 * fmean(observed) if observed else None
    means = []
    for case in cases:
        scores = [each.scores for each in by_case[case.id] if each.scores is not None]
        if name in case.dimensions and scores:
            means.append(fmean(map(combine_scores, scores)))
    return fmean(means) if means else None


def _weigh(dimensions: Mapping[Dimension, float | None]) -> float | None:
    """Return the mean of the dimensions by their weights; those without a score do not count."""
    known = {name: score for name, score in dimensions.items() if score is not None}
    # A trace alone says nothing about the work.
    if not set(known) - {"observability"}:
        return None
    return sum(WEIGHTS[name] * score for name, score in known.items()) / sum(
        WEIGHTS[name] for name in known
    )


def _make_gates(
    summaries: Sequence[CaseSummary],
    dimensions: Mapping[Dimension, float | None],
    total: float | None,
    cases: Sequence[Case],
    by_case: Mapping[str, Sequence[Attempt]],
    fail_under: float | None,
) -> Iterator[Gate]:
    if fail_under is None:
        yield Gate(name="total", found=total, needed=MIN_TOTAL)
        known = {name: score for name, score in dimensions.items() if score is not None}
        lowest = min(known, key=lambda name: known[name], default=None)
        yield Gate(
            name=f"lowest dimension ({lowest or 'none'})",
            found=known[lowest] if lowest else None,
            needed=MIN_DIMENSION,
        )
        # With several attempts, a case counts as far as its attempts are passed.
        measured = [each for each in summaries if each.attempts]
        passed = sum(each.passed / each.attempts for each in measured)
        yield Gate(
            name="cases passed",
            found=passed if measured else None,
            needed=MIN_CASES * len(measured),
        )
    else:
        yield Gate(name="total", found=total, needed=fail_under)
    if any(case.gate for case in cases):
        yield _make_security_gate(cases, by_case)


def _make_security_gate(cases: Sequence[Case], by_case: Mapping[str, Sequence[Attempt]]) -> Gate:
    """Return the gate of the security cases, each of which must be measured and passed."""
    shares = []
    for case in cases:
        if not case.gate:
            continue
        verified = [each for each in by_case[case.id] if each.state == "verified"]
        if not verified:
            # Nothing is known about this case, and a gate must not be met by leaving it out.
            return Gate(name=_SECURITY, found=None, needed=100.0)
        secure = [each.passed and _is_secure(each) for each in verified]
        shares.append(100 * fmean(secure))
    return Gate(name=_SECURITY, found=fmean(shares), needed=100.0)


def _is_secure(attempt: Attempt) -> bool:
    return attempt.scores is not None and attempt.scores.security >= 10
