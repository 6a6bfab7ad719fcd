"""Published incidents in which an agent spent without end, re-enacted under a budget.

In each, the overshoot is at most one request: what was spent exceeds the budget by no more than
the most expensive request cost.
"""

import hilum
import pytest
import trio
from hilum import HilumError, Layer, ModelError, hookimpl, models, tool
from hilum.events import Compacted, ModelAnswered, ModelFailed, ModelUsed, RunEnded
from hilum.messages import Price, Usage
from hilum.store import MemoryStore
from hilum.testing import ScriptedModel, cut, pause, plugin, say, use
from hilum_trace.bill.budgets.amounts import Amount
from hilum_trace.bill.budgets.spending_fold import SpendingFold, amount_of

DEAR = Price(input=10.0, output=50.0, cached=1.0)
# Requests whose cost the kernel can only guess: more input than the text has, and a long answer.
TURN = Usage(input=2_000, output=400)


@tool(risk="read")
def look(n: int = 0) -> str:
    """Look."""
    return f"seen {n}"


@tool(risk="read", effect="once")
def fetch(n: int = 0) -> str:
    """Fetch a lot of text."""
    return f"{n}: " + f"line {n} " * 2_000


def looking(usage=TURN):
    """An answer that calls a tool, and never ends the run."""
    return say("", usage=usage) + use("look", n=1)


def always(*answers, count=5_000):
    """A script that repeats answers for longer than any budget lasts."""
    return [answers[number % len(answers)] for number in range(count)]


def scripted(answers, **options):
    given = {"price": DEAR, "max_output": 1_000} | options
    return ScriptedModel(answers, **given)


def spent(events):
    """What the log says was spent, and the largest single request."""
    fold = SpendingFold(lambda model: DEAR)
    fold.apply(events)
    single = [Amount()]
    for event in events:
        if isinstance(event, ModelAnswered) or (
            isinstance(event, ModelUsed) and not event.purpose.startswith("agent ")
        ):
            single.append(amount_of(event.usage, event.seconds))
    largest = Amount(*(max(values) for values in zip(*single, strict=True)))
    return fold, largest


def check(kit, unit, limit, amount=None):
    """The budget was used, and was exceeded by one request at most."""
    fold, largest = spent(kit.events)
    used = (amount or fold.total).of(unit)
    assert used > limit / 2
    assert used <= limit + largest.of(unit)
    return fold


LOOP = {"turns": 100_000, "token_limit": None}


async def test_a_stuck_item_is_tried_again_all_night(bench):
    """anthropics/claude-code #57719: $313 in 8.5 hours, one prompt after another."""
    kit = await bench(
        "budgets",
        model=scripted(always(say("Not committed.", usage=TURN))),
        settings={"budgets.session.dollars": 0.5},
    )
    for _ in range(60):
        ended = await kit.run("Analyse item 153969.")
    assert ended.code == "E_BUDGET"
    check(kit, "dollars", 0.5)


async def test_a_daemon_starts_a_new_session_for_each_attempt(tmp_path):
    """The same, with a new session and a new kernel each time: the day's budget ends it."""
    store = MemoryStore()
    environ = {"HILUM_DATA": str(tmp_path), "HILUM_CONFIG": str(tmp_path), "HOME": str(tmp_path)}
    total = 0.0
    codes = []
    for _ in range(30):
        model = scripted([say("Not committed.", usage=TURN)])
        async with hilum.open_kernel(
            ["budgets"],
            settings={"model": "scripted/model", "budgets.day.dollars": 0.5},
            store=store,
            environ=environ,
        ) as kernel:
            kernel.router.replace(hilum.testing.ModelProvider({"model": model}))
            async with kernel.open_session(tmp_path) as session:
                ended = await session.run("Analyse item 153969.")
        codes.append(ended.code)
        total += ended.usage.cost or 0.0
    assert codes[-1] == "E_BUDGET"
    assert "for today" in ended.error
    assert 0.45 < total <= 0.5 + 0.04


async def test_failed_retries_that_the_provider_charges_for(bench, autojump_clock):
    """anthropics/claude-code #85422: 430 million tokens in failed retries.

    An answer that breaks off is charged, although the provider sends no counts.
    """
    kit = await bench(
        "budgets",
        plugin("layer", build_prompt_layer=lambda: Layer(0, "meta", "Rule. " * 4_000)),
        model=scripted(always(say("Half of an ans") + cut())),
        settings={"budgets.session.tokens": 200_000},
    )
    for _ in range(60):
        ended = await kit.run("Go on.")
    assert ended.code == "E_BUDGET"
    check(kit, "tokens", 200_000)
    assert len(kit.of(ModelFailed)) < 40


async def test_five_agents_become_hundreds(bench):
    """anthropics/claude-code #85422 (5 agents became 361), #92349 (325), #91942 (160)."""
    agents = use("task", description="audit settings", prompt="Audit.", background=True)
    fan_out = say("", usage=TURN) + agents + agents + agents + agents + agents
    kit = await bench(
        "budgets",
        "agents",
        "scheduler",
        model=scripted(always(fan_out, count=3_000)),
        settings={**LOOP, "budgets.session.tokens": 100_000, "scheduler.at_once": 20},
        patience=120.0,
    )
    ended = await kit.run("Audit all settings.")
    assert ended.code == "E_BUDGET"
    check(kit, "tokens", 100_000)


async def test_sub_agents_start_sub_agents(bench):
    """anthropics/claude-code #69578: 800,000 tokens and $27.60 by recursion."""
    deeper = say("", usage=TURN) + use("task", description="look deeper", prompt="Look deeper.")
    kit = await bench(
        "budgets",
        "agents",
        "scheduler",
        model=scripted(always(deeper)),
        settings={**LOOP, "budgets.session.dollars": 0.6, "scheduler.depth": 50},
        patience=120.0,
    )
    ended = await kit.run("Look.")
    assert ended.code == "E_BUDGET"
    check(kit, "dollars", 0.6)


async def test_a_sub_agent_loops_and_the_agent_that_started_it_goes_on(bench):
    """anthropics/claude-code #72080: 12 % of a week's allowance by looping sub-agents.

    A budget for each agent ends the sub-agent; the main agent reports.
    """

    def answer(request):
        if request.agent != "main":
            return looking()
        if len(request.messages) == 1:
            return use("task", description="look", prompt="Look.")
        return "The sub-agent found nothing."

    kit = await bench(
        plugin("looking", look),
        "budgets",
        "agents",
        "scheduler",
        model=scripted(always(answer)),
        settings={
            **LOOP,
            "scheduler.task_turns": 10_000,
            "budgets.agents": {"task*": {"tokens": 50_000}},
        },
        patience=60.0,
    )
    ended = await kit.run("Look.")
    assert (ended.state, ended.text) == ("completed", "The sub-agent found nothing.")
    sub = [each for each in kit.of(RunEnded) if each.agent != "main"]
    assert [each.code for each in sub] == ["E_BUDGET"]
    fold, _ = spent(kit.events)
    check(kit, "tokens", 50_000, fold.agents[sub[0].agent])


async def test_a_hook_of_a_plugin_burns_the_window(bench):
    """anthropics/claude-code #85422: a plugin's hook that asks a model after every step.

    Its own budget ends the plugin's requests; the run of the agent goes on.
    """
    refused = []

    class Watcher:
        @hookimpl
        async def remind(self):
            agent = kit.session.agents["main"]
            try:
                await models.ask_model(agent, "", "Judge the step.", "?", purpose="judge")
            except HilumError as error:
                refused.append(error)

    def answer(request):
        if request.agent.endswith("/judge"):
            return say("Fine.", usage=Usage(input=20_000, output=500))
        return looking(Usage(input=500, output=50)) if len(kit.results) < 40 else "Done."

    kit = await bench(
        plugin("looking", look),
        plugin("watcher", open_session=lambda session: Watcher()),
        "budgets",
        model=scripted(always(answer)),
        settings={**LOOP, "budgets.plugins": {"watcher": {"tokens": 200_000}}},
    )
    ended = await kit.run("Work.")
    assert ended.text == "Done."
    assert {error.code for error in refused} == {"E_BUDGET"}
    assert "the plugin watcher" in refused[0].message
    assert {each.plugin for each in kit.of(ModelUsed)} == {"watcher"}
    fold, _ = spent(kit.events)
    check(kit, "tokens", 200_000, fold.plugins["watcher"])


async def test_compactions_in_a_loop(bench):
    """anthropics/claude-code #9579: each step fills the window, and is summarized at once."""

    def answer(request):
        if not request.tools:
            return say("Summary. " * 100, usage=Usage(input=6_000, output=800))
        return say("", usage=Usage(input=6_000, output=50)) + use("fetch", n=len(kit.results))

    kit = await bench(
        plugin("fetching", fetch),
        "budgets",
        "memory",
        model=scripted(always(answer), window=9_000, max_output=800),
        settings={**LOOP, "budgets.session.tokens": 400_000},
    )
    ended = await kit.run("Process the file.")
    assert ended.code == "E_BUDGET"
    assert len(kit.of(Compacted)) > 3
    check(kit, "tokens", 400_000)


async def test_a_server_samples_in_a_loop(bench):
    """A tool that asks the agent's model again and again, as MCP servers may (sampling)."""

    @tool(risk="read", timeout=60)
    async def research(call: hilum.Call) -> str:
        """Research."""
        while True:
            await models.ask_model(call.agent, "", "Sample.", "More?", purpose="mcp lab")

    def answer(request):
        if request.agent.endswith("/mcp lab"):
            return say("More.", usage=TURN)
        return use("research")

    kit = await bench(
        plugin("lab", research),
        "budgets",
        model=scripted(always(answer)),
        settings={**LOOP, "budgets.session.dollars": 0.4},
    )
    ended = await kit.run("Research.")
    assert ended.code == "E_BUDGET"
    assert kit.results[0].code == "E_BUDGET"
    check(kit, "dollars", 0.4)


async def test_many_small_turns(bench):
    """vybestack/llxprt-code #3344: small turns stay below every limit of a single answer."""
    kit = await bench(
        plugin("looking", look),
        "budgets",
        model=scripted(always(looking(Usage(input=300, output=5))), max_output=100),
        settings={**LOOP, "budgets.session.tokens": 20_000},
    )
    ended = await kit.run("Work.")
    assert ended.code == "E_BUDGET"
    check(kit, "tokens", 20_000)


async def test_a_broken_cache_is_billed_again_and_again(bench):
    """anthropics/claude-code #92033: 2,766 breaks of the cache re-billed 224 million tokens.

    The cache is expected to hold, and breaks at every second request.
    """
    whole = say("", usage=Usage(input=30_000, cached=29_000, output=50)) + use("look")
    bust = say("", usage=Usage(input=30_000, output=50)) + use("look")
    kit = await bench(
        plugin("looking", look),
        "budgets",
        model=scripted(always(whole, bust)),
        settings={**LOOP, "budgets.session.dollars": 2.0},
    )
    ended = await kit.run("Work.")
    assert ended.code == "E_BUDGET"
    check(kit, "dollars", 2.0)


@pytest.mark.parametrize("at_once", [2, 50])
async def test_a_burst_of_parallel_requests(bench, autojump_clock, at_once):
    """Requests that are sent at the same time do not share the same rest of a budget."""

    @tool(risk="read", timeout=600)
    async def burst(call: hilum.Call) -> str:
        """Ask many times at once."""
        async with trio.open_nursery() as nursery:
            for _ in range(at_once):
                nursery.start_soon(ask_without_end, call.agent)
        return "done"

    async def ask_without_end(agent):
        for _ in range(100):
            try:
                await models.ask_model(agent, "", "Sample.", "More? " * 4_400, purpose="burst")
            except HilumError:
                return

    def answer(request):
        if request.agent.endswith("/burst"):
            return pause(1.0) + say("More.", usage=Usage(input=10_000, output=900))
        return use("burst")

    kit = await bench(
        plugin("bursting", burst),
        "budgets",
        model=scripted(always(answer)),
        settings={**LOOP, "budgets.session.tokens": 120_000},
    )
    ended = await kit.run("Go.")
    assert ended.code == "E_BUDGET"
    check(kit, "tokens", 120_000)


async def test_thinking_without_end(bench, autojump_clock):
    """anthropics/claude-code #26171: an answer every 20 minutes, and no result."""
    slow = pause(20.0) + say("Hm.", usage=TURN) + use("look")
    kit = await bench(
        plugin("looking", look),
        "budgets",
        model=scripted(always(slow)),
        settings={**LOOP, "budgets.session.minutes": 10},
    )
    ended = await kit.run("Think.")
    assert ended.code == "E_BUDGET"
    check(kit, "minutes", 10)


async def test_a_provider_that_fails_before_it_counts_costs_nothing(bench, autojump_clock):
    """A rate limit is no spending: the budget is not used up by waiting for it."""
    busy = ModelError("busy", kind="rate_limit", retry_after=1.0)
    kit = await bench(
        "budgets",
        model=scripted([busy, busy, "Done."]),
        settings={"budgets.session.tokens": 3_000},
    )
    assert (await kit.run("Go.")).text == "Done."
