"""Agents in the conversation: what one did and answered can be opened after it has ended."""

import pytest
import trio
from hilum.messages import AssistantMessage, Text, UserMessage

READY = "ready · agent"
ALT_O = "\x1bo"
CTRL_O = "\x0f"
ANSWER = "\n".join(f"finding {number}" for number in range(1, 9))


@pytest.fixture(autouse=True)
def key(cli):
    """A key for the scripted model."""
    cli.env["OPENAI_API_KEY"] = "k"
    (cli.workspace / "notes.md").write_text("the secret of the notes\n")


def say(text: str) -> AssistantMessage:
    """An answer that ends the run."""
    return AssistantMessage((Text(text, "model"),), stop="end")


def script(asks):
    """Return a model whose main agent starts one agent, which reads a file and answers."""
    main = [
        asks("task", description="look around", prompt="Look for notes."),
        say("All done."),
        say("Bye."),
    ]
    agent = [asks("read_file", path="notes.md"), say(ANSWER)]

    async def answer(request):
        said = next(m for m in request.messages if isinstance(m, UserMessage)).parts[0].text
        return agent.pop(0) if said.startswith("Look for") else main.pop(0)

    return answer


async def test_an_ended_agent_is_shown_in_full(cli, asks):
    """Ctrl-O and Alt-O open the agent: its task, its calls and its whole answer."""
    async with cli.model(script(asks)), cli.on_screen() as screen:
        await screen.wait_for(READY)
        await screen.type("Go\r")
        await screen.wait_for("All done.")
        assert "✓ agent look around · 1 call" in screen.text
        assert "finding 3" in screen.text
        assert "finding 4" not in screen.text
        assert "more (ctrl-o)" in screen.text
        await screen.type(CTRL_O)
        await screen.wait_for("finding 8")
        assert "Look for notes." in screen.text
        assert "✓ look around: read notes.md" in screen.text
        assert "shows the answer again" in screen.text
        await screen.type(ALT_O)
        await screen.wait_until(lambda: screen.is_alternate, "the alternate screen")
        await screen.wait_for("the secret of the notes")
        await screen.type("q")
        await screen.wait_until(lambda: not screen.is_alternate, "the normal screen")
    async with cli.model(say("Bye.")), cli.on_screen("-c") as screen:
        # The agent is shown again, and can be opened, after the conversation is resumed.
        await screen.wait_for("✓ agent look around")
        await screen.type(CTRL_O)
        await screen.wait_for("finding 8")


async def test_a_running_agent_is_opened(cli, asks):
    """Alt-O shows what an agent has done so far while it is still running."""
    gate = trio.Event()
    answer = script(asks)

    async def model(request):
        if len(request.messages) > 2:
            await gate.wait()
        return await answer(request)

    async with cli.model(model), cli.on_screen() as screen:
        await screen.wait_for(READY)
        await screen.type("Go\r")
        await screen.wait_for("turn 2: thinking")
        await screen.type(ALT_O)
        await screen.wait_until(lambda: screen.is_alternate, "the alternate screen")
        await screen.wait_for("Look for notes.")
        await screen.type("q")
        gate.set()
        await screen.wait_for("All done.")


async def test_a_stopped_agents_question_names_the_true_reason(cli, asks):
    """Its call was not answered in another terminal: there is none."""
    main = [asks("task", description="write", prompt="Look for notes.")]

    async def model(request):
        said = next(m for m in request.messages if isinstance(m, UserMessage)).parts[0].text
        if said.startswith("Look for"):
            return asks("write_file", path="b.txt", content="b")
        return main.pop(0)

    async with cli.model(model), cli.on_screen() as screen:
        await screen.wait_for(READY)
        await screen.type("Go\r")
        await screen.wait_for("[y] yes, once")
        await trio.sleep(0.4)
        await screen.type("\x1b")
        await screen.wait_for("Shift-Tab to answer")
        await screen.type("\x1b")
        await screen.wait_for("No longer waiting: the agent's run has ended.")
        assert "another terminal" not in screen.text
