"""The protocol through which commands and questions use a conversation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import attrs

from hilum_terminal.styles import Style, Theme

if TYPE_CHECKING:
    from hilum import HilumError, Session
    from hilum_view import SessionView


@attrs.frozen
class Choice:
    """An option that the user can choose.

    Attributes:
        value: The value that the choice represents.
        label: Text of the choice.
        hint: A remark next to the label.
        preview: Text to show while the choice is selected, or a function that returns this text.
    """

    value: object
    label: str
    hint: str = ""
    preview: Callable[[], str] | str = ""


@attrs.frozen
class CommandOutput:
    """The output of a ``hilum`` command.

    Attributes:
        code: Exit code of the command.
        out: Standard output of the command.
        err: Standard error of the command.
    """

    code: int
    out: str
    err: str


class Asker(Protocol):
    """The part of a conversation that tells the user something and asks questions.

    ``Chat`` and the faces implement it, so that a question can be asked before a session is open.
    """

    def say(self, text: str, *, style: Style = "plain") -> None:
        """Write text above the input."""

    def show_error(self, error: HilumError) -> None:
        """Show an error with its code and hint."""

    async def choose(
        self,
        title: str,
        choices: Sequence[Choice],
        *,
        selected: int = 0,
        empty: str = "",
        has_filter: bool = True,
    ) -> Choice | None:
        """Let the user choose.

        Args:
            title: Title of the list of choices.
            choices: The choices, in display order.
            selected: Index of the choice that is selected at first.
            empty: The text to show if there are no choices.
            has_filter: Whether typed text filters the choices. A decision about security has no
                filter: only the arrow keys or a number, and then Enter, choose.

        Returns:
            The choice; ``None`` if the user pressed Esc or if there are no choices.
        """

    async def confirm(self, question: str, *, yes: str, no: str = "No", details: str = "") -> bool:
        """Ask a yes-or-no question; "no" is selected."""
        ...

    async def ask(self, question: str, *, default: str = "", secret: bool = False) -> str | None:
        """Ask for a line of text; return ``None`` if the user pressed Esc."""


class Chat(Asker, Protocol):
    """A conversation, as seen by commands.

    Text that is passed to a method may be untrusted; the conversation escapes it for the terminal.
    Functions that return rows must escape it themselves, with ``escape_text``.

    Attributes:
        session: The open session; another one after ``reopen``.
        view: The current view of the session.
    """

    @property
    def session(self) -> Session:
        """The open session."""
        ...

    @property
    def view(self) -> SessionView:
        """The view of the session's events."""
        ...

    @property
    def has_keys(self) -> bool:
        """Whether single keys have a meaning, unlike in plain lines."""
        ...

    def say_markdown(self, text: str) -> None:
        """Write Markdown above the input."""

    def say_rows(self, make_rows: Callable[[int, Theme], list[str]]) -> None:
        """Write rows that are laid out for the current width."""

    async def edit(self, text: str, suffix: str = ".md") -> str:
        """Let the user edit text in an editor, and return the edited text."""
        ...

    async def run_hilum(self, arguments: Sequence[str]) -> CommandOutput:
        """Run a ``hilum`` command as a child process in the session's folder, without input."""
        ...

    async def reopen(self, *, resume: str = "", draft: str = "", same: bool = False) -> None:
        """Close this session and open another one in its place.

        Args:
            resume: Id of the session to open; empty for a new one. Runs that were interrupted when
                that session was closed are not continued.
            draft: Text to insert into the input.
            same: Whether the other session keeps the mode, model and policy of this one.

        Raises:
            HilumError: The other session cannot be opened. This one is open again.
        """

    async def continue_run(self) -> None:
        """Continue the last run if it was cut off, stopped or failed."""

    async def copy(self, text: str) -> str:
        """Copy text to the user's clipboard, and return how it was copied.

        Raises:
            UsageError: The text cannot be copied.
        """
        ...

    def set_draft(self, text: str) -> None:
        """Insert text into the input."""

    def quit(self) -> None:
        """End the program."""
