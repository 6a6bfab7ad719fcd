"""Tasks in the background: whom their end wakes, what ends them, what they may spend."""

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
    """A call of ``task`` whose sub-agent is asked these words."""
    return use("task", description="Some work", prompt=words, background=background)


def by_prompt(**lists):
    """A model that answers each conversation from the list that is named like the first word of its
    first message.
    """

    def answer(request):
        return lists[request.messages[0].parts[0].text.split()[0]].pop(0)

    return [answer] * 40


def prompts(kit, agent):
    """What an agent was prompted with."""
    return [event.text for event in kit.of(PromptQueued) if event.agent == agent]


def queued(kit):
    """The data of what was started, oldest first."""
    return [event.data for event in kit.of(PluginEvent) if event.name == "agents.queued"]


async def test_it_wakes_the_sub_agent_that_started_it_and_nobody_else(bench):
    """That goes on in its own conversation, and its own end is told to the one above."""
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
    assert (await kit.session.half(Runs).result(again["agent_id"]))["text"] == "Deep is done."


async def test_it_wakes_a_named_agent_in_its_own_conversation(bench):
    """Once, and what it says then is a result of its own."""
    gate = trio.Event()
    kit = await bench(
        runs,
        answers=by_prompt(
            look=[start("deep"), "Wait.", "All found."], deep=[pause(gate) + say("Found.")]
        ),
    )
    half = kit.session.half(Runs)
    identity = half.begin(Profile("review"), "look", keep=True)
    assert (await half.wait(identity))["text"] == "Wait."
    gate.set()
    with kit.guard():
        later = await half.after(identity)
        assert (await half.wait(later))["text"] == "All found."
        assert await half.after(later) == ""
    assert len(prompts(kit, "review")) == 2


async def test_it_is_stopped_with_the_one_above_its_owner(bench):
    """Also where the owner has ended already."""
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
    half = kit.session.half(Runs)
    with kit.guard():
        await run.wait()
        assert (await half.wait(queued(kit)[1]["agent_id"]))["status"] == "stopped"
    assert not half.busy()
    assert len(queued(kit)) == 2


async def test_what_was_granted_to_it_is_not_the_owners_to_spend(bench):
    """Of 1,000 tokens 400 go to the task; the owner ends at 600, not at 1,000."""
    spent = Answer(use("act").parts, usage=Usage(input=250))
    first = Answer(start("deep").parts, usage=Usage(input=200))
    answers = by_prompt(main=[first, spent, spent, spent, spent], deep=[FOREVER])
    kit = await bench(runs, TOOLS, answers=answers, settings={"token_limit": 1000})
    ended = await kit.run("main")
    assert (ended.state, ended.code, ended.usage.total) == ("partial_success", "E_TOKEN_LIMIT", 700)
    assert queued(kit)[0]["profile"]["token_limit"] == 400
    kit.session.half(Runs).stop()


async def test_the_limit_of_money_holds_for_the_main_agent(bench):
    """The run ends in part, and says why."""
    dear = Answer(use("act").parts, usage=Usage(input=1, cost=0.4))
    kit = await bench(runs, TOOLS, answers=[dear] * 9, settings={"scheduler.cost_limit": 1.0})
    ended = await kit.run("x")
    assert (ended.state, ended.code, ended.turns) == ("partial_success", "E_TOKEN_LIMIT", 3)
    assert "1 US dollars" in ended.error
    again = await kit.run("Go on.")
    assert again.turns == 3


async def test_one_that_is_woken_has_what_is_left_of_its_budget(bench):
    """Not a new one: 500 less 150 used and 200 granted."""
    gate = trio.Event()
    first = Answer(start("deep").parts, usage=Usage(input=100))
    answers = by_prompt(
        look=[first, say("Wait.", usage=Usage(input=50)), "Done."],
        deep=[pause(gate) + say("Found.")],
    )
    kit = await bench(runs, answers=answers)
    half = kit.session.half(Runs)
    identity = half.begin(Profile("review", token_limit=500), "look")
    await half.wait(identity)
    gate.set()
    with kit.guard():
        later = await half.after(identity)
        await half.wait(later)
    assert queued(kit)[1]["profile"]["token_limit"] == 200
    assert queued(kit)[2]["profile"]["token_limit"] == 150
