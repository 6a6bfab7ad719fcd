"""A session that is open in two terminals: both see everything, and the first answer wins."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from hilum import Confinement, HilumError, Session, UsageError, tool
from hilum.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Delta,
    ModelAnswered,
    PluginEvent,
    PromptQueued,
    RunEnded,
    SessionChanged,
    SteeringQueued,
    SteeringWithdrawn,
    encode,
)
from hilum.messages import Image
from hilum.sharing import JoinedSession, join_session, joined_session, share_session
from hilum.testing import Bench, pause, plugin, say, use


@asynccontextmanager
async def joined(kit: Bench) -> AsyncIterator[JoinedSession]:
    """Join the session of a bench, which is shared."""
    async with join_session(kit.kernel, kit.session.id) as session:
        assert session is not None
        yield session


async def wait_for(session: Session, kind: type, after: int = 0):
    """Return the first event of a kind that a session shows."""
    with trio.fail_after(20):
        async for item in session.events(after):
            if isinstance(item, kind):
                return item
    raise AssertionError(f"no {kind.__name__}")


@pytest.fixture
def executing():
    """A tool that needs approval."""
    ran = []

    @tool
    def execute(n: int = 0) -> str:
        """Execute."""
        ran.append(n)
        return "executed"

    made = plugin("tools", execute)
    made.ran = ran
    return made


async def test_a_session_that_nobody_shares_is_not_joined(bench):
    """Without a socket there is nothing to join."""
    kit = await bench()
    async with join_session(kit.kernel, kit.session.id) as session:
        assert session is None


async def test_a_session_in_memory_is_not_shared(bench):
    """Other processes could not find it, and nothing is written to the data folder."""
    kit = await bench(without_store=True)
    async with share_session(kit.session), join_session(kit.kernel, kit.session.id) as session:
        assert session is None
    assert not (kit.folder / "data" / "sockets").exists()


async def test_a_joined_terminal_sees_earlier_and_new_events(bench):
    """Its log is the same as the owner's, and so is what it folds from it."""
    kit = await bench(answers=["one", "two"])
    await kit.run("first")
    async with share_session(kit.session), joined(kit) as other:
        notice = await kit.wait_for(PluginEvent, lambda e: e.name == "sharing.terminals")
        assert notice.data["terminals"] == 2
        assert other.began_at == notice.seq - 1
        await kit.run("second")
        await wait_for(other, RunEnded, other.began_at)
        with trio.fail_after(5):
            while other.journal.last < kit.session.journal.last:
                await other.journal.news.wait()
        shown = [encode(event) for event in other.journal.since(0)]
        assert shown == [encode(event) for event in kit.session.journal.since(0)]
        messages = other.agents["main"].conversation.messages
        assert messages == kit.session.agents["main"].conversation.messages


async def test_output_is_seen_while_it_arrives(bench):
    """Streamed text reaches the other terminal before the answer is complete."""
    kit = await bench()
    released = trio.Event()
    kit.model.next(say("Hello ") + pause(released) + say("world."))
    async with share_session(kit.session), joined(kit) as other:
        await kit.start("x")
        with trio.fail_after(20):
            async for item in other.events(deltas=True):
                if isinstance(item, Delta) and item.text.startswith("Hello"):
                    released.set()
                if isinstance(item, ModelAnswered):
                    break
                if isinstance(item, RunEnded):
                    raise AssertionError("no output")


async def test_prompts_and_messages_of_the_joined_terminal(bench):
    """They run in the owner, and each terminal knows which texts are its own."""
    kit = await bench()
    released = trio.Event()
    kit.model.next(say("A") + pause(released), say("B"))
    async with share_session(kit.session), joined(kit) as other:
        run = await other.prompt("Begin.")
        message = await other.steer("Also the tests.")
        await wait_for(other, SteeringQueued)
        assert kit.session.sent_elsewhere == {run.id, message}
        assert other.sent_elsewhere == set()
        released.set()
        with trio.fail_after(20):
            ended = await run.wait()
        assert (ended.state, ended.text) == ("completed", "B")


async def test_texts_of_the_owner_are_foreign_in_the_joined_terminal(bench):
    """A text that the user typed in the other terminal must not return to this one's draft."""
    kit = await bench(answers=["one"])
    async with share_session(kit.session), joined(kit) as other:
        await kit.run("x")
        queued = await wait_for(other, PromptQueued)
        assert other.sent_elsewhere == {queued.run}


async def test_images_and_attached_data_reach_the_owner(bench):
    """A prompt of the joined terminal is the same as one of the owner."""
    kit = await bench(answers=["seen"])
    picture = Image("image/png", b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
    async with share_session(kit.session), joined(kit) as other:
        run = await other.prompt("Look \udcff", attached="output", images=[picture])
        with trio.fail_after(20):
            await run.wait()
        (queued,) = kit.of(PromptQueued)
        assert (queued.images, queued.attached, queued.piped) == ((picture,), "output", False)


async def test_a_message_that_was_read_cannot_be_withdrawn(bench):
    """The user is told, because the text is also in the draft again."""
    kit = await bench()
    kit.model.next(say("A") + pause(trio.Event()))
    async with share_session(kit.session), joined(kit) as other:
        problems = []
        other.on_problem = problems.append
        await other.prompt("Begin.")
        message = await other.steer("Also.")
        await wait_for(other, SteeringQueued)
        kit.session.withdraw(message)
        assert other.withdraw(message)
        await wait_for(other, SteeringWithdrawn)
        with trio.fail_after(5):
            while not problems:
                await trio.testing.wait_all_tasks_blocked(0.01)
        assert "already read" in problems[0].message
        kit.session.stop()


async def test_a_message_can_be_withdrawn_and_a_run_stopped(bench):
    """The owner carries both out."""
    kit = await bench()
    kit.model.next(say("A") + pause(trio.Event()))
    async with share_session(kit.session), joined(kit) as other:
        run = await other.prompt("Begin.")
        message = await other.steer("Also.")
        await wait_for(other, SteeringQueued)
        assert other.withdraw(message)
        other.stop()
        with trio.fail_after(20):
            assert (await run.wait()).state == "stopped"
        assert kit.session.agents["main"].conversation.steering == []


async def test_errors_arrive_with_code_and_hint(bench):
    """The error of an operation is that of the owner's session."""
    kit = await bench()
    async with share_session(kit.session), joined(kit) as other:
        with pytest.raises(UsageError) as caught:
            await other.steer("x")
        with pytest.raises(UsageError) as local:
            await kit.session.steer("x")
        assert str(caught.value) == str(local.value)
        assert caught.value.code == local.value.code


async def test_an_approval_is_answered_in_the_joined_terminal(bench, executing):
    """The call runs in the owner, also with arguments that the user edited."""
    kit = await bench(executing, answers=[use("execute", n=1), "ok"], approve="ask_first")
    async with share_session(kit.session), joined(kit) as other:
        run = await kit.start("x")
        asked = await wait_for(other, ApprovalAsked)
        other.approval_shown(asked.id)
        other.answer(asked.id, True, remember="session", arguments='{"n": 7}')
        with kit.guard():
            await run.wait()
        assert executing.ran == [7]
        answered = await wait_for(other, ApprovalAnswered)
        assert answered.remember == "session"
        assert asked.id in kit.session.sent_elsewhere
        assert asked.id not in other.sent_elsewhere


async def test_an_approval_that_was_asked_before_joining(bench, executing):
    """A terminal that joins later can answer it."""
    kit = await bench(executing, answers=[use("execute", n=1), "ok"], approve="ask_first")
    async with share_session(kit.session):
        run = await kit.start("x")
        asked = await kit.wait_for(ApprovalAsked)
        async with joined(kit) as other:
            assert other.runs.keys() == kit.session.runs.keys()
            other.answer(asked.id, True)
            with kit.guard():
                await run.wait()
    assert executing.ran == [1]


async def test_of_two_answers_the_first_wins(bench, executing):
    """Random histories: exactly one answer counts, and the others learn that they were too late."""
    chance = random.Random(7)
    kit = await bench(executing, approve="ask_first")
    async with share_session(kit.session), joined(kit) as one, joined(kit) as two:
        for number in range(12):
            kit.model.next(use("execute", n=number), say("ok"))
            problems = []
            one.on_problem = problems.append
            two.on_problem = problems.append
            before = kit.session.journal.last
            run = await kit.start("x")
            asked = await wait_for(one, ApprovalAsked, before)
            await wait_for(two, ApprovalAsked, before)
            # The owner, each terminal, and a terminal that answers twice.
            sessions = [kit.session, one, two, one]
            chance.shuffle(sessions)
            refused = 0
            for session in sessions:
                try:
                    session.answer(asked.id, session is not two, reason="no")
                except UsageError:
                    refused += 1
                if chance.random() < 0.5:
                    await trio.testing.wait_all_tasks_blocked()
            with kit.guard():
                await run.wait()
            await wait_for(one, RunEnded, before)
            await trio.testing.wait_all_tasks_blocked(0.01)
            answers = [e for e in kit.of(ApprovalAnswered) if e.id == asked.id]
            assert len(answers) == 1
            assert refused + len(problems) == len(sessions) - 1
            own = [each for each in (one, two) if asked.id not in each.sent_elsewhere]
            assert len(own) == (asked.id in kit.session.sent_elsewhere)


async def test_mode_and_policy_change_everywhere(bench):
    """The joined terminal shows its choice at once, and the owner uses it."""
    kit = await bench()
    async with share_session(kit.session), joined(kit) as other:
        other.set(approve="readonly")
        assert other.approve == "readonly"
        await wait_for(other, SessionChanged, other.began_at)
        assert kit.session.approve == "readonly"
        with pytest.raises(UsageError):
            other.set(mode="no such mode")
        kit.session.set(approve="auto")
        await wait_for(other, SessionChanged, other.journal.last)
        assert other.approve == "auto"


async def test_the_kind_of_sandbox_is_that_of_the_owner(bench, monkeypatch):
    """Also if the owner's plugin finds out after the terminal has joined."""
    monkeypatch.setattr(joined_session, "PING_SECONDS", 0.02)

    class Sandbox:
        kind = ""

        def describe_confinement(self) -> str:
            return self.kind

        def explain_refusal(self, output: str) -> str:
            return ""

    sandbox = Sandbox()

    async def open_session(session):
        yield sandbox

    kit = await bench(plugin("guard", open_session=open_session))
    async with share_session(kit.session), joined(kit) as other:
        service = other.plugin(Confinement)
        assert service is not None
        assert service.describe_confinement() == ""
        sandbox.kind = "bubblewrap"
        with trio.fail_after(5):
            while service.describe_confinement() != "bubblewrap":
                await trio.testing.wait_all_tasks_blocked(0.01)


async def test_when_the_owner_leaves(bench):
    """The other terminal learns it, and what it sends is refused and not lost."""
    kit = await bench()
    kit.model.next(say("A") + pause(trio.Event()))
    async with trio.open_nursery() as nursery:
        leaving = trio.Event()
        shared = trio.Event()

        async def own() -> None:
            async with share_session(kit.session):
                shared.set()
                await leaving.wait()

        nursery.start_soon(own)
        await shared.wait()
        async with joined(kit) as other:
            run = await other.prompt("x")
            leaving.set()
            with trio.fail_after(5):
                await other.lost.wait()
            with pytest.raises(HilumError, match="has left"):
                await run.wait()
            with pytest.raises(HilumError, match="Nothing was sent"):
                await other.prompt("y")
    kit.session.stop()


async def test_when_the_owner_leaves_while_a_prompt_is_in_flight(bench, monkeypatch):
    """The owner may have logged the prompt, so the error must not claim that nothing was sent."""
    kit = await bench()
    arrived = trio.Event()

    async def never_reply(*args: object, **options: object) -> None:
        arrived.set()
        await trio.sleep_forever()

    monkeypatch.setattr(kit.session, "prompt", never_reply)
    errors = []
    async with trio.open_nursery() as nursery:
        owner = trio.CancelScope()
        shared = trio.Event()

        async def own() -> None:
            with owner:
                async with share_session(kit.session):
                    shared.set()
                    await trio.sleep_forever()

        async def send(other: JoinedSession) -> None:
            with pytest.raises(HilumError) as caught:
                await other.prompt("x")
            errors.append(caught.value)

        nursery.start_soon(own)
        await shared.wait()
        async with joined(kit) as other, trio.open_nursery() as sending:
            sending.start_soon(send, other)
            with trio.fail_after(5):
                await arrived.wait()
                owner.cancel()
    assert "It may have received what you just sent." in errors[0].message
    assert "Nothing was sent" not in str(errors[0])


async def test_nothing_is_written_or_started_by_the_joined_terminal(bench):
    """Only the owner has the plugins that guard commands and remove secrets."""
    kit = await bench()
    async with share_session(kit.session), joined(kit) as other:
        with pytest.raises(UsageError):
            other.note("x.y")
        with pytest.raises(HilumError):
            await other.processes.run(["true"])


async def test_a_terminal_that_is_disconnected_by_an_error_has_left(bench, monkeypatch):
    """The number of terminals that the conversation shows stays right."""
    kit = await bench()
    crash = trio.Event()

    async def fail(terminal, nursery):
        await crash.wait()
        raise ZeroDivisionError

    monkeypatch.setattr("hilum.sharing.server._Terminal._read_requests", fail)

    def is_left(event):
        return event.name == "sharing.terminals" and event.data["terminals"] == 1

    async with share_session(kit.session), joined(kit):
        crash.set()
        await kit.wait_for(PluginEvent, is_left)
