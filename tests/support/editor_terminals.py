"""The terminals of an editor for tests: real programs on real terminals of the system."""

import os
import signal
from pathlib import Path

import trio


class EditorTerminal:
    """A program on a terminal.

    Attributes:
        process: The program.
        output: What it has printed.
        released: Whether the agent has released the terminal, which ends the program.
    """

    def __init__(self, process, screen):
        self.process = process
        self.output = b""
        self.released = False
        self.changed = trio.Event()
        self.on_change = lambda: None
        self._screen = screen
        self.is_read = trio.Event()
        self.is_read.set()

    @classmethod
    async def open(cls, params):
        screen, end = os.openpty()
        try:
            process = await trio.lowlevel.open_process(
                [params["command"], *params.get("args", [])],
                stdin=end,
                stdout=end,
                stderr=end,
                cwd=params.get("cwd"),
                env={**os.environ, **{each["name"]: each["value"] for each in params["env"]}},
                start_new_session=True,
            )
        except BaseException:
            os.close(screen)
            raise
        finally:
            os.close(end)
        return cls(process, trio.lowlevel.FdStream(screen))

    async def run(self):
        """Read what the program prints until it ends."""
        async with self._screen:
            while True:
                await self.is_read.wait()
                try:
                    data = await self._screen.receive_some(65536)
                except (trio.BrokenResourceError, OSError):
                    break  # on Linux, the end of the last process on a terminal is an error
                if not data:
                    break
                self.output += data
                self.change()
        await self.process.wait()
        self.change()

    def change(self):
        self.changed.set()
        self.changed = trio.Event()
        self.on_change()

    async def wait_for(self, text):
        with trio.fail_after(30):
            while text.encode() not in self.output:
                await self.changed.wait()

    def kill(self, number=signal.SIGTERM):
        if self.process.returncode is None:
            self.process.send_signal(number)

    async def wait(self):
        """Return the exit status, as in a response of the protocol."""
        code = await self.process.wait()
        if code < 0:
            return {"exitCode": None, "signal": signal.Signals(-code).name}
        return {"exitCode": code, "signal": None}


def list_viewers(folder):
    """Return the ids of the viewers whose socket is in a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            argv = (entry / "cmdline").read_bytes()
            environ = (entry / "environ").read_bytes()
        except OSError:  # it has ended, or belongs to someone else
            continue
        if b"terminal_viewer.py" in argv and str(folder).encode() in environ:
            found.append(int(entry.name))
    return found
