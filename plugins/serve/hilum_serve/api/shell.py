"""Operations on commands: shell lines, which users run, and background commands of agents."""

from __future__ import annotations

from typing import Annotated

import msgspec
from hilum.errors import E_UNKNOWN
from hilum.services import BackgroundCommand
from hilum.shell_lines import stop_background_command

from hilum_serve.api.shared_types import NoResult, refuse_joined
from hilum_serve.background_commands import list_background_commands
from hilum_serve.operations import Call, operation
from hilum_serve.problems import Problem
from hilum_serve.session_state import (
    BackgroundOutput,
    BackgroundState,
    ShellLineState,
    describe_background,
    describe_shell_line,
)

MAX_COMMAND = 20_000
MAX_OUTPUT = 100_000
"""Maximum number of bytes of a background command's output that are sent."""


class NewShellLine(msgspec.Struct, forbid_unknown_fields=True):
    """A command of the user.

    Attributes:
        command: The command line, without ``!``. It runs with bash in the folder and the sandbox of
            the session.
    """

    command: Annotated[
        str,
        msgspec.Meta(min_length=1, max_length=MAX_COMMAND, pattern=r"^[^\x00]*[^\s\x00][^\x00]*$"),
    ]


class ShellLineList(msgspec.Struct, frozen=True):
    """The shell lines that run or that the agent has not read, oldest first."""

    lines: list[ShellLineState]


class BackgroundList(msgspec.Struct, frozen=True):
    """The commands that run in the background, oldest first."""

    commands: list[BackgroundState]


@operation("GET", "/api/sessions/{session}/shell", rights="watch", returns=ShellLineList)
async def list_shell_lines(call: Call[None, None]) -> ShellLineList:
    """List the shell lines that run or that the agent has not read."""
    lines = call.hosted.shell_lines.list_all()
    return ShellLineList([describe_shell_line(line) for line in lines])


@operation(
    "POST",
    "/api/sessions/{session}/shell",
    rights="approve",
    body=NewShellLine,
    returns=ShellLineState,
    status=202,
)
async def run_line(call: Call[None, NewShellLine]) -> ShellLineState:
    """Run a command of the user under the guard; the agent reads its output with the next prompt."""
    hosted = call.hosted
    refuse_joined(hosted.session)
    line = hosted.shell_lines.start(call.body.command, call.user.name)
    return describe_shell_line(line)


@operation("POST", "/api/sessions/{session}/shell/{line}/stop", rights="approve", returns=NoResult)
async def stop_shell_line(call: Call[None, None]) -> NoResult:
    """Stop a shell line with all its child processes."""
    call.hosted.shell_lines.stop(call.path["line"])
    return NoResult()


@operation("GET", "/api/sessions/{session}/background", rights="watch", returns=BackgroundList)
async def list_background(call: Call[None, None]) -> BackgroundList:
    """List the commands that run in the background."""
    hosted = call.hosted
    refuse_joined(hosted.session)
    commands = list_background_commands(hosted.session)
    return BackgroundList([describe_background(hosted, command) for command in commands])


@operation(
    "POST",
    "/api/sessions/{session}/background/{command}/stop",
    rights="prompt",
    returns=NoResult,
)
async def stop_background(call: Call[None, None]) -> NoResult:
    """Stop a background command with all its child processes."""
    hosted = call.hosted
    refuse_joined(hosted.session)
    await stop_background_command(_find_command(call))
    hosted.feed.note_state()
    return NoResult()


@operation(
    "GET",
    "/api/sessions/{session}/background/{command}/output",
    rights="watch",
    returns=BackgroundOutput,
)
async def read_background_output(call: Call[None, None]) -> BackgroundOutput:
    """Read the whole background command and the end of its output."""
    refuse_joined(call.hosted.session)
    command = _find_command(call)
    return BackgroundOutput(command.command, command.read_output_end(MAX_OUTPUT))


def _find_command(call: Call[None, None]) -> BackgroundCommand:
    for command in list_background_commands(call.hosted.session):
        if command.id == call.path["command"]:
            return command
    raise Problem(
        404, E_UNKNOWN, "There is no such command in the background.", "It may have ended."
    )
