"""Writes the conversation of an agent in the form in which hooks of Claude Code read it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import trio
from hilum import (
    AssistantMessage,
    Message,
    NoteMessage,
    Text,
    ToolMessage,
    UserMessage,
    make_temporary_folder,
    remove_folder,
)

if TYPE_CHECKING:
    from hilum import Agent

_UNSAFE = str.maketrans({"/": "_", "\0": "_"})


class Transcripts:
    """The files with the conversations of a session's agents, in a temporary folder.

    Args:
        session: The id of the session.
        root: The workspace.
    """

    def __init__(self, session: str, root: str) -> None:
        self._session = session
        self._root = root
        self._folder = ""
        self._held = -1

    async def write(self, agent: Agent) -> str:
        """Write the present conversation of an agent, and return the path of the file."""
        lines = [msgspec.json.encode(line) for line in self._make_lines(agent)]
        return await trio.to_thread.run_sync(self._write, agent.name, lines)

    def _write(self, agent: str, lines: Sequence[bytes]) -> str:
        if not self._folder:
            self._folder, self._held = make_temporary_folder("hooks")
        path = Path(self._folder, f"{agent.translate(_UNSAFE)}.jsonl")
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        return str(path)

    def _make_lines(self, agent: Agent) -> Iterator[dict[str, Any]]:
        for number, message in enumerate(agent.conversation.messages):
            for role, content in _convert(message):
                yield {
                    "type": role,
                    "uuid": f"{self._session}-{agent.name}-{number}",
                    "sessionId": self._session,
                    "cwd": self._root,
                    "isSidechain": bool(agent.parent),
                    "message": {"role": role, "content": content},
                }

    def close(self) -> None:
        """Remove the files. Blocks."""
        if self._folder:
            remove_folder(self._folder)
            with suppress(OSError):
                os.close(self._held)


def _convert(message: Message) -> Iterator[tuple[str, object]]:
    match message:
        case UserMessage() | NoteMessage():
            yield "user", _join_texts(message)
        case AssistantMessage():
            yield "assistant", list(_convert_answer(message))
        case ToolMessage():
            yield "user", [_convert_result(result) for result in message.results]


def _join_texts(message: UserMessage | NoteMessage) -> str:
    if isinstance(message, NoteMessage):
        return message.text
    return "\n".join(part.text for part in message.parts if isinstance(part, Text))


def _convert_answer(message: AssistantMessage) -> Iterator[dict[str, Any]]:
    if message.text:
        yield {"type": "text", "text": message.text}
    for call in message.calls:
        values: object = {}
        with suppress(msgspec.DecodeError):
            values = msgspec.json.decode(call.arguments or "{}")
        yield {"type": "tool_use", "id": call.id, "name": call.name, "input": values}


def _convert_result(result: Any) -> dict[str, Any]:
    return {
        "type": "tool_result",
        "tool_use_id": result.call_id,
        "content": result.text,
        "is_error": bool(result.code),
    }
