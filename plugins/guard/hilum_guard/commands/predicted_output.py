"""Predict the output of a few commands whose words alone determine it.

`echo 'rm -rf /' | sh` must be judged by the command that the shell receives.
"""

from __future__ import annotations

import ast
import base64
import os
import re
from collections.abc import Callable
from itertools import takewhile

from hilum_guard.commands.shell_commands import ParsedCommand
from hilum_guard.commands.shell_words import UNKNOWN, resolve_escapes


def predict_output(command: ParsedCommand, name: str) -> str | None:
    """Return what a command prints, or None if unknown."""
    values = command.arguments
    if name in _SILENT:
        return ""
    # The output of these commands does not depend on unknown words.
    by_input = _BY_INPUT.get(name)
    if by_input is not None:
        return by_input(command, values)
    if any(not word.known or word.glob for word in command.words):
        return None
    if re.fullmatch(r"python[\d.]*", name) and len(values) == 2 and values[0] == "-c":
        return python_prints(values[1])
    by_words = _BY_WORDS.get(name)
    return by_words(values) if by_words is not None else None


def _predict_cat(command: ParsedCommand, values: list[str]) -> str | None:
    return None if values else command.stdin


def _predict_tee(command: ParsedCommand, values: list[str]) -> str | None:
    return command.stdin


def _predict_mktemp(command: ParsedCommand, values: list[str]) -> str | None:
    # The temporary path is certainly in /tmp only if TMPDIR does not change its folder.
    if command.assigned:
        return None
    in_folder = False
    templates = []
    for value in values:
        in_folder |= value == "-t"
        if not value.startswith("-"):
            templates.append(value)
        elif value not in _MKTEMP_OPTIONS:
            return None
    if not templates:
        return None if in_folder else f"/tmp/tmp.{UNKNOWN}\n"
    # On macOS, the word after `-t` is only the beginning of the name.
    name = re.sub(r"X{3,}", UNKNOWN, templates[0])
    if len(templates) > 1 or (in_folder and "/" in name):
        return None
    if in_folder:
        return f"/tmp/{name}{'' if UNKNOWN in name else UNKNOWN}\n"
    return f"{name}\n" if UNKNOWN in name else None


def _predict_pwd(command: ParsedCommand, values: list[str]) -> str | None:
    return command.cwd


def _predict_which(command: ParsedCommand, values: list[str]) -> str | None:
    # The program's name is used in place of its path: `$(which rm) -rf /` is `rm -rf /`.
    return values[-1] if values else None


def _predict_ls(command: ParsedCommand, values: list[str]) -> str | None:
    # A glob pattern stands for the names in the folder: `ls / | xargs rm -rf` deletes everything in
    # `/`.
    folders = [value for value in values if not value.startswith("-")] or ["."]
    lines = [f"{folder.rstrip('/')}/*" for folder in folders]
    # A pattern may match files, too, whose names `ls` prints.
    lines += [word.value for word in command.words[1:] if word.glob]
    return "\n".join(lines)


def _predict_nproc(command: ParsedCommand, values: list[str]) -> str | None:
    # The number of processors is the same for each command, so `make -j$(nproc)` names no target.
    if command.assigned or "/" in command.words[0].value:
        return None
    is_count = _COUNTS.fullmatch(" ".join(values)) is not None
    return f"{os.cpu_count() or 1}\n" if is_count else None


_COUNTS = re.compile(
    r"|--all|--ignore=\d+"  # of `nproc`
    r"|-n hw\.(?:ncpu|activecpu|(?:logical|physical)cpu(?:_max)?)"  # of `sysctl`
    r"|_NPROCESSORS_(?:CONF|ONLN)"  # of `getconf`
)


def _predict_base64(command: ParsedCommand, values: list[str]) -> str | None:
    # In older versions of macOS, `base64` has only `-D`.
    if not command.stdin or not {"-d", "-D", "--decode"}.intersection(values):
        return None
    try:
        return base64.b64decode(command.stdin).decode("utf-8", "replace")
    except ValueError:
        return None


def _predict_echo(values: list[str]) -> str | None:
    options = list(takewhile(re.compile(r"-[neE]+").fullmatch, values))
    text = " ".join(values[len(options) :]) + "\n"
    resolved = resolve_escapes(text)
    # The last option takes precedence.
    letters = re.sub("[-n]", "", "".join(options))
    if text == resolved or letters.endswith("E"):
        return text
    # Without an option, whether `echo` resolves escapes depends on the shell.
    return resolved if letters else None


def _predict_printf(values: list[str]) -> str | None:
    if not values:
        return None
    template = resolve_escapes(values[0])
    rest = values[1:]
    if template.count("%") != template.count("%s"):
        return None
    while "%s" in template:
        template = template.replace("%s", rest.pop(0) if rest else "", 1)
    return template + "".join(rest)


_MKTEMP_OPTIONS = frozenset("-d -q -t -dt -td --directory --quiet".split())
_SILENT = frozenset((":", "true", "exit", "wait", "sleep"))
_BY_INPUT: dict[str, Callable[[ParsedCommand, list[str]], str | None]] = {
    "cat": _predict_cat,
    "tee": _predict_tee,
    "mktemp": _predict_mktemp,
    "pwd": _predict_pwd,
    "which": _predict_which,
    "type": _predict_which,
    "ls": _predict_ls,
    **dict.fromkeys(("nproc", "sysctl", "getconf"), _predict_nproc),
    "base64": _predict_base64,
}
_BY_WORDS: dict[str, Callable[[list[str]], str | None]] = {
    "echo": _predict_echo,
    "printf": _predict_printf,
}


def python_prints(code: str) -> str | None:
    """Return the output of Python code that only prints literal text, or None for other code."""
    # Hostile code can make `ast.parse` exhaust the stack or the memory.
    try:
        statements = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    lines = [_get_printed_line(statement) for statement in statements]
    return None if None in lines else "".join(line for line in lines if line is not None)


def _get_printed_line(statement: ast.stmt) -> str | None:
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        return None
    if call.func.id != "print" or call.keywords:
        return None
    texts = []
    for argument in call.args:
        if not isinstance(argument, ast.Constant) or not isinstance(argument.value, str):
            return None
        texts.append(argument.value)
    return " ".join(texts) + "\n"
