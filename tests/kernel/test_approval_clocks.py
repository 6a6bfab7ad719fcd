"""The clock of an approval starts when its question is shown: nobody is rejected unseen."""

import time

import pytest
import trio
from hilum import UsageError, tool
from hilum.errors import E_APPROVAL_TIMEOUT
from hilum.events import ApprovalAnswered, ApprovalAsked, ApprovalShown
from hilum.testing import plugin, use


@pytest.fixture
def tools():
    @tool(risk="write")
    def act(n: int) -> str:
        """Act."""
        return f"acted {n}"

    return plugin("tools", act)


async def asked_all(kit, count):
    """Wait until that many questions are open; their ids, oldest first."""
    seen = []
    while len(seen) < count:
        await kit.wait_for(ApprovalAsked, after=seen[-1].seq if seen else 0)
        seen = kit.of(ApprovalAsked)
    return [event.id for event in seen]


async def test_each_open_question_has_its_own_time(bench, tools, autojump_clock):
    """Three questions side by side: the user takes 200 s for each and no answer is too late."""
    answer = use("act", n=1) + use("act", n=2) + use("act", n=3)
    kit = await bench(tools, answers=[answer, "ok"], approve="ask_first")
    run = await kit.start("x")
    for identity in await asked_all(kit, 3):
        await trio.sleep(200)
        kit.session.answer(identity, True)
    with kit.guard():
        await run.wait()
    assert [result.code for result in kit.results] == ["", "", ""]
    asked, shown = kit.of(ApprovalAsked), kit.of(ApprovalShown)
    assert [event.id for event in shown] == [event.id for event in asked]


async def test_nobody_answers_and_each_runs_out_after_the_one_before(bench, tools, autojump_clock):
    """Without a face the questions run out one after another.

    The model hears that nobody answered.
    """
    kit = await bench(tools, answers=[use("act", n=1) + use("act", n=2), "ok"], approve="ask_first")
    began = trio.current_time()
    await kit.run("x")
    assert trio.current_time() - began == pytest.approx(600)
    for result in kit.results:
        assert result.code == E_APPROVAL_TIMEOUT
        assert "Nobody answered within 300 seconds" in result.text
        assert "reject" not in result.text


async def test_a_face_that_shows_several_starts_their_clocks(bench, tools, autojump_clock):
    """approval_shown starts the clock, once, and says when the time is over.

    The log says the same.
    """
    kit = await bench(tools, answers=[use("act", n=1) + use("act", n=2), "ok"], approve="ask_first")
    began = trio.current_time()
    run = await kit.start("x")
    first, second = await asked_all(kit, 2)
    await trio.sleep(100)
    deadline = kit.session.approval_shown(second)
    assert kit.session.approval_shown(second) == deadline
    assert deadline == pytest.approx(time.time() + 300, abs=30)
    with kit.guard():
        await run.wait()
    assert trio.current_time() - began == pytest.approx(400)
    assert [event.id for event in kit.of(ApprovalAnswered)] == [first, second]
    assert {event.id: event.deadline for event in kit.of(ApprovalShown)}[second] == deadline
    with pytest.raises(UsageError):
        kit.session.approval_shown(second)


async def test_the_next_one_takes_over_when_the_oldest_is_answered(bench, tools, autojump_clock):
    """Answering the second leaves the first's clock as it is.

    Answering the first starts the third's.
    """
    answer = use("act", n=1) + use("act", n=2) + use("act", n=3)
    kit = await bench(tools, answers=[answer, "ok"], approve="ask_first")
    run = await kit.start("x")
    first, second, third = await asked_all(kit, 3)
    await trio.sleep(10)
    kit.session.answer(second, True)
    await trio.sleep(10)
    assert [event.id for event in kit.of(ApprovalShown)] == [first]
    kit.session.answer(first, True)
    shown = await kit.wait_for(ApprovalShown, lambda event: event.id == third)
    kit.session.answer(shown.id, True)
    with kit.guard():
        await run.wait()
    assert len(kit.of(ApprovalShown)) == 2


async def test_stopping_a_run_hands_the_clock_on(bench, tools, autojump_clock):
    """The questions of a stopped run are gone; that of another agent becomes the oldest."""
    from hilum import Profile

    kit = await bench(tools, answers=[use("act", n=1), use("act", n=2), "ok"], approve="ask_first")
    kit.session.add_agent(Profile("other"))
    first = await kit.start("x")
    await kit.wait_for(ApprovalAsked)
    second = await kit.start("y", agent="other")
    await asked_all(kit, 2)
    assert len(kit.of(ApprovalShown)) <= 1
    first.stop()
    await kit.wait_for(ApprovalShown, lambda event: event.agent == "other")
    kit.session.answer(kit.of(ApprovalAsked)[1].id, True)
    with kit.guard():
        await second.wait()
