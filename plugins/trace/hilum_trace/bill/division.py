"""Division of whole numbers of tokens in proportion to sizes, so that the parts add up exactly."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from math import floor
from typing import TypeVar

K = TypeVar("K", bound=Hashable)


def divide(total: int, sizes: Mapping[K, float]) -> dict[K, int]:
    """Divide a number of tokens in proportion to sizes (largest remainder method).

    Args:
        total: The number of tokens.
        sizes: The size of each part. Negative sizes, which rounding errors cause, count as 0.

    Returns:
        The number of tokens of each part that gets any. The sum is ``total``, unless no part has a
        size: the result is then empty.
    """
    positive = {key: size for key, size in sizes.items() if size > 0}
    whole = sum(positive.values())
    if not whole or total <= 0:
        return {}
    exact = {key: total * size / whole for key, size in positive.items()}
    parts = {key: floor(share) for key, share in exact.items()}
    missing = total - sum(parts.values())
    by_remainder = sorted(exact, key=lambda key: parts[key] - exact[key])
    for key in by_remainder[:missing]:
        parts[key] += 1
    return {key: tokens for key, tokens in parts.items() if tokens}
