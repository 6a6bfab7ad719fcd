"""Prechecks: a tool finds that a call cannot succeed before the user is asked to approve it."""

import pytest
import trio
from hilum import Call, ToolError, allow, ask, deny, tool
from hilum.errors import E_DENIED
from hilum.events import ApprovalAsked, CallDone, CallStarted, PluginFault
from hilum.testing import plugin, use


@pytest.fixture
def ran():
    return []


@pytest.fixture
def checked():
    """Arguments of the calls that the precheck has seen."""
    return []


@pytest.fixture
def tools(ran, checked):
    async def check(call: Call) -> None:
        checked.append(call.arguments)
        await trio.lowlevel.checkpoint()
        if call.arguments["text"] == "impossible":
            raise ToolError("This text is impossible.", code="E_STALE", hint="Send another.")
        if call.arguments["text"] == "broken":
            raise ValueError("a mistake in the plugin")
        if call.arguments["text"] == "slow":
            await trio.sleep_forever()

    @tool(risk="write", precheck=check)
    def write(text: str, more: int = 3) -> str:
        """Write."""
        ran.append(text)
        return "written"

    return plugin("tools", write)


async def test_a_call_that_cannot_succeed_is_not_asked_about(bench, tools, ran, checked):
    """The model gets the error at once, and the next call is asked about as usual."""
    answers = [use("write", text="impossible"), use("write", text="fine"), "ok"]
    kit = await bench(tools, answers=answers, approve="ask_first")
    run = await kit.start("x")
    asked = await kit.wait_for(ApprovalAsked)
    assert asked.call.arguments == '{"text":"fine"}'
    (failed,) = kit.of(CallDone)
    assert failed.result.code == "E_STALE"
    assert failed.result.text == "E_STALE: This text is impossible. Send another."
    assert kit.of(CallStarted) == []
    kit.session.answer(asked.id, True)
    with kit.guard():
        assert (await run.wait()).state == "completed"
    assert ran == ["fine"]
    # Arguments have the types and the defaults of the function.
    assert checked == [{"text": "impossible", "more": 3}, {"text": "fine", "more": 3}]


async def test_a_call_that_needs_no_question_has_no_precheck(bench, tools, ran, checked):
    """The tool itself reports its errors."""
    kit = await bench(tools, answers=[use("write", text="impossible"), "ok"], approve="auto")
    await kit.run("x")
    assert (ran, checked) == (["impossible"], [])


async def test_a_denied_call_and_one_without_a_user_have_no_precheck(bench, tools, checked):
    """The error of a precheck may describe a file that the agent must not see."""

    def judge(call):
        return deny("Not here.") if "impossible" in call.arguments else ask("May it?")

    answers = [use("write", text="impossible"), use("write", text="broken"), "ok"]
    kit = await bench(tools, plugin("guard", on_tool_call=judge), answers=answers, kind="headless")
    await kit.run("x")
    assert [done.result.code for done in kit.of(CallDone)] == [E_DENIED, E_DENIED]
    assert checked == []


@pytest.mark.parametrize("text", ["broken", "slow"])
async def test_a_precheck_that_fails_does_not_keep_the_user_from_being_asked(
    bench, tools, ran, text, monkeypatch
):
    """It is reported as a failure of its plugin."""
    monkeypatch.setattr("hilum.calls.PRECHECK_TIMEOUT", 0.01)
    kit = await bench(tools, answers=[use("write", text=text), "ok"], approve="ask_first")
    kit.allow_faults()
    run = await kit.start("x")
    asked = await kit.wait_for(ApprovalAsked)
    (fault,) = kit.of(PluginFault)
    assert fault.plugin == "tools"
    assert "precheck of write" in fault.hook
    kit.session.answer(asked.id, True)
    with kit.guard():
        await run.wait()
    assert ran == [text]


async def test_the_precheck_sees_the_arguments_that_a_gate_rewrote(bench, tools, ran, checked):
    """The question is about this call."""

    def judge(call):
        if "fine" in call.arguments:
            return allow(arguments={"text": "impossible"})
        return ask("May it?")

    kit = await bench(
        tools, plugin("guard", on_tool_call=judge), answers=[use("write", text="fine"), "ok"]
    )
    await kit.run("x")
    assert checked == [{"text": "impossible", "more": 3}]
    assert kit.of(ApprovalAsked) == []
    assert ran == []


async def test_a_stop_ends_a_precheck(bench, tools, ran):
    """The run ends, and no question is left."""
    kit = await bench(tools, answers=[use("write", text="slow"), "ok"], approve="ask_first")
    run = await kit.start("x")
    with kit.guard():
        while not kit.session.runs:
            await trio.lowlevel.checkpoint()
        kit.session.stop()
        assert (await run.wait()).state == "stopped"
    assert kit.of(ApprovalAsked) == []
    assert ran == []


async def test_questions_come_in_the_order_of_the_calls(bench):
    """Prechecks take different times."""
    first = trio.Event()

    async def check(call: Call) -> None:
        if call.arguments["n"] == 0:
            await first.wait()
        else:
            first.set()

    @tool(risk="write", precheck=check)
    def write(n: int) -> str:
        """Write."""
        return "written"

    calls = use("write", n=0) + use("write", n=1) + use("write", n=2)
    kit = await bench(plugin("tools", write), answers=[calls, "ok"], approve="ask_first")
    run = await kit.start("x")
    for n in range(3):
        await kit.wait_for(ApprovalAsked, lambda asked, n=n: f'"n":{n}' in asked.call.arguments)
    asked = kit.of(ApprovalAsked)
    assert [each.call.arguments for each in asked] == ['{"n":0}', '{"n":1}', '{"n":2}']
    for each in asked:
        kit.session.answer(each.id, True)
    with kit.guard():
        await run.wait()
