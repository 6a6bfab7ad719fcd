"""Who is charged for which part of a request, and what the log cannot tell."""

import hilum
import pytest
import trio
from hilum import Block, Compaction, Layer, ModelError, Tool, hookimpl, models, tool
from hilum import events as ev
from hilum.messages import (
    AssistantMessage,
    Price,
    Text,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
    UserMessage,
)
from hilum.messages import Layer as LogLayer
from hilum.testing import ScriptedModel, cut, plugin, say, use
from hilum_trace.bill.bill import (
    ANSWERS,
    KERNEL,
    NO_TOOL,
    NOT_RECORDED,
    PROMPTS,
    Bill,
    ChargedSession,
)
from hilum_trace.bill.budgets.amounts import Amount
from hilum_trace.bill.budgets.spending_fold import SpendingFold
from hilum_trace.bill.charges import LostRequest, RequestCharge, fold_charges
from msgspec.structs import replace

HERE = ChargedSession("s1", "/work")


def bill_of(events, by):
    bill = Bill(by)
    for charge in fold_charges(events):
        bill.add(charge, HERE)
    return bill


def amounts(events, by):
    return {row.name: row.amount for row in bill_of(events, by).rows()}


class Everything:
    """A plugin that contributes to a prompt in every way."""

    @hookimpl
    def build_prompt_layer(self):
        return Layer(40, "rules", "Follow the rules. " * 100)

    @hookimpl
    async def gather_context(self):
        return [Block("one", "Context. " * 50), Block("two", "More context. " * 50)]

    @hookimpl
    async def remind(self):
        return "Remember the rules. " * 10

    @hookimpl
    async def check_answer(self, message):
        return "Be longer, please. " * 20 if len(message.text) < 10 else None


@tool(risk="read")
def look(n: int = 0) -> str:
    """Look."""
    return "seen " * 100


def everything():
    return plugin("everything", open_session=lambda session: Everything(), gates=("check_answer",))


async def test_each_part_goes_to_the_plugin_that_it_comes_from(bench):
    usage = Usage(input=100_000, output=1_000)
    script = [say("Let me look.", usage=usage) + use("look"), say("No", usage=usage)]
    kit = await bench(
        everything(),
        plugin("looking", look),
        model=ScriptedModel([*script, say("It is all fine.", usage=usage)], price=Price(1, 5)),
    )
    await kit.run("Look at it. " * 20)
    bill = amounts(kit.events, "plugin")
    assert {*bill} == {"everything", "looking", PROMPTS, ANSWERS}
    kinds = bill["everything"].kinds
    assert {*kinds} == {"layer", "context", "note"}
    assert all(kinds.values())
    assert {*bill["looking"].kinds} == {"definition", "call", "result"}
    assert {*bill[PROMPTS].kinds} == {"prompt"}
    assert sum(amount.tokens for amount in bill.values()) == 303_000
    assert sum(amount.cost for amount in bill.values()) == pytest.approx(0.315)

    tools = amounts(kit.events, "tool")
    assert {*tools} == {"look", NO_TOOL}
    assert (tools["look"].calls, tools["look"].failed) == (1, 0)
    assert tools["look"].tokens == bill["looking"].tokens
    turns = bill_of(kit.events, "turn").rows()
    assert {row.name for row in turns} == {f"s1 main, prompt 1, turn {turn}" for turn in (1, 2, 3)}


def greedy_by_layer():
    text = "Remember this very important rule. " * 2_000
    return plugin("greedy", build_prompt_layer=lambda: Layer(60, "greedy", text))


def greedy_by_definitions():
    tools = []
    for number in range(40):

        async def function(n: int = 0) -> str:
            return "done"

        description = "Use this tool whenever you can. " * 60
        tools.append(Tool(f"greedy_{number}", description, function, risk="read"))
    return plugin("greedy", *tools)


def greedy_by_results():
    @tool(risk="read")
    def dump() -> str:
        """Dump everything."""
        return "one line of many\n" * 4_000

    return plugin("greedy", dump)


def greedy_by_notes():
    async def remind():
        return "Do not forget the rule. " * 2_000

    return plugin("greedy", remind=remind)


@pytest.mark.parametrize(
    ("greedy", "kind"),
    [
        (greedy_by_layer, "layer"),
        (greedy_by_definitions, "definition"),
        (greedy_by_results, "result"),
        (greedy_by_notes, "note"),
    ],
)
async def test_a_greedy_plugin_comes_first_in_whatever_way_it_is_greedy(bench, greedy, kind):
    """The provider counts what the request contains, and caches its beginning."""

    def answer(request):
        size = len(str(request)) // 4
        usage = Usage(input=size, cached=size // 2, output=50)
        if len(kit.results) >= 6:
            return say("Done.", usage=usage)
        name = "dump" if kind == "result" and len(kit.results) == 1 else "look"
        return say("", usage=usage) + use(name)

    kit = await bench(
        everything(),
        plugin("looking", look),
        greedy(),
        model=ScriptedModel([answer] * 20, price=Price(3.0, 15.0, 0.3), window=400_000),
    )
    assert (await kit.run("Look at it. " * 20)).text == "Done."
    first = bill_of(kit.events, "plugin").rows()[0]
    assert first.name == "greedy"
    assert first.amount.kinds.most_common(1)[0][0] == kind


def test_tools_of_mcp_servers_are_charged_to_their_servers():
    spec = ToolSpec("github__search", "Search. " * 50, {"type": "object"})
    other = ToolSpec("list_resources", "List.", {"type": "object"})
    call = ToolCall("c1", "github__search", "{}")
    usage = Usage(input=1_000, output=10, cost=0.5)
    answered = ev.ModelAnswered(message=AssistantMessage((call,), stop="calls"), usage=usage)
    events = [
        ev.PromptFrozen(
            layers=(LogLayer(0, "meta", "You are a test."),),
            tools=(spec, other),
            changed=("tool github__search",),
            sources={"tool github__search": "mcp", "tool list_resources": "mcp"},
        ),
        ev.RunStarted(text="x", message=UserMessage((Text("x"),))),
        ev.ModelStarted(model="a/b"),
        answered,
        ev.CallStarted(call=call, plugin="mcp"),
        ev.CallDone(result=ToolResult("c1", "github__search", (Text("y" * 900),)), seconds=2.0),
        ev.RoundEnded(),
        ev.ModelStarted(model="a/b"),
        ev.ModelAnswered(message=AssistantMessage(()), usage=usage),
        ev.ModelUsed(model="a/b", purpose="mcp github", plugin="mcp", usage=usage),
    ]
    bill = amounts([replace(event, agent="main", run="r") for event in events], "plugin")
    assert {*bill["mcp github"].kinds} == {"definition", "call", "result", "own request"}
    assert bill["mcp github"].calls == 1
    assert {*bill["mcp"].kinds} == {"definition"}


async def test_the_summary_of_a_compaction_goes_to_its_plugin(bench):
    usage = Usage(input=10_000, output=10)

    async def trim_context(messages):
        return Compaction(len(messages) - 1, "A long summary. " * 200)

    kit = await bench(
        plugin("trimming", trim_context=trim_context),
        model=ScriptedModel([say("One.", usage=usage), say("Two.", usage=usage)]),
    )
    await kit.run("x" * 400)
    kit.session.compact()
    await kit.wait_for(ev.Compacted)
    await kit.run("y")
    assert amounts(kit.events, "plugin")["trimming"].kinds["summary"] > 5_000


async def test_own_requests_go_to_the_plugin_whose_code_makes_them(bench):
    """In a hook, in a tool, and in a task that a hook has started."""

    @tool(risk="read")
    async def think(call: hilum.Call) -> str:
        """Think."""
        await models.ask_model(call.agent, "", "Think.", "?", purpose="think")
        return "thought"

    class Judge:
        @hookimpl
        async def remind(self, agent):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.ask, agent)

        async def ask(self, agent):
            await models.ask_model(agent, "", "Judge.", "?", purpose="judge")

    def answer(request):
        if "/" in request.agent:
            return say("Fine.", usage=Usage(input=300, output=7))
        return "Done." if kit.results else use("think")

    kit = await bench(
        plugin("thinking", think),
        plugin("judging", open_session=lambda session: Judge()),
        model=ScriptedModel([answer] * 9),
    )
    await kit.run("x")
    used = {event.purpose: event.plugin for event in kit.of(ev.ModelUsed)}
    assert used == {"think": "thinking", "judge": "judging"}
    bill = amounts(kit.events, "plugin")
    assert bill["judging"].kinds == {"own request": 307}
    assert bill["judging"].requests == 1


async def test_the_cached_part_of_a_request_is_its_beginning(bench):
    """A layer is cached; what came last is not, and pays the full price."""
    price = Price(input=10.0, output=0.0, cached=1.0)
    first = say("", usage=Usage(input=10_000)) + use("look")
    second = say("Done.", usage=Usage(input=11_000, cached=9_000, cache_write=500))
    kit = await bench(
        everything(), plugin("looking", look), model=ScriptedModel([first, second], price=price)
    )
    await kit.run("x")
    charge = [c for c in fold_charges(kit.events) if isinstance(c, RequestCharge)][1]
    layer = next(share for origin, share in charge.shares.items() if origin.kind == "layer")
    result = next(share for origin, share in charge.shares.items() if origin.kind == "result")
    assert layer.cached == layer.input
    assert result.cached == 0
    assert layer.cost == pytest.approx(layer.input * 1.0 / 1e6)
    assert result.cost == pytest.approx(result.input * 10.0 / 1e6)
    assert sum(share.cached for share in charge.shares.values()) == 9_000
    assert sum(share.cache_write for share in charge.shares.values()) == 500


async def test_requests_that_broke_off_are_named_and_not_counted(bench, autojump_clock):
    busy = ModelError("busy", kind="rate_limit", retry_after=1.0)
    kit = await bench(model=ScriptedModel([busy, say("Half") + cut(), "Done."]))
    await kit.run("x")
    lost = [charge for charge in fold_charges(kit.events) if isinstance(charge, LostRequest)]
    assert [each.reason for each in lost] == ["broken"]
    bill = bill_of(kit.events, "model")
    assert (bill.lost, bill.total.requests) == (1, 1)
    assert bill.lost_tokens == lost[0].estimate > 0


@pytest.mark.parametrize(
    "end",
    [
        ev.RunEnded(agent="main", run="r", state="stopped", at=90_003.0),
        ev.ModelStarted(agent="main", run="r", model="a/b", attempt=2, at=90_003.0),
    ],
)
def test_the_time_between_two_processes_is_no_time_of_a_request(end):
    """The process was killed during a request, and hilum was opened again a day later."""
    events = [
        ev.ModelStarted(agent="main", run="r", model="a/b", estimate=500, at=1_000.0),
        ev.RunsCutOff(last=1_006.0, at=90_000.0),
        end,
    ]
    bill = bill_of(events, "model")
    assert (bill.lost, bill.lost_tokens, bill.total.seconds) == (1, 500, 6.0)
    assert amounts(events, "model")["a/b"].seconds == 6.0
    assert amounts(events, "plugin")[ANSWERS].seconds == 6.0
    fold = SpendingFold(lambda model: None)
    fold.apply(events)
    assert fold.total == Amount(0.0, 500, 0.1)


def test_a_killed_call_counts_until_the_last_heartbeat_of_its_process():
    """It ran for ten minutes, was killed, and was repeated a day later, in 5 seconds."""
    call = ToolCall("c", "build", "{}")
    whose = {"agent": "main", "run": "r"}
    events = [
        ev.CallStarted(call=call, at=1_000.0, **whose),
        ev.Heartbeat(at=1_600.0),
        ev.SessionReopened(last=1_600.0, interrupted=("main",), at=90_000.0),
        ev.CallStarted(call=call, at=90_001.0, **whose),
        ev.CallDone(result=ToolResult("c", "build", ()), seconds=5.0, at=90_006.0, **whose),
    ]
    assert bill_of(events, "agent").total.seconds == 605.0
    fold = SpendingFold(lambda model: None)
    fold.apply(events)
    assert fold.total.minutes == pytest.approx(605 / 60)


def test_the_time_of_a_sub_agent_counts_once():
    """The call that waits for it contains the time of its requests and calls."""
    events = [
        ev.ModelAnswered(agent="task-1", run="s", message=AssistantMessage(()), seconds=6.0),
        ev.CallDone(agent="task-1", run="s", result=ToolResult("c2", "look", ()), seconds=12.0),
        ev.CallDone(agent="main", run="r", result=ToolResult("c1", "task", ()), seconds=20.0),
    ]
    assert bill_of(events, "agent").total.seconds == 18.0
    fold = SpendingFold(lambda model: None)
    fold.apply(events)
    assert fold.total.minutes == pytest.approx(0.3)


OLD = [
    ev.PromptFrozen(
        agent="main",
        layers=(LogLayer(0, "meta", "You are a test. " * 20),),
        tools=(ToolSpec("look", "Look.", {"type": "object"}),),
    ),
    ev.RunStarted(agent="main", run="r", text="x", message=UserMessage((Text("x"),))),
    ev.ModelStarted(agent="main", run="r", model="a/b"),
    ev.ModelAnswered(
        agent="main",
        run="r",
        message=AssistantMessage((Text("Hi.", "model"),)),
        usage=Usage(input=100, output=10, cost=0.5),
    ),
]


def test_logs_without_the_names_of_plugins_say_so():
    """And a cost without prices is still divided completely."""
    bill = amounts(OLD, "plugin")
    assert {*bill} == {NOT_RECORDED, PROMPTS, ANSWERS}
    assert sum(amount.cost for amount in bill.values()) == pytest.approx(0.5)
    assert KERNEL not in bill


def test_a_log_that_begins_in_the_middle_loses_no_token():
    bill = amounts(OLD[2:], "plugin")
    assert bill[NOT_RECORDED].input == 100
    assert bill[ANSWERS].output == 10


def test_counts_without_tokens_and_tokens_without_a_price_are_named():
    event = OLD[-1]
    uncounted = bill_of([*OLD[:-1], ev.ModelAnswered(agent="main", message=event.message)], "model")
    assert uncounted.uncounted == 1
    unpriced = ev.ModelAnswered(agent="main", message=event.message, usage=Usage(input=7, output=2))
    assert bill_of([*OLD[:-1], unpriced], "model").total.unpriced == 9
