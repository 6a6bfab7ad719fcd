"""A workspace as one tool call sees it: what it changes the agent has read as it is, and every
change is written down.

The order of a change: take the lock, compare, keep what was and what will be, write that the change
begins, make it, write that it was made. Two hilum processes in one workspace wait for each other at
the lock; a program that knows nothing of it can still change a file in the instant between
comparing and replacing.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import attrs
from hilum import StoreError, ToolError, Workspace, errors

from hilum_files.journal.objects import hash_of
from hilum_files.journal.records import Change, spell, unspell
from hilum_files.journal.tree import Node, node_at
from hilum_files.text import decode, show, unified_diff

if TYPE_CHECKING:
    from hilum_files.journal.objects import Objects

PATIENCE = 20.0
KEEP_LIMIT = 400_000_000
DIFF_LINES = 20
DIFF_BYTES = 1_000_000


class Book(Protocol):
    """Where the changes of one call are written down. Used in the thread that makes the change.

    Attributes:
        objects: Keeps contents.
        alone: Held during a change, and during every look at the whole tree.
    """

    objects: Objects
    alone: threading.Lock

    def begin(self, changes: tuple[Change, ...]) -> str:
        """Write down that changes begin; gives the name of the record."""

    def end(self, name: str, changes: tuple[Change, ...]) -> None:
        """Write down what was changed, which may be nothing."""

    def cause(self, path: str) -> str:
        """Return who last changed a path, as words; empty if nobody known."""


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """Hold the lock that all hilum processes in a workspace share.

    Where a system or disk has no such locks, it is none.

    Raises:
        ToolError: ``E_BUSY``, another process has held it for twenty seconds.
    """
    try:
        import fcntl

        held = os.open(root, os.O_RDONLY)
    except (ImportError, OSError):
        yield
        return
    try:
        until = time.monotonic() + PATIENCE
        wait = 0.0005
        while True:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > until:
                    message = (
                        f"Another hilum has been changing files in {root} for {PATIENCE:g} seconds."
                    )
                    raise ToolError(message, code=errors.E_BUSY, hint="Try again later.") from None
                time.sleep(wait)
                wait = min(wait * 2, 0.01)
                continue
            except OSError:
                pass
            break
        yield
    finally:
        os.close(held)


@attrs.frozen(kw_only=True, eq=False)
class Guarded(Workspace):
    """See the module.

    Args:
        book: Where changes are written down.
        seen: The hash of each file's content as the agent last saw it, by spelled path.
    """

    book: Book
    seen: Mapping[str, str]
    # The hash of what was read to be changed: the file must still hold it when it is replaced.
    held: dict[Path, str] = attrs.field(factory=dict, init=False)

    @classmethod
    def of(cls, workspace: Workspace, book: Book, seen: Mapping[str, str]) -> Guarded:
        """Guard a workspace."""
        fields: dict[str, Any] = {
            str(field.alias): getattr(workspace, field.name)
            for field in attrs.fields(Workspace)
            if field.init
        }
        return cls(**fields, book=book, seen=seen)

    def check(self, real: Path, data: bytes, hashed: str) -> None:
        """Refuse to change a file that the agent does not know as it is; remember what it is.

        What cannot be read as text needs no reading, nor does an empty file: there is nothing to
        know.

        Raises:
            ToolError: ``E_STALE``: the agent has not read it, or it changed since.
        """
        self.held[real] = hashed
        name = spell(self.relative(real))
        known = self.seen.get(name)
        shown = show(self.relative(real))
        if known == hashed or not _readable(data):
            return
        if known is None:
            message = f"{shown} exists and you have not read it; nothing was changed."
            raise ToolError(message, code=errors.E_STALE, hint="Read it first.")
        cause = self.book.cause(name)
        message = (
            f"{shown} changed since you last saw it{cause and f' ({cause})'}; nothing was changed."
        )
        raise ToolError(
            message, code=errors.E_STALE, hint=f"Read it again.{self._since(shown, known, data)}"
        )

    def hold(self, real: Path, file: BinaryIO) -> None:
        """Remember what a file holds that is to be replaced unread, because the user said so."""
        self.held[real] = hash_file(file)

    def _since(self, shown: str, known: str, data: bytes) -> str:
        """Show briefly what changed, where the content that the agent saw is kept."""
        old = self.book.objects.get(known)
        if old is None or len(old) + len(data) > DIFF_BYTES or not _readable(old):
            return ""
        lines = unified_diff(shown, old.decode(), data.decode()).splitlines()
        if len(lines) > DIFF_LINES:
            more = f"\n… and {len(lines) - DIFF_LINES} lines more"
        else:
            more = ""
        return "\nWhat changed:\n" + "\n".join(lines[:DIFF_LINES]) + more

    @contextmanager
    def changing(self, real: Path, data: bytes | None) -> Iterator[None]:
        """Hold everybody off while the body puts a content (or nothing) at a path, and write it
        down.
        """
        with self.book.alone, locked(self.root):
            before, contents = self._look(real)
            if data is not None and before is not None and real not in self.held:
                raise _changed(real)
            after = None
            if data is not None:
                after = Node("file", before.mode if before else 0o644, hash_of(data))
                contents.append(data)
            self._keep(contents)
            made = _missing(real) if after else []
            changes = (
                *(
                    Change(spell(self.relative(folder)), None, Node("folder", 0o755))
                    for folder in made
                ),
                Change(spell(self.relative(real)), before, after),
            )
            name = self.book.begin(changes)
            done = False
            try:
                yield
                done = True
            except ToolError as error:
                done = error.code == errors.E_READBACK_FAIL
                raise
            finally:
                self.book.end(name, happened(self.root, changes, doubt=done))

    def _look(self, real: Path) -> tuple[Node | None, list[bytes]]:
        contents: list[bytes] = []

        def keep(data: bytes) -> str:
            contents.append(data)
            return hash_of(data)

        with suppress(FileNotFoundError):
            if os.lstat(real).st_size > KEEP_LIMIT:
                message = (
                    f"{show(real.name)!r} is larger than {KEEP_LIMIT:,} bytes: it could not be"
                    " brought back."
                )
                raise ToolError(message, hint="Use a command, if it has to be.")
        before = node_at(real, keep)
        held = self.held.get(real)
        if held is not None and (before is None or before.hash != held):
            raise _changed(real)
        return before, contents

    def _keep(self, contents: list[bytes]) -> None:
        try:
            self.book.objects.put(contents)
        except StoreError as error:
            raise ToolError(
                f"Nothing was changed. {error.message}", code=error.code, hint=error.hint
            ) from None


def held_file(workspace: Workspace, real: Path, file: BinaryIO, limit: int) -> bytes:
    """Read a file that is to be changed, at most ``limit`` bytes of it.

    A guarded workspace says no as ``check`` does.
    """
    data = file.read(limit)
    if isinstance(workspace, Guarded):
        hashed = hash_of(data) if len(data) < limit else hash_file(file)
        workspace.check(real, data, hashed)
    return data


def hash_file(file: BinaryIO) -> str:
    """Name all the content of an open file, of any size, and go back to its beginning."""
    file.seek(0)
    digest = blake2b(digest_size=20)
    while chunk := file.read(1 << 20):
        digest.update(chunk)
    file.seek(0)
    return digest.hexdigest()


@contextmanager
def changing(workspace: Workspace, real: Path, data: bytes | None) -> Iterator[None]:
    """Hold the body to the rules of a guarded workspace; one that is not guarded has none."""
    with workspace.changing(real, data) if isinstance(workspace, Guarded) else nullcontext():
        yield


def happened(root: Path, changes: tuple[Change, ...], *, doubt: bool) -> tuple[Change, ...]:
    """Return what became of changes that were begun.

    Args:
        root: The workspace.
        changes: What was to be changed.
        doubt: Whether to count a change at a path that holds neither what was there nor what was to
            be: somebody else came after it.
    """
    made = []
    for change in changes:
        try:
            now = node_at(root / unspell(change.path), hash_of)
        except OSError:
            now = None
        if _alike(now, change.after):
            made.append(Change(change.path, change.before, now))
        elif doubt and now != change.before:
            made.append(change)
    return tuple(made)


def _alike(a: Node | None, b: Node | None) -> bool:
    return (a is None) == (b is None) and (
        a is None or b is None or (a.kind, a.hash) == (b.kind, b.hash)
    )


def _readable(data: bytes) -> bool:
    try:
        return bool(decode(data, ""))
    except ToolError:
        return False


def _changed(real: Path) -> ToolError:
    message = f"{show(real.name)!r} changed meanwhile; it was not written."
    return ToolError(message, code=errors.E_STALE, hint="Read it.")


def _missing(real: Path) -> list[Path]:
    """The folders on the way to a path that are not there, outermost first."""
    missing = []
    for folder in real.parents:
        if os.path.lexists(folder):
            break
        missing.append(folder)
    return missing[::-1]
