"""What ``hilum batch`` adds to each task, and how much memory its driver needs.

``python tests/benchmarks/batch.py`` carries out 1,000 tasks that do nothing (a runner without a session) and
1,000 sessions whose model answers at once, with 2 jobs on this machine; ``--scheduler`` does the same
on a Dask cluster that it starts. ``hilum run`` as a process of its own is measured beside them.

The overhead of a task is the time that one of the jobs spends on it beyond the time in which the
session is open: workspace, process, result on disk. Processor time is less disturbed by other
programs than the wall time.
"""

import argparse
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import model_server

JOBS = 2
BAR = 50.0  # ms of overhead for a task
SUPPORT = Path(__file__).parents[1] / "support"
HILUM = (sys.executable, "-m", "hilum")


class Memory(threading.Thread):
    """Samples the resident memory of a process until it ends, in MB."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._path = Path(f"/proc/{pid}/statm")
        self.samples: list[float] = []
        self.start()

    def run(self) -> None:
        """Sample every 100 ms."""
        while True:
            try:
                pages = int(self._path.read_text().split()[1])
            except (OSError, IndexError):
                return
            self.samples.append(pages * resource.getpagesize() / 1e6)
            time.sleep(0.1)

    def growth(self) -> tuple[float, float]:
        """Return the median of the second tenth of the time, and of the last tenth."""
        tenth = max(1, len(self.samples) // 10)
        early = statistics.median(self.samples[tenth : 2 * tenth] or self.samples)
        return early, statistics.median(self.samples[-tenth:])


def processor_seconds() -> float:
    """Return the processor time of all processes that were started and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_batch(folder: Path, count: int, env: dict[str, str], *options: str) -> dict[str, float]:
    """Carry out tasks and return the figures of a task, in ms and MB."""
    tasks = folder / "tasks.txt"
    tasks.write_text("".join(f"Task {number}.\n" for number in range(count)))
    out = folder / "out"
    argv = [*HILUM, "batch", str(tasks), "--out", str(out), "--quiet", *options]
    before = processor_seconds()
    began = time.perf_counter()
    with subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL) as process:
        memory = Memory(process.pid)
        if process.wait():
            raise SystemExit(f"hilum batch failed with {process.returncode}")
    seconds = time.perf_counter() - began
    used = processor_seconds() - before
    rows = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert len(rows) == count
    assert all(row["state"] == "completed" for row in rows), rows[0]
    early, late = memory.growth()
    session = statistics.mean(row["session_seconds"] for row in rows)
    return {
        "task": seconds * JOBS / count * 1000,
        "session": session * 1000,
        "overhead": (seconds * JOBS / count - session) * 1000,
        "processor": used / count * 1000,
        "early": early,
        "late": late,
    }


def run_alone(folder: Path, count: int, env: dict[str, str]) -> float:
    """Return the processor time of ``hilum run`` in ms."""
    before = processor_seconds()
    for number in range(count):
        argv = [*HILUM, "run", f"Task {number}.", "-C", str(folder), "--quiet"]
        subprocess.run(argv, env=env, check=True, capture_output=True)
    return (processor_seconds() - before) / count * 1000


@contextmanager
def cluster(env: dict[str, str]) -> Iterator[str]:
    """Run a scheduler and a worker."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    words = ["--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
    quiet = {"env": env, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_scheduler", *words],
        **quiet,  # type: ignore[call-overload]
    )
    worker = subprocess.Popen(
        [*HILUM, "batch", "worker", address, "--threads", str(JOBS)],
        **quiet,  # type: ignore[call-overload]
    )
    try:
        yield address
    finally:
        for process in (worker, scheduler):
            process.terminate()
            process.wait()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--alone", type=int, default=10)
    parser.add_argument("--scheduler", action="store_true")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as temporary,
        model_server.start(0, "noop", "{}") as url,
    ):
        base = Path(temporary)
        env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        env |= {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none", "HILUM_MODEL": "openai/m"}
        env |= {"HILUM_DATA": f"{base}/own", "HILUM_CONFIG": f"{base}/own"}
        env["PYTHONPATH"] = str(SUPPORT)
        print(f"{options.count} tasks, {JOBS} jobs, ms for a task; MB of the driver\n")
        print("                     task  session  overhead  processor   MB early   late")
        kinds = {"no-op": ("--runner", "batch_runners:do_nothing"), "session": ()}
        for name, words in kinds.items():
            folder = base / name
            folder.mkdir()
            found = run_batch(folder, options.count, env, "--jobs", str(JOBS), *words)
            show(name, found)
        if options.scheduler:
            with cluster(env) as address:
                for name, words in kinds.items():
                    folder = base / f"dask-{name}"
                    folder.mkdir()
                    found = run_batch(folder, options.count, env, "--scheduler", address, *words)
                    show(f"{name}, Dask", found)
        work = base / "work"
        work.mkdir()
        alone = run_alone(work, options.alone, env)
        print(f"{'hilum run':16} {'':>8} {'':>8} {'':>9} {alone:10.1f}")
        print(f"\nbar: overhead < {BAR:.0f} ms, memory flat")


def show(name: str, found: dict[str, float]) -> None:
    """Print a row."""
    print(
        f"{name:16} {found['task']:8.1f} {found['session']:8.1f} {found['overhead']:9.1f}"
        f" {found['processor']:10.1f} {found['early']:10.1f} {found['late']:6.1f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
