"""The commands of a session that are in the background: found, counted, told of, and ended with
what they belong to.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, suppress
from typing import TYPE_CHECKING, NamedTuple

import attrs
import trio
from hilum import Agent, Block, Process, StoreError, ToolError, errors, events, hookimpl

from hilum_shell.output import Spool, clean
from hilum_shell.service import Service
from hilum_shell.settings import ShellSettings

if TYPE_CHECKING:
    from hilum import Session

GRACE = 0.15
"""Seconds between SIGTERM and SIGKILL when a run was stopped: that must be quick."""
ENDED = 20
"""How many services that have ended can still be read."""
STARTED = "shell.service_started"
OVER = "shell.service_ended"


class Printed(NamedTuple):
    """The end of what a command has printed.

    Attributes:
        title: The command, short and on one line.
        state: ``running``, ``exited`` or ``stopped``.
        text: Its output, without escapes.
        heard: When it printed last, on trio's clock.
        call: Id of the call whose result has this output, too; empty for a service.
    """

    title: str
    state: str
    text: str
    heard: float
    call: str = ""


def _end(data: bytes, limit: int) -> str:
    """Return the last characters of an output."""
    return clean(data.decode(errors="replace")).strip("\n")[-limit:]


@attrs.define(eq=False)
class Services:
    """The services of a session, and the hooks that tell agents of them.

    What they say is the services' state and never their output: that is data, and comes as a tool's
    result only.

    Args:
        session: The session.
        nursery: Owns the tasks, and ends with the session.
        settings: The settings.
    """

    session: Session
    nursery: trio.Nursery
    settings: ShellSettings
    last: tuple[Service, str] | None = attrs.field(default=None, init=False)
    """The last command that ended in the foreground, and the id of its call."""
    _all: dict[str, Service] = attrs.Factory(dict)
    _count: int = 0
    _remembered: bool = False
    _watching: bool = False

    # --- one command ------------------------------------------------------------------------------

    async def start(self, service: Service, opened: AbstractAsyncContextManager[Process]) -> None:
        """Start a command in a task of the session's.

        Raises:
            ToolError: It could not be started, or was refused.
        """
        await self.nursery.start(service.live, opened, name=f"command {service.command[:40]}")

    def full(self) -> bool:
        """Return whether no more may go to the background."""
        return sum(1 for _ in self.running()) >= self.settings.services

    def running(self) -> Iterator[Service]:
        """Return those that run."""
        return (service for service in self._all.values() if service.state == "running")

    def all(self) -> list[Service]:
        """Return all that can be read, oldest first."""
        self._remember()
        return list(self._all.values())

    def adopt(self, service: Service, limit: float | None) -> None:
        """Make a running command a service: it gets its name, and goes on when its call is over.

        Args:
            service: The command.
            limit: Seconds from now after which it is ended.

        Raises:
            StoreError: This could not be written down; the command still belongs to its call.
        """
        self._remember()
        self._count += 1
        name = f"s{self._count}"
        self.session.note(STARTED, id=name, command=service.command, agent=service.agent)
        service.id = name
        service.kept = None
        service.show = None
        service.knowing.add(service.agent)
        self._all[name] = service
        self.nursery.start_soon(self._see_off, service, limit)
        if not self._watching:
            self._watching = True
            self.nursery.start_soon(self._watch_runs, self.session.journal.last)
        gone = [other for other in self._all.values() if other.over.is_set()]
        for other in gone[: max(len(gone) - ENDED, 0)]:
            del self._all[other.id]

    def find(self, name: str, agent: str) -> Service:
        """Return a service by its id, to an agent that is told of its end from now on.

        Raises:
            ToolError: There is none of that id.
        """
        self._remember()
        if name not in self._all:
            error = errors.unknown(
                "service", name, self._all, hint="" if self._all else "None was started."
            )
            raise ToolError(error.message, code=errors.E_UNKNOWN, hint=error.hint)
        if self._all[name].state == "running":
            self._all[name].knowing.add(agent)
        return self._all[name]

    def printed(self, agent: str, limit: int) -> list[Printed]:
        """Return the ends of what commands have printed: of services what an agent has not read,
        and of the last other command.

        Args:
            agent: Name of the agent.
            limit: Most characters of each.

        Returns:
            Those that printed something; the one that printed last is the last. An agent's reading
            goes on where it was.
        """
        found = []
        for service in self._all.values():
            new = max(
                service.cursors.get(agent, 0), service.spool.end - 4 * limit
            )  # a character has up to four bytes
            text = _end(service.spool.read(new), limit)
            if text:
                found.append(Printed(service.title, service.state, text, service.heard))
        if self.last and (
            text := _end(self.last[0].spool.read(self.last[0].spool.end - 4 * limit), limit)
        ):
            service, call = self.last
            found.append(
                Printed(
                    " ".join(service.command.split())[:80], service.state, text, service.heard, call
                )
            )
        return sorted(found, key=lambda each: each.heard)

    async def _see_off(self, service: Service, limit: float | None) -> None:
        """Wait for a service's end, and bring it about when its time is over.

        Then write it down.
        """
        with trio.move_on_after(float("inf") if limit is None else limit):
            await service.over.wait()
        service.late = not service.over.is_set()
        await service.stop(
            f"it had run for {trio.current_time() - service.began:.0f} s, its time limit", GRACE
        )
        with suppress(
            StoreError
        ):  # the session can take no more: it has other troubles, and the service is over
            self.session.note(
                OVER, id=service.id, state=service.state, code=service.code, reason=service.reason
            )

    async def _watch_runs(self, after: int) -> None:
        """End what a run started when that run is stopped."""
        async for event in self.session.events(after):
            stop = isinstance(event, events.StopAsked)
            late = isinstance(event, events.RunEnded) and event.state in ("stopped", "timed_out")
            for service in list(self.running()) if stop or late else ():
                if event.run in service.runs:
                    self.nursery.start_soon(
                        service.stop, "the run that started it was stopped", GRACE
                    )

    def _remember(self) -> None:
        """Read in the log which services there were when this session was last open.

        Done once, when it first matters.
        """
        if self._remembered:
            return
        self._remembered = True
        after = 0
        while page := self.session.journal.since(after):
            after = page[-1].seq
            for event in page:
                if isinstance(event, events.PluginEvent) and event.name == STARTED:
                    data = event.data
                    self._count = self._count + 1
                    lost = Service(
                        data["command"],
                        data["agent"],
                        frozenset(),
                        Spool(0),
                        id=data["id"],
                        state="lost",
                    )
                    lost.knowing.add(data["agent"])
                    lost.over.set()
                    self._all[lost.id] = lost
                elif isinstance(event, events.PluginEvent) and event.name == OVER:
                    self._all.pop(event.data["id"], None)

    # --- what agents are told ---------------------------------------------------------------------

    @hookimpl
    def gather_context(self, agent: Agent) -> Block | None:
        """List what runs, and what has ended since this agent was last told."""
        lines = [*self._news(agent.name)]
        for service in self.running():
            service.knowing.add(agent.name)
            lines.append(f"{service.title}: {service.describe()}")
        if lines:
            return Block("services", "\n".join(lines), priority=5)
        return None

    @hookimpl
    def remind(self, agent: Agent) -> str | None:
        """Tell of services that have ended without this agent's doing."""
        lines = [*self._news(agent.name)]
        if not lines:
            return None
        return "\n".join(
            ["Background commands have ended; read_service gives what they printed.", *lines]
        )

    def _news(self, agent: str) -> Iterator[str]:
        self._remember()
        for service in self._all.values():
            if service.over.is_set() and agent in service.knowing:
                service.knowing.discard(agent)
                if service.state == "lost":
                    self.session.note(
                        OVER, id=service.id, state="lost", code=None, reason="hilum ended"
                    )
                yield f"{service.title}: {service.describe()}."
