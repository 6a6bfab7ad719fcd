"""Trimming: over 80 % of the window the oldest goes, calls stay with their results, and it always
ends.
"""

import attrs
import pytest
from hilum import Agent, Compaction, Image, Layer, ModelError, Output, UsageError, hookimpl, tool
from hilum.errors import E_WINDOW
from hilum.events import (
    Compacted,
    ModelAnswered,
    ModelFailed,
    ModelStarted,
    ModelUsed,
    PromptFrozen,
)
from hilum.messages import (
    AssistantMessage,
    NoteMessage,
    Thinking,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from hilum.state import Conversation
from hilum.testing import ScriptedModel, plugin, say, use


@tool(risk="read")
def look(n: int, size: int = 10) -> str:
    """Look."""
    return f"{n}" * size


def whole(messages):
    """Whether each call has its result right after it, and no result stands alone."""
    open_calls: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if [result.call_id for result in message.results] != open_calls:
                return False
            open_calls = []
        elif open_calls:
            return False
        elif isinstance(message, AssistantMessage):
            open_calls = [call.id for call in message.calls]
    return not open_calls


def asked(request):
    """The request of the run, as the model reads it."""
    return next(
        message.parts[0].text for message in request.messages if isinstance(message, UserMessage)
    )


def small(answers, **options):
    """A model with a small window: 8,000 tokens, of which 80 % are about 25 kB."""
    return ScriptedModel(answers, window=9_000, max_output=1_000, **options)


async def test_long_conversation_is_cut_from_its_oldest_end(bench):
    """Forty turns of 2 kB pass through a window of 25 kB.

    Every request fits and none splits a call from its result.
    """
    one = [use("look", n=n, size=2000 if n < 10 else 1000) for n in range(40)]
    answers = [call if n % 4 else call + call for n, call in enumerate(one)]
    kit = await bench(
        plugin("tools", look), model=small([*answers, "done"]), settings={"turns": 50}
    )
    ended = await kit.run("Find it. " + "x" * 2000)
    assert ended.state == "completed"
    assert len(kit.of(Compacted)) >= 3
    assert all(len(request.body) <= 8_000 * 0.8 * 4 + 200 for request in kit.requests)
    assert all(whole(request.messages) for request in kit.requests)
    causes = [event.cause for event in kit.of(PromptFrozen)]
    assert causes == ["run"] + ["compaction"] * len(kit.of(Compacted))
    first = next(
        request for request in kit.requests if isinstance(request.messages[0], NoteMessage)
    )
    assert "earlier messages were dropped" in first.messages[0].text
    assert all(asked(request) == "Find it. " + "x" * 2000 for request in kit.requests)


async def test_nothing_is_compacted_below_eighty_percent(bench):
    """A conversation of 79 % is left alone, one of 81 % is not."""
    for size, compactions in ((8_000 * 0.79, 0), (8_000 * 0.81, 1)):
        kit = await bench(plugin("tools", look), model=small([say("a", usage=Usage()), "b"]))
        await kit.run("x" * 5_000)
        used = len(kit.requests[0].body)
        await kit.run("y" * int(size * 4 - used - 150))
        assert len(kit.of(Compacted)) == compactions


async def test_plugin_decides_how_to_compact(bench):
    """Its summary stands at the cut.

    A cut that would split a call from its result is moved back.
    """
    seen = []

    def trim_context(messages, budget):
        seen.append((len(messages), budget))
        kinds = [type(message) for message in messages]
        return Compaction(kinds.index(ToolMessage, 4), "What happened so far.")

    answers = [use("look", n=n, size=1500) for n in range(12)]
    kit = await bench(
        plugin("memory", look, trim_context=trim_context), model=small([*answers, "done"])
    )
    assert (await kit.run("x")).state == "completed"
    compacted = kit.of(Compacted)[0]
    assert compacted.summary == "What happened so far."
    assert seen[0][1] < compacted.before
    after = next(
        request for request in kit.requests if isinstance(request.messages[0], NoteMessage)
    )
    assert after.messages[0].text == "What happened so far."
    assert isinstance(after.messages[1], UserMessage)
    assert isinstance(after.messages[2], AssistantMessage)
    assert whole(after.messages)


async def test_plugin_may_thin_results_instead(bench):
    """Big old results are replaced, nothing is dropped, and the log says so."""

    def trim_context(messages):
        results = [
            result
            for message in messages
            if isinstance(message, ToolMessage)
            for result in message.results
        ]
        return Compaction(
            thinned={
                result.call_id: "(thinned)" for result in results[:-1] if len(result.text) > 100
            }
        )

    answers = [use("look", n=n, size=400) for n in range(17)]
    kit = await bench(
        plugin("memory", look, trim_context=trim_context), model=small([*answers, "done"])
    )
    assert (await kit.run("x")).state == "completed"
    last = kit.requests[-1].messages
    assert isinstance(last[0], UserMessage)
    assert next(m.results[0].text for m in last if isinstance(m, ToolMessage)) == "(thinned)"
    assert len(last) == 35


@pytest.mark.parametrize(
    "useless", [Compaction(), Compaction(upto=-3), Compaction(summary="nothing")]
)
async def test_useless_compaction_of_a_plugin_falls_back_to_plain_dropping(bench, useless):
    """A plugin that would cut nothing is no help; the run goes on."""
    answers = [use("look", n=n, size=6000) for n in range(16)]
    memory = plugin("memory", look, trim_context=lambda: useless)
    kit = await bench(memory, model=small([*answers, "done"]))
    assert (await kit.run("x")).state == "completed"
    assert "earlier messages were dropped" in kit.of(Compacted)[0].summary


async def test_result_bigger_than_the_window_is_shortened_as_it_joins(bench):
    """One result of 100 kB in a window of 32 kB keeps its beginning and its end.

    Nothing else has to go for it.
    """
    kit = await bench(plugin("tools", look), model=small([use("look", n=7, size=100_000), "done"]))
    with kit.guard():
        ended = await kit.run("x")
    assert ended.state == "completed"
    text = kit.requests[1].messages[-1].results[0].text
    assert text.startswith("777")
    assert "characters left out because the result is too large for the window" in text
    assert len(text) < 9_000 / 4
    assert kit.of(Compacted) == []
    assert kit.results[0].text == "7" * 100_000


async def test_a_request_bigger_than_the_window_is_refused_before_any_call(bench):
    """The error names the sizes and what to do; a shorter prompt is answered."""
    kit = await bench(model=small(["ok"]))
    ended = await kit.run("x" * 100_000)
    assert (ended.state, ended.code) == ("failed", E_WINDOW)
    assert kit.requests == []
    assert "9,000 tokens" in ended.error
    assert "the request 25,001" in ended.error
    assert ended.hint.startswith("Shorten the request")
    assert (await kit.run("x")).text == "ok"


async def test_tools_bigger_than_the_window_are_refused_before_any_call(bench):
    @tool(risk="read")
    def wordy(n: int) -> str:
        """Look."""
        return ""

    wordy = attrs.evolve(wordy, description="word " * 8_000)
    kit = await bench(plugin("tools", wordy), model=small([]))
    ended = await kit.run("x")
    assert (ended.state, ended.code) == ("failed", E_WINDOW)
    assert "plugins.block" in ended.hint


async def test_refused_as_too_long_is_compacted_once_and_tried_again(bench):
    """When the provider counts more than the estimate, the prompt is cut to half.

    A second refusal ends the run.
    """
    too_long = ModelError("The prompt is too long.", kind="too_long", status=400)
    answers = [*[use("look", n=n, size=500) for n in range(6)], too_long, "done"]
    kit = await bench(plugin("tools", look), model=small(answers))
    assert (await kit.run("x")).state == "completed"
    assert len(kit.of(Compacted)) == 1
    assert [event.action for event in kit.of(ModelFailed)] == ["compact"]
    assert len(kit.requests[-1].body) < len(kit.requests[-2].body) * 0.7
    kit.model.then(too_long, too_long)
    assert (await kit.run("y")).state == "failed"
    assert [event.action for event in kit.of(ModelFailed)][1:] == ["compact", "give_up"]


async def test_window_follows_the_active_model(bench):
    """After a switch to a model with a small window the conversation is cut for that one."""
    tiny = small(["ok"], name="scripted/tiny")
    kit = await bench(answers=["a", "b"], models={"tiny": tiny})
    await kit.run("x" * 20_000)
    await kit.run("y" * 20_000)
    assert kit.of(Compacted) == []
    kit.session.set(model="scripted/tiny")
    assert (await kit.run("z")).text == "ok"
    assert len(tiny.requests[0].body) < 8_000 * 0.8 * 3.5
    assert kit.of(Compacted)[0].cause == "model"
    assert kit.of(PromptFrozen)[-1].cause == "compaction"


async def test_what_a_provider_reports_corrects_the_estimate_of_its_model_only(bench):
    """One model counts twice as many tokens as estimated: its window fills at half the text, the
    other's does not.
    """
    dense = small([say("a", usage=Usage(input=4_000))], name="scripted/dense")
    plain = small(["b", "c", "d"], name="scripted/plain")
    kit = await bench(models={"dense": dense, "plain": plain}, answers=[])
    kit.session.set(model="scripted/dense")
    await kit.run("x" * 6_000)
    kit.session.set(model="scripted/plain")
    await kit.run("y" * 12_000)
    assert kit.of(Compacted) == []
    kit.session.set(model="scripted/dense")
    dense.then("e")
    await kit.run("z")
    assert [event.cause for event in kit.of(Compacted)] == ["model"]


async def test_encrypted_reasoning_is_not_counted_by_its_length(bench):
    """A vendor counts the reasoning, not the base64 that holds it."""
    thought = Thinking("", {"encrypted_content": "Zm9v" * 5_000})
    answer = AssistantMessage((thought, ToolCall("c1", "look", '{"n":1}')), stop="calls")
    kit = await bench(plugin("tools", look), answers=[answer, "done"])
    await kit.run("x")
    first, second = (event.size for event in kit.of(ModelStarted))
    assert second[3] == 4_000
    assert second[0] - first[0] < 200


async def test_the_estimate_of_a_request_is_the_last_count_and_what_came_since(bench):
    """A long Chinese result in a conversation about code is not judged by how the code was
    counted.
    """

    @tool(risk="read")
    def fetch(n: int) -> str:
        """Fetch."""
        return "请先检查测试" * 500 if n % 2 else "return self.value\n" * 200

    class Counting(ScriptedModel):
        async def answer(self, request):
            given = await super().answer(request)
            wide = sum(len(char.encode()) > 1 for char in request.body.decode())
            total = round((len(request.body) - 3 * wide) * 0.31 + 0.9 * wide)
            return type(given)(given.parts, given.stop, Usage(input=total))

    kit = await bench(
        plugin("tools", fetch), model=Counting([*[use("fetch", n=n) for n in range(8)], "done"])
    )
    await kit.run("x")
    expected = [event.estimate for event in kit.of(ModelStarted)]
    counted = [event.usage.input for event in kit.of(ModelAnswered)]
    assert all(abs(e - c) < 0.05 * c for e, c in zip(expected[3:], counted[3:], strict=True))


async def test_a_resumed_session_estimates_with_the_same_numbers(bench):
    kit = await bench(
        model=small(
            [say("a", usage=Usage(input=900, cached=100)), say("b", usage=Usage(input=1_900))]
        )
    )
    await kit.run("x" * 2_000)
    await kit.run("y" * 2_000)
    folded = Conversation()
    for event in kit.events:
        if event.agent == "main":
            folded.apply(event)
    assert folded.calibrators == kit.session.agents["main"].conversation.calibrators != {}


async def test_an_image_counts_the_same_however_long_it_is(bench):
    @tool(risk="read")
    def shot() -> Output:
        """Look."""
        return Output("seen", images=(Image("image/png", b"x" * 600_000),))

    model = ScriptedModel([use("shot"), "done"], images=True)
    kit = await bench(plugin("tools", shot), model=model)
    await kit.run("x")
    first, second = (event.size for event in kit.of(ModelStarted))
    assert second[2] - first[2] == 1_200
    assert 0 < second[0] - first[0] < 300


async def test_a_compaction_comes_when_somebody_asks_for_it(bench):
    """Before the next request, once, and with what was asked for in reach of the plugin."""
    focus = []

    def trim_context(agent, messages):
        focus.append(agent.conversation.compaction_requested.focus)
        return Compaction(len(messages) - 1, "Short.")

    kit = await bench(plugin("memory", trim_context=trim_context), answers=["a", "b", "c"])
    await kit.run("x" * 2_000)
    kit.session.compact(focus="the tests")
    await kit.run("y")
    await kit.run("z")
    assert [event.cause for event in kit.of(Compacted)] == ["asked"]
    assert focus == ["the tests"]
    with pytest.raises(UsageError, match="no agent 'mian'"):
        kit.session.compact("mian")


async def test_a_compaction_that_is_asked_for_and_gives_nothing_is_not_tried_at_each_turn(bench):
    asked = []
    memory = plugin("memory", look, trim_context=lambda messages: asked.append(1))
    kit = await bench(memory, answers=[use("look", n=1), use("look", n=2), "done"])
    run = await kit.session.prompt("x")
    kit.session.compact()
    await run.wait()
    assert len(asked) == 1
    assert kit.of(Compacted) == []


async def test_what_a_plugin_asks_a_model_counts_to_the_run(bench):
    @tool(risk="read")
    def think(agent: Agent) -> str:
        """Think."""
        agent.emit(
            ModelUsed(
                model="scripted/other",
                purpose="thinking",
                usage=Usage(input=70, output=7, cost=0.5),
            )
        )
        return "thought"

    kit = await bench(
        plugin("tools", think), answers=[use("think"), say("done", usage=Usage(input=10, output=1))]
    )
    ended = await kit.run("x")
    assert ended.usage.input >= 80
    assert ended.usage.cost == 0.5
    assert kit.session.agents["main"].conversation.usage == ended.usage


async def test_a_rebuilt_prompt_says_what_changed(bench):
    """Each break of the prompt's past names the layers and tools that differ.

    None, and it is sent as it was.
    """

    class Rules:
        text = "One."

        @hookimpl
        def build_prompt_layer(self):
            return Layer(40, "rules", self.text)

        @hookimpl
        def provide_tools(self):
            return [look] if self.text == "Two." else []

    rules = Rules()
    kit = await bench(rules, answers=["a", "b", "c"])
    await kit.run("x")
    rules.text = "Two."
    kit.session.tools_changed()
    await kit.run("y")
    await kit.run("z")
    assert [event.changed for event in kit.of(PromptFrozen)] == [
        (),
        ("layer rules", "tool look"),
        (),
    ]
