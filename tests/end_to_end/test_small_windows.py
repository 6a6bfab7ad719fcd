"""Long work in small windows, as a user has it: ``hilum run``, all plugins, a git repository, a
home of its own, real HTTP.
"""

import importlib.util
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow(cases=2, of="file")

spec = importlib.util.spec_from_file_location(
    "small_windows", Path(__file__).parents[1] / "benchmarks" / "small_windows.py"
)
assert spec
assert spec.loader
small_windows = importlib.util.module_from_spec(spec)
spec.loader.exec_module(small_windows)


@pytest.mark.parametrize(("window", "turns"), [(8_192, 3), (32_768, 5)])
async def test_dense_outputs_never_push_out_the_request(tmp_path, window, turns):
    """Twelve turns of 30,000 dense characters: the request is in each request sent, and a
    compaction serves several turns.
    """
    found = await small_windows.measure(tmp_path, window, 12)
    assert (found["state"], found["exit"], found["answer"]) == (
        "completed",
        0,
        "The totals differ by rounding.",
    ), found
    assert found["requests"] == found["with_request"] == found["paired"] == 13
    assert found["largest"] < window
    assert 1 <= found["compactions"] <= 13 / turns


async def test_a_window_that_cannot_hold_the_run_is_refused_before_any_call(tmp_path):
    found = await small_windows.measure(tmp_path, 3_000, 2)
    assert (found["state"], found["code"], found["exit"], found["requests"]) == (
        "failed",
        "E_WINDOW",
        2,
        0,
    )
    assert "3,000 tokens" in found["error"]
