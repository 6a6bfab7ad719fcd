"""The questions of ``hilum import`` at a terminal. Only the answers that they name are decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import attrs
from hilum.command import ask_line
from hilum.foreign_files import ForeignFile, Offer

from hilum_cli.terminal import Out, escape_terminal

MAX_LISTED = 40
"""Maximum number of entries to list in one question."""
QUIT = "q"


class QuitError(Exception):
    """The user wants to decide about nothing more."""


@attrs.frozen
class Questions:
    """Asks about the entries of one file after another.

    Attributes:
        out: Where messages are printed.
        describe: Returns an entry as one line.
    """

    out: Out
    describe: Callable[[Offer], str]

    def ask_about(self, file: ForeignFile, offers: Sequence[Offer]) -> Iterator[Offer]:
        """Yield the entries of a file that the user accepts.

        All harmless ones are asked about together or one by one; the others are always asked about
        alone.

        Args:
            file: The file.
            offers: Its entries.

        Raises:
            QuitError: The user typed ``q`` or closed the input.
        """
        harmless = [offer for offer in offers if not offer.danger]
        each_alone = True
        if len(harmless) > 1:
            rows = [f"  {self.describe(offer)}" for offer in harmless[:MAX_LISTED]]
            if len(harmless) > MAX_LISTED:
                rows.append(f"  … and {len(harmless) - MAX_LISTED} more; [e]ach shows them")
            head = f"Take over {len(harmless)} entries of {file.path}?"
            question = "\n".join([head, *rows, "[a]ll, [e]ach, [n]one, [q]uit: "])
            answers = {"a": "all", "e": "each", "n": "none"}
            answer = self._ask(question, answers)
            each_alone = answer == "e"
            if answer == "a":
                yield from harmless
        if each_alone:
            for offer in harmless:
                question = f"Take over {self.describe(offer)}? [y]es, [n]o, [q]uit: "
                if self._ask(question, {"y": "yes", "n": "no"}) == "y":
                    yield offer
        for offer in offers:
            if offer.danger and self._ask_in_full(offer):
                yield offer

    def _ask_in_full(self, offer: Offer) -> bool:
        """Ask about a dangerous entry with all that is taken over."""
        rows = [f"Take over {self.describe(offer)}?", *(f"  {row}" for row in offer.details)]
        choice = "Type the whole word yes, or [n]o, [q]uit: "
        question = "\n".join([*rows, choice]) if offer.details else f"{rows[0]} {choice}"
        # A whole word, because an answer that was meant for the next question must not count.
        return self._ask(question, {"yes": "yes", "n": "no"}) == "yes"

    def _ask(self, question: str, answers: dict[str, str]) -> str:
        """Ask until the user gives one of some answers; return its key.

        Raises:
            QuitError: The user wants to quit.
        """
        while True:
            typed = ask_line(question, QUIT).casefold()
            if typed in (QUIT, "quit"):
                raise QuitError
            for key, word in answers.items():
                if typed in (key, word):
                    return key
            # Only the whole word counts: "abort" does not mean "all".
            if typed:
                text = f"'{typed}' is none of these answers; nothing was decided."
                self.out.say(escape_terminal(text))
