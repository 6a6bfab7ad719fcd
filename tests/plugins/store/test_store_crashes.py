"""Killed at any instant, from many processes at once: what was appended is there, in order, without
gaps.
"""

# ruff: noqa: ASYNC240  (tests may touch files directly)

from pathlib import Path

import pytest
import trio
import trio.lowlevel
from hilum.events import PluginEvent, RunEnded
from hilum.store import SessionInfo
from hilum_store import SqliteStore


async def read_all(store: SqliteStore, session: str) -> list[int]:
    found: list[int] = []
    while page := await store.read(session, after=len(found)):
        found += [event.seq for event in page]
    return found


async def test_checkpoint_at_the_end_of_a_run_empties_the_log_file(
    store: SqliteStore, path: Path
) -> None:
    """The file beside the sessions does not grow for ever: after a run its space is used again."""
    log = await store.create(SessionInfo(id="s1", workspace="/w"))
    beside = path.with_name("sessions.db-wal")
    with trio.fail_after(60):
        for run in range(200):
            first = run * 100
            for seq in range(first + 1, first + 100):
                log.append([PluginEvent(seq=seq, name="test.fact", data={"x": "x" * 2000})])
            size = path.stat().st_size
            log.append([RunEnded(seq=first + 100, agent="main", state="completed")])
            while path.stat().st_size == size:  # noqa: ASYNC110 (a thread does it)
                await trio.sleep(0.001)
            # A checkpoint that is still at work when the next run begins lets the file grow once
            # more. One that never empties it leaves it the larger one: every page went through it.
            if path.stat().st_size > 2 * beside.stat().st_size:
                return
    pytest.fail(
        f"{beside.stat().st_size} bytes beside {path.stat().st_size}: the space is never used again"
    )


async def test_long_run_is_checkpointed_in_its_midst(store: SqliteStore, path: Path) -> None:
    """Megabytes without the end of a run start a checkpoint as well, and appending goes on
    meanwhile.
    """
    log = await store.create(SessionInfo(id="s1", workspace="/w"))
    with trio.fail_after(60):
        while path.stat().st_size < 4_000_000:
            log.append([PluginEvent(seq=log.last + 1, name="test.fact", data={"x": "x" * 200_000})])
            await trio.lowlevel.checkpoint()
    assert await read_all(store, "s1") == list(range(1, log.last + 1))
