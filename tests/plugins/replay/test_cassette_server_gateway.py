"""Cassette → HTTP → the real gateway → the recorded message, in all four formats.

And faults as the gateway sees them.
"""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec
import pytest
import trio
from hilum.errors import ModelError
from hilum.messages import (
    AssistantMessage,
    Image,
    Layer,
    Message,
    NoteMessage,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    ToolSpec,
    Usage,
    UserMessage,
)  # fmt: skip
from hilum.models import Chunk, Done, Model, Request
from hilum.testing import pause, say, use
from hilum_models.providers import HttpProvider
from hilum_models.transport import Transport
from hilum_replay import Answer, Cassette, Exchange, Fault, Sent, WireRequest, serve

APIS = ("chat", "responses", "anthropic", "gemini")
BASES = {"chat": "/v1", "responses": "/v1", "anthropic": "", "gemini": "/v1beta"}
LAYERS = (Layer(0, "meta", "You are a test."), Layer(40, "rules", "Be brief."))
TOOLS = (
    ToolSpec("read_file", "Read.", {"type": "object", "properties": {"path": {"type": "string"}}}),
)
USAGE = Usage(120, 20, 0, 30, 10)
MODEL = "test/some-model"


@asynccontextmanager
async def gateway(api: str, url: str) -> AsyncIterator[Model]:
    transport = Transport()
    try:
        yield HttpProvider("test", url + BASES[api], api, transport).model("some-model")
    finally:
        await transport.aclose()


async def ask(
    model: Model, messages: Sequence[Message], tools: Sequence[ToolSpec] = TOOLS
) -> tuple[list[Chunk], Done]:
    wire = model.wire
    body = wire.body(wire.head(LAYERS, tools), [wire.message(message) for message in messages])
    with trio.fail_after(60):
        async with model.stream(Request(body, LAYERS, tools, messages)) as stream:
            chunks = [chunk async for chunk in stream]
    assert isinstance(chunks[-1], Done)
    return chunks, chunks[-1]


def user(text: str) -> UserMessage:
    return UserMessage((Text(text),))


def answer(*parts: Text | Thinking | ToolCall, stop: str = "") -> AssistantMessage:
    calls = any(isinstance(part, ToolCall) for part in parts)
    return AssistantMessage(parts, MODEL, stop or ("calls" if calls else "end"))


def one(message: AssistantMessage, usage: Usage = USAGE) -> Cassette:
    return Cassette((Exchange((Sent("user", "hello"),), message, usage),), MODEL, "0.1")


CALLS = tuple(ToolCall(f"call_00000000{n}", "read_file", f'{{"path":"ä{n}.py"}}') for n in range(3))
ANSWERS = {
    "text": answer(Text("Hello, world.", "model")),
    "unicode": answer(
        Text('ünï 🌱 漢字 \u2028 \x00 \\ " \r\n data: [DONE]\n\nevent: x' * 20, "model")
    ),
    "empty": answer(),
    "length": answer(Text("cut", "model"), stop="length"),
    "refusal": answer(Text("No.", "model"), stop="refusal"),
    "one call": answer(Text("I read.", "model"), CALLS[0]),
    "parallel calls": answer(*CALLS),
    "empty arguments": answer(ToolCall("call_000000000", "read_file", "{}")),
    "large arguments": answer(
        ToolCall("call_000000000", "write", json.dumps({"content": 'é\n"x"\t' * 16_000}))
    ),
}
OWN = {
    "chat": answer(Thinking("I think. " * 20, {"field": "reasoning_content"}), Text("so", "model"), *CALLS),
    "responses": answer(
        Thinking("Summary.", {"item": {"summary": [{"type": "summary_text", "text": "Summary."}], "id": "rs_1",
                                        "type": "reasoning", "encrypted_content": "gAAA=="}}),
        Thinking("", {"phase": "commentary"}), Text("so", "model"), *CALLS),
    "anthropic": answer(Thinking("I think. " * 20, {"signature": "EqQB+/="}), Thinking("", {"redacted": "xyz="}),
                        Text("so", "model"), *CALLS),
    "gemini": answer(Thinking("I think. " * 20), Text("so", "model"), Thinking("", {"thoughtSignature": "sig="}),
                     ToolCall("call_000000000", "read_file", "{}", {"thoughtSignature": "sig2="}), CALLS[1]),
}  # fmt: skip


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("name", ANSWERS)
async def test_what_was_recorded_comes_out_of_the_gateway(api: str, name: str) -> None:
    """The gateway reads from each format exactly the message and usage of the cassette."""
    recorded = ANSWERS[name]
    async with serve(one(recorded)) as server, gateway(api, server.url) as model:
        _, done = await ask(model, [user("hello")])
    expected = recorded
    if api == "gemini":  # arguments travel as an object: their blanks are the gateway's
        done = plain_arguments(done)
        expected = plain_arguments(Done(recorded)).message
    assert done.message == expected
    assert done.usage == USAGE


def plain_arguments(done: Done) -> Done:
    parts = [
        msgspec.structs.replace(part, arguments=json.dumps(json.loads(part.arguments)))
        if isinstance(part, ToolCall)
        else part
        for part in done.message.parts
    ]
    return Done(msgspec.structs.replace(done.message, parts=tuple(parts)), done.usage)


@pytest.mark.parametrize("api", APIS)
async def test_reasoning_comes_out_with_what_the_vendor_wants_back(api: str) -> None:
    """Signatures and encrypted reasoning survive in the format they belong to."""
    recorded = OWN[api]
    async with serve(one(recorded)) as server, gateway(api, server.url) as model:
        _, done = await ask(model, [user("hello")])
    assert done.message == recorded


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("ids", ["call_12345678", "c"])
async def test_a_conversation_is_checked_and_played(api: str, ids: str) -> None:
    """Context, parallel results, codes, notes and a second run are recognised, whatever ids the
    gateway gives to calls.
    """
    calls = tuple(
        ToolCall(f"{ids}{n}", "read_file", f'{{"path":"{{workspace}}/{n}"}}') for n in range(2)
    )
    exchanges = (
        Exchange((Sent("user", "hello"), Sent("user", "<ctx>1</ctx>", source="context:x")), answer(*calls)),
        Exchange(
            (Sent("result", "one", f"{ids}0", "read_file", ""), Sent("result", "", f"{ids}1", "read_file", "E_X"),
             Sent("note", "mind </note> this")),
            answer(),
        ),
        Exchange((Sent("note", "say something"),), answer(Text("done", "model"))),
        Exchange((Sent("user", "more"),), answer(Text("sure", "model"))),
    )  # fmt: skip
    async with (
        serve(Cassette(exchanges, MODEL, "0.1"), workspace="/srv/ws") as server,
        gateway(api, server.url) as model,
    ):
        messages: list[Message] = [UserMessage((Text("hello"), Text("<ctx>1</ctx>", "context:x")))]
        _, done = await ask(model, messages)
        assert [json.loads(call.arguments)["path"] for call in done.message.calls] == [
            "/srv/ws/0",
            "/srv/ws/1",
        ]
        first, second = (call.id for call in done.message.calls)
        results = (
            ToolResult(first, "read_file", (Text("one", "tool:read_file"),)),
            ToolResult(second, "read_file", (Text("", "tool:read_file"),), "E_X"),
        )
        messages += [done.message, ToolMessage(results), NoteMessage("mind </note> this")]
        _, done = await ask(model, messages)
        messages += [done.message, NoteMessage("say something")]
        _, done = await ask(model, messages)
        messages += [done.message, user("more")]
        _, done = await ask(model, messages)
        assert done.message.text == "sure"
        assert server.playback is not None
        assert server.playback.left == 0
        with pytest.raises(ModelError, match="has ended"):
            await ask(model, [*messages, done.message, user("again")])


@pytest.mark.parametrize("api", APIS)
async def test_a_difference_is_refused_with_what_differs(api: str) -> None:
    """The error that reaches the user says which exchange, what was expected, what came, and what
    to do.
    """
    async with serve(one(ANSWERS["text"])) as server, gateway(api, server.url) as model:
        with pytest.raises(ModelError) as caught:
            await ask(model, [user("hello there")])
    words = str(caught.value)
    assert caught.value.kind == "request"
    for part in ("exchange 1 of 1", "- hello", "+ hello there", "--record"):
        assert part in words


@pytest.mark.parametrize("api", APIS)
async def test_images_are_told_apart_from_texts(api: str) -> None:
    """An image of the user and an image of a result are recognised on every wire."""
    call = ToolCall("call_12345678", "shot", "{}")
    exchanges = (
        Exchange((Sent("user", "look"), Sent("image", "image/png x")), answer(call)),
        Exchange((Sent("result", "a shot", "call_12345678", "shot", ""), Sent("image", "image/png y", "call_12345678")),
                 answer(Text("seen", "model"))),
    )  # fmt: skip
    image = Image("image/png", b"png")
    transport = Transport()
    async with serve(Cassette(exchanges)) as server:
        provider = HttpProvider("test", server.url + BASES[api], api, transport)
        provider.facts["some-model"] = {"images": True}
        model = provider.model("some-model")
        messages: list[Message] = [UserMessage((Text("look"), image))]
        _, done = await ask(model, messages)
        messages += [
            done.message,
            ToolMessage(
                (ToolResult("call_12345678", "shot", (Text("a shot", "tool:shot"), image)),)
            ),
        ]
        _, done = await ask(model, messages)
    await transport.aclose()
    assert done.message.text == "seen"


@pytest.mark.parametrize("api", APIS)
async def test_a_script_sees_the_neutral_request(api: str) -> None:
    """System prompt, tools and conversation reach the script the same from every format."""
    seen: list[WireRequest] = []
    history: list[Message] = [
        user("one"),
        answer(Text("two", "model"), ToolCall("call_12345678", "read_file", '{"path": "a"}')),
        ToolMessage(
            (ToolResult("call_12345678", "read_file", (Text("three", "tool:read_file"),)),)
        ),
        NoteMessage("four"),
    ]

    def script(request: WireRequest) -> Answer:
        seen.append(request)
        return Answer(answer(Text("five", "model")), USAGE)

    async with serve(script) as server, gateway(api, server.url) as model:
        _, done = await ask(model, history)
    assert (done.message.text, done.usage) == ("five", USAGE)
    request = seen[0]
    assert (request.api, request.model, request.tools) == (api, "some-model", ("read_file",))
    assert request.system == "You are a test.\n\nBe brief."
    assert [
        msgspec.structs.replace(m, model="") if isinstance(m, AssistantMessage) else m
        for m in request.messages
    ] == [
        msgspec.structs.replace(m, model="") if isinstance(m, AssistantMessage) else m
        for m in history
    ]
    assert [item.text for item in request.delta.items] == ["three", "four"]


async def test_scripts_may_be_async_fail_and_give_text() -> None:
    """A text is an answer; an exception is an error for the client and kept for the test."""

    async def script(request: WireRequest) -> str:
        await trio.lowlevel.checkpoint()
        if request.number == 2:
            raise RuntimeError("oops")
        return "hi"

    async with serve(script) as server, gateway("chat", server.url) as model:
        _, done = await ask(model, [user("x")])
        assert done.message.text == "hi"
        with pytest.raises(ModelError) as caught:
            await ask(model, [user("x")])
        assert caught.value.kind == "server"
        assert "oops" in str(server.failures[0])


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Fault(429, {"retry-after": "7"}), "rate_limit"),
        (Fault(500), "server"),
        (Fault(401), "auth"),
        (Fault(refuse=True), "connect broken"),
        (Fault(cut_after=0), "broken"),
        (Fault(cut_after=200), "broken"),
        (Fault(end_after=200), "broken"),
        (Fault(garbage_after=100), "broken"),
        (Fault(error_after=100), "server"),
    ],
)
async def test_faults_reach_the_gateway_and_a_retry_is_answered(
    api: str, fault: Fault, kind: str
) -> None:
    """Each fault gives the error that a real one gives; the same request again gets the answer."""
    message = answer(Text("Hello, world. " * 50, "model"))
    async with serve(one(message), faults=[fault]) as server, gateway(api, server.url) as model:
        with pytest.raises(ModelError) as caught:
            await ask(model, [user("hello")])
        assert caught.value.kind in kind.split()
        if fault.status == 429:
            assert caught.value.retry_after == 7
        _, done = await ask(model, [user("hello")])
        assert done.message == message
        assert server.count == 2


@pytest.mark.parametrize("api", APIS)
async def test_bad_arguments_arrive_as_the_model_wrote_them(api: str) -> None:
    """Broken JSON of a call reaches the loop; Gemini's format can only break as a whole."""
    faults = [Fault(bad_arguments=True)]
    async with (
        serve(one(answer(CALLS[0])), faults=faults) as server,
        gateway(api, server.url) as model,
    ):
        if api == "gemini":
            with pytest.raises(ModelError) as caught:
                await ask(model, [user("hello")])
            assert caught.value.kind == "broken"
        else:
            _, done = await ask(model, [user("hello")])
            assert done.message.calls[0].arguments == CALLS[0].arguments[:-1]


@pytest.fixture
def jumping_clock() -> trio.testing.MockClock:
    """Time passes at once where there is nothing to do, and not in the moment that bytes take
    between two sockets.
    """
    return trio.testing.MockClock(autojump_threshold=0.1)


async def test_silence_holds_the_connection_open(jumping_clock: trio.testing.MockClock) -> None:
    """A silent server sends what it said it would, then nothing, until the client gives up."""
    async with (
        serve(one(ANSWERS["text"]), faults=[Fault(silence_after=300)]) as server,
        gateway("chat", server.url) as model,
    ):
        request = Request(
            model.wire.body(model.wire.head(LAYERS, ()), [model.wire.message(user("hello"))]),
            LAYERS,
            (),
            (),
        )
        chunks: list[Chunk] = []
        with trio.move_on_after(1000) as scope:
            async with model.stream(request) as stream:
                async for chunk in stream:
                    chunks.append(chunk)
        assert scope.cancelled_caught
        assert chunks
        assert not any(isinstance(chunk, Done) for chunk in chunks)


async def test_recorded_pace_is_kept(jumping_clock: trio.testing.MockClock) -> None:
    """An answer takes the time it took, or that factor of it."""
    slow = Cassette((Exchange((Sent("user", "hello"),), ANSWERS["text"], first=2.0, seconds=10.0),))
    for pace, least, most in (("recorded", 10.0, 12.0), (0.5, 5.0, 7.0), (0.0, 0.0, 2.0)):
        async with serve(slow, pace=pace) as server, gateway("chat", server.url) as model:
            start = trio.current_time()
            await ask_slow(model)
            assert least <= trio.current_time() - start <= most


async def ask_slow(model: Model) -> None:
    request = Request(
        model.wire.body(model.wire.head(LAYERS, ()), [model.wire.message(user("hello"))]),
        LAYERS,
        (),
        (),
    )
    async with model.stream(request) as stream:
        assert [chunk async for chunk in stream]


async def test_without_parsing_answers_come_in_their_order() -> None:
    """For measurements: bodies are counted and kept, not read."""
    cassette = Cassette((one(ANSWERS["text"]).exchanges[0], one(ANSWERS["one call"]).exchanges[0]))
    async with serve(cassette, parse=False, keep=1) as server, gateway("chat", server.url) as model:
        _, first = await ask(model, [user("anything")])
        _, second = await ask(model, [user("else")])
        assert (first.message, second.message) == (ANSWERS["text"], ANSWERS["one call"])
        assert server.count == 2
        assert [b"else" in body for body in server.bodies] == [True]


async def test_several_conversations_at_once() -> None:
    """Agents that run in parallel each get their own answers, in any order of arrival."""
    exchanges = []
    for step in range(3):
        for agent in ("a", "b", "c"):
            new = (
                Sent("user", f"start {agent}")
                if step == 0
                else Sent("result", "ok", f"call_{agent}_{step - 1:08}", "t", "")
            )
            last = step == 2
            part = (
                Text(f"done {agent}", "model")
                if last
                else ToolCall(f"call_{agent}_{step:08}", "t", "{}")
            )
            exchanges.append(Exchange((new,), answer(part), agent=agent))
    async with serve(Cassette(tuple(exchanges))) as server:

        async def talk(agent: str) -> None:
            async with gateway("anthropic", server.url) as model:
                messages: list[Message] = [user(f"start {agent}")]
                for _ in range(3):
                    _, done = await ask(model, messages)
                    messages.append(done.message)
                    results = tuple(
                        ToolResult(c.id, "t", (Text("ok", "tool:t"),)) for c in done.message.calls
                    )
                    if results:
                        messages.append(ToolMessage(results))
                assert done.message.text == f"done {agent}"

        async with trio.open_nursery() as nursery:
            for agent in ("c", "a", "b"):
                nursery.start_soon(talk, agent)
        assert not server.failures


async def test_an_error_inside_the_block_comes_out_as_it_is() -> None:
    """The server's nursery does not wrap what a test raises."""
    with pytest.raises(ZeroDivisionError):
        async with serve(one(ANSWERS["text"])):
            raise ZeroDivisionError


async def test_models_are_listed_and_other_paths_are_not_there() -> None:
    """The list of models names the recorded one; a wrong path or method is an error, not a hang."""
    import httpx

    async with (
        serve(one(ANSWERS["text"])) as server,
        httpx.AsyncClient(base_url=server.url) as client,
    ):
        assert (await client.get("/v1/models")).json()["data"][0]["id"] == "some-model"
        assert (await client.get("/v1beta/models")).json()["models"] == [
            {"name": "models/some-model"}
        ]
        assert (await client.get("/nothing")).status_code == 404
        assert (await client.get("/v1/messages")).status_code == 405
        assert (await client.post("/v1/messages", content=b"{nonsense")).status_code == 400
        not_streaming = await client.post(
            "/v1/chat/completions", json={"model": "m", "messages": []}
        )
        assert "stream" in not_streaming.json()["error"]["message"]

        async def body() -> AsyncIterator[bytes]:
            yield b'{"model":"m","stream":true,'
            yield b'"messages":[{"role":"user","content":"hello"}]}'

        streamed = await client.post("/v1/chat/completions", content=body())
        assert streamed.text.endswith("data: [DONE]\n\n")


async def test_a_connection_that_is_not_http_is_told_so() -> None:
    """Noise gets an answer and the server goes on."""
    async with serve(one(ANSWERS["text"])) as server:
        stream = await trio.open_tcp_stream("127.0.0.1", int(server.url.rpartition(":")[2]))
        async with stream:
            await stream.send_all(b"noise\r\n\r\n")
            with trio.fail_after(60):
                assert (await stream.receive_some(4096)).startswith(b"HTTP/1.1 400")
        async with gateway("chat", server.url) as model:
            await ask(model, [user("hello")])


@pytest.mark.parametrize("api", APIS)
async def test_answers_of_the_testing_kit_are_served_in_their_order(api: str) -> None:
    """Calls without ids get some; a retry gets its answer again; one request too many fails."""
    answers = [say("I look.") + use("read_file", path="a") + use("read_file", path="b"), "Done."]
    faults = [Fault(cut_after=100)]
    async with serve(answers, faults=faults) as server, gateway(api, server.url) as model:
        with pytest.raises(ModelError):
            await ask(model, [user("hello")])
        _, done = await ask(model, [user("hello")])
        assert [json.loads(call.arguments) for call in done.message.calls] == [
            {"path": "a"},
            {"path": "b"},
        ]
        assert len({call.id for call in done.message.calls}) == 2
        _, last = await ask(model, [user("hello"), done.message, user("and?")])
        assert last.message.text == "Done."
        assert not server.failures
        with pytest.raises(ModelError):
            await ask(model, [user("once more")])
        assert "after the last scripted answer" in str(server.failures[0])


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit])
async def test_a_script_that_ends_the_program_has_failed(kind: type[BaseException]) -> None:
    """The test goes on, the client gets an error, and the server answers the next request."""

    def script(request: WireRequest) -> str:
        if request.number == 1:
            raise kind("oops")
        return "hi"

    async with serve(script) as server, gateway("chat", server.url) as model:
        with pytest.raises(ModelError, match=f"The script failed: {kind.__name__}: oops"):
            await ask(model, [user("x")])
        assert [type(error) for error in server.failures] == [kind]
        _, done = await ask(model, [user("x")])
        assert done.message.text == "hi"


async def test_what_ends_the_block_of_a_server_arrives_as_it_is() -> None:
    """pytest would not recognize its own exceptions in a group."""
    with pytest.raises(pytest.skip.Exception, match="not here"):
        async with serve(["hi"]):
            pytest.skip("not here")


async def test_what_http_cannot_carry_is_refused() -> None:
    """A pause in a scripted answer is a mistake of the test, which names the alternative."""
    async with serve([say("one") + pause(1)]) as server, gateway("chat", server.url) as model:
        with pytest.raises(ModelError):
            await ask(model, [user("x")])
        assert "pace=" in str(server.failures[0])


async def test_an_answer_that_is_an_error_keeps_its_status() -> None:
    """A scripted refusal reaches the gateway as the provider's would."""
    busy = ModelError("Too busy.", kind="rate_limit", status=429)
    async with serve([busy]) as server, gateway("chat", server.url) as model:
        with pytest.raises(ModelError) as caught:
            await ask(model, [user("x")])
        assert caught.value.kind == "rate_limit"


async def test_a_script_answers_a_chat_completion_without_streaming() -> None:
    import httpx
    from openai.types.chat import ChatCompletion

    message = answer(Text("I look.", "model"), ToolCall("call_1", "read_file", '{"path":"a"}'))
    body = {"model": "some-model", "messages": [{"role": "user", "content": "Look"}]}
    async with (
        serve(lambda request: Answer(message, USAGE)) as server,
        httpx.AsyncClient(base_url=server.url) as client,
    ):
        response = await client.post("/v1/chat/completions", json=body)
        refused = await client.post("/v1/messages", json=body)
    completion = ChatCompletion.model_validate(response.json())
    [choice] = completion.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "I look."
    assert choice.message.tool_calls
    assert choice.message.tool_calls[0].to_dict() == {
        "id": "call_1",
        "type": "function",
        "function": {"name": "read_file", "arguments": '{"path":"a"}'},
    }
    assert completion.usage
    assert completion.usage.prompt_tokens == USAGE.input
    assert refused.status_code == 400
    assert "only supports streaming" in refused.text


@pytest.mark.parametrize("api", APIS)
async def test_a_script_sees_the_parameters_of_the_tools(api: str) -> None:
    seen: list[tuple[ToolSpec, ...]] = []

    def look(request: WireRequest) -> str:
        seen.append(request.tool_specs)
        return "Fine."

    async with serve(look) as server, gateway(api, server.url) as model:
        await ask(model, [user("Look.")])
    [[spec]] = seen
    assert (spec.name, spec.description) == ("read_file", "Read.")
    assert spec.parameters["properties"]["path"]["type"] == "string"
