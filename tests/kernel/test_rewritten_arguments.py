"""Gates that rewrite a call: all gates judge the rewritten one, and it is what is approved, logged
and run.
"""

import msgspec
import pytest
from hilum import Verdict, allow, ask, deny, tool
from hilum.errors import E_DENIED
from hilum.events import ApprovalAsked, CallStarted, PluginFault
from hilum.testing import plugin, use


@pytest.fixture
def ran():
    return []


@pytest.fixture
def tools(ran):
    @tool(risk="write", writes="path")
    def write(path: str, n: int = 0) -> str:
        """Write."""
        ran.append((path, n))
        return "written"

    return plugin("tools", write)


def arguments(call):
    return {"n": 0, **msgspec.json.decode(call.arguments)}


def rewriting(name, change):
    """A gate that rewrites the arguments; ``change`` returns new ones, or nothing."""

    def gate(call):
        new = change(arguments(call))
        return allow(arguments=new) if new is not None else None

    return plugin(name, on_tool_call=gate)


async def test_the_rewritten_call_is_judged_approved_logged_and_run(bench, tools, ran):
    """A gate moves a write.

    The other gate sees the new path only, the user is asked about it, the log keeps both.
    """
    seen = []

    def watch(call):
        seen.append(arguments(call)["path"])
        return deny("never a") if arguments(call)["path"] == "a" else ask("sure?")

    move = rewriting("move", lambda given: {**given, "path": "b"} if given["path"] == "a" else None)
    kit = await bench(
        tools,
        plugin("watch", on_tool_call=watch),
        move,
        answers=[use("write", path="a", n=1), "ok"],
    )
    run = await kit.start("x")
    asked = await kit.wait_for(ApprovalAsked)
    assert arguments(asked.call) == {"path": "b", "n": 1}
    kit.session.answer(asked.id, True)
    with kit.guard():
        await run.wait()
    assert ran == [("b", 1)]
    (started,) = kit.of(CallStarted)
    assert arguments(started.call) == {"path": "b", "n": 1}
    assert msgspec.json.decode(started.original) == {"path": "a", "n": 1}
    assert started.rewritten_by == ("move",)
    assert started.paths == ("b",)
    assert "Ran with other arguments, by move" in kit.results[0].text
    assert seen[-1] == "b"


async def test_the_note_has_no_values_that_a_gate_added(bench, ran):
    """Such as the diff of a rename, which the model did not write."""

    @tool(risk="write", writes="path")
    def write(path: str, diff: str = "") -> str:
        """Write."""
        ran.append((path, diff))
        return "written"

    def add(given):
        return {"path": given["path"], "diff": "long " * 100} if not given.get("diff") else None

    kit = await bench(plugin("tools", write), rewriting("add", add))
    result = await kit.call("write", path="a")
    assert ran == [("a", "long " * 100)]
    assert result.text == "written\n[add added to the arguments of this call: diff]"


async def test_a_denial_of_the_rewritten_call_holds(bench, tools, ran):
    """A gate cannot rewrite a call into one that another gate denies."""
    watch = plugin(
        "watch",
        on_tool_call=lambda call: deny("no") if arguments(call)["path"] == "secret" else None,
    )
    kit = await bench(tools, watch, rewriting("bad", lambda given: {**given, "path": "secret"}))
    assert (await kit.call("write", path="a")).code == E_DENIED
    assert ran == []


async def test_several_gates_rewrite_in_order(bench, tools, ran):
    """Each sees what the one before made; the result is stable."""
    one = rewriting("one", lambda given: {**given, "n": 1} if given["n"] == 0 else None)
    two = rewriting("two", lambda given: {**given, "n": 2} if given["n"] == 1 else None)
    three = rewriting(
        "three", lambda given: {**given, "path": "c"} if given["path"] == "a" else None
    )
    kit = await bench(tools, one, two, three)
    await kit.call("write", path="a")
    assert ran == [("c", 2)]
    assert set(kit.of(CallStarted)[0].rewritten_by) == {"one", "two", "three"}


async def test_rewriting_without_end_is_denied(bench, tools, ran):
    """Two gates that undo each other, or one that counts up: no call runs."""
    up = rewriting("up", lambda given: {**given, "n": given["n"] + 1})
    kit = await bench(tools, up)
    result = await kit.call("write", path="a")
    assert (result.code, ran) == (E_DENIED, [])
    assert "up" in result.text


@pytest.mark.parametrize(
    "new", [{"path": 3}, {"path": "a", "odd": 1}, {}, {"path": {"x": object()}}]
)
async def test_arguments_that_do_not_fit_are_the_plugins_fault_and_a_denial(bench, tools, ran, new):
    """The tool's own schema holds for gates, too."""
    kit = await bench(tools, rewriting("bad", lambda given: new), faults=True)
    result = await kit.call("write", path="a")
    assert (result.code, ran) == (E_DENIED, [])
    assert kit.of(PluginFault)[0].plugin == "bad"


async def test_who_rewrites_and_asks_is_asked_once(bench, tools, ran):
    """ask(arguments=…) holds also if the gate is content with the rewritten call."""

    def gate(call):
        return ask("moved", arguments={"path": "b"}) if arguments(call)["path"] == "a" else None

    kit = await bench(
        tools, plugin("gate", on_tool_call=gate), answers=[use("write", path="a"), "ok"]
    )
    run = await kit.start("x")
    asked = await kit.wait_for(ApprovalAsked)
    assert arguments(asked.call) == {"path": "b", "n": 0}
    assert ran == []
    kit.session.answer(asked.id, True)
    with kit.guard():
        await run.wait()
    assert ran == [("b", 0)]
    assert len(kit.of(ApprovalAsked)) == 1


async def test_equal_arguments_are_no_rewriting(bench, tools, ran):
    """Another spelling of the same is the same."""
    kit = await bench(tools, rewriting("same", lambda given: dict(reversed(given.items()))))
    await kit.call("write", path="a", n=1)
    assert kit.of(CallStarted)[0].original is None
    assert ran == [("a", 1)]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Verdict("alow"),
        lambda: Verdict(None),
        lambda: Verdict("ask", 3),
        lambda: allow(settled="yes"),
        lambda: allow(arguments="path=a"),
        lambda: Verdict("deny", arguments={}),
        lambda: "deny",
    ],
)
async def test_a_wrong_verdict_is_the_plugins_fault_and_fails_closed(bench, tools, ran, wrong):
    """The call is denied, the plugin is named, and the run goes on."""
    kit = await bench(
        tools,
        plugin("gate", on_tool_call=lambda: wrong()),
        answers=[use("write", path="a"), "ok"],
        faults=True,
    )
    assert (await kit.run("x")).code == "E_PLUGIN"
    assert kit.results[0].code == E_DENIED
    assert "gate" in kit.results[0].text
    assert ran == []
    assert kit.of(PluginFault)[0].plugin == "gate"
