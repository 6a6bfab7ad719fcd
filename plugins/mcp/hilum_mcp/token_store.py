"""Stores login tokens and registrations in files that only the user can read."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import trio
from hilum import data_folder, make_private_folder
from trio.to_thread import run_sync as in_thread

from hilum_mcp import lazy
from hilum_mcp.private_files import write_private

if TYPE_CHECKING:
    from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

    from hilum_mcp.server_config import ServerConfig

T = TypeVar("T")
LOCK_ATTEMPTS = 600
# Seconds between two attempts to acquire the lock, 30 s in total.
LOCK_INTERVAL = 0.05

if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def token_file(server: ServerConfig) -> Path:
    """Return the path of the file that stores the login to a server.

    The path depends on the configuration file, the server's name and URL, and the OAuth options.
    """
    # The path depends on the URL, so that tokens are never sent to a server for which they were not
    # issued.
    options = sorted((server.oauth or {}).items())
    bound = json.dumps([str(server.file), server.name, server.url, options])
    digest = hashlib.sha256(bound.encode()).hexdigest()[:16]
    return data_folder() / "mcp" / "tokens" / f"{server.prefix}-{digest}.json"


def forget_login(server: ServerConfig) -> bool:
    """Remove the login to a server, and return whether a login was stored. Blocks."""
    path = token_file(server)
    is_there = path.exists()
    path.unlink(missing_ok=True)
    return is_there


def _open_lock(path: Path) -> int:
    make_private_folder(path.parent)
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def _try_lock(handle: int) -> bool:
    try:
        _lock(handle)
    # Windows raises PermissionError if another process holds the lock.
    except (BlockingIOError, PermissionError):
        return False
    except OSError:  # some network file systems have no locks
        return True
    return True


class TokenStore:
    """The storage of one login, with the interface of the SDK's ``TokenStorage``.

    An unreadable file counts as empty, so that the user logs in again.

    Args:
        file: The file.
        client: A client that the user registered and configured; ``None`` for a client that
            registers itself.
    """

    def __init__(self, file: Path, client: OAuthClientInformationFull | None = None) -> None:
        self.file = file
        self.client = client

    def read(self) -> dict[str, Any]:
        """Return all stored values. Blocks."""
        try:
            data = json.loads(self.file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return data if isinstance(data, dict) else {}

    def update(self, **changes: Any) -> None:
        """Change some values atomically. Blocks.

        Raises:
            StoreError: The values cannot be written.
        """
        write_private(self.file, json.dumps({**self.read(), **changes}, indent=1))

    @asynccontextmanager
    async def renewal_lock(self) -> AsyncIterator[None]:
        """Prevent other sessions from renewing these tokens while the block runs."""
        # The lock is a separate file, because every change replaces the file with the tokens.
        handle = await in_thread(_open_lock, self.file.with_suffix(".lock"))
        try:
            for _ in range(LOCK_ATTEMPTS):  # a session that holds the lock for longer is stuck
                if _try_lock(handle):
                    break
                await trio.sleep(LOCK_INTERVAL)
            yield
        finally:
            # Closing the file also releases its lock.
            os.close(handle)

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens, even if they have expired, because they may be renewable."""
        stored = await in_thread(self.read)
        models = lazy.oauth_models
        return models.parse_stored(models.OAuthToken, stored.get("tokens"))

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store tokens and their expiry time."""
        until = None if tokens.expires_in is None else time.time() + tokens.expires_in
        data = tokens.model_dump(mode="json", exclude_none=True)
        await in_thread(lambda: self.update(tokens=data, until=until))

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the registration of the client."""
        if self.client is not None:
            return self.client
        stored = await in_thread(self.read)
        models = lazy.oauth_models
        return models.parse_stored(models.OAuthClientInformationFull, stored.get("client"))

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store the registration of the client."""
        data = client_info.model_dump(mode="json", exclude_none=True)
        await in_thread(lambda: self.update(client=data))
