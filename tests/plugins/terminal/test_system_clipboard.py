"""The system's clipboard, with programs in the place of wl-copy, xclip and others."""

import base64
import os
import sys
from contextlib import asynccontextmanager

import pytest
import trio
from hilum import UsageError
from hilum_terminal import system_clipboard
from hilum_terminal.system_clipboard import MAX_TERMINAL_TEXT, SystemClipboard, terminal_copy

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="The programs are those of Linux.")
# The program leaves a process that holds the text, as xclip and wl-copy do.
HOLDER = """#!/bin/sh
cat > {folder}/{name}.text
sleep 100 &
echo $! > {folder}/{name}.holder
"""


class Machine:
    """A folder with programs, and a clipboard that uses them."""

    def __init__(self, folder, nursery):
        self.folder = folder
        self.nursery = nursery
        self.clipboards = []
        self.environ = {"PATH": f"{folder}:{os.environ['PATH']}"}

    def add(self, name, script=HOLDER):
        path = self.folder / name
        path.write_text(script.format(folder=self.folder, name=name))
        path.chmod(0o755)

    def text(self, name):
        return (self.folder / f"{name}.text").read_bytes()

    def clipboard(self, **environ):
        clipboard = SystemClipboard({**self.environ, **environ}, self.nursery.start_soon)
        self.clipboards.append(clipboard)
        return clipboard


@pytest.fixture
def open_machine(tmp_path):
    @asynccontextmanager
    async def open_it():
        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                machine = Machine(tmp_path, nursery)
                yield machine
                nursery.cancel_scope.cancel()
            for clipboard in machine.clipboards:
                await clipboard.aclose()

    return open_it


@pytest.mark.parametrize(
    ("environ", "program"),
    [
        ({"WAYLAND_DISPLAY": "wayland-0", "DISPLAY": ":0"}, "wl-copy"),
        ({"DISPLAY": ":0"}, "xclip"),
        ({"DISPLAY": ":0", "SSH_CONNECTION": "x", "WAYLAND_DISPLAY": "wayland-0"}, "xclip"),
        ({"WSL_DISTRO_NAME": "Ubuntu"}, "clip.exe"),
        ({"SSH_CONNECTION": "x", "WSL_DISTRO_NAME": "Ubuntu"}, ""),
        ({}, ""),
    ],
)
async def test_the_program_of_the_display_copies(open_machine, environ, program):
    text = "Grüße 🙂\n" * 20_000
    async with open_machine() as machine:
        for name in ("wl-copy", "xclip", "xsel", "clip.exe"):
            machine.add(name)
        clipboard = machine.clipboard(**environ)
        assert await clipboard.copy(text) == (program, program == "clip.exe")
        if program:
            encoding = "utf-16" if program == "clip.exe" else "utf-8"
            assert machine.text(program) == text.encode(encoding)


async def test_the_text_is_held_until_the_clipboard_is_closed(open_machine):
    async with open_machine() as machine:
        machine.add("xclip")
        clipboard = machine.clipboard(DISPLAY=":0")
        assert await clipboard.copy("text") == ("xclip", False)
        pid = int((machine.folder / "xclip.holder").read_text())
        os.kill(pid, 0)
        await clipboard.aclose()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_a_program_that_fails_is_replaced_by_the_next_one(open_machine):
    async with open_machine() as machine:
        machine.add("xclip", "#!/bin/sh\necho no display >&2\nexit 1\n")
        clipboard = machine.clipboard(DISPLAY=":0", PATH=str(machine.folder))
        assert await clipboard.copy("text") == ("", False)
        machine.add("xsel", "#!/bin/sh\n/bin/cat > {folder}/{name}.text\n")
        assert await clipboard.copy("text") == ("xsel", False)
        assert machine.text("xsel") == b"text"


async def test_a_program_that_hangs_is_ended(open_machine, monkeypatch):
    monkeypatch.setattr(system_clipboard, "CLIPBOARD_TIMEOUT", 0.2)
    async with open_machine() as machine:
        machine.add("xclip", "#!/bin/sh\nexec /bin/sleep 100\n")
        assert await machine.clipboard(DISPLAY=":0", PATH=str(machine.folder)).copy("") == (
            "",
            False,
        )


async def test_an_image_is_read_completely(open_machine):
    async with open_machine() as machine:
        machine.add("xclip", "#!/bin/sh\nhead -c 3000000 /dev/zero\n")
        clipboard = machine.clipboard(DISPLAY=":0")
        assert len(await clipboard.read_image()) == 3_000_000
        with pytest.raises(UsageError, match="no program 'wl-paste'"):
            await machine.clipboard(WAYLAND_DISPLAY="w", PATH="/nowhere").read_image()
        with pytest.raises(UsageError, match="no clipboard"):
            await machine.clipboard().read_image()


def test_the_terminal_gets_only_what_it_can_copy():
    text = "x" * MAX_TERMINAL_TEXT
    assert base64.b64decode(terminal_copy(text)[7:-1]).decode() == text
    assert terminal_copy("é" + text[2:])
    # A part of a text would look like the whole text.
    assert terminal_copy(text + "x") == b""
