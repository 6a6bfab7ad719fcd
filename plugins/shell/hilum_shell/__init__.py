"""Runs commands: output bounded and streamed, nothing left running.

The model reads the exit code first, then standard output, then standard error under a heading of its own. Faces get both as
they come, with their escapes.
"""

from __future__ import annotations

import functools
import shutil
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs
import trio
from hilum import Call, Output, Tool, ToolError, errors, hookimpl, section, setting, tool

from hilum_shell.output import Kept, cut

if TYPE_CHECKING:
    from hilum import Session

__all__ = ["ShellSettings", "provide_tools", "run_terminal_cmd"]

# Added to what the user's shell gave hilum: nothing may wait for a key, page, paint or hold output back.
ENVIRONMENT = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "TERM": "dumb",
    "GIT_TERMINAL_PROMPT": "0",
    "DEBIAN_FRONTEND": "noninteractive",
    "PYTHONUNBUFFERED": "1",
}
SLACK = 15.0
"""Seconds the kernel waits longer than this tool, so that the output so far gets back to the model."""


@section("shell")
class ShellSettings:
    """How long commands may take, and how much of their output the model gets."""

    timeout: float = setting(
        default=120.0, minimum=0.1, help="Seconds a command may take when the model names no time."
    )
    max_timeout: float = setting(default=3600.0, minimum=0.1, help="Most seconds a command may take.")
    output_limit: int = setting(default=30_000, minimum=100, help="Characters of a command's output the model gets.")


@hookimpl
def provide_tools(session: Session) -> Sequence[Tool]:
    """Give the tool, with the time limits of this session's settings."""
    settings = session.settings(ShellSettings)
    return (attrs.evolve(run_terminal_cmd, timeout=lambda arguments: _seconds(arguments["timeout"], settings) + SLACK),)


@tool(risk="execute", effect="once")
async def run_terminal_cmd(
    call: Call, command: str, working_directory: str = ".", timeout: float | None = None
) -> Output:
    """Run a command in a shell and wait for its end. There is nobody to type: it gets no input and no terminal.

    Each command starts in a fresh shell. What it leaves in the background is ended with it, so do not start servers or
    watchers this way. The answer begins with the exit code; then come standard output and standard error, long output
    without its middle.

    Args:
        command: The command line, for bash (PowerShell on Windows).
        working_directory: Folder to run in, relative to the workspace.
        timeout: Seconds after which it is ended; 120 if not given, at most 3600.
    """
    settings = call.session.settings(ShellSettings)
    if "\0" in command or not command.strip():
        raise ToolError("This is no command.", code=errors.E_BAD_ARGS, hint="Give a command line.")
    folder = call.workspace.resolve(working_directory, must_exist=True)
    if not await trio.Path(folder).is_dir():
        raise ToolError(f"{working_directory!r} is not a folder.", code=errors.E_BAD_ARGS, hint="Name a folder.")
    kept = {"stdout": Kept(settings.output_limit), "stderr": Kept(settings.output_limit)}

    def show(stream: str, chunk: bytes) -> None:
        if text := kept[stream].add(chunk):
            call.emit(text)

    limit, began, completed = _seconds(timeout, settings), trio.current_time(), None
    with trio.move_on_after(limit):
        completed = await call.processes.run([*_shell(), command], cwd=folder, env=ENVIRONMENT, on_output=show, limit=0)
    text, left_out = _written(kept, settings.output_limit)
    data: dict[str, Any] = {"left_out": left_out, "seconds": round(trio.current_time() - began, 3)}
    if completed is None:
        return Output(_late(limit, settings, text), data={**data, "exit_code": None}, code=errors.E_TIMEOUT)
    code = completed.returncode
    end = f"Exit code {code}" if code >= 0 else f"Ended by signal {-code}{_signal(-code)}"
    data |= {"exit_code": code, "seconds": round(completed.seconds, 3)}
    return Output(f"{end} after {completed.seconds:.1f} s\n{text}", data=data, code=errors.E_CMD_FAIL if code else "")


def _seconds(timeout: float | None, settings: ShellSettings) -> float:
    return min(timeout if timeout and timeout > 0 else settings.timeout, settings.max_timeout)


@functools.cache
def _shell() -> tuple[str, ...]:
    """Find the shell: the arguments before the command line."""
    if sys.platform == "win32":
        return (shutil.which("pwsh") or "powershell", "-NoLogo", "-NoProfile", "-NonInteractive", "-Command")
    return (shutil.which("bash") or "sh", "-c", "--")


def _written(kept: dict[str, Kept], limit: int) -> tuple[str, int]:
    """Put both streams together. Standard error gets up to half the room, and what standard output leaves."""
    out, err = kept["stdout"].text(), kept["stderr"].text()
    length = sum(len(part) for part in out[:2])
    stderr, lost = cut(err, max(limit // 2, limit - length))
    stdout, more = cut(out, limit - min(len(stderr), limit // 2))
    text = stdout.rstrip("\n")
    if stderr.strip():
        text = f"{text}\n[standard error]\n{stderr.rstrip()}".lstrip("\n")
    return text or "[no output]", lost + more


def _late(limit: float, settings: ShellSettings, text: str) -> str:
    advice = f"Give it a longer timeout (at most {settings.max_timeout:g} s), or let it do less at once."
    return (
        f"The command took longer than {limit:g} s; it was ended, with everything it had started. {advice}"
        " A server or a watcher never ends by itself; a command that asks for input cannot get any."
        f"\nIts output so far:\n{text}"
    )


def _signal(number: int) -> str:
    try:
        return f" ({signal.Signals(number).name})"
    except ValueError:
        return ""
