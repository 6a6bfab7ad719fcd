"""A session of a server, with the methods of ``hilum.Session``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec
import trio
from hilum import HilumError, Image, Mode, UsageError
from hilum import events as ev
from hilum.errors import E_INTERNAL, E_INTERRUPTED, unknown_name_error
from hilum.store import SessionInfo
from hilum_view import Approval, SessionView

from hilum_serve.mirror import Mirror, MirrorReader
from hilum_serve.outbox import Outbox, PendingOperation
from hilum_serve.remote_run import RemoteRun
from hilum_serve.session_state import (
    BackgroundOutput,
    BackgroundState,
    SessionState,
    ShellLineState,
)

if TYPE_CHECKING:
    from hilum_serve.remote_server import RemoteServer

CATCH_UP_SECONDS = 10.0
"""Seconds to wait for the events of a change that the server has carried out."""
STOP_SECONDS = 30.0
"""Seconds to wait for the end of a run whose caller was cancelled."""
_POLICIES = ("ask_first", "auto", "readonly")


class RemoteJournal:
    """What is known about the log of a remote session."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror

    @property
    def last(self) -> int:
        """Sequence number of the last event that has arrived."""
        return self._mirror.last


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
        # What the server has confirmed of the three, for when it refuses a change.
        self._confirmed = (state.mode, state.model, state.approve)
        self._mirror = Mirror(SessionInfo(id=state.id, workspace=state.workspace))
        self.journal = RemoteJournal(self._mirror)
        self._outbox = Outbox()
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

    def events(
        self,
        after: int = 0,
        *,
        deltas: bool = False,
        kinds: tuple[type[ev.Event], ...] = (),
    ) -> MirrorReader:
        """Read the session's events in order, from any point; see ``Session.events``."""
        return MirrorReader(self._mirror, after, deltas, kinds)

    async def _follow(self, last: int, task_status: trio.TaskStatus[None]) -> None:
        """Follow the event stream, and report once that the events up to now have arrived."""
        is_started = False

        def handle(element: dict[str, Any]) -> bool:
            nonlocal is_started
            goes_on = self._apply(element)
            if not is_started and self._mirror.last >= last:
                is_started = True
                task_status.started()
            return goes_on

        await self.kernel.follow(self._path, self._mirror, handle)
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
            mode, model, approve = self._confirmed
            self._confirmed = (
                event.mode or mode,
                event.model or model,
                event.approve or approve,
            )
        return self._mirror.add_event(event)

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
    ) -> PendingOperation:
        """Carry out an operation after those before it; it is carried out even if nobody waits."""
        if self._mirror.error is not None:
            raise self._mirror.error
        # What counts is what the caller has seen now, not what arrives before it is sent.
        seen = self._mirror.last
        return self._outbox.submit(partial(self._call, method, path, body, query or {}, seen))

    def _send_later(self, method: str, path: str, body: Any = None, **query: Any) -> None:
        """Carry out an operation without waiting for the result; report a refusal."""
        self._send_and_handle(self._report_problem, method, path, body, **query)

    def _send_and_handle(
        self,
        on_problem: Callable[[HilumError], None],
        method: str,
        path: str,
        body: Any = None,
        **query: Any,
    ) -> None:
        """Carry out an operation without waiting for the result."""
        if self._mirror.error is not None:
            raise self._mirror.error
        seen = self._mirror.last
        send = partial(self._call, method, path, body, query, seen)
        self._outbox.send_later(send, on_problem)

    def _report_problem(self, error: HilumError) -> None:
        # Read only now, because a program may set it after it has sent an operation.
        self.on_problem(error)

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

    async def run_shell_line(self, command: str) -> ShellLineState:
        """Start a command of the user in the session's folder and sandbox.

        The agent reads the command and its output with the next prompt.

        Returns:
            The command, which runs; ``list_shell_lines`` has its output.

        Raises:
            HilumError: Too many run already, or the token has too few rights.
        """
        made = await self.request("POST", "/shell", {"command": command})
        return msgspec.convert(made, ShellLineState)

    async def list_shell_lines(self) -> list[ShellLineState]:
        """Return the users' commands that run or that the agent has not read, oldest first."""
        found = await self.request("GET", "/shell")
        return msgspec.convert(found["lines"], list[ShellLineState])

    async def stop_shell_line(self, line: str) -> None:
        """Stop a command of the user, with all its child processes."""
        await self.request("POST", f"/shell/{quote(line, safe='')}/stop")

    async def list_background(self) -> list[BackgroundState]:
        """Return the commands of agents that run in the background, oldest first."""
        found = await self.request("GET", "/background")
        return msgspec.convert(found["commands"], list[BackgroundState])

    async def read_background_output(self, command: str) -> BackgroundOutput:
        """Return a whole background command and the end of its output."""
        found = await self.request("GET", f"/background/{quote(command, safe='')}/output")
        return msgspec.convert(found, BackgroundOutput)

    async def stop_background(self, command: str) -> None:
        """Stop a command that runs in the background, with all its child processes."""
        await self.request("POST", f"/background/{quote(command, safe='')}/stop")

    async def read_image(self, image: str) -> bytes:
        """Return the content of an image of the session.

        Args:
            image: Its id, as in the entries of ``view``.
        """
        content: bytes = await self.request("GET", f"/images/{quote(image, safe='')}")
        return content

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
            self._send_and_handle(self._take_back_settings, "PATCH", "", body)
            # The caller sees the choice at once; the server's event confirms it.
            self._mode = mode or self._mode
            self.model = model or self.model
            self.approve = approve or self.approve

    def _take_back_settings(self, error: HilumError) -> None:
        """Return to the settings that the server has confirmed, and report the refusal."""
        self._mode, self.model, self.approve = self._confirmed
        self._report_problem(error)

    def revoke(self, scope: str) -> bool:
        """Revoke a lasting approval, and return whether there was one; see ``Session.revoke``."""
        if scope not in self._mirror.grants:
            return False
        self._send_later("DELETE", "/grants", scope=scope)
        return True
