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
from hilum_semantic_search.embedder_choice import find_redaction, make_embedder
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
        say_json({"error": _describe_error(error)})
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
    return trio.run(_build, options, root, store, settings)


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
) -> int:
    """Update the index, compute the missing embeddings, and return the exit code.

    With ``--json``, an update whose embeddings failed is one document with the error in it.

    Raises:
        HilumError: The index cannot be updated, or the embeddings failed without ``--json``.
    """
    began = time.monotonic()
    line = _Line()
    failed: HilumError | None = None
    report: dict[str, object] = {}
    async with Warden() as warden, trio.open_nursery() as nursery:
        processes = Processes(warden, _accept, str(root), environment())
        policy = find_content_policy()
        explain = policy.explain_withheld_file if policy is not None else _explain_nothing
        indexer = Indexer(store, processes, settings, explain, niceness=0)
        nursery.start_soon(_show_progress, indexer, line)
        try:
            result = await indexer.update()
            line.clear()
            seconds = time.monotonic() - began
            report = {**result._asdict(), "seconds": round(seconds, 3)}
            if not options.json:
                _say_result(result, seconds)
            count = await _embed(options, store, settings, processes, nursery)
            if count is not None:
                report["embeddings"] = count
        except HilumError as error:  # raised below, because the nursery would wrap it
            failed = error
        nursery.cancel_scope.cancel()
    line.clear()
    if failed is not None:
        if not options.json or not report:
            raise failed
        report["error"] = _describe_error(failed)
    if options.json:
        say_json(report)
    return failed.exit_code if failed is not None else 0


def _describe_error(error: HilumError) -> dict[str, str]:
    return {"code": error.code, "message": error.message, "hint": error.hint}


async def _show_progress(indexer: Indexer, line: _Line) -> None:
    while True:
        progress = indexer.progress
        if progress.done < progress.total:
            line.show(f"indexing {progress.done:,} of {progress.total:,} files")
        await trio.sleep(PROGRESS_SECONDS)


def _say_result(result: UpdateResult, seconds: float) -> None:
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
) -> int | None:
    """Compute the missing embeddings, and return their number; ``None`` if embeddings are off."""
    embedder = make_embedder(settings, processes, environment(), nursery)
    if embedder is None:
        return None
    began = time.monotonic()
    try:
        redact = find_redaction(embedder, find_content_policy())
        updater = lazy.embedding_update.EmbeddingUpdater(store, embedder, settings, redact)
        count = await updater.update()
    finally:
        await embedder.aclose()
    if not options.json:
        say(f"{count:,} embeddings were computed in {time.monotonic() - began:.1f} s.")
    return count


async def _accept(command: Command) -> Command:
    return command


def _explain_nothing(place: Path, path: str) -> str:
    return ""
