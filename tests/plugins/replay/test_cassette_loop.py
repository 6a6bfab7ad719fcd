"""Record a session through the real loop and the real gateway.

Play it in process and over HTTP, elsewhere.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import hilum_replay
import pytest
import trio
from hilum import Call, Kernel, Session, hookimpl, open_kernel, tool
from hilum.errors import UsageError
from hilum.events import AnyEvent, CallDone, Delta, ModelAnswered, RunEnded
from hilum.messages import AssistantMessage, Block, Layer, Text, Thinking, ToolCall
from hilum_models.providers import HttpProvider
from hilum_models.transport import Transport
from hilum_replay import Cassette, Recorder, WireRequest, follow, load, record, serve

BASES = {"chat": "/v1", "responses": "/v1", "anthropic": "", "gemini": "/v1beta"}


class Tools:
    """A plugin with everything that reaches a model: layers, context, tools that run and fail,
    notes.
    """

    name = "bench_tools"

    def __init__(self, word: str = "words") -> None:
        self.word = word

    @tool(risk="read", effect="pure")
    async def count_words(self, call: Call, path: str) -> str:
        """Count the words of a file.

        Args:
            path: The file.
        """
        text = await call.workspace.read_text(path)
        return f"{len(text.split())} {self.word} in {call.workspace.root}/{path}, took {trio.current_time():.4f} seconds"

    @hookimpl
    def provide_tools(self) -> list[Any]:
        return [self.count_words]

    @hookimpl
    def build_prompt_layer(self, agent: Any) -> Layer:
        return Layer(0, "meta", f"You work in {agent.session.workspace.root}.")

    @hookimpl
    def gather_context(self) -> list[Block]:
        return [Block("open_file", "print(1)", "a.py")]

    @hookimpl
    def remind(self, results: Any) -> str | None:
        return "Mind the failure." if any(result.code for result in results) else None


def script(request: WireRequest) -> AssistantMessage:
    """Two runs: three calls at once of which one fails and one is unknown, an answer.

    Then a plain answer.
    """
    last = request.messages[-1]
    if request.number == 1:
        assert "You work in" in request.system
        return AssistantMessage(
            (
                Thinking("Let me see."),
                Text("Counting. 🌱", "model"),
                ToolCall("call_11111111", "count_words", '{"path":"a.txt"}'),
                ToolCall("call_22222222", "count_words", '{"path":"missing.txt"}'),
                ToolCall("call_33333333", "no_such_tool", "{}"),
            )
        )
    words = getattr(last, "text", "") or str(last)
    return AssistantMessage(
        (Text("Two words, and a failure." if "Mind" in words else "You are welcome.", "model"),)
    )


@asynccontextmanager
async def session_in(
    folder: Path, model: str, word: str = "words", url: str = "", api: str = ""
) -> AsyncIterator[Session]:
    await trio.Path(folder).mkdir(exist_ok=True)
    await trio.Path(folder / "a.txt").write_text("two words")
    transport = Transport()
    try:
        async with open_kernel(
            plugins=[Tools(word), hilum_replay], model=model, environ={}
        ) as kernel:
            add(kernel, url, api, transport)
            async with kernel.open_session(folder, approve="auto") as session:
                yield session
    finally:
        await transport.aclose()


def add(kernel: Kernel, url: str, api: str, transport: Transport) -> None:
    if url:
        kernel.router.replace(HttpProvider("test", url + BASES[api], api, transport))


async def two_runs(session: Session) -> list[RunEnded]:
    with trio.fail_after(60):
        return [await session.run("Count, please."), await session.run("Thank you.")]


async def events_of(session: Session) -> list[AnyEvent]:
    return list(await session.kernel.store.read(session.id))


async def make(folder: Path, path: Path, api: str = "chat") -> tuple[Cassette, list[RunEnded]]:
    """Record the script live to a file, and check that recording it afterwards gives the same."""
    async with (
        serve(script) as server,
        session_in(folder, "test/m", url=server.url, api=api) as session,
    ):
        recorder = Recorder(path=path)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow, session.events(), recorder)
            ends = await two_runs(session)
            with trio.fail_after(60):
                while len(recorder.cassette.exchanges) < 3:
                    await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert not server.failures
        afterwards = record(await events_of(session))
    assert load(path) == recorder.cassette == afterwards
    return afterwards, ends


def outcome(events: list[AnyEvent], folder: Path) -> list[tuple[Any, ...]]:
    """What happened, without times, ids of runs and the folder."""
    told: list[tuple[Any, ...]] = []
    for event in events:
        match event:
            case ModelAnswered(message=message, usage=usage):
                told.append(
                    (
                        message.text,
                        [(c.id, c.name, c.arguments) for c in message.calls],
                        message.stop,
                        usage.total,
                    )
                )
            case CallDone(result=result):
                told.append(
                    (
                        result.call_id,
                        result.code,
                        result.text.split(" took ")[0].replace(str(folder), "W"),
                    )
                )
            case RunEnded(state=state, text=text):
                told.append((state, text))
    return sorted(told, key=str)


async def test_a_session_is_recorded_and_played_elsewhere(tmp_path: Path) -> None:
    """Strictly the same requests, answers and results, in another folder, in process."""
    cassette, ends = await make(tmp_path / "one", tmp_path / "c.toml")
    assert [end.state for end in ends] == ["completed", "completed"]
    assert ends[0].text == "Two words, and a failure."
    text = await trio.Path(tmp_path / "c.toml").read_text()
    assert str(tmp_path) not in text
    assert "{workspace}/a.txt" in text
    assert len(cassette.exchanges) == 3
    async with session_in(tmp_path / "two", f"cassette/{tmp_path}/c.toml") as session:
        again = await two_runs(session)
        events = await events_of(session)
    assert [(end.state, end.text, end.turns) for end in again] == [
        (end.state, end.text, end.turns) for end in ends
    ]
    played = record(events)
    assert [e.answer.parts for e in played.exchanges] == [
        e.answer.parts for e in cassette.exchanges
    ]
    assert [e.layers for e in played.exchanges] == [e.layers for e in cassette.exchanges]


@pytest.mark.parametrize("api", BASES)
async def test_a_cassette_is_served_to_the_real_gateway_and_loop(tmp_path: Path, api: str) -> None:
    """Recorded over one format, played over each of the four: the same things happen."""
    cassette, _ = await make(tmp_path / "one", tmp_path / "c.toml")
    async with (
        serve(cassette, workspace=tmp_path / "two") as server,
        session_in(tmp_path / "two", "test/m", url=server.url, api=api) as session,
    ):
        ends = await two_runs(session)
        assert not server.failures
        assert server.playback is not None
        assert server.playback.left == 0
        served = outcome(await events_of(session), tmp_path / "two")
    assert [end.text for end in ends] == ["Two words, and a failure.", "You are welcome."]
    async with session_in(tmp_path / "three", f"cassette/{tmp_path}/c.toml") as session:
        await two_runs(session)
        assert outcome(await events_of(session), tmp_path / "three") == served


@pytest.mark.parametrize("way", ["process", "http"])
async def test_a_changed_tool_is_found_and_shown(tmp_path: Path, way: str) -> None:
    """The run fails with the exchange, the line that was expected and the line that came."""
    cassette, _ = await make(tmp_path / "one", tmp_path / "c.toml")
    async with serve(cassette, workspace=tmp_path / "two") as server:
        model = f"cassette/{tmp_path}/c.toml" if way == "process" else "test/m"
        url = server.url if way == "http" else ""
        async with session_in(
            tmp_path / "two", model, word="tokens", url=url, api="anthropic"
        ) as session:
            with trio.fail_after(60):
                end = await session.run("Count, please.")
    assert end.state == "failed"
    for words in (
        "exchange 2 of 3",
        "- 2 words in {workspace}/a.txt",
        "+ 2 tokens in {workspace}/a.txt",
    ):
        assert words in end.error
    assert "--record" in end.hint + end.error


async def test_strict_play_sees_a_changed_prompt(tmp_path: Path) -> None:
    """In the strict mode another text of a tool is enough.

    It names the first thing that differs.
    """
    await make(tmp_path / "one", tmp_path / "c.toml")
    async with session_in(tmp_path / "two", f"cassette/{tmp_path}/c.toml?mode=strict") as session:
        with trio.fail_after(60):
            end = await session.run("Count, please.")
    assert end.state == "failed"  # the seconds that the tool took
    assert "exchange 2 of 3" in end.error


async def test_one_more_prompt_than_recorded_is_told(tmp_path: Path) -> None:
    """The end of a cassette is an error that says so."""
    await make(tmp_path / "one", tmp_path / "c.toml")
    async with session_in(tmp_path / "two", f"cassette/{tmp_path}/c.toml") as session:
        await two_runs(session)
        with trio.fail_after(60):
            end = await session.run("One more?")
    assert end.state == "failed"
    assert "has ended" in end.error
    assert "One more?" in end.error


async def test_deltas_are_streamed_while_it_plays(tmp_path: Path) -> None:
    """A played answer arrives in pieces, as a live one does."""
    await make(tmp_path / "one", tmp_path / "c.toml")
    pieces: list[str] = []
    async with session_in(tmp_path / "two", f"cassette/{tmp_path}/c.toml") as session:

        async def listen() -> None:
            async for event in session.events(deltas=True):
                if isinstance(event, Delta) and event.kind == "text":
                    pieces.append(event.text)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen)
            await two_runs(session)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
    assert "Counting. 🌱" in "".join(pieces)


async def test_a_cassette_that_is_missing_is_a_plain_error(tmp_path: Path) -> None:
    """A wrong path or option says what is wrong and what to do."""
    await make(tmp_path / "one", tmp_path / "c.toml")
    for name, words in (("none.toml", "Cannot read the cassette"), ("c.toml?speed=9", "options")):
        async with session_in(tmp_path / "two", f"cassette/{tmp_path}/{name}") as session:
            with pytest.raises(UsageError, match=words) as caught:
                await session.run("x")
        assert caught.value.hint
