"""``/share``: serves the running session in the browser, from the process that has it open."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING

import trio
from hilum import HilumError, Session
from hilum.hooks import describe_error, unwrap_group

from hilum_serve.settings import ServeSettings

if TYPE_CHECKING:
    from hilum_serve.server import RunningServer

STOP_SECONDS = 0.3
"""Seconds that ``/share stop`` waits for the end of the server.

The server gives open requests half a second, and this may be one of them.
"""
_USAGE = "Enter /share to open this conversation in the browser, or /share stop to end that."
_MEANING = (
    "Everyone who has the address can do everything in this conversation that you can. The address"
    " works only on this machine, until you enter /share stop or leave the conversation."
)


class _Started:
    """Reports once that the server has started."""

    def __init__(self, task_status: trio.TaskStatus[RunningServer]) -> None:
        self.is_set = False
        self._task_status = task_status

    def set(self, running: RunningServer) -> None:
        """Report the server that has started."""
        self.is_set = True
        self._task_status.started(running)


class SessionSharing:
    """Serves one session after ``/share``.

    Args:
        session: The session.
        nursery: The nursery for the server.

    Attributes:
        url: The address that logs a browser in; empty while the session is not shared.
    """

    def __init__(self, session: Session, nursery: trio.Nursery) -> None:
        self.url = ""
        self._session = session
        self._nursery = nursery
        self._stop: trio.Event | None = None
        self._ended = trio.Event()
        # Two requests at the same time must not start two servers.
        self._starting = trio.Lock()

    async def run(self, words: Sequence[str]) -> str:
        """Carry out ``/share`` with its arguments, and return the reply."""
        if list(words) == ["stop"]:
            return await self.stop()
        if words:
            return _USAGE
        try:
            return await self.share()
        except Exception as error:
            # The server is started in nurseries, which wrap errors in groups.
            first = unwrap_group(error)
            if not isinstance(first, HilumError):
                raise
            return f"The conversation is not shared. {first}"

    async def share(self) -> str:
        """Serve the session unless it is served already, and return a text with the address.

        Raises:
            HilumError: The server cannot start.
        """
        async with self._starting:
            if self._stop is not None:
                return f"This conversation is open at\n{self.url}\n{_MEANING}"
            running = await self._nursery.start(self._serve_contained)
        opened = await self._open_browser(running)
        what = "Opened in the browser. Elsewhere on this machine" if opened else "Open"
        return f"{what}: {self.url}\n{_MEANING}"

    async def stop(self) -> str:
        """End the server; the session continues here."""
        if self._stop is None:
            return "This conversation is not shared."
        self._stop.set()
        ended = self._ended
        with trio.move_on_after(STOP_SECONDS):
            await ended.wait()
        if ended.is_set():
            return "The conversation is no longer shared."
        # A request is still being answered: perhaps this one, if it was entered in the browser.
        return "The conversation is no longer shared as soon as the open requests are answered."

    async def _serve_contained(self, task_status: trio.TaskStatus[RunningServer]) -> None:
        """Serve the session, and contain errors: they must not end the conversation.

        Raises:
            Exception: The server cannot start.
        """
        started = _Started(task_status)
        try:
            await self._serve(started)
        except Exception as error:
            if not started.is_set:
                raise
            what = describe_error(unwrap_group(error))
            say = f"The conversation is no longer shared because of an error: {what}."
            # If the log cannot be written, the user learns that elsewhere.
            with suppress(HilumError):
                self._session.note("serve.sharing_failed", say=f"{say} Enter /share to try again.")

    async def _serve(self, started: _Started) -> None:
        """Serve the session until it is stopped."""
        # The import takes long, and the terminal must react meanwhile.
        await trio.to_thread.run_sync(import_module, "hilum_serve.app")
        server = import_module("hilum_serve.server")
        listening = import_module("hilum_serve.listening")
        tokens = import_module("hilum_serve.tokens")
        session = self._session
        listeners = listening.listen_or_explain("127.0.0.1", 0)
        port = listeners[0].getsockname()[1]
        token = server.make_token()
        options = server.ServerOptions(
            listeners=listeners,
            host="127.0.0.1",
            port=port,
            # Only this session can be used, and none can be opened.
            workspaces=[],
            tokens=tokens.Tokens(None, token),
            settings=session.settings(ServeSettings),
            environ=session.kernel.environ,
        )
        title = (await session.kernel.store.info(session.id)).title
        self._ended = trio.Event()
        try:
            self._stop = trio.Event()
            async with (
                server.run_server(session.kernel.store, options) as running,
                running.hub.host(session, title),
            ):
                self.url = self._make_url(running, token)
                started.set(running)
                try:
                    await self._stop.wait()
                finally:
                    # Pages must not wait for a server that does not return.
                    with trio.CancelScope(shield=True):
                        await running.streams.end_all("unshared")
        finally:
            self._stop = None
            self.url = ""
            self._ended.set()

    def _make_url(self, running: RunningServer, token: str) -> str:
        """Return the address that logs a browser in and opens the session there."""
        return f"{running.make_url(token)}#/s/{self._session.id}"

    async def _open_browser(self, running: RunningServer) -> bool:
        """Open the session in the user's browser, if this machine has a screen."""
        if not _has_screen(self._session.kernel.environ) or not self._session.attended:
            return False
        # Other users of the machine can read the arguments of programs, so the address that the
        # browser is started with works only once, and only for a minute.
        url = self._make_url(running, running.tokens.make_code())
        import webbrowser  # only `/share` needs it

        # The browser belongs to the user and outlives hilum, so it is not started through the
        # warden. No shell is involved.
        return await trio.to_thread.run_sync(webbrowser.open, url, abandon_on_cancel=True)


def _has_screen(variables: Mapping[str, str]) -> bool:
    """Return whether a browser with windows can be started here."""
    if "SSH_CONNECTION" in variables:
        return False
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(variables.get("DISPLAY") or variables.get("WAYLAND_DISPLAY"))


@asynccontextmanager
async def open_sharing(session: Session) -> AsyncIterator[SessionSharing]:
    """Yield the object that serves a session on demand, and end it afterwards."""
    async with trio.open_nursery() as nursery:
        yield SessionSharing(session, nursery)
        nursery.cancel_scope.cancel()
