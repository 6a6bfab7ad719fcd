"""A conversation that is resumed after a kill shows nothing of the dead agents as running."""

import json

from hilum.messages import AssistantMessage, Text, ToolCall, UserMessage

READY = "ready · agent"


def call(name, **arguments):
    calls = (ToolCall("c1", name, json.dumps(arguments)),)
    return AssistantMessage((Text("On it.", "model"), *calls), stop="calls")


async def test_calls_of_a_killed_agent_are_not_shown_as_running(cli):
    cli.env["OPENAI_API_KEY"] = "k"

    async def answer(request):
        said = [m for m in request.messages if isinstance(m, UserMessage)][-1].parts[0].text
        if said.startswith("Do it"):
            return call("run_terminal_cmd", command="sleep 98")
        return call("task", description="part", prompt="Do it.")

    async with cli.model(answer), cli.on_screen() as screen:
        await screen.wait_for(READY)
        await screen.type("/approve auto\r")
        await screen.wait_for("auto")
        await screen.type("go\r")
        await screen.wait_for("$ sleep 98")
        screen.process.kill()
        await screen.end()
    async with cli.model(answer), cli.on_screen("-c") as screen:
        await screen.wait_for("The last run was cut off.")
        await screen.wait_for("Was running, and may have had an effect")
        await screen.wait_for(READY)
        # Only the note names the call: no clock runs, and nothing waits for the agent.
        await screen.wait_until(lambda: "waiting for 1 agent" not in screen.text, "no agent")
        assert "Ctrl-B" not in screen.text
        assert not any(row.lstrip().startswith(("⠇", "⠋")) for row in screen.rows)
