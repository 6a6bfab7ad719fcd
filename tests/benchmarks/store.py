"""How long the session store takes. Run it: ``python tests/benchmarks/store.py``.

Prints medians (and the 99th percentile where one call counts), in a temporary folder or in the one
given.
"""

import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio
from hilum.events import (
    AnyEvent,
    CallDone,
    CallStarted,
    ModelStarted,
    PluginEvent,
    RoundEnded,
    RunEnded,
    RunStarted,
)
from hilum.messages import Text, ToolCall, ToolResult, UserMessage
from hilum.store import SessionInfo
from hilum_store import SqliteStore


def show(name: str, seconds: list[float], unit: str = "µs") -> None:
    scale = {"µs": 1e6, "ms": 1e3}[unit]
    seconds = sorted(seconds)
    middle, high = (
        seconds[len(seconds) // 2] * scale,
        seconds[min(len(seconds) - 1, len(seconds) * 99 // 100)] * scale,
    )
    print(f"{name:<48} {middle:10.2f} {unit}   99 %: {high:10.2f}   n = {len(seconds)}")


def timed(action: Callable[[], object], times: int) -> list[float]:
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        action()
        taken.append(time.perf_counter() - start)
    return taken


async def timed_async(action: Callable[[], Awaitable[object]], times: int) -> list[float]:
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        await action()
        taken.append(time.perf_counter() - start)
    return taken


def turn(seq: int) -> list[AnyEvent]:
    """The five events a turn with one tool call commits one by one."""
    call = ToolCall("c1", "read_file", '{"path": "src/module.py"}')
    text = Text("x = 1\n" * 300, "tool:read_file")
    return [
        ModelStarted(seq=seq, agent="main", run="r1", model="lab/model", turn=1),
        PluginEvent(
            seq=seq + 1, agent="main", run="r1", name="test.answer", data={"text": "y" * 800}
        ),
        CallStarted(seq=seq + 2, agent="main", run="r1", call=call, risk="read", effect="pure"),
        CallDone(
            seq=seq + 3, agent="main", run="r1", result=ToolResult("c1", "read_file", (text,))
        ),
        RoundEnded(seq=seq + 4, agent="main", run="r1"),
    ]


async def appending(folder: Path) -> None:
    for durability in ("process", "power"):
        store = SqliteStore(folder / f"{durability}.db", durability)
        log = await store.create(SessionInfo(id="bench", workspace="/w"))

        def one(log=log) -> None:  # type: ignore[no-untyped-def]
            log.append(
                [PluginEvent(seq=log.last + 1, at=1.0, agent="main", run="r1", name="test.fact")]
            )

        def five(log=log) -> None:  # type: ignore[no-untyped-def]
            for event in turn(log.last + 1):
                log.append([event])

        def run(log=log) -> None:  # type: ignore[no-untyped-def]
            log.append([RunEnded(seq=log.last + 1, agent="main", state="completed")])
            five()

        level = {"process": "NORMAL", "power": "FULL"}[durability]
        one()
        show(f"append one small event, {level}", timed(one, 3000 if level == "NORMAL" else 300))
        show(f"five commits of a turn, {level}", timed(five, 600 if level == "NORMAL" else 100))
        show(f"end of a run and the next turn, {level}", timed(run, 50), "ms")
        await store.close()


async def opening(path: Path) -> None:
    async def open_and_close() -> None:
        store = SqliteStore(path)
        start = time.perf_counter()
        await store.info("s1")
        opened.append(time.perf_counter() - start)
        await store.close()

    opened: list[float] = []
    await timed_async(open_and_close, 50)
    show("open an existing file, first question answered", opened, "ms")

    held = SqliteStore(path)
    await held.list()

    async def lease() -> None:
        await (await held.open("s1")).close()

    show("take and give up a lease", await timed_async(lease, 200))
    await held.close()


async def reading(path: Path) -> None:
    store = SqliteStore(path)
    log = await store.create(SessionInfo(id="s1", workspace="/w"))
    events = [event for number in range(2000) for event in turn(number * 5 + 1)]
    start = time.perf_counter()
    log.append(events)
    show("append 10,000 events at once", [time.perf_counter() - start], "ms")

    def pages() -> None:
        after = 0
        while page := log.read(after):
            after += len(page)

    show("read 10,000 events in pages of 1,000", timed(pages, 10), "ms")
    for number in range(1000):
        other = await store.create(
            SessionInfo(id=f"x{number}", workspace=f"/w{number % 5}", title="A title")
        )
        message = UserMessage((Text("Do it"),))
        other.append([RunStarted(seq=1, agent="main", run="r1", text="Do it", message=message)])
        await other.close()
    show("list 1,000 sessions", await timed_async(store.list, 30), "ms")
    show("list one workspace of 200", await timed_async(lambda: store.list("/w1"), 30), "ms")
    await log.close()
    await store.close()


async def deleting(path: Path) -> None:
    store = SqliteStore(path)
    start = time.perf_counter()
    await store.delete("s1")
    show("delete a session of 10,000 events", [time.perf_counter() - start], "ms")
    await store.close()


async def main() -> None:
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as name:
        folder = Path(name)
        await appending(folder)
        await reading(folder / "many.db")
        await opening(folder / "many.db")
        await deleting(folder / "many.db")


if __name__ == "__main__":
    trio.run(main)
