"""The list of harmless commands, with the options and operands that keep them harmless.

A command with an unlisted option is not harmless: a program's new option needs approval until
somebody has checked what it does.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from hilum_guard.commands import harmless_git
from hilum_guard.commands.harmless_arguments import GLOB_AS_TEXT, find_argument_doubt, read_programs
from hilum_guard.commands.shell_commands import ParsedCommand, Redirect

PROGRAMS = read_programs("harmless")
_PLAIN_REDIRECTIONS = frozenset(("<", ">", ">>", ">|", "&>", "&>>"))
# Environment variables that change the appearance of output, but not what runs.
_HARMLESS_VARIABLES = re.compile(
    r"LANG|LANGUAGE|LC_[A-Z]+|NO_COLOR|FORCE_COLOR|CLICOLOR|COLUMNS|LINES|CI"
)


def find_doubt(command: ParsedCommand, writes: list[str]) -> str:
    """Return why a command is not harmless; empty if it is.

    Args:
        command: The command.
        writes: Receives the files that the command's redirections write.
    """
    for redirect in command.redirects:
        why = _find_redirect_doubt(command, redirect, writes)
        if why:
            return why
    if not all(map(_HARMLESS_VARIABLES.fullmatch, command.assigned)):
        return f"It sets {command.assigned[0]}, which may change what runs."
    return _find_words_doubt(command) if command.words else ""


def _find_redirect_doubt(command: ParsedCommand, redirect: Redirect, writes: list[str]) -> str:
    operator = redirect.operator
    # `2>&1` and `2>&-` do not name a file.
    if operator in {">&", "<&"} and re.fullmatch(r"\d|-", redirect.target.value):
        return ""
    if operator not in _PLAIN_REDIRECTIONS:
        return "It uses a complex redirection."
    if operator == "<":
        return command.checker.read_doubt(redirect.target, list(command.cwds))
    why, target = command.checker.write_doubt(redirect.target, list(command.cwds))
    if target and not why:
        writes.append(target)
    return why


def _find_words_doubt(command: ParsedCommand) -> str:
    first = command.words[0]
    if not first.plain or first.glob:
        return "Its program is known only at run time."
    if any(not word.plain for word in command.words):
        return "Some of its words are known only at run time."
    # A program outside /bin and /usr/bin may do anything, whatever its name is.
    name = re.sub(r"^/(usr/)?bin/", "", first.value)
    if command.wrapper:
        return "" if _is_harmless_wrapper(command, name) else _wraps(first.value)
    if name == "git":
        return harmless_git.find_doubt(command)
    special = _SPECIAL.get(name)
    if special:
        return special(command)
    known = PROGRAMS.get(name)
    if known is None:
        return f"`{first.value}` is not on the list of harmless commands."
    return find_argument_doubt(known, command, command.words[1:])


def _is_harmless_wrapper(command: ParsedCommand, name: str) -> bool:
    """Return whether `time`, `timeout` or `nice` only runs the command that follows."""
    values = command.arguments
    if name == "time":
        # The standalone program `time` has an option that writes a file.
        return re.match(r"(-p )?[^-]", " ".join(values[:2])) is not None
    first = values[0] if values else ""
    return name in {"timeout", "nice"} and re.fullmatch(r"\d+(\.\d+)?[smh]?", first) is not None


def _wraps(program: str) -> str:
    return f"`{program}` runs another command in a way that is not checked."


# --- programs with special syntax -----------------------------------------------------------------

# The list omits `-exec`, `-ok`, `-delete` and `-fprint`, which run programs, delete files or write
# files.
_FIND_FLAGS = frozenset(
    """-print -print0 -prune -not ! -o -or -a -and ( ) -depth -xdev -mount -empty -ls -quit
    -readable -writable -executable -daystart -noleaf -true -false -H -P , -nouser
    -nogroup""".split()
)
_FIND_VALUED = frozenset(
    """-name -iname -path -ipath -wholename -iwholename -regex -iregex -type -maxdepth -mindepth
    -size -mtime -mmin -atime -amin -ctime -cmin -perm -user -group -links -printf -regextype
    -inum -uid -gid -lname -xtype""".split()
)


def _check_find(command: ParsedCommand) -> str:
    words = command.words[1:]
    has_tests = False
    at = 0
    while at < len(words):
        word = words[at]
        text = word.value
        at += 1
        if word.glob and has_tests:
            return GLOB_AS_TEXT
        if text in _FIND_VALUED:
            has_tests = True
            if any(value.glob for value in words[at : at + 1]):
                return GLOB_AS_TEXT
            at += 1
        elif text in _FIND_FLAGS:
            has_tests = has_tests or text not in {"-H", "-P"}
        elif has_tests or text.startswith(("-", "(", "!", ",", ")")):
            return f"`find` with {text} is not on the list of harmless commands."
        else:
            why = command.checker.read_doubt(word, list(command.cwds))
            if why:
                return why
    return ""


def _check_cd(command: ParsedCommand) -> str:
    if len(command.words) != 2 or command.words[1].value.startswith("-"):
        return "The folder that it changes to is known only at run time."
    return command.checker.read_doubt(command.words[1], list(command.cwds))


def _check_set(command: ParsedCommand) -> str:
    values = command.arguments
    is_known = re.fullmatch(r"(-[euxo]+( pipefail)? ?)+", " ".join(values) + " ")
    sets_option = any(value.startswith("-") and "o" in value for value in values)
    if values and is_known and (not sets_option or "pipefail" in values):
        return ""
    return "It changes how the shell works."


def _check_command(command: ParsedCommand) -> str:
    return "" if command.arguments[:1] in (["-v"], ["-V"]) else _wraps("command")


def _check_version(command: ParsedCommand) -> str:
    if command.arguments in (["--version"], ["-V"]):
        return ""
    name = command.words[0].value
    return f"`{name}` runs programs, or is not on the list of harmless commands."


def _check_text_only(command: ParsedCommand) -> str:
    """Check `echo` and `test`; only `test` has dangerous options."""
    is_test = command.words[0].value != "echo"
    if is_test and not {"-v", "-R"}.isdisjoint(command.arguments):
        return "`test -v` runs the commands in the index of a variable."
    if any(word.glob for word in command.words):
        return GLOB_AS_TEXT
    return ""


def _check_env(command: ParsedCommand) -> str:
    return "It shows the environment, which may contain secrets."


_SPECIAL: dict[str, Callable[[ParsedCommand], str]] = {
    "find": _check_find,
    "cd": _check_cd,
    "set": _check_set,
    "command": _check_command,
    "env": _check_env,
    "printenv": _check_env,
    "echo": _check_text_only,
    "test": _check_text_only,
    **dict.fromkeys(
        "python python3 node bash gcc clang ruff uv make cmake docker".split(), _check_version
    ),
}
