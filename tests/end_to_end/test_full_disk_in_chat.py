"""A disk that is full in a conversation: once there is space again, the next prompt goes on."""

import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hilum.messages import AssistantMessage, Text

READY = "ready · agent"


@pytest.fixture
def disk(cli):
    """Put hilum's data on a small disk of its own."""
    cli.env["OPENAI_API_KEY"] = "k"
    place = Path(cli.env["HILUM_DATA"])
    place.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)]
    if sys.platform != "linux" or not shutil.which("mount") or subprocess.run(mount).returncode:
        pytest.skip("no file system can be mounted")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def say(text):
    return AssistantMessage((Text(text, "model"),), stop="end")


def fill(path):
    """Write to a file until the disk is full."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(1024))


@pytest.mark.parametrize(
    ("entered", "response"),
    [("second prompt", "Back again."), ("/continue", "The last run left nothing to retry.")],
)
async def test_the_session_is_opened_again_once_there_is_space(cli, disk, entered, response):
    answers = [say("First done.")] + [say("Back again.")] * 3
    async with cli.model(*answers), cli.on_screen() as screen:
        await screen.wait_for(READY)
        await screen.type("first\r")
        await screen.wait_for("First done.")
        await screen.wait_for(READY)
        fill(disk / "fill")
        # The log's file already has room for a few short prompts.
        await screen.type("a long prompt \x1b[200~" + 20_000 * "with many words\n" + "\x1b[201~")
        await screen.type("\r")
        await screen.wait_for("E_STORE")
        # The prompt is in the input again, and fails again while the disk is full.
        await screen.wait_for("↑ with many words")
        assert screen.text.count("E_STORE") == 1
        await screen.type("\r")
        await screen.wait_until(lambda: screen.text.count("E_STORE") == 2, "a second failure")
        await screen.wait_for("↑ with many words")
        await screen.type("\x03")
        (disk / "fill").unlink()
        await screen.type(f"{entered}\r")
        await screen.wait_for(response)
        await screen.wait_for(READY)
        assert screen.text.count("E_STORE") == 2
        await screen.type("\x04")
        await screen.type("\x04")
        assert await screen.end() == 0
