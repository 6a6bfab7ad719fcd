"""What logging in at a server gave: tokens, the registration as a client, and where they belong.

For the user only.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio
from hilum import data_folder

if TYPE_CHECKING:
    from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

    from hilum_mcp.server import Server

TRIES, BETWEEN = 600, 0.05
"""How often it is looked whether another session is done with renewing, and seconds between two
looks.
"""


def file_of(server: Server) -> Path:
    """Return the file of a server.

    It is bound to the file that describes it, its name, its address, and as which client.
    """
    bound = json.dumps(
        [str(server.file), server.name, server.url, sorted((server.oauth or {}).items())]
    )
    return (
        data_folder()
        / "mcp"
        / "tokens"
        / f"{server.prefix}-{hashlib.sha256(bound.encode()).hexdigest()[:16]}.json"
    )


def forget(server: Server) -> bool:
    """Remove what is kept of a server; gives whether there was anything. Blocks."""
    path = file_of(server)
    there = path.exists()
    path.unlink(missing_ok=True)
    return there


if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _open_lock(path: Path) -> int:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)


def _locked(handle: int) -> bool:
    try:
        _lock(handle)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:  # some network file systems have no locks
        return True
    return True


class Kept:
    """The storage that the SDK asks.

    A file that cannot be read counts as none: the user logs in again.

    Args:
        file: Where it is kept.
        client: A client that was registered beforehand, ``None`` for one that registers itself.
    """

    def __init__(self, file: Path, client: OAuthClientInformationFull | None = None) -> None:
        self.file = file
        self.client = client

    def read(self) -> dict[str, Any]:
        """Return all that is kept. Blocks."""
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

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Wait until no other session renews these tokens, and let none do it while the block
        lasts.
        """
        handle = await trio.to_thread.run_sync(_open_lock, self.file.with_suffix(".lock"))
        try:
            for _ in range(TRIES):  # who holds it for longer is stuck
                if _locked(handle):
                    break
                await trio.sleep(BETWEEN)
            yield
        finally:
            os.close(handle)

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens, those that have run out among them: they may be renewed."""
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
        """Return the registration as a client."""
        from mcp.shared.auth import OAuthClientInformationFull
        from pydantic import ValidationError

        if self.client is not None:
            return self.client
        kept = (await trio.to_thread.run_sync(self.read)).get("client")
        try:
            if kept:
                return OAuthClientInformationFull.model_validate(kept)
            return None
        except ValidationError:
            return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keep a registration as a client."""
        data = client_info.model_dump(mode="json", exclude_none=True)
        await trio.to_thread.run_sync(lambda: self.update(client=data))
