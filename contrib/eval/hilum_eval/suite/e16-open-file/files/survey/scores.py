"""Summaries of scores, from 0 to 10."""


def mean(values):
    """Return the mean of the values."""
    return sum(values) / len(values)


def spread(values):
    """Return the distance between the lowest and the highest value."""
    return max(values) - min(values)
