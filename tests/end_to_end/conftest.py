"""Real ``hilum`` processes against a scripted model on the loopback interface."""

import fcntl
import json
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from hilum.messages import AssistantMessage, Text, ToolCall
from hilum_replay import serve
from warm_start import WarmProcess, WarmStarter

LIMIT = 60
OWN_TERMINAL = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"


def call(tool: str, /, *, text: str = "", id: str = "c1", **arguments: object) -> AssistantMessage:
    """An answer that asks for one tool call."""
    said = (Text(text, "model"),) if text else ()
    return AssistantMessage((*said, ToolCall(id, tool, json.dumps(arguments))), stop="calls")


@attrs.frozen
class Done:
    """How a process ended."""

    code: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, Any]:
        """The object that ``--output-format json`` wrote."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The objects that ``--output-format stream-json`` wrote."""
        return [json.loads(line) for line in self.out.splitlines()]


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

    async def __call__(self, *arguments: str | bytes, stdin: bytes = b"", **env: str) -> Done:
        """Run to the end."""
        reading, writing = os.pipe()
        output, output_end = os.pipe()
        errors, errors_end = os.pipe()
        with trio.fail_after(LIMIT):
            process = await self._start(
                arguments, self.env | env, stdin=reading, stdout=output_end, stderr=errors_end
            )
            for descriptor in (reading, output_end, errors_end):
                os.close(descriptor)
            try:
                out, err = await _communicate(stdin, writing, output, errors)
                code = await process.wait()
            finally:
                process.kill()
        assert "Traceback" not in err, err
        return Done(code, out, err)

    async def _start(
        self,
        arguments: tuple[str | bytes, ...],
        env: dict[str, str],
        *,
        stdin: int,
        stdout: int,
        stderr: int,
        own_terminal: bool = False,
    ) -> trio.Process | WarmProcess:
        """Start it, by a fork where that makes no difference."""
        if self.warm.can_start(arguments, env):
            return self.warm.start(
                arguments,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                cwd=self.workspace,
                env=env,
                own_terminal=own_terminal,
            )
        argv = self.argv(*arguments)
        if own_terminal:
            argv = [sys.executable, "-c", OWN_TERMINAL, *argv]
        return await trio.lowlevel.open_process(
            argv,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=own_terminal,
            cwd=self.workspace,
            env=env,
        )

    @asynccontextmanager
    async def started(
        self, *arguments: str, **env: str
    ) -> AsyncIterator[trio.Process | WarmProcess]:
        """Start it, with pipes for both outputs; it is ended with the block."""
        output, output_end = os.pipe()
        errors, errors_end = os.pipe()
        nothing = os.open(os.devnull, os.O_RDONLY)
        process = await self._start(
            arguments, self.env | env, stdin=nothing, stdout=output_end, stderr=errors_end
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
        process = await self._start(
            arguments,
            self.env | {"TERM": "xterm-256color"} | env,
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
    async def model(self, *answers: Any, **options: Any) -> AsyncIterator[Any]:
        """Serve a model that gives these answers in order, and make it the default.

        A single function is the whole script; a coroutine function among others gives its answer
        when it is time.
        """
        left = list(answers)

        async def script(request: Any) -> Any:
            answer = left.pop(0)
            return await answer() if callable(answer) else answer

        async with serve(
            answers[0] if len(answers) == 1 and callable(answers[0]) else script,
            **{"pace": 1.0, **options},
        ) as server:
            self.env |= {"OPENAI_BASE_URL": f"{server.url}/v1", "HILUM_MODEL": "openai/scripted"}
            yield server


async def _communicate(data: bytes, stdin: int, stdout: int, stderr: int) -> tuple[str, str]:
    """Write all of a process's input, and read both of its outputs to their end."""
    outputs: dict[int, bytes] = {}

    async def write() -> None:
        async with trio.lowlevel.FdStream(stdin) as stream:
            # A process need not read its input.
            with suppress(trio.BrokenResourceError):
                await stream.send_all(data)

    async def read(descriptor: int) -> None:
        async with trio.lowlevel.FdStream(descriptor) as stream:
            outputs[descriptor] = b"".join([piece async for piece in stream])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        nursery.start_soon(read, stdout)
        nursery.start_soon(read, stderr)
    return outputs[stdout].decode(), outputs[stderr].decode()


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


def python_environment() -> dict[str, str]:
    """The environment of ``hilum`` without its folders."""
    kept = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "TMPDIR")
    env = {name: value for name, value in os.environ.items() if name in kept}
    return env | {"PYTHONWARNINGS": "error", "PYTHONUTF8": "1"}


@pytest.fixture(scope="session")
def warm() -> Iterator[WarmStarter]:
    """Starts ``hilum`` without importing it again."""
    with WarmStarter(python_environment()) as starter:
        yield starter


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
