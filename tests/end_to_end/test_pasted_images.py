"""Images that the user pastes into the terminal reach the model."""

import base64
import json

import pytest
from hilum.messages import AssistantMessage, Text

READY = "ready · agent"
PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 40


def say(text):
    return AssistantMessage((Text(text),))


@pytest.fixture
def sees(cli):
    """A model that accepts images."""
    cli.settings.parent.mkdir(parents=True, exist_ok=True)
    cli.settings.write_text('[models.models."openai/scripted"]\nimages = true\n')
    return cli


def pictures(server):
    """The images in the last request, decoded."""
    found = []
    for message in json.loads(server.requests[-1].body)["messages"]:
        content = message["content"]
        if isinstance(content, list):
            found += [part["image_url"]["url"] for part in content if part["type"] == "image_url"]
    return [base64.b64decode(url.partition("base64,")[2]) for url in found]


def paste(text):
    return f"\x1b[200~{text}\x1b[201~"


async def test_a_pasted_path_sends_the_image(sees):
    picture = sees.folder / "my plan.png"
    picture.write_bytes(PNG)
    async with sees.model(say("A plan."), say("Again.")) as server, sees.on_screen() as screen:
        await screen.wait_for(READY)
        await screen.type("What is this? " + paste(f"'{picture}'"))
        await screen.wait_for("[image #1 · my plan.png]")
        await screen.type("\r")
        await screen.wait_for("A plan.")
        assert "+ 1 image" in screen.text
        assert pictures(server) == [PNG]
        # A reference in a text that was not pasted as an image attaches nothing.
        other = sees.folder / "other.png"
        other.write_bytes(PNG + b"other")
        await screen.type(f"[image #2: {other}]\r")
        await screen.wait_for("Again.")
        assert pictures(server) == [PNG]
        assert "An image in this message is not sent" in screen.text


async def test_an_image_that_cannot_be_sent_gives_the_draft_back(sees):
    broken = sees.folder / "broken.png"
    broken.write_text("no image")
    async with sees.model(say("never")) as server, sees.on_screen() as screen:
        await screen.wait_for(READY)
        await screen.type(paste(str(broken)) + "look\r")
        await screen.wait_for("E_BAD_ARGS")
        # The path may be wrapped.
        await screen.wait_until(
            lambda: "broken.png]look" in "".join(screen.text.split()), "the draft"
        )
        assert server.requests == []


async def test_ctrl_v_attaches_the_image_in_the_clipboard(sees, tmp_path):
    """With a program in the place of wl-paste, which reads Wayland's clipboard."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "clip.png").write_bytes(PNG)
    reader = programs / "wl-paste"
    reader.write_text(f"#!/bin/sh\ncat '{programs}/clip.png'\n")
    reader.chmod(0o755)
    path = f"{programs}:{sees.env.get('PATH', '/usr/bin:/bin')}"
    async with (
        sees.model(say("A picture.")) as server,
        sees.on_screen(WAYLAND_DISPLAY="wayland-0", PATH=path) as screen,
    ):
        await screen.wait_for(READY)
        await screen.type("Look: \x16")
        await screen.wait_for("[image #1 · clipboard-1.png]")
        await screen.type("\r")
        await screen.wait_for("A picture.")
        assert pictures(server) == [PNG]
        (programs / "clip.png").write_bytes(b"")
        await screen.type("\x16")
        await screen.wait_for("There is no image in the clipboard")


async def test_without_a_clipboard_ctrl_v_says_what_to_do(cli):
    async with cli.model(), cli.on_screen(WAYLAND_DISPLAY="", DISPLAY="") as screen:
        await screen.wait_for(READY)
        await screen.type("\x16")
        await screen.wait_for("Paste the path of an image file")


async def test_a_model_that_sees_no_images_is_reported(cli):
    picture = cli.folder / "a.png"
    picture.write_bytes(PNG)
    async with cli.model(say("I cannot see it.")) as server, cli.on_screen() as screen:
        await screen.wait_for(READY)
        await screen.type(paste(str(picture)) + "look\r")
        await screen.wait_for("I cannot see it.")
        assert "does not accept images" in screen.text
        assert "left out: not supported" in server.requests[-1].body.decode()
