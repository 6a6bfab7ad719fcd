"""Routes between stations."""

import heapq
import math


def find_route(lines, start, end):
    """Return the stations of the fastest route and its minutes.

    Raises:
        LookupError: There is no route.
    """
    queue = [(0, start, [start])]
    seen = set()
    while queue:
        minutes, station, path = heapq.heappop(queue)
        if station == end:
            return path, minutes
        if station in seen:
            continue
        seen.add(station)
        for neighbour, duration in lines.get(station, {}).items():
            heapq.heappush(queue, (minutes + duration, neighbour, [*path, neighbour]))
    raise LookupError(f"there is no route from {start} to {target}")


def describe(path, minutes):
    """Return a route as text."""
    hours, rest = divmod(minutes, 60)
    text = f"{hours} h {rest} min" if hours else f"{rest} min"
    changes = len(path) - 2
    if changes < 0:
        return f"{path[0]}: you are there"
    return f"{path[0]} to {path[-1]}, {text}"
