"""How implementations of a hook combine: order, and the five shapes."""

import pytest
import trio
from hilum import (
    Block,
    Call,
    Interpretation,
    Layer,
    PluginError,
    PromptCommand,
    ToolDenied,
    allow,
    ask,
    deny,
    hookimpl,
    tool,
)
from hilum.events import ApprovalAsked, PromptFrozen, RoundEnded
from hilum.hookspecs import HOOKS
from hilum.plugins import GateTable
from hilum.testing import plugin, say, use


@tool(risk="read", effect="pure")
def look(n: int = 0) -> str:
    """Look."""
    return f"seen {n}"


@tool(risk="execute", timeout=20)
async def shell(call: Call) -> str:
    """Run a command that shows one variable."""
    done = await call.processes.run(["sh", "-c", 'echo "$WRAPPED"'])
    return done.stdout.decode()


async def test_order_is_tryfirst_then_plugins_module_before_half_then_trylast(bench):
    """Layers of one rank stand in the order in which implementations are called."""

    def named(name, **options):
        return hookimpl(**options)(lambda: Layer(40, name, name))

    class Half:
        @hookimpl
        def build_prompt_layer(self):
            return Layer(40, "an instance", "an instance")

        @hookimpl(specname="build_prompt_layer", tryfirst=True)
        def early(self):
            return Layer(40, "an instance early", "early")

    a = plugin("a", build_prompt_layer=named("a"), open_session=lambda: Half())
    b = plugin("b", build_prompt_layer=named("b", trylast=True))
    c = plugin("c", build_prompt_layer=named("c"))
    d = plugin("d", build_prompt_layer=named("d", tryfirst=True))
    kit = await bench(a, b, c, d, answers=["ok"])
    await kit.run("x")
    assert [layer.name for layer in kit.requests[0].layers] == [
        "an instance early",
        "d",
        "a",
        "an instance",
        "c",
        "b",
    ]


async def test_gather_asks_all_at_once_and_drops_none(bench, autojump_clock):
    """Ten slow sources of context take as long as one.

    Answers stand in plugin order, whoever is first.
    """

    def source(n):
        async def gather_context():
            await trio.sleep(2 - n / 10)
            return None if n == 3 else [Block("note", str(n))]

        return plugin(f"p{n}", gather_context=gather_context)

    kit = await bench(*(source(n) for n in range(10)), answers=["ok"])
    began = trio.current_time()
    await kit.run("x")
    assert trio.current_time() - began == pytest.approx(2.0)
    texts = [part.text for part in kit.requests[0].messages[0].parts]
    assert texts == ["x"] + [f"<note>\n{n}\n</note>" for n in range(10) if n != 3]


async def test_first_stops_at_the_first_answer(bench):
    """Nobody is asked after somebody has answered; a fault is no answer."""
    asked = []

    def reading(name, answer):
        def interpret_prompt(text):
            asked.append(name)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return plugin(name, interpret_prompt=interpret_prompt)

    plugins = [
        reading("silent", None),
        reading("broken", ValueError("x")),
        reading("sure", Interpretation("changed")),
    ]
    kit = await bench(
        *plugins, reading("late", Interpretation("never")), answers=["ok"], faults=True
    )
    await kit.run("x")
    assert asked == ["silent", "broken", "sure"]
    assert kit.requests[0].messages[0].parts[0].text == "changed"


async def test_command_in_a_prompt_is_answered_without_a_model(bench):
    """interpret_prompt may settle the matter."""
    kit = await bench(
        plugin("p", interpret_prompt=lambda text: Interpretation(text, reply=f"did {text}"))
    )
    run = await kit.start("/clear")
    assert run.reply == "did /clear"
    assert (await run.wait()).state == "completed"
    assert kit.requests == []


async def test_pipe_hands_the_value_on(bench):
    """Each plugin gets the result as the one before left it; None leaves it alone."""

    def adding(name, text):
        def check_result(result):
            if text is None:
                return None
            parts = (*result.parts, type(result.parts[0])(text, "kernel"))
            return type(result)(result.call_id, result.name, parts)

        return plugin(name, check_result=check_result)

    kit = await bench(plugin("t", look), adding("a", "A"), adding("b", None), adding("c", "C"))
    assert (await kit.call("look")).text == "seen 0\nA\nC"


async def test_command_is_wrapped_before_it_starts(bench):
    """wrap_process may change the environment of any plugin's child process."""

    def wrap_process(command):
        return type(command)(command.argv, command.cwd, {**command.env, "WRAPPED": "yes"})

    kit = await bench(plugin("t", shell), plugin("sandbox", wrap_process=wrap_process))
    assert (await kit.call("shell")).text == "yes\n"


async def test_refused_command_is_no_fault(bench):
    """A plugin that refuses commands with ToolDenied does its work, however often, and stays on."""

    async def wrap_process():
        raise ToolDenied("No programs here.", hint="Ask the user.")

    kit = await bench(plugin("t", shell), plugin("sandbox", wrap_process=wrap_process))
    for _ in range(5):
        result = await kit.call("shell")
        assert result.code == "E_DENIED"
        assert "No programs here." in result.text
    assert kit.faults == []


@pytest.mark.parametrize(
    ("verdicts", "outcome"),
    [
        ([None, None], "runs"),
        ([allow(), None], "runs"),
        ([allow(), ask("sure?"), allow()], "asks"),
        ([ask("sure?"), deny("no way"), allow()], "denied"),
        ([deny("no way"), ask("sure?")], "denied"),
        ([ask("sure?"), deny("no way", code="E_BLOCKED")], "blocked"),
    ],
)
async def test_strictest_verdict_wins(bench, verdicts, outcome):
    """Deny beats ask beats allow, in whatever order the plugins stand; no opinion is none."""

    def gate(n, verdict):
        return plugin(f"g{n}", on_tool_call=lambda: verdict)

    gates = [gate(n, verdict) for n, verdict in enumerate(verdicts)]
    kit = await bench(plugin("t", look), *gates, answers=[use("look"), "ok"])
    run = await kit.start("x")
    if outcome == "asks":
        asked = await kit.wait_for(ApprovalAsked)
        assert asked.reason == "sure?"
        kit.session.answer(asked.id, True)
    with kit.guard():
        await run.wait()
    assert kit.results[0].code == {"denied": "E_DENIED", "blocked": "E_BLOCKED"}.get(outcome, "")
    assert ("no way" in kit.results[0].text) == (outcome in ("denied", "blocked"))


async def test_notes_of_remind_stand_at_the_tail(bench):
    """remind gets the results of the round, in call order."""

    def remind(results):
        return " and ".join(result.text for result in results)

    kit = await bench(
        plugin("t", look, remind=remind), answers=[use("look", n=1) + use("look", n=2), "ok"]
    )
    await kit.run("x")
    assert kit.of(RoundEnded)[0].notes == ("seen 1 and seen 2",)
    assert kit.requests[1].messages[-1].text == "seen 1 and seen 2"


async def test_half_joins_the_hooks_of_its_session_only(bench):
    """State of a session is the instance's; two sessions never see each other's."""
    instances = []

    class Half:
        def __init__(self):
            self.count = 0
            instances.append(self)

        @hookimpl
        def build_prompt_layer(self):
            self.count += 1
            return Layer(40, "count", str(self.count))

    kit = await bench(
        plugin("p", open_session=lambda: Half()), answers=[say("a"), say("b"), say("c")]
    )
    await kit.run("x")
    async with kit.kernel.open_session(kit.workspace) as other:
        await other.run("x")
        assert other.plugin(Half) is instances[1]
    await kit.run("y")
    assert kit.session.plugin(Half) is instances[0]
    assert [layers.layers[0].text for layers in kit.of(PromptFrozen)] == ["1", "2"]
    assert instances[1].count == 1


def test_async_implementation_of_a_collect_hook_is_refused_at_load():
    """It would be a coroutine that nobody awaits."""
    from hilum.plugins import Host
    from hilum.settings import PluginSettings

    host = Host(lambda fault: None, [])

    async def provide_tools():
        return []

    host.find([plugin("p", provide_tools=provide_tools)], PluginSettings())
    with pytest.raises(PluginError, match="must be a plain def"):
        host.load()


@pytest.mark.parametrize(
    ("hook", "text"),
    [
        ("provide_tool", "no hook 'provide_tool'"),
        ("remind", "remind has no argument message; it has agent, results"),
    ],
)
def test_misspelt_hooks_and_arguments_are_named(hook, text):
    """The message says which plugin is meant and what would be right."""
    from hilum.plugins import Host
    from hilum.settings import PluginSettings

    host = Host(lambda fault: None, [])
    host.find([plugin("p", **{hook: lambda message: None})], PluginSettings())
    with pytest.raises(PluginError, match=f"The plugin 'p' does not fit: .*{text}"):
        host.load()


async def test_ten_plain_implementations_cost_microseconds():
    """A def runs inline: no nursery, no checkpoint."""
    table = GateTable(lambda fault: None, HOOKS, [])
    for n in range(10):
        table.add(plugin(f"p{n}", remind=lambda: "x"), f"p{n}", n)
    with trio.CancelScope() as scope:
        scope.cancel()
        answers = await table.gather("remind", agent=None, results=[])
    assert len(answers) == 10
    assert not scope.cancelled_caught


async def test_plugins_list_the_commands_that_they_carry_out(bench):
    """list_commands is collected in the order of the plugins."""
    first = plugin("first", list_commands=lambda: [PromptCommand("one"), PromptCommand("two")])
    second = plugin("second", list_commands=lambda session: [PromptCommand(session.id)])
    kit = await bench(first, second, plugin("third", list_commands=lambda: None))
    listed = [(name, command.name) for name, command in kit.session.list_commands()]
    assert listed == [("first", "one"), ("first", "two"), ("second", kit.session.id)]
