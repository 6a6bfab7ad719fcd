"""Plan mode: the agent proposes a plan; the user accepts, edits or rejects it."""

import hilum_plan
import hilum_prompt
import pytest
import trio
from hilum import UsageError
from hilum.events import PluginEvent, RunStarted
from hilum.messages import UserMessage
from hilum.store import MemoryStore
from hilum.testing import open_bench, use
from hilum_plan import Plan

WRITE = use("todo_write", todos=[{"id": "a", "content": "Do a"}, {"id": "b", "content": "Do b"}])


def opened(*answers, **options):
    return open_bench(hilum_plan, hilum_prompt, answers=answers, **{"mode": "plan", **options})


def named(bench, name):
    return [event for event in bench.of(PluginEvent) if event.name == name]


def said(bench):
    return [m for m in bench.requests[-1].messages if isinstance(m, UserMessage)][-1].parts[0].text


def states(bench):
    return [item.status for item in bench.session.plugin(Plan).items()]


async def test_a_plan_is_proposed_and_waits():
    async with opened(WRITE, "First a, then b.") as bench:
        ended = await bench.run("How would you do it?")
        plan = bench.session.plugin(Plan)
        assert plan.proposal() == hilum_plan.Proposal(ended.run, "First a, then b.")
        event = await bench.wait_for(PluginEvent, lambda event: event.name == "plan.proposed")
        assert event.data["text"] == "First a, then b."
        assert [item["id"] for item in event.data["items"]] == ["a", "b"]
        assert plan.left_over() == ()
    assert not named(bench, "plan.left_over")


async def test_an_accepted_plan_is_carried_out_with_its_list():
    done = [use("todo_write", todos=[{"id": "a", "status": "in_progress"}])]
    async with opened(
        WRITE, "First a, then b.", *done, use("ask_question", question=""), "Done."
    ) as bench:
        await bench.run("How would you do it?")
        run = await bench.session.plugin(Plan).accept()
        assert (await run.wait()).state == "completed"
        assert (
            said(bench) == "Your plan is accepted. Carry it out, and keep the todo list up to date."
        )
        assert bench.session.mode.name == "agent"
        assert states(bench) == ["in_progress", "pending"]
        (event,) = named(bench, "plan.accepted")
        assert (event.run, event.data["edited"]) == (run.id, False)
        assert event.seq < bench.of(RunStarted)[-1].seq
        assert bench.session.plugin(Plan).proposal() is None


async def test_a_plan_can_be_changed():
    async with opened(WRITE, "First a, then b.", "Done.") as bench:
        await bench.run("How would you do it?")
        run = await bench.session.plugin(Plan).accept("Only b. {text}")
        await run.wait()
        assert (
            "It now reads:\n\nOnly b. {text}\n\nFirst change the todo list to match the plan"
            in said(bench)
        )
        assert named(bench, "plan.accepted")[0].data["edited"] is True


async def test_the_model_is_reminded_of_an_accepted_plan():
    """The list was not changed in this run, but the run carries it out."""
    async with opened(
        WRITE, "First a, then b.", use("ask_question", question=""), "Done."
    ) as bench:
        await bench.run("How would you do it?")
        run = await bench.session.plugin(Plan).accept("First a, then b. ")
        await run.wait()
        assert named(bench, "plan.accepted")[0].data["edited"] is False
        assert "the next one is a (Do a)" in bench.requests[-1].messages[-1].text


async def test_a_rejected_plan_is_worked_out_anew():
    async with opened(WRITE, "First a, then b.", "Only b.") as bench:
        await bench.run("How would you do it?")
        plan = bench.session.plugin(Plan)
        run = await plan.reject("a is not needed")
        assert (await run.wait()).state == "completed"
        assert said(bench) == "Your plan is rejected: a is not needed\n\nWork out another plan."
        assert bench.session.mode.name == "plan"
        assert plan.proposal().text == "Only b."
        assert named(bench, "plan.rejected")[0].data["reason"] == "a is not needed"


async def test_a_plan_rejected_without_a_reason_is_over():
    async with opened(WRITE, "First a, then b.") as bench:
        await bench.run("How would you do it?")
        plan = bench.session.plugin(Plan)
        assert await plan.reject() is None
        assert plan.proposal() is None
        assert states(bench) == ["cancelled", "cancelled"]
        assert [event.name for event in bench.of(PluginEvent)][-2:] == [
            "plan.rejected",
            "plan.todos",
        ]


async def test_a_plan_is_decided_on_once():
    async with opened(WRITE, "First a, then b.", "Done.") as bench:
        await bench.run("How would you do it?")
        plan, refused = bench.session.plugin(Plan), []

        async def accept():
            try:
                await (await plan.accept()).wait()
            except UsageError as error:
                refused.append(error.message)

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(accept)
        assert refused == ["No plan is waiting for a decision."] * 2
        assert len(named(bench, "plan.accepted")) == 1


@pytest.mark.parametrize("decide", ["accept", "reject"])
async def test_without_a_plan_there_is_nothing_to_decide(decide):
    async with opened("Hello.", "Hello.", mode="agent") as bench:
        plan = bench.session.plugin(Plan)
        await bench.run("Hi")
        with pytest.raises(UsageError, match="No plan is waiting"):
            await getattr(plan, decide)()
        with pytest.raises(UsageError, match="no agent 'nobody'"):
            await getattr(plan, decide)(agent="nobody")
        assert len(bench.of(RunStarted)) == 1


async def test_another_prompt_takes_the_place_of_a_plan():
    async with opened(WRITE, "First a, then b.", "Hello.") as bench:
        await bench.run("How would you do it?")
        bench.session.set(mode="agent")
        await bench.run("Hi")
        assert bench.session.plugin(Plan).proposal() is None


async def test_a_mode_that_changes_within_the_run_counts_at_its_end():
    async with opened(WRITE, "Done.", mode="agent") as bench:
        run = await bench.start("Go")
        bench.session.set(mode="plan")
        await run.wait()
        assert bench.session.plugin(Plan).proposal() is not None


async def test_a_plan_waits_over_a_resume(tmp_path):
    store = MemoryStore()
    async with opened(WRITE, "First a, then b.", store=store, folder=tmp_path) as bench:
        await bench.run("How would you do it?")
        session = bench.session.id
    async with opened("Done.", store=store, resume=session, folder=tmp_path, mode=None) as bench:
        assert bench.session.plugin(Plan).proposal().text == "First a, then b."
        await (await bench.session.plugin(Plan).accept()).wait()
    async with opened(store=store, resume=session, folder=tmp_path, mode=None) as bench:
        assert bench.session.plugin(Plan).proposal() is None
        assert bench.session.mode.name == "agent"


async def test_the_answer_of_a_sub_agent_is_not_a_proposal():
    """The answer goes to the parent."""
    from hilum import Profile

    async with opened("Found it.") as bench:
        bench.session.add_agent(Profile("helper"), parent="main")
        await bench.run("Look", agent="helper")
        assert bench.session.plugin(Plan).proposal("helper") is None
        assert not bench.of(PluginEvent)


async def test_a_plan_that_cannot_be_begun_changes_no_mode():
    """No run carries it out, so no event is written."""
    async with opened(WRITE, "First a, then b.") as bench:
        await bench.run("How would you do it?")
        bench.session.model = "nobody/nothing"
        with pytest.raises(UsageError):
            await bench.session.plugin(Plan).accept()
        assert bench.session.mode.name == "plan"
        assert bench.session.plugin(Plan).proposal() is not None


async def test_a_plan_is_not_accepted_after_a_newer_prompt():
    """Otherwise the prompt, meant for planning, would run in agent mode."""
    async with opened(WRITE, "First a, then b.", "Only a.") as bench:
        await bench.run("How would you do it?")
        run = await bench.session.prompt("Leave b out.")
        with pytest.raises(UsageError, match="No plan is waiting"):
            await bench.session.plugin(Plan).accept()
        await run.wait()
        assert bench.session.mode.name == "plan"
        assert bench.session.plugin(Plan).proposal().text == "Only a."
