"""Background tasks: wake-ups, stops and budgets."""

import trio
from hilum import Profile, Usage, tool
from hilum.events import ModelStarted, PluginEvent, PromptQueued, RunEnded
from hilum.testing import Answer, pause, plugin, say, use
from hilum_agents import runs
from hilum_agents.runs import Runs

FOREVER = pause(1e8)


@tool(risk="execute")
async def act() -> str:
    """Act."""
    await trio.lowlevel.checkpoint()
    return "acted"


TOOLS = plugin("tools", provide_tools=lambda: [act])


def start(words, *, background=True):
    """Return a call of ``task`` whose sub-agent gets this prompt."""
    return use("task", description="Some work", prompt=words, background=background)


def by_prompt(**lists):
    """Return a model that answers each conversation from its own list.

    The list is named like the first word of the conversation's first message.
    """

    def answer(request):
        return lists[request.messages[0].parts[0].text.split()[0]].pop(0)

    return [answer] * 40


def prompts(kit, agent):
    """Return the prompts of an agent."""
    return [event.text for event in kit.of(PromptQueued) if event.agent == agent]


def queued(kit):
    """Return the data of the queued jobs, oldest first."""
    return [event.data for event in kit.of(PluginEvent) if event.name == "agents.queued"]


async def test_the_end_wakes_only_the_sub_agent_that_started_the_task(bench):
    """It continues its conversation, and the agent above is notified of its end."""
    gate = trio.Event()
    answers = by_prompt(
        main=[start("middle", background=False), "I have it.", "So that is it."],
        middle=[start("deep"), "More will come.", "Deep is done."],
        deep=[pause(gate) + say("Found.")],
    )
    kit = await bench(runs, answers=answers)
    assert (await kit.run("main")).text == "I have it."
    assert any(result.text.startswith("More will come.") for result in kit.results)
    middle, deep = queued(kit)
    gate.set()
    with kit.guard():
        await kit.wait_for(RunEnded, lambda event: event.text == "So that is it.")
    again = queued(kit)[2]
    assert (again["of"], again["actor"], again["owner"]) == (
        middle["agent_id"],
        middle["actor"],
        "main",
    )
    assert [deep["agent_id"] in text for text in prompts(kit, middle["actor"])] == [False, True]
    assert [again["agent_id"] in text for text in prompts(kit, "main")] == [False, True]
    assert len(queued(kit)) == 3
    assert (await kit.session.plugin(Runs).result(again["agent_id"]))["text"] == "Deep is done."


async def test_it_wakes_a_named_agent_in_its_own_conversation(bench):
    """It is woken once, and its answer becomes a new result."""
    gate = trio.Event()
    kit = await bench(
        runs,
        answers=by_prompt(
            look=[start("deep"), "Wait.", "All found."], deep=[pause(gate) + say("Found.")]
        ),
    )
    agent_runs = kit.session.plugin(Runs)
    identity = agent_runs.begin(Profile("review"), "look", keep=True)
    assert (await agent_runs.wait(identity))["text"] == "Wait."
    gate.set()
    with kit.guard():
        later = await agent_runs.after(identity)
        assert (await agent_runs.wait(later))["text"] == "All found."
        assert await agent_runs.after(later) == ""
    assert len(prompts(kit, "review")) == 2


async def test_it_is_stopped_with_the_one_above_its_owner(bench):
    """This also applies if the owner has ended already."""
    answers = by_prompt(
        main=[start("middle", background=False), FOREVER],
        middle=[start("deep"), "Later."],
        deep=[FOREVER],
    )
    kit = await bench(runs, answers=answers)
    run = await kit.start("main")
    await kit.wait_for(ModelStarted, lambda event: event.agent == "main" and event.turn == 2)
    await kit.wait_for(ModelStarted, lambda event: event.agent == queued(kit)[-1]["actor"])
    kit.session.stop("main")
    agent_runs = kit.session.plugin(Runs)
    with kit.guard():
        await run.wait()
        assert (await agent_runs.wait(queued(kit)[1]["agent_id"]))["status"] == "stopped"
    assert not agent_runs.busy()
    assert len(queued(kit)) == 2


async def test_the_owner_cannot_spend_what_it_has_granted(bench):
    """Of 1,000 tokens 400 go to the task; the owner ends at 600, not at 1,000."""
    spent = Answer(use("act").parts, usage=Usage(input=250))
    first = Answer(start("deep").parts, usage=Usage(input=200))
    answers = by_prompt(main=[first, spent, spent, spent, spent], deep=[FOREVER])
    kit = await bench(runs, TOOLS, answers=answers, settings={"token_limit": 1000})
    ended = await kit.run("main")
    assert (ended.state, ended.code, ended.usage.total) == ("partial_success", "E_TOKEN_LIMIT", 700)
    assert queued(kit)[0]["profile"]["token_limit"] == 400
    kit.session.plugin(Runs).stop()


async def test_the_cost_limit_applies_to_the_main_agent(bench):
    """The run ends as partial, with the reason."""
    dear = Answer(use("act").parts, usage=Usage(input=1, cost=0.4))
    kit = await bench(runs, TOOLS, answers=[dear] * 9, settings={"scheduler.cost_limit": 1.0})
    ended = await kit.run("x")
    assert (ended.state, ended.code, ended.turns) == ("partial_success", "E_COST_LIMIT", 3)
    assert "1 US dollars" in ended.error
    again = await kit.run("Go on.")
    assert again.turns == 3


async def test_a_woken_agent_has_the_rest_of_its_budget(bench):
    """It has the rest of its budget: 500 less 150 used and 200 granted."""
    gate = trio.Event()
    first = Answer(start("deep").parts, usage=Usage(input=100))
    answers = by_prompt(
        look=[first, say("Wait.", usage=Usage(input=50)), "Done."],
        deep=[pause(gate) + say("Found.")],
    )
    kit = await bench(runs, answers=answers)
    agent_runs = kit.session.plugin(Runs)
    identity = agent_runs.begin(Profile("review", token_limit=500), "look")
    await agent_runs.wait(identity)
    gate.set()
    with kit.guard():
        later = await agent_runs.after(identity)
        await agent_runs.wait(later)
    assert queued(kit)[1]["profile"]["token_limit"] == 200
    assert queued(kit)[2]["profile"]["token_limit"] == 150
