"""Lists the texts that are contained in the words of commands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from hilum_checks.code_texts import join_literals
from hilum_checks.command_facts import CommandFacts


def list_texts(commands: Iterable[CommandFacts]) -> Iterator[str]:
    """Yield the texts that commands may write: their words, and what the words mean to programs."""
    for command in commands:
        yield from command.words
        yield from _as_printed(command.words)
        yield command.command.stdin or ""
        # Concatenated literal text, in code and in words.
        for code in (*command.effects.code, *command.words[1:]):
            yield join_literals(code)


def _as_printed(words: Sequence[str]) -> Iterator[str]:
    """Yield the words of a command with their escapes, and what `printf` makes of them."""
    plain = [_ESCAPE.sub(_read_escape, word) for word in words]
    yield from (new for new, word in zip(plain, words, strict=True) if new != word)
    if plain[:1] == ["printf"]:
        values = iter(plain[2:])
        yield _DIRECTIVE.sub(lambda _: next(values, ""), "".join(plain[1:2]))


_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|0?([0-7]{1,3})|n|t)")
_DIRECTIVE = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?[bsdiuxXocq]")


def _read_escape(escape: re.Match[str]) -> str:
    if escape[1] or escape[2]:
        return chr(int(escape[1] or escape[2], 16))
    return chr(int(escape[3], 8)) if escape[3] else {"n": "\n", "t": "\t"}[escape[0][1]]
