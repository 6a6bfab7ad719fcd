"""What logging in at a server gave: tokens, the registration as a client, and where they belong; for the user only."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio
from hilum import data_folder

if TYPE_CHECKING:
    from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

    from hilum_mcp.server import Server


def file_of(server: Server) -> Path:
    """Give the file of a server. It is bound to the file that describes it, its name and its address."""
    bound = json.dumps([str(server.file), server.name, server.url])
    return data_folder() / "mcp" / "tokens" / f"{server.prefix}-{hashlib.sha256(bound.encode()).hexdigest()[:16]}.json"


def forget(server: Server) -> bool:
    """Remove what is kept of a server; gives whether there was anything. Blocks."""
    path = file_of(server)
    there = path.exists()
    path.unlink(missing_ok=True)
    return there


class Kept:
    """The storage that the SDK asks. A file that cannot be read counts as none: the user logs in again.

    Args:
        file: Where it is kept.
        client: A client that was registered beforehand, ``None`` for one that registers itself.
    """

    def __init__(self, file: Path, client: OAuthClientInformationFull | None = None) -> None:
        self.file, self.client = file, client

    def read(self) -> dict[str, Any]:
        """Give all that is kept. Blocks."""
        try:
            data = json.loads(self.file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return data if isinstance(data, dict) else {}

    def update(self, **changes: Any) -> None:
        """Keep something, in one step. Blocks.

        Raises:
            StoreError: It cannot be written.
        """
        from hilum_mcp.saving import write_private

        write_private(self.file, json.dumps({**self.read(), **changes}, indent=1))

    async def get_tokens(self) -> OAuthToken | None:
        """Give the tokens, those that have run out among them: they may be renewed."""
        from mcp.shared.auth import OAuthToken
        from pydantic import ValidationError

        kept = (await trio.to_thread.run_sync(self.read)).get("tokens")
        try:
            return OAuthToken.model_validate(kept) if kept else None
        except ValidationError:
            return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep tokens, and until when they hold."""
        until = None if tokens.expires_in is None else time.time() + tokens.expires_in
        data = tokens.model_dump(mode="json", exclude_none=True)
        await trio.to_thread.run_sync(lambda: self.update(tokens=data, until=until))

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Give the registration as a client."""
        from mcp.shared.auth import OAuthClientInformationFull
        from pydantic import ValidationError

        if self.client is not None:
            return self.client
        kept = (await trio.to_thread.run_sync(self.read)).get("client")
        try:
            return OAuthClientInformationFull.model_validate(kept) if kept else None
        except ValidationError:
            return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keep a registration as a client."""
        data = client_info.model_dump(mode="json", exclude_none=True)
        await trio.to_thread.run_sync(lambda: self.update(client=data))
