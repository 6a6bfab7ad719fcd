"""Manages the connection to a server in a task that starts and restarts the server.

::

    idle ──► starting ──► up ──► down ──(back-off)──► starting …
                 └───────────────┘

When a server dies, the SDK may cancel the task that is in the SDK's context manager, and may raise
exception groups. Such cancellations and exceptions stay within the server's task. Other tasks
submit jobs, which run in the server's task and can be cancelled from outside.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar

import attrs
import trio
from hilum import HilumError, NeedsUser, ToolError, errors
from hilum.hooks import find_first_error

from hilum_mcp.errors import (
    ASK_FOR_LESS,
    LoginRequiredError,
    describe_error,
    is_too_large,
)
from hilum_mcp.transport_state import TransportState

if TYPE_CHECKING:
    from mcp import Client

T = TypeVar("T")
State = Literal["idle", "starting", "up", "down"]
Connect = Callable[[TransportState], AbstractAsyncContextManager["Client"]]

FIRST_DELAY = 0.5
MAX_DELAY = 60.0
# Number of consecutive failed starts after which the server stays down until it is called.
MAX_STARTS = 5

# Seconds of uptime after which earlier failures are forgotten.
STABLE_AFTER = 60.0

# Seconds that a call waits for a server that is about to restart.
RESTART_TIMEOUT = 3.0

# Maximum number of seconds to wait for the reason why a connection ended.
REASON_TIMEOUT = 1.5

# Maximum number of seconds to wait, before a forgotten session is replaced, for the refusals or the
# results of other calls in flight: a call whose connection is ended may have had an effect, so that
# it could not be repeated.
RENEW_TIMEOUT = 3.0

# Time limit, in seconds, for notifying a server that a call was cancelled.
CANCEL_TIMEOUT = 1.0

# The SDK's error code for a closed connection. Servers also use this code for their own errors.
CONNECTION_CLOSED = -32000


def _ignore(_: Connection) -> None:
    pass


@attrs.define(eq=False)
class Connection:
    """The connection to one server.

    Args:
        name: The server's name.
        connect: A function that returns a context manager; the connection lasts for its block.
        start_seconds: Time limit for a start, in seconds.
        changed: A function to call after each change of ``state``.
        served: A function that runs alongside the jobs while the server is up; an error in it ends
            the connection.
        prog: The command whose actions apply to the server, for hints.

    Attributes:
        state: The current state.
        error: Why the connection is down, in one sentence.
        login: Why the user must log in first; empty if no login is required.
        starts: The number of times the server was started.
    """

    name: str
    connect: Connect
    start_seconds: float
    changed: Callable[[Connection], None] = _ignore
    served: Callable[[Connection, Client], Awaitable[None]] | None = None
    prog: str = "hilum mcp"
    state: State = "idle"
    error: str = ""
    login: str = ""
    starts: int = 0
    _failures: int = 0
    _next_start: float = 0.0
    _renew: bool = False
    _cannot_start: bool = False
    _client: Client | None = None
    _nursery: trio.Nursery | None = None
    _transport: TransportState = attrs.Factory(TransportState)
    _wanted: trio.Event = attrs.Factory(trio.Event)
    _state_changed: trio.Event = attrs.Factory(trio.Event)

    # --- the task ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """Start the server when it is needed, and restart it when it fails, until cancelled."""
        while True:
            await self._wanted.wait()
            await trio.sleep_until(self._next_start)
            began = trio.current_time()
            await self._serve_once()
            # A server that has forgotten the session has not failed, so its restart is neither
            # counted nor delayed.
            if self._renew:
                self._renew = False
                continue
            was_stable = self.state == "up" and trio.current_time() - began >= STABLE_AFTER
            self._failures = 1 if was_stable else self._failures + 1
            delay = min(FIRST_DELAY * 4 ** (self._failures - 1), MAX_DELAY)
            self._next_start = trio.current_time() + delay
            # Another attempt would not help: the user must log in or correct the configuration
            # first.
            if self._failures >= MAX_STARTS or self.login or self._cannot_start:
                self._wanted = trio.Event()
            # The state is set last, because setting it wakes up callers, which read the fields set
            # above.
            self._set_state("down")

    async def _serve_once(self) -> None:
        """Start the server and keep it running until it fails."""
        transport = self._transport = TransportState()
        self.starts += 1
        self.login = ""
        self._cannot_start = False
        self._set_state("starting")
        failure: BaseException | None = None
        try:
            with trio.move_on_after(self.start_seconds) as time_limit:
                async with self.connect(transport) as client, trio.open_nursery() as nursery:
                    # The time limit applies only to the start.
                    time_limit.deadline = math.inf
                    self._client = client
                    self._nursery = nursery
                    self.error = ""
                    if self.served is not None:
                        nursery.start_soon(self._run_served, client, transport)
                    self._set_state("up")
                    await transport.lost.wait()
                    # The jobs in this nursery would wait for responses that cannot arrive.
                    nursery.cancel_scope.cancel()
        except* Exception as group:  # a server can make the SDK raise any exception
            failure = find_first_error(group)
        finally:
            # New jobs must wait for the next start instead of using a closed client.
            self._client = self._nursery = None
        self._note_failure(failure, is_late=time_limit.cancelled_caught)

    def _note_failure(self, failure: BaseException | None, *, is_late: bool) -> None:
        # A program or a value is missing, so another attempt cannot help.
        self._cannot_start = isinstance(failure, HilumError)
        self.login = self._transport.login_reason
        if isinstance(failure, LoginRequiredError):
            self.login = str(failure)
        reason = self._transport.reason
        if is_late:
            limit = f"The server did not start within {self.start_seconds:g} seconds."
            self.error = f"{limit} {reason}".strip()
        elif reason:
            self.error = reason
        else:
            self.error = describe_error(failure) if failure else "The connection ended."

    async def _run_served(self, client: Client, transport: TransportState) -> None:
        assert self.served is not None
        try:
            await self.served(self, client)
        except Exception as error:
            transport.fail(describe_error(error))

    def _set_state(self, state: State) -> None:
        self.state = state
        changed = self._state_changed
        self._state_changed = trio.Event()
        changed.set()
        self.changed(self)

    # --- for other tasks --------------------------------------------------------------------------

    @property
    def refusal(self) -> str:
        """The last request that an HTTP server refused, in one sentence."""
        return self._transport.refusal

    def request_start(self) -> None:
        """Start the server unless it is running."""
        self._wanted.set()

    async def wait_settled(self) -> None:
        """Wait until the server is up or down."""
        while self.state in ("idle", "starting"):
            await self._state_changed.wait()

    async def run_job(self, job: Callable[[Client], Awaitable[T]]) -> T:
        """Run a job with the server's client, starting the server first if needed.

        Cancelling this call cancels the job and notifies the server.

        Raises:
            ToolError: ``E_SERVER`` if the server is down or died during the job.
            Exception: The error raised by the job.
        """
        try:
            return await self._run_job(job)
        except _SessionExpiredError as expired:  # a refused job had no effect
            with trio.move_on_after(RENEW_TIMEOUT):
                await expired.transport.wait_for_jobs()
            # If several calls are refused, only the first ends the connection.
            if not expired.transport.lost.is_set():
                self._renew = True
                expired.transport.fail("The server has forgotten the session.")
        return await self._run_job(job, may_renew=False)

    async def _run_job(self, job: Callable[[Client], Awaitable[T]], *, may_renew: bool = True) -> T:
        await self._wait_ready()
        client = self._client
        nursery = self._nursery
        transport = self._transport
        assert client is not None
        assert nursery is not None
        task = _Job(job)
        try:
            nursery.start_soon(task.run, client, name=f"mcp {self.name}")
        except RuntimeError:  # the nursery is currently closing
            task.done.set()
        with transport.count_job():
            await task.wait()
        if task.is_finished:
            return task.value  # type: ignore[no-any-return]
        error = task.error
        if transport.session_expired and error is not None and may_renew:
            raise _SessionExpiredError(transport)
        await self._raise_failure(transport, error)

    async def _raise_failure(self, transport: TransportState, error: Exception | None) -> NoReturn:
        """Raise the error of a job, or the reason why the connection ended."""
        if error is None or (_may_be_closed(error) and not is_too_large(str(error))):
            with trio.move_on_after(
                REASON_TIMEOUT
            ):  # the reason may arrive after the end of the connection
                await transport.lost.wait()
        if error is not None and not transport.lost.is_set():
            raise error
        transport.fail("The connection broke.")
        raise self._make_error("died during the call", transport.reason)

    async def _wait_ready(self) -> None:
        self._wanted.set()
        while self.state != "up" or self._client is None or self._transport.lost.is_set():
            if self.state == "down" and not self._restarts_soon():
                raise self._make_error("is down", self.error)
            await self._state_changed.wait()

    def _restarts_soon(self) -> bool:
        if self.login or not self._wanted.is_set():
            return False
        return self._next_start - trio.current_time() <= RESTART_TIMEOUT

    def _make_error(self, what: str, reason: str) -> ToolError:
        message = f"The MCP server {self.name} {what}. {reason}".strip()
        if self.login or self._transport.login_reason:
            hint = f"The user can log in: {self.prog} login {self.name}"
            return NeedsUser(message, code=errors.E_SERVER, hint=hint)
        if is_too_large(reason):
            return ToolError(message, code=errors.E_TOO_LARGE, hint=ASK_FOR_LESS)
        wait = max(math.ceil(self._next_start - trio.current_time()), 1)
        retry = f"Try again in {wait} s"
        if self._wanted.is_set():
            retry = f"It restarts in {wait} s: try again then"
        hint = (
            f"{retry} if it is safe to repeat, or continue without it. {self.prog} logs {self.name} "
            "shows its output."
        )
        return ToolError(message, code=errors.E_SERVER, hint=hint)


class _SessionExpiredError(Exception):
    """The server has forgotten the session, as after a restart. A new session can begin."""

    def __init__(self, transport: TransportState) -> None:
        self.transport = transport


class _Job:
    """A job that another task has submitted to the server's task."""

    def __init__(self, job: Callable[[Client], Awaitable[Any]]) -> None:
        self.done = trio.Event()
        self.value: Any = None
        self.error: Exception | None = None
        self.is_finished = False
        self._job = job
        self._scope = trio.CancelScope()

    async def run(self, client: Client) -> None:
        try:
            with self._scope:
                self.value = await self._job(client)
                self.is_finished = True
        except Exception as error:
            self.error = find_first_error(error)  # type: ignore[assignment]
        finally:
            self.done.set()

    async def wait(self) -> None:
        """Wait until the job ends. On cancellation, cancel the job and wait briefly for its end."""
        try:
            await self.done.wait()
        except trio.Cancelled:
            self._scope.cancel()
            # The wait is shielded, because this task is already cancelled. Without the wait, the
            # server would keep running a call whose result nobody needs.
            with trio.move_on_after(CANCEL_TIMEOUT, shield=True):
                await self.done.wait()
            raise


def _may_be_closed(error: Exception) -> bool:
    """Return whether an error may mean that the connection is closed."""
    code = getattr(getattr(error, "error", None), "code", None)
    if code == CONNECTION_CLOSED:
        return True
    return isinstance(error, trio.ClosedResourceError | trio.BrokenResourceError)
