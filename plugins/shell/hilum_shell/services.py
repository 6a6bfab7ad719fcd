"""Manages a session's services, which are commands that run in the background.

Agents can list services and are notified when a service ends. A service ends with the run or
session to which it belongs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, suppress
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import attrs
import trio
from hilum import Agent, Block, Process, StoreError, ToolError, errors, events, hookimpl

from hilum_shell.output import Spool, strip_escapes
from hilum_shell.service import MAX_TITLE, Service
from hilum_shell.settings import ShellSettings

if TYPE_CHECKING:
    from hilum import Session

GRACE_SECONDS = 0.15
"""Seconds between SIGTERM and SIGKILL when a run is stopped, which must be quick."""
MAX_ENDED = 20
"""Maximum number of ended services that can still be read."""
STARTED = "shell.service_started"
OVER = "shell.service_ended"
OUTPUT_KEPT = "shell.output_kept"


class PrintedOutput(NamedTuple):
    """The last part of a command's output.

    Attributes:
        title: The command line, shortened to one line.
        state: ``running``, ``exited`` or ``stopped``.
        text: The output without terminal escapes.
        heard: Time of the last output, on trio's clock.
        call: Id of the call whose result contains the output; empty for a service.
    """

    title: str
    state: str
    text: str
    heard: float
    call: str = ""


def _read_end(service: Service, limit: int, start: int = 0) -> str:
    """Return the last characters of a command's output, starting at an offset or later."""
    # A character takes up to four bytes.
    data = service.spool.read(max(start, service.spool.end - 4 * limit))
    return strip_escapes(data.decode(errors="replace")).strip("\n")[-limit:]


@attrs.define(eq=False)
class Services:
    """The services of a session, and the hooks that report them to agents.

    The hooks report the state of services but never their output: output is data, and only tool
    results contain it.

    Args:
        session: The session.
        nursery: The nursery for the tasks, which end with the session.
        settings: The settings.
    """

    session: Session
    nursery: trio.Nursery
    settings: ShellSettings
    last: tuple[Service, str] | None = attrs.field(default=None, init=False)
    """The last command that ended in the foreground, and the id of its call."""
    _all: dict[str, Service] = attrs.Factory(dict)
    # The commands in the foreground, for which a call waits.
    _waiting: list[Service] = attrs.Factory(list)
    _count: int = 0
    _has_read_earlier: bool = False
    _watching: bool = False

    # --- one command ------------------------------------------------------------------------------

    async def start(self, service: Service, opened: AbstractAsyncContextManager[Process]) -> None:
        """Start a command in a task of the session.

        Raises:
            ToolError: The command could not be started, or was rejected.
        """
        await self.nursery.start(service.run, opened, name=f"command {service.command[:40]}")

    @property
    def keep_running(self) -> bool:
        """Whether services continue after the last run, until the user ends them."""
        return self.settings.keep_services

    def full(self) -> bool:
        """Return whether the maximum number of services is running or about to be one."""
        moving = sum(service.move_requested.is_set() for service in self._waiting)
        return len(list(self.running())) + moving >= self.settings.services

    def too_many(self) -> str:
        """Return a sentence which says that the maximum number of services is running."""
        return (
            f"{self.settings.services} commands are already in the background, and no more are"
            " allowed."
        )

    def move_waiting(self) -> int:
        """Move the commands that calls are waiting for to the background.

        Returns:
            The number of commands that are moved, the oldest first if there is not room for all.

        Raises:
            ToolError: Too many commands are already in the background.
        """
        moved = 0
        for service in self._waiting:
            if service.move_requested.is_set() or service.exited.is_set():
                continue
            if not self.full():
                service.request_move()
                moved += 1
            elif not moved:
                raise ToolError(
                    self.too_many(), code=errors.E_BUSY, hint="Stop one first: /stop lists them."
                )
        return moved

    def running(self) -> Iterator[Service]:
        """Yield the running services."""
        return (service for service in self._all.values() if service.state == "running")

    def all(self) -> list[Service]:
        """Return all services that can be read, oldest first."""
        self._read_earlier()
        return list(self._all.values())

    def adopt(self, service: Service, limit: float | None) -> None:
        """Turn a running command into a service, which gets an id and outlives the call.

        Args:
            service: The command.
            limit: Seconds from now after which the service is ended.

        Raises:
            StoreError: The event could not be logged; the command still belongs to its call.
        """
        self._register(service, STARTED)
        # The spool contains all output; the head and the tail are needed only for a result.
        service.buffers = None
        service.show = None
        service.informed.add(service.agent)
        self.nursery.start_soon(self._await_end, service, limit)
        if not self._watching:
            self._watching = True
            self.nursery.start_soon(self._watch_runs, self.session.journal.last)

    def keep_output(self, service: Service) -> None:
        """Keep the output of a command that ended in the foreground, so that it can be read later.

        If the event cannot be logged, the command gets no id.
        """
        with suppress(StoreError):
            self._register(service, OUTPUT_KEPT)
            service.cursors[service.agent] = service.spool.end
            service.failure_reported.add(service.agent)

    def _register(self, service: Service, event: str) -> None:
        """Assign the next id to a command, log it, and forget the oldest ended services.

        Raises:
            StoreError: The event could not be logged.
        """
        self._read_earlier()
        # The count continues from the services of earlier processes, whose ids the conversation may
        # still mention.
        self._count += 1
        name = f"s{self._count}"
        self.session.note(event, id=name, command=service.command, agent=service.agent)
        service.id = name
        self._all[name] = service
        gone = [other for other in self._all.values() if other.ended.is_set()]
        # Ended services keep their output in memory.
        for other in gone[: max(len(gone) - MAX_ENDED, 0)]:
            del self._all[other.id]

    def find(self, name: str, agent: str) -> Service:
        """Return the service with an id, and have its end reported to the agent.

        Raises:
            ToolError: There is no such service.
        """
        self._read_earlier()
        service = self._all.get(name)
        if service is None:
            hint = "" if self._all else "No service was started."
            error = errors.unknown_name_error("service", name, self._all, hint=hint)
            raise ToolError(error.message, code=errors.E_UNKNOWN, hint=error.hint)
        if service.state == "running":
            service.informed.add(agent)
        return service

    def printed(self, agent: str, limit: int) -> list[PrintedOutput]:
        """Return unread output of services and of the last foreground command.

        Args:
            agent: Name of the agent.
            limit: Maximum number of characters from each output.

        Returns:
            The last part of each output, ordered by time. These outputs do not count as read.
        """
        found: list[PrintedOutput] = []
        for service in self._all.values():
            if service.buffers is None:  # foreground commands are left out here
                text = _read_end(service, limit, service.cursors.get(agent, 0))
                found.append(PrintedOutput(service.title, service.state, text, service.last_output))
        if self.last:
            service, call = self.last
            text = _read_end(service, limit)
            title = " ".join(service.command.split())[:MAX_TITLE]
            found.append(PrintedOutput(title, service.state, text, service.last_output, call))
        with_text = [output for output in found if output.text]
        return sorted(with_text, key=lambda output: output.heard)

    async def _await_end(self, service: Service, limit: float | None) -> None:
        """Wait for the end of a service, or end it after its time limit, and log the end."""
        with trio.move_on_after(inf if limit is None else limit):
            await service.ended.wait()
        service.late = not service.ended.is_set()
        seconds = trio.current_time() - service.began
        await service.stop(f"it had run for {seconds:.0f} s, its time limit", GRACE_SECONDS)
        # If the log cannot be written, the session reports the error. The service has ended in any
        # case.
        with suppress(StoreError):
            self.session.note(
                OVER, id=service.id, state=service.state, code=service.code, reason=service.reason
            )

    async def _watch_runs(self, after: int) -> None:
        """End the services of a run when the run is stopped."""
        async for event in self.session.events(after):
            if not _is_stop(event):
                continue
            for service in list(self.running()):
                if event.run in service.runs:
                    self.nursery.start_soon(
                        service.stop, "the run that started it was stopped", GRACE_SECONDS
                    )

    def _read_earlier(self) -> None:
        """Read the services that earlier processes of the session started from the log, once."""
        if self._has_read_earlier:
            return
        self._has_read_earlier = True
        after = 0
        while page := self.session.journal.since(after):
            after = page[-1].seq
            for event in page:
                if isinstance(event, events.PluginEvent):
                    self._replay(event)

    def _replay(self, event: events.PluginEvent) -> None:
        data = event.data
        if event.name in (STARTED, OUTPUT_KEPT):
            self._count += 1  # a service's id is never reused
        if event.name == STARTED:
            spool = Spool(0)
            lost = Service(
                data["command"], data["agent"], frozenset(), spool, id=data["id"], state="lost"
            )
            lost.informed.add(data["agent"])
            lost.ended.set()
            self._all[lost.id] = lost
        elif event.name == OVER:
            self._all.pop(data["id"], None)

    # --- reports to agents ---------------------------------------------------------------------

    @hookimpl
    def gather_context(self, agent: Agent) -> Block | None:
        """Return the services that are running or have ended since the last report to an agent."""
        lines = list(self._report_ended(agent.name))
        for service in self.running():
            service.informed.add(agent.name)
            lines.append(f"{service.title}: {service.describe()}")
        if lines:
            return Block("services", "\n".join(lines), priority=5)
        return None

    @hookimpl
    def remind(self, agent: Agent) -> str | None:
        """Return a note about services that ended although this agent did not end them."""
        lines = list(self._report_ended(agent.name))
        if not lines:
            return None
        return "\n".join(
            ["Background commands have ended; read_service returns their output.", *lines]
        )

    def _report_ended(self, agent: str) -> Iterator[str]:
        """Yield each service that has ended since the last report to an agent."""
        self._read_earlier()
        for service in self._all.values():
            if service.ended.is_set() and agent in service.informed:
                service.informed.discard(agent)
                if service.state == "lost":
                    self.session.note(
                        OVER, id=service.id, state="lost", code=None, reason="hilum ended"
                    )
                yield f"{service.title}: {service.describe()}."


def _is_stop(event: events.AnyEvent | events.Delta) -> bool:
    """Return whether an event reports that a run was stopped."""
    if isinstance(event, events.StopAsked):
        return True
    return isinstance(event, events.RunEnded) and event.state in ("stopped", "timed_out")
