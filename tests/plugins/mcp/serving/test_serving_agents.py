"""Agents as tools of the server: their description, progress, result, approvals and end."""

import pytest
import trio
from hilum import hookimpl, tool
from hilum.events import ApprovalAnswered, PluginEvent
from hilum.testing import say, use
from mcp_types import ElicitResult

SCOUT = "---\nname: scout\ndescription: Looks around.\n---\nYou look around.\n"
FILES = {".hilum/agents/scout.md": SCOUT, "a.txt": "one\n"}
PLUGINS = ("agents", "scheduler", "files")


class Door:
    """A tool that waits, and one that changes something."""

    def __init__(self):
        self.waiting, self.heard, self.cancelled, self.opened = (
            trio.Event(),
            trio.Event(),
            trio.Event(),
            0,
        )

    @tool(risk="read", effect="pure")
    async def knock(self) -> str:
        """Knock, and wait until it is heard."""
        self.waiting.set()
        try:
            await self.heard.wait()
        except trio.Cancelled:
            self.cancelled.set()
            raise
        return "Who is there?"

    @tool(risk="write", effect="once")
    async def enter(self) -> str:
        """Open the door."""
        self.opened += 1
        return "It is open."

    @hookimpl
    def provide_tools(self):
        return [self.knock, self.enter]


@pytest.fixture
def serve_scout(serve, monkeypatch, tmp_path):
    """Serve agents; ``scout`` is in the user's own folder."""

    def open_one(*plugins, answers=(), **options):
        folder = tmp_path / "bench"
        (folder / "config" / "agents").mkdir(parents=True, exist_ok=True)
        (folder / "config" / "agents" / "scout.md").write_text(SCOUT)
        options.setdefault("agents", ["*"])
        return serve(
            *PLUGINS, *plugins, answers=answers, folder=folder, files={"a.txt": "one\n"}, **options
        )

    return open_one


async def test_each_agent_is_a_tool_with_its_description(serve_scout):
    """The description comes from the agent's file. Agents that match no pattern are missing."""
    async with serve_scout() as served, served.client() as client:
        tools = {each.name: each for each in (await client.list_tools()).tools}
        assert "agent_explore" in tools
        scout = tools["agent_scout"]
    assert scout.description.endswith("Looks around.")
    assert scout.input_schema["required"] == ["prompt"]
    async with serve_scout(agents=["sc*"]) as served, served.client() as client:
        names = {each.name for each in (await client.list_tools()).tools}
        assert {name for name in names if name.startswith("agent_")} == {"agent_scout"}


async def test_an_agent_works_and_gives_its_result_as_text_and_data(serve_scout, text):
    """It reports progress, and its result has the data that user interfaces show."""
    door, told = Door(), []

    async def progress(done, total, message):
        told.append((done, total, message))
        if message.startswith("Running knock"):
            door.heard.set()

    async with (
        serve_scout(door, answers=[use("knock"), say("It says one.")]) as served,
        served.client() as client,
    ):
        result = await client.call_tool(
            "agent_scout", {"prompt": "Look."}, progress_callback=progress
        )
    assert not result.is_error
    assert text(result) == "It says one."
    assert result.structured_content["status"] == "completed"
    assert result.structured_content["turns"] == 2
    assert all(total == 1.0 for _, total, _ in told)
    assert [done for done, _, _ in told] == sorted({done for done, _, _ in told})


@pytest.mark.parametrize("arguments", [{}, {"prompt": " "}, {"prompt": 5}, {"prompt": ["x"]}])
async def test_an_agent_needs_a_prompt(serve_scout, text, arguments):
    """Without one the client's model gets an error, and no agent starts."""
    async with serve_scout() as served, served.client() as client:
        result = await client.call_tool("agent_scout", arguments)
        assert list(served.bench.session.agents) == ["main"]
    assert result.is_error
    assert "E_BAD_ARGS: prompt is missing" in text(result)


async def test_an_agent_that_fails_says_why(serve_scout, text):
    """A failure is a result with the reason, not an error of the protocol."""
    async with serve_scout(answers=[RuntimeError("no power")]) as served, served.client() as client:
        result = await client.call_tool("agent_scout", {"prompt": "Look."})
        assert result.is_error
        assert "no power" in text(result)
        assert result.structured_content["status"] == "failed"
        nothing = await client.call_tool("agent_scout", {"prompt": " "})
    assert nothing.is_error
    assert "prompt is missing" in text(nothing)


async def test_a_cancelled_agent_stops_with_its_tools(serve_scout):
    """If the client cancels, the agent's tool ends, and the scheduler records the agent as stopped."""
    door = Door()
    async with serve_scout(door, answers=[use("knock")]) as served, served.client() as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "agent_scout", {"prompt": "Look."})
            await door.waiting.wait()
            nursery.cancel_scope.cancel()
        await door.cancelled.wait()
        ended = await served.bench.wait_for(
            PluginEvent, lambda event: event.name == "agents.result"
        )
        assert ended.data["status"] == "stopped"


async def test_the_clients_user_approves_an_agents_calls(serve_scout, text):
    """The form names the call, and the agent continues with the answer."""
    door, asked = Door(), []

    async def elicit(context, params):
        asked.append(params.message)
        return ElicitResult(action="accept", content={"run": "yes"})

    answers = [use("enter"), say("I am in.")]
    async with (
        serve_scout(door, answers=answers) as served,
        served.client(elicitation_callback=elicit) as client,
    ):
        result = await client.call_tool("agent_scout", {"prompt": "Go in."})
        assert text(result) == "I am in."
        (answered,) = served.of(ApprovalAnswered)
    assert answered.accepted
    assert door.opened == 1
    assert len(asked) == 1
    assert asked[0].startswith("enter (write) wants to run for the agent scout")


async def test_an_agent_continues_after_a_refused_call(serve_scout, text):
    """The client cannot ask, so the call is refused, and the agent reports that."""
    door = Door()
    async with (
        serve_scout(door, answers=[use("enter"), say("The door is shut.")]) as served,
        served.client() as client,
    ):
        result = await client.call_tool("agent_scout", {"prompt": "Go in."})
    assert text(result) == "The door is shut."
    assert not door.opened


async def test_an_agent_gets_no_tool_for_questions(serve_scout):
    """The client's user could not answer them."""
    async with serve_scout("plan", answers=[say("Done.")]) as served, served.client() as client:
        await client.call_tool("agent_scout", {"prompt": "Look."})
        names = {spec.name for spec in served.bench.requests[0].tools}
    assert "todo_write" in names
    assert "ask_question" not in names
