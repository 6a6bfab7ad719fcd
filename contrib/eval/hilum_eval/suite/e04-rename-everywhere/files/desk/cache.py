"""Keeps rates for a while."""

from functools import lru_cache

from desk.rates import fetch_rate

cached_rate = lru_cache(maxsize=64)(fetch_rate)


def prefetch_rates(pairs):
    """Fill the cache."""
    for source, target in pairs:
        cached_rate(source, target)
