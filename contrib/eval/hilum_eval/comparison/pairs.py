"""Pairs the attempts of two arms: the same case, with the same seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

import attrs

from hilum_eval.attempt import Attempt
from hilum_eval.case import Case


@attrs.frozen
class CasePairs:
    """The attempts of two arms at one case.

    Args:
        case: The case.
        pairs: The attempts of both arms with equal seeds, each with a judgement.
    """

    case: Case
    pairs: tuple[tuple[Attempt, Attempt], ...]

    def subtract(self, measure: Callable[[Attempt], float | None]) -> float | None:
        """Return the mean of the second arm minus that of the first.

        Args:
            measure: Returns the value of an attempt; pairs with a missing value do not count.

        Returns:
            The difference; ``None`` if no pair has both values.
        """
        values = [(measure(first), measure(second)) for first, second in self.pairs]
        found = [b - a for a, b in values if a is not None and b is not None]
        return fmean(found) if found else None


def pair_attempts(
    cases: Sequence[Case], attempts: Sequence[Attempt], first: str, second: str
) -> tuple[list[CasePairs], int]:
    """Return the pairs of each case that has any, and the number of attempts without a partner.

    Args:
        cases: The cases.
        attempts: The attempts of all arms.
        first: Name of the first arm.
        second: Name of the second arm.
    """
    verified = {
        (each.arm, each.case, each.repeat): each
        for each in attempts
        if each.state == "verified" and each.arm in (first, second)
    }
    paired = []
    for case in cases:
        repeats = sorted(
            repeat for arm, name, repeat in verified if (arm, name) == (first, case.id)
        )
        pairs = [
            (verified[first, case.id, repeat], verified[second, case.id, repeat])
            for repeat in repeats
            if (second, case.id, repeat) in verified
        ]
        if pairs:
            paired.append(CasePairs(case, tuple(pairs)))
    used = 2 * sum(len(each.pairs) for each in paired)
    ids = {case.id for case in cases}
    concerned = [each for each in attempts if each.arm in (first, second) and each.case in ids]
    return paired, len(concerned) - used
