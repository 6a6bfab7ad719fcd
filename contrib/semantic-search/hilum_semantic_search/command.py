"""The command ``hilum index``, which needs neither a session nor a model."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import attrs
import trio
from hilum import (
    Command,
    HilumError,
    UsageError,
    environment,
    errors,
    find_content_policy,
)
from hilum.command import Parser, say, say_json
from hilum.processes import Processes, Warden
from hilum.settings import load
from hilum.workspace import check_workspace

from hilum_semantic_search import lazy
from hilum_semantic_search.embedder import EmbeddingError
from hilum_semantic_search.embedder_choice import make_embedder
from hilum_semantic_search.indexer import Indexer, UpdateResult
from hilum_semantic_search.settings import SemanticSearchSettings

EPILOG = """\
The index serves the tool semantic_search. It is in hilum's cache folder, readable only by you.

  hilum index               index the current folder, or bring its index up to date
  hilum index --status      show what the index contains
  hilum index --rebuild     build it anew
  hilum index --clear       remove it"""
PROGRESS_SECONDS = 0.2
_CLEAR_LINE = "\r\x1b[K"


def main(argv: Sequence[str]) -> int:
    """Build, show or remove the index for searches by meaning.

    Returns:
        The exit code.
    """
    try:
        options = make_parser().parse_args(argv)
    except SystemExit as error:  # --help
        return int(error.code or 0)
    root = Path(os.path.realpath(os.path.expanduser(options.folder)))
    try:
        return _run(options, root)
    except HilumError as error:
        if not options.json:
            raise
        say_json({"error": {"code": error.code, "message": error.message, "hint": error.hint}})
        return error.exit_code


def make_parser() -> Parser:
    """Declare the options."""
    parser = Parser("hilum index", "Index a folder for searches by meaning.", EPILOG)
    actions = parser.add_mutually_exclusive_group()
    actions.add_argument("--status", action="store_true", help="show what the index contains")
    actions.add_argument("--rebuild", action="store_true", help="remove the index first")
    actions.add_argument("--clear", action="store_true", help="remove the index")
    parser.add_argument(
        "-C",
        dest="folder",
        default=".",
        metavar="DIR",
        help="the folder (default: the current one)",
    )
    parser.add_argument("--json", action="store_true", help="JSON")
    return parser


def _run(options: argparse.Namespace, root: Path) -> int:
    folder = lazy.database.IndexFolder(root)
    store = lazy.store.IndexStore(folder)
    if options.clear:
        existed = folder.exists()
        if existed:
            folder.replace()
            shutil.rmtree(folder.path, ignore_errors=True)
        if options.json:
            say_json({"removed": existed})
        else:
            say("The index was removed." if existed else f"There is no index of {root}.")
        return 0
    if options.status:
        return _show_status(options, root, store)
    if not root.is_dir():
        raise UsageError(
            f"There is no folder {str(root)!r}.", code=errors.E_FILE_NOT_FOUND, hint="Check -C."
        )
    check_workspace(root)
    if options.rebuild:
        folder.replace()
    settings = load([SemanticSearchSettings], workspace=root, known=None).get(
        SemanticSearchSettings
    )
    trio.run(_build, options, root, store, settings)
    return 0


def _show_status(options: argparse.Namespace, root: Path, store: lazy.store.IndexStore) -> int:
    if not store.folder.exists():
        if options.json:
            say_json({"workspace": str(root), "exists": False})
        else:
            say(f"There is no index of {root}. To build it: hilum index")
        return 0
    try:
        status = store.read_status()
    except lazy.database.DamagedIndex as error:
        if options.json:
            say_json({"workspace": str(root), "exists": True, "damaged": str(error)})
        else:
            say(f"The index is damaged ({error}). The next search builds it anew.")
        return 1
    if options.json:
        data = {"workspace": str(root), "exists": True, "file": str(store.folder.database)}
        say_json(data | status._asdict())
        return 0
    say(f"workspace   {root}")
    say(f"index       {store.folder.database}, {status.size / 1e6:.1f} MB")
    say(f"files       {status.files:,} with {status.chunks:,} chunks")
    for reason, count in sorted(status.skipped.items()):
        say(f"left out    {count:,} ({reason})")
    if status.embedding:
        share = status.vectors / max(status.chunks, 1)
        say(f"embeddings  {share:.0%} of the chunks, {status.embedding}")
    else:
        say("embeddings  none")
    if status.updated:
        say(f"updated     {datetime.fromtimestamp(status.updated):%Y-%m-%d %H:%M:%S}")
    else:
        say("updated     never completely")
    return 0


@attrs.define
class _Line:
    """A line on the terminal that shows progress."""

    is_shown: bool = attrs.field(factory=lambda: sys.stderr.isatty())

    def show(self, text: str) -> None:
        if self.is_shown:
            print(f"{_CLEAR_LINE}{text}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        self.show("")


async def _build(
    options: argparse.Namespace,
    root: Path,
    store: lazy.store.IndexStore,
    settings: SemanticSearchSettings,
) -> None:
    began = time.monotonic()
    line = _Line()
    failed: HilumError | None = None
    async with Warden() as warden, trio.open_nursery() as nursery:
        processes = Processes(warden, _accept, str(root), environment())
        policy = find_content_policy()
        explain = policy.explain_withheld_file if policy is not None else _explain_nothing
        indexer = Indexer(store, processes, settings, explain, niceness=0)
        nursery.start_soon(_show_progress, indexer, line)
        try:
            result = await indexer.update()
            line.clear()
            _say_result(options, result, time.monotonic() - began)
            await _embed(options, store, settings, processes, nursery)
        except HilumError as error:  # raised below, because the nursery would wrap it
            failed = error
        nursery.cancel_scope.cancel()
    line.clear()
    if failed is not None:
        raise failed


async def _show_progress(indexer: Indexer, line: _Line) -> None:
    while True:
        progress = indexer.progress
        if progress.done < progress.total:
            line.show(f"indexing {progress.done:,} of {progress.total:,} files")
        await trio.sleep(PROGRESS_SECONDS)


def _say_result(options: argparse.Namespace, result: UpdateResult, seconds: float) -> None:
    if options.json:
        say_json({**result._asdict(), "seconds": round(seconds, 3)})
        return
    if result.rebuilt:
        say(lazy.indexer.REBUILT)
    if result.changed or result.removed:
        say(
            f"{result.changed:,} files were read and {result.removed:,} removed in {seconds:.1f} s."
        )
    else:
        say("The index is up to date.")
    if result.left_out:
        say(f"{result.left_out:,} files beyond semantic_search.max_files are not indexed.")


async def _embed(
    options: argparse.Namespace,
    store: lazy.store.IndexStore,
    settings: SemanticSearchSettings,
    processes: Processes,
    nursery: trio.Nursery,
) -> None:
    """Compute the missing embeddings, if they are on."""
    embedder = make_embedder(settings, processes, environment(), nursery)
    if embedder is None:
        return
    policy = find_content_policy()
    if policy is None:
        raise EmbeddingError(
            "Code is embedded only if a plugin can remove secrets from it.",
            hint="pip install hilum-guard",
        )
    began = time.monotonic()
    updater = lazy.embedding_update.EmbeddingUpdater(store, embedder, settings, policy.redact)
    try:
        count = await updater.update()
    finally:
        await embedder.aclose()
    if not options.json:
        say(f"{count:,} embeddings were computed in {time.monotonic() - began:.1f} s.")


async def _accept(command: Command) -> Command:
    return command


def _explain_nothing(place: Path, path: str) -> str:
    return ""
