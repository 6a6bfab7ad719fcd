"""Conversations of named agents: one each, on disk, across sessions, never shared."""

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
from hilum_agents.runs import Runs, conversations

REVIEW, EXPLORE = Profile("review", prompt="You review."), Profile("explore")


async def ask(kit, profile, text):
    """Run a named agent and return its result."""
    agent_runs = kit.session.plugin(Runs)
    return await agent_runs.wait(agent_runs.begin(profile, text, keep=True))


async def test_only_a_named_agent_remembers_across_sessions(tmp_path):
    """It continues the conversation of the last session; another agent's is empty."""
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


async def test_the_user_reads_that_an_agent_knows_an_earlier_session(tmp_path):
    """Once a session, and only if it does: not within a session, and not after it was cleared."""

    def told(kit):
        notes = [event for event in kit.of(PluginEvent) if event.name == "agents.continued"]
        return [note.data["say"] for note in notes]

    async with open_bench(runs, folder=tmp_path, answers=["One.", "Two."]) as kit:
        await ask(kit, REVIEW, "The first thing.")
        await ask(kit, REVIEW, "The second thing.")
        assert told(kit) == []
    async with open_bench(runs, folder=tmp_path, answers=["Three.", "Four.", "Five."]) as kit:
        await ask(kit, REVIEW, "The third thing.")
        await ask(kit, REVIEW, "The fourth thing.")
        await ask(kit, EXPLORE, "Look.")
        assert told(kit) == [
            "The agent review continues its conversation of an earlier session."
            " `hilum agents clear review` deletes it."
        ]
        conversations.clear(kit.session.workspace.root, "review")
    async with open_bench(runs, folder=tmp_path, answers=["Six."]) as kit:
        await ask(kit, REVIEW, "The fifth thing.")
        assert told(kit) == []


async def test_another_workspace_has_another_conversation(tmp_path):
    """In another workspace the same name has another conversation."""
    for name in ("a", "b"):
        async with open_bench(
            runs, folder=tmp_path, workspace=tmp_path / name, answers=["One."]
        ) as kit:
            await ask(kit, REVIEW, "Hello.")
            assert len(kit.requests[0].messages) == 1


async def test_clear_empties_it_here_and_on_disk(tmp_path):
    """A session with the old messages forgets them, too; a running agent cannot be cleared."""
    async with open_bench(
        runs, folder=tmp_path, answers=["One.", "Two.", pause(trio.Event())]
    ) as kit:
        agent_runs = kit.session.plugin(Runs)
        await ask(kit, REVIEW, "Hello.")
        assert agent_runs.clear("review")
        assert not agent_runs.clear("review")
        await ask(kit, REVIEW, "Again.")
        assert len(kit.requests[1].messages) == 1
        conversations.clear(kit.session.workspace.root, "review")  # as another process would
        identity = agent_runs.begin(REVIEW, "Third.", keep=True)
        await kit.wait_for(
            ModelStarted, lambda event: event.agent == "review", after=kit.events[-1].seq
        )
        assert len(kit.requests[2].messages) == 1
        with pytest.raises(UsageError, match="is running"):
            agent_runs.clear("review")
        agent_runs.stop(identity)
        await agent_runs.wait(identity)


async def test_a_fork_goes_its_own_way(tmp_path):
    """The new agent begins with the messages of the other."""
    async with open_bench(runs, folder=tmp_path, answers=["One.", "Two.", "Three."]) as kit:
        agent_runs = kit.session.plugin(Runs)
        with pytest.raises(UsageError, match="no conversation"):
            agent_runs.fork("review", "explore")
        await ask(kit, REVIEW, "Hello.")
        agent_runs.fork("review", "explore")
        await ask(kit, EXPLORE, "Now you.")
        assert len(kit.requests[1].messages) == 3
        await ask(kit, REVIEW, "And you.")
        assert "Now you." not in str(kit.requests[2].messages)
        with pytest.raises(UsageError, match="already"):
            agent_runs.fork("review", "explore")


async def test_a_file_that_cannot_be_read_is_set_aside(tmp_path):
    """The file is renamed, and the agent begins with an empty conversation."""
    async with open_bench(runs, folder=tmp_path, answers=["One."]) as kit:
        path = conversations.path_of(kit.session.workspace.root, "review")
        path.parent.mkdir(parents=True)
        path.write_text('{"agent": ')
        assert (await ask(kit, REVIEW, "Hello."))["status"] == "completed"
        assert path.with_suffix(".unreadable").read_text() == '{"agent": '
        assert path.stat().st_mode & 0o777 == 0o600


async def test_an_agent_works_on_one_thing_after_another(bench, autojump_clock):
    """Three prompts to one name share a conversation; another agent need not wait."""
    kit = await bench(runs, answers=[pause(5.0), pause(5.0), pause(5.0)])
    agent_runs = kit.session.plugin(Runs)
    started = [agent_runs.begin(REVIEW, f"Number {n}.", keep=True) for n in range(2)]
    other = agent_runs.begin(EXPLORE, "Look.", keep=True)
    assert [agent_runs.status(one)["place"] for one in (*started, other)] == [0, 1, 0]
    agent_runs.stop()
    for one in (*started, other):
        assert (await agent_runs.wait(one))["status"] == "stopped"


async def test_agents_defined_in_files_are_started_by_name(bench):
    """It has the tools, turns and model of its file.

    An unknown name is an error that suggests the nearest one.
    """
    kit = await bench(hilum_agents, runs, hilum_files, answers=["Looked."])
    agent_runs = kit.session.plugin(Runs)
    with pytest.raises(UsageError, match="review"):
        await agent_runs.start("reveiw", "x")
    identity = await agent_runs.start("explore", "Look around.")
    await kit.wait_for(ModelStarted)
    agent_runs.stop(identity)
    assert (await agent_runs.wait(identity))["agent"] == "explore"
    assert kit.requests[0].agent == "explore"
    assert {spec.name for spec in kit.requests[0].tools} >= {"read_file", "list_directory"}
    assert "write_file" not in {spec.name for spec in kit.requests[0].tools}


async def test_an_agent_called_in_a_sentence_is_watched_and_remembers(tmp_path):
    """Its answer becomes a result, and the next session continues its conversation."""
    for number in range(2):
        async with open_bench(
            hilum_agents, runs, hilum_files, folder=tmp_path, answers=["I see."] * 8
        ) as kit:
            agent_runs = kit.session.plugin(Runs)
            await kit.start("@explore look around")
            await kit.wait_for(PluginEvent, lambda event: event.name == "agents.status")
            (entry,) = agent_runs.list()
            result = await agent_runs.wait(entry["agent_id"])
            assert (result["agent"], result["status"]) == (
                "explore",
                entry["agent"] and result["status"],
            )
            said = str(kit.requests[0].messages)
            assert said.count("look around") == number + 1


async def test_an_agent_works_in_one_session_at_a_time(tmp_path, autojump_clock):
    """The other waits, reports why, and then continues the conversation; no message is lost."""
    gate = trio.Event()
    async with (
        open_bench(runs, folder=tmp_path, answers=[pause(gate) + say("One.")]) as first,
        open_bench(runs, folder=tmp_path, answers=["Two."]) as second,
    ):
        here, there = first.session.plugin(Runs), second.session.plugin(Runs)
        one = here.begin(REVIEW, "The first thing.", keep=True)
        await first.wait_for(ModelStarted)
        other = there.begin(REVIEW, "The second thing.", keep=True)
        await trio.sleep(3)
        assert there.status(other)["status"] == "queued"
        assert "another session" in there.status(other)["current_step"]
        for refused in (
            there.clear,
            lambda name: conversations.fork(second.session.workspace.root, "x", name),
        ):
            with pytest.raises(UsageError, match=r"another session|no conversation"):
                refused("review")
        gate.set()
        await here.wait(one)
        await there.wait(other)
        said = str(second.requests[0].messages)
        assert all(text in said for text in ("The first thing.", "One.", "The second thing."))
        known = conversations.load(second.session.workspace.root, "review")
        assert len(known.messages) == 4


def test_the_end_of_a_process_releases_its_agents(tmp_path, monkeypatch):
    """A running process holds the lock; killing it releases the lock."""
    monkeypatch.setenv("HILUM_DATA", str(tmp_path))
    code = (
        "from hilum_agents.runs.conversations import lock;"
        " file = lock('/w', 'review'); print(file, flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert b"None" not in process.stdout.readline()
        assert conversations.lock("/w", "review") is None
        with pytest.raises(UsageError, match="another session"):
            conversations.clear("/w", "review")
        process.kill()
        process.wait()
        conversations.lock("/w", "review").close()


async def test_an_interrupted_run_does_not_overwrite_a_newer_conversation(tmp_path):
    """The run ends and reports that another session has continued the conversation."""
    store = MemoryStore()
    async with open_bench(runs, store=store, folder=tmp_path, answers=[pause(trio.Event())]) as kit:
        one = kit.session.plugin(Runs).begin(REVIEW, "Work.", keep=True)
        await kit.wait_for(ModelStarted)
        cut_off = kit.session.id
    async with open_bench(runs, store=store, folder=tmp_path, answers=["Elsewhere."]) as kit:
        await ask(kit, REVIEW, "Meanwhile.")
    async with open_bench(
        runs, store=store, folder=tmp_path, resume=cut_off, answers=["At last."]
    ) as kit:
        kit.session.resume()
        assert (await kit.session.plugin(Runs).wait(one))["text"] == "At last."
        logs = [
            event.data["message"] for event in kit.of(PluginEvent) if event.name == "agents.log"
        ]
        assert any("Another session" in line for line in logs)
        assert "Elsewhere." in str(
            conversations.load(kit.session.workspace.root, "review").messages
        )


async def test_a_prompt_that_calls_an_agent_waits_in_the_queue(bench):
    """It waits while the session is full or the agent is running, and the user sees that."""
    gate = trio.Event()
    settings = {"scheduler.at_once": 1}
    kit = await bench(
        hilum_agents, runs, hilum_files, settings=settings, answers=[pause(gate) + say("ok")] * 9
    )
    agent_runs = kit.session.plugin(Runs)
    first = agent_runs.begin(Profile("x"), "Work.")
    run = await kit.start("@explore look around")
    assert run.reply.endswith("Position 1 in the queue.")
    again = await kit.start("@explore look again")
    assert again.reply.endswith("Position 2 in the queue.")
    assert [row["status"] for row in agent_runs.list()][1:] == ["queued", "queued"]
    gate.set()
    with kit.guard():
        for row in agent_runs.list():
            await agent_runs.wait(row["agent_id"])
    assert agent_runs.list()[0]["agent_id"] == first
    assert (await kit.start("@explore and now")).reply is None


async def test_a_changed_definition_does_not_affect_running_agents(tmp_path, home):
    """Running jobs keep the old definition; later ones get the new one."""
    text = "---\nname: keeper\ndescription: Keeps.\ntools: {allow: [read]}\n---\nYou keep.\n"
    path = tmp_path / "config" / "agents" / "keeper.md"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    environ = {"HILUM_CONFIG": str(tmp_path / "config"), "HOME": str(home)}
    answers = [pause(trio.Event())] * 2
    async with open_bench(
        hilum_agents, runs, hilum_files, folder=tmp_path / "x", environ=environ, answers=answers
    ) as kit:
        agent_runs, agents = kit.session.plugin(Runs), kit.session.plugin(hilum_agents.Agents)
        one = await agent_runs.start("keeper", "Work.")
        await kit.wait_for(ModelStarted)
        before = await agents.definition_of(kit.session.agents["keeper"])
        path.write_text(text.replace("You keep.", "You guard it."))
        other = await agent_runs.start("keeper", "Work on.")
        assert await agents.definition_of(kit.session.agents["keeper"]) is before
        agent_runs.stop(one)
        await kit.wait_for(ModelStarted, after=kit.of(ModelStarted)[-1].seq)
        assert (
            await agents.definition_of(kit.session.agents["keeper"])
        ).prompt.strip() == "You guard it."
        agent_runs.stop(other)
        await agent_runs.wait(other)
