"""Caches the servers of a workspace, as the last session found them, in one small file.

With this cache, a session starts without reading the configuration files of servers that it does
not use. The cache is valid as long as its source files are unchanged: configurations, decisions and
offers. The cache alone never starts a server: before a server is started, its configuration and its
approval are read again. The cache contains no part of a configuration that may be secret.
"""

import hashlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from hilum import config_folder, data_folder
from hilum.trust import is_trusted

from hilum_mcp.offer import Offer, write_cache
from hilum_mcp.paths import (
    CLAUDE_SETTINGS,
    DECISIONS_FILE,
    FILE,
    PROJECT_FILES,
    SHARED_FILES,
)

# The version of the cache format, which increases with each change, so that older caches are
# ignored.
FORMAT = 3
# Minimum age, in nanoseconds, of a file's last change. A further change might otherwise leave the
# timestamps unchanged, because file systems record times in steps of up to two seconds.
SETTLED_NS = 2_000_000_000

FileStamp = tuple[int, int, int, int, int]


class Fingerprint(msgspec.Struct, frozen=True):
    """A fingerprint that changes whenever a source file of the cache changes.

    Args:
        scope: The cache format, the workspace, the settings folder and the home folder.
        stamps: The identity, size and timestamps of each file; ``None`` for a missing file.
    """

    scope: tuple[int, str, str, str]
    stamps: tuple[FileStamp | None, ...]


class ServerSummary(msgspec.Struct, frozen=True, omit_defaults=True):
    """The data that a session needs about a server before it uses the server.

    Args:
        name: The name of the server.
        digest: ``ServerConfig.digest``.
        prefix: The prefix for the server's tool names.
        state: As in ``CatalogEntry``.
        reason: Why the state is not ``on``.
        start_seconds: The configured time limit for a start, in seconds.
        call_seconds: The configured time limit for a call, in seconds.
        offer: The server's last offer; ``None`` if unknown.
        names: The model's names for the server's tools, by the server's names for them, without
            the tools that the configuration excludes.
        is_local: Whether the server runs on this machine, so that its tools may change files here.
        from_project: Whether a project configures the server.
        prog: As in ``ServerConfig``.
    """

    name: str
    digest: str
    prefix: str
    state: str = "on"
    reason: str = ""
    start_seconds: float | None = None
    call_seconds: float | None = None
    offer: Offer | None = None
    names: dict[str, str] = {}
    is_local: bool = True
    from_project: bool = False
    prog: str = "hilum mcp"


class _CachedServers(msgspec.Struct, frozen=True):
    """The content of a cache file.

    Args:
        fingerprint: The state of the cache's source files.
        trusted: Whether the user trusted the project; ``None`` if it configures no servers.
        servers: The servers.
    """

    fingerprint: Fingerprint
    trusted: bool | None
    servers: tuple[ServerSummary, ...]


def take_fingerprint(workspace: str | os.PathLike[str]) -> Fingerprint:
    """Return the state of all files that determine which servers exist. Blocks."""
    root = os.fspath(workspace)
    config = str(config_folder())
    data = str(data_folder())
    # The timestamps of the folder that contains the offers change with every offer, because
    # `write_cache` renames a file into it.
    paths = [f"{config}/{FILE}", f"{config}/{DECISIONS_FILE}", f"{data}/mcp/offers"]
    names = (*PROJECT_FILES, *SHARED_FILES, *CLAUDE_SETTINGS)
    paths += [f"{root}/{name}" for name in names]
    scope = (FORMAT, root, config, os.path.expanduser("~"))
    stamps = [_stamp(path) for path in paths]
    return Fingerprint(scope, tuple(stamps))


def _stamp(path: str) -> FileStamp | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    # A program can set a file's modification time (mtime) to any value, but not its change time
    # (ctime).
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def load_summaries(fingerprint: Fingerprint) -> tuple[ServerSummary, ...] | None:
    """Return the cached servers, or ``None`` if there is no cache or a file changed. Blocks.

    Args:
        fingerprint: The current state of the files.
    """
    try:
        cached = msgspec.json.decode(_file(fingerprint).read_bytes(), type=_CachedServers)
    except (OSError, msgspec.DecodeError, UnicodeError):
        return None
    if fingerprint != cached.fingerprint:
        return None
    # The user's decision to trust a project is not in any of the stamped files.
    if cached.trusted is not None:
        root = os.path.realpath(fingerprint.scope[1])
        if is_trusted(root) != cached.trusted:
            return None
    return cached.servers


def save_summaries(
    fingerprint: Fingerprint,
    trusted: bool | None,
    servers: Sequence[ServerSummary],
) -> None:
    """Cache the servers of a workspace, if the next session can use the cache. Blocks.

    Args:
        fingerprint: The state of the source files before they were read.
        trusted: As in ``_CachedServers``.
        servers: The servers.
    """
    # Windows does not record when a file's metadata last changed, so timestamps can be reset
    # unnoticed.
    if os.name == "nt" or not all(map(_can_be_cached, servers)):
        return
    newest = max((stamp[-1] for stamp in fingerprint.stamps if stamp), default=0)
    if time.time_ns() - newest > SETTLED_NS:
        cached = _CachedServers(fingerprint, trusted, tuple(servers))
        write_cache(_file(fingerprint), msgspec.json.encode(cached))


def _can_be_cached(server: ServerSummary) -> bool:
    # A server without an offer has to start anyway, and any other state must be checked again.
    if server.state == "on":
        return server.offer is not None
    return server.state == "off"


def _file(fingerprint: Fingerprint) -> Path:
    scope = os.fsencode(f"{fingerprint.scope[1]}\0{fingerprint.scope[2]}")
    name = hashlib.sha256(scope).hexdigest()[:32]
    return data_folder() / "mcp" / "sessions" / f"{name}.json"
