"""Messages that steer a run: read in order after the calls of an answer, withdrawn, never lost."""

import random

import pytest
import trio
import trio.testing
from hilum import Call, UsageError, tool
from hilum.events import (
    ModelStarted,
    RoundEnded,
    RunEnded,
    SteeringQueued,
    SteeringWithdrawn,
)
from hilum.messages import UserMessage
from hilum.store import MemoryStore
from hilum.testing import ScriptedModel, open_bench, pause, plugin, say, use


def user_texts(request) -> list[str]:
    """Return the user's messages in a request, oldest first."""
    messages = [each for each in request.messages if isinstance(each, UserMessage)]
    return ["\n".join(part.text for part in message.parts) for message in messages]


class Gate:
    """A tool that waits until the test lets it go on."""

    def __init__(self) -> None:
        self.began = trio.Event()
        self.go_on = trio.Event()

    def plugin(self) -> object:
        @tool(risk="read")
        async def work(call: Call) -> str:
            """Work."""
            self.began.set()
            await self.go_on.wait()
            return "worked"

        return plugin("tools", work)


async def test_the_agent_reads_a_message_after_its_calls() -> None:
    """It is the last message of the next request, and the run goes on to its end."""
    gate = Gate()
    async with open_bench(gate.plugin(), answers=[use("work"), "done"]) as bench:
        run = await bench.start("Begin.")
        with bench.guard():
            await gate.began.wait()
            await bench.session.steer("Use tabs.")
            await bench.session.steer("And no globals.")
            gate.go_on.set()
            ended = await run.wait()
        assert ended.state == "completed"
        first, second = bench.requests
        assert user_texts(first) == ["Begin."]
        assert user_texts(second) == ["Begin.", "Use tabs.\nAnd no globals."]
        assert isinstance(second.messages[-1], UserMessage)
        assert bench.session.agents["main"].conversation.steering == []


async def test_a_message_at_the_end_of_a_run_continues_it() -> None:
    """A run does not end while the user has said something that nobody has read."""
    async with open_bench() as bench:
        model = bench.model
        assert isinstance(model, ScriptedModel)
        released = trio.Event()
        model.next(say("First ") + pause(released) + say("answer."), say("Second answer."))
        run = await bench.start("Begin.")
        with bench.guard():
            await bench.wait_for(ModelStarted)
            await bench.session.steer("Wait, also the tests.")
            released.set()
            ended = await run.wait()
        assert (ended.state, ended.text) == ("completed", "Second answer.")
        assert user_texts(bench.requests[1]) == ["Begin.", "Wait, also the tests."]


async def test_a_withdrawn_message_is_not_read() -> None:
    gate = Gate()
    async with open_bench(gate.plugin(), answers=[use("work"), "done"]) as bench:
        run = await bench.start("Begin.")
        with bench.guard():
            await gate.began.wait()
            first = await bench.session.steer("Use tabs.")
            await bench.session.steer("Use spaces.")
            assert bench.session.withdraw(first)
            assert not bench.session.withdraw(first)
            gate.go_on.set()
            await run.wait()
        assert user_texts(bench.requests[1]) == ["Begin.", "Use spaces."]
        assert [event.id for event in bench.of(SteeringWithdrawn)] == [first]
        assert not bench.session.withdraw(first)


async def test_an_idle_agent_cannot_be_steered() -> None:
    """The error says what to do, and nothing is queued."""
    async with open_bench(answers=["a"]) as bench:
        await bench.run("Begin.")
        with pytest.raises(UsageError, match="not working") as failure:
            await bench.session.steer("More.")
        assert "prompt" in failure.value.hint
        with pytest.raises(UsageError):
            await bench.session.steer("More.", agent="nobody")
        assert not bench.of(SteeringQueued)


async def test_a_stopped_run_reads_nothing_more_and_the_next_run_does_not_either() -> None:
    gate = Gate()
    async with open_bench(gate.plugin(), answers=[use("work"), "second"]) as bench:
        run = await bench.start("Begin.")
        with bench.guard():
            await gate.began.wait()
            await bench.session.steer("Use tabs.")
            run.stop()
            assert (await run.wait()).state == "stopped"
        await bench.run("Another task.")
        assert "Use tabs." not in " ".join(user_texts(bench.requests[-1]))


async def test_a_resumed_run_reads_the_message(tmp_path) -> None:
    """The message is in the log, so a crash between writing and reading it loses nothing."""
    store = MemoryStore()
    gate = Gate()
    async with open_bench(
        gate.plugin(), answers=[use("work")], store=store, folder=tmp_path
    ) as bench:
        await bench.start("Begin.")
        with bench.guard():
            await gate.began.wait()
        await bench.session.steer("Use tabs.")
        session = bench.session.id
    gate.go_on.set()
    async with open_bench(
        gate.plugin(), answers=["done"], store=store, folder=tmp_path, resume=session
    ) as bench:
        with bench.guard():
            (ended,) = [await run.wait() for run in bench.session.resume()]
        assert ended.state == "completed"
        assert user_texts(bench.requests[-1]) == ["Begin.", "Use tabs."]


async def test_secrets_in_a_message_are_replaced() -> None:
    gate = Gate()
    async with open_bench(gate.plugin(), "guard", answers=[use("work"), "done"]) as bench:
        run = await bench.start("Begin.")
        secret = "ghp_" + "a1B2" * 9
        with bench.guard():
            await gate.began.wait()
            await bench.session.steer(f"The token is {secret}.")
            gate.go_on.set()
            await run.wait()
        (queued,) = bench.of(SteeringQueued)
        assert secret not in queued.text
        assert queued.redacted
        assert secret not in str(bench.requests[1].body)


@pytest.mark.parametrize("seed", range(20))
async def test_random_histories_lose_and_repeat_nothing(seed: int) -> None:
    """Each message is read exactly once and in order, withdrawn, or left when the run was stopped."""
    chances = random.Random(seed)
    steps: list[trio.Event] = []
    reached: list[trio.Event] = []

    @tool(risk="read")
    async def work(call: Call) -> str:
        """Work."""
        number = len(reached)
        go_on = trio.Event()
        steps.append(go_on)
        began = trio.Event()
        reached.append(began)
        began.set()
        await go_on.wait()
        return f"worked {number}"

    rounds = chances.randint(1, 4)
    answers = [use("work") for _ in range(rounds)] + ["done"] * 20
    async with open_bench(plugin("tools", work), answers=answers) as bench:
        run = await bench.start("Begin.")
        sent: dict[str, str] = {}
        withdrawn: set[str] = set()
        stopped = False
        with bench.guard():
            for number in range(rounds):
                while len(steps) <= number:
                    await trio.testing.wait_all_tasks_blocked()
                for _ in range(chances.randint(0, 3)):
                    identity = await bench.session.steer(f"message {len(sent)};")
                    sent[identity] = f"message {len(sent)};"
                    if chances.random() < 0.3:
                        victim = chances.choice(list(sent))
                        if bench.session.withdraw(victim):
                            withdrawn.add(victim)
                if chances.random() < 0.1:
                    run.stop()
                    stopped = True
                    break
                steps[number].set()
            await run.wait()
        read = [identity for event in bench.of(RoundEnded) for identity in event.steering]
        assert len(set(read)) == len(read)
        assert not set(read) & withdrawn
        assert read == [identity for identity in sent if identity in read], "in order"
        if not stopped:
            assert set(read) == set(sent) - withdrawn
        text = "".join(user_texts(bench.requests[-1]))
        for identity in read:
            assert text.count(sent[identity]) == 1
        assert isinstance(bench.of(RunEnded)[0], RunEnded)
