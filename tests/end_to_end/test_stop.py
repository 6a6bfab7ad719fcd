"""Stopping ends everything in time, and however hilum ends no process is left."""

import sys
from pathlib import Path

import pytest
import trio

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import stop

RUNS = 15
pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="whole process trees are held on Linux only"
)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a benchmark puts into the environment is taken back."""
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "HILUM_DATA", "HILUM_CONFIG"):
        monkeypatch.setenv(name, "")


@pytest.mark.parametrize(("name", "most"), [("in process", 0.2), ("stubborn tree", 1.0)])
async def test_a_stopped_run_ends_in_time_and_leaves_nothing(name: str, most: float) -> None:
    """Stopped at random moments: an in-process tool within 200 ms, a stubborn process tree within a
    second.

    On a busy machine some stops may be late, and never all. ``benchmarks/stop.py`` tells how late.
    """
    with trio.fail_after(600):
        seconds, left = await stop.stops(name, RUNS)
    assert len(seconds) == RUNS
    assert min(seconds) < most
    assert not left


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize("way", stop.WAYS)
def test_however_hilum_ends_no_process_is_left(way: str) -> None:
    """A stubborn tree under ``hilum run`` is gone, with the warden, soon after the signal."""
    code, _, left = stop.end(way, 0.01)
    assert not left
    assert code != 0
