"""``/undo call`` in a real terminal and in plain lines."""

import pytest
import trio
from hilum.messages import AssistantMessage, Text

READY = "ready · agent"
PLAIN_READY = "/help the commands"


@pytest.fixture
def answers(cli, asks):
    """Two calls that write a file each, and a key for the scripted model."""
    cli.env["OPENAI_API_KEY"] = "k"
    calls = [asks("write_file", path=name, content=f"{name}\n") for name in ("a.txt", "b.txt")]
    return [*calls, AssistantMessage((Text("Both are there.", "model"),), stop="end")]


async def test_the_preview_is_shown_and_enter_undoes_one_call(cli, answers):
    async with cli.model(*answers), cli.on_screen("--approve", "auto") as screen:
        await screen.wait_for(READY)
        await screen.type("write both\r")
        await screen.wait_for("Both are there.")
        await screen.type("/undo call\r")
        await screen.wait_for("Undo one call (2)")
        await screen.wait_for("will delete b.txt (+0 −1)")
        await screen.type("\x1b[B")
        await screen.wait_for("will delete a.txt (+0 −1)")
        # Enter is ignored right after the list appeared.
        await trio.sleep(0.5)
        await screen.type("\r")
        await screen.wait_for("Undone: a.txt. /redo restores the changes.")
    assert not (cli.workspace / "a.txt").exists()
    assert (cli.workspace / "b.txt").read_text() == "b.txt\n"


async def test_plain_lines_list_the_calls_with_numbers(cli, answers):
    async with cli.model(*answers), cli.on_screen("--plain", "--approve", "auto") as screen:
        await screen.wait_for(PLAIN_READY)
        await screen.type("write both\n")
        await screen.wait_for("3 turns")
        await screen.type("/undo call\n")
        await screen.wait_for("2. write_file a.txt")
        await screen.wait_for("Number, or Enter to cancel:")
        await trio.sleep(0.5)
        await screen.type("1\n")
        await screen.wait_for("will delete b.txt (+0 −1)")
        await screen.wait_for("Undo these changes in 1 file?")
        await trio.sleep(0.5)
        await screen.type("yes\n")
        await screen.wait_for("Undone: b.txt.")
    assert (cli.workspace / "a.txt").exists()
    assert not (cli.workspace / "b.txt").exists()
