"""A plugin of pytest: the log of every bench of every test has a complete trace.

Each event belongs to exactly one span, whatever the test does to the session.
"""

from typing import Any

import pytest
from hilum.testing import bench as bench_module
from hilum_trace import fold_spans

_benches: list[bench_module.Bench] = []


class RecordedBench(bench_module.Bench):
    """A bench that is checked when its test has ended."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        _benches.append(self)


# ``open_bench`` creates this class.
bench_module.Bench = RecordedBench  # type: ignore[misc]


@pytest.fixture(autouse=True)
def check_spans() -> Any:
    """Check the logs of the benches that a test opened."""
    _benches.clear()
    yield
    for bench in _benches:
        # The benches are closed, so this is what they read last.
        events = bench._events
        owned = [seq for span in fold_spans(events).spans for seq in span.events]
        assert sorted(owned) == [event.seq for event in events]
    _benches.clear()
