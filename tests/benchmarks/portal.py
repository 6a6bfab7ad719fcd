"""What a call through the portal costs, beside a call in a thread.

Run: ``python tests/benchmarks/portal.py``.
"""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

from hilum.hosts import aio, blocking

CALLS, ROUNDS = 2_000, 5


class Side:
    """A trio side with next to nothing to do."""

    async def nothing(self) -> None:
        """Return at once."""


@asynccontextmanager
async def open_side() -> AsyncIterator[Side]:
    """Open it."""
    yield Side()


def nothing() -> None:
    """Return at once."""


async def from_asyncio() -> tuple[float, float, float]:
    """Seconds for a call through the portal, one in a thread of the loop's pool, and for opening
    and closing.
    """
    began = time.perf_counter()
    async with aio.hosted(open_side, wraps=(Side,))():
        pass
    opened = time.perf_counter() - began
    async with aio.hosted(open_side, wraps=(Side,))() as side:
        began = time.perf_counter()
        for _ in range(CALLS):
            await side.nothing()
        portal = time.perf_counter() - began
    began = time.perf_counter()
    for _ in range(CALLS):
        await asyncio.to_thread(nothing)
    return portal / CALLS, (time.perf_counter() - began) / CALLS, opened


def from_plain() -> tuple[float, float]:
    """Seconds for a call through the portal, and one in a thread of a pool."""
    with blocking.hosted(open_side, wraps=(Side,))() as side, ThreadPoolExecutor(1) as pool:
        began = time.perf_counter()
        for _ in range(CALLS):
            side.nothing()
        portal = time.perf_counter() - began
        began = time.perf_counter()
        for _ in range(CALLS):
            pool.submit(nothing).result()
        return portal / CALLS, (time.perf_counter() - began) / CALLS


def main() -> None:
    """Measure and print."""
    hosted = [asyncio.run(from_asyncio()) for _ in range(ROUNDS)]
    plain = [from_plain() for _ in range(ROUNDS)]
    for host, rounds in (("asyncio", [(a, b) for a, b, _ in hosted]), ("plain code", plain)):
        portal, thread = (statistics.median(column) * 1e6 for column in zip(*rounds, strict=True))
        print(
            f"{host}: {portal:.0f} µs a call, {thread:.0f} µs in a thread: {portal / thread:.1f} times"
        )
    print(f"opening and closing: {statistics.median(opened for *_, opened in hosted) * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
