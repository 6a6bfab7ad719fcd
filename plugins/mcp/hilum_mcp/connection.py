"""One server of a session: a supervised task that starts it, keeps it, and starts it again when it
falls.

::

    idle ──► starting ──► up ──► down ──(back-off)──► starting …
                 └───────────────┘

Whatever the SDK does when a server dies (it may cancel whoever stands in its block, and raise
groups of errors) stays in this task. Who wants something of the server hands in a job; the job runs
in the server's task and can be cancelled from outside.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import attrs
import trio
from hilum import HilumError, NeedsUser, ToolError, errors

from hilum_mcp.errors import LESS, NeedsLogin, reason_of, single, too_large
from hilum_mcp.stdio import Line

if TYPE_CHECKING:
    from mcp import Client

T = TypeVar("T")
State = Literal["idle", "starting", "up", "down"]
Connect = Callable[[Line], AbstractAsyncContextManager["Client"]]

FIRST_DELAY = 0.5
LONGEST_DELAY = 60.0
MOST_STARTS = 5
"""Starts in a row that fail, before it is left alone until somebody calls it."""

STEADY = 60.0
"""Seconds that a server must have been up for its earlier falls to be forgotten."""

PATIENT = 3.0
"""Seconds that a call waits for a server that will be started again."""

REASON = 1.5
"""Seconds to learn why a connection ended."""

TOGETHER = 0.1
"""Seconds within which the calls that are refused for one reason all learn it."""

GOODBYE = 1.0
"""Seconds to tell a server that a call was cancelled."""


@attrs.define(eq=False)
class Connection:
    """The connection to one server.

    Args:
        name: What the server is called.
        connect: Connects: its block is the life of the connection.
        start_seconds: How long a start may take.
        changed: Called after each change of ``state``.
        served: Runs beside the jobs while the server is up; what it raises ends the connection.

    Attributes:
        state: How it is.
        error: Why it is down, one sentence.
        login: Why the user has to log in first; empty where that is not so.
        starts: How often it was started.
    """

    name: str
    connect: Connect
    start_seconds: float
    changed: Callable[[Connection], None] = lambda _: None
    served: Callable[[Connection, Client], Awaitable[None]] | None = None
    state: State = "idle"
    error: str = ""
    login: str = ""
    starts: int = 0
    _failed: int = 0
    _next: float = 0.0
    _renew: bool = False
    _hopeless: bool = False
    _client: Client | None = None
    _nursery: trio.Nursery | None = None
    _line: Line = attrs.Factory(Line)
    _wanted: trio.Event = attrs.Factory(trio.Event)
    _news: trio.Event = attrs.Factory(trio.Event)

    # --- the task ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """Start the server when it is wanted, and again when it falls, until cancelled."""
        while True:
            await self._wanted.wait()
            await trio.sleep_until(self._next)
            began = trio.current_time()
            await self._live()
            if self._renew:
                self._renew = False
                continue
            up = trio.current_time() - began if self.state == "up" else 0.0
            self._failed = 1 if up >= STEADY else self._failed + 1
            delay = min(FIRST_DELAY * 4 ** (self._failed - 1), LONGEST_DELAY)
            self._next = trio.current_time() + delay
            if self._failed >= MOST_STARTS or self.login or self._hopeless:
                self._wanted = trio.Event()
            self._set("down")

    async def _live(self) -> None:
        """Start it and keep it until it falls."""
        line = self._line = Line()
        self.starts += 1
        self.login = ""
        self._hopeless = False
        self._set("starting")
        failure: BaseException | None = None
        try:
            with trio.move_on_after(self.start_seconds) as patience:
                async with self.connect(line) as client, trio.open_nursery() as nursery:
                    patience.deadline = math.inf
                    self._client = client
                    self._nursery = nursery
                    self.error = ""
                    if self.served is not None:
                        nursery.start_soon(self._serve, client, line)
                    self._set("up")
                    await line.lost.wait()
                    nursery.cancel_scope.cancel()
        except* Exception as group:  # whatever a server can make the SDK raise
            failure = single(group)
        finally:
            self._client = self._nursery = None
        self._hopeless = isinstance(
            failure, HilumError
        )  # a program or a value is missing: trying again does not bring it
        self.login = str(failure) if isinstance(failure, NeedsLogin) else line.login
        if patience.cancelled_caught:
            why = f"It did not start within {self.start_seconds:g} seconds."
            self.error = f"{why} {line.why}".strip()
        else:
            self.error = line.why or (
                reason_of(failure) if failure is not None else "The connection ended."
            )

    async def _serve(self, client: Client, line: Line) -> None:
        assert self.served is not None
        try:
            await self.served(self, client)
        except Exception as error:
            line.lose(reason_of(error))

    def _set(self, state: State) -> None:
        self.state = state
        news = self._news
        self._news = trio.Event()
        news.set()
        self.changed(self)

    # --- for others -------------------------------------------------------------------------------

    @property
    def refused(self) -> str:
        """What a server that is reached by HTTP refused last, a sentence."""
        return self._line.refused

    def want(self) -> None:
        """Have it started, unless it is."""
        self._wanted.set()

    async def settled(self) -> None:
        """Wait until it is up or down."""
        while self.state in ("idle", "starting"):
            await self._news.wait()

    async def use(self, job: Callable[[Client], Awaitable[T]]) -> T:
        """Run a job with the server's client, starting the server if need be.

        Cancelling this cancels the job, and the server is told.

        Raises:
            ToolError: ``E_SERVER``: the server does not run, or died meanwhile.
            Exception: What the job raises.
        """
        try:
            return await self._use(job)
        except _Forgotten as forgotten:  # what was refused had no effect
            await trio.sleep(TOGETHER)
            if not forgotten.line.lost.is_set():
                self._renew = True
                forgotten.line.lose("It has forgotten the session.")
        return await self._use(job, last=True)

    async def _use(self, job: Callable[[Client], Awaitable[T]], last: bool = False) -> T:
        await self._ready()
        client = self._client
        nursery = self._nursery
        line = self._line
        assert client is not None
        assert nursery is not None
        task = _Job(job)
        try:
            nursery.start_soon(task.run, client, name=f"mcp {self.name}")
        except RuntimeError:  # it is just falling
            task.done.set()
        try:
            await task.done.wait()
        except trio.Cancelled:
            task.scope.cancel()
            with trio.move_on_after(GOODBYE, shield=True):
                await task.done.wait()
            raise
        if task.finished:
            return task.value  # type: ignore[no-any-return]
        if line.forgotten and task.error is not None and not last:
            raise _Forgotten(line)
        if task.error is None or (_closed(task.error) and not too_large(str(task.error))):
            with trio.move_on_after(REASON):  # it may come a moment later than the end
                await line.lost.wait()
        if task.error is not None and not line.lost.is_set():
            raise task.error
        line.lose("The connection broke.")
        raise self._down("died during the call", line.why)

    async def _ready(self) -> None:
        self._wanted.set()
        while self.state != "up" or self._client is None or self._line.lost.is_set():
            given_up = self.login or not self._wanted.is_set()
            if self.state == "down" and (given_up or self._next - trio.current_time() > PATIENT):
                raise self._down("is down", self.error)
            await self._news.wait()

    def _down(self, what: str, why: str) -> ToolError:
        message = f"The MCP server {self.name} {what}. {why}".strip()
        if self.login or self._line.login:
            return NeedsUser(
                message,
                code=errors.E_SERVER,
                hint=f"The user can log in: hilum mcp login {self.name}",
            )
        if too_large(why):
            return ToolError(message, code=errors.E_TOO_LARGE, hint=LESS)
        wait = max(math.ceil(self._next - trio.current_time()), 1)
        if self._wanted.is_set():
            again = f"It is started again in {wait} s: try"
        else:
            again = f"Try again in {wait} s"
        hint = (
            f"{again} once more if it is safe to repeat, or do without. hilum mcp logs {self.name}"
            " shows what it said."
        )
        return ToolError(message, code=errors.E_SERVER, hint=hint)


class _Forgotten(Exception):
    """The server has forgotten the session, as after a restart: a new one is begun."""

    def __init__(self, line: Line) -> None:
        self.line = line


class _Job:
    """Something that runs in the server's task for somebody else."""

    def __init__(self, job: Callable[[Client], Awaitable[Any]]) -> None:
        self.job = job
        self.scope = trio.CancelScope()
        self.done = trio.Event()
        self.value: Any = None
        self.error: Exception | None = None
        self.finished = False

    async def run(self, client: Client) -> None:
        try:
            with self.scope:
                self.value = await self.job(client)
                self.finished = True
        except Exception as error:
            self.error = single(error)  # type: ignore[assignment]
        finally:
            self.done.set()


def _closed(error: Exception) -> bool:
    """Return whether an error may say that the connection is no more.

    Servers use the number for errors of their own, too.
    """
    code = getattr(getattr(error, "error", None), "code", None)
    return code == -32000 or isinstance(error, trio.ClosedResourceError | trio.BrokenResourceError)
