"""The faults table: every hook, whatever goes wrong in it.

The session always goes on, and no gate falls open.
"""

import time

import msgspec
import pytest
import trio
from hilum import Call, Layer, hookimpl, tool
from hilum.errors import E_DENIED, E_PLUGIN
from hilum.events import FINAL, CallStarted, PluginFault, PromptFrozen, RoundEnded
from hilum.hooks import hook_deadline
from hilum.hookspecs import HOOKS
from hilum.messages import ToolMessage, UserMessage
from hilum.testing import ScriptedModel, plugin, use

RUNS = 9
ONCE = {"open_kernel", "open_session", "provide_models", "provide_store"}
SUPERVISED = {"open_kernel", "open_session"}


def broken(hook, kind):
    """A plugin in which exactly one hook goes wrong."""

    async def raises():
        raise RuntimeError("broken")

    def raises_plainly():
        raise RuntimeError("broken")

    async def hangs():
        await trio.sleep_forever()

    async def never_up():
        await trio.sleep_forever()
        yield

    async def fails_to_open():
        raise RuntimeError("broken")
        yield

    async def yields_nothing():
        if hook == "":
            yield

    collect = HOOKS[hook].shape == "collect"
    nonsense = (lambda: [42]) if collect else (lambda: 42)
    if hook in SUPERVISED:
        function = {"raises": fails_to_open, "hangs": never_up, "nonsense": yields_nothing}[kind]
    else:
        function = {
            "raises": raises_plainly if collect else raises,
            "hangs": hangs,
            "nonsense": nonsense,
        }[kind]
    return plugin("bad", **{hook: function})


def good(ran):
    """A plugin that works, with a tool that notes that it ran and one that starts a process."""

    @tool(risk="read")
    def touch(n: int) -> str:
        """Touch."""
        ran.append(n)
        return "secret"

    @tool(risk="read")
    async def spawn(call: Call) -> str:
        """Start a process."""
        await call.processes.run(["true"])
        return "spawned"

    return plugin(
        "good",
        touch,
        spawn,
        remind=lambda: "from good",
        build_prompt_layer=lambda: Layer(40, "good", "from good"),
    )


async def play(kit, hook):
    """Let the model call tools in five runs, whatever it is told in between."""
    calls = iter(range(1000))

    def answer(request):
        if isinstance(request.messages[-1], UserMessage):
            return use("touch", n=next(calls)) + (use("spawn") if hook == "wrap_process" else "")
        return "done"

    kit.model.then(*[answer] * 100)
    ends = []
    for _ in range(RUNS):
        kit.session.tools_changed()
        kit.session.list_commands()
        ends.append(await kit.run("x" * 4000))
    return ends


# An async implementation of a collect hook does not even load. While a filter fails, no prompt is
# taken: test_redaction.py.
CASES = [
    (hook, kind)
    for hook in HOOKS
    for kind in ("raises", "hangs", "nonsense")
    if HOOKS[hook].shape != "filter" and (HOOKS[hook].shape != "collect" or kind != "hangs")
]


@pytest.mark.slow(cases=15)
@pytest.mark.parametrize(("hook", "kind"), CASES)
async def test_session_goes_on_whatever_goes_wrong(bench, autojump_clock, hook, kind):
    """Every run ends, the fault is an event naming plugin and hook, the good plugin's part is
    there, gates stay closed.
    """
    ran: list[int] = []
    window = 4_000 if hook == "trim_context" else 128_000
    model = ScriptedModel(window=window, max_output=500)
    kit = await bench(broken(hook, kind), good(ran), model=model, faults=True)
    ends = await play(kit, hook)

    states = {end.state for end in ends}
    if hook == "check_answer":
        assert states <= FINAL - {"failed"}
    elif HOOKS[hook].guards:
        # Every call was refused: that is no completed run, whatever the model says.
        assert {(end.state, end.code) for end in ends} == {("partial_success", "E_PLUGIN")}
    else:
        assert states == {"completed"}
    assert {(fault.plugin, fault.hook) for fault in kit.faults} == {("bad", hook)}
    if kind == "hangs":
        assert str(kit.faults[0]) == "it took longer than its deadline"
    if hook not in ONCE:
        shown = kit.of(PluginFault)
        assert [event.switched_off for event in shown] == [False, False, True]
        assert {(event.plugin, event.hook) for event in shown} == {("bad", hook)}

    assert kit.of(PromptFrozen)[0].layers == (Layer(40, "good", "from good"),)
    if hook == "on_model_call":
        # Without a request to a model, there are no calls and no rounds.
        assert not kit.requests
        assert not ran
        assert "'bad', which judges requests to models" in ends[-1].error
        return
    assert "from good" in kit.of(RoundEnded)[0].notes
    if not HOOKS[hook].guards:
        assert ran == [*range(RUNS)]
        assert all(result.text == "secret" for result in kit.results)
    else:
        gate_holds(kit, hook, ran)


def gate_holds(kit, hook, ran):
    """What a gate guards has not happened, neither while its plugin failed nor after it was
    switched off.
    """
    last = kit.results[-1]
    assert last.code == E_DENIED
    assert "The plugin 'bad' guards tool calls and is not working (3 failures in a row" in last.text
    assert "--no-plugin bad" in last.text
    off = next(event.seq for event in kit.of(PluginFault) if event.switched_off)
    assert not [event for event in kit.of(CallStarted) if event.seq > off]
    if hook == "on_tool_call":
        assert ran == []
        assert {result.code for result in kit.results} == {E_DENIED}
        assert "The plugin bad, which guards this, failed" in kit.results[0].text
    elif hook == "wrap_process":
        assert {result.code for result in kit.results if result.name == "spawn"} == {E_DENIED}
    elif hook == "check_result":
        seen = str(
            [m for request in kit.requests for m in request.messages if isinstance(m, ToolMessage)]
        )
        assert "secret" not in seen
        assert kit.results[0].code == E_PLUGIN
        assert "withheld" in kit.results[0].text
    else:
        objected = [event for event in kit.of(RoundEnded) if event.objected]
        assert len(objected) == 3
        assert "The plugin bad, which checks answers, failed" in objected[0].notes[0]


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_hook_that_blocks_past_its_deadline_is_reported(bench, monkeypatch, is_async):
    """Nothing can interrupt it, but the user learns which plugin held everything up."""
    monkeypatch.setitem(HOOKS, "remind", msgspec.structs.replace(HOOKS["remind"], deadline=0.05))

    def block():
        time.sleep(0.2)
        return "too late"

    async def block_in_async():
        return block()

    ran: list[int] = []
    kit = await bench(
        plugin("slow", remind=block_in_async if is_async else block), good(ran), faults=True
    )
    await play(kit, "remind")
    assert {(fault.plugin, fault.hook) for fault in kit.faults} == {("slow", "remind")}
    assert not any("too late" in note for event in kit.of(RoundEnded) for note in event.notes)


async def test_implementation_may_have_a_longer_deadline(bench, monkeypatch):
    monkeypatch.setitem(HOOKS, "remind", msgspec.structs.replace(HOOKS["remind"], deadline=0.05))

    @hook_deadline(20.0)
    async def remind():
        await trio.sleep(0.2)
        return "slow, but in time"

    kit = await bench(plugin("patient", remind=remind))
    await play(kit, "remind")
    assert any("slow, but in time" in note for event in kit.of(RoundEnded) for note in event.notes)


async def test_success_in_between_forgives_faults(bench):
    """Only faults in a row switch a plugin off."""
    count = iter(range(100))

    def remind():
        if next(count) % 3:
            raise RuntimeError("now and then")

    ran: list[int] = []
    kit = await bench(plugin("shaky", remind=remind), good(ran), faults=True)
    await play(kit, "remind")
    assert len(kit.faults) == 6
    assert not any(event.switched_off for event in kit.of(PluginFault))


async def test_faulty_layer_keeps_its_last_good_text(bench):
    """A layer whose plugin fails later is not withdrawn, so the prompt does not change for it."""
    count = iter(range(100))

    def build_prompt_layer():
        if next(count):
            raise RuntimeError("broken")
        return Layer(40, "rules", "Be kind.")

    kit = await bench(
        plugin("rules", build_prompt_layer=build_prompt_layer), answers=["a", "b"], faults=True
    )
    await kit.run("x")
    await kit.run("y")
    assert kit.requests[0].layers == kit.requests[1].layers == (Layer(40, "rules", "Be kind."),)


async def test_gate_of_a_half_stays_closed_when_it_is_switched_off(bench):
    """Gates on instances are gates."""

    class Guard:
        @hookimpl
        def on_tool_call(self):
            raise RuntimeError("broken")

    ran: list[int] = []
    kit = await bench(
        plugin("bad", open_session=lambda: Guard(), gates=("on_tool_call",)), good(ran), faults=True
    )
    await play(kit, "on_tool_call")
    assert ran == []
    gate_holds(kit, "on_tool_call", ran)


@pytest.mark.parametrize(
    "error", [SystemExit(1), GeneratorExit(), ExceptionGroup("g", [OSError("deep")])]
)
async def test_stranger_exceptions_of_a_plugin_are_faults_too(bench, error):
    """A plugin that calls sys.exit, or has a nursery of its own, ends nothing but its turn."""

    def remind():
        raise error

    ran: list[int] = []
    kit = await bench(plugin("odd", remind=remind), good(ran), faults=True)
    assert (await play(kit, "remind"))[0].state == "completed"
    assert kit.faults[0].plugin == "odd"
    if isinstance(error, ExceptionGroup):
        assert str(kit.faults[0]) == "OSError: deep"
