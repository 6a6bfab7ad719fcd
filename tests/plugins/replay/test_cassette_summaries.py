"""A session whose past was summarized: recorded over HTTP, played with the same window, with a
larger one, and by request.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import hilum_memory
import hilum_replay
import pytest
import trio
from hilum import Session, open_kernel, tool
from hilum.events import AnyEvent, Compacted, ModelUsed, PluginEvent
from hilum.messages import AssistantMessage, Text, ToolCall
from hilum.testing import plugin
from hilum_models.providers import HttpProvider
from hilum_models.settings import ModelSettings, ModelsSettings
from hilum_models.transport import Transport
from hilum_replay import Cassette, WireRequest, dumps, loads, record, serve

BASES = {"chat": "/v1", "responses": "/v1", "anthropic": "", "gemini": "/v1beta"}
WINDOW, TURNS = 14_000, 20
RECORDINGS: dict[str, tuple[Cassette, list[AnyEvent]]] = {}


@tool(risk="read", effect="pure")
def look(n: int) -> str:
    """Look."""
    return f"line {n} of it\n" * 250


def script() -> Any:
    """Look some times, then answer; each summary says which it is."""
    looked = summaries = 0

    def answer(request: WireRequest) -> AssistantMessage | str:
        nonlocal looked, summaries
        if request.system.startswith("You summarize"):
            summaries += 1
            said = f"Summary {summaries}: app.py counts from one, test_total fails."
            return "\n".join(
                f"## {name}\n{said}\n"
                for name in ("Goal", "Decisions", "Files", "Facts", "Open work")
            )
        looked += 1
        if looked > TURNS:
            return "Done."
        call = ToolCall(f"call_{looked:08}", "look", f'{{"n":{looked}}}')
        return AssistantMessage((Text(f"Look {looked}.", "model"), call))

    return answer


@asynccontextmanager
async def session_in(
    folder: Path, model: str, url: str = "", api: str = "chat"
) -> AsyncIterator[Session]:
    await trio.Path(folder).mkdir(exist_ok=True)
    transport = Transport()
    small = ModelsSettings(models={"test/m": ModelSettings(window=WINDOW, max_output=1_000)})
    settings = {"memory.thin_over": 100_000}
    plugins = [plugin("tools", look), hilum_memory, hilum_replay]
    try:
        async with open_kernel(
            plugins=plugins, model=model, environ={}, settings=settings
        ) as kernel:
            if url:
                kernel.router.replace(
                    HttpProvider("test", url + BASES[api], api, transport, settings=small)
                )
            async with kernel.open_session(folder, approve="auto") as session:
                yield session
    finally:
        await transport.aclose()


async def played(session: Session) -> list[AnyEvent]:
    with trio.fail_after(60):
        ended = await session.run("Fix the total.")
    assert (ended.state, ended.text) == ("completed", "Done."), ended
    return list(await session.kernel.store.read(session.id))


async def recorded(folder: Path, api: str = "chat") -> tuple[Cassette, list[AnyEvent]]:
    """Return the recording of an api, which several tests share."""
    if api not in RECORDINGS:
        async with (
            serve(script()) as server,
            session_in(folder, "test/m", server.url, api) as session,
        ):
            events = await played(session)
            assert not server.failures
        RECORDINGS[api] = loads(dumps(record(events))), events
    return RECORDINGS[api]


def notes(events: list[AnyEvent]) -> list[str]:
    return [event.summary for event in events if isinstance(event, Compacted)]


def extracts(events: list[AnyEvent]) -> list[AnyEvent]:
    return [
        event
        for event in events
        if isinstance(event, PluginEvent) and event.name == "memory.extracted"
    ]


@pytest.mark.parametrize("api", BASES)
async def test_the_same_window_asks_for_the_same_summaries_and_gets_them(
    tmp_path: Path, api: str
) -> None:
    """Over HTTP each compaction comes where it came, and its note is the recorded one."""
    cassette, before = await recorded(tmp_path / "one", api)
    asides = [exchange for exchange in cassette.exchanges if exchange.aside]
    assert len(asides) == len(notes(before)) >= 2
    assert {exchange.agent for exchange in asides} == {"main/summary"}
    assert "Summary 2:" in notes(before)[1]
    async with (
        serve(cassette, workspace=tmp_path / "two") as server,
        session_in(tmp_path / "two", "test/m", server.url, api) as session,
    ):
        after = await played(session)
        assert not server.failures
        assert server.playback.left == 0
    assert notes(after) == notes(before)
    assert not extracts(after)


async def test_a_larger_window_needs_no_summaries(tmp_path: Path) -> None:
    cassette, _ = await recorded(tmp_path / "one")
    (tmp_path / "c.toml").write_text(dumps(cassette))
    async with session_in(tmp_path / "two", f"cassette/{tmp_path}/c.toml") as session:
        assert notes(await played(session)) == []
        model: Any = session.kernel.router.model(
            session.kernel.router.resolve(f"cassette/{tmp_path}/c.toml")
        )
        assert model.playback(session.id).left == 0


async def test_a_summary_that_was_asked_for_is_played_in_process(tmp_path: Path) -> None:
    """The compaction that the user asked for comes again, with the recorded summary and not an
    extract.
    """

    async def talk(session: Session) -> list[AnyEvent]:
        await played(session)
        session.compact()
        with trio.fail_after(60):
            assert (await session.run("Thanks.")).text == "Done."
        return list(await session.kernel.store.read(session.id))

    async with (
        serve(script()) as server,
        session_in(tmp_path / "one", "test/m", server.url) as session,
    ):
        before = await talk(session)
    (tmp_path / "c.toml").write_text(dumps(record(before)))
    async with session_in(tmp_path / "two", f"cassette/{tmp_path}/c.toml") as session:
        after = await talk(session)
    assert len(notes(after)) == 1
    assert "Summary 1:" in notes(after)[0]
    assert not extracts(after)


async def test_what_else_was_asked_beside_the_conversation_is_not_recorded(tmp_path: Path) -> None:
    """Playing a cassette must not, for example, write its memories into those of whoever plays
    it.
    """
    _, events = await recorded(tmp_path / "one")
    used = [event for event in events if isinstance(event, ModelUsed)]
    others = [
        ModelUsed(
            model="test/m", purpose="memories", asked=e.asked, message=e.message, agent="main"
        )
        for e in used
    ]
    assert (
        not record([*[event for event in events if event not in used], *others]).exchanges[-1].aside
    )
    assert not any(exchange.aside for exchange in record(others).exchanges)
