"""Language servers: definitions, references, renames and diagnostics that are ready at once.

hilum starts the servers that a project uses and that are installed, in the sandbox and only when
they are needed. It installs none. Without a server, ``hilum-lint`` runs the checkers as before.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import trio
from hilum import hookimpl

from hilum_lsp.plugin import LanguageServers
from hilum_lsp.settings import LspSettings

if TYPE_CHECKING:
    from hilum import Session

__all__ = ["LanguageServers", "LspSettings", "open_session"]

# The gate adds the files of a rename to its call, so that the other gates and the user judge them.
gates = ("on_tool_call",)


@hookimpl
async def open_session(session: Session) -> AsyncIterator[LanguageServers]:
    """Yield the session plugin, whose servers end with the session."""
    settings = session.settings(LspSettings)
    # What the first call of a tool needs.
    session.import_later("hilum_lsp.server_pool", "hilum_lsp.renames")
    async with trio.open_nursery() as nursery:
        yield LanguageServers(session, nursery, settings)
        nursery.cancel_scope.cancel()
