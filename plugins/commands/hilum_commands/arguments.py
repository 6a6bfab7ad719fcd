"""The arguments that the user types after a command, and their places in its text."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

import attrs

from hilum_commands.template import WHOLE, Argument, FileReference, Part, Piece, ShellInsert

_NAMED = re.compile(r"([A-Za-z][\w.-]*)=(.*)", re.DOTALL)


@attrs.frozen
class Arguments:
    """What the user typed after a command.

    Attributes:
        text: The text as typed.
        words: The words of the text, without their quotes.
        named: The values of words such as ``FILE=src/a.py``.
        rest_from: The number of the place that takes all remaining words; 0 for none.
        inputs: The names of the places ``${input:name}``, in order.
    """

    text: str
    words: tuple[str, ...]
    named: dict[str, str]
    rest_from: int = 0
    inputs: tuple[str, ...] = ()

    def find(self, place: Argument) -> str:
        """Return the text for a place; empty if the user typed none."""
        if place.key == WHOLE:
            return self.text
        if place.is_input:
            return self._find_input(place.key)
        if not place.key.isdigit():
            return self.named.get(place.key, "")
        number = int(place.key)
        if number == self.rest_from:
            return " ".join(self.words[number - 1 :])
        return self.words[number - 1] if number <= len(self.words) else ""

    def find_words(self, place: Argument) -> tuple[str, ...]:
        """Return the words for a place, as they are quoted one by one in a shell command."""
        if place.key == WHOLE:
            return self.words
        if place.key.isdigit() and int(place.key) == self.rest_from:
            return self.words[self.rest_from - 1 :]
        value = self.find(place)
        return (value,) if value else ()

    def _find_input(self, name: str) -> str:
        if name in self.named:
            return self.named[name]
        if len(self.inputs) == 1:
            return self.text
        free = [each for each in self.inputs if each not in self.named]
        words = [word for word in self.words if not self._is_named(word)]
        index = free.index(name)
        # The last place takes the remaining words, because users write sentences without quotes.
        if index == len(free) - 1:
            return " ".join(words[index:])
        return words[index] if index < len(words) else ""

    def find_unused(self, places: Iterable[Argument]) -> list[str]:
        """Return the words for which a command has no place.

        Args:
            places: All places of the command. Without any, the words follow its text.
        """
        keys = {place.key for place in places}
        if not keys or WHOLE in keys or self.inputs or self.rest_from:
            return []
        return [
            word
            for number, word in enumerate(self.words, 1)
            if str(number) not in keys and not self._is_named(word)
        ]

    def _is_named(self, word: str) -> bool:
        match = _NAMED.fullmatch(word)
        return match is not None and match[1] in self.named


def read_arguments(text: str, pieces: Sequence[Piece], *, last_takes_rest: bool) -> Arguments:
    """Return the arguments in a text for the places of a command.

    Args:
        text: What the user typed after the command.
        pieces: The pieces of the command's text.
        last_takes_rest: Whether the highest numbered place takes all remaining words.
    """
    typed = text.strip()
    try:
        words = shlex.split(typed)
    except ValueError:
        # Users write apostrophes without thinking of quotes.
        words = typed.split()
    places = list(find_places(pieces))
    names = {place.key for place in places}
    named = {}
    for word in words:
        match = _NAMED.fullmatch(word)
        if match is not None and match[1] in names:
            named[match[1]] = match[2]
    numbers = [int(place.key) for place in places if place.key.isdigit()]
    inputs = [place.key for place in places if place.is_input]
    return Arguments(
        typed,
        tuple(words),
        named,
        max(numbers, default=0) if last_takes_rest else 0,
        tuple(dict.fromkeys(inputs)),
    )


def find_places(pieces: Iterable[Piece]) -> Iterable[Argument]:
    """Yield the places for arguments, those in shell inserts and file references included."""
    for piece in pieces:
        if isinstance(piece, Argument):
            yield piece
        elif isinstance(piece, ShellInsert | FileReference):
            yield from (part for part in piece.parts if isinstance(part, Argument))


def fill_text(parts: Iterable[Part], arguments: Arguments) -> str:
    """Return parts as text, with the arguments as the user typed them."""
    return "".join(arguments.find(part) if isinstance(part, Argument) else part for part in parts)
