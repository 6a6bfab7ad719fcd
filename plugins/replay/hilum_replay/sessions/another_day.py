"""A time zone in which it is another day, to find what depends on the day."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

_HOUR = 3600
# The hours that a time zone may be ahead of UTC or behind it.
_MAX_OFFSET = 24 * _HOUR
# With 23 hours, the hour is another one as well.
_SHIFTS = (23 * _HOUR, -23 * _HOUR, 24 * _HOUR, -24 * _HOUR)


def choose_time_zone(now: float) -> str:
    """Return a time zone, as the variable ``TZ`` names it, in which it is another day than here.

    Args:
        now: Unix time.
    """
    here = time.localtime(now)
    offset = here.tm_gmtoff
    for shift in _SHIFTS:
        there = time.gmtime(now + offset + shift)
        if abs(offset + shift) <= _MAX_OFFSET and there.tm_mday != here.tm_mday:
            return _name_time_zone(offset + shift)
    return _name_time_zone(-_MAX_OFFSET)


def _name_time_zone(offset: int) -> str:
    hours, minutes = divmod(abs(offset) // 60, 60)
    # In POSIX, the offset is what must be added to the local time.
    sign = "-" if offset > 0 else "+"
    return f"THERE{sign}{hours:02}:{minutes:02}"


@contextmanager
def use_another_day() -> Iterator[None]:
    """Use a time zone in which it is another day, in this process and in its child processes."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = choose_time_zone(time.time())
    _update_time_zone()
    try:
        yield
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        _update_time_zone()


def _update_time_zone() -> None:
    if hasattr(time, "tzset"):  # not on Windows
        time.tzset()
