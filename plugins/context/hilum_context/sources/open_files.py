"""The files that are open in the user's editor."""

from __future__ import annotations

from collections.abc import Iterator

from hilum_context.gathered_context import ContextSource, GatheredContext
from hilum_context.pieces import ContextPiece, cut_text
from hilum_context.texts import FileText, OmittedError

MAX_FILES = 3
# Maximum number of files to try; those that cannot be sent are skipped.
MAX_TRIED = 50
# Maximum share of the remaining budget for one file.
SHARE = 0.3
# Minimum number of tokens for a file.
MIN_TOKENS = 50


class OpenFiles(ContextSource[list[tuple[FileText, str]]]):
    """The first three open files, each limited to a share of the remaining budget."""

    type = "open_file"
    switch = "open_files"

    async def find(self, context: GatheredContext) -> list[tuple[FileText, str]]:
        """Return the first three files that can be sent, each with the origin of its text."""
        found: dict[str, tuple[FileText, str]] = {}
        for tried, file in enumerate(context.open_files):
            if len(found) == MAX_FILES or tried >= MAX_TRIED:
                if len(found) == MAX_FILES:
                    bound = f"only {MAX_FILES} open files are sent"
                else:
                    bound = f"only {MAX_TRIED} files are tried"
                context.omit(self.type, file.path, bound)
                continue
            try:
                text = await context.texts.head(file.path, file.text)
            except OmittedError as why:
                context.omit(self.type, file.path, why, named=True)
                continue
            # Compare displayed paths, because two names may lead to the same file.
            found.setdefault(text.path, (text, "disk" if file.text is None else "editor"))
        return list(found.values())

    def make_pieces(
        self,
        context: GatheredContext,
        found: list[tuple[FileText, str]],
    ) -> Iterator[ContextPiece]:
        """Yield each file, truncated to its share of the budget."""
        for text, source in found:
            # Each file gets a share of the remaining budget, so that the first one leaves room for
            # others.
            room = min(int(SHARE * context.tokens_left), context.settings.open_file_tokens)
            if room < MIN_TOKENS:
                context.omit(self.type, text.path, "no tokens are left for it", named=True)
                continue
            frame = 25 + len(text.path) // 3  # number of tokens in the tag
            whole = "\n".join(text.lines)
            shown, lines = cut_text(whole, room - frame, None if text.whole else text.total)
            # A hash marks the file as read, which must not happen if only a part of it is sent.
            hashed = text.hash if shown == whole else ""
            yield ContextPiece(self.type, shown, text.path, source=source, lines=lines, hash=hashed)
