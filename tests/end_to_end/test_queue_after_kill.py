"""Prompts that waited when hilum was killed come back as a draft, and run only when it is sent."""

import json
import signal
from pathlib import Path

import pytest
import trio
from hilum.messages import AssistantMessage, Text

READY = "ready · agent"
TAB = "\t"


@pytest.fixture(autouse=True)
def key(cli):
    cli.env["OPENAI_API_KEY"] = "k"


def say(text):
    return AssistantMessage((Text(text, "model"),), stop="end")


async def never(*_):
    """An answer that does not come."""
    await trio.sleep_forever()


def user_texts(request):
    """Return the texts of the user's messages in a request."""
    texts = []
    for message in json.loads(request.body)["messages"]:
        if message["role"] == "user":
            texts.append(str(message["content"]))
    return texts


def is_stored(cli, text):
    """Return whether a text is in the files of the sessions."""
    files = Path(cli.env["HILUM_DATA"]).rglob("*.db*")
    return any(text in file.read_bytes() for file in files if file.is_file())


async def kill_with_queue(cli):
    """Start a run, queue two prompts with Tab, and kill the program."""
    async with cli.model(never), cli.on_screen() as screen:

        def is_waiting(text):
            """Return whether a prompt is shown above the input."""
            return any(text in row and not row.startswith("❯") for row in screen.rows)

        await screen.wait_for(READY)
        await screen.type("first\r")
        await screen.wait_for("❯ first")
        for text in ("second prompt", "third prompt"):
            await screen.type(text)
            await screen.wait_for(text)
            await screen.type(TAB)
        await screen.wait_until(lambda: is_waiting("second prompt"), "the second waits")
        await screen.wait_until(lambda: is_waiting("third prompt"), "the third waits")
        # It is shown before it is in the log.
        await screen.wait_until(lambda: is_stored(cli, b"third prompt"), "the third is stored")
        screen.process.kill()
        await screen.end()


async def test_they_return_to_the_input_and_nothing_is_sent(cli):
    await kill_with_queue(cli)
    async with cli.model(say("Both done.")) as server, cli.on_screen("-c") as screen:
        await screen.wait_for("2 prompts were waiting when hilum ended.")
        await screen.wait_for("second prompt")
        await screen.wait_for("third prompt")
        await screen.wait_for(READY)
        assert server.count == 0
        # The user edits the draft and sends it as one prompt.
        await screen.type(" now\r")
        await screen.wait_for("Both done.")
        assert server.count == 1
        assert user_texts(server.requests[0])[-1].count("prompt") == 2
        assert "third prompt now" in user_texts(server.requests[0])[-1]
    async with cli.model(say("Nothing left.")) as server, cli.on_screen("-c") as screen:
        await screen.wait_for("Both done.")
        await screen.wait_for(READY)
        assert "were waiting" not in screen.text
        assert server.count == 0


async def test_another_prompt_runs_instead_and_a_second_kill_loses_nothing(cli):
    await kill_with_queue(cli)
    async with cli.model(say("Never.")), cli.on_screen("-c") as screen:
        await screen.wait_for("2 prompts were waiting when hilum ended.")
        screen.process.kill()
        await screen.end()
    async with cli.model(say("Other done.")) as server, cli.on_screen("--plain", "-c") as screen:
        await screen.wait_for("Not sent: second prompt")
        await screen.wait_for("Not sent: third prompt")
        await screen.type("something else\n")
        await screen.wait_for("Other done.")
        assert server.count == 1
        assert not any("second prompt" in text for text in user_texts(server.requests[0]))


async def test_continue_continues_the_run_and_leaves_the_draft(cli):
    await kill_with_queue(cli)
    async with cli.model(say("First done.")) as server, cli.on_screen("-c") as screen:
        await screen.wait_for("The last run was cut off.")
        await screen.wait_for("third prompt")
        # The draft is saved in the history, and the command continues the first run only.
        await screen.type("\x03")
        await screen.wait_until(lambda: "third prompt" not in screen.rows[-2], "an empty input")
        await screen.type("/continue\r")
        await screen.wait_for("First done.")
        await screen.wait_for(READY)
        assert server.count == 1


@pytest.mark.parametrize("way", [signal.SIGTERM, signal.SIGHUP, "keys"])
async def test_an_orderly_end_keeps_as_much_as_a_kill(cli, way):
    async with cli.model(never), cli.on_screen() as screen:
        await screen.wait_for(READY)
        await screen.type("first\r")
        await screen.wait_for("❯ first")
        await screen.type("second prompt")
        await screen.wait_for("second prompt")
        await screen.type(TAB)
        await screen.wait_until(lambda: is_stored(cli, b"second prompt"), "it is stored")
        await screen.type("steering message\r")
        await screen.wait_until(lambda: is_stored(cli, b"steering message"), "it is stored")
        if way == "keys":
            await screen.type("\x04")
            await screen.type("\x04")
        else:
            await screen.type("unsent draft")
            await screen.wait_for("❯ unsent draft")
            screen.process.send_signal(way)
        await screen.end()
    async with cli.model("Never.") as server, cli.on_screen("-c") as screen:
        await screen.wait_for("2 prompts were waiting when hilum ended.")
        await screen.wait_for("second prompt")
        await screen.wait_for("steering message")
        await screen.wait_for(READY)
        assert server.count == 0
        if way != "keys":
            # After the prompts that returned, the search finds what was never sent.
            await screen.type("\x03")
            await screen.wait_for("The draft was cleared.")
            await screen.type("\x12unsent")
            await screen.wait_for("search: unsent   1 of 1")
            await screen.type("\r")
            await screen.wait_for("unsent draft")
