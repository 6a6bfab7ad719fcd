"""The tool ``search_files``: searches the content of files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, NamedTuple

import msgspec
import trio
from hilum import Call, Output, ToolError, errors, tool

from hilum_search.matches import MatchCollector, MatchedFile
from hilum_search.patterns import Pattern, PatternError
from hilum_search.report import SearchReport, format_progress
from hilum_search.ripgrep import FileScope, list_files, pattern_error, search
from hilum_search.settings import SearchSettings
from hilum_search.targets import SearchTarget, resolve_target
from hilum_search.withholding import FileCounter, revealing, withheld_files

MAX_COUNTED = 1000
"""Maximum number of matches to count; beyond it, the model reads only that there are more."""
MAX_PATTERN_CHARACTERS = 10_000


class SearchedFiles(NamedTuple):
    """The files that a call searches.

    Args:
        target: The files that ``path`` and ``glob`` select.
        listing: The scope for counting files, including those that the sandbox hides.
        withheld: A function that returns whether a file is left out; ``None`` without a guard.
    """

    target: SearchTarget
    listing: FileScope
    withheld: Callable[[str], bool] | None

    def is_shown(self, path: str) -> bool:
        """Return whether matches in a file may be shown."""
        if not self.target.wanted(path):
            return False
        return self.withheld is None or not self.withheld(path)


@tool(risk="read", effect="pure", reads="path")
async def search_files(
    call: Call,
    pattern: str,
    path: str = ".",
    glob: str = "",
    literal: bool = False,
    ignore_case: bool = False,
    context: Annotated[int, msgspec.Meta(ge=0, le=20)] = 2,
    include_ignored: bool = False,
) -> Output:
    """Search the content of files.

    Shows matching lines ("12:text") and the lines around them ("13-text").

    Args:
        pattern: Regular expression (Python or ripgrep); \\n matches across lines.
        path: Folder or file, relative to the workspace.
        glob: Only these files: *.py, tests/**/*.{ts,tsx}; ! before it excludes them.
        literal: The pattern is plain text.
        ignore_case: Ignore case.
        context: Lines around each match.
        include_ignored: Also search what .gitignore excludes.
    """
    began = trio.current_time()
    settings = call.session.settings(SearchSettings)
    checked = _check_pattern(pattern, literal, ignore_case)
    # The guard reads files and rules, which blocks.
    files = await trio.to_thread.run_sync(
        _choose_files,
        call,
        path,
        glob,
        include_ignored,
        settings.max_file_size,
        # The thread only reads, so a cancelled call need not wait for it.
        abandon_on_cancel=True,
    )
    running = _ContentSearch(call, settings, files, checked, context)
    await running.run()
    report = running.report()
    excerpt = report.excerpt()
    text = report.text(excerpt)
    note = "" if files.withheld is None else running.counter.note()
    if note:
        text += f"\n{note}"
    data = {
        "matches": running.found.matches,
        "shown": len(excerpt.places),
        "places": excerpt.places,
        "searched": report.searched,
        "seconds": round(trio.current_time() - began, 3),
        "left_out": running.counter.withheld,
    }
    code = errors.E_TIMEOUT if running.late else ""
    return Output(text, data=data, code=code)


class _ContentSearch:
    """A running search that counts the files it leaves out."""

    def __init__(
        self,
        call: Call,
        settings: SearchSettings,
        files: SearchedFiles,
        pattern: Pattern,
        context: int,
    ) -> None:
        self._call = call
        self._settings = settings
        self._files = files
        self._pattern = pattern
        self._context = context
        self.found = MatchCollector(
            files.is_shown, self._emit_progress, max(MAX_COUNTED, settings.limit)
        )
        self.shown = self.found
        self.counter = FileCounter(files.target.wanted, files.withheld)
        # The flag is cleared when the search is done, so it stays set if the time limit cancels the
        # search.
        self.late = True

    async def run(self) -> None:
        """Search until ripgrep is done or the time limit is reached.

        Raises:
            ToolError: ripgrep rejected the search.
        """
        failure: ToolError | None = None
        with trio.move_on_after(self._settings.timeout):
            async with trio.open_nursery() as nursery:
                if self._files.withheld is not None:
                    # All left-out files are counted, not only those with a match; otherwise, the
                    # count would reveal what the files contain.
                    nursery.start_soon(self._count_files)
                try:
                    await self._search()
                except ToolError as error:
                    # The error is raised after the nursery has closed, because the nursery would
                    # wrap it in an exception group.
                    failure = error
                    nursery.cancel_scope.cancel()
            if failure is None and self._needs_count():
                await self._count_files()
            self.late = False
        if failure is not None:
            raise failure

    def report(self) -> SearchReport:
        """Return the result, ready for formatting."""
        searched = self.counter.searched if self.counter.complete else self.found.searched
        timeout = self._settings.timeout if self.late else 0
        return SearchReport(
            self._files.target,
            self._pattern,
            self.found,
            self.shown,
            searched,
            self._settings.limit,
            timeout,
        )

    async def _search(self) -> None:
        await self._run_ripgrep(self.found)
        # A sorted search uses only one thread, so the first pass counts matches in any order.
        if self.found.matches > self.found.max_matches:
            # Only a sorted search can determine which matches come first.
            self.shown = MatchCollector(
                self._files.is_shown, lambda _: None, self._settings.limit, sorted=True
            )
            await self._run_ripgrep(self.shown)

    async def _run_ripgrep(self, collector: MatchCollector) -> None:
        await search(
            self._call.processes, self._files.target.scope, self._pattern, self._context, collector
        )

    def _needs_count(self) -> bool:
        if self._files.withheld is not None or self.found.matches:
            return False
        return self._files.target.has_filter or self.found.searched is None

    async def _count_files(self) -> None:
        try:
            await list_files(self._call.processes, self._files.listing, self.counter.take)
        except ToolError:  # the search reports the same error
            return
        self.counter.complete = True

    def _emit_progress(self, file: MatchedFile) -> None:
        self._call.emit(format_progress(file))


def _choose_files(
    call: Call, path: str, glob: str, include_ignored: bool, max_size: int
) -> SearchedFiles:
    """Resolve path and glob, and ask the guard which files to leave out. Blocks."""
    target = resolve_target(
        call.workspace, path, glob, include_ignored=include_ignored, max_size=max_size
    )
    named = call.workspace.resolve(path or ".")
    withheld = withheld_files(call.session, call.workspace.relative(named))
    file = str(named) if named.is_file() else ""
    listing = target.scope._replace(reveal=revealing(call.session, file))
    # The search may read a file that the sandbox hides only if the call names that file.
    if file:
        target = target._replace(scope=listing)
    return SearchedFiles(target, listing, withheld)


def _check_pattern(pattern: str, literal: bool, ignore_case: bool) -> Pattern:
    if not pattern or len(pattern) > MAX_PATTERN_CHARACTERS or "\0" in pattern:
        raise ToolError(
            "The pattern is empty, contains a null byte, or has more than 10,000 characters.",
            code=errors.E_BAD_ARGS,
            hint="Use a short regular expression or text.",
        )
    try:
        return Pattern(pattern, literal=literal, ignore_case=ignore_case)
    except PatternError as error:
        raise pattern_error(pattern, error) from None
