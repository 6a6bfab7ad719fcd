"""Random numbers that depend only on the case, the seed and what is decided.

Two agents therefore meet the same slips at the same steps, whatever they did before: their results
can be compared in pairs (common random numbers).
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

_RANGE = 1 << 53


class Draws:
    """The random numbers of one attempt.

    Args:
        case: Id of the case.
        seed: Number of the repetition.
    """

    def __init__(self, case: str, seed: int) -> None:
        self._prefix = f"{case}\0{seed}"

    def draw(self, *place: object) -> float:
        """Return a number from 0 up to, but not including, 1.

        Args:
            place: What is decided, such as a step and the name of a slip.
        """
        text = "\0".join([self._prefix, *map(str, place)])
        digest = sha256(text.encode()).digest()
        return (int.from_bytes(digest[:8], "big") >> 11) / _RANGE

    def happens(self, probability: float, *place: object) -> bool:
        """Return whether something with the given probability happens."""
        return self.draw(*place) < probability

    def choose(self, shares: Mapping[str, float], *place: object) -> str:
        """Return one of the names, in proportion to their shares; empty if all shares are 0."""
        left = self.draw(*place) * sum(shares.values())
        for name, share in shares.items():
            if left < share:
                return name
            left -= share
        return ""
