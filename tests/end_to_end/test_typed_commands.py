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
        await screen.wait_for(READY)
        shown = "\n".join([*screen.scrollback, *screen.rows])
        assert shown.count("❯ /init") == 1
        assert "Write the file AGENTS.md" not in shown
