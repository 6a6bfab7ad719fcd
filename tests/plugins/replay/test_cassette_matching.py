"""What is recorded from events, what counts as the same, and what a difference looks like."""

import subprocess
import sys
from collections.abc import Sequence

import msgspec
import pytest
import trio
from hilum.errors import ModelError, UsageError
from hilum.events import (
    CallDone,
    Compacted,
    Event,
    ModelAnswered,
    ModelStarted,
    PromptFrozen,
    RoundEnded,
    RunEnded,
    RunStarted,
    SessionOpened,
    decode,
    encode,
)
from hilum.messages import (
    AssistantMessage,
    Layer,
    Message,
    NoteMessage,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    ToolSpec,
    UserMessage,
)
from hilum.models import CallChunk, Chunk, Done, Request, TextChunk
from hilum_replay import Cassette, CassetteModel, Exchange, Recorder, Sent, make_rule, record


def user(text: str) -> UserMessage:
    return UserMessage((Text(text),))


def said(text: str, *calls: str) -> AssistantMessage:
    parts = (Text(text, "model"), *(ToolCall(call, "t", "{}") for call in calls))
    return AssistantMessage(parts, "m", "calls" if calls else "end")


def result(call: str, text: str, code: str = "") -> ToolResult:
    return ToolResult(call, "t", (Text(text, "tool:t"),), code)


def run(text: str, agent: str = "main") -> RunStarted:
    return RunStarted(text=text, message=user(text), agent=agent)


def answered(text: str, *calls: str, agent: str = "main") -> ModelAnswered:
    return ModelAnswered(message=said(text, *calls), agent=agent)


def done(call: str, text: str, code: str = "", agent: str = "main") -> CallDone:
    return CallDone(result=result(call, text, code), agent=agent)


def sent(cassette: Cassette) -> list[list[tuple[str, str]]]:
    return [[(item.kind, item.text) for item in exchange.sent] for exchange in cassette.exchanges]


# --- recording ------------------------------------------------------------------------------------


def test_only_what_is_new_is_recorded_with_results_in_call_order() -> None:
    """Results that came in another order stand in call order, then the notes as one."""
    events: list[Event] = [
        SessionOpened(session="s", workspace="/w/x"), run("go"), PromptFrozen(layers=(Layer(0, "meta", "a /w/x"),), tools=()),
        ModelStarted(), answered("", "c1", "c2"), done("c2", "two"), done("c1", "one", "E_X"),
        RoundEnded(notes=("n1", "n2")), ModelStarted(), answered("end"), RunEnded(state="completed"),
        run("again"), answered("bye"),
    ]  # fmt: skip
    cassette = record(decode(encode(event)) for event in events)
    assert sent(cassette) == [
        [("user", "go")],
        [("result", "one"), ("result", "two"), ("note", "n1\n\nn2")],
        [("user", "again")],
    ]
    assert cassette.exchanges[1].sent[0].code == "E_X"
    layers = [exchange.layers for exchange in cassette.exchanges]
    assert layers[1:] == [None, None]
    moved = PromptFrozen(layers=(Layer(0, "meta", "a /other"),), tools=())
    assert (
        layers[0]
        == record([run("go"), moved, answered("x")], workspace="/other").exchanges[0].layers
    )


def test_agents_have_conversations_of_their_own() -> None:
    """What two agents say at the same time is not mixed."""
    events = [
        run("a"), answered("", "c1"), run("b", "sub"), answered("", "c2", agent="sub"), done("c2", "two", agent="sub"),
        RoundEnded(agent="sub"), done("c1", "one"), RoundEnded(), answered("A"), answered("B", agent="sub"),
    ]  # fmt: skip
    cassette = record(events)
    assert [(e.agent, e.sent[0].text) for e in cassette.exchanges] == [
        ("main", "a"), ("sub", "b"), ("main", "one"), ("sub", "two"),
    ]  # fmt: skip


def test_a_compaction_is_recorded_as_the_summary_and_the_thinned_results() -> None:
    """What the model saw after a compaction is what the cassette expects."""
    events = [
        run("a"), answered("", "c1"), done("c1", "long " * 100), RoundEnded(),
        Compacted(thinned={"c1": "[thinned]"}), answered("ok"), run("b"),
        Compacted(upto=4, summary="in short"), answered("sure"),
    ]  # fmt: skip
    cassette = record(events)
    assert sent(cassette)[1:] == [
        [("result", "[thinned]")],
        [("summary", "in short"), ("user", "b")],
    ]


def test_a_prompt_after_a_run_that_got_no_answer_is_new_together_with_it() -> None:
    """What was sent without an answer is still unanswered."""
    cassette = record(
        [run("a"), ModelStarted(), RunEnded(state="stopped"), run("b"), answered("x")]
    )
    assert sent(cassette) == [[("user", "a"), ("user", "b")]]


def test_a_file_that_cannot_be_written_is_a_plain_error(tmp_path) -> None:
    """The message names the file."""
    recorder = Recorder(path=tmp_path / "no" / "c.toml")
    recorder.feed(run("a"))
    with pytest.raises(UsageError, match=r"c\.toml"):
        recorder.feed(answered("x"))


# --- playing --------------------------------------------------------------------------------------


async def ask(
    model: CassetteModel, *messages: Message, agent: str = "main", session: str = "s"
) -> Done:
    return (await chunks(model, *messages, agent=agent, session=session))[-1]  # type: ignore[return-value]


async def chunks(
    model: CassetteModel, *messages: Message, agent: str = "main", session: str = "s"
) -> Sequence[Chunk]:
    layers, tools = (Layer(0, "meta", "x"),), (ToolSpec("t", "T.", {}),)
    body = model.wire.body(
        model.wire.head(layers, tools), [model.wire.message(message) for message in messages]
    )
    assert msgspec.json.decode(body)
    async with model.stream(Request(body, layers, tools, messages, session, agent)) as stream:
        return [chunk async for chunk in stream]


def two_texts(recorded: str) -> Cassette:
    first = Exchange((Sent("user", "go"),), said("", "c1"))
    return Cassette((first, Exchange((Sent("result", recorded, "c1", "t", ""),), said("fine"))))


async def play(
    recorded: str,
    came: str,
    mode: str = "text",
    code: str = "",
    call: str = "c1",
    **options: object,
) -> str:
    model = CassetteModel(two_texts(recorded), workspace="/srv/ws", mode=mode, **options)  # type: ignore[arg-type]
    await ask(model, user("go"))
    return (
        await ask(model, user("go"), said("", "c1"), ToolMessage((result(call, came, code),)))
    ).message.text


SAME = [
    ("same", "same"),
    ("took 0.12s", "took 3.4s"),
    ("1 passed in 0.12 seconds", "1 passed in 12 seconds"),
    ("=== 3 passed in 0.03s ====", "====== 3 passed in 120.03s ======"),
    ("/tmp/pytest-1/x: no", "/tmp/pytest-99/y: no"),
    ("<object at 0x7f01ab>", "<object at 0x55ff00aa>"),
    ("started, pid 123", "started, pid 99123"),
    ("2026-01-02T03:04:05Z ok", "2027-11-12 13:14:15.123 ok"),
    ("listening on 127.0.0.1:8123", "listening on 127.0.0.1:55000"),
    ("in {workspace}/a", "in /srv/ws/a"),
    ("key [REDACTED:MY_KEY] there", "key abc123 there"),
]


@pytest.mark.parametrize(("recorded", "came"), SAME)
async def test_what_differs_from_run_to_run_is_forgiven(recorded: str, came: str) -> None:
    """Times, temporary paths, addresses, process ids, ports, paths and secrets do not count."""
    assert await play(recorded, came) == "fine"


@pytest.mark.parametrize(
    ("recorded", "came"),
    [
        ("3 passed", "2 passed"),
        ("exit code 0", "exit code 1"),
        ("in {workspace}/a", "in /srv/ws2/a"),
        ("a\nb", "a\nc"),
        ("", "x"),
    ],
)
async def test_what_means_something_is_not_forgiven(recorded: str, came: str) -> None:
    """Counts, codes, other folders and other lines are differences."""
    with pytest.raises(ModelError) as caught:
        await play(recorded, came)
    assert caught.value.kind == "request"
    assert "result of call c1 (t) differs" in str(caught.value)


async def test_modes_are_as_strict_as_they_say() -> None:
    """Strict forgives no times, shape forgives any text, and none forgives another code or call."""
    assert await play("took 1s", "took 1s", "strict") == "fine"
    with pytest.raises(ModelError):
        await play("took 1s", "took 2s", "strict")
    assert await play("a", "b", "shape") == "fine"
    for mode in ("strict", "text", "shape"):
        with pytest.raises(ModelError, match="another code"):
            await play("a", "a", mode, code="E_X")
        with pytest.raises(ModelError, match="something else"):
            await play("a", "a", mode, call="c9")


async def test_strict_compares_layers_and_tools() -> None:
    """A changed system prompt or tool is named, with digests, in the strict mode only."""
    exchange = Exchange(
        (Sent("user", "go"),), said("x"), layers=("meta 00000000", "rules 1"), tools=("t 0",)
    )
    with pytest.raises(ModelError, match=r"other layers[^+]*- rules 1[^+]*\+ meta"):
        await ask(CassetteModel(Cassette((exchange,)), mode="strict"), user("go"))
    assert (await ask(CassetteModel(Cassette((exchange,))), user("go"))).message.text == "x"


async def test_a_long_difference_is_shown_short() -> None:
    """Only the lines that differ are shown, long ones around the place, many as a count."""
    recorded = "\n".join(f"line {n}" for n in range(1000))
    came = recorded.replace("line 500", "line five hundred " + "x" * 500)
    with pytest.raises(ModelError) as caught:
        await play(recorded, came)
    text = str(caught.value)
    assert "at line 501" in text
    assert "- line 500" in text
    assert len(text) < 800
    with pytest.raises(ModelError, match=r"… \d+ more lines"):
        await play(recorded, recorded.replace("line", "row"))


async def test_rules_can_be_added(monkeypatch) -> None:
    """A user's own rule forgives what only they know of."""
    from hilum_guard import Redactor
    from hilum_replay import PathPlaceholders
    from hilum_replay.matching import Matcher
    from hilum_replay.rules import RULES

    matcher = Matcher(
        PathPlaceholders(),
        Redactor({}),
        "text",
        [*RULES, make_rule("builds", r"build-\d+", "build")],
    )
    assert matcher.is_same("build-1", "build-2")
    assert not matcher.is_same("build-1", "release-2")


async def test_a_played_answer_comes_in_pieces_that_join_to_it() -> None:
    """Chunks are small, calls name themselves once, ``Done`` is last."""
    answer = AssistantMessage(
        (Text("text " * 50, "model"), ToolCall("c1", "t", '{"a": "%s"}' % ("x" * 100_000))),
        "m",
        "calls",
    )
    model = CassetteModel(Cassette((Exchange((Sent("user", "go"),), answer),)))
    played = await chunks(model, user("go"))
    assert "".join(chunk.text for chunk in played if isinstance(chunk, TextChunk)) == answer.text
    calls = [chunk for chunk in played if isinstance(chunk, CallChunk)]
    assert "".join(chunk.arguments for chunk in calls) == answer.calls[0].arguments
    assert [chunk.name for chunk in calls if chunk.name] == ["t"]
    assert 10 < len(calls) < 150
    assert isinstance(played[-1], Done)


async def test_the_same_request_again_gets_the_same_answer() -> None:
    """A retry is answered as the first try; the next request goes on from there."""
    model = CassetteModel(two_texts("r"))
    for _ in range(3):
        assert (await ask(model, user("go"))).message.calls
    for _ in range(2):
        last = await ask(model, user("go"), said("", "c1"), ToolMessage((result("c1", "r"),)))
        assert last.message.text == "fine"


async def test_play_can_begin_in_the_middle_of_a_conversation() -> None:
    """A session that is resumed in a new process goes on where it stood."""
    model = CassetteModel(two_texts("r"))
    last = await ask(model, user("go"), said("", "c1"), ToolMessage((result("c1", "r"),)))
    assert last.message.text == "fine"


async def test_sessions_play_from_the_beginning_each() -> None:
    """Two sessions on one model do not take answers from each other."""
    model = CassetteModel(two_texts("r"))
    assert await ask(model, user("go"), session="one") == await ask(
        model, user("go"), session="two"
    )


async def test_a_summary_is_not_missed_where_nothing_had_to_be_cut() -> None:
    """A cassette recorded with a small window plays in a large one."""
    exchange = Exchange((Sent("summary", "in short"), Sent("user", "b")), said("sure"))
    cassette = Cassette((Exchange((Sent("user", "a"),), said("ok")), exchange))
    for history in ([user("a"), said("ok"), user("b")], [NoteMessage("in short"), user("b")]):
        model = CassetteModel(cassette)
        await ask(model, user("a"))
        assert (await ask(model, *history)).message.text == "sure"


async def test_agents_with_other_names_find_their_conversation() -> None:
    """Sub-agents whose names are made anew are recognised by what they are asked."""
    exchanges = tuple(
        Exchange((Sent("user", f"task {n}"),), said(f"did {n}"), agent=f"sub-{n}") for n in range(3)
    )
    model = CassetteModel(Cassette(exchanges))
    for n in (2, 0, 1):
        assert (await ask(model, user(f"task {n}"), agent=f"new-{n}")).message.text == f"did {n}"


async def test_recorded_pace_is_kept_in_process(autojump_clock: trio.testing.MockClock) -> None:
    """Playing takes the recorded time where that is asked for."""
    cassette = Cassette((Exchange((Sent("user", "go"),), said("x" * 200), first=3.0, seconds=9.0),))
    start = trio.current_time()
    await ask(CassetteModel(cassette, pace="recorded"), user("go"))
    assert 8.0 <= trio.current_time() - start <= 9.5


def test_importing_the_package_loads_nothing_heavy() -> None:
    """Neither HTTP nor this package's own modules are loaded before they are used."""
    code = (
        "import hilum_replay, sys; "
        "bad = [m for m in sys.modules if m in ('httpx', 'h11', 'httpcore', 'rich', 'sqlite3', 'tomllib') "
        "or m.startswith('hilum_replay.')]; print(bad); hilum_replay.serve; hilum_replay.CassetteModel; "
        "print([m for m in sys.modules if m in ('httpx', 'h11', 'hilum_models')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "[]"], done.stdout
