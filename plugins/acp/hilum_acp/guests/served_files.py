"""The texts of files that hilum serves to a guest, after the tool for reading has allowed it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from hilum import ContentPolicy, EditorFiles, HilumError

from hilum_acp.json_rpc import RpcError

if TYPE_CHECKING:
    from hilum import Agent

MAX_BYTES = 16_000_000
REFUSED = -32001


class FileServer:
    """Serves the texts of files to the guest of an agent.

    Args:
        agent: The agent.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    async def read_text(self, path: str) -> str:
        """Return the text of a file, without its secrets.

        Raises:
            RpcError: The file cannot be served.
        """
        session = self._agent.session
        policy = session.plugin(ContentPolicy)
        try:
            text = await self._read(path)
        except UnicodeDecodeError:
            raise RpcError(REFUSED, "The file is not UTF-8 text.") from None
        except (OSError, HilumError) as error:
            raise RpcError(REFUSED, f"The file cannot be read: {error}") from None
        if policy is None:
            return text
        # The same text as any agent would read: secrets in it are replaced.
        return await trio.to_thread.run_sync(policy.redact, text, path)

    async def _read(self, path: str) -> str:
        session = self._agent.session
        editor = session.plugin(EditorFiles)
        if editor is not None:
            # What the user sees, with the changes that are not saved yet.
            shown = await editor.read_in_editor(session.workspace.resolve(path))
            if shown is not None:
                return shown
        return (await session.workspace.read_bytes(path, MAX_BYTES)).decode()
