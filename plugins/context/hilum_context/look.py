"""What all sources of one prompt share: the request, the budget that is left, what was sent and
what was left out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Generic, TypeVar

import msgspec
from hilum import Agent, ContextRequest, Session

from hilum_context.git import Git
from hilum_context.pieces import Piece
from hilum_context.settings import ContextSettings
from hilum_context.state import OpenFile, WorkspaceState
from hilum_context.texts import LeftOut, Texts

T = TypeVar("T")


class Left(msgspec.Struct, frozen=True):
    """Something that was not sent.

    Args:
        type: Type of the piece that it would have been.
        path: The file, as it was named; may be empty.
        why: The end of a sentence.
        said: Whether the face named it, so that its user may wonder.
    """

    type: str
    path: str
    why: str
    said: bool = False


class Look(msgspec.Struct, eq=False):
    """One gathering.

    Args:
        agent: For whom.
        request: What the prompt asks for.
        state: What the face said.
        settings: The settings.
        texts: Reads files.
        git: Asks Git, once for all sources.
        left: Tokens that are left.
        covered: Of files that were sent: up to which line, by shown path.
        left_out: What was not sent.
    """

    agent: Agent
    request: ContextRequest
    state: WorkspaceState
    settings: ContextSettings
    texts: Texts
    git: Git
    left: int
    covered: dict[str, int] = msgspec.field(default_factory=dict)
    left_out: list[Left] = msgspec.field(default_factory=list)

    @property
    def session(self) -> Session:
        """The session."""
        return self.agent.session

    @property
    def open_files(self) -> list[OpenFile]:
        """The open files, the active one first, each once by its name."""
        files = {file.path: file for file in reversed(self.state.open_files)}
        active = self.state.active_file
        first = [files.get(active) or OpenFile(path=active)] if active else []
        return [*first, *(file for file in reversed(files.values()) if file.path != active)]

    def leave_out(self, type: str, path: str, why: str | LeftOut, *, said: bool = False) -> None:
        """Note that something is not sent, and why."""
        self.left_out.append(Left(type, path, str(why), said))


class Source(ABC, Generic[T]):
    """One of the things that come with a prompt. It works in two steps, and each may fail.

    ``type`` is that of its pieces; ``switch`` is the setting that switches it off.
    """

    type: ClassVar[str]
    switch: ClassVar[str]

    @abstractmethod
    async def find(self, look: Look) -> T:
        """Find what there is, with a bound of its own.

        All sources do that at once, so none sees what others found.
        """

    @abstractmethod
    def give(self, look: Look, found: T) -> Iterator[Piece]:
        """Make pieces of it: one source after another, so that each sees what is left and what was
        sent. Must not block.
        """
