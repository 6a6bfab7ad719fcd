"""Commands that a guest runs in a terminal of its client, which is hilum."""

from __future__ import annotations

import codecs
import shlex
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import trio
from hilum import HilumError

if TYPE_CHECKING:
    from hilum import Processes

DEFAULT_LIMIT = 200_000  # bytes of output to keep
MAX_LIMIT = 4_000_000
MAX_COMMAND = 100_000  # characters
MAX_VARIABLES = 100
MAX_VALUE = 1_000  # characters of a variable
GRACE = 2.0  # seconds between SIGTERM and SIGKILL
CHUNK = 1 << 16

_HARMLESS = frozenset({"CI", "COLUMNS", "FORCE_COLOR", "LANG", "LINES", "NO_COLOR", "TERM", "TZ"})
"""Variables that select no program and no code."""


class Terminal:
    """A command that a guest runs.

    Args:
        id: The id of the terminal.
        params: The guest's request.

    Attributes:
        command: The command line.
        folder: The working directory; empty for the workspace.
        ended: Set when the command has ended or was refused.
        exit_code: The exit code; ``None`` while the command runs, or if a signal ended it.
        signal: The name of the signal that ended the command; empty for none.
        started: Whether the command was allowed to start.
        show: Called with new output.
    """

    def __init__(self, id: str, params: Mapping[str, Any]) -> None:
        words = [str(params.get("command") or "")]
        arguments = params.get("args")
        if isinstance(arguments, list) and arguments:
            words += map(str, arguments)
            self.command = shlex.join(words)
        else:
            # Some guests send a whole command line as the command.
            self.command = words[0]
        self.id = id
        self.folder = str(params.get("cwd") or "")
        self.ended = trio.Event()
        self.exit_code: int | None = None
        self.signal = ""
        self.started = False
        self.show: Callable[[str], None] = lambda text: None
        # The user and the rules do not see variables, so only those are set that change no program.
        self._env = _read_env(params.get("env"))
        self._limit = _read_limit(params.get("outputByteLimit"))
        self._output = bytearray()
        self._truncated = False
        self._scope = trio.CancelScope()

    async def run(self, processes: Processes, folder: str) -> None:
        """Run the command in the sandbox until it ends or is killed.

        Args:
            processes: The session's child processes.
            folder: The working directory, resolved.
        """
        self.started = True
        argv = ["bash", "-c", "--", self.command]
        try:
            with self._scope:
                async with processes.open(
                    argv, cwd=folder, env=self._env, merge=True, grace=GRACE
                ) as process:
                    await self._read(process.stdout)
                    self._set_code(await process.wait())
            if self._scope.cancelled_caught:
                self.signal = self.signal or "SIGTERM"
        except HilumError as error:
            self.refuse(str(error))
        finally:
            self.ended.set()

    async def _read(self, stream: trio.abc.ReceiveStream) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while data := await stream.receive_some(CHUNK):
            self._add(decoder.decode(data))
        # The output may end within a character.
        self._add(decoder.decode(b"", final=True))

    def _add(self, text: str) -> None:
        if not text:
            return
        self._output += text.encode(errors="replace")
        self.show(text)
        excess = len(self._output) - self._limit
        if excess > 0:
            # The protocol keeps the end of the output, and cuts between characters.
            while excess < len(self._output) and self._output[excess] & 0xC0 == 0x80:
                excess += 1
            del self._output[:excess]
            self._truncated = True

    def _set_code(self, code: int) -> None:
        if code < 0:
            self.signal = f"signal {-code}"
        else:
            self.exit_code = code

    def refuse(self, reason: str) -> None:
        """End the terminal with a reason, as if the command had failed."""
        if not self.ended.is_set():
            self._add(f"{reason}\n")
            self.exit_code = 126
            self.ended.set()

    def kill(self) -> None:
        """End the command with all its child processes."""
        self._scope.cancel()

    @property
    def output(self) -> str:
        """The output so far."""
        return self._output.decode()

    @property
    def exit_status(self) -> dict[str, Any]:
        """How the command ended, as the protocol states it."""
        return {"exitCode": self.exit_code, "signal": self.signal or None}

    def describe(self) -> dict[str, Any]:
        """Return the output and the state, as the protocol states them."""
        found: dict[str, Any] = {"output": self.output, "truncated": self._truncated}
        if self.ended.is_set():
            found["exitStatus"] = self.exit_status
        return found


def _read_env(value: object) -> dict[str, str]:
    listed = value if isinstance(value, list) else []
    env = {}
    for each in listed[:MAX_VARIABLES]:
        name = each.get("name") if isinstance(each, dict) else None
        if isinstance(name, str) and (name in _HARMLESS or name.startswith("LC_")):
            env[name] = str(each.get("value") or "")[:MAX_VALUE]
    return env


def _read_limit(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return min(value, MAX_LIMIT)
    return DEFAULT_LIMIT
