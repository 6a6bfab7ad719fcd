"""The tools that run commands, and that list, read, write to and stop services."""

from __future__ import annotations

import functools
import shutil
import sys
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any

import attrs
import trio
from hilum import EVERYTHING, Agent, Call, Output, Tool, ToolError, errors, hookimpl, tool

from hilum_shell import programs, report
from hilum_shell.output import OutputBuffer, PatternSearch, Spool
from hilum_shell.service import Service
from hilum_shell.services import GRACE_SECONDS, Services

# Environment variables that keep programs from paging output, waiting for a key press, drawing or
# buffering.
ENVIRONMENT = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    # On a "dumb" terminal, programs print no colors and do not move the cursor.
    "TERM": "dumb",
    # Git fails instead of waiting for a password.
    "GIT_TERMINAL_PROMPT": "0",
    # Debian packages are installed with the default answers to their questions.
    "DEBIAN_FRONTEND": "noninteractive",
    # Python must not buffer its output, or a service would seem to print nothing.
    "PYTHONUNBUFFERED": "1",
}
IN_BACKGROUND = {"HILUM_BACKGROUND": "1"}
"""Marks a command that may run for a long time, which the sandbox keeps from writing to the Git
folder."""
DEADLINE_SLACK_SECONDS = 15.0
"""Seconds by which the kernel's deadline exceeds the tool's, so that the tool can return the output
so far."""
DEFAULT_WAIT_SECONDS = 30.0
"""Seconds to wait for a pattern if the call sets no timeout."""
START_WATCH_SECONDS = 0.5
"""Seconds to watch a new background command. With most mistakes, the command exits within this
time."""
STOP_GRACE_SECONDS = 2.0
"""Seconds between SIGTERM and SIGKILL in ``stop_service``."""
ANSWER_PAUSE_SECONDS = 0.3
"""Seconds without output after which the response to an input counts as complete."""


SERVICE = "service {service}"
"""The name of a service's queue: calls in one answer that use the same service run in order."""


def _reads_everything(arguments: dict[str, Any]) -> list[str]:
    """Return all files, because a command may use any file and must wait for earlier changes."""
    return [EVERYTHING]


class Shell(Services):
    """The session plugin: the tools for commands and services."""

    @hookimpl
    def provide_tools(self) -> Sequence[Tool]:
        """Return the tools, with the time limits from this session's settings."""

        def run(arguments: dict[str, Any]) -> float:
            return self._limit(arguments["timeout"]) + DEADLINE_SLACK_SECONDS

        def wait(arguments: dict[str, Any]) -> float:
            limit = self._wait_limit(arguments["timeout"], DEFAULT_WAIT_SECONDS)
            return limit + DEADLINE_SLACK_SECONDS

        def without_services(agent: Agent) -> bool:
            return not self.all()

        service_tools = (
            attrs.evolve(self.read_service, timeout=wait),
            attrs.evolve(self.write_service, timeout=wait),
            self.list_services,
            self.stop_service,
        )
        return (
            attrs.evolve(self.run_terminal_cmd, timeout=run),
            *(attrs.evolve(each, deferred=without_services) for each in service_tools),
        )

    # --- running ----------------------------------------------------------------------------------

    @tool(risk="execute", effect="once", reads=_reads_everything, aim=programs.describe_target)
    async def run_terminal_cmd(
        self,
        call: Call,
        command: str,
        working_directory: str = ".",
        timeout: float | None = None,
        background: bool = False,
    ) -> Output:
        """Run a command in a fresh shell, without a terminal or input.

        Returns exit code and output; long output is cut.

        Start servers and watchers with background=true, not with "&", nohup or setsid: they become
        services.

        Args:
            command: The command line for bash (PowerShell on Windows).
            working_directory: Folder to run it in, relative to the workspace.
            timeout: Seconds, at most 3600. Without one, a slow command becomes a service.
            background: Return at once and leave it running as a service.
        """
        folder = await _check_command(call, command, working_directory)
        if background and self.full():
            raise ToolError(
                self.too_many(),
                code=errors.E_BUSY,
                hint="Stop one first; list_services lists them.",
            )
        service = Service(command, call.agent.name, _runs(call.agent), Spool(self.settings.spool))
        if not background:
            service.buffers = {
                name: OutputBuffer(self.settings.output_limit) for name in ("stdout", "stderr")
            }
            service.show = call.emit
            call.output_so_far = lambda: self._output_so_far(service)
        env = ENVIRONMENT | (IN_BACKGROUND if background else {})
        # Only a service has standard input: in the foreground, a program that reads from it gets
        # end-of-file at once instead of waiting. A service's standard output and standard error
        # share a pipe, which keeps their order.
        opened = call.processes.open(
            [*_shell(), command],
            cwd=folder,
            env=env,
            stdin=background,
            merge=background,
            hold=True,
            purpose="service" if background else "command",
        )
        try:
            await self.start(service, opened)
            if background:
                return await self._report_start(service, timeout)
            return await self._wait(service, timeout)
        finally:
            # A foreground command ends with its call, however the call ends.
            if not service.id or service.buffers is not None:
                # Even a cancelled call must not leave processes behind.
                with trio.CancelScope(shield=True):
                    await service.stop("the call was stopped", GRACE_SECONDS)
                self.last = service, call.id

    def _output_so_far(self, service: Service) -> str:
        """Return the output of a command whose call was stopped."""
        if service.buffers is None:
            return ""
        text, _ = self._read_streams(service)
        return text

    async def _report_start(self, service: Service, timeout: float | None) -> Output:
        """Turn a new command into a service, and report it if the command ends immediately."""
        limit = self._limit(timeout) if timeout else None
        self.adopt(service, limit)
        with trio.move_on_after(START_WATCH_SECONDS):
            await service.ended.wait()
        said = ""
        if not service.ended.is_set():
            until = "until it is stopped" if limit is None else f"for {limit:g} s at most"
            lifetime = report.describe_lifetime(beyond=self.settings.keep_services)
            said = (
                f"The command runs in the background as {service.id}, {until}. read_service returns"
                " its output and can wait for a pattern in it; stop_service ends it."
                f" {lifetime}\n"
            )
        return report.read_output(service, service.agent, 0, self.settings.output_limit, said=said)

    async def _wait(self, service: Service, timeout: float | None) -> Output:
        """Wait for a foreground command, and report how it ended or that it continues."""
        self._waiting.append(service)
        try:
            return await self._wait_and_report(service, timeout)
        finally:
            self._waiting.remove(service)

    async def _wait_and_report(self, service: Service, timeout: float | None) -> Output:
        limit = self._limit(timeout)
        may_move = timeout is None and self.settings.when_late == "background"
        quiet = self.settings.quiet
        if not quiet or not may_move or self.full():
            # A silent command becomes a service only if the call sets no timeout and a service slot
            # is still free.
            quiet = inf
        await _wait_for_exit(service, limit, quiet)
        if service.ended.is_set():
            return self._report_end(service)
        if service.remains and service.failure is None:
            return await self._keep(service)
        if service.move_requested.is_set():
            return self._move(service, by_user=True)
        if may_move and not self.full():
            return self._move(service)
        return await self._end_late(service, limit, may_move)

    def _report_end(self, service: Service) -> Output:
        """Report how a foreground command ended."""
        if service.failure is not None:
            raise service.failure
        text, data = self._read_streams(service)
        is_answer = programs.is_answer_code(service.command, service.code or 0)
        return report.format_finished(service, text, data, is_answer)

    async def _end_late(self, service: Service, limit: float, may_move: bool) -> Output:
        """End a command that took too long.

        Args:
            service: The command.
            limit: The time limit.
            may_move: Whether only the number of services kept the command from becoming a service.
        """
        await service.stop("it took too long", GRACE_SECONDS)
        if service.failure is not None:
            raise service.failure
        text, data = self._read_streams(service)
        text = report.format_late(limit, self.settings.max_timeout, text)
        if may_move:
            text = f"{self.too_many()} {text}"
        return Output(text, data=data, code=errors.E_TIMEOUT)

    def _move(self, service: Service, *, by_user: bool = False) -> Output:
        """Turn a command that takes long into a service.

        Args:
            service: The command.
            by_user: Whether the user wants this, instead of a time limit.
        """
        if service.failure is not None:
            raise service.failure
        seconds = trio.current_time() - service.began
        rest = round(max(self.settings.max_timeout - seconds, 0))
        text, data = self._adopt_with_output(service, rest)
        said = report.format_moved(service, seconds, rest, text, by_user=by_user)
        return Output(said, data=data)

    def _read_streams(self, service: Service) -> tuple[str, dict[str, Any]]:
        """Return the output of a command that ended, and the data for faces."""
        assert service.buffers is not None
        shown = report.cut_streams(service.buffers, self.settings.output_limit)
        data = _make_data(service, shown)
        if shown.left_out:
            self.keep_output(service)
        return _with_note(shown, service), data

    def _adopt_with_output(
        self, service: Service, limit: float | None
    ) -> tuple[str, dict[str, Any]]:
        """Turn a command into a service.

        Args:
            service: The command.
            limit: Seconds from now after which the service is ended.

        Returns:
            The output so far, and the data for faces.
        """
        assert service.buffers is not None
        shown = report.cut_streams(service.buffers, self.settings.output_limit)
        self.adopt(service, limit)
        # The result contains the output so far, so the next read starts after it.
        service.cursors[service.agent] = service.spool.end
        data = _make_data(service, shown)
        data["service"] = service.id
        return _with_note(shown, service), data

    async def _keep(self, service: Service) -> Output:
        """Turn remaining processes into a service, or end them if there are too many services."""
        if self.full():
            await service.stop("there were too many services", GRACE_SECONDS)
            note = f"{report.LEFT}\n{self.too_many()}"
            text, data = self._read_streams(service)
        else:
            text, data = self._adopt_with_output(service, None)
            note = report.describe_kept(service, beyond=self.settings.keep_services)
        is_answer = programs.is_answer_code(service.command, service.code or 0)
        return report.format_finished(service, text, data, is_answer, note)

    def _limit(self, timeout: float | None) -> float:
        """Return the time limit for a command, in seconds."""
        if timeout is None or timeout <= 0:
            timeout = self.settings.timeout
        return min(timeout, self.settings.max_timeout)

    def _wait_limit(self, timeout: float | None, default: float) -> float:
        """Return how many seconds to wait for a service."""
        if timeout is None:
            timeout = default
        return max(0.0, min(timeout, self.settings.max_timeout))

    # --- services ---------------------------------------------------------------------------------

    @tool(risk="read", effect="pure")
    def list_services(self, call: Call) -> Output:
        """List the services: id, command line, state, and size of the output."""
        lines = []
        listed = []
        for service in self.all():
            size = f"{service.spool.end:,} bytes of output"
            lines.append(f"{service.title}: {service.describe()}; {size}")
            listed.append(
                {
                    "id": service.id,
                    "command": service.command,
                    "state": service.state,
                    "exit_code": service.code,
                }
            )
            if service.state == "running":
                service.informed.add(call.agent.name)
        return Output("\n".join(lines) or "There are no services.", data={"services": listed})

    @tool(risk="read", effect="idempotent", queues=SERVICE)
    async def read_service(
        self,
        call: Call,
        service: str,
        wait_for: str = "",
        timeout: float | None = None,
        offset: int | None = None,
    ) -> Output:
        """Read a service's output since you last read it, and its state.

        Args:
            service: Its id, such as s1.
            wait_for: Regular expression to wait for in a line of its output, such as "listening
                on".
            timeout: Seconds to wait for the pattern (30 by default) or, without a pattern, for its
                end.
            offset: Start reading at this byte of its output instead.
        """
        found = self.find(service, call.agent.name)
        agent = call.agent.name
        said = ""
        if wait_for:
            since = found.searched.get(agent, 0) if offset is None else offset
            said = await _wait_for(
                found,
                PatternSearch(wait_for, found.spool, since),
                self._wait_limit(timeout, DEFAULT_WAIT_SECONDS),
            )
        elif not found.ended.is_set():
            with trio.move_on_after(self._wait_limit(timeout, 0)):
                await found.ended.wait()
        return self._read(found, agent, said, offset)

    @tool(risk="execute", effect="once", reads=_reads_everything, queues=SERVICE)
    async def write_service(
        self,
        call: Call,
        service: str,
        text: str,
        enter: bool = True,
        end_input: bool = False,
        wait_for: str = "",
        timeout: float | None = None,
    ) -> Output:
        """Write to a service's standard input and read its response.

        Args:
            service: Its id, such as s1.
            text: Text to write.
            enter: Add a newline.
            end_input: Close its input afterwards.
            wait_for: Regular expression to wait for, such as a prompt.
            timeout: Seconds to wait for the pattern (30 by default) or until output pauses (5).
        """
        found = self.find(service, call.agent.name)
        agent = call.agent.name
        if not found.takes_input:
            if found.ended.is_set():
                hint = "It has ended."
            else:
                hint = "Only commands started with background=true accept input."
            raise ToolError(f"{service} does not accept input.", code=errors.E_BAD_ARGS, hint=hint)
        printed = found.spool.end
        finder = PatternSearch(wait_for, found.spool, printed) if wait_for else None
        patience = self._wait_limit(timeout, DEFAULT_WAIT_SECONDS if wait_for else 5.0)
        try:
            # Even with `timeout=0`, the program gets a second to read its input.
            with trio.move_on_after(max(patience, 1.0)) as writing:
                await found.write((text + "\n" * enter).encode(errors="replace"), end_input)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise ToolError(f"{service} no longer reads input.", hint="Read its output.") from None
        if writing.cancelled_caught:
            said = "It has not yet read all of the input; the unread rest is lost.\n"
        else:
            said = ""
        if finder is not None:
            said += await _wait_for(found, finder, patience)
        elif not said:
            await _wait_for_pause(found, printed, patience)
        return self._read(found, agent, said)

    @tool(risk="execute", effect="idempotent", queues=SERVICE)
    async def stop_service(self, call: Call, service: str) -> Output:
        """Stop a service and all its child processes, and read the rest of its output.

        Args:
            service: Its id, such as s1.
        """
        found = self.find(service, call.agent.name)
        agent = call.agent.name
        await found.stop("stop_service was called", STOP_GRACE_SECONDS)
        return self._read(found, agent)

    def _read(
        self, service: Service, agent: str, said: str = "", offset: int | None = None
    ) -> Output:
        """Return the output that an agent has not read, or a page that starts at an offset."""
        start = service.cursors.get(agent, 0) if offset is None else offset
        output = report.read_output(
            service, agent, start, self.settings.output_limit, paged=offset is not None, said=said
        )
        service.searched[agent] = service.cursors[agent]
        return output


async def _check_command(call: Call, command: str, working_directory: str) -> Path:
    """Return the folder in which a command runs.

    Raises:
        ToolError: The command is empty, or there is no such folder.
    """
    if "\0" in command or not command.strip():
        raise ToolError(
            "The command is empty or contains a null byte.",
            code=errors.E_BAD_ARGS,
            hint="Pass a command line.",
        )
    folder = call.workspace.resolve(working_directory, must_exist=True)
    # That the root is a folder is known without a thread, in which most commands would wait.
    if folder not in call.workspace.roots and not await trio.Path(folder).is_dir():
        raise ToolError(
            f"{working_directory!r} is not a folder.",
            code=errors.E_BAD_ARGS,
            hint="Use an existing folder.",
        )
    return folder


async def _wait_for_exit(service: Service, limit: float, quiet: float) -> None:
    """Wait until a command exits, is moved, takes too long, or prints nothing for some time.

    Args:
        service: The command.
        limit: Seconds that the command may take.
        quiet: Seconds without output after which the wait ends.
    """
    while not service.exited.is_set() and not service.move_requested.is_set():
        due = min(service.began + limit, service.last_output + quiet)
        if trio.current_time() >= due:
            break
        with trio.move_on_at(due):
            await service.wait_for_exit_or_move()


def _make_data(service: Service, shown: report.ShownOutput) -> dict[str, Any]:
    seconds = trio.current_time() - service.began
    return {"left_out": shown.left_out, "seconds": round(seconds, 3), "exit_code": None}


def _with_note(shown: report.ShownOutput, service: Service) -> str:
    """Return the output of a command, with a notice if it was shortened."""
    if not shown.left_out:
        return shown.text
    return f"{shown.text}\n{report.format_cut_notice(shown, service)}"


async def _wait_for(service: Service, finder: PatternSearch, seconds: float) -> str:
    """Wait for a pattern, and describe the result in a sentence."""
    with trio.move_on_after(max(seconds, 1.0)):  # even with `seconds=0`, search once
        while True:
            # The state is read before the search: if the service has already ended, the search
            # covers all of its output.
            has_ended = service.ended.is_set()
            line, more = finder.step()
            if line:
                return f"Found: {line}\n"
            if has_ended and not more:
                return "The service ended without output that matches the pattern.\n"
            if more:
                await trio.lowlevel.checkpoint()
            else:
                await service.wait_for_output()
    return f"No output matched the pattern within {seconds:g} s.\n"


async def _wait_for_pause(service: Service, printed: int, seconds: float) -> None:
    """Wait until a service has printed output and then paused, or has ended."""
    with trio.move_on_after(seconds):
        while service.spool.end == printed and not service.ended.is_set():
            await service.wait_for_output()
        # Responses arrive in pieces, for example some output and then a prompt.
        silent = False
        while not silent and not service.ended.is_set():
            with trio.move_on_after(ANSWER_PAUSE_SECONDS) as pause:
                await service.wait_for_output()
            silent = pause.cancelled_caught


def _runs(agent: Agent) -> frozenset[str]:
    """Return the ids of the current runs of an agent and of its parents."""
    # Stopping the run of a parent also ends the services that its agents started.
    runs = set()
    above = agent.session.agents
    while agent.conversation.run is not None:
        runs.add(agent.conversation.run.id)
        if agent.parent not in above:
            break
        agent = above[agent.parent]
    return frozenset(runs)


@functools.cache
def _shell() -> tuple[str, ...]:
    """Return the shell and the arguments that precede the command line."""
    if sys.platform == "win32":
        return (
            shutil.which("pwsh") or "powershell",
            "-NoLogo",
            "-NoProfile",
            "-NonInteractive",
            "-Command",
        )
    # After `--`, a command line that begins with `-` is not mistaken for an option.
    return (shutil.which("bash") or "sh", "-c", "--")
