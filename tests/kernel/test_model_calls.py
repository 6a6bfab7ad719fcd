"""Requests to models are admitted by plugins, and the log names the plugins behind a prompt."""

import pytest
from hilum import (
    Block,
    Call,
    HilumError,
    Layer,
    ModelCall,
    ModelCallDenied,
    ModelError,
    hookimpl,
    models,
    tool,
)
from hilum.events import (
    ModelAnswered,
    ModelFailed,
    ModelStarted,
    ModelUsed,
    PluginFault,
    PromptFrozen,
    RoundEnded,
    RunStarted,
)
from hilum.messages import Price, Usage
from hilum.testing import ScriptedModel, plugin, say, use
from msgspec.structs import replace


@tool(risk="read")
def look(n: int = 0) -> str:
    """Look."""
    return f"seen {n}"


class Judge:
    """A plugin that sees each request, and refuses those after a number."""

    def __init__(self, admitted=1_000):
        self.admitted = admitted
        self.seen = []
        self.ended = []
        self.logged = []

    @hookimpl
    async def on_model_call(self, agent, call):
        self.seen.append(call)
        call.on_end(self.end)
        if len(self.seen) > self.admitted:
            return ModelCallDenied("Enough.", hint="Ask for more.")

    def end(self, call):
        self.ended.append(call)
        results = ModelAnswered | ModelFailed | ModelUsed
        self.logged.append(sum(isinstance(each, results) for each in self.kit.events))


async def open_judged(bench, judge, *answers, **options):
    """A bench with the judge and a tool."""
    kit = await bench(
        plugin("judge", open_session=lambda session: judge, gates=("on_model_call",)),
        plugin("looking", look),
        model=ScriptedModel(answers, price=Price(2.0, 10.0), max_output=500),
        **options,
    )
    judge.kit = kit
    return kit


async def test_a_refused_request_is_not_sent_and_ends_the_run(bench):
    judge = Judge(admitted=1)
    kit = await open_judged(bench, judge, use("look"), "Never sent.")
    ended = await kit.run("x")
    assert (ended.state, ended.code) == ("partial_success", "E_BUDGET")
    assert (ended.error, ended.hint) == ("Enough.", "Ask for more.")
    assert ended.done == "Tools run: look × 1."
    assert len(kit.requests) == len(kit.of(ModelStarted)) == 1
    assert [call.was_sent for call in judge.ended] == [True, False]


async def test_each_attempt_is_judged_with_what_it_will_use(bench, autojump_clock):
    """When it has ended, the log contains its result."""
    judge = Judge()
    usage = Usage(input=120, cached=100, output=4)
    broken = ModelError("broke off", kind="broken")
    kit = await open_judged(bench, judge, broken, say("", usage=usage) + use("look"), "Done.")
    await kit.run("x")
    first, second, third = judge.seen
    assert (first.model, first.plugin, first.max_output) == ("scripted/model", "", 500)
    assert first.input == second.input == kit.of(ModelStarted)[0].estimate
    assert (first.failed, first.usage) == ("broken", None)
    assert (second.usage.input, second.usage.cost) == (120, pytest.approx(280e-6))
    assert third.cached == 100
    assert third.cost(1_000, 100) == pytest.approx(3e-3)
    assert judge.logged == [1, 2, 3]


async def test_requests_of_plugins_are_judged_and_named(bench):
    """A refusal reaches the model with its code, and is no fault of the plugin."""
    judge = Judge(admitted=3)

    @tool(risk="read")
    async def think(call: Call) -> str:
        """Think."""
        answer = await models.ask_model(call.agent, "", "Think.", "About?", purpose="think")
        return answer.text

    kit = await bench(
        plugin("judge", open_session=lambda session: judge, gates=("on_model_call",)),
        plugin("thinking", think),
        answers=[use("think"), "A thought.", use("think")],
    )
    judge.kit = kit
    await kit.run("x")
    assert [(call.plugin, call.purpose) for call in judge.seen][1] == ("thinking", "think")
    assert [event.plugin for event in kit.of(ModelUsed)] == ["thinking"]
    assert [result.code for result in kit.results] == ["", "E_BUDGET"]
    assert kit.results[1].text.startswith("E_BUDGET: Enough.")
    assert not kit.faults


async def test_the_log_names_the_plugins_behind_a_prompt(bench):
    class Speaker:
        @hookimpl
        def build_prompt_layer(self):
            return Layer(40, "speech", "Speak.")

        @hookimpl
        async def gather_context(self):
            return [Block("one", "1"), Block("two", "2")]

        @hookimpl
        async def remind(self):
            return "Speak on."

    kit = await bench(
        plugin("speaker", open_session=lambda session: Speaker()),
        plugin("looking", look),
        plugin("other", gather_context=lambda: Block("one", "1")),
        answers=[use("look"), "Done."],
    )
    await kit.run("x")
    frozen = kit.of(PromptFrozen)[0]
    assert frozen.sources == {"layer speech": "speaker", "tool look": "looking"}
    assert kit.of(RunStarted)[0].gathered_by == ("speaker", "speaker", "other")
    ended = kit.of(RoundEnded)[0]
    assert (ended.notes, ended.noted_by) == (("Speak on.",), ("speaker",))
    assert kit.of(ModelAnswered)[0].price is None


def test_a_request_without_a_price_has_no_cost():
    assert ModelCall("a/b", 10, 10).cost(10, 10) is None


async def test_callbacks_are_called_once(bench):
    call = ModelCall("a/b", 10, 10)
    ended = []
    call.on_end(ended.append)
    call.end(pytest.fail)
    call.end(pytest.fail)
    assert ended == [call]


async def test_a_callback_that_fails_is_a_failure_of_its_plugin(bench):
    """The run and the callbacks of other plugins are not affected."""

    async def fail(agent, call):
        call.on_end(lambda call: 1 // 0)

    judge = Judge()
    kit = await bench(
        plugin("broken", on_model_call=fail, gates=("on_model_call",)),
        plugin("judge", open_session=lambda session: judge, gates=("on_model_call",)),
        answers=["Done."],
    )
    kit.allow_faults()
    judge.kit = kit
    ended = await kit.run("x")
    assert (ended.state, ended.text) == ("completed", "Done.")
    assert len(judge.ended) == 1
    (failed,) = kit.of(PluginFault)
    assert (failed.plugin, failed.hook) == ("broken", "on_model_call")
    assert "ZeroDivisionError" in failed.error


def test_the_error_is_one_of_hilum():
    assert isinstance(ModelCallDenied("x"), HilumError)


async def test_a_request_to_a_model_that_delegates_is_not_admitted_itself(bench):
    """The program admits its own requests; one that is refused ends the run."""
    judge = Judge()
    model = ScriptedModel(["Done.", ModelCallDenied("Too dear.", hint="Pay.")])
    model._info = replace(model.info, delegates=True)
    kit = await bench(
        plugin("judge", open_session=lambda session: judge, gates=("on_model_call",)), model=model
    )
    assert (await kit.run("x")).text == "Done."
    ended = await kit.run("y")
    assert (ended.state, ended.code, ended.error) == ("partial_success", "E_BUDGET", "Too dear.")
    assert not judge.seen
    assert [event.estimate for event in kit.of(ModelStarted)] == [0, 0]
