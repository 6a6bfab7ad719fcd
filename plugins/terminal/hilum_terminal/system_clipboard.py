"""The system's clipboard: copies text to it and reads images from it.

Where the program runs on a display, a program of the system, such as ``wl-copy`` or ``xclip``,
accesses the clipboard. Otherwise, only the terminal itself can copy text (OSC 52), and nothing can
be read.
"""

from __future__ import annotations

import shutil
import sys
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import attrs
import trio
from hilum import HilumError, UsageError
from hilum.errors import E_NOT_FOUND, E_NOT_INSTALLED
from hilum.processes import Command, CommandError, Process, Warden

CLIPBOARD_TIMEOUT = 5.0
"""Time limit, in seconds, for a program that reads or sets the clipboard."""
MAX_TERMINAL_TEXT = 74_000
"""Maximum number of bytes that a terminal copies: xterm's limit is 100 kB of Base64."""
MAX_IMAGE_OUTPUT = 16_000_000
"""Maximum number of bytes of a program that reads an image; AppleScript doubles the size."""
_MACOS_PREFIX = b"data PNGf"


@attrs.frozen
class _Program:
    """A program that copies its standard input to the clipboard.

    Attributes:
        argv: The program and its arguments.
        encoding: The encoding of the text.
        holds: Whether a child process of the program holds the text until something else is copied;
            the system itself has no place for it.
    """

    argv: tuple[str, ...]
    encoding: str = "utf-8"
    holds: bool = True


_WAYLAND = (_Program(("wl-copy",)),)
_X11 = (
    _Program(("xclip", "-selection", "clipboard", "-in")),
    _Program(("xsel", "--clipboard", "--input")),
)
_MACOS = (_Program(("pbcopy",), holds=False),)
# In the Windows Subsystem for Linux. The byte order mark of UTF-16 tells the program the encoding.
_WSL = (_Program(("clip.exe",), "utf-16", holds=False),)


class SystemClipboard:
    """The clipboard of the display that this program runs on.

    The clipboard has its own warden: on X11 and Wayland, a process holds the copied text, which
    must outlive a session. The process ends when hilum ends. The warden of a session also runs
    commands in the sandbox, which hides the display from them.

    Args:
        environ: The environment of this program.
        spawn: Function that starts an async action that runs until the program ends.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        spawn: Callable[[Callable[[], Awaitable[Any]]], None],
    ) -> None:
        self._environ = dict(environ)
        self._spawn = spawn
        self._warden = Warden()

    async def aclose(self) -> None:
        """End the processes that hold copied text."""
        await self._warden.aclose()

    # --- text -------------------------------------------------------------------------------------

    async def copy(self, text: str) -> tuple[str, bool]:
        """Copy text with a program of the system.

        Returns:
            The name of the program, empty if none works; and whether the text stays in the
            clipboard after hilum has ended.
        """
        for program in self._list_programs():
            name = program.argv[0]
            found = await trio.to_thread.run_sync(shutil.which, name, 1, self._environ.get("PATH"))
            if found is not None and await self._copy_with(program, text):
                return name, not program.holds
        return "", False

    def _list_programs(self) -> tuple[_Program, ...]:
        """Return the programs that may work, best first."""
        environ = self._environ
        programs: tuple[_Program, ...] = ()
        # In an SSH session, the other clipboards are those of the remote machine.
        is_local = not environ.get("SSH_CONNECTION")
        if is_local and sys.platform == "darwin":
            programs += _MACOS
        if is_local and environ.get("WAYLAND_DISPLAY"):
            programs += _WAYLAND
        if environ.get("DISPLAY"):
            programs += _X11
        if is_local and environ.get("WSL_DISTRO_NAME"):
            programs += _WSL
        return programs

    async def _copy_with(self, program: _Program, text: str) -> bool:
        """Copy text with a program, and return whether it worked."""
        data = text.encode(program.encoding, errors="replace")
        outcome = _Outcome()
        self._spawn(lambda: self._run(program, data, outcome))
        with trio.move_on_after(CLIPBOARD_TIMEOUT):
            await outcome.known.wait()
        if not outcome.is_good:
            outcome.scope.cancel()
        return outcome.is_good

    async def _run(self, program: _Program, data: bytes, outcome: _Outcome) -> None:
        """Run a program, and keep the process that holds the text."""
        command = Command(program.argv, env=self._environ)
        try:
            with outcome.scope:
                opening = self._warden.open(command, stdin=True, merge=True, hold=program.holds)
                async with opening as process:
                    await _send(process, data)
                    # If the program leaves a process that holds the text, the program itself exits
                    # as soon as the text is in the clipboard.
                    outcome.is_good = await process.wait_exit() == 0
                    outcome.known.set()
                    await process.wait()
        except CommandError:  # the program cannot be started
            pass
        finally:
            outcome.known.set()

    # --- images -----------------------------------------------------------------------------------

    async def read_image(self) -> bytes:
        """Return the image in the clipboard as PNG data; empty if there is none.

        Raises:
            UsageError: No program can read the clipboard.
        """
        argv = self._choose_reader()
        command = Command(argv, env=self._environ)
        try:
            with trio.move_on_after(CLIPBOARD_TIMEOUT):
                done = await self._warden.run(command, limit=MAX_IMAGE_OUTPUT)
                return _decode_image(argv, done.stdout)
        except HilumError as error:
            raise UsageError(
                f"The clipboard cannot be read: {error.message}",
                code=E_NOT_INSTALLED,
                hint=f"Install {argv[0]}, or paste the path of an image file.",
            ) from None
        return b""

    def _choose_reader(self) -> tuple[str, ...]:
        """Return the program that reads an image from the clipboard.

        Raises:
            UsageError: There is no clipboard.
        """
        if sys.platform == "darwin":
            return ("osascript", "-e", "the clipboard as «class PNGf»")
        if self._environ.get("WAYLAND_DISPLAY"):
            return ("wl-paste", "--type", "image/png")
        if self._environ.get("DISPLAY"):
            return ("xclip", "-selection", "clipboard", "-target", "image/png", "-out")
        raise UsageError(
            "This terminal has no clipboard that hilum can read.",
            code=E_NOT_FOUND,
            hint="Paste the path of an image file, or drag the file into the terminal.",
        )


@attrs.define(eq=False)
class _Outcome:
    """The outcome of a program that copies text.

    Attributes:
        is_good: Whether the text is in the clipboard.
        known: Event that is set when ``is_good`` is final.
        scope: The scope that ends the program.
    """

    is_good: bool = False
    known: trio.Event = attrs.field(factory=trio.Event)
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)


def terminal_copy(text: str) -> bytes:
    """Return the bytes that ask the terminal to copy text to the clipboard (OSC 52).

    A terminal sends no response, and may ignore the request. For a text that is too long for a
    terminal, the result is empty.
    """
    data = text.encode(errors="replace")
    if len(data) > MAX_TERMINAL_TEXT:
        return b""
    return b"\x1b]52;c;" + b64encode(data) + b"\a"


async def _send(process: Process, data: bytes) -> None:
    """Write the standard input of a process; the process need not read it."""
    stdin = process.stdin
    assert stdin is not None
    try:
        await stdin.send_all(data)
    except trio.BrokenResourceError:
        # The exit code of the process says what is wrong.
        return
    finally:
        await stdin.aclose()


def _decode_image(argv: tuple[str, ...], output: bytes) -> bytes:
    if argv[0] != "osascript":
        return output
    # AppleScript prints «data PNGf89504E47…».
    _, _, digits = output.partition(_MACOS_PREFIX)
    try:
        return bytes.fromhex(digits.partition("»".encode())[0].decode("ascii"))
    except ValueError:
        return b""
