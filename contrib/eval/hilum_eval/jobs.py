"""The attempts of a measurement, and the order in which they are made."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from hilum_eval.arm import Arm
from hilum_eval.case import Case


# Compared by identity, because cases contain mappings and cannot be hashed.
@attrs.frozen(eq=False)
class Job:
    """An attempt to make.

    Args:
        case: The case.
        arm: The arm.
        repeat: Number of the repetition, counted from 0.
    """

    case: Case
    arm: Arm
    repeat: int


def make_jobs(cases: Sequence[Case], arms: Sequence[Arm], repeats: int) -> list[Job]:
    """Return all attempts, in an order in which a part of them is balanced.

    Args:
        cases: The cases.
        arms: The arms, which are compared on equal cases and seeds.
        repeats: Number of attempts of each arm at each case.
    """
    return [Job(case, arm, repeat) for repeat in range(repeats) for case in cases for arm in arms]
