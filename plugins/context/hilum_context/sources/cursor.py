"""The lines around the cursor."""

from __future__ import annotations

from collections.abc import Iterator

from hilum_context.look import Look, Source
from hilum_context.pieces import Piece
from hilum_context.texts import LeftOut, Text

SPAN = 30
"""Lines before and after the cursor."""
LONGEST = 500
"""Characters of a line that are sent."""


class AroundCursor(Source[Text | None]):
    """Thirty lines before and after the cursor.

    Only where it is, if these lines are sent as part of an open file.
    """

    type = "cursor_nearby"
    switch = "cursor"

    async def find(self, look: Look) -> Text | None:
        """Read the lines."""
        cursor = look.state.cursor
        if cursor is None:
            return None
        path = (
            cursor.path
            or look.state.active_file
            or next((file.path for file in look.open_files), "")
        )
        if not path:
            look.leave_out(
                self.type,
                "",
                "the cursor is in no file: neither cursor.path nor active_file names one",
                said=True,
            )
            return None
        unsaved = next((file.text for file in look.open_files if file.path == path), None)
        try:
            text = await look.texts.around(path, cursor.line, SPAN, unsaved)
        except LeftOut as why:
            look.leave_out(self.type, path, why, said=True)
            return None
        if cursor.line > text.total:
            why_not = (
                f"the cursor is in line {cursor.line:,} of {text.total:,}; the last lines are sent"
            )
            look.leave_out(self.type, path, why_not, said=True)
        return text

    def give(self, look: Look, found: Text | None) -> Iterator[Piece]:
        """Send the lines, or tell where they stand."""
        cursor = look.state.cursor
        if found is None or cursor is None:
            return
        line = min(cursor.line, found.total)
        last = found.first + len(found.lines) - 1
        where = f"The cursor is in line {line}, column {cursor.column}."
        selected = look.state.selection
        if selected:
            until = f", column {selected.end_column}" if selected.end_column else ""
            begin = f"line {selected.start_line}, column {selected.start_column}"
            end = f"line {selected.end_line}{until}"
            where = f"{where} Selected is {begin} to {end}."
        if last <= look.covered.get(found.path, 0):
            yield Piece(
                self.type,
                f"[{where} The lines around it are in the open file above.]",
                found.path,
                line,
                "editor",
            )
            return
        lines = [
            each if len(each) <= LONGEST else f"{each[:LONGEST]} [… the line goes on]"
            for each in found.lines
        ]
        notice = f"[Lines {found.first}-{last} of {found.total:,}. {where}]"
        yield Piece(self.type, "\n".join([*lines, notice]), found.path, line, "editor")
