"""The index of a session: it is updated in the background, and before each search."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import attrs
import trio
from hilum import HilumError, find_content_policy
from hilum_search import withheld_files

from hilum_semantic_search import lazy
from hilum_semantic_search.embedder import Embedder
from hilum_semantic_search.embedder_choice import find_redaction, make_embedder
from hilum_semantic_search.settings import SemanticSearchSettings

if TYPE_CHECKING:
    from hilum import Session

    from hilum_semantic_search.embedding_update import EmbeddingUpdater
    from hilum_semantic_search.indexer import Indexer, UpdateResult
    from hilum_semantic_search.searching import Searcher, SearchResult
    from hilum_semantic_search.store import IndexStore

START_DELAY = 3.0
"""Seconds after which a session updates an existing index, so that its start is not slowed down."""
RETRY_DELAYS = (5.0, 30.0, 120.0, 600.0)
"""Seconds between attempts to compute embeddings after failures."""


class SearchOutcome(NamedTuple):
    """The result of a search with the state of the index.

    Attributes:
        result: The result.
        complete: Whether the index was up to date.
        done: Number of files that a running update has read.
        total: Number of files that it reads; 0 if it has not yet listed them.
        covered: The share of the chunks that have an embedding; NaN if embeddings were not compared.
        notices: What the user or the model should know, as sentences.
    """

    result: SearchResult
    complete: bool
    done: int
    total: int
    covered: float
    notices: list[str]


@attrs.define(eq=False)
class _Job:
    """An update of the index that was requested."""

    started: bool = False
    done: trio.Event = attrs.field(factory=trio.Event)
    result: UpdateResult | None = None
    problem: str = ""


@attrs.define(eq=False)
class _Parts:
    """What a search needs, which is created with the first one."""

    store: IndexStore
    indexer: Indexer
    searcher: Searcher
    embedder: Embedder | None
    updater: EmbeddingUpdater | None
    problem: str


class SessionIndex:
    """The index of a session's workspace.

    Args:
        session: The session.
        nursery: The nursery for updates.

    Attributes:
        embedded: Set while every chunk of the last update has an embedding, if embeddings are on.
    """

    def __init__(self, session: Session, nursery: trio.Nursery) -> None:
        self._session = session
        self._nursery = nursery
        self._settings = session.settings(SemanticSearchSettings)
        self._parts: _Parts | None = None
        self._updating = trio.Lock()
        self._requested: _Job | None = None
        self._indexed = trio.Event()
        self._embedding_problem = ""
        self.embedded = trio.Event()

    async def run_background(self) -> None:
        """Update the index once, if it exists or the settings ask for one.

        The first update also starts what computes embeddings.
        """
        await trio.sleep(START_DELAY)
        exists = await trio.to_thread.run_sync(self._exists, abandon_on_cancel=True)
        if exists or self._settings.index_at_start:
            self._request_update()

    def _exists(self) -> bool:
        return bool(lazy.database.IndexFolder(self._session.workspace.root).exists())

    async def search(self, question: str, below: str, limit: int) -> SearchOutcome:
        """Update the index and search it.

        Args:
            question: The question.
            below: A folder or file, relative to the workspace; empty for all.
            limit: Maximum number of results.

        Raises:
            HilumError: The index cannot be used.
        """
        parts = self._open_parts()
        job = self._request_update()
        # The guard reads files and rules, while the update compares the files.
        is_withheld = await trio.to_thread.run_sync(
            withheld_files, self._session, below or ".", abandon_on_cancel=True
        )
        try:
            result = await self._search_current(parts, job, question, below, limit, is_withheld)
        except lazy.database.DamagedIndex:
            await lazy.indexer.run_in_thread(parts.store.folder.replace)
            job = self._request_update()
            await self._wait_for(job)
            result = await parts.searcher.search(
                question, limit=limit, below=below, is_withheld=is_withheld
            )
            if job.result is not None:
                job.result = job.result._replace(rebuilt=True)
        return await self._describe(parts, job, result)

    async def _search_current(
        self,
        parts: _Parts,
        job: _Job,
        question: str,
        below: str,
        limit: int,
        is_withheld: Callable[[str], bool] | None,
    ) -> SearchResult:
        """Search while the update compares the files, and again if it changed something."""

        async def search() -> SearchResult:
            return await parts.searcher.search(
                question, limit=limit, below=below, is_withheld=is_withheld
            )

        early: SearchResult | None = None
        if parts.store.folder.exists():
            early = await search()
        await self._wait_for(job)
        if early is None or early.outdated or job.result is None:
            return await search()
        if job.result.changed or job.result.removed or job.result.rebuilt:
            return await search()
        return early

    async def _wait_for(self, job: _Job) -> None:
        with trio.move_on_after(self._settings.wait):
            await job.done.wait()

    async def _describe(self, parts: _Parts, job: _Job, result: SearchResult) -> SearchOutcome:
        notices = list[str]()
        if job.problem:
            notices.append(f"The index may be outdated: {job.problem}")
        if job.result is not None and job.result.rebuilt:
            notices.append(lazy.indexer.REBUILT)
        if job.result is not None and job.result.left_out:
            notices.append(
                f"{job.result.left_out:,} files beyond semantic_search.max_files are not indexed."
            )
        problem = parts.problem or result.problem or self._embedding_problem
        if problem:
            notices.append(f"Embeddings: {problem}")
        covered = math.nan
        if result.by_meaning:
            status = await lazy.indexer.run_in_thread(parts.store.read_status)
            covered = status.vectors / max(status.chunks, 1)
        progress = parts.indexer.progress
        complete = job.done.is_set() and not job.problem
        return SearchOutcome(result, complete, progress.done, progress.total, covered, notices)

    async def aclose(self) -> None:
        """Close what computes embeddings."""
        if self._parts is not None and self._parts.embedder is not None:
            await self._parts.embedder.aclose()

    # --- updates ----------------------------------------------------------------------------------

    def _request_update(self) -> _Job:
        """Return an update that begins from now on, so that it finds all changes until now."""
        if self._requested is None or self._requested.started:
            self._requested = _Job()
            self._nursery.start_soon(self._run_job, self._requested)
        return self._requested

    async def _run_job(self, job: _Job) -> None:
        async with self._updating:
            job.started = True
            try:
                job.result = await self._open_parts().indexer.update()
            except HilumError as error:
                job.problem = error.message
            except lazy.database.DamagedIndex as error:
                job.problem = f"the index was damaged again while it was built ({error})."
            finally:
                self.embedded = trio.Event()
                self._indexed.set()
                job.done.set()

    def _open_parts(self) -> _Parts:
        if self._parts is None:
            self._parts = self._make_parts()
            if self._parts.updater is not None:
                self._nursery.start_soon(self._compute_embeddings, self._parts.updater)
        return self._parts

    def _make_parts(self) -> _Parts:
        session = self._session
        store = lazy.store.IndexStore(lazy.database.IndexFolder(session.workspace.root))
        policy = find_content_policy(session)
        embedder: Embedder | None = None
        updater: EmbeddingUpdater | None = None
        problem = ""
        try:
            embedder = make_embedder(
                self._settings, session.processes, session.kernel.environ, self._nursery
            )
            if embedder is not None:
                redact = find_redaction(embedder, policy)
                update = lazy.embedding_update.EmbeddingUpdater
                updater = update(store, embedder, self._settings, redact)
        except HilumError as error:
            embedder = None
            problem = str(error)
        explain = policy.explain_withheld_file if policy is not None else _explain_nothing
        return _Parts(
            store,
            lazy.indexer.Indexer(store, session.processes, self._settings, explain),
            lazy.searching.Searcher(store, self._settings, embedder),
            embedder,
            updater,
            problem,
        )

    async def _compute_embeddings(self, updater: EmbeddingUpdater) -> None:
        """Compute the missing embeddings after each update of the index."""
        failures = 0
        while True:
            await self._indexed.wait()
            self._indexed = trio.Event()
            while True:
                try:
                    await updater.update()
                except (HilumError, lazy.database.DamagedIndex) as error:
                    message = error.message if isinstance(error, HilumError) else str(error)
                    self._embedding_problem = message
                    delay = RETRY_DELAYS[min(failures, len(RETRY_DELAYS) - 1)]
                    failures += 1
                    await trio.sleep(delay)
                else:
                    self._embedding_problem = ""
                    failures = 0
                    if not self._indexed.is_set():
                        self.embedded.set()
                    break


def _explain_nothing(place: Path, path: str) -> str:
    return ""
