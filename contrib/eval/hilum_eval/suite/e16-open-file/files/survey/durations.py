"""Summaries of durations, in seconds."""


def mean(values):
    """Return the mean of the values."""
    total = 0.0
    for value in values:
        total += value
    return total / len(values)


def spread(values):
    """Return the distance between the lowest and the highest value."""
    return max(values) - min(values)


def longest(values, number=3):
    """Return the longest durations, the longest first."""
    return sorted(values, reverse=True)[:number]
