"""A call is edited in the user's editor before it runs."""

import pytest
import trio
from hilum.messages import AssistantMessage, Text

READY = "ready · agent"
# Seconds in which no key answers a question that has just appeared, with a margin.
READ_QUESTION = 0.5


@pytest.fixture
def editor(cli):
    """An editor that runs a shell script on the file; it keeps a copy of what it was given."""
    path = cli.folder / "editor"
    script = cli.folder / "script"
    path.write_text(f'#!/bin/sh\ncp "$1" {cli.folder}/opened\n. {script}\n')
    path.chmod(0o755)
    cli.env["VISUAL"] = str(path)
    cli.env["OPENAI_API_KEY"] = "k"
    return script


@pytest.mark.parametrize("plain", [False, True])
async def test_a_text_is_edited_as_it_is_and_a_mistake_keeps_it(cli, asks, editor, plain):
    """The second edit begins with the text of the first one."""
    content = 'print("a\\n")\n'
    write = asks("write_file", path="b.py", content=content)
    end = AssistantMessage((Text("Written.", "model"),), stop="end")
    editor.write_text('sed -i "s/print/echo/; s/^.* path (text) .*/damaged/" "$1"\n')
    options = ["--plain"] if plain else []
    async with cli.model(write, end), cli.on_screen(*options, "Write it") as screen:

        async def answer(question: str, key: str, word: str) -> None:
            await screen.wait_for(question)
            await trio.sleep(READ_QUESTION)
            await screen.type(f"{word}\n" if plain else key)

        await answer("edit: change the call" if plain else "[e] edit first", "e", "edit")
        await screen.wait_for("The edited call cannot be read. The section of path is missing")
        opened = (cli.folder / "opened").read_text()
        assert 'content (text) ==========\nprint("a\\n")\n\n==========' in opened
        editor.write_text('sed -i "s/^damaged/========== path (text) ==========/" "$1"\n')
        await trio.sleep(READ_QUESTION)
        await screen.type("edit\n" if plain else "e")
        await screen.wait_for("The arguments were edited; this version will run.")
        assert 'echo("a\\n")' in (cli.folder / "opened").read_text()
        assert not (cli.workspace / "b.py").exists()
        await trio.sleep(READ_QUESTION)
        if not plain:
            await screen.wait_for("[y] yes, once")
        await screen.type("yes\n" if plain else "y")
        await screen.wait_for("Written.")
    assert (cli.workspace / "b.py").read_text() == 'echo("a\\n")\n'
