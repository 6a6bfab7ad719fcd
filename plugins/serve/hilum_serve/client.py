"""A client with which a program drives a remote hilum as it drives an embedded one.

::

    async with hilum_serve.client.connect("http://127.0.0.1:8722", token) as server:
        async with server.open_session("/home/me/project") as session:
            print((await session.run("Fix the failing test")).text)

Sessions have the methods of ``hilum.Session``. The client follows the session's event stream, and
reconnects automatically after a lost connection: no event is missed, and none arrives twice. A
change whose response was lost is sent again under the same id, and the server carries it out only
once.

``connect`` is for trio, ``connect_asyncio`` for asyncio, and ``connect_blocking`` for synchronous
programs.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, cast
from urllib.parse import quote

import httpx
import msgspec
import trio
from hilum import HilumError, Image, Mode, UsageError
from hilum import events as ev
from hilum.errors import (
    E_BAD_ARGS,
    E_INTERNAL,
    E_INTERRUPTED,
    E_UNREACHABLE,
    unknown_name_error,
)
from hilum.hooks import open_nursery
from hilum.hosts import aio, blocking
from hilum.store import SessionInfo
from hilum_view import Approval, SessionView

from hilum_serve.mirror import Mirror, MirrorReader
from hilum_serve.session_state import SessionState

REQUEST_SECONDS = 90.0
"""Seconds to wait for a response; the server itself waits up to 60 seconds for a run."""
SILENCE_SECONDS = 25.0
"""Seconds without anything on the event stream after which the client connects again."""
RETRY_SECONDS = 60.0
"""Seconds for which the client tries to reach a server that does not answer."""
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 3.0
CATCH_UP_SECONDS = 10.0
STOP_SECONDS = 30.0
"""Seconds to wait for the end of a run whose caller was cancelled."""
_LOST = (httpx.TransportError, httpx.StreamError)
_GONE = (400, 401, 403, 404, 421)
"""Statuses of an event stream after which connecting again is of no use."""
_POLICIES = ("ask_first", "auto", "readonly")


class RemoteRun:
    """A run in a remote session; see ``hilum.Run``.

    Attributes:
        id: Id of the run; empty for a command.
        agent: Name of the agent.
        session: The session.
        reply: The reply to a prompt that was a command; ``None`` if an agent works on it.
        after: Sequence number of the last event before the run's prompt.
        result: The event with which the run ended; ``None`` as long as it is not known.
    """

    def __init__(self, session: RemoteSession, data: Mapping[str, Any]) -> None:
        self.session = session
        self.id = str(data["run"])
        self.agent = str(data["agent"])
        self.reply: str | None = data["reply"]
        self.after = int(data["after"])
        self.result: ev.RunEnded | None = None
        if not self.id:
            self.result = ev.RunEnded(state="completed", text=self.reply or "")

    async def wait(self) -> ev.RunEnded:
        """Wait for the end of the run, and return its result.

        Raises:
            HilumError: The server refuses this client, or the session is gone.
        """
        if self.result is None:
            async for item in self.session.events(self.after):
                if isinstance(item, ev.RunEnded) and item.run == self.id:
                    self.result = item
                    break
        if self.result is None:
            text = "The connection was closed before the run ended."
            raise HilumError(text, code=E_INTERRUPTED)
        return self.result

    async def events(self, *, deltas: bool = False) -> AsyncIterator[ev.AnyEvent | ev.Delta]:
        """Yield the session's events from this run's prompt until the run has ended.

        Args:
            deltas: Whether to yield text and tool output while they arrive.
        """
        if not self.id:
            return
        async for item in self.session.events(self.after, deltas=deltas):
            yield item
            if isinstance(item, ev.RunEnded) and item.run == self.id:
                return

    def stop(self) -> None:
        """Stop the run, with everything that it started."""
        if self.result is None:
            self.session.stop(self.agent, run=self.id)


class RemoteJournal:
    """What is known about the log of a remote session."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror

    @property
    def last(self) -> int:
        """Sequence number of the last event that has arrived."""
        return self._mirror.last


class _Pending:
    """An operation that waits for its turn or its response."""

    def __init__(self) -> None:
        self.done = trio.Event()
        self.result: Any = None
        self.error: HilumError | None = None

    async def wait(self) -> Any:
        """Wait for the result.

        Raises:
            HilumError: The server refused the operation, or cannot be reached.
        """
        await self.done.wait()
        if self.error is not None:
            raise self.error
        return self.result


def _describe_prompt(
    text: str, agent: str, piped: bool, attached: str, images: Sequence[Image]
) -> dict[str, Any]:
    """Return the body of the request for a prompt."""
    return {
        "text": text,
        "agent": agent,
        "piped": piped,
        "attached": attached,
        "images": [{"media_type": each.media_type, "data": each.data} for each in images],
    }


class RemoteSession:
    """A session of a remote server; ``RemoteServer.open_session`` creates it.

    Methods that are not async only send the operation, in order with all others, and do not wait for
    the result. If the server refuses it, ``on_problem`` is called later, which by default keeps the
    error in ``problems``.

    Attributes:
        id: Id of the session.
        kernel: The server, which stands for the kernel.
        workspace: The folder of the session, on the machine of the server.
        modes: The modes by name.
        model: The model, as ``provider/name``.
        approve: The approval policy.
        journal: What is known about the log.
        problems: Errors of operations whose caller did not wait.
        on_problem: Function that is called with such an error.
    """

    def __init__(self, server: RemoteServer, state: SessionState, modes: Sequence[Mode]) -> None:
        self.id = state.id
        self.kernel = server
        self.workspace = state.workspace
        self.modes = {mode.name: mode for mode in modes}
        self.model = state.model
        self.approve = state.approve
        self.problems: list[HilumError] = []
        self.on_problem: Callable[[HilumError], None] = self.problems.append
        self._mode = state.mode
        self._mirror = Mirror()
        self.journal = RemoteJournal(self._mirror)
        self._outbox, self._operations = trio.open_memory_channel[Callable[[], Any]](1_000)
        self._path = f"/api/sessions/{quote(state.id, safe='')}"

    # --- following --------------------------------------------------------------------------------

    @property
    def view(self) -> SessionView:
        """The view of the session, which is kept up to date."""
        return self._mirror.view

    @property
    def mode(self) -> Mode:
        """The current mode."""
        return self.modes.get(self._mode) or Mode(self._mode)

    @property
    def grants(self) -> frozenset[str]:
        """The scopes and tool names that users approved for the rest of the session."""
        return frozenset(self._mirror.grants)

    def events(self, after: int = 0, *, deltas: bool = False) -> MirrorReader:
        """Read the session's events in order, from any point; see ``Session.events``."""
        return MirrorReader(self._mirror, after, deltas)

    async def _follow(self, last: int, task_status: trio.TaskStatus[None]) -> None:
        """Follow the event stream, and connect again when it ends."""
        is_started = False

        def handle(element: dict[str, Any]) -> bool:
            nonlocal is_started
            goes_on = self._apply(element)
            if not is_started and self._mirror.last >= last:
                is_started = True
                task_status.started()
            return goes_on

        pause = FIRST_PAUSE
        while not self._mirror.closed:
            before = self._mirror.last
            with suppress(*_LOST):
                await self.kernel.stream(self._path, self._mirror, handle)
            pause = FIRST_PAUSE if self._mirror.last > before else min(pause * 2, LONGEST_PAUSE)
            if not self._mirror.closed:
                await trio.sleep(pause)
        if not is_started:
            task_status.started()

    def _apply(self, element: dict[str, Any]) -> bool:
        """Apply an element of the stream; return false if the client must connect again."""
        kind = element.pop("type")
        if kind in ("hello", "beat"):
            return True
        if kind == "bye":
            if element.get("why") == "unshared":
                text = "The terminal no longer shares this session."
                hint = "Enter /share there, and connect to the address that it prints."
                self._mirror.close(HilumError(text, code=E_INTERRUPTED, hint=hint))
            return False
        if kind == "delta":
            self._mirror.add_delta(element)
            return True
        try:
            event = msgspec.convert({"type": kind, **element}, ev.AnyEvent)
        except msgspec.ValidationError as error:
            text = f"The server sent an event that this client does not know: {error}."
            hint = "Use the same version of hilum on both sides."
            self._mirror.close(HilumError(text, code=E_INTERNAL, hint=hint))
            return False
        if isinstance(event, ev.SessionChanged):
            self._mode = event.mode or self._mode
            self.model = event.model or self.model
            self.approve = event.approve or self.approve
        return self._mirror.add_event(event)

    async def _drain(self) -> None:
        """Wait until all operations so far have been carried out."""
        done = trio.Event()

        async def note_done() -> None:
            done.set()

        self._outbox.send_nowait(note_done)
        await done.wait()

    async def _send_operations(self) -> None:
        """Carry out operations one after another, in the order in which they were asked for."""
        async for operation in self._operations:
            await operation()

    # --- operations -------------------------------------------------------------------------------

    async def request(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """Carry out any operation of the session, as docs/serve.md lists them.

        Args:
            method: The HTTP method.
            path: The path after ``/api/sessions/ID``, such as ``/undo/preview``.
            body: The body; ``None`` for none.
            query: The query.

        Returns:
            The decoded result. The events of a change have arrived.

        Raises:
            HilumError: The server refuses the operation, or cannot be reached.
        """
        if method == "GET":
            return await self._call(method, path, body, query)
        return await self._submit(method, path, body, query).wait()

    def _submit(
        self, method: str, path: str, body: Any = None, query: Mapping[str, Any] | None = None
    ) -> _Pending:
        """Carry out an operation after those before it; it is carried out even if nobody waits."""
        pending = _Pending()

        async def carry_out() -> None:
            try:
                pending.result = await self._call(method, path, body, query or {})
            except HilumError as error:
                pending.error = error
            pending.done.set()

        if self._mirror.error is not None:
            raise self._mirror.error
        self._outbox.send_nowait(carry_out)
        return pending

    def _send_later(self, method: str, path: str, body: Any = None, **query: Any) -> None:
        """Carry out an operation without waiting for the result."""
        # What counts is what the caller has seen now, not what arrives before it is sent.
        seen = self._mirror.last

        async def carry_out() -> None:
            try:
                await self._call(method, path, body, query, seen)
            except HilumError as error:
                self.on_problem(error)

        if self._mirror.error is not None:
            raise self._mirror.error
        self._outbox.send_nowait(carry_out)

    async def _call(
        self,
        method: str,
        path: str,
        body: Any,
        query: Mapping[str, Any],
        seen: int | None = None,
    ) -> Any:
        server = self.kernel
        changes = method != "GET"
        url = self._path + path
        if changes and seen is None:
            seen = self._mirror.last
        # A decision that is refused because something has changed (E_STALE) is not sent again: the
        # program has not seen what it would then decide on.
        result, last = await server.call(method, url, body, query, seen=seen)
        if changes:
            with trio.move_on_after(CATCH_UP_SECONDS):
                await self._mirror.reached(last)
        return result

    async def state(self) -> SessionState:
        """Return the state of the session on the server."""
        return msgspec.convert(await self.request("GET", ""), SessionState)

    async def prompt(
        self,
        text: str,
        *,
        agent: str = "main",
        state: Mapping[str, object] | None = None,
        piped: bool = False,
        attached: str = "",
        images: Sequence[Image] = (),
    ) -> RemoteRun:
        """Prompt an agent; see ``Session.prompt``. The state of the workspace is not sent."""
        body = _describe_prompt(text, agent, piped, attached, images)
        return RemoteRun(self, await self.request("POST", "/prompts", body))

    async def run(
        self,
        text: str,
        *,
        agent: str = "main",
        state: Mapping[str, object] | None = None,
        piped: bool = False,
        attached: str = "",
        images: Sequence[Image] = (),
    ) -> ev.RunEnded:
        """Prompt an agent and wait for the end of the run; see ``Session.run``."""
        body = _describe_prompt(text, agent, piped, attached, images)
        pending = self._submit("POST", "/prompts", body)
        try:
            return await RemoteRun(self, await pending.wait()).wait()
        except trio.Cancelled:
            # Without the shield, the caller would continue while the run still changes files. The
            # prompt may still be on its way.
            with trio.move_on_after(STOP_SECONDS, shield=True), suppress(HilumError):
                run = RemoteRun(self, await pending.wait())
                run.stop()
                await run.wait()
            raise

    async def steer(self, text: str, *, agent: str = "main") -> str:
        """Queue a message for the current run of an agent; see ``Session.steer``."""
        body = {"text": text, "agent": agent}
        return str((await self.request("POST", "/steering", body))["id"])

    def withdraw(self, message: str, *, agent: str = "main") -> bool:
        """Withdraw a steering message; see ``Session.withdraw``."""
        actor = self.view.actors.get(agent)
        if actor is None:
            raise unknown_name_error("agent", agent, self.view.actors)
        if message not in actor.steering:
            return False
        self._send_later("DELETE", f"/steering/{quote(message, safe='')}", agent=agent)
        return True

    def stop(self, agent: str = "", *, run: str = "") -> None:
        """Stop runs, and drop queued prompts; see ``Session.stop``."""
        self._send_later("POST", "/stop", {"agent": agent, "run": run})

    async def resume(self) -> list[RemoteRun]:
        """Continue what was left when the session last ended; see ``Session.resume``.

        Unlike that method, this one is async.
        """
        found = await self.request("POST", "/resume")
        return [RemoteRun(self, each) for each in found["runs"]]

    async def retry(self, agent: str = "main") -> RemoteRun:
        """Continue the agent's last run; see ``Session.retry``."""
        return RemoteRun(self, await self.request("POST", "/retry", {"agent": agent}))

    async def repeat_call(self, call: str) -> RemoteRun:
        """Repeat a failed call; see ``Session.repeat_call``."""
        path = f"/calls/{quote(call, safe='')}/repeat"
        return RemoteRun(self, await self.request("POST", path))

    def compact(self, agent: str = "main", *, focus: str = "") -> None:
        """Compact a conversation; see ``Session.compact``."""
        if agent not in self.view.actors:
            raise unknown_name_error("agent", agent, self.view.actors)
        self._send_later("POST", "/compact", {"agent": agent, "focus": focus})

    def answer(
        self,
        approval: str,
        accepted: bool,
        *,
        reason: str = "",
        remember: str = "once",
        by: str = "user",
        arguments: str | None = None,
    ) -> None:
        """Answer a request for approval; see ``Session.answer``. The first answer wins."""
        waiting = [each.id for each in self.view.waiting if isinstance(each, Approval)]
        if approval not in waiting:
            raise UsageError(
                f"There is no open approval {approval!r}.",
                hint="The approval was already answered, or it expired.",
            )
        body = {
            "accepted": accepted,
            "reason": reason,
            "remember": remember,
            "arguments": arguments,
        }
        self._send_later("POST", f"/approvals/{quote(approval, safe='')}", body)

    def approval_shown(self, approval: str) -> float:
        """Start the clock of an approval; see ``Session.approval_shown``.

        The event ``ApprovalShown`` has the time at which it expires; this method returns 0.
        """
        self._send_later("POST", f"/approvals/{quote(approval, safe='')}/shown")
        return 0.0

    def set(
        self, *, mode: str | None = None, model: str | None = None, approve: str | None = None
    ) -> None:
        """Change the mode, model or approval policy; see ``Session.set``."""
        if mode is not None and mode not in self.modes:
            raise unknown_name_error("mode", mode, self.modes)
        if approve is not None and approve not in _POLICIES:
            raise unknown_name_error("approval policy", approve, _POLICIES)
        wanted = {"mode": mode, "model": model, "approve": approve}
        body = {name: value for name, value in wanted.items() if value is not None}
        if body:
            self._send_later("PATCH", "", body)
            # The caller sees the choice at once; the server's event confirms it.
            self._mode = mode or self._mode
            self.model = model or self.model
            self.approve = approve or self.approve

    def revoke(self, scope: str) -> bool:
        """Revoke a lasting approval, and return whether there was one; see ``Session.revoke``."""
        if scope not in self._mirror.grants:
            return False
        self._send_later("DELETE", "/grants", scope=scope)
        return True


class RemoteServer:
    """A connection to a server; ``connect`` creates it.

    Attributes:
        url: The address of the server, without a path.
        user: Name of the user whose token this is.
        rights: What the user may do.
    """

    def __init__(self, url: str, client: httpx.AsyncClient) -> None:
        self.url = url
        self.user = ""
        self.rights = ""
        self._client = client
        self._instance = ""

    async def start(self) -> None:
        """Reach the server, and learn who the client is.

        Raises:
            HilumError: The server cannot be reached, or refuses the token.
        """
        me, _ = await self.call("GET", "/api/me")
        self.user = me["name"]
        self.rights = me["rights"]
        self._instance = me["instance"]

    # --- sessions ---------------------------------------------------------------------------------

    async def list_workspaces(self) -> list[str]:
        """Return the folders on the server in which sessions can be opened."""
        found, _ = await self.call("GET", "/api/workspaces")
        return [each["path"] for each in found["workspaces"]]

    async def list_sessions(
        self, query: str = "", *, workspace: str = "", limit: int = 100
    ) -> list[SessionInfo]:
        """Return sessions, most recently used first.

        Args:
            query: Words that title, id or folder contain.
            workspace: Only sessions of this folder.
            limit: Maximum number of sessions.
        """
        given = {"query": query, "workspace": workspace, "limit": limit}
        found, _ = await self.call("GET", "/api/sessions", query=given)
        return [
            SessionInfo(
                id=each["id"],
                workspace=each["workspace"],
                title=each["title"],
                created=each["created"],
                updated=each["updated"],
                events=each["last"],
                forked=each["forked"],
            )
            for each in found["sessions"]
        ]

    @asynccontextmanager
    async def open_session(
        self,
        workspace: str | os.PathLike[str] = "",
        *,
        resume: str = "",
        kind: str = "",
        attended: bool | None = None,
        mode: str | None = None,
        model: str | None = None,
        approve: str | None = None,
    ) -> AsyncIterator[RemoteSession]:
        """Open a session on the server; see ``Kernel.open_session``.

        Leaving the block ends only the connection: the session and its runs continue.

        Args:
            workspace: The folder on the server; the server's only folder by default.
            resume: Id of a session to open instead of a new one.
            kind: Must be empty: the server decides.
            attended: Must not be false: somebody can always answer.
            mode: The mode.
            model: The model.
            approve: The approval policy.

        Raises:
            HilumError: The session cannot be opened.
        """
        if kind or attended is False:
            raise UsageError(
                "A session of a server is of the server's kind, and attended.", code=E_BAD_ARGS
            )
        state = await self._open(os.fspath(workspace), resume, mode, model, approve)
        path = f"/api/sessions/{quote(state.id, safe='')}"
        found, _ = await self.call("GET", f"{path}/modes")
        modes = [Mode(each["name"], description=each["description"]) for each in found["modes"]]
        session = RemoteSession(self, state, modes)
        async with open_nursery() as nursery:
            await nursery.start(session._follow, state.last)
            nursery.start_soon(session._send_operations)
            try:
                if session._mirror.error is not None:
                    raise session._mirror.error
                if resume:
                    session.set(mode=mode, model=model, approve=approve)
                yield session
                # What the program sent last must not be lost because the program ends.
                with trio.move_on_after(CATCH_UP_SECONDS):
                    await session._drain()
            finally:
                session._mirror.close()
                nursery.cancel_scope.cancel()

    async def _open(
        self,
        workspace: str,
        resume: str,
        mode: str | None,
        model: str | None,
        approve: str | None,
    ) -> SessionState:
        if resume:
            path = f"/api/sessions/{quote(resume, safe='')}"
            found, _ = await self.call("GET", path)
            return msgspec.convert(found, SessionState)
        if not workspace:
            folders = await self.list_workspaces()
            if len(folders) != 1:
                raise UsageError(
                    "The server works in several folders.",
                    code=E_BAD_ARGS,
                    hint=f"Name one of them: {', '.join(folders)}",
                )
            workspace = folders[0]
        body = {"workspace": workspace, "mode": mode, "model": model or "", "approve": approve}
        found, _ = await self.call("POST", "/api/sessions", body)
        return msgspec.convert(found, SessionState)

    async def fork(self, session: str, upto: int | None = None, *, queued: bool = False) -> str:
        """Copy a session, or its events up to ``upto``, and return the copy's id.

        Args:
            session: Id of the session.
            upto: Sequence number of the last event to copy; all events by default.
            queued: Must be false: queued prompts do not run in a copy on a server.
        """
        if queued:
            raise UsageError("Queued prompts do not run in a copy.", code=E_BAD_ARGS)
        path = f"/api/sessions/{quote(session, safe='')}/fork"
        copy, _ = await self.call("POST", path, {"at": upto or 0}, seen=0)
        return str(copy["id"])

    # --- requests ---------------------------------------------------------------------------------

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        *,
        seen: int | None = None,
    ) -> tuple[Any, int]:
        """Carry out an operation, and return its result and the session's last number.

        A lost connection is made again. The server carries out a change with the same id once.

        Args:
            method: The HTTP method.
            path: The path.
            body: The body; ``None`` for none.
            query: The query.
            seen: The last sequence number that the program has seen.

        Raises:
            HilumError: The server refuses the operation, or cannot be reached.
        """
        headers = {}
        content = None
        if method != "GET":
            headers["hilum-request"] = os.urandom(16).hex()
        if seen is not None:
            headers["hilum-seen"] = str(seen)
        if body is not None:
            headers["content-type"] = "application/json"
            content = msgspec.json.encode(body)
        send = partial(
            self._client.request,
            method,
            path,
            content=content,
            headers=headers,
            params=dict(query or {}),
        )
        deadline = trio.current_time() + RETRY_SECONDS
        pause = FIRST_PAUSE
        was_sent = False
        while True:
            try:
                # A read changes nothing, so that it may be repeated on any instance.
                if was_sent and method != "GET":
                    await self._check_instance()
                response = await send()
                break
            except _LOST as error:
                was_sent = was_sent or not isinstance(error, httpx.ConnectError)
                if trio.current_time() > deadline:
                    raise self._unreachable(error) from None
            await trio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
        if response.is_success:
            result = msgspec.json.decode(response.content) if response.content else None
            return result, int(response.headers.get("hilum-last", 0))
        raise read_error(response.status_code, response.content)

    async def _check_instance(self) -> None:
        """Check that the server is still the one to which a request was sent.

        Raises:
            HilumError: The server was restarted, so that it does not know whether the request
                was carried out.
        """
        response = await self._client.get("/api/me")
        if not response.is_success:
            raise read_error(response.status_code, response.content)
        instance = msgspec.json.decode(response.content)["instance"]
        if self._instance and instance != self._instance:
            self._instance = instance
            raise HilumError(
                "The server was restarted. The operation may or may not have been carried out.",
                code=E_INTERRUPTED,
                hint="Look at the session before you repeat it.",
            )

    def _unreachable(self, error: Exception) -> HilumError:
        return HilumError(
            f"The server at {self.url} cannot be reached: {error or type(error).__name__}.",
            code=E_UNREACHABLE,
            hint="Check that `hilum serve` runs there, and the tunnel to it.",
        )

    async def stream(
        self, path: str, mirror: Mirror, handle: Callable[[dict[str, Any]], bool]
    ) -> None:
        """Read a session's event stream from where a mirror ends, until it ends.

        If the server refuses the stream for good, the mirror is closed with the error.

        Args:
            path: The path of the session.
            mirror: The mirror.
            handle: Function that is called with each element, and returns whether to continue.
        """
        query: dict[str, str | int] = {"after": mirror.last, "vocabulary": "events"}
        timeout = httpx.Timeout(SILENCE_SECONDS)
        request = self._client.stream("GET", f"{path}/stream", params=query, timeout=timeout)
        # The generators of httpx must not be left in the middle, so that they are cancelled.
        with trio.CancelScope() as scope:
            async with request as response:
                if not response.is_success:
                    content = await response.aread()
                    if response.status_code in _GONE:
                        mirror.close(read_error(response.status_code, content))
                    return
                async for line in response.aiter_lines():
                    if scope.cancel_called or not line.startswith("data:"):
                        continue
                    if not handle(msgspec.json.decode(line[5:])):
                        scope.cancel()


def read_error(status: int, content: bytes) -> HilumError:
    """Return the error that a response reports."""
    try:
        data = msgspec.json.decode(content, type=dict[str, str])
        code = data["code"]
        message = data["message"]
    except (msgspec.MsgspecError, KeyError):
        text = f"The server answered with the status {status} and no explanation."
        return HilumError(text, code=E_INTERNAL)
    kind = UsageError if 400 <= status < 500 else HilumError
    return kind(message, code=code, hint=data.get("hint", ""))


@asynccontextmanager
async def connect(url: str, token: str) -> AsyncIterator[RemoteServer]:
    """Connect to a server; leaving the block ends the connection, and nothing else.

    Args:
        url: The address of the server, such as ``http://127.0.0.1:8722``.
        token: A token, as ``hilum serve token add`` prints it.

    Raises:
        HilumError: The server cannot be reached, or refuses the token.
    """
    base = url.rstrip("/")
    limits = httpx.Limits(max_connections=64)
    async with (
        # A proxy of the environment must not see the token of a server on this machine.
        httpx.AsyncClient(
            base_url=base,
            headers={"authorization": f"Bearer {token}"},
            timeout=REQUEST_SECONDS,
            limits=limits,
            trust_env=False,
        ) as client,
    ):
        server = RemoteServer(base, client)
        await server.start()
        yield server


_WRAPS = (RemoteServer, RemoteSession, RemoteRun)
connect_asyncio = aio.hosted(connect, wraps=_WRAPS, name="hilum client")
connect_blocking = cast(Any, blocking.hosted(connect, wraps=_WRAPS, name="hilum client"))
