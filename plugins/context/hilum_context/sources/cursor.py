"""The lines around the cursor."""

from __future__ import annotations

from collections.abc import Iterator

from hilum_context.gathered_context import ContextSource, GatheredContext
from hilum_context.pieces import ContextPiece
from hilum_context.state import Selection
from hilum_context.texts import FileText, OmittedError

# Number of lines to send before and after the cursor.
SPAN = 30
# Maximum number of characters to send from a line.
MAX_LINE_LENGTH = 500


class AroundCursor(ContextSource[FileText | None]):
    """The thirty lines before and after the cursor.

    If an open file that is sent already contains these lines, only the position is sent.
    """

    type = "cursor_nearby"
    switch = "cursor"

    async def find(self, context: GatheredContext) -> FileText | None:
        """Read the lines around the cursor."""
        cursor = context.state.cursor
        if cursor is None:
            return None
        # The first open file is the active one, which usually contains the cursor.
        paths = [cursor.path, *(file.path for file in context.open_files)]
        path = next(filter(None, paths), "")
        if not path:
            context.omit(
                self.type,
                "",
                "the file that contains the cursor is unknown: neither cursor.path nor"
                " active_file is set",
                named=True,
            )
            return None
        # The cursor position refers to the editor's line numbers, which may differ from those on
        # disk.
        unsaved = {file.path: file.text for file in context.open_files}
        try:
            text = await context.texts.around(path, cursor.line, SPAN, unsaved.get(path))
        except OmittedError as why:
            context.omit(self.type, path, why, named=True)
            return None
        if cursor.line > text.total:
            why_not = (
                f"the cursor is on line {cursor.line:,} of {text.total:,}; the last lines are sent"
            )
            context.omit(self.type, path, why_not, named=True)
        return text

    def make_pieces(
        self,
        context: GatheredContext,
        found: FileText | None,
    ) -> Iterator[ContextPiece]:
        """Yield the lines, or a notice if they are in an open file that is sent."""
        cursor = context.state.cursor
        if found is None or cursor is None:
            return
        line = min(cursor.line, found.total)
        last = found.first + len(found.lines) - 1
        where = f"The cursor is on line {line}, column {cursor.column}."
        if context.state.selection:
            where += f" The selection is {describe_selection(context.state.selection)}."
        if last <= context.covered.get(found.path, 0):
            text = f"[{where} The lines around it are in the open file above.]"
        else:
            notice = f"[Lines {found.first}-{last} of {found.total:,}. {where}]"
            lines = [_cut_line(each) for each in found.lines]
            text = "\n".join([*lines, notice])
        yield ContextPiece(self.type, text, found.path, line, "editor")


def describe_selection(selection: Selection) -> str:
    """Return where a selection begins and ends."""
    begin = f"line {selection.start_line}, column {selection.start_column}"
    end = f"line {selection.end_line}"
    if selection.end_column:
        end += f", column {selection.end_column}"
    return f"{begin} to {end}"


def _cut_line(line: str) -> str:
    if len(line) <= MAX_LINE_LENGTH:
        return line
    return f"{line[:MAX_LINE_LENGTH]} [… the line is longer]"
