"""What commands and questions may ask of the conversation that shows them."""

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
    """One answer to choose.

    Attributes:
        value: What the choice stands for.
        label: Its text.
        hint: A remark beside it.
        preview: A text to show while it is selected, or a function that makes the text.
    """

    value: object
    label: str
    hint: str = ""
    preview: Callable[[], str] | str = ""


@attrs.frozen
class CommandOutput:
    """The output of a ``hilum`` command.

    Attributes:
        code: Its exit code.
        out: Its standard output.
        err: Its standard error.
    """

    code: int
    out: str
    err: str


class Chat(Protocol):
    """A conversation, as commands use it.

    All texts may contain foreign text; the conversation makes them harmless for the terminal.
    Functions that make rows do so themselves, with ``neutral``.

    Attributes:
        session: The open session; another one after ``reopen``.
        view: The view of that session, which is up to date.
    """

    @property
    def session(self) -> Session:
        """The open session."""
        ...

    @property
    def view(self) -> SessionView:
        """The view of its events."""
        ...

    def say(self, text: str, *, style: Style = "plain") -> None:
        """Write text above the input."""

    def say_markdown(self, text: str) -> None:
        """Write Markdown above the input."""

    def say_rows(self, make_rows: Callable[[int, Theme], list[str]]) -> None:
        """Write rows that are made for the current width."""

    def fail(self, error: HilumError) -> None:
        """Write an error with its code and hint."""

    async def choose(
        self, title: str, choices: Sequence[Choice], *, selected: int = 0, empty: str = ""
    ) -> Choice | None:
        """Let the user choose.

        Args:
            title: What is chosen.
            choices: The choices, in their order.
            selected: Index of the choice that Enter takes at first.
            empty: The text to show if there are no choices.

        Returns:
            The choice; ``None`` if the user left with Esc, or if there are no choices.
        """

    async def confirm(self, question: str, *, yes: str, no: str = "No", details: str = "") -> bool:
        """Ask a question; "no" is selected."""
        ...

    async def ask(self, question: str, *, default: str = "", secret: bool = False) -> str | None:
        """Ask for a line of text; ``None`` if the user left with Esc."""

    async def edit(self, text: str, suffix: str = ".md") -> str:
        """Let the user edit a text in their editor."""
        ...

    async def run_hilum(self, arguments: Sequence[str]) -> CommandOutput:
        """Run a ``hilum`` command as a child process, in the session's folder and without input."""
        ...

    async def reopen(self, *, resume: str = "", draft: str = "", same: bool = False) -> None:
        """Close this session and open another one in its place.

        Args:
            resume: Id of the session to open; a new one by default. What it was doing when it was
                closed is not continued.
            draft: Text to put into the input.

        Raises:
            HilumError: The other session cannot be opened; this one is still open.
        """

    async def continue_run(self) -> None:
        """Continue the run that was cut off, stopped or failed."""

    async def copy(self, text: str) -> None:
        """Put text into the user's clipboard, as far as the terminal allows it."""

    def set_draft(self, text: str) -> None:
        """Put text into the input."""

    def quit(self) -> None:
        """End the program."""
