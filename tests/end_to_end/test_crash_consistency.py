"""Memory and log never part: what cannot be written is not folded, and a resumed session has the
same past.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import hilum
import pytest
import trio
from hilum import Kernel, Output, hookimpl, tool
from hilum.errors import StoreError
from hilum.events import AnyEvent, CallDone, RunEnded, RunStarted
from hilum.testing import Answer, ModelProvider, ScriptedModel, use
from hilum_store import SqliteStore


@tool(risk="read", effect="pure")
async def odd_text() -> str:
    """Give a file name that is no text."""
    return b"na\xefve.txt".decode(errors="surrogateescape")


@tool(risk="read", effect="pure")
async def odd_data() -> Output:
    """Give data that no log can hold."""
    return Output("Fine.", data={"thing": object()})


class Odd:
    """A plugin whose tools give what cannot be written."""

    def __init__(self, answers: list[str | Answer]) -> None:
        self.model = ScriptedModel(answers)

    @hookimpl
    def provide_models(self):  # type: ignore[no-untyped-def]
        return [ModelProvider({"m": self.model})]

    @hookimpl
    def provide_tools(self):  # type: ignore[no-untyped-def]
        return [odd_text, odd_data]


@asynccontextmanager
async def opened(folder: Path, *answers: str | Answer) -> AsyncIterator[Kernel]:
    store = SqliteStore(folder / "sessions.db")
    environ = {"HILUM_CONFIG": str(folder), "HILUM_DATA": str(folder)}
    with trio.fail_after(60):
        async with hilum.open_kernel([Odd(list(answers))], store=store, environ=environ) as kernel:
            yield kernel


def results(events: list[AnyEvent]) -> dict[str, tuple[str, str]]:
    return {
        e.result.name: (e.result.code, e.result.text) for e in events if isinstance(e, CallDone)
    }


async def test_what_cannot_be_written_is_an_error_of_the_call_and_the_run_goes_on(
    tmp_path: Path,
) -> None:
    """Text loses its odd characters, odd data is the plugin's fault.

    The resumed conversation equals the live one.
    """
    async with opened(tmp_path, use("odd_text"), use("odd_data"), "Done.") as kernel:
        async with kernel.open_session(tmp_path) as session:
            ended = await session.run("Look \udcef around.")
            assert ended.state == "completed"
            live = list(session.agents["main"].conversation.messages)
        events = list(await kernel.store.read(session.id))
        async with kernel.open_session(resume=session.id) as session:
            assert session.agents["main"].conversation.messages == live
    assert results(events)["odd_text"] == ("", "na?ve.txt")
    assert results(events)["odd_data"][0] == "E_PLUGIN"
    assert [event.text for event in events if isinstance(event, RunStarted)] == ["Look ? around."]


async def test_a_reader_ends_when_the_log_breaks(tmp_path: Path) -> None:
    """Who waits for events of a session that nobody works in is told, too, that none will come."""
    async with opened(tmp_path, "Done.") as kernel, kernel.open_session(tmp_path) as session:
        ended = trio.Event()

        async def read() -> None:
            async for _ in session.events(session.journal.last):
                pass
            ended.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await trio.testing.wait_all_tasks_blocked()
            (tmp_path / "sessions.db").rename(tmp_path / "moved.db")
            with pytest.raises(StoreError):
                session.note("test.fact")
            await ended.wait()
        with pytest.raises(StoreError):
            await session.run("Go on.")
        (tmp_path / "moved.db").rename(tmp_path / "sessions.db")


async def test_events_that_a_half_writes_while_a_session_is_resumed_are_read_in_order(
    tmp_path: Path,
) -> None:
    """A plugin may write before the past is folded; readers still get every event once."""

    class Noting:
        @hookimpl
        async def open_session(self, session):  # type: ignore[no-untyped-def]
            session.note("noting.opened")

    async with opened(tmp_path, "One.", "Two.") as kernel:
        async with kernel.open_session(tmp_path) as session:
            await session.run("First.")
        kernel.host.plugins["Noting"] = hilum.plugins.Plugin("Noting", Noting())
        async with kernel.open_session(resume=session.id) as session:
            await session.run("Second.")
            seen: list[int] = []
            async for event in session.events():
                seen.append(event.seq)
                if isinstance(event, RunEnded) and event.text == "Two.":
                    break
    assert seen == list(range(1, len(seen) + 1))
