"""Tell the texts in code from the code itself, which runs and is written to no file.

``open("a.py", "w").write("x = 1"); print("done")`` writes ``x = 1``; its own ``print`` is no text.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

import attrs
from hilum_guard import UNKNOWN

from hilum_checks.code_operations import find_language
from hilum_checks.code_reads import MAX_CODE
from hilum_checks.code_remarks import find_strings
from hilum_checks.code_texts import join_literals
from hilum_checks.command_facts import CommandFacts
from hilum_checks.sed_scripts import find_added_texts

# With one of these, code may read its own text.
_READS_ITSELF = re.compile(
    r"getsource|\binspect\b|/proc\b|orig_argv|__file__|\b__loader__|cmdline|toString|arguments\.callee"
    r"|\bunparse\b|_getframe|execArgv|__filename"
)
# A quoted word of shell text.
_QUOTED = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*)\"""", re.DOTALL)
_SHELL_ESCAPE = re.compile(r"\\([\\\"$`])|\\\n")


def show_literals(commands: Iterable[CommandFacts]) -> tuple[list[CommandFacts], dict[str, str]]:
    """Return commands with the literal texts of their code in place of the code.

    Code that is not certainly understood stays as it is.

    Args:
        commands: The commands of a call.

    Returns:
        The commands, and the texts by the code that they replace.
    """
    commands = list(commands)
    texts = find_added_texts(commands)
    for command in commands:
        language = find_language(command.effects.program)
        for code in command.effects.code if language else ():
            found = _list_literals(code, language)
            if found is not None:
                texts[code] = "\n".join(found)
    return ([_replace(command, texts) for command in commands] if texts else commands), texts


def replace_code(text: str, texts: dict[str, str]) -> str:
    """Return shell text with literal texts in place of the code that it contains.

    Args:
        text: The shell text.
        texts: The texts by the code that they replace.
    """
    if not texts:
        return text

    def replace(quoted: re.Match[str]) -> str:
        code = quoted[1]
        if code is None:
            code = _SHELL_ESCAPE.sub(lambda escape: escape[1] or "", quoted[2])
        return texts.get(code, quoted[0])

    text = _QUOTED.sub(replace, text)
    for code, literals in texts.items():
        if "\n" in code:  # a here-document
            text = text.replace(code, f"{literals}\n")
    return text


def _replace(command: CommandFacts, texts: dict[str, str]) -> CommandFacts:
    stdin = command.command.stdin
    return attrs.evolve(
        command,
        command=attrs.evolve(
            command.command,
            words=tuple(texts.get(word, word) for word in command.words),
            stdin=texts.get(stdin, stdin) if stdin else stdin,
        ),
        effects=attrs.evolve(
            command.effects, code=tuple(texts.get(code, code) for code in command.effects.code)
        ),
    )


@lru_cache(128)
def _list_literals(code: str, language: str) -> tuple[str, ...] | None:
    """Return the texts that code contains; ``None`` if they are not certain."""
    if len(code) > MAX_CODE or UNKNOWN in code or _READS_ITSELF.search(code):
        return None
    if language == "py":
        try:
            return tuple(_find_texts(ast.parse(code)))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
    found = find_strings(code, language)
    # The joined code contains the texts that literals form together.
    joined = find_strings(join_literals(code), language)
    return None if found is None else (*found, *(joined or ()))


def _find_texts(node: ast.AST) -> Iterator[str]:
    """Yield the literal texts in a tree, and those that they form together."""
    whole = _join(node)
    if whole is not None:
        yield whole
    for child in ast.iter_child_nodes(node):
        yield from _find_texts(child)


def _join(node: ast.AST) -> str | None:
    """Return the text of a literal, or of several that are added; ``None`` if it is none."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bytes):
            return node.value.decode("latin-1")
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [_join(node.left), _join(node.right)]
        return None if None in parts else "".join(map(str, parts))
    if isinstance(node, ast.JoinedStr):
        return "".join(_join(part) or UNKNOWN for part in node.values)
    return _join(node.value) if isinstance(node, ast.FormattedValue) else None
