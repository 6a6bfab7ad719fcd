"""The protocol through which the conversation, commands and the input use a face."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol

from hilum_terminal.chat_protocol import Asker, Chat

if TYPE_CHECKING:
    from hilum import Session
    from hilum_view import SessionView

    from hilum_terminal.approval_items import Item
    from hilum_terminal.conversation import Conversation
    from hilum_terminal.full_view import FullView
    from hilum_terminal.styles import Theme
    from hilum_terminal.transcript import Block, Transcript


class FaceProtocol(Asker, Protocol):
    """A face: it shows a conversation to the user, and passes on what the user enters.

    ``Face`` redraws the terminal, ``PlainFace`` only appends lines. ``FaceBase`` implements what
    both do.
    """

    theme: Theme

    @property
    def has_keys(self) -> bool:
        """Whether single keys have a meaning, unlike in plain lines."""
        ...

    # --- the conversation -------------------------------------------------------------------------

    @property
    def conversation(self) -> Conversation:
        """The conversation that the face shows."""
        ...

    @property
    def commands(self) -> Chat:
        """The conversation, as seen by commands."""
        ...

    @property
    def opened_session(self) -> Session | None:
        """The open session; None while a session is being opened."""
        ...

    @property
    def is_working(self) -> bool:
        """Whether the agent is working."""
        ...

    def make_transcript(self, view: SessionView) -> Transcript:
        """Return the transcript that finished entries are written to."""
        ...

    def changed(self) -> None:
        """Redraw soon, because something has changed."""
        ...

    async def ask_trust(self, folder: str) -> str | None:
        """Ask whether the user trusts a folder; return the resulting approval policy, if any."""
        ...

    async def welcome(self) -> None:
        """Greet the user in a new session, and help them choose a model if there is none."""
        ...

    def leave(self) -> None:
        """End the conversation and the program, also while a question is open."""
        ...

    # --- what the user enters ---------------------------------------------------------------------

    def submit(self, text: str, *, afterwards: bool = False, is_typed: bool = True) -> None:
        """Send what the user entered: a prompt, a command, or a shell line.

        Args:
            text: The text, including leading and trailing spaces.
            afterwards: Whether the text waits for the end of the run instead of steering it.
            is_typed: Whether the user typed the first character, so that it can mark a command.
                Text that begins with a pasted character is always a prompt.
        """
        ...

    def spawn(self, action: Callable[[], Awaitable[Any]]) -> None:
        """Start an async action that runs concurrently with everything else."""
        ...

    def remember_images(self, paths: Sequence[str]) -> None:
        """Remember that the user pasted images, given by their paths, into the sent text."""
        ...

    async def save_clipboard(self) -> str:
        """Save the image in the clipboard to a file, and return the file's path.

        Raises:
            UsageError: There is no such image.
        """
        ...

    def hold_keys(self) -> None:
        """Hold what the user types from now on, because it is meant for an editor that is opening.

        Each call is ended by a call of ``release_keys``.
        """
        ...

    def release_keys(self) -> None:
        """Stop holding keys, and return to the user what was typed in the meantime."""
        ...

    async def edit_draft(self, text: str) -> str:
        """Let the user edit text in an editor, and return the edited text."""
        ...

    # --- what the user sees -----------------------------------------------------------------------

    def commit(self, block: Block) -> None:
        """Write a finished block."""
        ...

    def show_keys(self) -> None:
        """Show the list of keys."""
        ...

    def show_bug(self, error: Exception) -> None:
        """Show an unexpected error with its traceback; the conversation continues."""
        ...

    def show_notice(self, text: str, seconds: float = 3.0) -> None:
        """Show a notice for a few seconds."""
        ...

    def call_attention(self, text: str) -> None:
        """Notify the user, if the terminal is in the background."""
        ...

    def give_back(self, texts: list[str], *, is_typed: bool = False) -> None:
        """Insert texts that the agent has not read into the user's draft again."""
        ...

    def open_full_view(self, view: FullView) -> None:
        """Show a text on the whole screen until the user closes it."""
        ...

    async def copy(self, text: str) -> str:
        """Copy text to the clipboard, and return how it was copied.

        Raises:
            UsageError: The text cannot be copied.
        """
        ...

    def lend(self) -> AbstractAsyncContextManager[None]:
        """Return a context in which another program may use the terminal."""
        ...

    # --- what waits for the user ------------------------------------------------------------------

    def note_waiting(self) -> None:
        """Request a new check of the items that wait for the user."""
        ...

    def show_waiting(self, items: Sequence[Item]) -> None:
        """Show the items that wait for the user."""
        ...

    def reopen_item(self, identity: str) -> None:
        """Show an item again, because its answer could not be delivered."""
        ...

    def end_edit(self, identity: str) -> None:
        """Let an item that was open in the user's editor be answered again."""
        ...
