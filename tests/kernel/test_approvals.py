"""Approvals: asked, answered, remembered, too late, and with nobody there."""

import pytest
import trio
from hilum import Mode, UsageError, Verdict, allow, ask, hookimpl, tool
from hilum.errors import E_APPROVAL_TIMEOUT, E_BAD_ARGS, E_DENIED, E_REJECTED
from hilum.events import (
    ApprovalAnswered,
    ApprovalAsked,
    ApprovalShown,
    CallDone,
    CallStarted,
    StateChanged,
)
from hilum.testing import plugin, use


@pytest.fixture
def ran():
    return []


@pytest.fixture
def tools(ran):
    """A reading, a writing and an executing tool that note what they did."""

    @tool(risk="read")
    def look(n: int = 0) -> str:
        """Look."""
        ran.append(("look", n))
        return "seen"

    @tool(risk="write", writes="path")
    def write(path: str, n: int = 0) -> str:
        """Write."""
        ran.append(("write", n))
        return "written"

    @tool
    def execute(n: int = 0) -> str:
        """Execute."""
        ran.append(("execute", n))
        return "executed"

    return plugin("tools", look, write, execute)


async def test_accepted_call_runs_after_the_answer(bench, tools, ran):
    """Nothing happens before the yes; the request says what would run, why, and until when."""
    kit = await bench(tools, answers=[use("execute", n=1), "ok"], approve="ask_first")
    run = await kit.start("x")
    asked = await kit.wait_for(ApprovalAsked)
    assert ran == []
    assert (asked.call.name, asked.call.arguments, asked.risk) == ("execute", '{"n":1}', "execute")
    assert asked.seconds == 300
    shown = await kit.wait_for(ApprovalShown)
    assert shown.id == asked.id
    assert 290 < shown.deadline - shown.at <= 300
    assert kit.of(StateChanged)[-1].state == "waiting_for_approval"
    kit.session.answer(asked.id, True)
    with kit.guard():
        assert (await run.wait()).state == "completed"
    assert ran == [("execute", 1)]
    assert [
        type(e)
        for e in kit.events
        if isinstance(e, ApprovalAsked | ApprovalAnswered | CallStarted | CallDone)
    ] == [
        ApprovalAsked,
        ApprovalAnswered,
        CallStarted,
        CallDone,
    ]


async def test_rejection_and_its_reason_go_to_the_model(bench, tools, ran):
    """The model reads why not, and the run goes on."""
    kit = await bench(tools, answers=[use("execute"), "Then I will ask."], approve="ask_first")
    run = await kit.start("x")
    asked = await kit.wait_for(ApprovalAsked)
    kit.session.answer(asked.id, False, reason="Use make instead.")
    with kit.guard():
        assert (await run.wait()).text == "Then I will ask."
    assert ran == []
    assert kit.results[0].code == E_REJECTED
    assert "Use make instead." in kit.requests[1].messages[-1].results[0].text


async def test_silence_is_a_rejection_after_five_minutes(bench, tools, ran, autojump_clock):
    """Nobody answers: the call is refused, and the run ends by itself."""
    kit = await bench(tools, answers=[use("execute"), "ok"], approve="ask_first")
    began = trio.current_time()
    assert (await kit.run("x")).state == "completed"
    assert trio.current_time() - began == pytest.approx(300)
    answered = kit.of(ApprovalAnswered)[0]
    assert (answered.accepted, answered.by) == (False, "timeout")
    assert kit.results[0].code == E_APPROVAL_TIMEOUT
    assert ran == []


async def test_time_to_answer_is_a_setting(bench, tools, autojump_clock):
    """approval_timeout says how long."""
    kit = await bench(
        tools,
        answers=[use("execute"), "ok"],
        approve="ask_first",
        settings={"approval_timeout": 7.0},
    )
    began = trio.current_time()
    await kit.run("x")
    assert trio.current_time() - began == pytest.approx(7)


async def test_headless_session_refuses_what_it_would_ask(bench, tools, ran):
    """Nobody is there: what needs a yes is refused with the reason, at once.

    Reading and auto still work.
    """
    answers = [use("execute") + use("look"), "ok"]
    kit = await bench(tools, answers=answers, approve="ask_first", kind="headless")
    await kit.run("x")
    assert kit.result("execute").code == E_DENIED
    assert "approve = ask_first" in kit.result("execute").text
    assert kit.of(ApprovalAsked) == []
    assert ran == [("look", 0)]
    kit.session.set(approve="auto")
    assert (await kit.call("execute")).text == "executed"


async def test_readonly_refuses_whatever_changes_something(bench, tools, ran):
    """Under readonly nothing is asked."""
    kit = await bench(tools, approve="readonly")
    assert (await kit.call("write", path="a")).code == E_DENIED
    assert (await kit.call("execute")).code == E_DENIED
    assert (await kit.call("look")).code == ""
    assert ran == [("look", 0)]


async def test_yes_for_the_session_is_remembered_for_that_tool_only(bench, tools, ran):
    """Later calls of the tool run unasked; another tool is asked."""
    kit = await bench(tools, answers=[use("execute", n=1), "ok"], approve="ask_first")
    run = await kit.start("x")
    asked = await kit.wait_for(ApprovalAsked)
    kit.session.answer(asked.id, True, remember="session")
    with kit.guard():
        await run.wait()
    assert (await kit.call("execute", n=2)).text == "executed"
    assert len(kit.of(ApprovalAsked)) == 1
    kit.model.next(use("write", path="a"), "ok")
    run = await kit.start("y")
    second = await kit.wait_for(ApprovalAsked, after=asked.seq)
    assert second.call.name == "write"
    kit.session.answer(second.id, False)
    with kit.guard():
        await run.wait()
    assert ran == [("execute", 1), ("execute", 2)]


async def test_yes_for_the_session_holds_for_the_scope_that_the_gate_named(bench, tools, ran):
    """A gate that says how far a yes may reach is asked about the rest."""
    gate = plugin(
        "gate",
        on_tool_call=lambda call: (
            ask("look first", scope="even") if '"n":1' not in call.arguments else None
        ),
    )
    kit = await bench(tools, gate, answers=[use("execute", n=2), "ok"])
    run = await kit.start("x")
    asked = await kit.wait_for(ApprovalAsked)
    assert asked.scope == "even"
    kit.session.answer(asked.id, True, remember="session")
    with kit.guard():
        await run.wait()
    assert kit.session.grants == {"even"}
    assert (await kit.call("execute", n=4)).code == ""
    assert len(kit.of(ApprovalAsked)) == 1


@pytest.mark.parametrize("kind", ["ask", "allow"])
async def test_a_gate_can_refuse_lasting_approvals(bench, tools, ran, kind):
    """Whichever gate asks; the question stays open for an answer about this call alone."""
    strict = plugin("strict", on_tool_call=lambda call: Verdict(kind, "why", once_only=True))
    other = plugin("other", on_tool_call=lambda call: ask("really?", scope="wide"))
    kit = await bench(tools, strict, other, answers=[use("execute", n=1), "ok"])
    run = await kit.start("x")
    asked = await kit.wait_for(ApprovalAsked)
    assert asked.once_only
    for remember in ("session", "always"):
        with pytest.raises(UsageError, match="only this call") as raised:
            kit.session.answer(asked.id, True, remember=remember)
        assert raised.value.code == E_BAD_ARGS
    kit.session.answer(asked.id, True)
    with kit.guard():
        await run.wait()
    assert ran == [("execute", 1)]
    assert kit.session.grants == frozenset()


@pytest.mark.parametrize("kind", ["ask", "allow"])
async def test_a_lasting_approval_covers_no_call_that_can_be_approved_only_once(
    bench, tools, ran, kind
):
    """Whichever gate says so; the approval was given for a harmless call with the same scope."""

    def judge(call):
        return Verdict(kind, "why", once_only=True) if '"n":2' in call.arguments else None

    strict = plugin("strict", on_tool_call=judge)
    other = plugin("other", on_tool_call=lambda call: ask("really?", scope="wide"))
    kit = await bench(tools, strict, other, answers=[use("execute", n=1), "ok"])
    run = await kit.start("x")
    asked = await kit.wait_for(ApprovalAsked)
    kit.session.answer(asked.id, True, remember="session")
    with kit.guard():
        await run.wait()
    assert kit.session.grants == {"wide"}
    kit.model.next(use("execute", n=2), "ok")
    run = await kit.start("y")
    again = await kit.wait_for(ApprovalAsked, after=asked.seq)
    assert again.once_only
    kit.session.answer(again.id, False)
    with kit.guard():
        await run.wait()
    assert ran == [("execute", 1)]
    # The harmless calls are still covered.
    assert (await kit.call("execute", n=3)).code == ""
    assert len(kit.of(ApprovalAsked)) == 2


@pytest.mark.parametrize("question", ["policy", "mode"])
async def test_an_approval_of_a_tool_covers_no_call_that_can_be_approved_only_once(
    bench, tools, ran, question
):
    """The approval policy and the mode ask again, too."""
    strict = plugin(
        "strict",
        on_tool_call=lambda call: (
            Verdict("allow", once_only=True) if '"n":2' in call.arguments else None
        ),
    )
    approve = "ask_first" if question == "policy" else "auto"
    kit = await bench(tools, strict, answers=[use("execute", n=1), "ok"], approve=approve)
    if question == "mode":
        kit.session.add_mode(Mode("careful", ask=frozenset({"execute"})))
        kit.session.set(mode="careful")
    run = await kit.start("x")
    asked = await kit.wait_for(ApprovalAsked)
    kit.session.answer(asked.id, True, remember="session")
    with kit.guard():
        await run.wait()
    kit.model.next(use("execute", n=2), "ok")
    run = await kit.start("y")
    again = await kit.wait_for(ApprovalAsked, after=asked.seq)
    kit.session.answer(again.id, False)
    with kit.guard():
        await run.wait()
    assert ran == [("execute", 1)]


async def test_what_a_gate_has_settled_is_not_asked_by_the_policy(bench, tools, ran):
    """A rule of the user's stands over ask_first; a plain allow does not."""
    settled = plugin("gate", on_tool_call=lambda call: allow(settled='"n":1' in call.arguments))
    kit = await bench(tools, settled, approve="ask_first", kind="headless")
    assert (await kit.call("execute", n=1)).code == ""
    assert (await kit.call("execute", n=2)).code == E_DENIED
    assert ran == [("execute", 1)]


async def test_waiting_call_does_not_hold_back_its_siblings(bench, tools, ran):
    """Allowed calls of the same answer run while one waits.

    The model goes on when all have ended.
    """
    kit = await bench(
        tools,
        answers=[use("execute", n=1) + use("look", n=2) + use("look", n=3), "ok"],
        approve="ask_first",
    )
    run = await kit.start("x")
    asked = await kit.wait_for(ApprovalAsked)
    await kit.wait_for(CallDone, lambda done: done.result.call_id == "call-2")
    await kit.wait_for(CallDone, lambda done: done.result.call_id == "call-3")
    assert sorted(ran) == [("look", 2), ("look", 3)]
    assert len(kit.requests) == 1
    kit.session.answer(asked.id, True)
    with kit.guard():
        await run.wait()
    assert [result.name for result in kit.requests[1].messages[-1].results] == [
        "execute",
        "look",
        "look",
    ]


async def test_each_of_several_open_approvals_is_answered_by_its_id(bench, tools, ran):
    """Answers go to the call they belong to, in whatever order they come."""
    kit = await bench(
        tools, answers=[use("execute", n=1) + use("execute", n=2), "ok"], approve="ask_first"
    )
    run = await kit.start("x")
    by_call = {}
    for n in (1, 2):
        asked = await kit.wait_for(ApprovalAsked, lambda e, n=n: e.call.arguments == f'{{"n":{n}}}')
        by_call[n] = asked.id
    kit.session.answer(by_call[2], True)
    kit.session.answer(by_call[1], False, reason="no")
    with kit.guard():
        await run.wait()
    assert ran == [("execute", 2)]
    assert [result.code for result in kit.results] == [E_REJECTED, ""]


async def test_answer_to_nothing_open_is_an_error(bench, tools):
    """An unknown id, one that was answered, and one whose run was stopped."""
    kit = await bench(
        tools, answers=[use("execute"), "ok", use("execute", n=2)], approve="ask_first"
    )
    with pytest.raises(UsageError, match="no open approval 'nothing'"):
        kit.session.answer("nothing", True)
    run = await kit.start("x")
    asked = await kit.wait_for(ApprovalAsked)
    kit.session.answer(asked.id, True)
    with pytest.raises(UsageError):
        kit.session.answer(asked.id, False)
    with kit.guard():
        await run.wait()
    run = await kit.start("y")
    second = await kit.wait_for(ApprovalAsked, after=asked.seq)
    run.stop()
    with kit.guard():
        await run.wait()
    with pytest.raises(UsageError):
        kit.session.answer(second.id, True)


async def test_mode_may_ask_whatever_the_policy(bench, tools):
    """A mode that confirms what executes does so under auto, too."""
    kit = await bench(tools, answers=[use("execute"), "ok"], approve="auto")
    kit.session.add_mode(Mode("debug", ask=frozenset({"execute"})))
    kit.session.set(mode="debug")
    run = await kit.start("x")
    asked = await kit.wait_for(ApprovalAsked)
    assert "debug mode" in asked.reason
    kit.session.answer(asked.id, True)
    with kit.guard():
        await run.wait()
    assert kit.results[0].text == "executed"


async def test_gate_may_ask_about_a_reading_tool(bench, tools):
    """A plugin may have the user asked about anything; its reason is shown."""
    kit = await bench(
        tools, plugin("g", on_tool_call=lambda: ask("A secret file.")), answers=[use("look"), "ok"]
    )
    run = await kit.start("x")
    asked = await kit.wait_for(ApprovalAsked)
    assert asked.reason == "A secret file."
    kit.session.answer(asked.id, True)
    with kit.guard():
        await run.wait()
    assert kit.results[0].text == "seen"


@pytest.mark.parametrize(
    ("reason", "told"), [("use m9 instead", "use m9 instead. "), ("Stop!", "Stop! ")]
)
async def test_a_rejection_is_a_sentence_with_its_stop(bench, tools, reason, told):
    """The reason is the user's, in whatever spelling."""
    kit = await bench(tools, answers=[use("execute"), "ok"], approve="ask_first")
    run = await kit.start("x")
    kit.session.answer((await kit.wait_for(ApprovalAsked)).id, False, reason=reason)
    with kit.guard():
        await run.wait()
    assert f"The user rejected the call: {told}Change your plan." in kit.results[0].text


@pytest.mark.parametrize(
    ("kind", "later", "arguments", "runs"),
    [
        ("ask", {"reads a"}, None, True),
        ("ask", {"reads a", "deletes b"}, None, False),
        ("allow", {"deletes b"}, None, False),
        ("ask", {"deletes b"}, '{"n": 2}', False),
        ("ask", {"reads c"}, '{"n": 2}', True),
    ],
)
async def test_an_answer_covers_only_the_effects_at_the_question(
    bench, tools, ran, kind, later, arguments, runs
):
    """A gate may find new effects of the same arguments; those of a milder gate count as well."""
    found = {"reads a", "writes a"}

    def judge(call):
        dangers = frozenset(effect for effect in found if effect.startswith("deletes"))
        return Verdict(kind, effects=frozenset(found), dangers=dangers)

    gate = plugin("gate", on_tool_call=hookimpl(judge))
    kit = await bench(tools, gate, answers=[use("execute", n=1), "ok"], approve="ask_first")
    run = await kit.start("x")
    asked = await kit.wait_for(ApprovalAsked)
    found.clear()
    found.update(later)
    kit.session.answer(asked.id, True, arguments=arguments)
    await run.wait()
    assert bool(ran) == runs
    if not runs:
        assert kit.results[-1].code == E_DENIED
        assert "effect of the call changed" in kit.results[-1].text
