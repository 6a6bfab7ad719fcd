"""A server at another address, set up in a real terminal and in plain lines."""

import pytest
import trio
from hilum_replay import serve

READY = "ready · agent"
CLOSED = "http://127.0.0.1:9/v1"
LOCAL = ("OLLAMA_HOST", "LMSTUDIO_BASE_URL", "LLAMACPP_BASE_URL", "VLLM_BASE_URL")
# Seconds after a question in which no key answers it, with a margin.
READ_QUESTION = 0.5


@pytest.fixture(autouse=True)
def no_models(cli):
    """An environment in which no model can be used."""
    cli.env |= dict.fromkeys(LOCAL, CLOSED)


async def reply(screen, question: str, line: str) -> None:
    """Answer a question as a person does: after reading it."""
    await screen.wait_for(question)
    await trio.sleep(READ_QUESTION)
    await screen.type(line)


async def test_a_server_is_entered_at_the_first_start(cli):
    async with serve(lambda request: "Hello from the server.") as server, cli.on_screen() as screen:
        name = f"localhost-{server.url.rpartition(':')[2]}"
        await reply(screen, "Which model do you want to use?", "another address")
        await reply(screen, "A server at another address", "\r")
        await reply(screen, "Base URL of the server", f"{server.url}\r")
        await reply(screen, f"Models of {name}", "\r")
        await screen.wait_for(f"{name}/model is now your model")
        await screen.wait_for(READY)
        await screen.type("hi\r")
        await screen.wait_for("Hello from the server.")


async def test_a_server_is_entered_in_plain_lines(cli):
    async with serve(lambda request: "Hello.") as server, cli.on_screen("--plain") as screen:
        name = f"localhost-{server.url.rpartition(':')[2]}"
        await screen.wait_for("Number, or Enter to cancel:")
        number = next(
            line.split(".")[0].strip("* ")
            for line in screen.text.splitlines()
            if "A server at another address" in line
        )
        await trio.sleep(READ_QUESTION)
        await screen.type(f"{number}\n")
        await reply(screen, "Base URL of the server", f"{server.url}\n")
        await reply(screen, f"1. {name}/model", "1\n")
        await screen.wait_for(f"{name}/model is now your model")


@pytest.mark.parametrize("plain", [False, True])
async def test_a_model_without_a_key_leads_to_setup(cli, plain):
    """The error in a running session names the next step."""
    cli.env["OPENAI_API_KEY"] = "k"
    options = ["--plain"] if plain else []
    enter = "\n" if plain else "\r"
    async with cli.model("Hi."), cli.on_screen(*options) as screen:
        await screen.wait_for("/help the commands" if plain else READY)
        await screen.type(f"/model anthropic/claude-x{enter}")
        await screen.wait_for("anthropic/claude-x cannot be used: no API key is set.")
        await screen.wait_for("/setup sets up a model")


@pytest.mark.parametrize("plain", [False, True])
async def test_a_named_model_without_a_key_starts_the_setup(cli, plain):
    """The program does not end before the user could do anything about it."""
    options = ["--plain"] if plain else []
    # Another model that could be used must not be used in silence.
    cli.env |= {"OPENAI_API_KEY": "k", "HILUM_MODEL": "openai/scripted"}
    async with cli.on_screen(*options, "--model", "anthropic/claude-x") as screen:
        await screen.wait_for("anthropic/claude-x cannot be used: no API key is set.")
        await screen.wait_for("Enter a key for anthropic")
        await trio.sleep(READ_QUESTION)
        await screen.type("\n" if plain else "\x1b")
        await screen.wait_for("/setup starts this again.")
