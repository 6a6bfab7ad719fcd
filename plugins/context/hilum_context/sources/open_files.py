"""The files that are open in the user's editor."""

from __future__ import annotations

from collections.abc import Iterator

from hilum_context.look import Look, Source
from hilum_context.pieces import Piece, cut
from hilum_context.texts import LeftOut, Text

MOST = 3
TRIED = 50
"""Files that are looked at: those that cannot be sent are passed over."""
SHARE = 0.3
"""Part of what is left that one file may take."""
ROOM = 50
"""Tokens that are too few for a file."""


class OpenFiles(Source[list[tuple[Text, str]]]):
    """Three files, each with at most a part of what is left."""

    type = "open_file"
    switch = "open_files"

    async def find(self, look: Look) -> list[tuple[Text, str]]:
        """Read them: the first three that can be sent, each with where its text is from."""
        found: dict[str, tuple[Text, str]] = {}
        for tried, file in enumerate(look.open_files):
            if len(found) == MOST or tried >= TRIED:
                if len(found) == MOST:
                    bound = f"{MOST} open files are sent"
                else:
                    bound = f"{TRIED} are looked at"
                look.leave_out(self.type, file.path, bound)
                continue
            try:
                text = await look.texts.head(file.path, file.text)
            except LeftOut as why:
                look.leave_out(self.type, file.path, why, said=True)
                continue
            found.setdefault(text.path, (text, "disk" if file.text is None else "editor"))
        return list(found.values())

    def give(self, look: Look, found: list[tuple[Text, str]]) -> Iterator[Piece]:
        """Cut each to what it may take."""
        for text, source in found:
            room = min(int(SHARE * look.left), look.settings.open_file_tokens)
            if room < ROOM:
                look.leave_out(self.type, text.path, "no tokens are left for it", said=True)
                continue
            frame = 25 + len(text.path) // 3  # tokens of its tag
            whole = "\n".join(text.lines)
            shown, lines = cut(whole, room - frame, None if text.whole else text.total)
            hashed = text.hash if shown == whole else ""
            yield Piece(self.type, shown, text.path, source=source, lines=lines, hash=hashed)
