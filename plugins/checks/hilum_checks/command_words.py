"""List the texts that are contained in the words of commands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile

from hilum_checks import copied_texts
from hilum_checks.code_texts import join_literals
from hilum_checks.command_facts import CommandFacts


def list_texts(commands: Iterable[CommandFacts]) -> Iterator[str]:
    """Yield the texts that commands may write: their words, and what the words mean to programs."""
    commands = list(commands)
    # Several commands may print a text in pieces: `{ printf console; echo ".log(1)"; } > a.ts`.
    yield "".join(list_outputs(commands, with_files=False))
    for command in commands:
        yield from command.words
        yield from _as_printed(command.words)
        yield command.command.stdin or ""
        # Concatenated literal text, in code and in words.
        for code in (*command.effects.code, *command.words[1:]):
            yield join_literals(code)


_COPIERS = frozenset("cat cp dd gcat gcp head install mv tail tee".split())


def list_outputs(commands: Iterable[CommandFacts], *, with_files: bool = True) -> Iterator[str]:
    """Yield the texts that commands print or copy, in their order. Reads the disk.

    Args:
        commands: The commands.
        with_files: Whether to include the texts of files.
    """
    for command in commands:
        program, *words = command.words or ("",)
        if program == "echo":
            plain = [_ESCAPE.sub(_read_escape, word) for word in words]
            options = list(takewhile(re.compile(r"-[neE]+").fullmatch, plain))
            ending = "" if any("n" in option for option in options) else "\n"
            yield " ".join(plain[len(options) :]) + ending
        elif program == "printf":
            yield from _print_formatted([_ESCAPE.sub(_read_escape, word) for word in words])
        elif program in _COPIERS:
            yield command.command.stdin or ""
            if with_files:
                yield from copied_texts.read_inputs(command)


def _print_formatted(words: Sequence[str]) -> Iterator[str]:
    """Yield what `printf` prints."""
    values = iter(words[1:])
    yield _DIRECTIVE.sub(lambda _: next(values, ""), "".join(words[:1]))


def _as_printed(words: Sequence[str]) -> Iterator[str]:
    """Yield the words of a command with their escapes, and what `printf` makes of them."""
    plain = [_ESCAPE.sub(_read_escape, word) for word in words]
    yield from (new for new, word in zip(plain, words, strict=True) if new != word)
    if plain[:1] == ["printf"]:
        yield from _print_formatted(plain[1:])


_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|0?([0-7]{1,3})|n|t)")
_DIRECTIVE = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?[bsdiuxXocq]")


def _read_escape(escape: re.Match[str]) -> str:
    if escape[1] or escape[2]:
        return chr(int(escape[1] or escape[2], 16))
    return chr(int(escape[3], 8)) if escape[3] else {"n": "\n", "t": "\t"}[escape[0][1]]
