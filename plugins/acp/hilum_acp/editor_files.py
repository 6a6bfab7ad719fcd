"""The editor's files as a service of the session: unsaved text is read, and changes are shown."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import trio
from hilum import EditorFiles, Kernel, Session, ToolError, hookimpl
from hilum.errors import E_FAILED, E_INTERRUPTED, E_TIMEOUT

from hilum_acp.client import Client
from hilum_acp.json_rpc import ConnectionLost, RpcError, UnreadableResponse
from hilum_acp.offered_servers import EditorServers

READ_SECONDS = 10.0
WRITE_SECONDS = 30.0
"""An editor may format a file before it saves it."""
PATIENCE_SECONDS = 5.0
"""How much of the time for a write remains if its call is stopped; a session waits longer for that."""


class OpenEditor:
    """The files of one session in the editor. Implements ``hilum.EditorFiles``.

    Args:
        client: The editor.
        session: Id of the session.
    """

    def __init__(self, client: Client, session: str) -> None:
        self._client = client
        self._session = session

    @property
    def can_write_in_editor(self) -> bool:
        """Whether the editor also writes files."""
        return self._client.abilities.fs.write_text_file

    async def read_in_editor(self, path: Path) -> str | None:
        """Return the text of a file as the editor shows it; ``None`` if the editor has none."""
        params = {"sessionId": self._session, "path": str(path)}
        try:
            with trio.fail_after(READ_SECONDS):
                result = await self._request("fs/read_text_file", params)
        except trio.TooSlowError:
            raise ToolError(
                f"The editor did not return the text of the file within {READ_SECONDS:g} seconds.",
                code=E_TIMEOUT,
                hint="Try again.",
            ) from None
        content = result.get("content") if isinstance(result, dict) else None
        return content if isinstance(content, str) else None

    async def write_in_editor(self, path: Path, text: str) -> bool:
        """Replace the text of a file in the editor and save it; return whether the editor did."""
        params = {"sessionId": self._session, "path": str(path), "content": text}
        # A write that has begun is not abandoned at once, so that its outcome is known.
        seconds = WRITE_SECONDS - PATIENCE_SECONDS
        try:
            with trio.fail_after(seconds):
                result = await self._request("fs/write_text_file", params, PATIENCE_SECONDS)
        except trio.TooSlowError:
            raise ToolError(
                f"The editor did not confirm within {WRITE_SECONDS:g} seconds that it wrote the"
                " file; it may have changed the file, or still change it.",
                code=E_TIMEOUT,
                hint="Read the file before you continue.",
            ) from None
        return result is not _REFUSED

    async def _request(self, method: str, params: Mapping[str, Any], patience: float = 0.0) -> Any:
        """Send a request; an error response, as for a file that does not exist, is no error.

        Raises:
            ToolError: The editor has left, or its response cannot be read.
        """
        try:
            return await self._client.connection.request(method, params, patience=patience)
        except UnreadableResponse as error:
            # The editor may have unsaved text, which the file on the disk must not stand in for, or
            # it may have written the file.
            hint = "Tell the user to save the file and to close it in the editor."
            if method == "fs/write_text_file":
                hint = "Read the file before you continue."
            raise ToolError(
                f"The response of the editor cannot be read. {error.message}",
                code=E_FAILED,
                hint=hint,
            ) from None
        except RpcError:
            return _REFUSED
        except ConnectionLost:
            raise ToolError("The editor has closed the connection.", code=E_INTERRUPTED) from None


_REFUSED = object()


class EditorPlugin:
    """A plugin object that gives a session the editor's files and MCP servers.

    Args:
        client: The editor.
        servers: The editor's MCP servers for the session.
    """

    def __init__(self, client: Client, servers: EditorServers) -> None:
        self._client = client
        self._servers = servers

    @hookimpl
    def open_kernel(self, kernel: Kernel) -> EditorServers:
        """Return the servers; the kernel has only this session."""
        return self._servers

    @hookimpl
    def open_session(self, session: Session) -> OpenEditor | None:
        """Return the session's access to the editor, if the editor gives any.

        Without reading, hilum could not know whether a write would overwrite unsaved text.
        """
        if not self._client.abilities.fs.read_text_file:
            return None
        return OpenEditor(self._client, session.id)


async def read_for_preview(session: Session, path: str) -> str | None:
    """Return the text of a file as the editor shows it, for a diff; ``None`` if it shows none.

    Raises:
        ToolError: The path leads out of the workspace, or the editor does not respond.
    """
    editor = session.plugin(EditorFiles)
    return await editor.read_in_editor(session.workspace.resolve(path)) if editor else None
