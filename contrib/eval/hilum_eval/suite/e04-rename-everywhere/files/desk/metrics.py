"""Counters for the dashboards."""

COUNTERS = {}


def count(name):
    """Count an event, such as "fetch_rate"."""
    COUNTERS[name] = COUNTERS.get(name, 0) + 1
