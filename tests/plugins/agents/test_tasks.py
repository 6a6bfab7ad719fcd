"""Sub-agents: permissions, budgets, ends and notices."""

import hilum_files
import pytest
import trio
from hilum import Profile, ToolFilter, Usage, tool
from hilum.events import (
    ApprovalAsked,
    CallStarted,
    CompactionRequested,
    ModelStarted,
    ModelUsed,
    PluginEvent,
    PromptQueued,
    RunEnded,
)
from hilum.messages import NoteMessage, ToolMessage
from hilum.testing import Answer, pause, plugin, say, use
from hilum_agents import runs
from hilum_agents.runs import Runs, tools


@tool(risk="execute")
async def act() -> str:
    """Act."""
    await trio.lowlevel.checkpoint()
    return "acted"


TOOLS = plugin("tools", provide_tools=lambda: [act])
FOREVER = pause(1e8)


def by_agent(main, child):
    """Return a model that answers the main agent from one list and all others from another."""
    lists = {"main": list(main)}
    others = list(child)

    def answer(request):
        return lists.get(request.agent, others).pop(0)

    return [answer] * 30


def child_of(kit):
    """Return the name of the first sub-agent."""
    return next(event.agent for event in kit.of(ModelStarted) if event.agent != "main")


async def test_a_task_works_in_a_context_of_its_own(bench):
    """The parent gets its answer with turns and tool calls, and none of its messages."""
    answers = by_agent(
        [use("task", description="Find the cause", prompt="Look into a.txt."), "I know."],
        [use("act"), "It is a."],
    )
    kit = await bench(runs, TOOLS, answers=answers)
    await kit.run("Why?")
    result = kit.result("task")
    assert result.text == "It is a.\n\n[2 turns, 1 tool calls]"
    assert {
        "content": "It is a.",
        "turns": 2,
        "tools_used": 1,
        "status": "completed",
    }.items() <= result.data.items()
    child = [request for request in kit.requests if request.agent != "main"]
    assert "Why?" not in str(child[0].messages)
    main = kit.session.agents["main"].conversation.messages
    assert "acted" not in str(main)
    assert [type(message) for message in main].count(ToolMessage) == 1


async def test_a_readonly_task_can_only_read(bench):
    """It has five tools, as far as they exist."""
    answers = by_agent(
        [use("task", description="Look", prompt="Look.", readonly=True), "ok"], [use("act"), "no"]
    )
    kit = await bench(runs, TOOLS, hilum_files, answers=answers)
    await kit.run("x")
    child = next(request for request in kit.requests if request.agent != "main")
    assert {spec.name for spec in child.tools} == {"read_file", "list_directory"}
    assert kit.result("act").code == "E_DENIED"


async def test_a_task_may_do_no_more_than_its_parent(bench):
    """It has the filter of its parent."""
    answers = [use("task", description="Act", prompt="Act."), use("act"), "no", "ok"]
    kit = await bench(runs, TOOLS, answers=answers)
    kit.session.add_agent(Profile("reader", tools=ToolFilter(allow=("read",))))
    await kit.run("x", agent="reader")
    assert kit.result("act").code == "E_DENIED"


async def test_two_tasks_run_at_once_and_the_rest_wait(bench, autojump_clock):
    """Five tasks of ten seconds, two at once, take thirty seconds."""
    five = use("task", description="Wait", prompt="Wait.")
    for _ in range(4):
        five += use("task", description="Wait", prompt="Wait.")
    kit = await bench(runs, answers=by_agent([five, "All."], [say("ok") + pause(10.0)] * 5))
    began = trio.current_time()
    ended = await kit.run("x")
    assert ended.text == "All."
    assert 30 <= trio.current_time() - began < 32
    assert [result.code for result in kit.results] == [""] * 5


async def test_a_task_that_timed_out_returns_its_findings(bench, autojump_clock):
    """It ends after five minutes, and the parent continues."""
    answers = by_agent(
        [use("task", description="Wait", prompt="W."), "Good enough."],
        [say("Half of it") + FOREVER],
    )
    kit = await bench(runs, answers=answers, settings={"silence": 1e6})
    ended = await kit.run("x")
    assert ended.text == "Good enough."
    assert kit.result("task").code == "E_TIMEOUT"
    assert "Half of it" in kit.result("task").text
    assert "300 seconds" in kit.result("task").text


async def test_a_task_ends_with_its_parent(bench):
    """Nested sub-agents are stopped, too; the stopped run ends last."""
    answers = by_agent(
        [use("task", description="Wait", prompt="W.")],
        [use("task", description="Deep", prompt="D."), FOREVER],
    )
    kit = await bench(runs, answers=answers)
    run = await kit.start("x")
    await kit.wait_for(ModelStarted, lambda event: event.agent != "main")
    child = child_of(kit)
    await kit.wait_for(ModelStarted, lambda event: event.agent not in ("main", child))
    kit.session.stop("main")
    with kit.guard():
        await run.wait()
    ended = kit.of(RunEnded)
    assert [event.state for event in ended] == ["stopped"] * 3
    assert ended[-1].agent == "main"
    assert ended[1].agent == child


async def test_agents_start_agents_only_so_deep(bench):
    """The deepest agent does not have the tool."""
    deep = use("task", description="Deeper", prompt="Go.")
    kit = await bench(
        runs, settings={"scheduler.depth": 2}, answers=[deep, deep, "Deepest.", "b", "a"]
    )
    await kit.run("x")
    names = [{spec.name for spec in request.tools} for request in kit.requests]
    assert ["task" in tools for tools in names] == [True, True, False, True, True]


async def test_tokens_of_a_task_are_granted_by_the_parent_out_of_its_own(bench):
    """Its usage is charged to the parent once."""
    one = Answer((say("x").parts[0],), usage=Usage(input=300, output=100))
    first = Answer(
        use("task", description="Go", prompt="Go.").parts, usage=Usage(input=150, output=50)
    )
    kit = await bench(
        runs,
        settings={"token_limit": 1000},
        answers=by_agent([first, say("ok", usage=Usage(input=10))], [one]),
    )
    ended = await kit.run("x")
    assert ended.usage.total == 200 + 400 + 10
    (used,) = kit.of(ModelUsed)
    assert (used.agent, used.usage.total) == ("main", 400)
    profile = next(e.data["profile"] for e in kit.of(PluginEvent) if e.name == "agents.queued")
    assert profile["token_limit"] == 400


async def test_a_task_that_costs_too_much_ends_in_part(bench, autojump_clock):
    """It gets half of what the parent has left."""
    dear = Answer((*use("act").parts,), usage=Usage(input=1, cost=0.8))
    answers = by_agent([use("task", description="Go", prompt="Go."), "ok"], [dear] * 9)
    kit = await bench(runs, TOOLS, settings={"scheduler.cost_limit": 1.0}, answers=answers)
    await kit.run("x")
    assert kit.result("task").data["status"] == "partial_success"
    assert "0.5 US dollars" in kit.result("task").text
    assert sum(request.agent != "main" for request in kit.requests) <= 2


async def test_approvals_of_a_task_reach_the_user(bench):
    """The session's policy applies."""
    answers = by_agent([use("task", description="Act", prompt="Act."), "ok"], [use("act"), "done"])
    kit = await bench(runs, TOOLS, answers=answers, approve="ask_first")
    run = await kit.start("x")
    asked = await kit.wait_for(ApprovalAsked)
    assert asked.agent != "main"
    kit.session.answer(asked.id, True)
    with kit.guard():
        assert (await run.wait()).text == "ok"
    assert kit.result("act").text == "acted"


async def test_the_end_of_a_background_task_wakes_its_owner_when_it_is_idle(bench):
    """The owner gets one prompt."""
    gate = trio.Event()
    start = use("task", description="Look", prompt="Look.", background=True)
    answers = by_agent([start, "Meanwhile.", "I see."], [pause(gate) + say("Found.")])
    kit = await bench(runs, answers=answers)
    ended = await kit.run("x")
    assert ended.text == "Meanwhile."
    identity = kit.result("task").data["agent_id"]
    gate.set()
    with kit.guard():
        woken = await kit.wait_for(
            RunEnded, lambda event: event.agent == "main", after=kit.of(RunEnded)[-1].seq
        )
    assert woken.text == "I see."
    prompts = [event.text for event in kit.of(PromptQueued) if event.agent == "main"]
    assert len(prompts) == 2
    assert identity in prompts[1]
    await kit.wait_for(PluginEvent, lambda event: event.name == "agents.result")


async def test_a_running_owner_is_notified_of_the_end_of_a_background_task(bench, autojump_clock):
    """The notice comes after a round, and no prompt follows."""

    @tool(risk="read")
    async def nap() -> str:
        """Sleep."""
        await trio.sleep(5)
        return "slept"

    start = use("task", description="Look", prompt="Look.", background=True)
    answers = by_agent(
        [start, use("nap"), use("get_agent_result", agent_id="?"), "Done."], ["Found."]
    )
    kit = await bench(runs, plugin("nap", provide_tools=lambda: [nap]), answers=answers)
    ended = await kit.run("x")
    assert ended.text == "Done."
    await trio.sleep(3)
    notes = [
        m for m in kit.session.agents["main"].conversation.messages if isinstance(m, NoteMessage)
    ]
    assert sum("has ended: completed" in str(note) for note in notes) == 1
    assert len([event for event in kit.of(PromptQueued) if event.agent == "main"]) == 1
    assert kit.result("get_agent_result").code == "E_UNKNOWN"


async def test_a_background_task_is_stopped_with_its_owner(bench):
    """It wakes no agent."""
    start = use("task", description="Look", prompt="Look.", background=True)
    kit = await bench(runs, answers=by_agent([start, FOREVER], [FOREVER]))
    run = await kit.start("x")
    await kit.wait_for(ModelStarted, lambda event: event.agent != "main")
    await kit.wait_for(ModelStarted, lambda event: event.agent == "main" and event.turn == 2)
    kit.session.stop("main")
    with kit.guard():
        await run.wait()
        identity = kit.result("task").data["agent_id"]
        assert (await kit.session.plugin(Runs).wait(identity))["status"] == "stopped"
    assert len([event for event in kit.of(PromptQueued) if event.agent == "main"]) == 1


async def test_an_interrupted_call_finds_its_task_again(bench, tmp_path):
    """Only one task exists, and it continues where it was."""
    from hilum.store import MemoryStore
    from hilum.testing import open_bench

    store = MemoryStore()
    answers = by_agent([use("task", description="Go", prompt="Go.")], [use("act"), FOREVER])
    async with open_bench(runs, TOOLS, store=store, folder=tmp_path, answers=answers) as kit:
        await kit.start("x")
        await kit.wait_for(ModelStarted, lambda event: event.agent != "main" and event.turn == 2)
        identity = kit.session.id
    answers = by_agent(["All right."], ["It went."])
    async with open_bench(
        runs, TOOLS, store=store, folder=tmp_path, resume=identity, answers=answers
    ) as kit:
        resumed = kit.session.resume()
        with kit.guard():
            ended = [await run.wait() for run in resumed]
        assert {run.text for run in ended} == {"All right.", "It went."}
        assert kit.result("task").text.startswith("It went.")
        assert len([event for event in kit.of(PluginEvent) if event.name == "agents.queued"]) == 1
        assert len([event for event in kit.of(CallStarted) if event.call.name == "act"]) == 1


async def test_a_handover_grants_only_rights_that_both_have(bench):
    """The new agent continues the work, and the other one ends."""
    import hilum_agents

    answers = {"main": [use("handover", agent="doc", brief="Write."), "Handed over."]}

    def answer(request):
        return answers["main"].pop(0) if request.agent == "main" else say("# Docs")

    kit = await bench(hilum_agents, runs, hilum_files, answers=[answer] * 20)
    ended = await kit.run("x")
    assert ended.text == "Handed over."
    identity = kit.result("handover").data["agent_id"]
    with kit.guard():
        assert (await kit.session.plugin(Runs).wait(identity))["agent"] == "doc"
    reader = kit.session.add_agent(Profile("reader", tools=ToolFilter(allow=("read",))))
    narrow = tools.common_tools(reader, ToolFilter(allow=("read_file", "write_file")))
    assert narrow.admits("read_file", "read")
    assert not narrow.admits("write_file", "write")


async def test_the_context_of_a_task_is_cut_before_it_is_too_big(bench, autojump_clock):
    """It is compacted at four fifths of 64,000 tokens, less 2,048 for the answer."""
    big = Answer((*use("act").parts,), usage=Usage(input=50_000, output=10))
    answers = by_agent(
        [use("task", description="Go", prompt="Go."), "ok"], [big, pause(2.0) + say("done")]
    )
    kit = await bench(runs, TOOLS, answers=answers)
    await kit.run("x")
    assert [event.agent for event in kit.of(CompactionRequested)] == [child_of(kit)]


async def test_progress_is_that_of_the_todo_list(bench, autojump_clock):
    """One of two completed items is half."""
    import hilum_plan

    first = [
        {"id": "a", "content": "One", "status": "in_progress"},
        {"id": "b", "content": "Two", "status": "pending"},
    ]
    then = [{"id": "a", "status": "completed"}, {"id": "b", "status": "in_progress"}]
    work = [
        use("todo_write", todos=first),
        use("act"),
        use("todo_write", todos=then),
        pause(3.0) + say("ok"),
    ]
    kit = await bench(runs, hilum_plan, TOOLS, answers=work + ["ok"] * 4)
    agent_runs = kit.session.plugin(Runs)
    identity = agent_runs.begin(Profile("x"), "Work.")
    await trio.sleep(2)
    assert agent_runs.status(identity)["progress"] == 0.5
    result = await agent_runs.wait(identity)
    assert result["done"] == ["One"]


async def test_sub_agents_of_one_answer_start_in_call_order(bench):
    """Six tasks of one answer start in the order of their calls.

    The first two begin at once, the others wait in the queue. Two that begin at the same time prepare
    their prompts concurrently, so that the second may be ready first.
    """
    answer = use("task", description="number 0", prompt="Do 0.")
    for number in range(1, 6):
        answer += use("task", description=f"number {number}", prompt=f"Do {number}.")
    kit = await bench(runs, TOOLS, answers=by_agent([answer, "All done."], ["Done."] * 6))
    await kit.run("Go")
    prompts = [event.text for event in kit.of(PromptQueued) if event.agent != "main"]
    places = [prompts.index(f"Do {number}.") for number in range(6)]
    assert all(abs(place - number) <= 1 for number, place in enumerate(places)), prompts


@pytest.mark.parametrize("limit", ["turns", "time"])
async def test_a_task_at_a_limit_returns_its_findings(bench, autojump_clock, limit):
    """The findings are its texts and the results of its calls.

    The parent reads what it can do with them.
    """

    @tool(risk="read")
    def look(n: int) -> str:
        """Look."""
        return f"line {n} calls total()"

    working = [[say(f"Step {n}: the fault is in file {n}."), use("look", n=n)] for n in range(15)]
    if limit == "time":
        working[4:] = [[pause(1e5), "late"]]
    answers = by_agent([use("task", description="Find it", prompt="Find it."), "ok"], working)
    kit = await bench(
        runs,
        plugin("tools", look),
        answers=answers,
        settings={"silence": 1e6, "answer_timeout": 1e6},
    )
    await kit.run("x")
    result = kit.result("task")
    assert result.data["status"] == {"turns": "partial_success", "time": "timed_out"}[limit]
    assert (
        "Step 3: the fault is in file 3." in result.text
        if limit == "time"
        else "Step 14" in result.text
    )
    assert (
        'look {"n":2}: line 2 calls total()' in result.text
        if limit == "time"
        else "line 14" in result.text
    )
    assert "Use its findings" in result.text
    assert "message" not in result.text
