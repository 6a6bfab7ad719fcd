"""Faults between hilum and a model, from which a run recovers.

Half an answer is never taken for a whole one.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import hilum
import hilum_models
import trio
from hilum import hookimpl, tool
from hilum.events import (
    AnyEvent,
    CallDone,
    ErrorRaised,
    ModelAnswered,
    ModelFailed,
    ModelStarted,
    RunEnded,
)
from hilum.messages import AssistantMessage, Text, ToolCall, Usage
from hilum_replay import Fault, WireRequest, serve
from hilum_replay.render import render

APIS = {"chat": "/v1", "responses": "/v1", "anthropic": "", "gemini": "/v1beta"}
CALLS = AssistantMessage(
    (
        Text("I note two things.", "model"),
        ToolCall("call-one-1", "note", '{"text":"first, a longer one"}'),
        ToolCall("call-two-2", "note", '{"text":"second"}'),
    ),
    stop="calls",
)
WHOLE = ["first, a longer one", "second"]


def every_api(test: Callable[[str], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    """Run a test for all wire formats at once: most of the time is spent waiting before a retry."""

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            for api in APIS:
                nursery.start_soon(test, api, name=api)

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


def script(asked: WireRequest) -> AssistantMessage | str:
    return "All noted." if b"noted:" in asked.body else CALLS


class Notes:
    """A plugin that keeps what it is told."""

    def __init__(self) -> None:
        self.kept: list[str] = []

    @tool(risk="read", effect="once")
    async def note(self, text: str) -> str:
        """Keep a text."""
        self.kept.append(text)
        return f"noted: {text}"

    @hookimpl
    def provide_tools(self) -> Sequence[Any]:
        return [self.note]


async def work(
    api: str, faults: Sequence[Fault | None] | Callable[[int], Fault | None], **settings: object
) -> tuple[RunEnded, list[AnyEvent], list[str]]:
    """Run a session against a server with faults.

    Give its end, its events and what the tool kept.
    """
    notes = Notes()
    async with serve(script, faults=faults) as server:
        provider = {"base_url": server.url + APIS[api], "api": api}
        wanted = {"model": "lab/first", "models.providers": {"lab": provider}, **settings}
        async with (
            hilum.open_kernel([hilum_models, notes], settings=wanted) as kernel,
            kernel.open_session() as session,
        ):
            with trio.fail_after(600):
                ended = await session.run("Note two things.")
            events = list(await kernel.store.read(session.id, 0, 1000))
        assert not server.failures
    return ended, events, notes.kept


def failures(events: Sequence[AnyEvent]) -> list[ModelFailed]:
    return [event for event in events if isinstance(event, ModelFailed)]


def check(ended: RunEnded, events: Sequence[AnyEvent], kept: Sequence[str]) -> None:
    """The run is complete, each answer was taken whole, each call ran once with its whole
    arguments.
    """
    assert ended.state == "completed", ended
    assert ended.text == "All noted."
    assert sorted(kept) == WHOLE
    answers = [event.message for event in events if isinstance(event, ModelAnswered)]
    assert [len(message.calls) for message in answers] == [2, 0]
    assert [message.text for message in answers] == ["I note two things.", "All noted."]
    attempts = [event.attempt for event in events if isinstance(event, ModelStarted)]
    assert len(attempts) == len(answers) + len(failures(events))


@every_api
async def test_a_stream_cut_anywhere_is_asked_again_and_never_taken_for_whole(api: str) -> None:
    """At every event boundary and in the midst of every event, the connection dropped or the
    response ended properly.
    """
    pieces = render(api, CALLS, Usage(), "first", 1, True)
    ends = [sum(map(len, pieces[: n + 1])) for n in range(len(pieces))]
    places = sorted(
        {0, *ends[:-1], *(end - len(piece) // 2 for end, piece in zip(ends, pieces, strict=True))}
    )
    retried = 0

    async def one(fault: Fault) -> None:
        nonlocal retried
        ended, events, kept = await work(api, [fault])
        check(ended, events, kept)
        assert {failed.kind for failed in failures(events)} <= {"broken"}
        retried += bool(failures(events))

    async with trio.open_nursery() as nursery:
        for place in places:
            nursery.start_soon(one, Fault(cut_after=place))
            nursery.start_soon(one, Fault(end_after=place))
    # What is missing may be only what follows a whole answer (its usage, the end mark); then there
    # is nothing to repeat.
    assert retried >= 2 * len(places) - 10


@every_api
async def test_arguments_that_are_no_json_go_back_to_the_model_with_the_place(api: str) -> None:
    """The model reads the error and asks again.

    Where arguments are part of the stream's JSON, the stream cannot be read.
    """
    ended, events, kept = await work(api, [Fault(bad_arguments=True)])
    if api == "gemini":
        check(ended, events, kept)
        assert [failed.kind for failed in failures(events)] == ["broken"]
        return
    assert ended.state == "completed"
    assert sorted(kept) == WHOLE
    codes = [event.result.code for event in events if isinstance(event, CallDone)]
    assert sorted(codes) == ["", "", "E_BAD_ARGS", "E_BAD_ARGS"]
    assert not failures(events)


@every_api
async def test_a_rate_limit_is_waited_out_as_long_as_the_provider_asks(api: str) -> None:
    """429 with retry-after: one retry after exactly that."""
    ended, events, kept = await work(api, [Fault(status=429, headers={"retry-after": "1"})])
    check(ended, events, kept)
    (failed,) = failures(events)
    assert (failed.code, failed.action, failed.wait) == ("E_LLM_429", "retry", 1.0)
    again = next(
        event for event in events if isinstance(event, ModelStarted) and event.attempt == 2
    )
    assert 0.9 < again.at - failed.at < 2.5


@every_api
async def test_a_rate_limit_that_stays_leads_to_the_next_model(api: str) -> None:
    """After one retry the fallback list is used."""
    limit = Fault(status=429, headers={"retry-after": "0"})
    ended, events, kept = await work(api, [limit, limit], fallback=["lab/second"])
    check(ended, events, kept)
    assert [(f.action, f.next) for f in failures(events)] == [
        ("retry", ""),
        ("fallback", "lab/second"),
    ]
    assert {e.message.model for e in events if isinstance(e, ModelAnswered)} == {"lab/second"}


@every_api
async def test_a_server_that_fails_twice_is_asked_a_third_time(api: str) -> None:
    """500 twice: two retries, the second after a longer wait."""
    ended, events, kept = await work(api, [Fault(status=500), Fault(status=503)])
    check(ended, events, kept)
    assert [(f.kind, f.action, f.wait) for f in failures(events)] == [
        ("server", "retry", 0.5),
        ("server", "retry", 1.0),
    ]


@every_api
async def test_a_silent_model_is_asked_once_more(api: str) -> None:
    """Silence in the midst of an answer ends the request; what came of it is dropped."""
    ended, events, kept = await work(api, [Fault(silence_after=90)], silence=0.5)
    check(ended, events, kept)
    (failed,) = failures(events)
    assert (failed.code, failed.action, failed.wait) == ("E_LLM_TIMEOUT", "retry", 2.0)


@every_api
async def test_a_model_that_stays_silent_ends_the_run_and_the_user_is_told(api: str) -> None:
    """One retry, no third: the run fails and says to look at the network."""
    ended, events, kept = await work(api, lambda number: Fault(silence_after=0), silence=0.3)
    assert (ended.state, ended.code) == ("failed", "E_LLM_TIMEOUT")
    assert kept == []
    assert [failed.action for failed in failures(events)] == ["retry", "give_up"]
    assert "network" in ended.hint


@every_api
async def test_an_answer_that_turns_into_an_error_is_asked_for_again(api: str) -> None:
    """An error event or garbage in the stream, or a connection closed without an answer."""
    for fault in (Fault(error_after=100), Fault(garbage_after=100), Fault(refuse=True)):
        ended, events, kept = await work(api, [fault])
        check(ended, events, kept)
        assert [failed.action for failed in failures(events)] == ["retry"]


@every_api
async def test_a_refused_key_ends_the_run_at_once(api: str) -> None:
    """401 is not repeated."""
    ended, events, _ = await work(api, lambda number: Fault(status=401))
    assert (ended.state, ended.code) == ("failed", "E_LLM_AUTH")
    assert len(failures(events)) == 1
    assert not any(isinstance(event, ErrorRaised) for event in events)


@every_api
async def test_many_faults_in_one_run_are_all_recovered_from(api: str) -> None:
    """A failure of each turn counts anew."""
    faults = [
        Fault(status=500),
        Fault(cut_after=60),
        Fault(error_after=10),
        None,
        Fault(status=502),
        Fault(refuse=True),
    ]
    ended, events, kept = await work(api, faults)
    check(ended, events, kept)
    assert len(failures(events)) == 5
