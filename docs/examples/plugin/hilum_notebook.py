"""A notebook that is open during a session: an instance with state, a tool and hooks."""

from collections.abc import AsyncIterator
from typing import Any

import trio
from hilum import Block, ContextRequest, Session, Tool, data_folder, hookimpl, tool


class Notebook:
    """The instance: one object per session."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.notes: list[str] = []

    @tool(risk="read", effect="once")
    async def take_note(self, text: str) -> str:
        """Write something down for later.

        Args:
            text: What to write down, one line.
        """
        await self.file.write(text + "\n")
        self.notes.append(text)
        return f"Noted; {len(self.notes)} so far."

    @hookimpl
    def provide_tools(self) -> list[Tool]:
        return [self.take_note]

    @hookimpl
    def gather_context(self, request: ContextRequest) -> list[Block] | None:
        found = [
            note
            for note in self.notes
            if set(note.lower().split()) & set(request.text.lower().split())
        ]
        return [Block("notes", "\n".join(found))] if found else None


@hookimpl
async def open_session(session: Session) -> AsyncIterator[Notebook]:
    folder = trio.Path(data_folder() / "notebook")
    await folder.mkdir(parents=True, exist_ok=True)
    async with await trio.open_file(folder / f"{session.id}.txt", "a") as file:
        yield Notebook(file)
