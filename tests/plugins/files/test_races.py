"""Several agents, and several processes, on one file: no update is lost, no read is torn."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import counting


def check(root: Path, names: list[str], times: int) -> None:
    """The common line has counted every step of every agent."""
    lines = (root / "count.txt").read_text().splitlines()
    assert lines[: len(names) + 1] == [
        f"all = {len(names) * times}",
        *(f"{name} = {times}" for name in names),
    ]
    assert [path.name for path in root.iterdir()] == ["count.txt"]


async def test_agents_of_one_session_lose_nothing(
    root: Path, trials: Callable[[int, int], int]
) -> None:
    """Each reads and writes until its write is taken."""
    times = trials(5, 15)
    names = [f"agent{number}" for number in range(4)]
    counting.start(root / "count.txt", names)
    await counting.agents(root, names, times)
    check(root, names, times)


def test_processes_in_one_workspace_lose_nothing(
    root: Path, trials: Callable[[int, int], int]
) -> None:
    """Several hilums in one folder keep apart, too."""
    processes = trials(2, 3)
    times = trials(5, 15)
    names = [f"agent{number}" for number in range(2 * processes)]
    counting.start(root / "count.txt", names)
    program = [sys.executable, counting.__file__, str(root), str(times)]
    started = [
        subprocess.Popen([*program, *names[2 * n : 2 * n + 2]], stdout=subprocess.PIPE)
        for n in range(processes)
    ]
    assert [process.wait(timeout=600) for process in started] == [0] * processes
    for process in started:
        process.communicate()
    check(root, names, times)
