"""A command that a plugin turns into a prompt is shown as the user typed it."""

from hilum.messages import AssistantMessage, Text

READY = "ready · agent"


async def test_init_is_shown_as_it_was_typed(cli):
    async with (
        cli.model(AssistantMessage((Text("It is written."),)), AssistantMessage((Text("Yes."),))),
        cli.on_screen() as screen,
    ):
        await screen.wait_for(READY)
        await screen.type("/init\r")
        await screen.wait_for("It is written.")
        shown = "\n".join([*screen.scrollback, *screen.rows])
        assert shown.count("❯ /init") == 1
        assert "lines of instructions" in shown
        assert "Write the file AGENTS.md" not in shown
        await screen.type("\x04\x04")
        assert await screen.end() == 0
    # A resumed conversation shows the command, too.
    async with cli.model(AssistantMessage((Text("Yes."),))), cli.on_screen("-c") as screen:
        # The line of status may stand there before the conversation does.
        await screen.wait_for("It is written.")
        shown = "\n".join([*screen.scrollback, *screen.rows])
        assert shown.count("❯ /init") == 1
        assert "Write the file AGENTS.md" not in shown


async def test_a_change_of_settings_is_confirmed_once_and_shown_at_once(cli):
    """The status line names the new model before it is called."""
    answer = AssistantMessage((Text("Hello."),), stop="end")
    async with cli.model(answer), cli.on_screen() as screen:
        await screen.wait_for(READY)
        await screen.type("Greet me.\r")
        await screen.wait_for("Hello.")
        await screen.wait_for("agent · scripted")
        await screen.type("/model openai/other\r")
        await screen.wait_for("agent · other")
        await screen.type("/approve auto\r")
        await screen.wait_for("approval policy: auto (runs calls without asking")
        shown = "\n".join([*screen.scrollback, *screen.rows])
        assert shown.count("model: openai/other") == 1
        assert shown.count("Model: ") == shown.count("Approval: ") == 0
