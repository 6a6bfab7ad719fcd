"""Where the prompt's own words stand: the files that it names, and lines with its identifiers."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import trio
from hilum import ToolError
from hilum_search import find_paths

from hilum_context.look import Look, Source
from hilum_context.pieces import Piece
from hilum_context.texts import LeftOut, Text
from hilum_context.words import identifiers, paths

ENOUGH = 1_000
"""Tokens that must be left."""
FILES = 6
NAMED = 3
LINES = 8
"""Lines of a file."""
HEAD = 30
"""Lines of a file that the prompt names."""


class Hits(msgspec.Struct, frozen=True):
    """What was found: files that are named, and lines with their numbers."""

    named: list[Text]
    lines: list[tuple[str, list[tuple[int, str]]]]


class SearchResults(Source[Hits]):
    """Results of a search for what the prompt names."""

    type = "search_result"
    switch = "search"

    async def find(self, look: Look) -> Hits:
        """Search; nothing is started for a prompt that names nothing."""
        text = look.request.text
        if look.left <= ENOUGH or "search_files" not in look.session.tools:
            return Hits([], [])
        named: list[Text] = []
        lines: list[tuple[str, list[tuple[int, str]]]] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._named, look, paths(text, 10), named)
            words = identifiers(text)
            if words:
                nursery.start_soon(self._mentioned, look, words, lines)
        return Hits(named, lines)

    async def _named(self, look: Look, wanted: list[str], found: list[Text]) -> None:
        with trio.move_on_after(look.settings.search_timeout):
            for path in wanted:
                if len(found) < NAMED and (text := await self._named_file(look, path)):
                    found.append(text)

    async def _named_file(self, look: Look, path: str) -> Text | None:
        """Read a file that is named by its path, or by the end of its path if only one is called
        that.
        """
        try:
            return await look.texts.head(path, lines=HEAD)
        except LeftOut as why:
            if "no such file" not in str(why):
                look.leave_out(self.type, path, why)
                return None
        try:
            near = await find_paths(look.session, path, 5)
            same = [each for each in near if f"/{each}".endswith(f"/{path}")]
            if len(same) == 1:
                return await look.texts.head(same[0], lines=HEAD)
            return None
        except (LeftOut, ToolError) as why:
            look.leave_out(self.type, path, str(why))
            return None

    async def _mentioned(
        self, look: Look, words: list[str], found: list[tuple[str, list[tuple[int, str]]]]
    ) -> None:
        from hilum_search import find_mentions  # loaded with the first search

        seconds = look.settings.search_timeout
        try:
            mentions = await find_mentions(look.session, words, limit=2 * FILES, seconds=seconds)
        except ToolError as error:
            look.leave_out(self.type, "", f"the search failed: {error.message}")
            return
        for mention in mentions:
            if len(found) == FILES:
                return
            try:
                _, path = await look.texts.find(mention.path)
            except LeftOut as why:
                look.leave_out(self.type, mention.path, why)
                continue
            numbers, texts = zip(*mention.lines, strict=True)
            clean = await trio.to_thread.run_sync(look.texts.redact, "\n".join(texts), path)
            if clean.count("\n") == len(texts) - 1:
                found.append((path, list(zip(numbers, clean.split("\n"), strict=True))))

    def give(self, look: Look, found: Hits) -> Iterator[Piece]:
        """Yield what was not sent already, as long as there is room."""
        if look.left <= ENOUGH:
            if found.named or found.lines:
                look.leave_out(self.type, "", f"not more than {ENOUGH:,} tokens are left")
            return
        room = min(look.left, look.settings.search_tokens)
        for piece in self._pieces(look, found):
            if piece.tokens > room:
                look.leave_out(self.type, piece.path, "search results take no more tokens")
                continue
            room -= piece.tokens
            yield piece

    def _pieces(self, look: Look, found: Hits) -> Iterator[Piece]:
        for text in found.named:
            if text.path not in look.covered:
                rest = "" if text.whole else f"\n[Lines 1-{len(text.lines)} of {text.total:,}.]"
                yield Piece(
                    self.type,
                    "\n".join(text.lines) + rest,
                    text.path,
                    source="name",
                    lines=len(text.lines),
                )
        for path, lines in found.lines:
            new = [(number, line) for number, line in lines if number > look.covered.get(path, 0)]
            if new:
                shown = [f"{number}: {line}" for number, line in new[:LINES]]
                more = [f"[{len(new) - LINES} more lines]"] * (len(new) > LINES)
                yield Piece(self.type, "\n".join([*shown, *more]), path, source="search")
