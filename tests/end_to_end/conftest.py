"""Real ``hilum`` processes against a scripted model on the loopback interface."""

import fcntl
import inspect
import json
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from hilum.messages import AssistantMessage, Text, ToolCall
from hilum_replay import serve
from screens import Screen
from warm_start import CompletedProcess, WarmProcess, WarmStarter, python_environment

LIMIT = 60


def call(tool: str, /, *, text: str = "", id: str = "c1", **arguments: object) -> AssistantMessage:
    """An answer that asks for one tool call."""
    said = (Text(text, "model"),) if text else ()
    return AssistantMessage((*said, ToolCall(id, tool, json.dumps(arguments))), stop="calls")


@attrs.define
class Cli:
    """Starts ``hilum`` with folders of its own and no key in its environment."""

    folder: Path
    workspace: Path
    env: dict[str, str]
    warm: WarmStarter

    @property
    def settings(self) -> Path:
        """The user's settings file."""
        return self.folder / "config" / "settings.toml"

    def write_settings(self, text: str) -> None:
        """Write the user's settings file."""
        self.settings.parent.mkdir(exist_ok=True)
        self.settings.write_text(text)

    def argv(self, *arguments: str | bytes) -> list[str | bytes]:
        """The command line, for a test that starts the program itself."""
        return [sys.executable, "-m", "hilum", *arguments]

    async def __call__(
        self, *arguments: str | bytes, stdin: bytes = b"", **env: str
    ) -> CompletedProcess:
        """Run to the end."""
        with trio.fail_after(LIMIT):
            done = await self.warm.run(
                arguments, cwd=self.workspace, env=self.env | env, stdin=stdin
            )
        assert "Traceback" not in done.err, done.err
        return done

    @asynccontextmanager
    async def started(
        self, *arguments: str, **env: str
    ) -> AsyncIterator[trio.Process | WarmProcess]:
        """Start it, with pipes for both outputs; it is ended with the block."""
        output, output_end = os.pipe()
        errors, errors_end = os.pipe()
        nothing = os.open(os.devnull, os.O_RDONLY)
        process = await self.warm.open(
            arguments,
            cwd=self.workspace,
            env=self.env | env,
            stdin=nothing,
            stdout=output_end,
            stderr=errors_end,
        )
        for descriptor in (nothing, output_end, errors_end):
            os.close(descriptor)
        process.stdout = trio.lowlevel.FdStream(output)
        process.stderr = trio.lowlevel.FdStream(errors)
        try:
            with trio.fail_after(LIMIT):
                yield process
        finally:
            with trio.CancelScope(shield=True):
                if process.returncode is None:
                    process.kill()
                await process.wait()
                for pipe in (process.stdout, process.stderr):
                    await pipe.aclose()

    @asynccontextmanager
    async def on_terminal(self, *arguments: str, **env: str) -> AsyncIterator["Terminal"]:
        """Start it on a terminal of its own, 100 columns wide."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        process = await self.warm.open(
            arguments,
            cwd=self.workspace,
            env=self.env | {"TERM": "xterm-256color"} | env,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            own_terminal=True,
        )
        os.close(theirs)
        try:
            with trio.fail_after(LIMIT):
                yield Terminal(ours, process)
        finally:
            with trio.CancelScope(shield=True):
                if process.returncode is None:
                    process.kill()
                await process.wait()
            os.close(ours)

    @asynccontextmanager
    async def on_screen(
        self, *arguments: str, columns: int = 100, lines: int = 40, **env: str
    ) -> AsyncIterator[Screen]:
        """Start it on a terminal that interprets what is written, with a shell's settings."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        modes = termios.tcgetattr(theirs)
        # Open until the end, as a shell has it: its settings can be read after the program.
        process = await self.warm.open(
            arguments,
            cwd=self.workspace,
            env=self.env | {"TERM": "xterm-256color"} | env,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            own_terminal=True,
        )
        screen = Screen(ours, theirs, process, columns, lines)
        # The program may have changed them already.
        screen.modes = modes
        try:
            with trio.fail_after(LIMIT):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(screen.read)
                    yield screen
                    nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True):
                if process.returncode is None:
                    process.kill()
                await process.wait()
            os.close(ours)
            if theirs >= 0:
                os.close(theirs)

    @asynccontextmanager
    async def model(self, *answers: Any, **options: Any) -> AsyncIterator[Any]:
        """Serve a model that gives these answers in order, and make it the default.

        A single function is the whole script; a coroutine function among others gives its answer
        when it is time.
        """
        left = list(answers)
        is_whole_script = len(answers) == 1 and callable(answers[0])
        if is_whole_script:
            # A function that takes no request would answer each one with an error.
            inspect.signature(answers[0]).bind("request")

        async def script(request: Any) -> Any:
            answer = left.pop(0)
            return await answer() if callable(answer) else answer

        async with serve(
            answers[0] if is_whole_script else script,
            **{"pace": 1.0, **options},
        ) as server:
            self.env |= {"OPENAI_BASE_URL": f"{server.url}/v1", "HILUM_MODEL": "openai/scripted"}
            yield server


@attrs.define
class Terminal:
    """The other side of a terminal."""

    fd: int
    process: trio.Process | WarmProcess
    raw: str = ""
    _read: int = 0

    @property
    def text(self) -> str:
        """Everything that was shown, without colours and cursor movements."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.raw).replace("\r\n", "\n")

    async def see(self, text: str) -> None:
        """Wait until a text stands there that was not there before."""
        while text not in self.text[self._read :]:
            with trio.move_on_after(LIMIT):
                if await self._more():
                    continue
            raise AssertionError(f"{text!r} never came:\n{self.text}")
        self._read = self.text.index(text, self._read) + len(text)

    async def _more(self) -> bool:
        await trio.lowlevel.wait_readable(self.fd)
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # Linux says so when the last process has closed it
            return False
        self.raw += data.decode(errors="replace")
        return bool(data)

    def type(self, text: str) -> None:
        """Type something."""
        os.write(self.fd, text.encode())

    async def end(self) -> int:
        """Read to the end; gives the exit code."""
        while await self._more():
            pass
        return await self.process.wait()


@pytest.fixture
def cli(tmp_path: Path, warm: WarmStarter) -> Cli:
    """``hilum`` in a folder of its own."""
    workspace = tmp_path / "work"
    workspace.mkdir()
    folders = {
        "HOME": str(tmp_path),
        "HILUM_CONFIG": str(tmp_path / "config"),
        "HILUM_DATA": str(tmp_path / "data"),
    }
    return Cli(tmp_path, workspace, python_environment() | folders, warm)


@pytest.fixture
def asks() -> Callable[..., AssistantMessage]:
    """Makes an answer that asks for a tool call."""
    return call


async def until(condition: Callable[[], object]) -> None:
    """Wait until something holds."""
    with trio.fail_after(LIMIT):
        while not condition():  # noqa: ASYNC110  (what is waited for happens in other processes)
            await trio.sleep(0.01)


@pytest.fixture
def wait_until() -> Any:
    """Waits until something holds."""
    return until


@pytest.fixture
def gone() -> Callable[[int], bool]:
    """Whether a process has ended (or is only waiting to be reaped)."""

    def check(pid: int) -> bool:
        try:
            os.kill(pid, 0)
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (ProcessLookupError, FileNotFoundError):
            return True
        return state == "Z"

    return check
