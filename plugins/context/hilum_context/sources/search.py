"""Files that the prompt names, and lines that contain its identifiers."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import trio
from hilum import ToolError
from hilum_search import find_paths

from hilum_context.gathered_context import ContextSource, GatheredContext
from hilum_context.mentions import find_identifiers, find_path_names
from hilum_context.pieces import ContextPiece
from hilum_context.texts import FileText, OmittedError

# Minimum number of remaining tokens for a search.
MIN_TOKENS_LEFT = 1_000
MAX_FILES = 6
MAX_NAMED = 3
# Maximum number of lines to send from one file.
MAX_LINES = 8
# Maximum number of lines to send from a file that the prompt names.
HEAD_LINES = 30


# The path of a file, and its matching lines with their numbers.
MatchedFile = tuple[str, list[tuple[int, str]]]


class SearchHits(msgspec.Struct, frozen=True):
    """Files that the prompt names, and matching lines with their line numbers."""

    named: list[FileText]
    lines: list[MatchedFile]


class SearchResults(ContextSource[SearchHits]):
    """Results of a search for the names in the prompt."""

    type = "search_result"
    switch = "search"

    async def find(self, context: GatheredContext) -> SearchHits:
        """Search for the names in the prompt, if there are any."""
        text = context.request.subject
        if context.tokens_left <= MIN_TOKENS_LEFT or "search_files" not in context.session.tools:
            return SearchHits([], [])
        named: list[FileText] = []
        lines: list[MatchedFile] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read_named_files, context, find_path_names(text, 10), named)
            words = find_identifiers(text)
            if words:
                nursery.start_soon(self._find_mentions, context, words, lines)
        return SearchHits(named, lines)

    async def _read_named_files(
        self,
        context: GatheredContext,
        wanted: list[str],
        found: list[FileText],
    ) -> None:
        # Files found before the time limit are kept.
        with trio.move_on_after(context.settings.search_timeout):
            for path in wanted:
                if len(found) == MAX_NAMED:
                    return
                text = await self._read_named_file(context, path)
                if text is not None:
                    found.append(text)

    async def _read_named_file(self, context: GatheredContext, path: str) -> FileText | None:
        """Return the file at a path, or the only file whose path ends with it."""
        try:
            return await context.texts.head(path, lines=HEAD_LINES)
        except OmittedError as why:
            if "no such file" not in str(why):
                context.omit(self.type, path, why)
                return None
        try:
            similar = await find_paths(context.session, path, 5)
            same = [each for each in similar if f"/{each}".endswith(f"/{path}")]
            # If several files have this name, any choice could be wrong.
            if len(same) == 1:
                return await context.texts.head(same[0], lines=HEAD_LINES)
            return None
        except (OmittedError, ToolError) as why:
            context.omit(self.type, path, str(why))
            return None

    async def _find_mentions(
        self,
        context: GatheredContext,
        words: list[str],
        found: list[MatchedFile],
    ) -> None:
        # The import is here, because most prompts contain no identifiers.
        from hilum_search import find_mentions

        try:
            mentions = await find_mentions(
                context.session,
                words,
                # Request twice as many files, because some of them may be withheld.
                limit=2 * MAX_FILES,
                seconds=context.settings.search_timeout,
            )
        except ToolError as error:
            context.omit(self.type, "", f"the search failed: {error.message}")
            return
        for mention in mentions:
            if len(found) == MAX_FILES:
                return
            try:
                # The search does not consult the gates, so each result is checked here.
                _, path = await context.texts.find(mention.path)
            except OmittedError as why:
                context.omit(self.type, mention.path, why)
                continue
            numbers, texts = zip(*mention.lines, strict=True)
            joined = "\n".join(texts)
            clean = await trio.to_thread.run_sync(context.texts.redact, joined, path)
            lines = clean.split("\n")
            # A multi-line secret was replaced, so the line numbers are unknown.
            if len(lines) == len(numbers):
                found.append((path, list(zip(numbers, lines, strict=True))))

    def make_pieces(self, context: GatheredContext, found: SearchHits) -> Iterator[ContextPiece]:
        """Yield results that were not already sent, within the budget."""
        if context.tokens_left <= MIN_TOKENS_LEFT:
            if found.named or found.lines:
                context.omit(self.type, "", f"fewer than {MIN_TOKENS_LEFT:,} tokens are left")
            return
        room = min(context.tokens_left, context.settings.search_tokens)
        for piece in self._pieces(context, found):
            if piece.tokens > room:
                context.omit(self.type, piece.path, "the budget for search results is used up")
                continue
            room -= piece.tokens
            yield piece

    def _pieces(self, context: GatheredContext, found: SearchHits) -> Iterator[ContextPiece]:
        for file in found.named:
            if file.path not in context.covered:
                yield self._make_head(file)
        for path, lines in found.lines:
            covered = context.covered.get(path, 0)
            new = [f"{number}: {line}" for number, line in lines if number > covered]
            if len(new) > MAX_LINES:
                new[MAX_LINES:] = [f"[{len(new) - MAX_LINES} more lines]"]
            if new:
                yield ContextPiece(self.type, "\n".join(new), path, source="search")

    def _make_head(self, file: FileText) -> ContextPiece:
        lines = list(file.lines)
        count = len(lines)
        if not file.whole:
            lines.append(f"[Lines 1-{count} of {file.total:,}.]")
        return ContextPiece(self.type, "\n".join(lines), file.path, source="name", lines=count)
