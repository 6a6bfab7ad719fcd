"""Counts words."""

from hilum import Call, Tool, hookimpl, tool


@tool(risk="read", effect="pure")
async def count_words(call: Call, path: str) -> str:
    """Count the words in a text file.

    Args:
        path: File to count, relative to the workspace.
    """
    text = await call.workspace.read_text(path)
    return f"{len(text.split())} words"


@hookimpl
def provide_tools() -> list[Tool]:
    return [count_words]
