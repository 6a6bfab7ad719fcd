"""A notebook that is open as long as the session: a half with state, tools and a hook."""

import trio
from hilum import Block, data_folder, hookimpl, tool


class Notebook:
    """The half: one object per session."""

    def __init__(self, file):
        self.file = file
        self.notes = []

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
    def provide_tools(self):
        return [self.take_note]

    @hookimpl
    def gather_context(self, request):
        found = [note for note in self.notes if set(note.lower().split()) & set(request.text.lower().split())]
        return [Block("notes", "\n".join(found))] if found else None


@hookimpl
async def open_session(session):
    folder = trio.Path(data_folder() / "notebook")
    await folder.mkdir(parents=True, exist_ok=True)
    async with await trio.open_file(folder / f"{session.id}.txt", "a") as file:
        yield Notebook(file)
