"""A conversation for tests of commands: a real session, and a user who answers from a list."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from hilum import HilumError
from hilum.testing import Bench, open_bench
from hilum_terminal.chat_protocol import Choice, CommandOutput
from hilum_terminal.slash import run_command
from hilum_terminal.styles import PLAIN, Style, Theme
from hilum_terminal.text_width import cells
from hilum_view import SessionView

WIDTH = 80


class FakeChat:
    """A ``Chat`` that records what is said, and answers questions from ``answers``.

    An answer to ``choose`` is a text that the chosen label contains, ``None`` for Esc, or a number:
    the index of the choice. Without a further answer, Enter is pressed.
    """

    def __init__(self, bench: Bench, stack: AsyncExitStack) -> None:
        self.bench = bench
        self.session = bench.session
        self.answers: list[Any] = []
        self.outputs: list[CommandOutput] = []
        self.said: list[str] = []
        self.errors: list[HilumError] = []
        self.questions: list[tuple[str, list[Choice]]] = []
        self.details: list[str] = []
        self.commands: list[list[str]] = []
        self.copied: list[str] = []
        self.draft = ""
        self.has_quit = False
        self.has_keys = True
        self._stack = stack
        self._seen = SessionView()

    # --- the protocol -----------------------------------------------------------------------------

    @property
    def view(self) -> SessionView:
        """The view, which has applied every event."""
        while page := self.session.journal.since(self._seen.seq):
            self._seen.apply_all(page)
        return self._seen

    def say(self, text: str, *, style: Style = "plain") -> None:
        self.said.append(text)

    def say_markdown(self, text: str) -> None:
        self.said.append(text)

    def say_rows(self, make_rows: Callable[[int, Theme], list[str]]) -> None:
        for width in (20, 60, 200):
            rows = make_rows(width, Theme("truecolor"))
            wide = [row for row in rows if cells(row) > width or "\n" in row]
            assert not wide, (width, wide)
        self.said.append("\n".join(make_rows(WIDTH, PLAIN)))

    def show_error(self, error: HilumError) -> None:
        self.errors.append(error)

    async def choose(
        self,
        title: str,
        choices: Sequence[Choice],
        *,
        selected: int = 0,
        empty: str = "",
        has_filter: bool = True,
    ) -> Choice | None:
        self.questions.append((title, list(choices)))
        if not choices:
            self.said.append(empty)
            return None
        for choice in choices:
            assert isinstance(choice.preview if not callable(choice.preview) else "", str)
        answer = self.answers.pop(0) if self.answers else selected
        if answer is None:
            return None
        if isinstance(answer, int):
            return choices[answer]
        return next(choice for choice in choices if answer in choice.label)

    async def confirm(self, question: str, *, yes: str, no: str = "No", details: str = "") -> bool:
        self.questions.append((question, [Choice(False, no), Choice(True, yes)]))
        self.details.append(details)
        return bool(self.answers.pop(0)) if self.answers else False

    async def ask(self, question: str, *, default: str = "", secret: bool = False) -> str | None:
        self.questions.append((question, []))
        answer: str | None = self.answers.pop(0) if self.answers else default
        return answer

    async def edit(self, text: str, suffix: str = ".md") -> str:
        return text

    async def run_hilum(self, arguments: Sequence[str]) -> CommandOutput:
        self.commands.append(list(arguments))
        return self.outputs.pop(0) if self.outputs else CommandOutput(0, "fine\n", "")

    async def reopen(self, *, resume: str = "", draft: str = "", same: bool = False) -> None:
        kernel = self.session.kernel
        await self._stack.aclose()
        opened = kernel.open_session(self.bench.workspace, resume=resume, approve="auto")
        self.session = await self._stack.enter_async_context(opened)
        self._seen = SessionView()
        self.draft = draft

    async def copy(self, text: str) -> str:
        self.copied.append(text)
        return "somewhere"

    def set_draft(self, text: str) -> None:
        self.draft = text

    def quit(self) -> None:
        self.has_quit = True

    # --- for tests --------------------------------------------------------------------------------

    async def type(self, text: str, *answers: Any) -> str:
        """Type a command and answer its questions; return what it says."""
        self.answers = list(answers)
        self.said.clear()
        self.errors.clear()
        assert await run_command(self, text)
        assert not self.answers, f"{text} did not ask for {self.answers}"
        return "\n".join(self.said)

    @property
    def error(self) -> str:
        """The last error with its hint; empty if there is none."""
        if not self.errors:
            return ""
        return f"{self.errors[-1].code}: {self.errors[-1].message} {self.errors[-1].hint}"

    def labels(self, question: int = -1) -> list[str]:
        """The choices of a question, each with its hint."""
        _, choices = self.questions[question]
        return [f"{choice.label} · {choice.hint}".rstrip(" ·") for choice in choices]


@asynccontextmanager
async def open_chat(*plugins: Any, **options: Any) -> AsyncIterator[FakeChat]:
    """Open a bench and a conversation in it, whose session can be replaced."""
    async with open_bench(*plugins, **options) as bench:
        first = bench.session
        # The bench keeps its own session open, so the conversation opens another one.
        async with AsyncExitStack() as stack:
            chat = FakeChat(bench, stack)
            opened = bench.kernel.open_session(first.workspace.root, approve="auto")
            chat.session = await stack.enter_async_context(opened)
            yield chat
