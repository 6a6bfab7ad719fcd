"""State shared by all sources for one prompt: the request, the remaining budget and omissions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Generic, TypeVar

import msgspec
from hilum import Agent, ContextRequest, Session

from hilum_context.git import GitStatusReader
from hilum_context.pieces import ContextPiece
from hilum_context.settings import ContextSettings
from hilum_context.state import OpenFile, WorkspaceState
from hilum_context.texts import FileTexts, OmittedError

T = TypeVar("T")


class Omitted(msgspec.Struct, frozen=True):
    """A record of something that was not sent.

    Args:
        type: The type of the piece that was not sent.
        path: The file, as named by its source; may be empty.
        why: The reason, worded as the end of a sentence.
        named: Whether the face named the file. For a file that the face named, hilum reports the
            reason to the user.
    """

    type: str
    path: str
    why: str
    named: bool = False

    def facts(self) -> dict[str, object]:
        """Return the data for the event."""
        path = make_loggable(self.path)
        return {"type": self.type, "path": path, "why": make_loggable(self.why)}


def make_loggable(text: str) -> str:
    """Return a short text that can be logged, because a file name might not be valid Unicode."""
    return text[:300].encode(errors="backslashreplace").decode()


class GatheredContext(msgspec.Struct, eq=False):
    """The context of one prompt while it is gathered.

    Args:
        agent: The agent that receives the context.
        request: The kernel's request, with the prompt and the budget.
        state: The workspace state that the face sent.
        settings: The settings.
        texts: The reader of files.
        git: The reader of the Git status, which is read once for all sources.
        tokens_left: The remaining budget in tokens.
        covered: The number of the last line sent from each file, keyed by displayed path.
        omitted: Records of everything that was not sent.
    """

    agent: Agent
    request: ContextRequest
    state: WorkspaceState
    settings: ContextSettings
    texts: FileTexts
    git: GitStatusReader
    tokens_left: int
    covered: dict[str, int] = msgspec.field(default_factory=dict)
    omitted: list[Omitted] = msgspec.field(default_factory=list)

    @property
    def session(self) -> Session:
        """The session."""
        return self.agent.session

    @property
    def open_files(self) -> list[OpenFile]:
        """The open files without duplicates, the active one first."""
        active = self.state.active_file
        ordered = list(self.state.open_files)
        if active:
            ordered.append(OpenFile(path=active))  # used only if the list lacks this file
            ordered.sort(key=lambda file: file.path != active)
        files: dict[str, OpenFile] = {}
        for file in ordered:
            # The first entry wins, because the entries from the face come first and may have
            # unsaved text.
            files.setdefault(file.path, file)
        return list(files.values())

    def omit(self, type: str, path: str, why: str | OmittedError, *, named: bool = False) -> None:
        """Record something that is not sent, and the reason."""
        self.omitted.append(Omitted(type, path, str(why), named))


class ContextSource(ABC, Generic[T]):
    """A source of context, which finds material and then creates pieces; either step may fail.

    ``type`` is the type of the source's pieces; ``switch`` is the setting that enables it.
    """

    type: ClassVar[str]
    switch: ClassVar[str]

    @abstractmethod
    async def find(self, context: GatheredContext) -> T:
        """Find material, within the source's own limits.

        All sources search concurrently, so a source does not know what the others have found.
        """

    @abstractmethod
    def make_pieces(self, context: GatheredContext, found: T) -> Iterator[ContextPiece]:
        """Create pieces from the material. Must not block.

        Sources create their pieces one after another, so each source sees the remaining budget and
        the earlier pieces.
        """
