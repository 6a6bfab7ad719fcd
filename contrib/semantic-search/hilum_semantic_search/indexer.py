"""Brings an index up to date with the files of its workspace."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import attrs
import trio

from hilum_semantic_search.database import DamagedIndex
from hilum_semantic_search.listing import RACY, Listing, list_workspace
from hilum_semantic_search.reader_process import FileReader, ReaderFailed, open_file_reader
from hilum_semantic_search.store import FileUpdate, IndexStore, ReadFile

if TYPE_CHECKING:
    from pathlib import Path

    from hilum.processes import Processes

    from hilum_semantic_search.settings import SemanticSearchSettings

_T = TypeVar("_T")

MAX_BATCH_FILES = 100
MAX_BATCH_BYTES = 2_000_000
BATCH_TIMEOUT = 60.0
"""Seconds after which the process that reads a batch of files is ended."""
MIN_FILES_PER_PROCESS = 100
MAX_PROCESSES = 4
_POLL_SECONDS = 0.05

REBUILT = "The search index was damaged or from another version of hilum; it was built anew."


class UpdateResult(NamedTuple):
    """What an update did.

    Attributes:
        changed: Number of files that were read.
        removed: Number of files that were removed from the index.
        left_out: Number of files beyond the maximum, which are not indexed.
        rebuilt: Whether a damaged index was replaced.
    """

    changed: int
    removed: int
    left_out: int
    rebuilt: bool = False


@attrs.define
class Progress:
    """How far an update is.

    Attributes:
        total: Number of files to read; 0 before they are known.
        done: Number of files that were read.
    """

    total: int = 0
    done: int = 0


@attrs.define
class _Work:
    """The batches that the processes of one update read."""

    states: dict[bytes, str]
    batches: Iterator[list[bytes]]
    progress: Progress


class Indexer:
    """Updates the index of a workspace.

    Args:
        store: The index.
        processes: What starts ripgrep and the reading processes.
        settings: The limits.
        explain_secret: A function that returns why a file must not be indexed; empty if it may be.
        niceness: How much to lower the priority of the reading processes.
    """

    def __init__(
        self,
        store: IndexStore,
        processes: Processes,
        settings: SemanticSearchSettings,
        explain_secret: Callable[[Path, str], str],
        *,
        niceness: int = 10,
    ) -> None:
        self._store = store
        self._root = store.folder.root
        self._processes = processes
        self._settings = settings
        self._explain_secret = explain_secret
        self._niceness = niceness
        self._writing = trio.Lock()
        self.progress = Progress()

    async def update(self) -> UpdateResult:
        """Bring the index up to date, unless another process is doing so; then wait for it.

        Raises:
            HilumError: The files cannot be listed, or the index cannot be written.
        """
        self.progress = Progress()
        try:
            return await self._update()
        except DamagedIndex:
            await run_in_thread(self._store.folder.replace)
        result = await self._update()
        return result._replace(rebuilt=True)

    async def _update(self) -> UpdateResult:
        listing = await self._list()
        if not await self._find_changes(listing):
            return UpdateResult(0, 0, listing.left_out)
        async with self._locked() as waited:
            if waited:
                listing = await self._list()
            # Another process may have updated the index before this one got the lock.
            changes = await self._find_changes(listing)
            if changes is None:
                return UpdateResult(0, 0, listing.left_out)
            await self._apply(listing, changes)
        return UpdateResult(len(changes.changed), len(changes.removed), listing.left_out)

    async def _list(self) -> Listing:
        return await list_workspace(
            self._processes,
            self._root,
            max_size=self._settings.max_file_size,
            max_files=self._settings.max_files,
        )

    async def _find_changes(self, listing: Listing) -> _Changes | None:
        """Compare the files with the index; ``None`` if the index is up to date."""
        stored = await run_in_thread(self._store.read_states)
        return await run_in_thread(_compare, stored, listing.states)

    @asynccontextmanager
    async def _locked(self) -> AsyncIterator[bool]:
        """Hold the lock of the process that indexes, and yield whether another one had it."""
        waited = False
        lock = await run_in_thread(self._store.folder.try_lock, "indexing")
        while lock is None:
            waited = True
            await trio.sleep(_POLL_SECONDS)
            lock = await run_in_thread(self._store.folder.try_lock, "indexing")
        try:
            yield waited
        finally:
            os.close(lock)

    async def _apply(self, listing: Listing, changes: _Changes) -> None:
        if changes.removed:
            await run_in_thread(self._store.write, (), changes.removed)
        self.progress.total = len(changes.changed)
        batches = _make_batches(changes.changed, listing.states)
        work = _Work(listing.states, batches, self.progress)
        failed: Exception | None = None
        async with trio.open_nursery() as nursery:

            async def read() -> None:
                nonlocal failed
                try:
                    await self._read_batches(work)
                except Exception as error:  # raised below, because the nursery would wrap it
                    failed = error
                    nursery.cancel_scope.cancel()

            for _ in range(_count_processes(len(changes.changed))):
                nursery.start_soon(read)
        if failed is not None:
            raise failed
        await run_in_thread(self._store.set_updated)

    async def _read_batches(self, work: _Work) -> None:
        """Read batches until none is left, with a new process after each failure."""
        batch: list[bytes] = []
        while True:
            try:
                async with self._open_reader() as reader:
                    for batch in work.batches:
                        allowed, secrets = await run_in_thread(self._separate_secrets, batch)
                        files = await reader.read(allowed, BATCH_TIMEOUT) if allowed else []
                        await self._write(
                            work, [*allowed, *secrets], [*files, *map(_skip, secrets)]
                        )
                    return
            except ReaderFailed:
                await self._read_one_by_one(work, batch)

    async def _read_one_by_one(self, work: _Work, batch: list[bytes]) -> None:
        """Read the files of a batch in separate processes, to find the one that ends its process."""
        for path in batch:
            allowed, _ = await run_in_thread(self._separate_secrets, [path])
            file = ReadFile(skipped="secret")
            if allowed:
                try:
                    async with self._open_reader() as reader:
                        [file] = await reader.read(allowed, BATCH_TIMEOUT)
                except ReaderFailed:
                    file = ReadFile(skipped="too complex")
            await self._write(work, [path], [file])

    def _open_reader(self) -> AbstractAsyncContextManager[FileReader]:
        max_size = self._settings.max_file_size
        return open_file_reader(self._processes, self._root, max_size, self._niceness)

    async def _write(self, work: _Work, paths: list[bytes], files: list[ReadFile]) -> None:
        updates = [
            FileUpdate(path, _state_of(file, work.states[path]), file)
            for path, file in zip(paths, files, strict=True)
        ]
        # A second thread of this process would only wait for the lock of the database.
        async with self._writing:
            await run_in_thread(self._store.write, updates)
        work.progress.done += len(paths)

    def _separate_secrets(self, batch: list[bytes]) -> tuple[list[bytes], list[bytes]]:
        """Return the files that may be indexed, and those that may contain secrets."""
        allowed = list[bytes]()
        secrets = list[bytes]()
        for path in batch:
            name = os.fsdecode(path)
            reason = self._explain_secret(self._root / name, name)
            (secrets if reason else allowed).append(path)
        return allowed, secrets


class _Changes(NamedTuple):
    changed: list[bytes]
    removed: list[bytes]


def _compare(stored: dict[bytes, str], found: dict[bytes, str]) -> _Changes | None:
    changed = [path for path, state in found.items() if state == RACY or stored.get(path) != state]
    removed = [path for path in stored if path not in found]
    if not changed and not removed:
        return None
    return _Changes(sorted(changed), removed)


def _make_batches(paths: list[bytes], states: dict[bytes, str]) -> Iterator[list[bytes]]:
    batch = list[bytes]()
    size = 0
    for path in paths:
        batch.append(path)
        _, _, rest = states[path].partition(".")
        size += int(rest.split(".")[1], 16) if rest else 0
        if len(batch) >= MAX_BATCH_FILES or size >= MAX_BATCH_BYTES:
            yield batch
            batch = []
            size = 0
    if batch:
        yield batch


def _count_processes(files: int) -> int:
    useful = 1 + files // MIN_FILES_PER_PROCESS
    return min(useful, os.cpu_count() or 1, MAX_PROCESSES)


def _skip(path: bytes) -> ReadFile:
    return ReadFile(skipped="secret")


def _state_of(file: ReadFile, state: str) -> str:
    # A file that could not be read is tried again, because its permissions are not in its state.
    return RACY if file.skipped == "unreadable" else state


async def run_in_thread(function: Callable[..., _T], *args: object) -> _T:
    """Run a function that uses the index in a thread.

    A thread that is abandoned after a cancellation does no harm: each of its transactions is
    complete or has no effect.
    """
    return await trio.to_thread.run_sync(function, *args, abandon_on_cancel=True)
