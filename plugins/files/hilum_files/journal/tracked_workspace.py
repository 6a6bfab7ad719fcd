"""A workspace in which an agent changes only files it has read, and every change is recorded.

A change takes these steps: take the lock, compare, store the old and the new content, record that
the change begins, make it, and record that it was made. Two hilum processes in one workspace wait
for each other at the lock. A program that does not use the lock can still change a file in the
instant between the comparison and the replacement.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import attrs
from hilum import StoreError, ToolError, Workspace, errors

from hilum_files.journal.content_store import hash_content
from hilum_files.journal.records import Change, spell_path, unspell_path
from hilum_files.journal.tree import node_at
from hilum_files.journal.tree_entries import Node
from hilum_files.paths import find_link_above
from hilum_files.text import decode, quote, show, unified_diff

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from hilum_files.journal.changes import CallRecorder
    from hilum_files.journal.editor_log import LoggedEditor

LOCK_TIMEOUT = 20.0
MAX_LOCK_PAUSE = 0.01
MAX_KEPT_BYTES = 400_000_000
MAX_DIFF_LINES = 20
MAX_DIFF_BYTES = 1_000_000
_CHUNK_BYTES = 1 << 20


@contextmanager
def lock_workspace(root: Path) -> Iterator[int | None]:
    """Hold the lock shared by all hilum processes in a workspace.

    On operating systems and file systems without such locks, this function does nothing.

    Yields:
        The descriptor that holds the lock; ``None`` without a lock.

    Raises:
        ToolError: ``E_BUSY`` if another process holds the lock for twenty seconds.
    """
    if fcntl is None:
        yield None
        return
    try:
        # The folder itself is locked, so no lock file appears in the workspace.
        descriptor = os.open(root, os.O_RDONLY)
    except OSError:
        yield None
        return
    try:
        _wait_for_lock(root, descriptor)
        yield descriptor
    finally:
        os.close(descriptor)  # this releases the lock


@contextmanager
def try_workspace_lock(root: Path) -> Iterator[bool]:
    """Hold the lock of a workspace if no process holds it; this function never waits.

    Yields:
        Whether the lock is held, or there are no such locks.
    """
    if fcntl is None:
        yield True
        return
    try:
        descriptor = os.open(root, os.O_RDONLY)
    except OSError:
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_free = True
        except BlockingIOError:
            is_free = False
        except OSError:  # the file system does not support this lock
            is_free = True
        yield is_free
    finally:
        os.close(descriptor)


def _wait_for_lock(root: Path, descriptor: int) -> None:
    deadline = time.monotonic() + LOCK_TIMEOUT
    pause = 0.0005
    while True:
        try:
            # A blocking call would have no timeout.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            pass
        except OSError:  # the file system does not support this lock
            return
        if time.monotonic() > deadline:
            raise ToolError(
                f"Another hilum process has been changing files in {root} for {LOCK_TIMEOUT:g}"
                " seconds.",
                code=errors.E_BUSY,
                hint="Try again later.",
            )
        time.sleep(pause)
        pause = min(pause * 2, MAX_LOCK_PAUSE)


@attrs.frozen(kw_only=True, eq=False)
class TrackedWorkspace(Workspace):
    """The workspace for one tool call; see the module's docstring.

    Args:
        recorder: Records the changes.
        seen: The hash of each file's content as the agent last saw it, by spelled path.
        shows_differences: Whether an error about a changed file quotes the new content.
        editor: The user's editor, through which files are changed, if the session has one.
        unsaved: The unsaved texts of files in the editor, by resolved path.
        running: What runs in the session that may put a link in place of a folder; empty for
            nothing.
    """

    recorder: CallRecorder
    seen: Mapping[str, str]
    shows_differences: bool = True
    editor: LoggedEditor | None = None
    unsaved: Mapping[Path, bytes] = attrs.field(factory=dict)
    running: str = ""
    # The hash of each file when it was read for a change. A file whose hash has changed is not
    # replaced.
    expected: dict[Path, str] = attrs.field(factory=dict, init=False)
    # The descriptor that holds the lock of the workspace, while a change is recorded.
    _held: list[int] = attrs.field(factory=list, init=False)

    @classmethod
    def wrap(
        cls, workspace: Workspace, recorder: CallRecorder, seen: Mapping[str, str]
    ) -> TrackedWorkspace:
        """Create a tracked workspace from another workspace."""
        fields: dict[str, Any] = {}
        for field in attrs.fields(Workspace):
            if field.init:
                fields[str(field.alias)] = getattr(workspace, field.name)
        return cls(**fields, recorder=recorder, seen=seen)

    def read_for_change(self, real: Path, file: BinaryIO, limit: int) -> bytes:
        """Read at most ``limit`` bytes of a file that will be changed.

        Raises:
            ToolError: As for ``check``.
        """
        data = file.read(limit)
        # If the file was read in full, it need not be read again to compute its hash.
        hashed = hash_content(data) if len(data) < limit else hash_file(file)
        self.check(real, data, hashed)
        return data

    def check(self, real: Path, data: bytes, hashed: str) -> None:
        """Check that the agent has seen the content of a file that it is about to change.

        Empty files and files that are not text need not be read first.

        Args:
            real: The resolved path.
            data: The beginning of the content.
            hashed: The hash of the whole content.

        Raises:
            ToolError: ``E_STALE`` if the agent has not read the file, or the file has changed
                since.
        """
        self.expected[real] = hashed
        name = spell_path(self.relative(real))
        known = self.seen.get(name)
        if known == hashed or not _is_readable(data):
            return
        shown = show(self.relative(real))
        if known is None:
            raise ToolError(
                f"{shown} exists and you have not read it; nothing was changed.",
                code=errors.E_STALE,
                hint="Read it first.",
            )
        if real in self.unsaved:
            cause = "in the user's editor, where it is not saved"
        else:
            cause = self.recorder.describe_cause(name, hashed)
        by = f" ({cause})" if cause else ""
        raise ToolError(
            f"{shown} changed since you last saw it{by}; nothing was changed.",
            code=errors.E_STALE,
            hint=f"Read it again.{self._describe_difference(shown, known, data)}",
        )

    def expect(self, real: Path, file: BinaryIO) -> None:
        """Remember the content of a file that the user allowed to be replaced unread."""
        self.expected[real] = hash_file(file)

    def _describe_difference(self, shown: str, known: str, data: bytes) -> str:
        """Return a short diff against the content that the agent saw, if that content was kept."""
        if not self.shows_differences:
            return ""
        old = self.recorder.store.get(known)
        if old is None or len(old) + len(data) > MAX_DIFF_BYTES or not _is_readable(old):
            return ""
        lines = unified_diff(shown, old.decode(), data.decode()).splitlines()
        text = "\n".join(["\nWhat changed:", *lines[:MAX_DIFF_LINES]])
        if len(lines) > MAX_DIFF_LINES:
            return f"{text}\n… and {len(lines) - MAX_DIFF_LINES} more lines"
        return text

    @contextmanager
    def recording_change(self, real: Path, data: bytes | None) -> Iterator[None]:
        """Lock the workspace while the ``with`` block writes or deletes a file; record the change.

        Args:
            real: The resolved path.
            data: The new content; ``None`` to delete it.
        """
        # All code takes both locks in this order, so that two threads never wait for each other.
        with self.recorder.tree_lock, lock_workspace(self.root) as held, self._holding(held):
            # The file is compared under the lock, so that no other hilum process can change it
            # between the comparison and the write.
            before, contents = self._read_before(real)
            if data is not None and before is not None and real not in self.expected:
                raise _stale_error(real)
            changes: list[Change] = []
            after = None
            if data is not None:
                mode = before.mode if before else 0o644
                after = Node("file", mode, hash_content(data))
                contents.append(data)
                for folder in _missing_folders(real):
                    path = spell_path(self.relative(folder))
                    changes.append(Change(path, None, Node("folder", 0o755)))
            # The contents are stored before the change begins, so that it can be undone after a
            # crash.
            self._keep(contents)
            changes.append(Change(spell_path(self.relative(real)), before, after))
            self.recorder.begin(tuple(changes))
            was_written = False
            try:
                yield
                was_written = True
            except ToolError as error:
                # The file was replaced, but another program has changed it since.
                was_written = error.code == errors.E_READBACK_FAIL
                raise
            finally:
                # The disk shows what happened, because a write may fail before or after the file
                # was replaced.
                made = find_made_changes(self.root, changes, include_doubtful=was_written)
                self.recorder.end(made)

    @contextmanager
    def _holding(self, descriptor: int | None) -> Iterator[None]:
        if descriptor is not None:
            self._held.append(descriptor)
        try:
            yield
        finally:
            self._held.clear()

    @contextmanager
    def unlocked(self) -> Iterator[None]:
        """Release the lock of the workspace while another program changes a file for hilum.

        The editor of a session may be another hilum, which takes the same lock.
        """
        for descriptor in self._held:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        try:
            yield
        finally:
            for descriptor in self._held:
                _wait_for_lock(self.root, descriptor)

    def _read_before(self, real: Path) -> tuple[Node | None, list[bytes]]:
        """Return the node at a path, and the contents to keep."""
        contents: list[bytes] = []

        def keep(data: bytes) -> str:
            contents.append(data)
            return hash_content(data)

        with suppress(FileNotFoundError):
            if os.lstat(real).st_size > MAX_KEPT_BYTES:
                raise ToolError(
                    f"{quote(real.name)} is larger than {MAX_KEPT_BYTES:,} bytes: an undo could"
                    " not restore it.",
                    hint="If you must change it, use a command.",
                )
        before = node_at(real, keep)
        if real in self.unsaved:
            # An undo restores what the user saw, and not the older text of the file.
            mode = before.mode if before else 0o644
            before = Node("file", mode, keep(self.unsaved[real]))
        expected = self.expected.get(real)
        if expected is not None and (before is None or before.hash != expected):
            raise _stale_error(real)
        return before, contents

    def _keep(self, contents: list[bytes]) -> None:
        try:
            self.recorder.store.put(contents)
        except StoreError as error:
            raise ToolError(
                f"Nothing was changed. {error.message}", code=error.code, hint=error.hint
            ) from None


def hash_file(file: BinaryIO) -> str:
    """Return the hash of an open file of any size, and seek back to its beginning."""
    file.seek(0)
    # Compute the same hash as `hash_content` without reading the whole file into memory.
    digest = blake2b(digest_size=20)
    while chunk := file.read(_CHUNK_BYTES):
        digest.update(chunk)
    file.seek(0)
    return digest.hexdigest()


def find_made_changes(
    root: Path, changes: Iterable[Change], *, include_doubtful: bool
) -> tuple[Change, ...]:
    """Return the changes that were actually made, according to the disk.

    Args:
        root: The workspace.
        changes: The changes that were begun.
        include_doubtful: Whether to include a change at a path that has neither the old nor the new
            content, because somebody else changed it afterwards.
    """
    made: list[Change] = []
    for change in changes:
        now = _node_unless_below_link(root, unspell_path(change.path))
        if _has_same_content(now, change.after):
            made.append(Change(change.path, change.before, now))
        elif include_doubtful and now != change.before:
            made.append(change)
    return tuple(made)


def _node_unless_below_link(root: Path, name: str) -> Node | None:
    """Return the node at a path in a folder; ``None`` if it is unreadable or below a link.

    What a link shows is recorded elsewhere, if it is in the workspace.
    """
    if find_link_above(root, name) is not None:
        return None
    try:
        return node_at(root / name, hash_content)
    except OSError:
        return None


def _has_same_content(a: Node | None, b: Node | None) -> bool:
    """Return whether two nodes are equal except for their permissions."""
    if a is None or b is None:
        return a is b
    return (a.kind, a.hash) == (b.kind, b.hash)


def _is_readable(data: bytes) -> bool:
    """Return whether content is non-empty text."""
    try:
        return bool(decode(data, ""))
    except ToolError:
        return False


def _stale_error(real: Path) -> ToolError:
    message = f"{quote(real.name)} changed in the meantime; it was not written."
    return ToolError(message, code=errors.E_STALE, hint="Read it.")


def _missing_folders(real: Path) -> list[Path]:
    """Return the missing parent folders of a path, outermost first."""
    missing: list[Path] = []
    for folder in real.parents:
        if os.path.lexists(folder):
            break
        missing.append(folder)
    return missing[::-1]
