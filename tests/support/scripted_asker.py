"""A conversation that answers the questions of the program as a test tells it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
from hilum import HilumError, Session
from hilum_terminal.chat_protocol import Choice


@attrs.define
class ScriptedAsker:
    """Answers questions in order.

    Attributes:
        session: The session.
        answers: For a choice: the beginning of a label, or None for Esc. For a text: the text.
            A function is called, and what it returns is the answer.
        said: Everything that was said, and the errors.
        errors: The errors.
        questions: The titles of all questions.
        offered: The labels of each choice.
        selected: The label that was selected at first, for each choice.
        secrets: Whether the text was hidden, for each question for a text.
    """

    session: Session = None  # type: ignore[assignment]
    answers: list[str | Callable[[], str | None] | None] = attrs.field(factory=list)
    said: list[str] = attrs.field(factory=list)
    errors: list[HilumError] = attrs.field(factory=list)
    questions: list[str] = attrs.field(factory=list)
    offered: list[list[str]] = attrs.field(factory=list)
    selected: list[str] = attrs.field(factory=list)
    previews: list[str] = attrs.field(factory=list)
    secrets: list[bool] = attrs.field(factory=list)

    @property
    def text(self) -> str:
        """Everything that was shown."""
        shown = [*self.said, *self.questions, *self.previews]
        for labels in self.offered:
            shown += labels
        return "\n".join(shown)

    def say(self, text: str, *, style: str = "plain") -> None:
        self.said.append(text)

    def show_error(self, error: HilumError) -> None:
        self.errors.append(error)
        self.said.append(f"{error.code} {error.message} {error.hint}")

    def _answer(self) -> str | None:
        answer = self.answers.pop(0)
        return answer() if callable(answer) else answer

    async def choose(
        self,
        title: str,
        choices: Sequence[Choice],
        *,
        selected: int = 0,
        empty: str = "",
        has_filter: bool = True,
    ) -> Choice | None:
        self.questions.append(title)
        self.offered.append([f"{choice.label} {choice.hint}".strip() for choice in choices])
        self.selected.append(choices[selected].label)
        for choice in choices:
            preview = choice.preview() if callable(choice.preview) else choice.preview
            self.previews.append(preview)
        answer = self._answer()
        if answer is None:
            return None
        if answer == "ENTER":
            return choices[selected]
        (found,) = [choice for choice in choices if choice.label.startswith(answer)]
        return found

    async def ask(self, question: str, *, default: str = "", secret: bool = False) -> str | None:
        self.questions.append(question)
        self.secrets.append(secret)
        return self._answer()
