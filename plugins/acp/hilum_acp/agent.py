"""The agent's side of the protocol: answers an editor's requests, and opens its sessions."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import trio
from hilum import (
    HilumError,
    ModelAccess,
    StoreError,
    UsageError,
    __version__,
    open_kernel,
    open_standard_session,
)
from hilum.errors import E_BAD_ARGS, E_BUSY, E_UNKNOWN
from hilum.hooks import find_first_error
from hilum.settings import KernelSettings, load
from hilum.store import SessionInfo, Store, is_used, storage_plugins, unspell_folder
from hilum.workspace import check_workspace

from hilum_acp import messages
from hilum_acp.client import Client
from hilum_acp.editor_files import EditorPlugin
from hilum_acp.editor_session import EditorSession
from hilum_acp.json_rpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    Connection,
    Response,
    RpcError,
)
from hilum_acp.messages import (
    PROTOCOL_VERSION,
    RESOURCE_NOT_FOUND,
    read,
    read_abilities,
)
from hilum_acp.offered_servers import EditorServers, can_use_servers, read_servers
from hilum_acp.rpc_errors import make_login_error, make_rpc_error, to_rpc_error

PAGE = 100
"""Number of sessions in one response of ``session/list``."""
MAX_SESSIONS = 50
"""Maximum number of sessions that one editor has open."""
UNUSED_SECONDS = 86_400.0
"""Age at which a session without a prompt is deleted; a client may load it until then."""
USE_KEY = "hilum-key"
SET_UP = "hilum-setup"
NO_SERVERS = (
    "The MCP servers of the editor are not used: the package hilum-mcp is not installed. Install it"
    " with: pip install 'hilum[mcp]'"
)


_logger = logging.getLogger("hilum.acp")


CLOSE_SECONDS = 10.0
"""How long a request that is cancelled waits until the session that it opened is closed again."""


@attrs.define(eq=False)
class _SessionSlot:
    """A session that is being opened, is open or is being closed.

    Attributes:
        ready: Set when it is open, or could not be opened.
        close: Set when it should close.
        stop_runs: Whether its runs are then stopped; otherwise, they are interrupted.
        keep_unused: Whether it is then kept, although it was never used.
        scope: Cancelled if the request ends before the session is open.
        closed: Set when it is closed.
        editor_session: The session, once it is open.
        error: Why it could not be opened.
    """

    ready: trio.Event = attrs.field(factory=trio.Event)
    close: trio.Event = attrs.field(factory=trio.Event)
    stop_runs: bool = True
    keep_unused: bool = False
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    closed: trio.Event = attrs.field(factory=trio.Event)
    editor_session: EditorSession | None = None
    error: HilumError | None = None


class Agent:
    """Answers one editor.

    Args:
        connection: The connection to the editor.
        nursery: The nursery for the tasks of sessions.
        options: Further arguments of ``open_standard_session`` for each session.
    """

    def __init__(
        self, connection: Connection, nursery: trio.Nursery, options: Mapping[str, Any]
    ) -> None:
        self._client = Client(connection)
        self._nursery = nursery
        self._options = dict(options)
        self._initialized = False
        self._sessions: dict[str, _SessionSlot] = {}
        # Also those that have no id yet, because they are being opened.
        self._slots: set[_SessionSlot] = set()
        connection.requests.update(
            {
                "initialize": self._initialize,
                "authenticate": self._require(self._authenticate),
                "logout": self._require(self._logout),
                "session/new": self._require(self._new),
                "session/load": self._require(partial(self._open_existing, shows_history=True)),
                "session/resume": self._require(partial(self._open_existing, shows_history=False)),
                "session/list": self._require(self._list),
                "session/close": self._require(self._close),
                "session/delete": self._require(self._delete),
                "session/set_mode": self._require(self._set_mode),
                "session/set_config_option": self._require(self._set_config_option),
                "session/prompt": self._require(self._prompt),
            }
        )
        connection.notifications["session/cancel"] = self._cancel

    def _require(self, handler: Any) -> Any:
        """Return a handler that refuses requests before ``initialize``, and converts errors."""

        def handle(params: dict[str, Any]) -> Any:
            if not self._initialized:
                raise RpcError(INVALID_REQUEST, "The first request must be initialize.")
            return _convert_errors(handler(params))

        return handle

    def interrupt(self) -> None:
        """Make requests that are cancelled from now on leave their runs to be continued later."""
        self._client.is_ending = True

    async def close(self) -> None:
        """Close all sessions, because the editor has left.

        Their runs are interrupted and not stopped, so that the user can continue them, and is then
        asked again about calls that waited for approval.
        """
        self.interrupt()
        async with trio.open_nursery() as nursery:
            for identity in list(self._sessions):
                # A client may create a session in one process, and load it in another.
                close = partial(self._close_session, identity, stop_runs=False, keep_unused=True)
                nursery.start_soon(close)

    # --- the connection ---------------------------------------------------------------------------

    def _initialize(self, params: dict[str, Any]) -> Any:
        # Read at once, so that a client need not wait for the response before its next request.
        given = read(messages.Initialize, params)
        self._client.abilities = read_abilities(given.client_capabilities)
        self._initialized = True
        return self._describe_agent()

    async def _describe_agent(self) -> dict[str, Any]:
        # The protocol: an agent that does not support the client's version responds with the latest
        # one that it supports. hilum supports one version, whatever the client asks for.
        uses_servers = can_use_servers()
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "agentInfo": {"name": "hilum", "title": "hilum", "version": __version__},
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": uses_servers, "sse": uses_servers},
                "sessionCapabilities": {
                    "list": {},
                    "delete": {},
                    "additionalDirectories": {},
                    "resume": {},
                    "close": {},
                },
                "auth": {"logout": {}},
            },
            "authMethods": self._list_auth_methods(),
        }

    def _list_auth_methods(self) -> list[dict[str, Any]]:
        methods: list[dict[str, Any]] = []
        if self._client.abilities.terminal_login:
            methods.append(
                {
                    "type": "terminal",
                    "id": SET_UP,
                    "name": "Set up a model",
                    "description": "Opens hilum in a terminal, which guides you.",
                    "args": ["--setup"],
                }
            )
        methods.append(
            {
                "id": USE_KEY,
                "name": "Use a stored key",
                "description": (
                    "Uses the key of `hilum models key PROVIDER`, of an environment variable such"
                    " as ANTHROPIC_API_KEY, or a model server on this machine."
                ),
            }
        )
        return methods

    async def _authenticate(self, params: dict[str, Any]) -> dict[str, Any]:
        method = read(messages.Authenticate, params).method_id
        if method != USE_KEY:
            raise RpcError(INVALID_PARAMS, f"There is no way to log in named {method!r}.")
        async with open_kernel(**self._kernel_options()) as kernel:
            try:
                await kernel.router.default()
            except UsageError as error:
                raise make_login_error(error) from None
        return {}

    async def _logout(self, params: dict[str, Any]) -> dict[str, Any]:
        """Remove the keys that hilum keeps. Keys in environment variables are not hilum's."""
        async with open_kernel(**self._kernel_options()) as kernel:
            access = kernel.plugin(ModelAccess)
            if access is not None:
                for status in await access.survey_models(kernel, known_only=True):
                    # Plugins may have providers that use no keys.
                    if status.key:
                        await access.forget_key(kernel, status.name)
        return {}

    def _kernel_options(self) -> dict[str, Any]:
        names = ("settings", "extra_plugins", "without", "environ")
        return {name: self._options[name] for name in names if name in self._options}

    # --- opening sessions -------------------------------------------------------------------------

    async def _new(self, params: dict[str, Any]) -> Response:
        given = read(messages.NewSession, params)
        async with self._open(given, resume="", shows_history=True) as opened:
            session = opened.session
            try:
                # The same check as that of a prompt, so that a model that does not exist is
                # reported before the user has written one.
                await session.kernel.router.ready(session.agents["main"])
            except HilumError as error:
                raise make_login_error(error) from None
            result = {"sessionId": session.id, **await opened.describe()}
        return Response(result, partial(self._announce, opened))

    async def _open_existing(self, params: dict[str, Any], *, shows_history: bool) -> Response:
        given = read(messages.ExistingSession, params)
        resume = given.session_id
        async with self._open(given, resume=resume, shows_history=shows_history) as opened:
            result = await opened.describe()
        return Response(result, partial(self._announce, opened))

    def _announce(self, opened: EditorSession) -> None:
        opened.announce()
        self._nursery.start_soon(opened.send_commands)

    @asynccontextmanager
    async def _open(
        self,
        given: messages.NewSession | messages.ExistingSession,
        *,
        resume: str,
        shows_history: bool,
    ) -> AsyncIterator[EditorSession]:
        """Open a session in a task of its own, and wait until its history was sent.

        If the request fails or is cancelled in the block, the session is closed again: the editor
        would not know that it is open.

        Raises:
            HilumError: The session cannot be opened.
            RpcError: A folder is not an absolute path, or a server is malformed.
        """
        if len(self._slots) >= MAX_SESSIONS and resume not in self._sessions:
            raise UsageError(
                f"{MAX_SESSIONS} sessions are open.", code=E_BUSY, hint="Close a session."
            )
        slot = _SessionSlot()
        self._slots.add(slot)
        try:
            arguments = await self._prepare(given, resume)
            # An editor that lost track may load a session that it has open: it begins again. A
            # request that is refused, however, leaves the open session as it is.
            await self._close_session(resume, keep_unused=True)
        except BaseException:
            self._slots.discard(slot)
            raise
        self._nursery.start_soon(self._run_session, slot, arguments, shows_history)
        try:
            await slot.ready.wait()
            if slot.error is not None:
                raise slot.error
            assert slot.editor_session is not None
            if given.mcp_servers and not can_use_servers():
                slot.editor_session.session.note("acp.no_mcp", say=NO_SERVERS)
            yield slot.editor_session
        except BaseException:
            # Runs of an earlier process, which wait to be continued, are not stopped.
            slot.stop_runs = not resume
            slot.keep_unused = bool(resume)
            slot.close.set()
            if not slot.ready.is_set():
                slot.scope.cancel()
            with trio.move_on_after(CLOSE_SECONDS, shield=True):
                await slot.closed.wait()
            raise

    async def _prepare(
        self, given: messages.NewSession | messages.ExistingSession, resume: str
    ) -> dict[str, Any]:
        """Return the arguments of ``open_standard_session`` for a request.

        Raises:
            RpcError: A folder is not an absolute path, a server is malformed, or the session to
                resume does not exist.
        """
        folder = await trio.to_thread.run_sync(_find_workspace, given.cwd)
        extra = []
        for each in given.additional_directories or []:
            extra.append(str(await trio.to_thread.run_sync(_find_workspace, each)))
        if resume:
            await self._check_existing(resume, folder)
        servers = read_servers(given.mcp_servers or [])
        options = await self._make_options(extra, EditorServers(servers))
        return {**options, "workspace": folder, "resume": resume}

    async def _make_options(
        self, extra_roots: Sequence[str], servers: EditorServers
    ) -> dict[str, Any]:
        options = dict(self._options)
        plugin = EditorPlugin(self._client, servers)
        options["extra_plugins"] = [*options.get("extra_plugins", ()), plugin]
        settings = dict(options.get("settings") or {})
        if extra_roots:
            # The folders of the editor are added to those of the user.
            environ = options.get("environ", os.environ)
            read_settings = partial(
                load, [KernelSettings], known=None, strict=False, environ=environ
            )
            known = (await trio.to_thread.run_sync(read_settings)).get(KernelSettings)
            settings.setdefault("extra_roots", [*known.extra_roots, *extra_roots])
        options["settings"] = settings
        return {**options, "needs_model": False, "attended": True, "kind": "main"}

    async def _run_session(
        self, slot: _SessionSlot, options: Mapping[str, Any], shows_history: bool
    ) -> None:
        """Open a session, and serve it until it is closed or the editor leaves."""
        identity = ""
        try:
            with slot.scope:
                async with open_standard_session(**options) as session:
                    identity = session.id
                    self._sessions[identity] = slot
                    opened = EditorSession(self._client, session, shows_history=shows_history)
                    await self._serve_session(slot, opened)
        except* HilumError as group:
            error = find_first_error(group)
            assert isinstance(error, HilumError)
            if slot.ready.is_set():
                _logger.error("A session has failed.", exc_info=error)
            slot.error = error
        except* Exception as group:
            # A mistake in one session must not end the others.
            _logger.error("A session has failed.", exc_info=group)
            slot.error = HilumError("The session has failed; hilum's log says why.")
        finally:
            if self._sessions.get(identity) is slot:
                del self._sessions[identity]
            self._slots.discard(slot)
            slot.ready.set()
            slot.closed.set()

    async def _serve_session(self, slot: _SessionSlot, opened: EditorSession) -> None:
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(opened.run)
                slot.editor_session = opened
                slot.ready.set()
                await slot.close.wait()
                if slot.stop_runs:
                    await opened.stop()
                nursery.cancel_scope.cancel()
        finally:
            if slot.close.is_set() and not slot.keep_unused:
                opened.discard_unused()

    async def _check_existing(self, session: str, folder: Path) -> None:
        """Check that a session exists and belongs to a folder.

        Raises:
            RpcError: It does not.
        """
        info = await self._find_info(session)
        if Path(unspell_folder(info.workspace)) != folder:
            raise make_rpc_error(
                INVALID_PARAMS,
                E_BAD_ARGS,
                f"The session belongs to {info.workspace}, not to {folder}.",
                "Open that folder to continue the session.",
            )

    async def _find_info(self, session: str) -> SessionInfo:
        info = None
        async with open_kernel(storage_plugins()) as kernel:
            try:
                info = await kernel.store.info(session)
            except StoreError as error:
                if error.code != E_UNKNOWN:
                    raise
        # The store also finds sessions by the beginning of their id.
        if info is None or info.id != session:
            raise RpcError(RESOURCE_NOT_FOUND, f"There is no session {session!r}.")
        return info

    # --- sessions ---------------------------------------------------------------------------------

    def _find(self, session: str) -> EditorSession:
        """Return an open session.

        Raises:
            RpcError: It is not open.
        """
        slot = self._sessions.get(session)
        if slot is None or slot.editor_session is None or slot.close.is_set():
            raise RpcError(
                RESOURCE_NOT_FOUND,
                f"The session {session!r} is not open. Open it with session/load or session/new.",
            )
        return slot.editor_session

    async def _list(self, params: dict[str, Any]) -> dict[str, Any]:
        given = read(messages.ListSessions, params)
        folder = ""
        if given.cwd is not None:
            folder = str(await trio.to_thread.run_sync(_find_folder, given.cwd))
        start = _read_cursor(given.cursor)
        async with open_kernel(storage_plugins()) as kernel:
            listed = await kernel.store.list(folder)
            await _delete_unused(kernel.store, listed)
        infos = [info for info in listed if info.title]
        page = infos[start : start + PAGE]
        result: dict[str, Any] = {"sessions": [_describe_session(info) for info in page]}
        if start + PAGE < len(infos):
            result["nextCursor"] = str(start + PAGE)
        return result

    async def _close(self, params: dict[str, Any]) -> dict[str, Any]:
        session = read(messages.SessionOnly, params).session_id
        self._find(session)
        await self._close_session(session)
        return {}

    async def _close_session(
        self, session: str, *, stop_runs: bool = True, keep_unused: bool = False
    ) -> None:
        """Close a session, if it is open.

        Args:
            session: Its id.
            stop_runs: Whether its runs are stopped; otherwise, they are interrupted.
            keep_unused: Whether it is kept, although it was never used.
        """
        slot = self._sessions.get(session)
        if slot is not None:
            slot.stop_runs = stop_runs
            slot.keep_unused = keep_unused
            slot.close.set()
            await slot.closed.wait()

    async def _delete(self, params: dict[str, Any]) -> dict[str, Any]:
        session = read(messages.SessionOnly, params).session_id
        info = await self._find_info(session)
        # Kept, because otherwise a session that was never used would be deleted twice.
        await self._close_session(session, keep_unused=True)
        async with open_kernel(storage_plugins()) as kernel:
            await kernel.store.delete(info.id)
        return {}

    async def _set_mode(self, params: dict[str, Any]) -> dict[str, Any]:
        given = read(messages.SetMode, params)
        self._find(given.session_id).set_option("mode", given.mode_id)
        return {}

    async def _set_config_option(self, params: dict[str, Any]) -> dict[str, Any]:
        given = read(messages.SetConfigOption, params)
        opened = self._find(given.session_id)
        opened.set_option(given.config_id, given.value)
        return {"configOptions": await opened.describe_options()}

    def _prompt(self, params: dict[str, Any]) -> Any:
        given = read(messages.Prompt, params)
        return self._find(given.session_id).prompt(given.prompt)

    async def _cancel(self, params: dict[str, Any]) -> None:
        # Not initialized or not open: a notification has no response, and there is nothing to stop.
        session = read(messages.SessionOnly, params).session_id
        self._find(session).cancel()


async def _convert_errors(answer: Any) -> Any:
    """Await an answer; errors of the request, and not of hilum, get the code for that."""
    try:
        return await answer
    except HilumError as error:
        raise to_rpc_error(error) from None


def _find_folder(folder: str) -> Path:
    """Return the real path of a folder that the editor names.

    Raises:
        RpcError: It is not an absolute path, or not a folder.
    """
    if not os.path.isabs(folder):
        raise RpcError(INVALID_PARAMS, f"{folder!r} is not an absolute path.")
    real = Path(os.path.realpath(folder))
    if not real.is_dir():
        raise RpcError(INVALID_PARAMS, f"There is no folder {folder!r}.")
    return real


def _find_workspace(folder: str) -> Path:
    """Return the real path of a folder in which commands are to run.

    Raises:
        RpcError: As for ``_find_folder``, or the folder is the whole file system.
    """
    real = _find_folder(folder)
    try:
        check_workspace(real)
    except UsageError as error:
        raise RpcError(INVALID_PARAMS, error.message) from None
    return real


def _read_cursor(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 9:
        raise RpcError(INVALID_PARAMS, f"{cursor!r:.50} is not a cursor of a list of sessions.")
    return int(cursor)


async def _delete_unused(store: Store, infos: Sequence[SessionInfo]) -> None:
    """Delete old sessions without a prompt, which editors create whenever they open a panel.

    These may be sessions of any program, because there is nothing in them to continue.
    """
    for info in infos:
        is_old = info.updated < time.time() - UNUSED_SECONDS
        if is_old and not await is_used(store, info):
            with suppress(StoreError):  # a process has it open
                await store.delete(info.id)


def _describe_session(info: SessionInfo) -> dict[str, Any]:
    described = {"sessionId": info.id, "cwd": unspell_folder(info.workspace), "title": info.title}
    if info.updated:
        described["updatedAt"] = datetime.fromtimestamp(info.updated, UTC).isoformat()
    return described
