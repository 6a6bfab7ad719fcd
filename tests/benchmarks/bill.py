"""How long ``hilum cost`` takes for a month of sessions.

Run it: ``python tests/benchmarks/bill.py``.

The month has 300 sessions of 50 turns each (``--sessions N``, ``--turns N``). They are copies of
one session that was worked with all plugins against a scripted provider over HTTP, so prompts, tool
lists and events have their real sizes. Prints medians of five for whole processes: seconds that
passed, and seconds of the processor.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import hilum
import trio
from hilum.events import AnyEvent
from hilum.store import MemoryStore, SessionInfo
from hilum_store import SqliteStore
from msgspec.structs import replace

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "plugins" / "trace"))
from counting_server import MODEL, PRICE, PROMPT, CountingProvider, look  # noqa: E402
from hilum_replay import serve  # noqa: E402


async def work(turns: int, workspace: Path) -> list[AnyEvent]:
    """Return the events of a session of one prompt, worked with all plugins."""
    provider = CountingProvider(turns, subtasks=0.0)
    store = MemoryStore()
    async with serve(provider.answer, keep=0) as server:
        settings = {
            "model": MODEL,
            "models.providers": {"lab": {"base_url": server.url, "api": "anthropic"}},
            "models.models": {MODEL: {"window": 200_000, "price": PRICE}},
            "turns": 100_000,
        }
        async with (
            hilum.open_kernel(settings=settings, tools=[look], store=store) as kernel,
            kernel.open_session(workspace, approve="auto") as session,
        ):
            ended = await session.run(PROMPT)
            assert ended.text == "All done.", ended
            return list(await store.read(session.id, 0, 1_000_000))


async def fill(path: Path, workspace: Path, content: list[AnyEvent], sessions: int) -> None:
    """Write copies of a session, each of which counts."""
    store = SqliteStore(path)
    now = time.time()
    for number in range(sessions):
        identity = f"20261101-{number:06}-00000000"
        info = SessionInfo(identity, str(workspace), created=now, updated=now)
        log = await store.create(info)
        log.append([replace(event, run=event.run and f"{event.run}-{number}") for event in content])
        await log.close()
    await store.close()


def processor() -> float:
    """Return the seconds of the processor that ended child processes have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def medians(command: list[str], environ: dict[str, str], cwd: Path) -> tuple[float, float]:
    """Return the medians of five runs of a command: seconds passed, and processor."""
    passed = []
    worked = []
    for _ in range(5):
        began = time.perf_counter()
        before = processor()
        subprocess.run(command, check=True, env=environ, cwd=cwd, stdout=subprocess.DEVNULL)
        passed.append(time.perf_counter() - began)
        worked.append(processor() - before)
    return statistics.median(passed), statistics.median(worked)


def main() -> None:
    """Fill a store and measure the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=300)
    parser.add_argument("--turns", type=int, default=50)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder).resolve()
        environ = {**os.environ, "HOME": folder}
        for name in ("HILUM_DATA", "HILUM_CONFIG"):
            environ[name] = os.environ[name] = str(base / name)
            (base / name).mkdir()
        workspace = base / "work"
        workspace.mkdir()
        content = trio.run(work, options.turns, workspace)
        path = base / "HILUM_DATA" / "sessions.db"
        trio.run(fill, path, workspace, content, options.sessions)
        size = path.stat().st_size / 1e6
        print(f"{options.sessions} sessions of {len(content)} events, {size:.0f} MB")
        for by in ("model", "plugin"):
            command = [sys.executable, "-m", "hilum", "cost", "--since", "30d", "--by", by]
            passed, worked = medians(command, environ, workspace)
            print(f"hilum cost --by {by}: {passed:.2f} s, processor {worked:.2f} s")


if __name__ == "__main__":
    main()
