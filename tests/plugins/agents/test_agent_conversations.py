"""Conversations of named agents: one each, on disk, across sessions; nobody sees another's."""

import subprocess
import sys

import hilum_agents
import hilum_files
import pytest
import trio
from hilum import Profile, UsageError
from hilum.events import ModelStarted, PluginEvent
from hilum.store import MemoryStore
from hilum.testing import open_bench, pause, say
from hilum_agents import runs
from hilum_agents.runs import Runs, kept

REVIEW, EXPLORE = Profile("review", prompt="You review."), Profile("explore")


async def ask(kit, profile, text):
    """Have a named agent do something; gives its result."""
    half = kit.session.half(Runs)
    return await half.wait(half.begin(profile, text, keep=True))


async def test_a_named_agent_remembers_across_sessions_and_nobody_else_does(tmp_path):
    """Its last session's conversation goes on; that of another agent is empty."""
    async with open_bench(runs, folder=tmp_path, answers=["One.", "Two."]) as kit:
        await ask(kit, REVIEW, "The first thing.")
        await ask(kit, REVIEW, "The second thing.")
        assert len(kit.requests[1].messages) == 3
    async with open_bench(runs, folder=tmp_path, answers=["Three.", "Other."]) as kit:
        await ask(kit, REVIEW, "The third thing.")
        await ask(kit, EXPLORE, "Look.")
        said = str(kit.requests[0].messages)
        assert all(
            text in said for text in ("The first thing.", "One.", "Two.", "The third thing.")
        )
        assert len(kit.requests[1].messages) == 1
        await kit.session.run("And I?")
        assert len(kit.requests[2].messages) == 1


async def test_another_workspace_has_another_conversation(tmp_path):
    """The same name elsewhere begins anew."""
    for name in ("a", "b"):
        async with open_bench(
            runs, folder=tmp_path, workspace=tmp_path / name, answers=["One."]
        ) as kit:
            await ask(kit, REVIEW, "Hello.")
            assert len(kit.requests[0].messages) == 1


async def test_clear_empties_it_here_and_on_disk(tmp_path):
    """Also for a session that still has the old one; not while it works."""
    async with open_bench(
        runs, folder=tmp_path, answers=["One.", "Two.", pause(trio.Event())]
    ) as kit:
        half = kit.session.half(Runs)
        await ask(kit, REVIEW, "Hello.")
        assert half.clear("review")
        assert not half.clear("review")
        await ask(kit, REVIEW, "Again.")
        assert len(kit.requests[1].messages) == 1
        kept.clear(kit.session.workspace.root, "review")  # what another process does
        identity = half.begin(REVIEW, "Third.", keep=True)
        await kit.wait_for(
            ModelStarted, lambda event: event.agent == "review", after=kit.events[-1].seq
        )
        assert len(kit.requests[2].messages) == 1
        with pytest.raises(UsageError, match="at work"):
            half.clear("review")
        half.stop(identity)
        await half.wait(identity)


async def test_a_fork_goes_its_own_way(tmp_path):
    """It begins with what the other said."""
    async with open_bench(runs, folder=tmp_path, answers=["One.", "Two.", "Three."]) as kit:
        half = kit.session.half(Runs)
        with pytest.raises(UsageError, match="no conversation"):
            half.fork("review", "explore")
        await ask(kit, REVIEW, "Hello.")
        half.fork("review", "explore")
        await ask(kit, EXPLORE, "Now you.")
        assert len(kit.requests[1].messages) == 3
        await ask(kit, REVIEW, "And you.")
        assert "Now you." not in str(kit.requests[2].messages)
        with pytest.raises(UsageError, match="already"):
            half.fork("review", "explore")


async def test_a_file_that_cannot_be_read_is_set_aside(tmp_path):
    """Nothing fails, nothing is lost."""
    async with open_bench(runs, folder=tmp_path, answers=["One."]) as kit:
        path = kept.path_of(kit.session.workspace.root, "review")
        path.parent.mkdir(parents=True)
        path.write_text('{"agent": ')
        assert (await ask(kit, REVIEW, "Hello."))["status"] == "completed"
        assert path.with_suffix(".unreadable").read_text() == '{"agent": '
        assert path.stat().st_mode & 0o777 == 0o600


async def test_an_agent_works_on_one_thing_after_another(bench, autojump_clock):
    """Three prompts to one name are one conversation; another agent is not kept waiting."""
    kit = await bench(runs, answers=[pause(5.0), pause(5.0), pause(5.0)])
    half = kit.session.half(Runs)
    started = [half.begin(REVIEW, f"Number {n}.", keep=True) for n in range(2)]
    other = half.begin(EXPLORE, "Look.", keep=True)
    assert [half.status(one)["place"] for one in (*started, other)] == [0, 1, 0]
    half.stop()
    for one in (*started, other):
        assert (await half.wait(one))["status"] == "stopped"


async def test_agents_defined_in_files_are_started_by_name(bench):
    """With the tools, turns and model of the file.

    A name that is not there is refused with the nearest.
    """
    kit = await bench(hilum_agents, runs, hilum_files, answers=["Looked."])
    half = kit.session.half(Runs)
    with pytest.raises(UsageError, match="review"):
        await half.start("reveiw", "x")
    identity = await half.start("explore", "Look around.")
    await kit.wait_for(ModelStarted)
    half.stop(identity)
    assert (await half.wait(identity))["agent"] == "explore"
    assert kit.requests[0].agent == "explore"
    assert {spec.name for spec in kit.requests[0].tools} >= {"read_file", "list_directory"}
    assert "write_file" not in {spec.name for spec in kit.requests[0].tools}


async def test_an_agent_called_in_a_sentence_is_watched_and_remembers(tmp_path):
    """Its answer is a result, and its conversation goes on in the next session."""
    for number in range(2):
        async with open_bench(
            hilum_agents, runs, hilum_files, folder=tmp_path, answers=["I see."] * 8
        ) as kit:
            half = kit.session.half(Runs)
            await kit.start("@explore look around")
            await kit.wait_for(PluginEvent, lambda event: event.name == "agents.status")
            (entry,) = half.list()
            result = await half.wait(entry["agent_id"])
            assert (result["agent"], result["status"]) == (
                "explore",
                entry["agent"] and result["status"],
            )
            said = str(kit.requests[0].messages)
            assert said.count("look around") == number + 1


async def test_an_agent_works_in_one_session_at_a_time(tmp_path, autojump_clock):
    """The other waits and says why, then goes on from what was said; nothing of either is lost."""
    gate = trio.Event()
    async with (
        open_bench(runs, folder=tmp_path, answers=[pause(gate) + say("One.")]) as first,
        open_bench(runs, folder=tmp_path, answers=["Two."]) as second,
    ):
        here, there = first.session.half(Runs), second.session.half(Runs)
        one = here.begin(REVIEW, "The first thing.", keep=True)
        await first.wait_for(ModelStarted)
        other = there.begin(REVIEW, "The second thing.", keep=True)
        await trio.sleep(3)
        assert there.status(other)["status"] == "queued"
        assert "another session" in there.status(other)["current_step"]
        for refused in (
            there.clear,
            lambda name: kept.fork(second.session.workspace.root, "x", name),
        ):
            with pytest.raises(UsageError, match=r"another session|no conversation"):
                refused("review")
        gate.set()
        await here.wait(one)
        await there.wait(other)
        said = str(second.requests[0].messages)
        assert all(text in said for text in ("The first thing.", "One.", "The second thing."))
        known = kept.load(second.session.workspace.root, "review")
        assert len(known.messages) == 4


def test_the_end_of_a_process_lets_others_have_its_agents(tmp_path, monkeypatch):
    """While it lives it has them for itself; killed, it gives them back."""
    monkeypatch.setenv("HILUM_DATA", str(tmp_path))
    code = "import sys; from hilum_agents.runs import kept; f = kept.lock('/w', 'review'); print(f, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert b"None" not in process.stdout.readline()
        assert kept.lock("/w", "review") is None
        with pytest.raises(UsageError, match="another session"):
            kept.clear("/w", "review")
        process.kill()
        process.wait()
        kept.lock("/w", "review").close()


async def test_what_was_cut_off_does_not_write_over_what_another_session_said_since(tmp_path):
    """It ends, and says that its conversation is another's now."""
    store = MemoryStore()
    async with open_bench(runs, store=store, folder=tmp_path, answers=[pause(trio.Event())]) as kit:
        one = kit.session.half(Runs).begin(REVIEW, "Work.", keep=True)
        await kit.wait_for(ModelStarted)
        cut_off = kit.session.id
    async with open_bench(runs, store=store, folder=tmp_path, answers=["Elsewhere."]) as kit:
        await ask(kit, REVIEW, "Meanwhile.")
    async with open_bench(
        runs, store=store, folder=tmp_path, resume=cut_off, answers=["At last."]
    ) as kit:
        kit.session.resume()
        assert (await kit.session.half(Runs).wait(one))["text"] == "At last."
        logs = [
            event.data["message"] for event in kit.of(PluginEvent) if event.name == "agents.log"
        ]
        assert any("another session" in line for line in logs)
        assert "Elsewhere." in str(kept.load(kit.session.workspace.root, "review").messages)


async def test_a_sentence_that_calls_an_agent_waits_for_its_turn(bench):
    """Where others fill the session, and where the agent is at work; the user is told."""
    gate = trio.Event()
    settings = {"scheduler.at_once": 1}
    kit = await bench(
        hilum_agents, runs, hilum_files, settings=settings, answers=[pause(gate) + say("ok")] * 9
    )
    half = kit.session.half(Runs)
    first = half.begin(Profile("x"), "Work.")
    run = await kit.start("@explore look around")
    assert run.reply.endswith("Place 1 in the queue.")
    again = await kit.start("@explore look again")
    assert again.reply.endswith("Place 2 in the queue.")
    assert [row["status"] for row in half.list()][1:] == ["queued", "queued"]
    gate.set()
    with kit.guard():
        for row in half.list():
            await half.wait(row["agent_id"])
    assert half.list()[0]["agent_id"] == first
    assert (await kit.start("@explore and now")).reply is None


async def test_a_definition_that_changes_leaves_those_at_work_alone(tmp_path, home):
    """What was started is held to what it began with; what begins then, to the new one."""
    text = "---\nname: keeper\ndescription: Keeps.\ntools: {allow: [read]}\n---\nYou keep.\n"
    path = tmp_path / "config" / "agents" / "keeper.md"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    environ = {"HILUM_CONFIG": str(tmp_path / "config"), "HOME": str(home)}
    answers = [pause(trio.Event())] * 2
    async with open_bench(
        hilum_agents, runs, hilum_files, folder=tmp_path / "x", environ=environ, answers=answers
    ) as kit:
        half, agents = kit.session.half(Runs), kit.session.half(hilum_agents.Agents)
        one = await half.start("keeper", "Work.")
        await kit.wait_for(ModelStarted)
        before = agents.of(kit.session.agents["keeper"])
        path.write_text(text.replace("You keep.", "You guard it."))
        other = await half.start("keeper", "Work on.")
        assert agents.of(kit.session.agents["keeper"]) is before
        half.stop(one)
        await kit.wait_for(ModelStarted, after=kit.of(ModelStarted)[-1].seq)
        assert agents.of(kit.session.agents["keeper"]).prompt.strip() == "You guard it."
        half.stop(other)
        await half.wait(other)
