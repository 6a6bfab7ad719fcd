"""The texts of files that hilum serves to a guest, after the tool for reading has allowed it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import trio
from hilum import ContentPolicy, EditorFiles, HilumError

from hilum_acp.json_rpc import RpcError

if TYPE_CHECKING:
    from hilum import Agent

MAX_BYTES = 16_000_000
REFUSED = -32001
"""The error code of a request that hilum does not carry out."""
CLOCK_STEP = 0.02
"""Seconds between two times that file systems certainly distinguish."""
MAX_READS = 5
"""Reads through the editor until nothing changed in the folders meanwhile."""


class FileServer:
    """Serves the texts of files to the guest of an agent.

    A guest can replace a file or a folder with a link at any time. A path is therefore resolved
    once, before the call that asks for the file; what is read afterwards is the file at this
    resolved path, and no link is followed any more.

    Args:
        agent: The agent.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def resolve(self, path: str) -> str:
        """Return a path without links; a path that cannot be used is returned as it is."""
        try:
            return str(self._agent.session.workspace.resolve(path))
        except HilumError:
            # The tool reports what is wrong with the path.
            return path

    async def read_text(self, path: str) -> str:
        """Return the text of a file, without its secrets.

        Args:
            path: The resolved path.

        Raises:
            RpcError: The file cannot be served.
        """
        policy = self._agent.session.plugin(ContentPolicy)
        try:
            text = await self._read(Path(path))
        except UnicodeDecodeError:
            raise RpcError(REFUSED, "The file is not UTF-8 text.") from None
        except (OSError, HilumError) as error:
            raise RpcError(REFUSED, f"The file cannot be read: {error}") from None
        if policy is None:
            return text
        # The same text as any agent would read: secrets in it are replaced.
        return await trio.to_thread.run_sync(policy.redact, text, path)

    async def _read(self, path: Path) -> str:
        editor = self._agent.session.plugin(EditorFiles)
        if editor is None:
            return await self._read_file(path)
        for _ in range(MAX_READS):
            before = await trio.to_thread.run_sync(self._find_identity, path)
            # What the user sees, with the changes that are not saved yet.
            shown = await editor.read_in_editor(path)
            if shown is None:
                return await self._read_file(path)
            # An editor follows links. A link that was there while the editor read has changed the
            # folder that contains it.
            after = await trio.to_thread.run_sync(self._find_identity, path)
            if before == after:
                return shown
        raise RpcError(REFUSED, "The folder of the file changes all the time. Try again.")

    async def _read_file(self, path: Path) -> str:
        def read() -> bytes:
            with self._agent.session.workspace.at(path) as place:
                _check_same(place.path, path)
                with place.open() as file:
                    return file.read(MAX_BYTES + 1)

        data = await trio.to_thread.run_sync(read, abandon_on_cancel=True)
        if len(data) > MAX_BYTES:
            raise RpcError(REFUSED, f"The file has more than {MAX_BYTES:,} bytes.")
        return data.decode()

    def _find_identity(self, path: Path) -> list[_Identity | None]:
        """Return the identity of each folder in the workspace on the way to a file. Blocks.

        Raises:
            RpcError: The path leads through a link.
        """
        workspace = self._agent.session.workspace
        _check_same(workspace.resolve(path), path)
        root = next(root for root in workspace.roots if path.is_relative_to(root))
        folders = [each for each in path.parents if each.is_relative_to(root)]
        found = [_identify(folder) for folder in folders]
        newest = max((each.changed for each in found if each is not None), default=0)
        if time.time() - newest / 1e9 < CLOCK_STEP:
            # A change at the same time as the last one would not be visible.
            time.sleep(CLOCK_STEP)
        return found


class _Identity(NamedTuple):
    """A folder, and the time in nanoseconds at which its entries changed last."""

    device: int
    inode: int
    changed: int


def _identify(folder: Path) -> _Identity | None:
    try:
        status = os.lstat(folder)
    except FileNotFoundError:
        return None
    return _Identity(status.st_dev, status.st_ino, status.st_ctime_ns)


def _check_same(found: Path, path: Path) -> None:
    """Check that a path has remained the one that was judged.

    Raises:
        RpcError: A link has appeared in it.
    """
    if found != path:
        raise RpcError(REFUSED, "The path leads through a link that was not there before.")
