"""The tools: run a command, and read, write to, list and stop those in the background."""

from __future__ import annotations

import functools
import shutil
import sys
from collections.abc import Sequence
from math import inf
from typing import Any

import attrs
import trio
from hilum import EVERYTHING, Agent, Call, Output, Tool, ToolError, errors, hookimpl, tool

from hilum_shell import programs, report
from hilum_shell.output import Finder, Kept, Spool
from hilum_shell.service import Service
from hilum_shell.services import GRACE, Services

# Added to what the user's shell gave hilum: nothing may wait for a key, page, paint or hold output
# back.
ENVIRONMENT = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "TERM": "dumb",
    "GIT_TERMINAL_PROMPT": "0",
    "DEBIAN_FRONTEND": "noninteractive",
    "PYTHONUNBUFFERED": "1",
}
IN_BACKGROUND = {"HILUM_BACKGROUND": "1"}
"""Tells the sandbox that a command may run for long: it cannot write to the Git folder."""
SLACK = 15.0
"""Seconds the kernel waits longer than a tool, so that the output so far gets back to the model."""
PATIENCE = 30.0
"""Seconds to wait for a pattern where none are named."""
FIRST_LOOK = 0.5
"""Seconds that a command started in the background is watched: most mistakes end it within that."""
FAREWELL = 2.0
"""Seconds that ``stop_service`` gives a command to go by itself."""
PAUSE = 0.3
"""Seconds of silence after which an answer to what was typed counts as whole."""


SERVICE = "service {service}"
"""Calls of one answer that use one service act in their order."""


def _reads_everything(arguments: dict[str, Any]) -> list[str]:
    """Return what a command reads: it may use any file, so it waits for the changes before it, and
    those after wait for it.
    """
    return [EVERYTHING]


class Shell(Services):
    """The half of a session: its services, and the tools to work with them."""

    @hookimpl
    def provide_tools(self) -> Sequence[Tool]:
        """Return the tools, with the time limits of this session's settings."""

        def run(arguments: dict[str, Any]) -> float:
            return self._limit(arguments["timeout"]) + SLACK

        def wait(arguments: dict[str, Any]) -> float:
            return self._patience(arguments["timeout"], PATIENCE) + SLACK

        def without_services(agent: Agent) -> bool:
            return not self.all()

        of_services = (
            attrs.evolve(self.read_service, timeout=wait),
            attrs.evolve(self.write_service, timeout=wait),
            self.list_services,
            self.stop_service,
        )
        return (
            attrs.evolve(self.run_terminal_cmd, timeout=run),
            *(attrs.evolve(each, deferred=without_services) for each in of_services),
        )

    # --- running ----------------------------------------------------------------------------------

    @tool(risk="execute", effect="once", reads=_reads_everything, aim=programs.aim)
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
        if "\0" in command or not command.strip():
            raise ToolError(
                "This is no command.", code=errors.E_BAD_ARGS, hint="Give a command line."
            )
        folder = call.workspace.resolve(working_directory, must_exist=True)
        if not await trio.Path(folder).is_dir():
            raise ToolError(
                f"{working_directory!r} is not a folder.",
                code=errors.E_BAD_ARGS,
                hint="Name a folder.",
            )
        if background and self.full():
            raise ToolError(
                self._too_many(),
                code=errors.E_BUSY,
                hint="Stop one first; list_services lists them.",
            )
        service = Service(command, call.agent.name, _runs(call.agent), Spool(self.settings.spool))
        if not background:
            service.kept = {name: Kept(self.settings.output_limit) for name in ("stdout", "stderr")}
            service.show = call.emit
        env = ENVIRONMENT | (IN_BACKGROUND if background else {})
        opened = call.processes.open(
            [*_shell(), command], cwd=folder, env=env, stdin=background, merge=background, hold=True
        )
        try:
            await self.start(service, opened)
            return await (
                self._first_look(service, timeout) if background else self._wait(service, timeout)
            )
        finally:
            if not service.id:  # it ends with the call, however that ends
                with trio.CancelScope(shield=True):
                    await service.stop("the call was stopped", GRACE)
                self.last = service, call.id

    async def _first_look(self, service: Service, timeout: float | None) -> Output:
        """Create a service of a command that has just started, and tell if it ends at once."""
        limit = self._limit(timeout) if timeout else None
        self.adopt(service, limit)
        with trio.move_on_after(FIRST_LOOK):
            await service.over.wait()
        until = "until it is stopped" if limit is None else f"for {limit:g} s at most"
        said = (
            f"The command runs in the background as {service.id}, {until}. read_service gives its"
            " output and can wait for a pattern in it; stop_service ends it."
            f" {report.lifetime(beyond=self.settings.keep_services)}\n"
        )
        return report.read(
            service,
            service.agent,
            0,
            self.settings.output_limit,
            said="" if service.over.is_set() else said,
        )

    async def _wait(self, service: Service, timeout: float | None) -> Output:
        """Wait for a command in the foreground, and tell what came of it: its end, that it goes on,
        or was ended late.
        """
        limit = self._limit(timeout)
        may_move = timeout is None and self.settings.when_late == "background"
        if may_move and self.settings.quiet and not self.full():
            quiet = self.settings.quiet
        else:
            quiet = inf
        while not service.exited.is_set():
            due = min(service.began + limit, service.heard + quiet)
            if trio.current_time() >= due:
                break
            with trio.move_on_at(due):
                await service.exited.wait()
        if service.remains and not service.over.is_set() and service.failure is None:
            return await self._keep(service)
        moves = may_move and not service.over.is_set() and not self.full()
        is_late = not service.over.is_set() and not moves
        if is_late:
            await service.stop("it took too long", GRACE)
        if service.failure is not None:
            raise service.failure
        assert service.kept is not None
        text, left_out = report.written(service.kept, self.settings.output_limit)
        seconds = trio.current_time() - service.began
        data: dict[str, Any] = {
            "left_out": left_out,
            "seconds": round(seconds, 3),
            "exit_code": None,
        }
        if moves:
            rest = round(max(self.settings.max_timeout - seconds, 0))
            self.adopt(service, rest)
            service.cursors[service.agent] = service.spool.end
            return Output(
                report.moved(service, seconds, rest, text), data={**data, "service": service.id}
            )
        if is_late:
            text = report.late(limit, self.settings.max_timeout, text)
            return Output(
                f"{self._too_many()} {text}" if may_move else text, data=data, code=errors.E_TIMEOUT
            )
        return report.finished(
            service, text, data, programs.is_answer(service.command, service.code or 0)
        )

    async def _keep(self, service: Service) -> Output:
        """Create a service of what a command left running; end it where there are too many.

        Tell either.
        """
        assert service.kept is not None
        note = report.LEFT
        if self.full():
            await service.stop("there were too many services", GRACE)
            note = f"{note}\n{self._too_many()}"
        text, left_out = report.written(service.kept, self.settings.output_limit)
        data: dict[str, Any] = {"left_out": left_out}
        if not service.over.is_set():
            self.adopt(service, None)
            service.cursors[service.agent] = service.spool.end
            data["service"] = service.id
            note = report.kept(service, beyond=self.settings.keep_services)
        return report.finished(
            service, text, data, programs.is_answer(service.command, service.code or 0), note
        )

    def _limit(self, timeout: float | None) -> float:
        return min(
            timeout if timeout and timeout > 0 else self.settings.timeout, self.settings.max_timeout
        )

    def _patience(self, timeout: float | None, otherwise: float) -> float:
        return max(0.0, min(otherwise if timeout is None else timeout, self.settings.max_timeout))

    def _too_many(self) -> str:
        return (
            f"{self.settings.services} commands are in the background already, and more are not"
            " allowed."
        )

    # --- services ---------------------------------------------------------------------------------

    @tool(risk="read", effect="pure")
    def list_services(self, call: Call) -> Output:
        """List the services: id, command line, state, size of their output."""
        lines = []
        listed = []
        for service in self.all():
            lines.append(
                f"{service.title}: {service.describe()}; {service.spool.end:,} bytes of output"
            )
            state = {"state": service.state, "exit_code": service.code}
            listed.append({"id": service.id, "command": service.command, **state})
            if service.state == "running":
                service.knowing.add(call.agent.name)
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
        """Read what a service has printed since you last read it, and its state.

        Args:
            service: Its id, such as s1.
            wait_for: Regular expression to wait for in a line of its output, such as "listening
                on".
            timeout: Seconds to wait: for the pattern (30 by default), or without one for its end.
            offset: Read from this byte of its output instead.
        """
        found = self.find(service, call.agent.name)
        agent = call.agent.name
        said = ""
        if wait_for:
            since = found.searched.get(agent, 0) if offset is None else offset
            said = await _wait_for(
                found, Finder(wait_for, found.spool, since), self._patience(timeout, PATIENCE)
            )
        elif not found.over.is_set():
            with trio.move_on_after(self._patience(timeout, 0)):
                await found.over.wait()
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
        """Type into a service and read what it prints in return.

        Args:
            service: Its id, such as s1.
            text: What to type.
            enter: End it with a line break.
            end_input: Close its input afterwards.
            wait_for: Regular expression to wait for, such as a prompt.
            timeout: Seconds to wait: for the pattern (30 by default), or until it pauses (5).
        """
        found = self.find(service, call.agent.name)
        agent = call.agent.name
        if not found.takes_input:
            if found.over.is_set():
                hint = "It has ended."
            else:
                hint = "Only what was started with background=true has input."
            raise ToolError(f"{service} takes no input.", code=errors.E_BAD_ARGS, hint=hint)
        printed = found.spool.end
        finder = Finder(wait_for, found.spool, printed) if wait_for else None
        patience = self._patience(timeout, PATIENCE if wait_for else 5.0)
        try:
            with trio.move_on_after(max(patience, 1.0)) as writing:
                await found.write((text + "\n" * enter).encode(errors="replace"), end_input)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise ToolError(
                f"{service} reads no more input.", hint="Read what it printed."
            ) from None
        if writing.cancelled_caught:
            said = "It has not read all of this yet; what it did not read is lost.\n"
        else:
            said = ""
        if finder is not None:
            said += await _wait_for(found, finder, patience)
        elif not said:
            await _wait_for_pause(found, printed, patience)
        return self._read(found, agent, said)

    @tool(risk="execute", effect="idempotent", queues=SERVICE)
    async def stop_service(self, call: Call, service: str) -> Output:
        """Stop a service with all its child processes, and read the last of its output.

        Args:
            service: Its id, such as s1.
        """
        found = self.find(service, call.agent.name)
        agent = call.agent.name
        await found.stop("it was asked to stop", FAREWELL)
        return self._read(found, agent)

    def _read(
        self, service: Service, agent: str, said: str = "", offset: int | None = None
    ) -> Output:
        """Return what is new to an agent, or a page from an offset on."""
        start = service.cursors.get(agent, 0) if offset is None else offset
        output = report.read(
            service, agent, start, self.settings.output_limit, paged=offset is not None, said=said
        )
        service.searched[agent] = service.cursors[agent]
        return output


async def _wait_for(service: Service, finder: Finder, seconds: float) -> str:
    """Wait for a pattern; say what came of it."""
    with trio.move_on_after(max(seconds, 1.0)):  # what is there already is searched in any case
        while True:
            over = service.over.is_set()
            line, more = finder.step()
            if line:
                return f"Found: {line}\n"
            if over and not more:
                return "It ended without printing the pattern.\n"
            if more:
                await trio.lowlevel.checkpoint()
            else:
                await service.news()
    return f"The pattern did not come within {seconds:g} s.\n"


async def _wait_for_pause(service: Service, printed: int, seconds: float) -> None:
    """Wait until a service has printed something more and then paused, or ended."""
    with trio.move_on_after(seconds):
        while service.spool.end == printed and not service.over.is_set():
            await service.news()
        silent = False
        while not silent and not service.over.is_set():
            with trio.move_on_after(PAUSE) as pause:
                await service.news()
            silent = pause.cancelled_caught


def _runs(agent: Agent) -> frozenset[str]:
    """Return the ids of the runs that a call belongs to: its agent's, and those of the agents
    above.
    """
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
    """Find the shell: the arguments before the command line."""
    if sys.platform == "win32":
        return (
            shutil.which("pwsh") or "powershell",
            "-NoLogo",
            "-NoProfile",
            "-NonInteractive",
            "-Command",
        )
    return (shutil.which("bash") or "sh", "-c", "--")
