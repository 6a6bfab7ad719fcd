"""What the agents act on: a few values, tools of every temper, and files.

Tools report to the checker what they do.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import trio
from hilum import Call, NeedsUser, Output, ToolError, tool
from hilum.testing import plugin

from simulator.invariants import Checker

TOOL_TIMEOUT = 20.0


class World:
    """The state outside of hilum. It survives a kill, as it was at that moment.

    Args:
        checker: Who is told what tools do.
        workspace: The folder of the files.

    Attributes:
        values: What ``put``, ``bump`` and ``command`` change and ``look`` and ``check`` read.
        dead: Whether the process was killed: nothing has an effect any more.
        left: Set when the run must end whatever is hanging.
    """

    def __init__(self, checker: Checker, workspace: Path) -> None:
        self.checker = checker
        self.workspace = workspace
        self.values: dict[str, int] = {"a.txt": 0, "b.txt": 0}
        self.sent: list[str] = []
        self.dead = False
        self.left = trio.Event()
        self._saved: tuple[dict[str, int], list[str]] = ({}, [])

    def save(self) -> None:
        """Keep the state as a kill at this moment leaves it."""
        self._saved = copy.deepcopy((self.values, self.sent))

    def restore(self) -> None:
        """Take up the state that was saved."""
        self.values, self.sent = copy.deepcopy(self._saved)
        self.dead = False

    def change_file(self, name: str, text: str) -> None:
        """Change a file as another process would, and the value of that name."""
        path = self.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        self.values[name] = self.values.get(name, 0) + 100
        self.checker.changed_outside(name)

    @contextmanager
    def body(self, call: Call) -> Iterator[None]:
        """Report that the body of a tool runs."""
        self.checker.body_started(call)
        try:
            yield
        finally:
            self.checker.body_ended(call)

    @contextmanager
    def writing(self, call: Call, path: str) -> Iterator[None]:
        """Report that a tool is about to change something and has not yet."""
        self.checker.writing_started(call, path)
        try:
            yield
        finally:
            self.checker.writing_ended(call, path)

    def set(self, call: Call, path: str, value: int) -> None:
        """Change a value."""
        self.checker.effect(call)
        self.values[path] = value


def world_plugin(world: World) -> ModuleType:
    """Create the plugin whose tools act on the world."""

    @tool(risk="read", effect="pure")
    async def look(call: Call, key: str) -> str:
        """Read a value."""
        with world.body(call):
            await trio.lowlevel.checkpoint()
            if key not in world.values:
                raise ToolError(f"There is no {key!r}.", code="E_NOT_FOUND")
            return str(world.values[key])

    @tool(risk="write", effect="idempotent", writes="path", timeout=TOOL_TIMEOUT)
    async def put(call: Call, path: str, value: int, seconds: float = 0.0) -> str:
        """Write a value."""
        with world.body(call), world.writing(call, path):
            await trio.sleep(seconds)
            world.set(call, path, value)
            return f"{path} is {value}"

    @tool(risk="write", effect="once", writes="path", timeout=TOOL_TIMEOUT)
    async def bump(call: Call, path: str, seconds: float = 0.0) -> str:
        """Add one to a value."""
        with world.body(call), world.writing(call, path):
            before = world.values.get(path, 0)
            await trio.sleep(seconds)
            world.set(call, path, before + 1)
            return f"{path} is {before + 1}"

    @tool(risk="execute", effect="once", timeout=TOOL_TIMEOUT)
    async def check(call: Call, key: str, want: int) -> Output:
        """Run the tests: they pass if the value is the wanted one."""
        with world.body(call):
            await trio.sleep(0.1)
            if world.values.get(key) == want:
                return Output("passed")
            return Output(f"{key} is {world.values.get(key)}, not {want}", code="E_CMD_FAIL")

    @tool(risk="execute", effect="once", timeout=TOOL_TIMEOUT)
    async def command(call: Call, path: str, value: int, seconds: float = 0.0) -> str:
        """Run a command that changes a value."""
        with world.body(call):
            await trio.sleep(seconds)
            world.set(call, path, value)
            return "done"

    @tool(risk="network", effect="once", timeout=TOOL_TIMEOUT)
    async def send(call: Call, text: str) -> str:
        """Send a text."""
        with world.body(call):
            await trio.sleep(0.5)
            world.checker.effect(call)
            world.sent.append(text)
            return "sent"

    @tool(risk="read", effect="pure", timeout=TOOL_TIMEOUT)
    async def wait(call: Call, seconds: float) -> str:
        """Wait."""
        with world.body(call):
            await trio.sleep(seconds)
            return "waited"

    @tool(risk="read", effect="pure", timeout=TOOL_TIMEOUT)
    async def shield(call: Call, seconds: float) -> str:
        """Wait and refuse to be cancelled."""
        with world.body(call), trio.CancelScope(shield=True):
            with trio.move_on_after(seconds):
                await world.left.wait()
            return "waited"

    @tool(risk="read", effect="pure", timeout=TOOL_TIMEOUT)
    async def swallow(call: Call, seconds: float) -> str:
        """Wait and take a cancellation for the end of the wait."""
        with world.body(call):
            try:
                await trio.sleep(seconds)
            except trio.Cancelled:
                return "cancelled"
            return "waited"

    @tool(risk="read", effect="pure")
    async def huge(call: Call, characters: int, kind: str = "words") -> str:
        """Return a long text."""
        with world.body(call):
            await trio.lowlevel.checkpoint()
            piece = {
                "words": "some words here ",
                "digits": "4711 ",
                "wide": "漢字",
                "letters": "QWERTY",
            }.get(kind, kind)
            return (piece * (characters // len(piece or "x") + 1))[:characters]

    @tool(risk="execute", effect="once")
    async def boom(call: Call, kind: str) -> str:
        """Fail."""
        with world.body(call):
            await trio.lowlevel.checkpoint()
            raise _ERRORS.get(kind, ValueError)("It went wrong.")

    @tool(risk="read", effect="pure")
    async def odd(call: Call, kind: str) -> Any:
        """Return something odd."""
        with world.body(call):
            await trio.lowlevel.checkpoint()
            return _odd(kind)

    @tool(risk="read", effect="pure")
    async def nested(call: Call, value: Any) -> str:
        """Take anything."""
        with world.body(call):
            await trio.lowlevel.checkpoint()
            return "taken"

    tools = (look, put, bump, check, command, send, wait, shield, swallow, huge, boom, odd, nested)
    return plugin("world", *tools)


class _OwnToolError(ToolError):
    """An error class of a plugin's own."""


_ERRORS: dict[str, type[BaseException]] = {
    "value": ValueError,
    "exit": SystemExit,
    "generator": GeneratorExit,
    "tool": ToolError,
    "own": _OwnToolError,
    "user": NeedsUser,
    "recursion": RecursionError,
    "slow": trio.TooSlowError,
}


def _odd(kind: str) -> Any:
    deep: Any = 0
    for _ in range(2_000):
        deep = [deep]
    values: dict[str, Any] = {
        "none": None,
        "bytes": b"\xff\xfe",
        "object": object(),
        "surrogate": "broken \udc80 text",
        "zero": "nul \0 and \x1b[31m escape",
        "code": Output("told", code="E_FAILED"),
        "data": Output("told", data={"path": Path("x"), "deep": {1: 2}}),
        "unencodable": Output("told", data={"thing": object()}),
        "deep": deep,
        "set": {"a"},
    }
    return values.get(kind)
